// How exact figures are: words and order as the server has them.

/** By the value of the series of exactness. */
export const degrees = ["exact", "at least", "estimated", "modelled", "at most"];
/** How exact a figure is that depends on two others. */
export function worse(a = "exact", b = "exact"): string {
  if (a === b || b === "exact") return a;
  return a === "exact"
    ? b
    : (["modelled", "at most"].find((x) => x === a || x === b) ?? "estimated");
}

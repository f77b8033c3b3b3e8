// The order of people and workloads by what a page is about, and the share of one person in them.
import type { Rank } from "./ranked";
import type { What } from "./users";

/** What was used and what was allocated and not used, of one row; energy is never allocated. */
const sizeOf = (r: Rank, what: What) =>
  what === "energy"
    ? (r.joules ?? -1)
    : what === "gpu"
      ? (r.gpu ?? 0) + (r.gpuWasted ?? 0)
      : r.used + (r.wasted ?? 0);

/** The rows, the largest of the measure first; of equal ones who used most processor time. */
export const byMeasure = (rows: Rank[], what: What) =>
  [...rows].sort(
    (a, b) => sizeOf(b, what) - sizeOf(a, what) || sizeOf(b, "cpu") - sizeOf(a, "cpu"),
  );

/** What one person used, and was allocated and did not use, in core or GPU seconds; null where nothing was allocated. */
export function ownOf(rows: Rank[], name: string, what: What) {
  const own = rows.filter((r) => r.name === name || r.owner === name),
    wasted = own.map((r) => (what === "gpu" ? r.gpuWasted : r.wasted)).filter((v) => v !== null);
  return {
    used: own.reduce((a, r) => a + ((what === "gpu" ? r.gpu : r.used) ?? 0), 0),
    wasted: wasted.length ? wasted.reduce((a, v) => a + v, 0) : null,
  };
}

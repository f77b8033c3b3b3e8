// What the figures of a node come to: which of its pressures is the worst, in which state it is.
import type { Node } from "./types";
import { human, known } from "./units";

export interface Pressure {
  share: number;
  of: string;
  all: string;
}

/** The worst of the shares of time in which tasks waited; null where the kernel tells none. */
export function pressure(
  n: Pick<Node, "cpu_pressure" | "memory_pressure" | "io_pressure">,
): Pressure | null {
  const have = (
    [
      ["CPU", n.cpu_pressure],
      ["memory", n.memory_pressure],
      ["storage", n.io_pressure],
    ] as const
  ).flatMap(([of, v]) => (known(v) ? [{ of, v }] : []));
  if (have.length === 0) return null;
  const worst = have.reduce((a, b) => (b.v > a.v ? b : a));
  return {
    share: worst.v,
    of: worst.of,
    all:
      "share of time in which some task waited for " +
      have.map((x) => `${x.of} ${human(x.v, "ratio")}`).join(", "),
  };
}

/** One word or two for a node, and why. */
export function stateOfNode(n: Node): { word: string; why: string; bad: boolean } {
  const b = n.batch,
    why = b?.reason ?? "";
  const word = b
    ? [b.state, ...(b.flags ?? []).filter((f) => !b.state.includes(f))].join(" ")
    : n.up
      ? "up"
      : "down";
  if (n.agent === false)
    return {
      word,
      why: [why, "no agent measures it"].filter(Boolean).join("; "),
      bad: !n.up || (!!b && !b.open),
    };
  return {
    word: !n.up && b ? (b.open ? `silent (${word})` : word) : word,
    why,
    bad: !n.up || (!!b && !b.open),
  };
}

/** Order by a key, - for descending; what is not known comes last either way. */
export function sorted(list: Node[], by: string): Node[] {
  const key = by.replace(/^-/, ""),
    sign = by.startsWith("-") ? -1 : 1;
  const share = (v: unknown, w: unknown) => (known(v) && known(w) && w > 0 ? v / w : null);
  const places: Record<string, (n: Node) => unknown> = {
    used: (n) => share(n.cores_used, n.cores),
    memory: (n) => share(n.memory_used_bytes, n.memory_bytes),
    held: (n) => share(n.batch?.cores_held, n.batch?.cores),
    pressure: (n) => pressure(n)?.share,
    day: (n) => n.day?.cpu_share,
    week: (n) => n.week?.cpu_share,
    unused: (n) => n.day?.unused_core_seconds,
    waiting: (n) => n.waiting?.jobs,
    state: (n) => stateOfNode(n).word,
    gpus: (n) => n.gpus,
    gpus_used: (n) => n.gpus_used,
  };
  const of = (n: Node): unknown =>
    places[key] ? places[key](n) : (n as unknown as Record<string, unknown>)[key];
  return [...list].sort((a, b) => {
    const x = of(a),
      y = of(b),
      no = (v: unknown) => v === null || v === undefined;
    if (no(x) || no(y)) return no(x) === no(y) ? 0 : no(x) ? 1 : -1;
    return (
      sign *
      (typeof x === "number"
        ? x - (y as number)
        : String(x).localeCompare(String(y), undefined, { numeric: true }))
    );
  });
}

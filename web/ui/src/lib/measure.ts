// What a page is about, CPU, GPUs or energy: its figures in a row, the order of rows, means, and the time before.
import type { Rank } from "./ranked";
import type { Row } from "./stack";
import { known } from "./units";
import type { Use, What } from "./users";

/** What was used and what was allocated and not used, of one row, in seconds or joules; null is not measured. */
export const figuresOf = (r: Rank, what: What): { used: number | null; wasted: number | null } =>
  what === "energy"
    ? { used: r.joules, wasted: null } // energy is never allocated
    : what === "gpu"
      ? { used: r.gpu, wasted: r.gpuWasted }
      : { used: r.used, wasted: r.wasted };
/** The unit of these figures in a column. */
export const cellOf: Record<What, string> = { cpu: "core-h", gpu: "core-h", energy: "joules" };

/** What a row counts for in the order. */
export const sizeOf = (r: Rank, what: What) => {
  const f = figuresOf(r, what);
  return (f.used ?? 0) + (f.wasted ?? 0);
};

/** The rows that have something of the measure, the largest first; of equal ones who used most processor time. */
export const byMeasure = (rows: Rank[], what: What) =>
  rows
    .filter((r) => sizeOf(r, what) > 0)
    .sort((a, b) => sizeOf(b, what) - sizeOf(a, what) || sizeOf(b, "cpu") - sizeOf(a, "cpu"));

/** What one person used, and was allocated and did not use, in seconds or joules; null where nothing measured or allocated it. */
export function ownOf(rows: Rank[], name: string, what: What) {
  const own = rows
      .filter((r) => r.name === name || r.owner === name)
      .map((r) => figuresOf(r, what)),
    sum = (l: (number | null)[]) => {
      const have = l.filter(known);
      return have.length ? have.reduce((a, v) => a + v, 0) : null;
    };
  return {
    used: sum(own.map((f) => f.used)) ?? (what === "energy" ? null : 0),
    wasted: sum(own.map((f) => f.wasted)),
  };
}

/** What was in use of a machine or site: what it measured itself, where it did not what workloads used. */
export const inUse = (u: Use): Row => u.machine.map((m, i) => m ?? u.all[i]);
/** The mean of the time that was measured; null where none was. */
export function meanOf(u: Use): number | null {
  const have = inUse(u).filter(known);
  return have.length ? have.reduce((a, b) => a + b, 0) / have.length : null;
}
/** Since when a range was measured, Unix seconds, where its beginning was not; a twentieth of it is not told. */
export function measuredFrom(u: Use): number | undefined {
  const i = inUse(u).findIndex(known);
  return i > u.times.length / 20 ? u.times[i] : undefined;
}

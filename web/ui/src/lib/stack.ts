// Arithmetic of charts: joining Prometheus series to one time axis, stacking, summing up.
import type { PromSeries } from "./types";

export type Row = (number | null)[];

/** A regular time axis from..to, in seconds. */
export function axis(from: number, to: number, step: number): number[] {
  const out: number[] = [];
  for (let t = from; t <= to + step / 1000; t += step) out.push(t);
  return out;
}

/** Values of a series on the axis; null where there is no sample. */
export function onto(times: number[], s: PromSeries): Row {
  const step = times.length > 1 ? times[1] - times[0] : 1,
    out: Row = new Array(times.length).fill(null);
  for (const [t, v] of s.values ?? []) {
    const i = Math.round((t - times[0]) / step);
    const x = Number(v);
    if (i >= 0 && i < out.length && Number.isFinite(x)) out[i] = x;
  }
  return out;
}

/**
 * Amounts by name over n stretches, added up. Who has none in a stretch that was measured used nothing then, so that means are of the
 * same time; an amount that was not measured is a gap.
 */
export function rowsOf(
  amounts: [name: string, at: number, v: number | null][],
  n: number,
): Map<string, Row> {
  const rows = new Map<string, (number | null | undefined)[]>(),
    measured = new Set<number>();
  for (const [name, at, v] of amounts) {
    const row = rows.get(name) ?? new Array<undefined>(n).fill(undefined);
    row[at] = v === null ? (row[at] ?? null) : (row[at] ?? 0) + v;
    if (v !== null) measured.add(at);
    rows.set(name, row);
  }
  return new Map(
    [...rows]
      .filter(([, row]) => row.some((v) => (v ?? null) !== null))
      .map(([name, row]) => [
        name,
        row.map((v, i) => (v === undefined ? (measured.has(i) ? 0 : null) : v)),
      ]),
  );
}

/** What of a total no part explains; null where the total is unknown, never below 0; what is left of rounding is 0. */
export function rest(total: Row, parts: Row[]): Row {
  return total.map((t, i) => {
    if (t === null) return null;
    const r = t - parts.reduce((a, p) => a + (p[i] ?? 0), 0);
    return r > Math.abs(t) * 1e-9 ? r : 0;
  });
}

/** What of a whole is free; null where either is unknown: what is not measured is not idle. */
export const free = (whole: Row, used: Row): Row =>
  rest(
    whole.map((w, i) => (used[i] === null ? null : w)),
    [used],
  );

/** The same amounts in n buckets of equal width, each spread evenly over its place. */
export function rebin(
  buckets: { low: number; high: number; seconds: number }[],
  n: number,
): { low: number; high: number; seconds: number }[] {
  const top = buckets.reduce((a, b) => Math.max(a, b.high), 0);
  if (!(top > 0)) return buckets;
  const width = top / n,
    out = Array.from({ length: n }, (_, i) => ({
      low: i * width,
      high: (i + 1) * width,
      seconds: 0,
    }));
  for (const b of buckets) {
    const from = Math.min(n - 1, Math.floor(b.low / width)),
      to = Math.min(n - 1, Math.max(from, Math.ceil(b.high / width) - 1)),
      span = b.high - b.low;
    for (let i = from; i <= to; i++)
      out[i].seconds +=
        from === to || !(span > 0)
          ? b.seconds / (to - from + 1)
          : (b.seconds * Math.max(0, Math.min(b.high, out[i].high) - Math.max(b.low, out[i].low))) /
            span;
  }
  return out;
}

/** Marks of an axis from 0 to top that people read easily, about n of them. */
export function marks(top: number, n = 5): number[] {
  const raw = top / n,
    ten = 10 ** Math.floor(Math.log10(raw)),
    step = [1, 2, 2.5, 5, 10].map((k) => k * ten).find((s) => s >= raw * 0.999) ?? 10 * ten;
  return Array.from({ length: Math.floor(top / step + 1e-9) + 1 }, (_, i) => i * step);
}

/** Each row on top of the ones before it. A gap is a gap only where all rows have it. */
export function stacked(rows: Row[]): Row[] {
  if (rows.length === 0) return [];
  const sum = new Array<number>(rows[0].length).fill(0);
  const any = rows[0].map((_, i) => rows.some((r) => r[i] !== null));
  return rows.map((r) => r.map((v, i) => (any[i] ? (sum[i] += v ?? 0) : null)));
}

/** Which of the stacked rows holds height y at step i, or -1. */
export function bandAt(stack: Row[], i: number, y: number): number {
  if (y < 0) return -1;
  return stack.findIndex((r) => {
    const top = r[i];
    return top !== null && top !== undefined && y <= top;
  });
}

/** Where a row has a value and no neighbour: no line goes through, a point must stand there. */
export function alone(r: ArrayLike<number | null | undefined>): number[] {
  const no = (i: number) => r[i] === null || r[i] === undefined,
    out: number[] = [];
  for (let i = 0; i < r.length; i++) if (!no(i) && no(i - 1) && no(i + 1)) out.push(i);
  return out;
}

export function stats(r: Row): { last: number | null; mean: number | null; max: number | null } {
  const have = r.filter((v): v is number => v !== null);
  if (have.length === 0) return { last: null, mean: null, max: null };
  return {
    last: have[have.length - 1],
    mean: have.reduce((a, b) => a + b, 0) / have.length,
    max: have.reduce((a, b) => Math.max(a, b), -Infinity),
  };
}

/** A step that gives about n points, from those that people read easily. */
export function niceStep(seconds: number, n = 300): number {
  const want = seconds / n;
  return (
    [15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400].find(
      (s) => s >= want,
    ) ?? 86400
  );
}

/** A string inside a PromQL selector, and a regular expression that matches it alone. */
export const promQuote = (s: string) => JSON.stringify(s).replace(/[\u007f-\uffff]/g, (c) => c);
export const promAny = (list: string[]) =>
  promQuote(list.map((s) => s.replace(/[\\^$.|?*+()[\]{}]/g, "\\$&")).join("|"));

/** Hours of the week in UTC (0: Monday 00) as those of a zone, `minutes` east of UTC. */
export function localHours<T>(utcHours: T[], minutes: number): T[] {
  const shift = Math.round(minutes / 60);
  return utcHours.map((_, i) => utcHours[(((i - shift) % 168) + 168) % 168]);
}

/** The place of p (0..1) in a distribution given by buckets, linear within a bucket. */
export function quantile(
  buckets: { low: number; high: number; seconds: number }[],
  p: number,
): number | null {
  const all = buckets.reduce((a, b) => a + b.seconds, 0);
  if (!(all > 0)) return null;
  let left = p * all;
  for (const b of buckets) {
    if (left <= b.seconds) return b.low + (b.high - b.low) * (b.seconds > 0 ? left / b.seconds : 0);
    left -= b.seconds;
  }
  return buckets[buckets.length - 1].high;
}

// Arithmetic of ranges of time: what an address means, earlier and later, names of them.
import { niceStep } from "./stack";

export interface Range {
  from: number;
  to: number;
  step: number;
  fixed: boolean;
  length: number;
}
/** More nodes make a large site: what each of their cores counts is not added up for a page. */
export const few = 64;
export const spans: [string, string][] = [
  ["3600", "1 h"],
  ["21600", "6 h"],
  ["86400", "24 h"],
  ["604800", "7 d"],
  ["2592000", "30 d"],
  ["31536000", "1 y"],
];
const day = 86400;

/** Seconds of a length such as 3600, 24h, 7d; 0 of anything else. */
export function seconds(text: string): number {
  const m = /^(\d+(?:\.\d+)?)([smhdw]?)$/.exec(text.trim());
  return m ? Number(m[1]) * { "": 1, s: 1, m: 60, h: 3600, d: day, w: 7 * day }[m[2] as "s"] : 0;
}
/** The range of parameters at a moment; `usual` is the length where none is chosen. since= is how addresses of before named it. */
export function rangeOf(get: (name: string) => string, now: number, usual = day, least = 0): Range {
  const from = Number(get("from")),
    to = Number(get("to"));
  if (from > 0 && to > from) {
    const step = niceStep(to - from);
    return { from: Math.floor(from / step) * step, to, step, fixed: true, length: to - from };
  }
  const length = seconds(get("last")) || seconds(get("since")) || usual,
    step = Math.max(least, niceStep(length)),
    end = Math.floor(now / step) * step;
  return { from: end - length, to: end, step, fixed: false, length };
}
/** The same length before or after; what would reach past now ends now. */
export function shifted(r: Range, by: 1 | -1, now: number): Record<string, string> {
  const to = r.to + by * r.length;
  return by > 0 && to >= now
    ? { from: "", to: "", last: String(r.length), since: "" }
    : { from: String(Math.round(to - r.length)), to: String(Math.round(to)), last: "", since: "" };
}
const iso = (t: number) => new Date(t * 1000).toISOString();
/** As parameters of the API: exactly the range, where a chart begins with a whole step. */
export const asked = (r: Range): Record<string, string> => ({
  since: iso(r.to - r.length),
  ...(r.fixed ? { until: iso(r.to) } : {}),
});
/** Names a range in the zone of who looks: both days only where they differ. */
export function named(r: Range): string {
  const a = new Date((r.to - r.length) * 1000),
    b = new Date(r.to * 1000),
    today = b.toDateString() === a.toDateString();
  const d = (x: Date) =>
    x.toLocaleDateString(undefined, {
      weekday: "short",
      day: "numeric",
      month: "short",
      ...(x.getFullYear() === new Date().getFullYear() ? {} : { year: "numeric" }),
    });
  const t = (x: Date) =>
    x.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  return `${d(a)} ${t(a)} – ${today ? "" : d(b) + " "}${t(b)}`;
}
/** The range between two moments of an answer, which may be wider than what was asked for: it ends now at the latest. */
export function rangeBetween(since: string, until: string, now = Date.now()): Range {
  const from = Date.parse(since) / 1000,
    to = Math.min(Date.parse(until), now) / 1000;
  return { from, to, step: niceStep(to - from), fixed: true, length: to - from };
}
/** A moment as an input of type datetime-local has it, and back. */
export const local = (t: number) => {
  const d = new Date(t * 1000);
  return new Date(d.getTime() - d.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
};
export const moment = (text: string) => {
  const t = new Date(text).getTime() / 1000;
  return Number.isFinite(t) ? t : 0;
};

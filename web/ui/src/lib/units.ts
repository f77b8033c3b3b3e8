// Figures for people: short in the text, exact on hover. What is unknown is a dash, never 0.
import type { Num } from "./types";

export const unknown = "–";
export type Unit =
  | "bytes"
  | "bytes_per_second"
  | "seconds"
  | "cores"
  | "watts"
  | "joules"
  | "ratio"
  | "count"
  | "gpus"
  | "grams"
  | string;

export function known(v: unknown): v is number {
  return typeof v === "number" && Number.isFinite(v);
}

function scaled(v: number, base: number, words: string[]): string {
  let i = 0,
    x = Math.abs(v);
  while (i < words.length - 1 && x >= base * 0.9995) {
    x /= base;
    i++;
  }
  const digits = x >= 100 || (i === 0 && Number.isInteger(x)) ? 0 : x >= 10 ? 1 : 2;
  return `${v < 0 ? "−" : ""}${trim(x.toFixed(digits))} ${words[i]}`.trimEnd();
}
function trim(s: string): string {
  return s.includes(".") ? s.replace(/\.?0+$/, "") : s;
}

export function duration(s: number): string {
  const sign = s < 0 ? "−" : "";
  s = Math.abs(s);
  if (s > 0 && s < 0.0009995)
    return sign + String(Number((s * 1e6).toPrecision(s < 1e-4 ? 2 : 3))) + " µs";
  if (s < 0.9995)
    return s === 0 ? "0 s" : sign + String(Number((s * 1000).toPrecision(s < 0.1 ? 2 : 3))) + " ms";
  if (s < 59.95) return sign + trim(s.toFixed(s < 10 ? 1 : 0)) + " s";
  const r = Math.round(s),
    d = Math.floor(r / 86400),
    h = Math.floor(r / 3600) % 24,
    m = Math.floor(r / 60) % 60;
  if (d >= 10) return `${sign}${d} d`;
  if (d > 0) return `${sign}${d} d ${h} h`;
  if (h > 0) return `${sign}${h} h ${m} min`;
  return `${sign}${m} min${m < 10 && r % 60 ? ` ${r % 60} s` : ""}`;
}

export function human(v: Num | unknown, unit: Unit): string {
  if (!known(v)) return unknown;
  switch (unit) {
    case "bytes":
      return scaled(v, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]);
    case "bytes_per_second":
      return scaled(v, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]) + "/s";
    case "seconds":
      return duration(v);
    case "core-seconds":
      return v > 0 && v < 18
        ? "< 0.01 core-hours"
        : scaled(v / 3600, 1000, ["core-hours", "k core-hours", "M core-hours"]);
    case "core-h":
      return v > 0 && v < 18 ? "< 0.01 h" : scaled(v / 3600, 1000, ["h", "k h", "M h"]);
    case "core-time":
      return Math.abs(v) < 360 ? `${duration(v)} of a core` : human(v, "core-seconds");
    case "gpu-time":
      return Math.abs(v) < 360 ? `${duration(v)} of a GPU` : human(v, "gpu-seconds");
    // CPU time in a column whose title names it: short times have no need of "of a core".
    case "core-cell":
    case "gpu-cell":
      return Math.abs(v) < 360 ? duration(v) : human(v, "core-h");
    case "gpu-seconds":
      return v > 0 && v < 18
        ? "< 0.01 GPU-hours"
        : scaled(v / 3600, 1000, ["GPU-hours", "k GPU-hours", "M GPU-hours"]);
    case "byte-seconds":
      return scaled(v / 3600, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]) + "-hours";
    case "cores":
    case "gpus":
      return v > 0 && v < 0.0005
        ? "< 0.001"
        : trim(
            Math.abs(v) >= 100
              ? v.toFixed(0)
              : Math.abs(v) >= 10
                ? v.toFixed(1)
                : Math.abs(v) >= 0.01 || v === 0
                  ? v.toFixed(2)
                  : v.toPrecision(1),
          );
    case "ratio":
      return v > 0 && v < 0.0005
        ? "< 0.1 %"
        : trim((v * 100).toFixed(Math.abs(v) < 0.1 ? 1 : 0)) + " %";
    case "watts":
      return scaled(v, 1000, ["W", "kW", "MW"]);
    case "joules":
      return v > 0 && v < 18 ? "< 0.01 Wh" : scaled(v / 3600, 1000, ["Wh", "kWh", "MWh", "GWh"]);
    case "grams":
      return scaled(v, 1000, ["g", "kg", "t"]);
    case "count":
      if (Number.isInteger(v) && Math.abs(v) < 1e4) return v.toLocaleString("en");
    // falls through
    default:
      if (unit.startsWith("money"))
        return `${v > 0 && v < 0.005 ? "< 0.01" : v.toFixed(2)}${unit.slice(5)}`;
      return v === 0 || Math.abs(v) >= 0.1
        ? scaled(v, 1000, ["", "k", "M", "G", "T"])
        : Math.abs(v) < 0.0005
          ? v < 0
            ? "> −0.001"
            : "< 0.001"
          : `${v < 0 ? "−" : ""}${Number(Math.abs(v).toPrecision(2))}`;
  }
}

const names: Record<string, string> = {
  "core-h": "core-seconds",
  "core-time": "core-seconds",
  "core-cell": "core-seconds",
  "gpu-cell": "GPU-seconds",
  "gpu-time": "GPU-seconds",
  bytes: "bytes",
  bytes_per_second: "bytes per second",
  seconds: "seconds",
  cores: "cores",
  gpus: "GPUs",
  watts: "watts",
  joules: "joules",
  grams: "grams",
  "byte-seconds": "byte-seconds",
};

/** The unit behind the highest mark of an axis, where the marks do not have it. */
export const axisWord = (unit: Unit) =>
  unit === "cores" ? " cores" : unit === "gpus" ? " GPUs" : "";

/** The figure in full with its unit, for hover. */
export function exact(v: Num | unknown, unit: Unit): string {
  if (!known(v)) return "not measured";
  return `${new Intl.NumberFormat("en", { maximumFractionDigits: 6 }).format(v)} ${names[unit] ?? (unit === "count" || unit === "ratio" ? "" : unit)}`.trimEnd();
}

export function clock(t: string | number | Date, now = new Date()): string {
  const d = new Date(t);
  if (Number.isNaN(d.getTime())) return unknown;
  const hm = d.toLocaleTimeString(undefined, {
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
  });
  if (d.toDateString() === now.toDateString()) return hm;
  const day = d.toLocaleDateString(
    undefined,
    d.getFullYear() === now.getFullYear()
      ? { day: "numeric", month: "short" }
      : { day: "numeric", month: "short", year: "numeric" },
  );
  return `${day}, ${hm}`;
}
/** A text of the server with its moments in the zone of who looks. */
export const hereTimes = (text: string, now = new Date()) =>
  text.replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z\b/g, (t) => clock(t, now));
/** A moment in full, with seconds, by the 24-hour clock. */
export const stamp = (t: string | number | Date) =>
  new Date(t).toLocaleString(undefined, { hourCycle: "h23" });
export function utc(t: string | number | Date): string {
  const d = new Date(t);
  return Number.isNaN(d.getTime())
    ? ""
    : d
        .toISOString()
        .replace("T", " ")
        .replace(/\.\d+Z/, " UTC");
}
export function ago(t: string, now = Date.now()): string {
  const s = (now - new Date(t).getTime()) / 1000;
  return s < 5 ? "now" : duration(s) + " ago";
}

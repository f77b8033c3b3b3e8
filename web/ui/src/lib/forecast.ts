// What the server expects, and what of it pages show; nothing is forecast in the browser.
import type { Num } from "./types";

export interface ForecastStep {
  at: string;
  median: number;
  mean: Num;
  low: number;
  high: number;
}
export interface ForecastError {
  forecasts: number;
  hours: number;
  mean: number;
  coverage: number;
  of_naive: Num;
}
export interface Forecast {
  subject: string;
  site?: string;
  name?: string;
  figure: string;
  made: string;
  kept: boolean;
  old: boolean;
  step_seconds: number;
  steps: ForecastStep[];
  methods: string[];
  flags: string[];
  backtest: Num;
  naive: Num;
  error: ForecastError | null;
}
export interface NextFigure {
  figure: string;
  median: number;
  low: number;
  high: number;
  runs: number;
  error: Num;
}
export interface ForecastList {
  forecasts: Forecast[];
  next: NextFigure[];
  missing?: string[];
  measured_hours?: number;
  least_hours?: number;
}

/** Hours are joules of whole hours, the running one as far as it came. */
export interface Hour {
  from: number;
  joules: number;
}
export interface Today {
  soFar: number;
  joules: number;
  low: number;
  high: number;
}

const midnight = (t: number) => {
  const d = new Date(t);
  d.setHours(0, 0, 0, 0);
  return d.getTime();
};

/** What a day will have used when it ends: what was measured of it, and the forecast power of the hours to come. null: no forecast covers them. */
export function today(hours: Hour[], power: Forecast[], now: number): Today | null {
  const begin = midnight(now),
    end = midnight(begin + 26 * 3.6e6);
  const soFar = hours
    .filter((h) => h.from >= begin && h.from < end)
    .reduce((a, h) => a + h.joules, 0);
  const out: Today = { soFar, joules: soFar, low: soFar, high: soFar };
  if (power.length === 0) return null;
  for (const f of power) {
    let covered = now;
    for (const s of f.steps) {
      const at = Date.parse(s.at),
        from = Math.max(at, now),
        to = Math.min(at + f.step_seconds * 1000, end),
        seconds = (to - from) / 1000;
      if (seconds <= 0) continue;
      covered = Math.max(covered, to);
      out.joules += (s.mean ?? s.median) * seconds;
      out.low += s.low * seconds;
      out.high += s.high * seconds;
    }
    if (covered < end) return null;
  }
  return out;
}

/** The unit of a figure, as units.ts writes it. */
export function figureUnit(figure: string): string {
  if (figure.endsWith("_per_second")) return "bytes_per_second";
  if (figure.endsWith("_bytes")) return "bytes";
  if (figure.endsWith("_joules")) return "joules";
  return figure.endsWith("_seconds") ? "seconds" : figure;
}

/** What people call it. */
export function titleOf(f: Forecast): string {
  const words: Record<string, string> = {
    cores: "Cores in use",
    memory_bytes: "Memory",
    watts: "Power",
    gpus: "GPUs in use",
    disk_bytes_per_second: "Disk",
    network_bytes_per_second: "Network",
    free_bytes: "Free space",
  };
  return (
    (words[f.figure] ?? f.figure) +
    (f.subject === "filesystem" ? " on " + (f.name ?? "").replace(/^[^:]*:/, "") : "")
  );
}

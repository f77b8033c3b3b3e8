// Samples of runs of MetricSets as lines and as rows of a file.
import type { Line } from "./chart";
import { csv } from "./csv";
import type { Num } from "./types";
import { known } from "./units";

/** What a pod used in an interval, in SI units; what could not be read is not there. */
export interface Use {
  cpu_seconds?: Num;
  user_seconds?: Num;
  system_seconds?: Num;
  wait_seconds?: Num;
  io_wait_seconds?: Num;
  read_bytes?: Num;
  write_bytes?: Num;
  resident_bytes?: Num;
  threads?: Num;
}
interface Sample {
  from: string;
  to: string;
  total: Use;
}
export interface Series {
  pod: string;
  uid: string;
  job: string;
  samples: Sample[];
}

/** The samples as rows, as `reckon runs show --format csv` has them. */
const fields: (keyof Use)[] = [
  "cpu_seconds",
  "user_seconds",
  "system_seconds",
  "wait_seconds",
  "io_wait_seconds",
  "read_bytes",
  "write_bytes",
  "resident_bytes",
  "threads",
];
export const table = (pods: Series[]) =>
  csv([
    ["time", "pod", "job", "interval_seconds", ...fields],
    ...pods.flatMap((p) =>
      p.samples.map((x) => [
        x.to,
        p.pod,
        p.job,
        String((Date.parse(x.to) - Date.parse(x.from)) / 1000),
        ...fields.map((f) => (known(x.total[f]) ? String(x.total[f]) : "")),
      ]),
    ),
  ]);

/** Lines of a figure, one for each pod: what adds up as a rate over each interval. */
export function linesOf(
  pods: Series[],
  of: (u: Use) => Num | undefined,
  rate: boolean,
): { times: number[]; lines: Line[] } {
  const times = [
      ...new Set(pods.flatMap((p) => p.samples.map((x) => Date.parse(x.to) / 1000))),
    ].sort((x, y) => x - y),
    place = new Map(times.map((t, i) => [t, i]));
  const lines = pods.map((p): Line => {
    const row: (number | null)[] = times.map(() => null);
    for (const x of p.samples) {
      const v = of(x.total),
        s = (Date.parse(x.to) - Date.parse(x.from)) / 1000;
      if (known(v) && s > 0) row[place.get(Date.parse(x.to) / 1000)!] = rate ? v / s : v;
    }
    return { label: p.pod, row };
  });
  return { times, lines: lines.filter((l) => l.row.some((v) => v !== null)).slice(0, 24) };
}

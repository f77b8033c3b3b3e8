// The figures of a workload over time as charts: which are drawn together, and runs over each other.
import type { Line } from "./chart";
import type { Profile, WorkloadDetail } from "./types";

export const titles: Record<string, string> = {
  cores: "Cores",
  memory_bytes: "Memory",
  command_cores: "Cores by program",
  gpus: "GPUs",
  gpu_memory_bytes: "GPU memory",
  io_read_bytes_per_second: "Read from storage",
  io_write_bytes_per_second: "Written to storage",
  network_bytes_per_second: "Network",
  network_receive_bytes_per_second: "Received from the network",
  network_transmit_bytes_per_second: "Sent to the network",
  memory_traffic_bytes_per_second: "Memory traffic",
  io_wait_threads: "Threads that waited for storage",
  major_faults_per_second: "Page faults that waited for storage",
  minor_faults_per_second: "Page faults without a wait",
  watts: "Power",
  power_watts: "Power",
  memory_anon_bytes: "Anonymous memory",
  memory_file_bytes: "Page cache",
  memory_shmem_bytes: "Shared memory",
  power_package_watts: "Power of processors",
  power_dram_watts: "Power of memory",
  power_gpu_watts: "Power of GPUs",
  power_board_watts: "Power of boards",
  power_psys_watts: "Power of platforms",
  power_rest_watts: "Power of the rest",
  processes: "Processes",
  threads: "Threads",
  cpu_wait: "Waiting for a core",
  cpu_wait_cores: "Waiting for a core",
};

/** Figures of the whole that are read side by side. Where parts add up they are stacked, below the line of the whole. */
const families: {
  title: string;
  of: Record<string, string>;
  whole?: string[];
  /** Lines of their own: what the whole adds is left out where parts are there. */ apart?: boolean;
}[] = [
  { title: "Cores", of: { cores: "in use", cpu_wait: "waited for", cpu_wait_cores: "waited for" } },
  { title: "Memory traffic", of: { memory_traffic_bytes_per_second: "between caches and memory" } },
  {
    title: "Memory",
    of: {
      memory_anon_bytes: "anonymous",
      memory_shmem_bytes: "shared",
      memory_file_bytes: "page cache",
    },
    whole: ["memory_bytes"],
  },
  { title: "GPUs", of: { gpus: "busy" } },
  { title: "GPU memory", of: { gpu_memory_bytes: "in use" } },
  {
    title: "Storage",
    of: { io_read_bytes_per_second: "read", io_write_bytes_per_second: "written" },
  },
  { title: "Threads that waited for storage", of: { io_wait_threads: "asleep" } },
  {
    title: "Network",
    of: { network_receive_bytes_per_second: "received", network_transmit_bytes_per_second: "sent" },
    whole: ["network_bytes_per_second"],
    apart: true,
  },
  {
    title: "Power",
    of: {
      power_package_watts: "processors",
      power_dram_watts: "memory",
      power_gpu_watts: "GPUs",
      power_board_watts: "boards",
      power_psys_watts: "platforms",
      power_rest_watts: "rest",
    },
    whole: ["power_watts", "watts"],
  },
  {
    title: "Page faults a second",
    of: {
      minor_faults_per_second: "without a wait",
      major_faults_per_second: "waited for storage",
    },
  },
  { title: "Processes and threads", of: { processes: "processes", threads: "threads" } },
];

interface Group {
  metric: string;
  title: string;
  unit: string;
  times: number[];
  lines: Line[];
  stack: boolean;
  total?: Line;
}

/** Points stand at the ends of their steps, in charts at the beginnings. Without what stands after the end, and zeros at it: the last
 *  figure is that of its last step. */
export const fromStart = (profile: Profile[], step: number, end?: string | null): Profile[] =>
  profile.map((p) => ({
    ...p,
    points: p.points
      .filter((x) => {
        const at = Date.parse(x.time) - (x.value === 0 ? 0 : step * 1000); // not 0: what began before the end
        return !end || at < Date.parse(end);
      })
      .map((x) => ({ ...x, time: new Date(Date.parse(x.time) - step * 1000).toISOString() })),
  }));
/** How long the last step of a chart is, seconds: it ends with what is drawn. */
export const lastStep = (times: number[], step: number, end?: string | null) =>
  Math.max(1, Math.min(step, end ? Date.parse(end) / 1000 - times[times.length - 1] : step));

/** Charts of the whole workload, one for each family; what belongs to none follows. */
export function together(profile: Profile[]): Group[] {
  const each = new Map(grouped(profile, "total").map((g) => [g.metric, g])),
    out: Group[] = [];
  const take = (names: string[]) =>
    names.flatMap((m) => {
      const g = each.get(m);
      return g && each.delete(m) ? [g] : [];
    });
  for (const f of families) {
    const parts = take(Object.keys(f.of)),
      whole = take(f.whole ?? []),
      have = parts.length > 0 ? parts : whole;
    if (have.length === 0) continue;
    const times = [...new Set([...parts, ...whole].flatMap((g) => g.times))].sort((a, b) => a - b),
      place = new Map(times.map((t, i) => [t, i]));
    const line = (g: Group, label: string): Line => {
      const row: (number | null)[] = new Array(times.length).fill(null);
      g.times.forEach((t, i) => {
        row[place.get(t)!] = g.lines[0].row[i];
      });
      return { label, row };
    };
    const lines = have
      .map((g) => line(g, f.of[g.metric] ?? f.title))
      .filter((l, i) => i === 0 || l.row.some((v) => (v ?? 0) > (f.title === "Cores" ? 0.01 : 0))); // what never was is left out
    const total =
      !f.apart && parts.length > 0 && whole.length > 0 ? line(whole[0], "total") : undefined;
    out.push({
      ...have[0],
      title: f.title,
      times,
      lines,
      stack: !!f.whole && !f.apart && (lines.length > 1 || !!total),
      total,
    });
  }
  return [...out, ...each.values()];
}

/** One chart for each figure; lines on one axis of time, the largest 12 of them. */
export function grouped(profile: Profile[], by: string): Group[] {
  const metrics = [...new Set(profile.map((p) => p.metric))];
  return metrics.flatMap((m) => {
    const of = profile.filter((p) => p.metric === m && p.points.length > 0);
    if (of.length === 0) return [];
    const times = [
        ...new Set(of.flatMap((p) => p.points.map((x) => Date.parse(x.time) / 1000))),
      ].sort((a, b) => a - b),
      place = new Map(times.map((t, i) => [t, i]));
    const all = of
      .map((p): Line & { sum: number } => {
        const row: (number | null)[] = new Array(times.length).fill(null);
        for (const x of p.points) row[place.get(Date.parse(x.time) / 1000)!] = x.value;
        return {
          label: [p.node, p.part, p.command].filter(Boolean).join(" ") || (titles[m] ?? m),
          row,
          sum: row.reduce<number>((a, v) => a + (v ?? 0), 0),
        };
      })
      .sort((a, b) => b.sum - a.sum);
    const lines: Line[] = all.slice(0, 12);
    if (all.length > 12)
      lines.push({
        label: `${all.length - 12} more`,
        quiet: 1,
        row: times.map((_, i) => {
          const v = all
            .slice(12)
            .map((l) => l.row[i])
            .filter((x): x is number => x !== null);
          return v.length ? v.reduce((a, b) => a + b, 0) : null;
        }),
      });
    const unit = m === "gpus" ? "gpus" : of[0].unit;
    return [
      {
        metric: m,
        title: titles[m] ?? m.replaceAll("_", " "),
        unit,
        times,
        lines,
        stack: by !== "total" && lines.length > 1 && !/peak|max/.test(m),
      },
    ];
  });
}

/** Profiles on one axis of seconds since the start of each, of about 300 steps. */
export function overlaid(
  list: WorkloadDetail[],
  metric: string,
  link: (id: string, start: string, site?: string) => string,
): { times: number[]; lines: Line[] } {
  const each = list
    .map((d) => {
      const begin = Date.parse(d.start),
        of = d.profile.filter((p) => p.metric === metric),
        sums = new Map<number, number>();
      for (const p of of)
        for (const x of p.points)
          if (x.value !== null) {
            const t = Math.max(0, (Date.parse(x.time) - begin) / 1000 - d.step_seconds);
            sums.set(t, (sums.get(t) ?? 0) + x.value);
          }
      return { d, points: [...sums].sort((a, b) => a[0] - b[0]), step: d.step_seconds };
    })
    .filter((e) => e.points.length > 0);
  const longest = Math.max(0, ...each.map((e) => e.points[e.points.length - 1][0])),
    step = Math.max(longest / 300, 1, ...each.map((e) => e.step));
  const times: number[] = [];
  for (let t = 0; t <= longest + step / 2; t += step) times.push(t);
  const lines = each.map((e): Line => {
    const me = e.d === list[0];
    const sum = new Array<number>(times.length).fill(0),
      n = new Array<number>(times.length).fill(0);
    for (const [t, v] of e.points) {
      const k = Math.min(times.length - 1, Math.round(t / step));
      sum[k] += v;
      n[k]++;
    }
    return {
      label: (me ? "this: " : "") + e.d.id,
      row: sum.map((s, k) => (n[k] ? s / n[k] : null)),
      href: me ? undefined : link(e.d.id, e.d.start, e.d.site),
    };
  });
  return { times, lines };
}

// Who used a site or machine over a range: the lines of the first page, from series where the range is short, from
// the hourly roll-ups where it is long.
import { ask, promInstant, promRange } from "./api";
import { alike, titleOf } from "./names";
import { few, type Range } from "./span";
import { axis, onto, promAny, type Row } from "./stack";
import type { PromSeries, Usage, UsageList } from "./types";
import { known } from "./units";

export type By = "owner" | "workload" | "kind";
export type What = "cpu" | "memory" | "gpu" | "network" | "energy" | "money";
export interface User {
  name: string;
  owner: string;
  ids: string[];
  row: Row;
  used: number;
}
export interface Use {
  times: number[];
  step: number;
  users: User[];
  all: Row;
  held: Row;
  size: Row;
  machine: Row;
  /** The first step with a figure, also where it is left out as its rate covers a part of its time. */ first?: number;
}

const shown = 8;
const series: Record<
  Exclude<What, "money">,
  {
    used: string;
    held: string;
    size: string;
    machine: string;
    hours: string;
    heldHours: string;
    sizeHours: string;
  }
> = {
  cpu: {
    used: "reckon_workload_cpu_seconds_total",
    held: "reckon_workload_allocated_cores",
    size: `count(node_cpu_seconds_total{mode="idle"})`,
    machine: `sum(rate(node_cpu_seconds_total{mode!~"idle|iowait"}RANGE))`,
    hours: "cpu_seconds",
    heldHours: "held_core_seconds",
    sizeHours: "core_seconds",
  },
  memory: {
    used: "reckon_workload_memory_byte_seconds_total",
    held: "reckon_workload_allocated_memory_bytes",
    size: "sum(node_memory_MemTotal_bytes)",
    machine: "",
    hours: "memory_byte_seconds",
    heldHours: "held_memory_byte_seconds",
    sizeHours: "node_memory_byte_seconds",
  },
  network: {
    used: "reckon_workload_network_bytes_total",
    held: "",
    size: "",
    machine: "",
    hours: "network_bytes",
    heldHours: "",
    sizeHours: "",
  },
  gpu: {
    used: "reckon_workload_gpu_seconds_total",
    held: "reckon_workload_allocated_gpus",
    size: "count(reckon_gpu_busy_seconds_total)",
    machine: "sum(rate(reckon_gpu_busy_seconds_totalRANGE))",
    hours: "gpu_seconds",
    heldHours: "held_gpu_seconds",
    sizeHours: "",
  },
  energy: {
    used: "reckon_workload_energy_joules_total",
    held: "",
    size: "",
    machine: "sum(rate(reckon_node_attributed_energy_joules_totalRANGE))",
    hours: "energy_joules",
    heldHours: "",
    sizeHours: "",
  },
};

/** Whether the range is drawn from series: fine, and dear on a large site. */
export const fine = (r: Range, nodes: number, by: By) =>
  by === "workload" || r.length <= 6 * 3600 || (r.length <= 2 * 86400 && nodes <= few);

/**
 * The number of samples in ten minutes of the nodes that `sel` matches, in the range of `wide` seconds up to `at`; 0 if unknown.
 * Only windows count in which a node reported from the beginning: the window of its start has few samples, however near they
 * are. Machines of less than twenty minutes have no such window of ten minutes, so windows of two minutes are counted for them.
 */
export async function samplesIn10m(
  least: "min" | "max",
  wide: number,
  at: number,
  signal: AbortSignal,
  sel = "",
): Promise<number> {
  const m = "node_memory_MemTotal_bytes" + sel,
    windows = async (minutes: number, range: string) => {
      const q = `quantile_over_time(0.05, (count_over_time(${m}[${minutes}m]) and ${m} offset ${minutes}m)[${range}])`,
        s = await promInstant(`${least}(${10 / minutes} * ${q})`, signal, at);
      return Number(s[0]?.value?.[1]) || 0;
    };
  return (await windows(10, `${wide}s:10m`)) || windows(2, "20m:1m");
}

/** The length that rates are taken over: from the coarsest step in the range, so that what was sampled more slowly is not lost. */
export async function rateOver(r: Range, signal: AbortSignal, sel = ""): Promise<number> {
  const wide = Math.ceil(Math.max(600, r.length) / 600) * 600;
  const some = await samplesIn10m("min", wide, r.to, signal, sel).catch(() => 0);
  // Of an hour ago and more, what has no samples close by has few; just now it was started.
  const n = some || (r.to < Date.now() / 1000 - 3600 ? 1 : 0);
  return Math.max(60, r.step, n > 0 ? Math.min(1800, Math.ceil(1500 / n / 15) * 15) : 0);
}

export function usersOf(
  r: Range,
  nodes: number,
  by: By,
  what: What,
  signal: AbortSignal,
  cores?: number,
): Promise<Use> {
  return fine(r, nodes, by)
    ? fromSeries(r, by, what, nodes > few, signal, cores)
    : fromHours(r, by, what, signal);
}

/**
 * Of many nodes the machines' own sum is left out, as workloads and what is left of each node ("other") add up to it, and the
 * size is asked for once an hour and holds until the next; where it is not recorded yet it is that of the nodes now. Where
 * none reports now, it is the larger one of what was recorded and what is counted.
 */
async function fromSeries(
  r: Range,
  by: By,
  what: What,
  many: boolean,
  signal: AbortSignal,
  cores?: number,
  /** Of what was measured for less than rates are taken over: irate, from sample to sample. */ rate = "rate",
): Promise<Use> {
  const s = series[what === "money" ? "energy" : what],
    wide = await rateOver(r, signal),
    over = `[${wide}s]`,
    // Rates are taken over two and a half samples: a line between them says no more than one from sample to sample.
    slow = [600, 300, 180, 120].find((x) => 2.5 * x <= wide) ?? 60,
    step = many ? Math.max(slow, r.step) : r.step,
    times = axis(r.from, r.to, step),
    none: Row = times.map(() => null),
    whole = many && by !== "workload"; // all names at once: their sum is what all used
  const ask = (q: string, every = step) =>
    q
      ? promRange(
          q.replace("RANGE", over).replace(/\brate\(/, rate + "("),
          r.from,
          r.to,
          every,
          signal,
        )
      : Promise.resolve([] as PromSeries[]);
  // Where no node reports now, those that the recorder met as the last of them fell silent are not all of them.
  const ended = many && cores === 0,
    rare = many ? Math.max(step, ended ? Math.ceil(r.length / 4 / step) * step : 3600) : step;
  const sizes = async () => {
    const l = many && what === "cpu" ? await ask("sum(node:reckon_cores:count)", rare) : [];
    if (many && what === "cpu" && !ended && l.length) return l;
    return many && what === "cpu" && !ended && !r.fixed && cores
      ? [{ metric: {}, values: times.map((t): [number, string] => [t, String(cores)]) }]
      : [...l, ...(await ask(s.size, rare))];
  };
  const one = (l: PromSeries[]): Row => (l[0] ? onto(times, l[0]) : none);
  const rest = Promise.all([
    ask(whole ? `sum by (${by}) (rate(${s.used}${over}))` : `sum(rate(${s.used}${over}))`),
    ask(s.held && `sum(${s.held})`),
    sizes(),
    ask(many && what === "cpu" ? "" : s.machine),
  ]);
  rest.catch(() => undefined); // shown below, with the first that fails
  const top = whole
    ? (await rest)[0].map((x) => ({
        ...x,
        value: [r.to, String(onto(times, x).reduce<number>((a, v) => a + (v ?? 0), 0))] as [
          number,
          string,
        ],
      }))
    : await promInstant(
        `topk(${by === "workload" ? 80 : shown}, sum by (${by}${by === "workload" ? ", owner" : ""}) (rate(${s.used}[${Math.max(60, Math.round(r.length))}s])))`,
        signal,
        r.to,
      );
  const list = top
    .filter((x) => x.metric[by] && Number(x.value?.[1]) > 0)
    .sort((a, b) => Number(b.value?.[1]) - Number(a.value?.[1]));
  const names =
    by === "workload"
      ? await namesOf(
          list.map((x) => x.metric.workload),
          r,
          signal,
        )
      : new Map<string, string>();
  const groups = alike(
    list,
    (x) =>
      names.get(x.metric[by]) ??
      (by === "workload" ? titleOf({ id: x.metric[by], owner: x.metric.owner }) : x.metric[by]),
    (x) => (by === "workload" ? (x.metric.owner ?? "") : ""),
  ).slice(0, shown);
  const ids = groups.flatMap((g) => g.of.map((x) => x.metric[by]));
  const lines = whole
    ? top
    : ids.length
      ? await promRange(
          `sum by (${by}) (${rate}(${s.used}{${by}=~${promAny(ids)}}${over}))`,
          r.from,
          r.to,
          step,
          signal,
        )
      : [];
  const [sums, held, size, rates] = await rest;
  const all = whole
      ? added(
          sums.map((x) => onto(times, x)),
          times.length,
        )
      : one(sums),
    machine = one(rates);
  const measured = machine.map((m, i) => m ?? all[i]),
    have = measured.filter(known).length,
    n = Math.ceil(wide / step);
  if (rate === "rate" && have > 0 && have <= n && measured[0] === null)
    return fromSeries(r, by, what, many, signal, cores, "irate");
  const partial = partly(measured, rate === "rate" ? n : 0),
    full = (row: Row): Row => row.map((v, i) => (partial.has(i) ? null : v));
  return {
    times,
    step,
    first: measured.findIndex(known),
    all: full(all),
    held: one(held),
    size: held_(size.map((x) => onto(times, x)).reduce(larger, none), rare / step),
    machine: full(machine),
    users: groups.map((g) => {
      const mine = lines
          .filter((l) => g.of.some((x) => x.metric[by] === l.metric[by]))
          .map((l) => onto(times, l)),
        row = full(added(mine, times.length));
      return {
        name: g.title,
        owner: g.owner,
        ids: g.of.map((x) => x.metric[by]),
        row,
        used: row.reduce<number>((a, v) => a + (v ?? 0) * step, 0),
      };
    }),
  };
}

/**
 * The steps whose rates cover a part of their time only, as nothing was measured in the rest: the first `n` after a gap, or
 * after the beginning of it all, but for the last step of what was measured.
 */
export function partly(row: Row, n: number): Set<number> {
  const out = new Set<number>();
  row.forEach((v, i) => {
    if (v === null || i === 0 || row[i - 1] !== null) return;
    for (let j = i; j < i + n && known(row[j + 1]); j++) out.add(j);
  });
  return out;
}

const larger = (a: Row, b: Row): Row =>
  a.map((v, i) => (v === null || (b[i] ?? v) > v ? (b[i] ?? null) : v));

/** A row of which every n-th value was asked for: each holds until the next. */
const held_ = (row: Row, n: number): Row =>
  n <= 1 ? row : row.map((_, i) => row[Math.floor(i / n) * n] ?? null);

async function fromHours(r: Range, by: By, what: What, signal: AbortSignal): Promise<Use> {
  const s = series[what === "money" ? "energy" : what],
    span = r.length <= 14 * 86400 ? "hour" : "day",
    step = span === "hour" ? 3600 : 86400;
  const d = await ask<UsageList>(
    "/api/reckon/v1/usage?" +
      new URLSearchParams({
        since: new Date(r.from * 1000).toISOString(),
        until: new Date(r.to * 1000).toISOString(),
        span,
        by,
      }),
    signal,
  );
  const begin = Math.floor(r.from / step) * step,
    times = axis(begin, Math.max(begin, Math.ceil(r.to / step) * step - step), step),
    at = (u: Usage) => Math.round((Date.parse(String(u.from)) / 1000 - begin) / step);
  // The last hour or day is not over: what it holds is of the time that has passed of it.
  const length = (i: number) => Math.max(60, Math.min(step, Date.now() / 1000 - times[i]));
  const rows = new Map<string, User>(),
    all: Row = times.map(() => null),
    held: Row = times.map(() => null),
    size: Row = times.map(() => null);
  for (const u of d.rows) {
    const i = at(u),
      name = String(u[by] ?? "") || "nobody",
      v = u[s.hours];
    if (i < 0 || i >= times.length) continue;
    const add = (row: Row, x: unknown) => {
      if (known(x)) row[i] = (row[i] ?? 0) + x / length(i);
    };
    const e = rows.get(name) ?? {
      name,
      owner: "",
      ids: [name],
      row: times.map(() => null) as Row,
      used: 0,
    };
    add(e.row, v);
    add(all, v);
    add(held, s.heldHours && u[s.heldHours]);
    const cap = s.sizeHours && u[s.sizeHours];
    if (known(cap)) size[i] = cap / length(i);
    if (known(v)) e.used += v;
    rows.set(name, e);
  }
  return {
    times,
    step,
    all,
    held,
    size,
    machine: times.map(() => null),
    users: [...rows.values()]
      .filter((u) => u.used > 0)
      .sort((a, b) => b.used - a.used)
      .slice(0, shown),
  };
}

/** What workloads run, by their ids. */
export async function namesOf(
  ids: string[],
  r: { to: number; length: number },
  signal?: AbortSignal,
): Promise<Map<string, string>> {
  if (ids.length === 0) return new Map();
  const l = await promInstant(
    `max by (workload, kind, name, command, owner) (last_over_time(reckon_workload_info{workload=~${promAny(ids)}}[${Math.max(300, Math.round(r.length))}s]))`,
    signal,
    r.to,
  ).catch(() => [] as PromSeries[]);
  const out = new Map<string, string>();
  for (const { metric: m } of l.sort((a, b) =>
    (a.metric.command ?? "").localeCompare(b.metric.command ?? ""),
  ))
    if (!out.has(m.workload) || /sh$/.test(out.get(m.workload)!))
      out.set(
        m.workload,
        titleOf({ id: m.workload, kind: m.kind, name: m.name, command: m.command, owner: m.owner }),
      );
  return out;
}

export function added(rows: Row[], n: number): Row {
  const out: Row = new Array(n).fill(null);
  for (const r of rows)
    r.forEach((v, i) => {
      if (v !== null) out[i] = (out[i] ?? 0) + v;
    });
  return out;
}

// People and workloads ranked by what they used in a range, with what was allocated to them and not used.
import { ask, promInstant } from "./api";
import { alike, titleOf } from "./names";
import { asked, type Range } from "./span";
import { promAny } from "./stack";
import type { PromSeries, Usage, UsageList } from "./types";
import { known } from "./units";
import { namesOf, type By, type What } from "./users";
import { degrees, worse } from "./exact";

export interface Rank {
  name: string;
  owner: string;
  ids: string[];
  used: number;
  held: number | null;
  wasted: number | null;
  gpu: number | null;
  gpuWasted: number | null;
  joules: number | null;
  /** Byte-seconds, and bytes. */ memory: number | null;
  memoryWasted: number | null;
  network: number | null;
  /** How exact what was used is, where it is not. */ is?: Partial<Record<What, string>>;
}
export interface Ranking {
  rows: Rank[];
  /** The time of it, as asked of series or as the roll-ups have it. */
  span: { since: string | number; until: string | number };
  hours?: { since: string; until: string };
  total: number;
  proof?: string;
}

/** Up to six hours from series, exactly the range; longer, or where a range is of whole hours, from the roll-ups. */
export function ranking(
  r: Range,
  by: By,
  what: What,
  usage: boolean,
  signal: AbortSignal,
  /** Of a large site energy is asked for where the page is about it. */ many = false,
): Promise<Ranking> {
  const whole = r.fixed && r.from % 3600 === 0 && r.to % 3600 === 0;
  return by === "workload" || (r.length <= 6 * 3600 && by === "owner" && !whole) || !usage
    ? ofSeries(r, by, what, signal, many)
    : ofHours(r, by, signal);
}

/** What rows of the roll-ups used and held of one kind of work each. */
const partsOf = (rows: Usage[]): Sums[] => {
  const num = (v: unknown) => (known(v) ? v : null);
  return rows.map((u) => ({
    used: num(u.cpu_seconds),
    held: num(u.held_core_seconds),
    gpu: num(u.gpu_seconds),
    gpuHeld: num(u.held_gpu_seconds),
    joules: num(u.energy_joules),
    memory: num(u.memory_byte_seconds),
    memoryHeld: num(u.held_memory_byte_seconds),
    network: num(u.network_bytes),
  }));
};
/** Allocated and not used, core seconds, of rows by kind of work of one owner: said so on all pages. */
export const unusedCores = (rows: Usage[]) =>
  unused(
    partsOf(rows),
    (p) => p.held,
    (p) => p.used,
  );

/** How exact a figure is, by the key that the figures of usage or the series of exactness have for it. */
const keyOf: Record<What, string[]> = {
  cpu: ["cpu_seconds"],
  gpu: ["gpu_seconds"],
  memory: ["memory_byte_seconds", "memory_bytes"],
  network: ["network_bytes"],
  energy: ["energy_joules"],
  money: ["energy_joules"],
};
/** What is said of each figure, of all that a row is made of. */
function inexact(of: [key: string, is: string][]): Rank["is"] {
  const out: Rank["is"] = {};
  for (const [key, is] of of)
    for (const w of Object.keys(keyOf) as What[])
      if (keyOf[w].includes(key)) out[w] = worse(out[w], is);
  return out;
}

type Sums = {
  used: number | null;
  held: number | null;
  gpu: number | null;
  gpuHeld: number | null;
  joules: number | null;
  memory: number | null;
  memoryHeld: number | null;
  network: number | null;
};
const plus = (a: number | null, b: unknown) => (known(b) ? (a ?? 0) + b : a);
/** What was allocated and not used; each kind of work by itself, so that a session's use does not hide a job's waste. Where nothing measured the use it is not known. */
const unused = (
  parts: Sums[],
  held: (s: Sums) => number | null,
  used: (s: Sums) => number | null,
) =>
  parts.reduce<number | null>((a, p) => {
    const h = held(p),
      u = used(p);
    return h === null || u === null ? a : (a ?? 0) + Math.max(0, h - u);
  }, null);

function folded(name: string, owner: string, ids: string[], parts: Sums[], is: Rank["is"]): Rank {
  const sum = (f: (s: Sums) => number | null) =>
    parts.reduce<number | null>((a, p) => plus(a, f(p)), null);
  return {
    name,
    owner,
    ids,
    used: sum((p) => p.used) ?? 0,
    held: sum((p) => p.held),
    wasted: unused(
      parts,
      (p) => p.held,
      (p) => p.used,
    ),
    gpu: sum((p) => p.gpu),
    gpuWasted: unused(
      parts,
      (p) => p.gpuHeld,
      (p) => p.gpu ?? 0,
    ),
    joules: sum((p) => p.joules),
    memory: sum((p) => p.memory),
    memoryWasted: unused(
      parts,
      (p) => p.memoryHeld,
      (p) => p.memory,
    ),
    network: sum((p) => p.network),
    is,
  };
}

async function ofHours(r: Range, by: By, signal: AbortSignal): Promise<Ranking> {
  const q = new URLSearchParams(asked(r));
  q.append("by", by);
  if (by === "owner") q.append("by", "kind");
  const d = await ask<UsageList>("/api/reckon/v1/usage?" + q, signal),
    parts = new Map<string, Sums[]>(),
    said = new Map<string, [string, string][]>();
  for (const u of d.rows) {
    const name = String(u[by] ?? "") || "nobody";
    parts.set(name, [...(parts.get(name) ?? []), ...partsOf([u])]);
    said.set(name, [
      ...(said.get(name) ?? []),
      ...Object.entries((u.exactness ?? {}) as Record<string, string>),
    ]);
  }
  return {
    rows: ordered(
      [...parts].map(([name, p]) => folded(name, "", [], p, inexact(said.get(name) ?? []))),
    ),
    span: d,
    hours: { since: d.since, until: d.until },
    total: known(d.total.cpu_seconds) ? d.total.cpu_seconds : 0,
    proof: d.proof,
  };
}
const ordered = (rows: Rank[]) =>
  rows
    .filter(
      (x) =>
        x.used > 0 ||
        [x.wasted, x.gpu, x.gpuWasted, x.joules, x.memory, x.network].some((v) => (v ?? 0) > 0),
    )
    .sort((a, b) => b.used + (b.wasted ?? 0) - a.used - (a.wasted ?? 0));

const heldOf: Record<What, string> = {
  cpu: "reckon_workload_allocated_cores",
  gpu: "reckon_workload_allocated_gpus",
  memory: "reckon_workload_allocated_memory_bytes",
  network: "",
  energy: "",
  money: "",
};
const measured: Record<What, string> = {
  cpu: "reckon_workload_cpu_seconds_total",
  gpu: "reckon_workload_gpu_seconds_total",
  memory: "reckon_workload_memory_byte_seconds_total",
  network: "reckon_workload_network_bytes_total",
  energy: "reckon_workload_energy_joules_total",
  money: "reckon_workload_energy_joules_total",
};

async function ofSeries(
  r: Range,
  by: By,
  what: What,
  signal: AbortSignal,
  many: boolean,
): Promise<Ranking> {
  const L = Math.max(60, Math.round(r.length)),
    step = L <= 6 * 3600 ? 60 : L <= 2 * 86400 ? 300 : 3600;
  const label = by === "workload" ? "workload, owner" : by === "owner" ? "owner, kind" : "kind",
    of = by === "workload" ? "" : undefined;
  const span = { since: r.to - r.length, until: r.to };
  const at = (q: string) => promInstant(q, signal, r.to).catch(() => [] as PromSeries[]);
  const sum = (metric: string, sel = "") =>
      `sum by (${label}) (increase(${metric}${sel}[${L}s] anchored))`,
    time = (metric: string, sel = "") =>
      `sum_over_time((sum by (${label}) (${metric}${sel}))[${L}s:${step}s]) * ${step}`;
  // Of many workloads those that used most of the measure are ranked, and those that held most of it.
  const first =
      of === "" ? await promInstant(`topk(120, ${sum(measured[what])})`, signal, r.to) : [],
    holders = of === "" && heldOf[what] ? await at(`topk(120, ${time(heldOf[what])})`) : [],
    ids = [...new Set([...first, ...holders].map((x) => x.metric.workload).filter(Boolean))],
    sel = of === "" ? `{workload=~${promAny(ids)}}` : "";
  if (of === "" && ids.length === 0) return { rows: [], span, total: 0 };
  const only = (w: What, q: string) => (what === w ? at(q) : []); // asked for where the page is about it
  // Those of a kind of work that bear no owner are true of all of it.
  const figures = Object.keys(keyOf) as What[],
    exactness =
      `count_values by (${by === "workload" ? "workload, " : ""}owner, kind, figure) ("is", max_over_time(reckon_figure_exactness` +
      `{figure=~${promAny((many ? [what] : figures).flatMap((w) => keyOf[w]))}${of === "" ? `,workload=~${promAny([...ids, ""])}` : ""}}[${L}s]) > 0)`;
  const [used, held, gpu, gpuHeld, joules, memory, memoryHeld, network, all, names, marks] =
    await Promise.all([
      promInstant(sum("reckon_workload_cpu_seconds_total", sel), signal, r.to),
      at(time("reckon_workload_allocated_cores", sel)),
      at(sum("reckon_workload_gpu_seconds_total", sel)),
      at(time("reckon_workload_allocated_gpus", sel)),
      !many || of === "" || what === "energy" || what === "money"
        ? at(sum(measured.energy, sel))
        : [],
      only("memory", sum(measured.memory, sel)),
      only("memory", time(heldOf.memory, sel)),
      only("network", sum(measured.network, sel)),
      of === "" ? at(`sum(increase(reckon_workload_cpu_seconds_total[${L}s] anchored))`) : [],
      of === "" ? namesOf(ids, r, signal) : new Map<string, string>(),
      at(exactness),
    ]);
  const key = (m: Record<string, string>) =>
      label
        .split(", ")
        .map((l) => m[l] ?? "")
        .join("\n"),
    one = (l: PromSeries[], m: Record<string, string>) => {
      const s = l.find((x) => key(x.metric) === key(m));
      return s ? Number(s.value?.[1]) : null;
    };
  const metrics = [...first, ...used, ...held, ...gpu, ...gpuHeld, ...joules, ...memory, ...network]
    .filter((x, i, l) => l.findIndex((y) => key(y.metric) === key(x.metric)) === i)
    .map((x) => x.metric);
  const parts = (m: Record<string, string>): Sums => ({
    used: one(used, m),
    held: one(held, m),
    gpu: one(gpu, m),
    gpuHeld: one(gpuHeld, m),
    joules: one(joules, m),
    memory: one(memory, m),
    memoryHeld: one(memoryHeld, m),
    network: one(network, m),
  });
  const kindOf = (m: Record<string, string>) => m.kind ?? m.workload?.split("/")[0],
    said = (m: Record<string, string>) =>
      marks
        .map((x) => x.metric)
        .filter((x) =>
          x.workload
            ? x.workload === m.workload
            : x.kind === kindOf(m) && (!x.owner || by === "kind" || x.owner === m.owner),
        )
        .map((x): [string, string] => [x.figure, degrees[Number(x.is)] ?? "estimated"]);
  const groups =
    by === "workload"
      ? alike(
          metrics.filter((m) => m.workload),
          (m) => names.get(m.workload) ?? titleOf({ id: m.workload, owner: m.owner }),
          (m) => m.owner ?? "",
        )
      : alike(
          metrics,
          (m) => m[by] || "nobody",
          () => "",
        );
  return {
    rows: ordered(
      groups.map((g) =>
        folded(
          g.title,
          g.owner,
          g.of.map((m) => m.workload).filter(Boolean),
          g.of.map(parts),
          inexact(g.of.flatMap(said)),
        ),
      ),
    ),
    span,
    total: (of === "" ? all : used).reduce((a, x) => a + Number(x.value?.[1] ?? 0), 0),
  };
}

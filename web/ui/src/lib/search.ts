// The syntax of the search box: field:value words and free text, and back.
//   owner:alice kind:slurm,pod state:failed since:2d running:yes cpu>3600 train
import { tariff } from "./measure";
import type { Used, Workload } from "./types";
import { known } from "./units";
import type { What } from "./users";
import { figures, kinds } from "./vocabulary";

export interface Field {
  name: string;
  param: string;
  doc: string;
  many?: boolean;
  values?: string[];
}

export const states = [
  "pending",
  "running",
  "completed",
  "failed",
  "cancelled",
  "timeout",
  "out_of_memory",
  "node_fail",
  "preempted",
  "suspended",
];
/** Words that people type for states; in quotes they are names. */
const meant: Record<string, string[]> = {
  killed: ["out_of_memory", "timeout", "node_fail", "preempted"],
  oom: ["out_of_memory"],
  waiting: ["pending"],
  ...Object.fromEntries(states.filter((s) => s !== "running").map((s) => [s, [s]])),
};
export const fields: Field[] = [
  { name: "owner", param: "owner", doc: "Unix user, or namespace", many: true },
  { name: "kind", param: "kind", doc: "kind of workload", many: true, values: kinds },
  { name: "node", param: "node", doc: "node that it ran on", many: true },
  { name: "account", param: "account", doc: "project it is charged to", many: true },
  { name: "partition", param: "partition", doc: "partition or queue", many: true },
  { name: "site", param: "site", doc: "site or cluster", many: true },
  { name: "state", param: "state", doc: "state in the batch system", many: true, values: states },
  { name: "command", param: "command", doc: "program, as a shell pattern" },
  { name: "name", param: "name", doc: "name, as a shell pattern" },
  { name: "id", param: "id", doc: "the full id" },
  { name: "running", param: "running", doc: "yes or no", values: ["yes", "no"] },
  {
    name: "since",
    param: "since",
    doc: "existed after: 2h, 7d, 2026-11-21",
    values: ["1h", "1d", "7d", "30d"],
  },
  { name: "until", param: "until", doc: "existed before", values: ["1h", "1d", "7d"] },
];

export interface Parsed {
  params: Record<string, string | string[]>;
  problem?: string;
}

/** Splits into words; "..." keeps spaces together. */
export function words(text: string): string[] {
  return [...text.matchAll(/(?:[^\s"]|"(?:[^"\\]|\\.)*"?)+/g)].map((m) => m[0]);
}
const bare = (s: string) =>
  s.replace(/"((?:[^"\\]|\\.)*)"?/g, (_, x: string) => x.replace(/\\(.)/g, "$1"));
export const quote = (s: string) =>
  /[\s":,]/.test(s) || s === "" ? `"${s.replace(/["\\]/g, "\\$&")}"` : s;

export function parse(text: string): Parsed {
  const params: Record<string, string | string[]> = {};
  const free: string[] = [];
  for (const w of words(text)) {
    const cpu = /^cpu>=?(\d+(?:\.\d+)?)(s|m|h|d)?$/i.exec(w);
    if (cpu) {
      params.min_cpu = String(
        Number(cpu[1]) * { s: 1, m: 60, h: 3600, d: 86400 }[(cpu[2] ?? "s").toLowerCase() as "s"],
      );
      continue;
    }
    const at = /^([a-z]+):/.exec(w);
    const f = at && fields.find((x) => x.name === at[1]);
    if (at && !f)
      return {
        params,
        problem: `There is no field ${at[1]}. Fields: ${fields.map((x) => x.name).join(", ")}, cpu>`,
      };
    if (!f && meant[w.toLowerCase()]) {
      params.state = [...(params.state ?? []), ...meant[w.toLowerCase()]];
      continue;
    }
    if (!f) {
      free.push(bare(w));
      continue;
    }
    const raw = w.slice(f.name.length + 1);
    const value = bare(raw);
    if (value === "") return { params, problem: `Give ${f.name} a value: ${f.doc}` };
    if (f.name === "running") {
      if (!/^(yes|no|true|false)$/i.test(value)) return { params, problem: "running is yes or no" };
      params.running = /^(yes|true)$/i.test(value) ? "true" : "false";
    } else if (f.many) {
      const list = (raw.match(/(?:[^,"]|"(?:[^"\\]|\\.)*"?)+/g) ?? []).map(bare).filter(Boolean);
      const had = params[f.param];
      params[f.param] = [...(Array.isArray(had) ? had : []), ...list];
    } else params[f.param] = value;
  }
  if (free.length > 0) {
    const t = free.join(" ");
    if (t.includes("/") && !/[*?[]/.test(t)) params.id = t;
    else params.name = /[*?[]/.test(t) ? t : `*${t.replace(/\\/g, "?")}*`;
  }
  return { params };
}

export interface Suggestion {
  text: string;
  doc: string;
}

/** What could stand in place of the word before the cursor. */
export function suggest(text: string, known: Record<string, string[]>): Suggestion[] {
  const last = /\s$/.test(text) || text === "" ? "" : (words(text).at(-1) ?? "");
  const head = text.slice(0, text.length - last.length);
  const at = /^([a-z]+):(.*)$/.exec(last);
  if (at) {
    const f = fields.find((x) => x.name === at[1]);
    if (!f) return [];
    const cut = at[2].lastIndexOf(",") + 1,
      begun = bare(at[2].slice(cut)).toLowerCase();
    return (f.values ?? known[f.name] ?? [])
      .filter((v) => v.toLowerCase().startsWith(begun) && v.toLowerCase() !== begun)
      .slice(0, 8)
      .map((v) => ({ text: `${head}${f.name}:${at[2].slice(0, cut)}${quote(v)} `, doc: "" }));
  }
  return fields
    .filter((f) => f.name.startsWith(last.toLowerCase()))
    .map((f) => ({ text: `${head}${f.name}:`, doc: f.doc }));
}

/** Query string of the API, lists repeated. A value with a comma cannot be in a list. */
export function query(params: Record<string, string | number | string[] | undefined>): string {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(params)) {
    if (v === undefined || v === "") continue;
    for (const x of Array.isArray(v) ? v : [String(v)]) q.append(k, x);
  }
  return q.toString();
}

export interface Column {
  key: string;
  title: string;
  unit?: string;
  sort?: boolean;
  wide?: boolean;
}
export const columns: Column[] = [
  { key: "name", title: "Workload", sort: true, wide: true },
  { key: "id", title: "Id", sort: true, wide: true },
  { key: "owner", title: "Owner", sort: true },
  { key: "state", title: "State", sort: true },
  { key: "kind", title: "Kind", sort: true },
  { key: "account", title: "Account", sort: true },
  { key: "partition", title: "Partition", sort: true },
  { key: "command", title: "Program" },
  { key: "nodes", title: "Nodes" },
  { key: "start", title: "Start", sort: true },
  { key: "end", title: "End", sort: true },
  { key: "wall_seconds", title: "Wall", unit: "seconds" },
  { key: "spark", title: "Cores, 6 h" },
  // Used and unused are of the measure that the page is about, and have its title.
  { key: "used", title: "Used", unit: "used", sort: true },
  { key: "unused", title: "Unused", unit: "used" },
  { key: "whole", title: "CPU, whole run", unit: "core-cell" },
  ...figures.map((f) => ({ ...f, sort: true })),
];
const keysOf: Record<What, [keyof Used & string, (keyof Used & string)?]> = {
  cpu: ["cpu_seconds", "held_core_seconds"],
  memory: ["memory_byte_seconds", "held_memory_byte_seconds"],
  gpu: ["gpu_seconds", "held_gpu_seconds"],
  network: ["network_bytes"],
  energy: ["energy_joules"],
  money: ["energy_joules"],
};
/** The figure that says how much of a measure was used. */
export const keyOf = (what: What) => keysOf[what][0];
/** What a workload used within the time of the list, and was allocated and did not use; null where nothing measured or allocated it. */
export function usedOf(w: Workload, what: What): { used: number | null; unused: number | null } {
  const [key, held] = keysOf[what],
    of = w.within ?? (w as unknown as Used),
    v = of[key],
    h = held && of[held],
    own = tariff.value?.own && (tariff.value.rate ?? 0) / 3.6e6,
    price = known(w.cost) && known(w.energy_joules) ? w.cost / w.energy_joules : own || null;
  return {
    used: !known(v) ? null : what !== "money" ? v : price === null ? null : v * price,
    unused: known(h) && known(v) ? Math.max(0, h - v) : null,
  };
}
export const shown = [
  "name",
  "id",
  "owner",
  "state",
  "start",
  "wall_seconds",
  "spark",
  "used",
  "unused",
  "cores_mean",
  "memory_peak_bytes",
];

/** The state of a workload in one word, whoever said it. */
export function stateOf(w: Workload): string {
  if (w.state) return w.state.replaceAll("_", " ");
  if (w.running) return "running";
  if (w.exit_code !== undefined && w.exit_code !== null)
    return w.exit_code === 0 ? "ended" : `exit ${w.exit_code}`;
  return w.lost ? "unseen" : "ended";
}

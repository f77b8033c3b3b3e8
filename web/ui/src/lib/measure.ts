// What a page is about, from CPU to money: its figures in a row, its words, the order of rows, means, and the time before.
import { signal } from "@preact/signals";
import type { Rank } from "./ranked";
import type { Row } from "./stack";
import type { Node } from "./types";
import { known, type Unit } from "./units";
import type { Use, What } from "./users";

/** The price of a kWh: of the server's setting, else what the reader gave. */
interface Tariff {
  rate: number;
  word: string;
  own: boolean;
}
export const tariff = signal<Tariff | null>(null);
/** The server's stands above the reader's own, which is in the address or kept in the browser. */
export function tariffOf(nodes: Node[], given: string): Tariff | null {
  const n = nodes.find((x) => known(x.cost_per_hour) && (x.power_watts ?? 0) > 0),
    m = /^(\d+(?:[.,]\d+)?) *(\S{0,6})$/.exec(given);
  return n
    ? { rate: (1000 * n.cost_per_hour!) / n.power_watts!, word: n.currency ?? "", own: false }
    : m && Number(m[1].replace(",", ".")) > 0
      ? { rate: Number(m[1].replace(",", ".")), word: m[2], own: true }
      : null;
}
const currency = () => "money" + (tariff.value?.word ? " " + tariff.value.word : "");

interface Measure {
  /** What a choice and a column of others say. */ title: string;
  column: string;
  chart: string;
  /** What one row used and what of its allocation it did not. */ keys: [
    "used" | "memory" | "gpu" | "network" | "joules",
    ("wasted" | "memoryWasted" | "gpuWasted")?,
  ];
  /** Unit of amounts in columns, in full, and of the mean. */ cell: () => Unit;
  rate: () => Unit;
  /** Behind a mean in a sentence: "were in use". */ word: string;
  verb: string;
  nothing: string;
  note: string;
  /** Least mean, in the unit of the rate, that is worth a sentence when nobody used it. */ least: number;
}
export const measures: Record<What, Measure> = {
  cpu: {
    title: "CPU",
    column: "Core-hours",
    chart: "Cores in use",
    keys: ["used", "wasted"],
    cell: () => "core-h",
    rate: () => "cores",
    word: " cores",
    verb: "were in use",
    nothing: "Nothing was used in this time.",
    note: "Hours are core-hours; unused is allocated and not used",
    least: 0.5,
  },
  memory: {
    title: "memory",
    column: "Memory",
    chart: "Memory in use",
    keys: ["memory", "memoryWasted"],
    cell: () => "byte-seconds",
    rate: () => "bytes",
    word: " of memory",
    verb: "were in use by workloads",
    nothing: "No memory was measured in this time.",
    note: "Memory times hours, page cache included; unused is allocated and not used",
    least: 2 ** 30,
  },
  gpu: {
    title: "GPU",
    column: "GPU-hours",
    chart: "GPUs in use",
    keys: ["gpu", "gpuWasted"],
    cell: () => "core-h",
    rate: () => "gpus",
    word: " GPUs",
    verb: "were in use",
    nothing: "No GPU was used or allocated in this time.",
    note: "Hours are GPU-hours; unused is allocated and not used",
    least: 0.5,
  },
  network: {
    title: "network",
    column: "Network",
    chart: "Network, sent and received",
    keys: ["network"],
    cell: () => "bytes",
    rate: () => "bytes_per_second",
    word: "",
    verb: "were sent and received",
    nothing: "No traffic was measured in this time.",
    note: "Sent and received at sockets; it is not allocated, so none of it is unused",
    least: 0,
  },
  energy: {
    title: "power",
    column: "Energy",
    chart: "Power",
    keys: ["joules"],
    cell: () => "joules",
    rate: () => "watts",
    word: "",
    verb: "were drawn",
    nothing: "No energy was measured in this time.",
    note: "Energy is not allocated, so none of it is unused",
    least: 0,
  },
  money: {
    title: "money",
    column: "Cost",
    chart: "Cost of energy, each hour",
    keys: ["joules"],
    cell: currency,
    rate: currency,
    word: " an hour",
    verb: "were spent on energy",
    nothing: "No energy was measured in this time.",
    note: "Energy at its price; what nobody used costs as idle power, not here",
    least: 0,
  },
};
export const whats = Object.keys(measures) as What[];
/** Whether something of it can be allocated. */
export const allocable = (what: What) => measures[what].keys.length > 1;

/** What was used and what was allocated and not used, of one row, in seconds, bytes or joules; null is not measured. */
export function figuresOf(r: Rank, what: What): { used: number | null; wasted: number | null } {
  const [used, wasted] = measures[what].keys,
    scale = (v: number | null) =>
      what !== "money" || v === null ? v : tariff.value ? (v / 3.6e6) * tariff.value.rate : null;
  return { used: scale(r[used]), wasted: wasted ? r[wasted] : null };
}
/** Lines of energy as money an hour. */
export function priced(u: Use): Use {
  const k = (tariff.value?.rate ?? 0) / 1000,
    row = (l: Row): Row => l.map((v) => (v === null || !k ? null : v * k));
  return {
    ...u,
    all: row(u.all),
    machine: row(u.machine),
    users: u.users.map((x) => ({ ...x, row: row(x.row), used: x.used * k })),
  };
}
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

/** What one person used, and was allocated and did not use, in seconds, bytes or joules; null where nothing measured or allocated it. */
export function ownOf(rows: Rank[], name: string, what: What) {
  const own = rows
      .filter((r) => r.name === name || r.owner === name)
      .map((r) => figuresOf(r, what)),
    sum = (l: (number | null)[]) => {
      const have = l.filter(known);
      return have.length ? have.reduce((a, v) => a + v, 0) : null;
    };
  return {
    used: sum(own.map((f) => f.used)) ?? (allocable(what) ? 0 : null),
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
  const i = u.first ?? inUse(u).findIndex(known);
  return i > u.times.length / 20 ? u.times[i] : undefined;
}

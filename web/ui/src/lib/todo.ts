// What somebody must look at: alerts, nodes that are down, findings; each once, the gravest first.
import { ruleWords } from "./rules";
import type { Finding, Node, PromSeries } from "./types";

export interface Alert {
  labels: Record<string, string>;
  annotations: Record<string, string>;
  state: string;
  activeAt: string;
  value: string;
}
export interface Todo {
  grave: 0 | 1 | 2 | 3;
  kind: "alert" | "node" | "finding";
  who: string;
  owner?: string;
  node?: string;
  site?: string;
  workloads: string[];
  text: string;
  since: string;
  /** When it was last true, of what is no more so. */ until?: string;
  more: number;
  rule: string;
  cost: number;
  /** Core and GPU seconds that were allocated for nothing. */ cores?: number;
  gpus?: number;
  means?: string;
}

const gravity: Record<string, 0 | 1 | 2 | 3> = {
  critical: 0,
  high: 0,
  page: 0,
  warning: 1,
  medium: 1,
  low: 2,
  info: 2,
};
/** The gravest alert first, of equal ones the oldest. */
export const byGravity = (a: Alert, b: Alert) =>
  (gravity[a.labels.severity] ?? 1) - (gravity[b.labels.severity] ?? 1) ||
  a.activeAt.localeCompare(b.activeAt);

/** Alerts of one cause: the gravest, and those that say the same of its node. */
export interface Cause {
  first: Alert;
  also: Alert[];
}
const gone = (a: Alert) => !!a.labels.node && /Down|Silent|Unreachable/.test(a.labels.alertname);
/** Each cause once, the gravest first: a node that is gone fires as silent and as down. */
export function causes(alerts: Alert[]): Cause[] {
  const out: Cause[] = [],
    nodes = new Map<string, Cause>();
  for (const a of [...alerts].sort(byGravity)) {
    const key = (a.labels.site ?? "") + "/" + a.labels.node,
      had = gone(a) ? nodes.get(key) : undefined;
    if (had) {
      had.also.push(a);
      continue;
    }
    const c = { first: a, also: [] };
    out.push(c);
    if (gone(a)) nodes.set(key, c);
  }
  return out;
}

/** Once that an alert fired, in Unix seconds; of one that is over they are exact to a step. */
export interface Fired {
  labels: Record<string, string>;
  from: number;
  to: number;
  now: boolean;
}
/** When alerts fired, the newest first: from what fired within each step up to its time, and from what fires now. */
export function fired(steps: PromSeries[], alerts: Alert[], step: number, now: number): Fired[] {
  const rows: Fired[] = [];
  for (const s of steps) {
    let last: Fired | undefined;
    for (const [t] of s.values ?? [])
      if (last && t - last.to <= step) last.to = t;
      else rows.push((last = { labels: s.metric, from: t - step, to: t, now: false }));
  }
  for (const a of alerts.filter((x) => x.state === "firing")) {
    const i = rows.findIndex(
      (r) =>
        !r.now &&
        r.to >= now - step &&
        Object.entries(a.labels).every(([k, v]) => r.labels[k] === v),
    );
    if (i >= 0) rows.splice(i, 1);
    rows.push({ labels: a.labels, from: Date.parse(a.activeAt) / 1000, to: now, now: true });
  }
  return rows.sort((a, b) => b.from - a.from);
}
/** Of these seconds at most the beginning and end of an alert are known, where few fired. */
export const minute = 60;
/** When an alert fired, minute by minute: it began where it had not fired in the minute before, and ended where it does not in the next. */
export const firing = (edge: "begin" | "end") => {
  const f = `last_over_time(ALERTS{alertstate="firing"}[${2 * minute}s]`;
  return `${f}) unless ${f} offset ${edge === "end" ? "-" : ""}${minute}s)`;
};
/** The rows, of those that are over each from its minute to its minute where these are known. */
export function refined(rows: Fired[], begins: PromSeries[], ends: PromSeries[], step: number) {
  const times = (l: PromSeries[], r: Fired) =>
    l
      .filter((s) => Object.entries(r.labels).every(([k, v]) => s.metric[k] === v))
      .flatMap((s) => s.values ?? [])
      .map(([t]) => t);
  return rows.map((r) => {
    if (r.now) return r;
    const begin = times(begins, r).find((t) => t > r.from && t <= r.from + step + minute),
      // Its last sample is between one and two minutes before the last step that has it.
      end = times(ends, r).findLast((t) => t > r.to - step && t <= r.to + 2 * minute);
    return {
      ...r,
      from: begin === undefined ? r.from : begin - minute,
      to: end === undefined ? r.to : end - minute,
    };
  });
}
const lost = (f: Finding, unit: string) =>
  f.evidence.filter((e) => e.wasted && e.unit === unit).reduce((a, e) => a + e.value, 0);
/** For the order alone: a GPU counts as 16 cores. */
const cost = (f: Finding) => lost(f, "core-seconds") + 16 * lost(f, "gpu-seconds");

/** Text of an annotation: percentages as people write them. */
export const readable = (text: string) =>
  text.replace(
    /(\d+\.\d{2,})%/g,
    (_m, v) => `${Number(v) < 10 ? Number(Number(v).toFixed(1)) : Math.round(Number(v))} %`,
  );

/** Findings are checked every few minutes: what was not true for an hour is over. */
const overAfter = 3.6e6;
export function todos(
  alerts: Alert[],
  nodes: Node[],
  findings: Finding[],
  now = Date.now(),
): Todo[] {
  const out: Todo[] = [],
    nodeAlerts = new Set<string>();
  for (const a of alerts.filter((x) => x.state === "firing")) {
    const node = a.labels.node;
    if (node && /Down|Silent/.test(a.labels.alertname)) {
      if (nodeAlerts.has(node)) continue;
      nodeAlerts.add(node);
    } // a node that is down is one thing
    out.push({
      grave: gravity[a.labels.severity] ?? 1,
      kind: "alert",
      who: node ?? a.labels.owner ?? a.labels.site ?? "",
      owner: a.labels.owner,
      node,
      site: a.labels.site,
      workloads: a.labels.workload ? [a.labels.workload] : [],
      text: readable(a.annotations.summary ?? a.annotations.description ?? a.labels.alertname),
      since: a.activeAt,
      more: 0,
      rule: a.labels.alertname,
      cost: 0,
    });
  }
  for (const n of nodes)
    if (!n.up && n.agent !== false && !nodeAlerts.has(n.node))
      out.push({
        grave: 0,
        kind: "node",
        who: n.node,
        node: n.node,
        site: n.site,
        workloads: [],
        text: "stopped answering",
        since: n.seen,
        more: 0,
        rule: "down",
        cost: 0,
      });
  const groups = new Map<string, Finding[]>();
  for (const f of findings) {
    const k = (f.owner || f.node || f.id) + "\n" + f.rule;
    groups.set(k, [...(groups.get(k) ?? []), f]);
  }
  for (const of of groups.values()) {
    const ended = (x: Finding) => Date.parse(x.last) < now - overAfter;
    of.sort((a, b) => Number(ended(a)) - Number(ended(b)) || cost(b) - cost(a));
    const f = of[0],
      last = of.reduce((a, x) => (x.last > a ? x.last : a), ""),
      first = of.reduce((a, x) => (x.first < a ? x.first : a), f.first);
    out.push({
      grave: Math.min(...of.map((x) => gravity[x.severity] ?? 2)) as 0,
      kind: "finding",
      who: f.owner || f.node || "",
      owner: f.owner,
      node: f.node,
      site: f.site,
      workloads: of.map((x) => x.workload ?? "").filter(Boolean),
      text: f.text,
      since: first,
      until: of.every(ended) ? last : undefined,
      more: of.length - 1,
      rule: f.rule,
      cost: of.reduce((a, x) => a + cost(x), 0),
      cores: of.reduce((a, x) => a + lost(x, "core-seconds"), 0),
      gpus: of.reduce((a, x) => a + lost(x, "gpu-seconds"), 0),
      means: f.means,
    });
  }
  return out.sort(
    (a, b) =>
      Number(!!a.until) - Number(!!b.until) ||
      a.grave - b.grave ||
      (a.kind === "finding" ? 1 : 0) - (b.kind === "finding" ? 1 : 0) ||
      b.cost - a.cost,
  );
}

/** What a rule finds, in a few words. */
export const wordsOf = (rule: string) => ruleWords[rule] ?? rule.replaceAll("-", " ");
/** A text without the name that stands before it. */
export const without = (text: string, who: string) =>
  who && text.startsWith(who + " ") ? text.slice(who.length + 1) : text;

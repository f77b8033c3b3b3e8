// Site: every node a cell, totals, who uses most.
import { useMemo, useRef } from "preact/hooks";
import { promInstant, useAsk, type Failure } from "../lib/api";
import { today, type ForecastList } from "../lib/forecast";
import { pressure } from "../lib/nodes";
import { Outlook } from "../lib/outlook";
import { Bar, clean, Empty, Name, Named, Owner, Problem, Q, Section, Show, Table, W, Choice } from "../lib/parts";
import { promAny } from "../lib/stack";
import { go, has, introduced, live, me, nodeLink, ownerLink, param, set } from "../lib/state";
import type { FindingList, Node, NodeList, Num, Usage, UsageList, Workload, WorkloadList } from "../lib/types";
import { human, known } from "../lib/units";

const whats: [string, string][] = [["cpu", "CPU"], ["memory", "Memory"], ["gpu", "GPU"], ["power", "Power"], ["pressure", "Pressure"], ["disk", "Disk"]];

/** The share (0 to 1) that colours a cell, its words and, for hover, more of them; null when not measured. */
export function figure(n: Node, what: string, top: number, gpu?: Map<string, number>): { share: number | null; text: string; more?: string } {
  if (what === "pressure") { const p = pressure(n); return { share: p?.share ?? null, text: human(p?.share, "ratio"), more: p?.all }; }
  const of = (v: Num, w: Num) => (known(v) && known(w) && w > 0 ? v / w : null);
  const share = what === "gpu" ? (gpu?.get((n.site ?? "") + "/" + n.node) ?? null) : what === "memory" ? of(n.memory_used_bytes, n.memory_bytes) : what === "power" ? of(n.power_watts, top)
    : what === "disk" ? of(n.disk_bytes_per_second, top) : of(n.cores_used, n.cores);
  const text = what === "power" ? human(n.power_watts, "watts") : what === "disk" ? human(n.disk_bytes_per_second, "bytes_per_second") : human(share, "ratio");
  return { share, text };
}
export const sum = (list: Node[], f: (n: Node) => Num): number | null => {
  const have = list.map(f).filter(known);
  return have.length ? have.reduce((a, b) => a + b, 0) : null;
};

export function Site() {
  const nodes = useAsk<NodeList>("/api/reckon/v1/nodes", true);
  const open = me.value?.role === "public", by = open ? "kind" : "owner"; // the public sees no names
  const day = useAsk<UsageList>(has("usage") && introduced.value ? "/api/reckon/v1/usage?since=24h&by=" + by : null);
  const busy = useAsk(has("prometheus") && !live.value ? "busiest" : null, true, busiest);
  const top = useAsk<WorkloadList>("/api/reckon/v1/workloads?running=true&sort=-cpu_seconds&limit=10", true);
  const allRunning = <a href="/workloads?q=running:yes">all that run</a>;
  return <>
    <h1>Site</h1>
    <Show a={nodes}>{(d) => (d.nodes.length === 0 ? <Empty>No node has reported yet. On each machine run <code>reckon-agent</code>, or <code>reckon up</code> here.</Empty> : <>
      <Totals nodes={d.nodes} day={day.data?.total} /><Cells nodes={d.nodes} /></>)}</Show>
    <div class="cols">
      {live.value ? <Section title="Busiest now" aside={allRunning}><LiveTop /></Section> : busy.data && busy.data.length > 0 ? <Section title="Busiest now" aside={allRunning}><Busiest list={busy.data} /></Section>
        : <Section title="Running, by CPU time" aside={allRunning}><Show a={top}>{(d) => <Running list={d.workloads} />}</Show></Section>}
      {has("usage") && <Section title={open ? "Kinds of work, last day" : "Owners, last day"} aside={open ? undefined : <a href="/owners?since=24h">all owners</a>}><Show a={day}>{(d) => <TopOwners list={d} by={by} />}</Show></Section>}
      {has("findings") && introduced.value && !open && <OpenFindings />}
    </div>
    <Outlook of={{}} />
  </>;
}

function Totals({ nodes, day }: { nodes: Node[]; day?: Usage }) {
  const up = nodes.filter((n) => n.up), down = nodes.length - up.length;
  const l = live.value && nodes.length === 1 ? live.value : null;
  const used = l?.cores_used ?? sum(up, (n) => n.cores_used), cores = sum(up, (n) => n.cores), watts = sum(up, (n) => n.power_watts);
  const missingPower = up.filter((n) => !known(n.power_watts)).length;
  return <ul class="facts">
    <li><span class="what">Nodes up</span><b>{up.length} of {nodes.length}</b><small>{down > 0 ? <a href="/nodes?state=down">{down} down</a> : "none down"}</small></li>
    <li><span class="what">Cores in use</span><b><Q v={used} unit="cores" /> of <Q v={cores} unit="cores" /></b><Bar v={used} of={cores} unit="cores" label="Cores in use" /></li>
    <li><span class="what">Memory in use</span><b><Q v={sum(up, (n) => n.memory_used_bytes)} unit="bytes" /></b><small>of <Q v={sum(up, (n) => n.memory_bytes)} unit="bytes" /></small></li>
    <li><span class="what">Power</span><b><Q v={watts} unit="watts" /></b><small>{watts === null ? <a href="/about">not measured: why?</a> : missingPower ? `without ${missingPower} node${missingPower === 1 ? "" : "s"}` : ["measured", "modelled"].find((m) => up.every((n) => n.power_method === m)) ?? "measured and modelled"}</small></li>
    <li><span class="what">Workloads</span><b>{up.reduce((a, n) => a + n.workloads, 0)}</b><small><a href="/workloads?q=running:yes">that run now</a></small></li>
    {day && <li><span class="what">CPU time, last day</span><b><Q v={day.cpu_seconds} unit="seconds" /></b><small>{known(day.capacity_share) ? `${human(day.capacity_share, "ratio")} of what was there` : ""}</small></li>}
    {has("usage") && <EnergyToday />}
    {day && known(day.energy_joules) && <li><span class="what">Energy, last day</span><b><Q v={day.energy_joules} unit="joules" /></b><small>of workloads</small></li>}
  </ul>;
}

function Cells({ nodes }: { nodes: Node[] }) {
  const what = param("show") || "cpu", [gpu, gpuError] = useGPU(what === "gpu");
  const top = Math.max(0, ...nodes.map((n) => (what === "power" ? n.power_watts : n.disk_bytes_per_second) ?? 0));
  const box = useRef<HTMLDivElement>(null);
  const move = (e: KeyboardEvent) => {
    const all = [...box.current!.querySelectorAll<HTMLElement>(".cell")], i = all.indexOf(document.activeElement as HTMLElement);
    if (i < 0) return;
    const across = all.filter((c) => c.offsetTop === all[0].offsetTop).length;
    const to = i + ({ ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[e.key] ?? 0);
    if (e.key === "Enter" || to === i || !all[to]) return;
    e.preventDefault();
    all[i].tabIndex = -1; all[to].tabIndex = 0; all[to].focus();
  };
  const size = nodes.length <= 24 ? "few" : nodes.length > 200 ? "many" : "";
  return <Section title="Nodes" aside={<Choice label="Colour by" value={what} of={whats} pick={(v) => set({ show: v === "cpu" ? "" : v })} />}>
    <div class={"grid " + size} ref={box} role="group" aria-label={`Nodes by ${what}; arrow keys move`} onKeyDown={move}>
      {nodes.map((n, i) => {
        const f = figure(n, what, top, gpu);
        const c = !n.up ? "isdown" : f.share === null ? "none" : "c" + Math.min(5, Math.floor(f.share * 6));
        const seen = !n.up ? "✕" : f.share === null ? "–" : size === "many" ? String(Math.round(f.share * 100)) : f.text;
        const words = `${clean(n.node).slice(0, 40)} ${!n.up ? "down" : n.agent === false ? "no agent" : f.share === null ? `${what} not measured` : `${size === "many" ? seen + " percent" : seen} ${what}${f.more ? `: ${f.more}` : ""}`}`;
        return <a key={(n.site ?? "") + "/" + n.node} class={"cell " + c} href={nodeLink(n.node, n.site)} tabIndex={i === 0 ? 0 : -1} aria-label={words} title={words} onClick={(e) => { if (!e.ctrlKey && !e.metaKey) { e.preventDefault(); go(nodeLink(n.node, n.site)); } }}>
          {size === "few" && <span class="label"><bdi>{clean(n.node).slice(0, 40)}</bdi></span>}{" "}{seen}</a>;
      })}
    </div>
    {gpuError && <Problem e={gpuError} />}
    <p class="scale">idle {[0, 1, 2, 3, 4, 5].map((i) => <i class={"c" + i} />)} full {what === "power" || what === "disk" ? `(${human(top, what === "power" ? "watts" : "bytes_per_second")})` : ""} · ✕ down · – not measured</p>
  </Section>;
}

/** Busy share of the GPUs of each node, mean of five minutes. */
function useGPU(wanted: boolean): [Map<string, number> | undefined, Failure | undefined] {
  const a = useAsk(wanted && has("prometheus") ? "busy share of GPUs" : null, true, (_p, s) => promInstant("sum by (site, node) (rate(reckon_gpu_busy_seconds_total[5m])) / count by (site, node) (reckon_gpu_busy_seconds_total)", s));
  return [useMemo(() => a.data && new Map(a.data.map((s) => [(s.metric.site ?? "") + "/" + (s.metric.node ?? ""), Number(s.value?.[1])])), [a.data]), a.error];
}

/** Energy of today so far, and what it will be. */
function EnergyToday() {
  const a = useAsk<UsageList>("/api/reckon/v1/usage?since=25h&span=hour"), f = useAsk<ForecastList>(has("forecast") ? "/api/reckon/v1/forecast" : null);
  const hours = useMemo(() => a.data?.rows.flatMap((r) => (r.from && known(r.node_energy_joules) ? [{ from: Date.parse(r.from), joules: r.node_energy_joules }] : [])), [a.data]);
  const t = useMemo(() => hours && f.data && today(hours, f.data.forecasts.filter((x) => x.figure === "watts"), Date.now()), [hours, f.data]);
  if (!hours) return a.error ? null : <li><span class="what">Energy, today</span><b>…</b></li>;
  if (!t) return <li><span class="what">Energy, today</span><b><Q v={hours.length ? soFar(hours) : null} unit="joules" /></b><small>{hours.length ? "so far; there is no forecast yet" : "not measured"}</small></li>;
  return <li><span class="what">Energy, today</span><b><Q v={t.joules} unit="joules" /></b><small title={`95 % likely ${human(t.low, "joules")} to ${human(t.high, "joules")} if all hours went together; hours of today that were not measured are not in it`}>forecast, ± {human((t.high - t.low) / 2, "joules")}; so far <Q v={t.soFar} unit="joules" /></small></li>;
}
const soFar = (hours: { from: number; joules: number }[]) => { const d = new Date(); d.setHours(0, 0, 0, 0); return hours.filter((h) => h.from >= d.getTime()).reduce((x, h) => x + h.joules, 0); };

interface Busy { id: string; site?: string; owner: string; cores: number; memory: number | null; name: string }
/** Who uses most cores, mean of five minutes. */
async function busiest(_path: string, signal: AbortSignal): Promise<Busy[]> {
  const list = (await promInstant("topk(10, sum by (site, workload, owner) (rate(reckon_workload_cpu_seconds_total[5m])))", signal)).flatMap((s) => (s.metric.workload ? [{ id: s.metric.workload, site: s.metric.site, owner: s.metric.owner ?? "", cores: Number(s.value?.[1]) }] : [])).sort((a, b) => b.cores - a.cores);
  if (list.length === 0) return [];
  const of = `{workload=~${promAny(list.map((x) => x.id))}}`;
  const [memory, names] = await Promise.all([promInstant(`sum by (site, workload) (reckon_workload_memory_bytes${of})`, signal), promInstant(`max by (site, workload, name) (reckon_workload_info${of})`, signal)]);
  const at = (l: typeof memory, x: { id: string; site?: string }) => l.find((s) => s.metric.workload === x.id && s.metric.site === x.site);
  return list.map((x) => ({ ...x, memory: at(memory, x) ? Number(at(memory, x)!.value?.[1]) : null, name: at(names, x)?.metric.name ?? "" }));
}
function Busiest({ list }: { list: Busy[] }) {
  return <Table caption="Workloads by cores in use" rows={list} keyOf={(w) => (w.site ?? "") + w.id} cols={[
    { title: "Workload", cell: (w) => <><W w={w} /> {w.name && !w.id.endsWith("/" + w.name) && <Name max={40}>{w.name}</Name>}</> }, { title: "Owner", cell: (w) => <Owner o={w.owner} /> },
    { title: "Cores", number: true, cell: (w) => <Q v={w.cores} unit="cores" note="mean of five minutes" /> }, { title: "Memory", number: true, cell: (w) => <Q v={w.memory} unit="bytes" /> }]} />;
}

function OpenFindings() {
  const a = useAsk<FindingList>("/api/reckon/v1/findings?limit=5", true);
  if (a.error && (a.error.status === 401 || a.error.status === 403)) return null;
  return <Section title="Open findings" aside={<a href="/findings">all findings</a>}><Show a={a}>{(d) => (d.findings.length === 0 ? <Empty>{d.looked ? "None." : "The server has not looked yet."}</Empty>
    : <>{d.findings.map((f) => <p key={f.id} class="wrap"><b>{f.severity}: {clean(f.rule)}</b> {clean(f.text)}</p>)}{d.total > 5 && <p class="quiet">and {d.total - 5} more</p>}</>)}</Show></Section>;
}

function LiveTop() {
  const l = live.value!, list = [...l.workloads].sort((a, b) => b.cores - a.cores || (b.memory_bytes ?? 0) - (a.memory_bytes ?? 0)).slice(0, 10);
  if (list.length === 0) return <Empty>Nothing runs.</Empty>;
  return <Table caption={"Workloads on " + clean(l.node) + " by cores in use"} rows={list} keyOf={(w) => w.id + w.part} cols={[
    { title: "Workload", cell: (w) => (w.id === "others" ? "others" : <><W w={w} />{w.name && !w.id.endsWith("/" + w.name) && <> <Name max={30}>{w.name}</Name></>}</>) }, { title: "Owner", cell: (w) => <Owner o={w.owner} /> },
    { title: "Cores", number: true, cell: (w) => <Q v={w.cores} unit="cores" /> }, { title: "Memory", number: true, cell: (w) => <Q v={w.memory_bytes} unit="bytes" /> },
    { title: "Read", number: true, cell: (w) => <Q v={w.io_read_bytes_per_second} unit="bytes_per_second" /> }, { title: "Write", number: true, cell: (w) => <Q v={w.io_write_bytes_per_second} unit="bytes_per_second" /> }]} />;
}
function Running({ list }: { list: Workload[] }) {
  if (list.length === 0) return <Empty>Nothing runs.</Empty>;
  return <Table caption="Running workloads by CPU time" rows={list} keyOf={(w) => w.id} cols={[
    { title: "Workload", cell: (w) => <><W w={w} /> <Named w={w} /></> }, { title: "Owner", cell: (w) => <Owner o={w.owner} /> },
    { title: "CPU time", number: true, cell: (w) => <Q v={w.cpu_seconds} unit="seconds" /> }, { title: "Cores", number: true, cell: (w) => <Q v={w.cores_mean} unit="cores" /> },
    { title: "Memory", number: true, cell: (w) => <Q v={w.memory_peak_bytes} unit="bytes" /> }]} />;
}
function TopOwners({ list, by }: { list: UsageList; by: string }) {
  const of = (r: Usage) => String((by === "kind" ? r.kind : r.owner) ?? "");
  const rows = [...list.rows].filter((r) => known(r.cpu_seconds)).sort((a, b) => Number(b.cpu_seconds) - Number(a.cpu_seconds)).slice(0, 10);
  if (rows.length === 0) return <Empty>Nothing was used yet, or it is still within the first hour.</Empty>;
  const all = list.total.cpu_seconds as Num;
  return <Table caption={`CPU time of the last day by ${by}`} rows={rows} keyOf={(r, i) => of(r) + i} cols={[
    { title: by === "kind" ? "Kind" : "Owner", cell: (r) => (by === "kind" ? of(r) : r.owner && r.owner !== "others" ? <a href={ownerLink(r.owner)}><bdi>{clean(r.owner).slice(0, 40)}</bdi></a> : r.owner || "nobody") },
    { title: "CPU time", number: true, cell: (r) => <Q v={r.cpu_seconds} unit="seconds" /> }, { title: "Share", cell: (r) => <Bar v={r.cpu_seconds as Num} of={all} unit="seconds" label={"Share of " + clean(of(r))} /> },
    { title: "Energy", number: true, cell: (r) => <Q v={r.energy_joules} unit="joules" /> }]} />;
}

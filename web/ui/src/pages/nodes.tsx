// Nodes as a table.
import { useAsk } from "../lib/api";
import { Bar, Choice, Empty, NodeName, Q, Section, Show, Table, When } from "../lib/parts";
import { param, set } from "../lib/state";
import type { Node, NodeList } from "../lib/types";
import { known } from "../lib/units";

/** Order by a key, - for descending; what is not known comes last either way. */
export function sorted(list: Node[], by: string): Node[] {
  const key = by.replace(/^-/, ""), sign = by.startsWith("-") ? -1 : 1;
  const of = (n: Node): unknown => (key === "used" ? (known(n.cores_used) && n.cores ? n.cores_used / n.cores : null) : key === "memory" ? (known(n.memory_used_bytes) && n.memory_bytes ? n.memory_used_bytes / n.memory_bytes : null) : (n as unknown as Record<string, unknown>)[key]);
  return [...list].sort((a, b) => {
    const x = of(a), y = of(b), no = (v: unknown) => v === null || v === undefined;
    if (no(x) || no(y)) return no(x) === no(y) ? 0 : no(x) ? 1 : -1;
    return sign * (typeof x === "number" ? x - (y as number) : String(x).localeCompare(String(y), undefined, { numeric: true }));
  });
}

export function Nodes() {
  const a = useAsk<NodeList>("/api/reckon/v1/nodes", true);
  const by = param("sort") || "node", state = param("state"), find = param("q");
  return <><h1>Nodes</h1>
    <div class="controls"><label class="search"><span class="hidden">Find nodes by name</span><input type="search" data-search placeholder="Find by name" value={find} onInput={(e) => set({ q: e.currentTarget.value })} /></label>
      <Choice label="Show" value={state} of={[["", "all"], ["up", "up"], ["down", "down"]]} pick={(v) => set({ state: v })} />
      <a href="/api/reckon/v1/nodes?format=csv" download="nodes.csv">CSV</a> <a href="/api/reckon/v1/nodes" download="nodes.json">JSON</a></div>
    <Show a={a}>{(d) => {
      const list = sorted(d.nodes.filter((n) => (state === "" || n.up === (state === "up")) && n.node.toLowerCase().includes(find.toLowerCase())), by);
      const gone = (n: Node) => n.sensors.filter((s) => !s.up).length;
      if (d.nodes.length === 0) return <Empty>No node has reported yet.</Empty>;
      if (list.length === 0) return <Empty>No node is like that. <button onClick={() => set({ q: "", state: "" })}>Show all {d.nodes.length}</button></Empty>;
      return <Section title={list.length === d.nodes.length ? `${list.length} nodes` : `${list.length} of ${d.nodes.length} nodes`}><Table caption="Nodes" rows={list} keyOf={(n) => n.node} sort={by} onSort={(s) => set({ sort: s })} cols={[
        { title: "Node", sort: "node", cell: (n) => <><span class={n.up ? "up" : "down"}><span class="hidden">{n.up ? "up" : "down"}</span></span> <NodeName n={n.node} /></> },
        { title: "Cores", sort: "used", cell: (n) => <><Bar v={n.up ? n.cores_used : null} of={n.cores} unit="cores" label="Cores in use" /> <span class="quiet">of <Q v={n.cores} unit="cores" /></span></> },
        { title: "Memory", sort: "memory", cell: (n) => <><Bar v={n.up ? n.memory_used_bytes : null} of={n.memory_bytes} unit="bytes" label="Memory in use" /> <span class="quiet">of <Q v={n.memory_bytes} unit="bytes" /></span></> },
        { title: "CPU pressure", sort: "cpu_pressure", number: true, cell: (n) => <Q v={n.cpu_pressure} unit="ratio" note="share of time some task waited" /> },
        { title: "Load", sort: "load1", number: true, cell: (n) => <Q v={n.load1} unit="cores" /> },
        { title: "Disk", sort: "disk_bytes_per_second", number: true, cell: (n) => <Q v={n.disk_bytes_per_second} unit="bytes_per_second" /> },
        { title: "Network", sort: "network_bytes_per_second", number: true, cell: (n) => <Q v={n.network_bytes_per_second} unit="bytes_per_second" /> },
        { title: "Power", sort: "power_watts", number: true, cell: (n) => <Q v={n.power_watts} unit="watts" note={n.power_method} /> },
        { title: "Workloads", sort: "workloads", number: true, cell: (n) => n.workloads },
        { title: "Seen", sort: "seen", cell: (n) => <When t={n.seen} relative /> },
        { title: "Sensors", cell: (n) => <a href={"/about?" + new URLSearchParams({ node: n.node })}>{n.sensors.length - gone(n)} of {n.sensors.length}</a> },
      ]} /></Section>;
    }}</Show></>;
}

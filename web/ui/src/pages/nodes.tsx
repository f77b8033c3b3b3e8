// Nodes as a table.
import { useAsk } from "../lib/api";
import { pressure, sorted, stateOfNode } from "../lib/nodes";
import {
  Bar,
  Choice,
  clean,
  Columns,
  Empty,
  Name,
  NodeName,
  Q,
  Section,
  Show,
  Table,
  When,
  type Col,
} from "../lib/parts";
import { param, set } from "../lib/state";
import type { Node, NodeList } from "../lib/types";
import { known } from "../lib/units";
import { sum } from "./site";

interface Named extends Col<Node> {
  key: string;
  when?: (n: Node) => boolean;
}
const batch = (n: Node) => !!n.batch;
const columns: Named[] = [
  {
    key: "node",
    title: "Node",
    sort: "node",
    cell: (n) => (
      <>
        <span class={n.up ? "up" : "down"}>
          <span class="hidden">{n.up ? "up" : "down"}</span>
        </span>{" "}
        <NodeName n={n.node} site={n.site} />
        {n.agent === false && <small class="quiet"> no agent</small>}
      </>
    ),
  },
  { key: "site", title: "Site", sort: "site", cell: (n) => <Name max={30}>{n.site ?? ""}</Name> },
  {
    key: "state",
    title: "State",
    sort: "state",
    when: batch,
    cell: (n) => {
      const s = stateOfNode(n);
      return (
        <span class={s.bad ? "attention" : ""} title={s.why ? clean(s.why) : undefined}>
          {clean(s.word)}
        </span>
      );
    },
  },
  {
    key: "used",
    title: "Cores",
    sort: "used",
    cell: (n) => (
      <>
        <Bar v={n.up ? n.cores_used : null} of={n.cores} unit="cores" label="Cores in use" />{" "}
        <span class="quiet">
          of <Q v={n.cores} unit="cores" />
        </span>
      </>
    ),
  },
  {
    key: "day",
    title: "Used, day",
    sort: "day",
    number: true,
    when: (n) => !!n.day,
    cell: (n) => (
      <Q v={n.day?.cpu_share} unit="ratio" note="of its cores in the last day, while it was up" />
    ),
  },
  {
    key: "week",
    title: "Used, week",
    sort: "week",
    number: true,
    when: (n) => !!n.week,
    cell: (n) => (
      <Q v={n.week?.cpu_share} unit="ratio" note="of its cores in the last week, while it was up" />
    ),
  },
  {
    key: "held",
    title: "Allocated",
    sort: "held",
    number: true,
    when: batch,
    cell: (n) =>
      n.batch ? (
        <span title="cores that jobs hold, of those that the batch system gives out">
          <Q v={n.batch.cores_held} unit="cores" /> of <Q v={n.batch.cores} unit="cores" />
        </span>
      ) : (
        "–"
      ),
  },
  {
    key: "gpus",
    title: "GPUs",
    sort: "gpus",
    number: true,
    when: (n) => known(n.gpus) && n.gpus > 0,
    cell: (n) =>
      n.batch && known(n.batch.gpus_held) && known(n.gpus) && n.gpus > 0 ? (
        <span title="held by jobs, of all">
          {n.batch.gpus_held} of {n.gpus}
        </span>
      ) : (
        <Q v={n.gpus} unit="gpus" />
      ),
  },
  {
    key: "gpus_used",
    title: "GPUs in use",
    sort: "gpus_used",
    number: true,
    when: (n) => known(n.gpus_used),
    cell: (n) => (
      <>
        <Q v={n.gpus_used} unit="gpus" />
        {known(n.gpu_memory_used_bytes) && (
          <small class="line">
            <Q v={n.gpu_memory_used_bytes} unit="bytes" />
            {known(n.gpu_power_watts) && (
              <>
                , <Q v={n.gpu_power_watts} unit="watts" />
              </>
            )}
          </small>
        )}
      </>
    ),
  },
  {
    key: "memory",
    title: "Memory",
    sort: "memory",
    cell: (n) => (
      <>
        <Bar
          v={n.up ? n.memory_used_bytes : null}
          of={n.memory_bytes}
          unit="bytes"
          label="Memory in use"
          scarce
        />{" "}
        <span class="quiet">
          of <Q v={n.memory_bytes} unit="bytes" />
        </span>
      </>
    ),
  },
  {
    key: "unused",
    title: "Idle, day",
    sort: "unused",
    number: true,
    when: (n) => !!n.day,
    cell: (n) => (
      <Q
        v={n.day?.unused_core_seconds}
        unit="core-seconds"
        note="of core time in the last day that was there and not used"
      />
    ),
  },
  {
    key: "waiting",
    title: "Had room for",
    sort: "waiting",
    number: true,
    when: (n) => !!n.waiting && n.waiting.jobs > 0,
    cell: (n) =>
      n.waiting ? (
        <span title="jobs that waited in the last day while it had free all that they asked for on one node">
          {n.waiting.jobs === 0 ? "–" : `${n.waiting.jobs} job${n.waiting.jobs === 1 ? "" : "s"}`}
        </span>
      ) : (
        "–"
      ),
  },
  {
    key: "pressure",
    title: "Pressure",
    sort: "pressure",
    number: true,
    cell: (n) => {
      const p = pressure(n);
      return (
        <>
          <Q v={p?.share} unit="ratio" note={p?.all} />
          {p && p.share >= 0.005 && <small class="quiet"> {p.of}</small>}
        </>
      );
    },
  },
  {
    key: "load",
    title: "Load",
    sort: "load1",
    number: true,
    cell: (n) => <Q v={n.load1} unit="cores" />,
  },
  {
    key: "disk",
    title: "Disk",
    sort: "disk_bytes_per_second",
    number: true,
    cell: (n) => <Q v={n.disk_bytes_per_second} unit="bytes_per_second" />,
  },
  {
    key: "network",
    title: "Network",
    sort: "network_bytes_per_second",
    number: true,
    cell: (n) => <Q v={n.network_bytes_per_second} unit="bytes_per_second" />,
  },
  {
    key: "power",
    title: "Power",
    sort: "power_watts",
    number: true,
    cell: (n) => <Q v={n.power_watts} unit="watts" note={n.power_method} />,
  },
  {
    key: "workloads",
    title: "Workloads",
    sort: "workloads",
    number: true,
    cell: (n) => <Q v={n.workloads} unit="count" />,
  },
  { key: "seen", title: "Seen", sort: "seen", cell: (n) => <When t={n.seen} relative /> },
  {
    key: "sensors",
    title: "Sensors",
    cell: (n) =>
      n.agent === false ? (
        <span class="quiet">no agent</span>
      ) : (
        <a href={"/about?" + new URLSearchParams({ node: n.node })}>
          {n.sensors.filter((s) => s.up).length} of {n.sensors.length}
        </a>
      ),
  },
];
const usual = [
  "node",
  "site",
  "state",
  "used",
  "day",
  "held",
  "gpus",
  "gpus_used",
  "memory",
  "waiting",
  "pressure",
  "power",
  "workloads",
];

/** How many report now, and what of them is in use now. */
function nowOf(nodes: Node[]) {
  const up = nodes.filter((n) => n.up && n.agent !== false),
    used = sum(up, (n) => n.cores_used),
    all = sum(up, (n) => n.cores);
  return (
    <>
      <Q v={up.length} unit="count" /> of <Q v={nodes.length} unit="count" />{" "}
      {nodes.length === 1 ? "node" : "nodes"} report
      {up.length === 1 && nodes.length === 1 ? "s" : ""} now
      {known(used) && known(all) && (
        <>
          ; <Q v={used} unit="cores" /> of their <Q v={all} unit="cores" /> cores are in use
        </>
      )}
      .
    </>
  );
}

export function Nodes() {
  const a = useAsk<NodeList>("/api/reckon/v1/nodes", true);
  const by = param("sort") || "node",
    state = param("state"),
    find = param("q"),
    keys = (param("cols") || usual.join(",")).split(",");
  // A column that no node has a figure for tells nothing.
  const sites = new Set(a.data?.nodes.map((n) => n.site)).size;
  const there = columns.filter(
    (c) => (c.key !== "site" || sites > 1) && (!c.when || !a.data || a.data.nodes.some(c.when)),
  );
  return (
    <>
      <h1>Nodes</h1>
      <div class="controls">
        <label class="search">
          <span class="hidden">Find nodes by name or state</span>
          <input
            type="search"
            data-search
            placeholder="Find by name or state"
            value={find}
            onInput={(e) => set({ q: e.currentTarget.value })}
          />
        </label>
        <Choice
          label="Show"
          value={state}
          of={[
            ["", "all"],
            ["up", "up"],
            ["down", "down"],
          ]}
          pick={(v) => set({ state: v })}
        />
        <Columns
          of={there}
          keys={keys}
          fixed="node"
          pick={(k) =>
            set({
              cols:
                k.join(",") ===
                there
                  .map((c) => c.key)
                  .filter((x) => usual.includes(x))
                  .join(",")
                  ? ""
                  : k.join(","),
            })
          }
        />
        <a href="/api/reckon/v1/nodes?format=csv" download="nodes.csv">
          CSV
        </a>{" "}
        <a href="/api/reckon/v1/nodes" download="nodes.json">
          JSON
        </a>
      </div>
      <Show a={a}>
        {(d) => {
          const low = find.toLowerCase(),
            list = sorted(
              d.nodes.filter(
                (n) =>
                  (state === "" || n.up === (state === "up")) &&
                  (n.node.toLowerCase().includes(low) ||
                    stateOfNode(n).word.toLowerCase().includes(low)),
              ),
              by,
            );
          if (d.nodes.length === 0) return <Empty>No node has reported yet.</Empty>;
          if (list.length === 0)
            return (
              <Empty>
                No node matches.{" "}
                <button onClick={() => set({ q: "", state: "" })}>Show all {d.nodes.length}</button>
              </Empty>
            );
          return (
            <>
              <p class="sub">{nowOf(d.nodes)}</p>
              <Section
                title={
                  list.length === d.nodes.length
                    ? `${list.length} node${list.length === 1 ? "" : "s"}`
                    : `${list.length} of ${d.nodes.length} nodes`
                }
                aside={
                  d.as_of && (
                    <small class="quiet">
                      as of <When t={d.as_of} relative />
                    </small>
                  )
                }
              >
                <Table
                  caption="Nodes"
                  rows={list}
                  keyOf={(n) => (n.site ?? "") + "/" + n.node}
                  sort={by}
                  onSort={(s) => set({ sort: s })}
                  cols={there.filter((c) => keys.includes(c.key))}
                />
              </Section>
            </>
          );
        }}
      </Show>
    </>
  );
}

// One node: who uses it over time, stacked up to the machine's total, and its pressures.
import { useMemo } from "preact/hooks";
import { ask, promInstant, promRange, useAsk } from "../lib/api";
import { TimeChart, type Line } from "../lib/chart";
import { ConnectionsPanel } from "../lib/connections";
import { delays } from "../lib/inside";
import { DevicesPanel } from "../lib/devices";
import { Outlook } from "../lib/outlook";
import { OwnPanel } from "../lib/own";
import { Bar, Choice, Empty, Q, Section, Show, When, Words, clean } from "../lib/parts";
import { inksOf } from "../lib/ink";
import { Peak } from "../lib/peak";
import { pressure, stateOfNode } from "../lib/nodes";
import { fitUsual, range as ranged, zoomTo, type Range } from "../lib/range";
import { has, nodeLink, nothing, param, set, workloadLink } from "../lib/state";
import { axis, free, onto, promAny, promQuote, rest, type Row } from "../lib/stack";
import type { Node, NodeList, NodeSpan, PromSeries, UsageList } from "../lib/types";
import { alike, titleOf } from "../lib/names";
import { added, namesOf, samplesIn10m } from "../lib/users";
import { human, known, type Unit } from "../lib/units";
import { Unmeasured, whyNot } from "../lib/unmeasured";

const biggest = 9;

export function NodePage() {
  const name = param("name"),
    site = param("site"),
    is = (x: Node) => x.node === name && (site === "" || x.site === site),
    a = useAsk<NodeList>("/api/reckon/v1/nodes", true);
  if (!name)
    return (
      <Empty>
        Which node? <a href="/nodes">All nodes</a>
      </Empty>
    );
  return (
    <>
      <h1>
        Node <bdi>{clean(name)}</bdi>
      </h1>
      <Show a={a}>
        {(d) => {
          const n = d.nodes.find(is),
            elsewhere = site === "" ? d.nodes.filter(is).slice(1) : [];
          return n ? (
            <>
              {elsewhere.length > 0 && (
                <div class="note info" role="status">
                  Other sites have a node of this name too:{" "}
                  {[n, ...elsewhere].map((x) => (
                    <>
                      <a href={nodeLink(x.node, x.site)}>{clean(x.site || "no site")}</a>{" "}
                    </>
                  ))}
                  . Charts below hold them all.
                </div>
              )}
              <Facts n={n} />
            </>
          ) : (
            <Empty>
              No node of this name has reported. <a href="/nodes">All nodes</a>
            </Empty>
          );
        }}
      </Show>
      {a.data?.nodes.some(is) && fitUsual(a.data.nodes) && (
        <>
          {has("prometheus") && <Charts node={name} site={site} n={a.data?.nodes.find(is)} />}
          <DevicesPanel node={name} site={site} />
          <Outlook of={{ node: name }} site={site} />
          <OwnPanel of={{ node: name, site }} w={ranged.value} />
          <ConnectionsPanel of={{ node: name, site }} />
        </>
      )}
    </>
  );
}

/** What was used of a node over a longer time, while it was up. */
function Span({ s, what }: { s: NodeSpan; what: string }) {
  return (
    <li>
      <span class="what">{what}</span>
      <b>
        <Q v={s.cpu_share} unit="ratio" /> of the cores
      </b>
      <small>
        {known(s.unused_core_seconds) && (
          <>
            <Q
              v={s.unused_core_seconds}
              unit="core-seconds"
              note="of core time that was there and not used"
            />{" "}
            idle,{" "}
          </>
        )}
        {known(s.memory_share) && (
          <>
            <Q v={s.memory_share} unit="ratio" /> of memory,{" "}
          </>
        )}
        measured{" "}
        {known(s.up_share) && s.up_share > 0.99 ? (
          "all the time"
        ) : (
          <Q
            v={s.up_seconds}
            unit="seconds"
            note="of this time; it was down, or not measured yet, in the rest"
          />
        )}
        {known(s.energy_joules) && (
          <>
            , <Q v={s.energy_joules} unit="joules" />
          </>
        )}
      </small>
    </li>
  );
}

const matchers = (n: { node: string; site?: string }) =>
  `node=${promQuote(n.node)}${n.site ? `,site=${promQuote(n.site)}` : ""}`;

function Facts({ n }: { n: Node }) {
  const p = pressure(n);
  return (
    <>
      {n.batch && !n.batch.open && (
        <div class="note warning" role="status">
          <strong>Takes no jobs.</strong> The batch system says {clean(stateOfNode(n).word)}
          {n.batch.reason && (
            <>
              : <span class="wrap">{clean(n.batch.reason)}</span>
            </>
          )}
          .
        </div>
      )}
      {n.agent === false && (
        <div class="note info" role="status">
          <strong>No agent.</strong> Nothing measures this node; its figures come from the batch
          system. Run <code>reckon-agent</code> there.
        </div>
      )}
      {!n.up && n.agent !== false && (
        <div class="note error" role="status">
          <strong>Down.</strong> The last report of its agent was <When t={n.seen} relative /> (
          <When t={n.seen} />
          ). Figures below end there.
        </div>
      )}
      <ul class="facts">
        <li>
          <span class="what">Cores in use</span>
          <b>
            <Q v={n.cores_used} unit="cores" /> of <Q v={n.cores} unit="cores" />
          </b>
          <Bar v={n.cores_used} of={n.cores} unit="cores" label="Cores in use" />
        </li>
        {has("prometheus") && (
          <Peak
            what="Most cores"
            expr={(over) =>
              `sum(rate(node_cpu_seconds_total{${matchers(n)},mode!~"idle|iowait"}${over}))`
            }
            sel={`{${matchers(n)}}`}
            unit="cores"
            r={ranged.value}
          />
        )}
        <li>
          <span class="what">Memory in use</span>
          <b>
            <Q v={n.memory_used_bytes} unit="bytes" />
          </b>
          <Bar v={n.memory_used_bytes} of={n.memory_bytes} unit="bytes" label="Memory in use" />
        </li>
        <li>
          <span class="what">Power</span>
          <b>
            <Q v={n.power_watts} unit="watts" />
          </b>
          <small>
            {known(n.power_watts) ? (
              <>
                {n.power_method}, idle <Q v={n.power_idle_watts} unit="watts" />
              </>
            ) : (
              <a href={"/about?" + new URLSearchParams({ node: n.node })}>not measured: why?</a>
            )}
          </small>
        </li>
        {known(n.gpus_used) && (
          <li>
            <span class="what">GPUs in use</span>
            <b>
              <Q v={n.gpus_used} unit="gpus" /> of <Q v={n.gpus} unit="gpus" />
            </b>
            <small>
              {known(n.gpu_power_watts) && (
                <>
                  <Q v={n.gpu_power_watts} unit="watts" /> ·{" "}
                </>
              )}
              <a href={nodeLink(n.node, n.site) + "&show=gpu"}>who is on them</a>
            </small>
          </li>
        )}
        {known(n.gpu_memory_used_bytes) && (
          <li>
            <span class="what">GPU memory in use</span>
            <b>
              <Q v={n.gpu_memory_used_bytes} unit="bytes" />
            </b>
            <Bar
              v={n.gpu_memory_used_bytes}
              of={n.gpu_memory_bytes}
              unit="bytes"
              label="GPU memory in use"
            />
          </li>
        )}
        <li>
          <span class="what">Pressure</span>
          <b>
            <Q v={p?.share} unit="ratio" note={p?.all} />
          </b>
          <small>
            {p ? `of the time some task waits for ${p.of}` : "not in this kernel (PSI)"}
          </small>
        </li>
        {n.batch && (
          <li>
            <span class="what">Batch system</span>
            <b>{clean(stateOfNode(n).word)}</b>
            <small>
              {known(n.batch.cores_held) && (
                <>
                  <Q v={n.batch.cores_held} unit="cores" /> of <Q v={n.batch.cores} unit="cores" />{" "}
                  cores allocated
                  {known(n.batch.gpus) && n.batch.gpus > 0 && known(n.batch.gpus_held) && (
                    <>
                      , {human(n.batch.gpus_held, "gpus")} of {human(n.batch.gpus, "gpus")} GPUs
                    </>
                  )}
                </>
              )}
              {(n.batch.partitions?.length ?? 0) > 0 && (
                <> · {n.batch.partitions!.map(clean).join(", ")}</>
              )}
            </small>
          </li>
        )}
        {n.day && <Span s={n.day} what="Last day" />}
        {n.week && <Span s={n.week} what="Last week" />}
        {n.waiting && n.waiting.jobs > 0 && (
          <li>
            <span class="what">Had room for</span>
            <b>
              {n.waiting.jobs} waiting job{n.waiting.jobs === 1 ? "" : "s"}
            </b>
            <small title="jobs that waited in the last day while it had free all that they asked for on one node">
              {n.waiting.jobs > 0 ? (
                <>
                  last day; {n.waiting.now} now; <Q v={n.waiting.core_seconds} unit="seconds" /> of
                  core time
                </>
              ) : (
                "in the last day"
              )}
            </small>
          </li>
        )}
        <li>
          <span class="what">Workloads</span>
          <b>
            <Q v={n.workloads} unit="count" />
          </b>
          <small>
            <a
              href={
                "/workloads?" +
                new URLSearchParams({
                  q: `node:${/[\s":,]/.test(n.node) ? JSON.stringify(n.node) : n.node} running:yes`,
                })
              }
            >
              list them
            </a>
          </small>
        </li>
        <li>
          <span class="what">Started</span>
          <b>
            <When t={n.boot} />
          </b>
          <small>
            {n.distribution}{" "}
            {n.kernel && (
              <>
                kernel <bdi>{clean(n.kernel)}</bdi>
              </>
            )}
          </small>
        </li>
      </ul>
    </>
  );
}

type Window = Range;
const group = "node"; // charts of this page show the same moment

function Charts({ node, site, n }: { node: string; site: string; n?: Node }) {
  const now = ranged.value,
    w = useMemo(() => now, [now.from, now.to, now.step]),
    zoom = zoomTo;
  const sel = `node=${promQuote(node)}${site ? `,site=${promQuote(site)}` : ""}`,
    range = useRange(sel, w),
    r = `[${range}s]`;
  const stack = param("show") || "cpu",
    who = new URLSearchParams(site ? { node, site } : { node }).toString(),
    sensors = n?.sensors ?? [];
  const kinds = {
    cpu: {
      title: "Cores by workload",
      daily: ["cpu_seconds", "core_used_seconds"],
      unit: "cores",
      metric: (x: string) => `rate(reckon_workload_cpu_seconds_total{${x}}${r})`,
      total: `sum(rate(node_cpu_seconds_total{${sel},mode!~"idle|iowait"}${r}))`,
      size: `count(node_cpu_seconds_total{${sel},mode="idle"})`,
      restName: "system and not attributed",
      freeName: "idle",
    },
    memory: {
      title: "Memory by workload",
      daily: [],
      unit: "bytes",
      metric: (x: string) => `reckon_workload_memory_bytes{${x}}`,
      total: `node_memory_MemTotal_bytes{${sel}} - node_memory_MemAvailable_bytes{${sel}}`,
      size: `node_memory_MemTotal_bytes{${sel}}`,
      restName: "kernel and not attributed",
      freeName: "available",
    },
    energy: {
      title: "Power by workload",
      daily: ["energy_joules"],
      unit: "watts",
      metric: (x: string) => `rate(reckon_workload_energy_joules_total{${x}}${r})`,
      total: `sum(rate(reckon_node_attributed_energy_joules_total{${sel}}${r}))`,
      size: "",
      restName: "idle and not attributed",
      freeName: "",
    },
    traffic: {
      title: "Memory traffic by workload",
      daily: [],
      unit: "bytes_per_second",
      metric: (x: string) => `rate(reckon_workload_memory_traffic_bytes_total{${x}}${r})`,
      total: `sum(rate(reckon_node_memory_traffic_bytes_total{${sel}}${r})) or sum(rate(reckon_node_cache_memory_bytes_total{${sel}}${r}))`,
      size: "",
      restName: "devices, kernel and not attributed",
      freeName: "",
    },
    gpu: {
      title: "GPUs by workload",
      daily: ["gpu_seconds"],
      unit: "gpus",
      metric: (x: string) => `rate(reckon_workload_gpu_seconds_total{${x}}${r})`,
      total: `sum(rate(reckon_gpu_busy_seconds_total{${sel}}${r}))`,
      size: `count(reckon_gpu_busy_seconds_total{${sel}})`,
      restName: "not attributed",
      freeName: "idle",
    },
    network: {
      title: "Network by workload, payload at sockets",
      daily: ["network_bytes"],
      unit: "bytes_per_second",
      metric: (x: string) => `rate(reckon_workload_network_bytes_total{${x}}${r})`,
      total: `sum(rate(reckon_node_network_payload_bytes_total{${sel},scope!="loopback"}${r}))`,
      size: "",
      restName: "not attributed",
      freeName: "",
    },
    storage: {
      title: "Storage by workload, read and written",
      daily: [],
      unit: "bytes_per_second",
      metric: (x: string) => `rate(reckon_workload_io_bytes_total{${x}}${r})`,
      total: `sum(rate(node_disk_read_bytes_total{${sel}}${r})) + sum(rate(node_disk_written_bytes_total{${sel}}${r}))`,
      size: "",
      restName: "system and not attributed",
      freeName: "",
    },
  } as const;
  const k = kinds[stack as keyof typeof kinds] ?? kinds.cpu;
  if (range === 0)
    return (
      <p class="loading" role="status">
        <span class="bar" aria-hidden="true" />
        Loading…
      </p>
    );
  return (
    <>
      <Section
        title={k.title}
        aside={
          <Choice
            label="Show"
            value={stack}
            of={[
              ["cpu", "CPU"],
              ["memory", "Memory"],
              ["traffic", "Memory traffic"],
              ["energy", "Power"],
              ["gpu", "GPU"],
              ["network", "Network"],
              ["storage", "Storage"],
            ]}
            pick={(v) => set({ show: v === "cpu" ? "" : v })}
          />
        }
      >
        <Stack
          key={stack}
          node={sel}
          who={who}
          w={w}
          k={k}
          zoom={zoom}
          why={whyNot(stack === "energy" ? "power" : stack, sensors)}
        />
      </Section>
      {k !== kinds.cpu && (
        <Section title={kinds.cpu.title}>
          <Stack key="cpu" node={sel} who={who} w={w} k={kinds.cpu} zoom={zoom} height={180} />
        </Section>
      )}
      <div class="cols">
        <Lines
          title="Pressure (share of time waiting)"
          unit="ratio"
          w={w}
          zoom={zoom}
          of={[
            ["CPU, some", `rate(node_pressure_cpu_waiting_seconds_total{${sel}}${r})`],
            ["memory, some", `rate(node_pressure_memory_waiting_seconds_total{${sel}}${r})`],
            ["memory, all", `rate(node_pressure_memory_stalled_seconds_total{${sel}}${r})`],
            ["I/O, some", `rate(node_pressure_io_waiting_seconds_total{${sel}}${r})`],
            ["I/O, all", `rate(node_pressure_io_stalled_seconds_total{${sel}}${r})`],
          ]}
        />
        <Lines
          title="Disks"
          unit="bytes_per_second"
          w={w}
          zoom={zoom}
          by={["device"]}
          of={[
            ["read", `rate(node_disk_read_bytes_total{${sel},device!~"loop.*|ram.*"}${r})`],
            ["write", `rate(node_disk_written_bytes_total{${sel},device!~"loop.*|ram.*"}${r})`],
          ]}
        />
        <Lines
          title="Network"
          unit="bytes_per_second"
          w={w}
          zoom={zoom}
          by={["device"]}
          of={[
            ["received", `rate(node_network_receive_bytes_total{${sel},device!="lo"}${r})`],
            ["sent", `rate(node_network_transmit_bytes_total{${sel},device!="lo"}${r})`],
          ]}
        />
        <Lines
          title="Power by meter"
          unit="watts"
          w={w}
          zoom={zoom}
          by={["domain", "zone", "method"]}
          of={[["", `rate(reckon_node_energy_joules_total{${sel}}${r})`]]}
        />
        <Lines
          title="Memory traffic by socket"
          unit="bytes_per_second"
          w={w}
          zoom={zoom}
          by={["socket", "direction"]}
          of={[
            [
              "",
              `label_replace(sum by (socket, direction) (rate(reckon_node_memory_traffic_bytes_total{${sel}}${r})), "socket", "socket $1", "socket", "(.*)")`,
            ],
          ]}
        />
        <Lines
          title="Memory traffic behind the caches, by socket"
          unit="bytes_per_second"
          w={w}
          zoom={zoom}
          by={["socket", "memory"]}
          of={[
            [
              "",
              `label_replace(sum by (socket, memory) (rate(reckon_node_cache_memory_bytes_total{${sel}}${r})), "socket", "socket $1", "socket", "(.*)")`,
            ],
          ]}
        />
        <Lines
          title="Memory of workloads by NUMA node"
          unit="bytes"
          w={w}
          zoom={zoom}
          by={["numa_node"]}
          of={[
            [
              "",
              `label_replace(sum by (numa_node) (reckon_workload_memory_numa_bytes{${sel}}), "numa_node", "NUMA node $1", "numa_node", "(.*)")`,
            ],
          ]}
        />
        <Lines
          title="Page faults that wait for storage, each second"
          unit="count"
          w={w}
          zoom={zoom}
          of={[["page faults", `rate(node_vmstat_pgmajfault{${sel}}${r})`]]}
        />
        <Lines
          title="Interconnects"
          unit="bytes_per_second"
          w={w}
          zoom={zoom}
          by={["device", "port"]}
          of={[
            ["received", `rate(node_infiniband_port_data_received_bytes_total{${sel}}${r})`],
            ["sent", `rate(node_infiniband_port_data_transmitted_bytes_total{${sel}}${r})`],
          ]}
        />
        <Lines
          title="Response time of disks (95 % of requests within)"
          unit="seconds"
          w={w}
          zoom={zoom}
          by={["device", "operation"]}
          of={[
            [
              "",
              `histogram_quantile(0.95, sum by (device, operation) (rate(reckon_node_disk_response_seconds{${sel}}${r})))`,
            ],
          ]}
        />
        <Lines
          title="Wait of threads for a core, all workloads"
          unit="seconds"
          w={w}
          zoom={zoom}
          of={delays(`{${sel}}`, r)}
        />
        <Lines
          title="Threads that wait for disks, by workload"
          unit="count"
          w={w}
          zoom={zoom}
          by={["workload", "device"]}
          of={[
            [
              "",
              `sum by (workload, device) (rate(reckon_workload_disk_wait_seconds_total{${sel}}${r})) and topk(8, sum by (workload, device) (increase(reckon_workload_disk_wait_seconds_total{${sel}}[${Math.max(60, Math.ceil(w.to - w.from))}s] @ end())))`,
            ],
          ]}
        />
      </div>
      <Unmeasured
        of={[
          "pressure",
          "power",
          "controllers",
          "traffic",
          "network",
          "waits",
          "response",
          "runqueue",
        ]}
        sensors={sensors}
        where="on this node"
      />
    </>
  );
}

/** The length of time that rates are taken over, seconds; 0 until it is known. Samples a minute or more apart need more than those of every 15 s. */
function useRange(sel: string, w: Window): number {
  const wide = Math.ceil(Math.max(600, w.to - w.from) / 600) * 600,
    old = w.step < 7200 && w.to < Date.now() / 1000 - 2 * 86400,
    fine = w.step < 300 || old;
  const a = useAsk(
    fine ? `interval ${sel} ${wide} ${Math.floor(w.to / 600)}` : null,
    false,
    (_p, s) => samplesIn10m("max", wide, w.to, s, `{${sel}}`),
    sel,
  );
  if (!fine) return w.step;
  if (!a.data && !a.error) return 0;
  const n = a.data ?? 0;
  // Of an old time there may be one figure an hour.
  return Math.max(
    60,
    w.step,
    old && !(n > 1) ? 7200 : n > 0 ? Math.ceil((2.5 * 600) / n / 15) * 15 : 0,
  );
}

/** What was used on a node each day, from the roll-ups: a year has ten thousands of workloads, too many to add up one by one. */
async function byDay(
  who: string,
  figures: readonly string[],
  w: Window,
  signal: AbortSignal,
): Promise<PromSeries[][]> {
  const time = (t: number) => new Date(t * 1000).toISOString();
  const d = await ask<UsageList>(
    `/api/reckon/v1/usage?${who}&${new URLSearchParams({ by: "node", span: "day", since: time(w.from - w.step), until: time(w.to) })}`,
    signal,
  );
  return figures.map((figure) => {
    const sums = new Map<number, number>();
    for (const r of d.rows) {
      const v = r[figure],
        at = Date.parse(String(r.from)) / 1000 + w.step;
      if (typeof v === "number") sums.set(at, (sums.get(at) ?? 0) + v / w.step);
    }
    return sums.size === 0
      ? []
      : [{ metric: {}, values: [...sums].map(([t, v]) => [t, String(v)]) } as PromSeries];
  });
}

async function stackOf(
  node: string,
  who: string,
  w: Window,
  k: { daily: readonly string[]; metric: (x: string) => string; total: string; size: string },
  signal: AbortSignal,
) {
  const whole = { range: `[${Math.max(60, w.to - w.from)}s]` };
  // Who used most in the window, by one instant query; then their lines alone.
  const metric = k.metric(node),
    inWindow = metric.startsWith("rate(")
      ? metric.replace(/\[\d+s\]/, whole.range)
      : `avg_over_time(${metric}${whole.range})`;
  const range = (q: string) => promRange(q, w.from, w.to, w.step, signal);
  const days =
    k.daily.length > 0 && w.step === 86400 && w.from % 86400 === 0
      ? byDay(who, k.daily, w, signal).catch(() => [])
      : Promise.resolve([] as PromSeries[][]);
  const daily = (i: number, q: string) => days.then((d) => (d[i]?.length > 0 ? d[i] : range(q)));
  const all = daily(0, `sum(${metric})`),
    total = daily(1, k.total),
    size = k.size ? range(k.size) : Promise.resolve([] as PromSeries[]);
  for (const p of [total, size, all]) p.catch(() => undefined); // thrown below
  const top = await promInstant(`topk(60, sum by (workload, owner) (${inWindow}))`, signal, w.to);
  const sorted = top
      .filter((s) => s.metric.workload && Number(s.value?.[1]) > 0)
      .sort((a, b) => Number(b.value?.[1]) - Number(a.value?.[1])),
    called = await namesOf(
      sorted.map((s) => s.metric.workload),
      w,
      signal,
    );
  const groups = alike(
      sorted,
      (s) =>
        called.get(s.metric.workload) ?? titleOf({ id: s.metric.workload, owner: s.metric.owner }),
      (s) => s.metric.owner ?? "",
    ).slice(0, biggest),
    names = groups.flatMap((g) => g.of.map((s) => s.metric.workload));
  const lines = names.length
    ? range(`sum by (workload) (${k.metric(`${node},workload=~${promAny(names)}`)})`)
    : Promise.resolve([] as PromSeries[]);
  return {
    groups: groups.map((g) => ({
      title: g.title,
      owner: g.owner,
      ids: g.of.map((s) => s.metric.workload),
    })),
    lines: await lines,
    all: await all,
    total: await total,
    size: await size,
    w,
  };
}

function Stack({
  node,
  who,
  w,
  k,
  zoom,
  height = 320,
  why,
}: {
  height?: number;
  /** Why there is nothing, if it is the node. */ why?: string;
  node: string;
  who: string;
  w: Window;
  k: {
    title: string;
    daily: readonly string[];
    unit: Unit;
    metric: (x: string) => string;
    total: string;
    size: string;
    restName: string;
    freeName: string;
  };
  zoom: (a: number, b: number) => void;
}) {
  const a = useAsk(
    `${k.title} ${node} ${w.from} ${w.to}`,
    false,
    (_p, s) => stackOf(node, who, w, k, s),
    `${k.title} ${node} ${w.to - w.from}`,
  );
  const drawn = useMemo(() => {
    const d = a.data;
    if (!d) return null;
    const times = axis(d.w.from, d.w.to, d.w.step),
      one = (s: PromSeries[]): Row =>
        s[0] ? onto(times, s[0]) : new Array(times.length).fill(null);
    const key = (g: { title: string; owner: string }) =>
        g.owner ? `${g.title} of ${g.owner}` : g.title, // as the first page names it, so that it has the same colour
      ink = inksOf(d.groups.map(key));
    const lines: Line[] = d.groups.flatMap((g) => {
      const mine = d.lines
        .filter((x) => g.ids.includes(x.metric.workload))
        .map((x) => onto(times, x));
      return mine.length
        ? [
            {
              label: `${g.title}${g.ids.length > 1 ? ` × ${g.ids.length}` : ""}${g.owner ? ` (${g.owner})` : ""}`,
              row: added(mine, times.length),
              ink: ink.get(key(g)),
              href:
                g.ids.length === 1
                  ? workloadLink(g.ids[0])
                  : "/workloads?" + new URLSearchParams({ q: `name:${JSON.stringify(g.title)}` }),
            },
          ]
        : [];
    });
    const all = one(d.all),
      total = one(d.total),
      size = one(d.size);
    const others = rest(
      all,
      lines.map((l) => l.row),
    );
    if (others.some((v) => (v ?? 0) > 0))
      lines.push({ label: "other workloads", row: others, quiet: 1 });
    const base = total.map((t, i) => (t === null ? all[i] : Math.max(t, all[i] ?? 0)));
    if (total.some((v) => v !== null))
      lines.push({ label: k.restName, row: rest(base, [all]), quiet: 3 });
    if (k.freeName && size.some((v) => v !== null))
      lines.push({ label: k.freeName, row: free(size, base), quiet: 2 });
    const top = k.size ? size : total;
    return {
      times,
      lines,
      total: top.some((v) => v !== null) ? { label: "the machine", row: top } : undefined,
    };
  }, [a.data, k]);
  return (
    <div
      class="keep"
      style={drawn && drawn.lines.length === 0 ? undefined : `min-height:${height / 16 + 14}rem`}
    >
      <Show a={a}>
        {() =>
          !drawn || drawn.lines.length === 0 ? (
            <Empty>
              {why ? (
                <>
                  Not measured on this node: <Words>{why}</Words>.
                </>
              ) : (
                nothing() + " was measured in this time."
              )}
            </Empty>
          ) : (
            <TimeChart
              title={k.title}
              times={drawn.times}
              lines={drawn.lines}
              unit={k.unit}
              stack
              total={drawn.total}
              height={height}
              zoom={zoom}
              group={group}
            />
          )
        }
      </Show>
    </div>
  );
}

/** Lines of queries; without any the section is left out. */
function Lines({
  title,
  unit,
  w,
  of,
  by = [],
  zoom,
}: {
  title: string;
  unit: Unit;
  w: Window;
  of: [string, string][];
  by?: string[];
  zoom: (a: number, b: number) => void;
}) {
  const a = useAsk(
    `${title} ${of[0][1]} ${w.from} ${w.to}`,
    false,
    (_p, s) =>
      Promise.all(of.map(([, q]) => promRange(q, w.from, w.to, w.step, s))).then(async (list) => ({
        w,
        list,
        called: await namesOf(
          list.flat().flatMap((x) => x.metric.workload ?? []),
          w,
          s,
        ),
      })),
    `${title} ${of[0][1]} ${w.to - w.from}`,
  );
  const lines = useMemo(() => {
    if (!a.data) return undefined;
    const { w: of_, list, called } = a.data,
      times = axis(of_.from, of_.to, of_.step);
    const all = list.flatMap((series, i) =>
      series.map((s): Line => ({
        label: [
          ...by
            .map(
              (l) => (l === "workload" ? called.get(s.metric.workload) : undefined) ?? s.metric[l],
            )
            .filter(Boolean),
          of[i][0],
        ]
          .filter(Boolean)
          .join(" "),
        row: onto(times, s),
      })),
    );
    // Devices that did nothing are left out where others did something.
    const busy = all.filter((l) => l.row.some((v) => v !== null && v > 0));
    return { times, list: (busy.length > 0 ? busy : all).slice(0, 24) };
  }, [a.data]);
  if (!lines?.list.length)
    return a.error && !a.data ? (
      <Section title={title}>
        <Show a={a}>{() => null}</Show>
      </Section>
    ) : null;
  return (
    <Section title={title}>
      <Show a={a}>
        {() => (
          <TimeChart
            title={title}
            times={lines.times}
            lines={lines.list}
            unit={unit}
            zoom={zoom}
            group={group}
          />
        )}
      </Show>
    </Section>
  );
}

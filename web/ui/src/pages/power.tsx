// Power: what draws it, what it is known by, and how it follows the work.
import { useMemo } from "preact/hooks";
import { promInstant, promRange, useAsk } from "../lib/api";
import { TimeChart, type Line } from "../lib/chart";
import { clean, Empty, NodeName, Q, Section, Show, Table, there } from "../lib/parts";
import { range } from "../lib/range";
import { nodeLink, param, set } from "../lib/state";
import { inksOf } from "../lib/ink";
import { axis, marks, onto, promAny, promQuote, rest, type Row } from "../lib/stack";
import type { NodeList } from "../lib/types";
import { human, known, stamp } from "../lib/units";
import { Fit } from "./powerfit";
import { sum } from "./site";

export function Power() {
  const last = range.value.length,
    now = range.value,
    nodes = useAsk<NodeList>("/api/reckon/v1/nodes", true);
  const w = useMemo(() => {
    return { from: now.from, to: now.to, step: now.step, r: `[${Math.max(60, now.step)}s]` };
  }, [now.from, now.to]);
  const rate = (by: string, sel = "") =>
    `sum by (${by}) (rate(reckon_node_attributed_energy_joules_total${sel}${w.r}))`;
  const byNode = useAsk(
    `power of nodes ${w.from} ${w.to}`,
    false,
    async (_p, s) => {
      const top = await promInstant(
          `topk(9, sum by (node) (rate(reckon_node_attributed_energy_joules_total[${Math.max(300, last)}s])))`,
          s,
          w.to,
        ),
        names = top.map((x) => x.metric.node).filter(Boolean);
      const [each, all, kind] = await Promise.all([
        names.length
          ? promRange(rate("node", `{node=~${promAny(names)}}`), w.from, w.to, w.step, s)
          : [],
        promRange(
          `sum(rate(reckon_node_attributed_energy_joules_total${w.r}))`,
          w.from,
          w.to,
          w.step,
          s,
        ),
        promRange(rate("domain, share, method"), w.from, w.to, w.step, s),
      ]);
      return { each, all, kind };
    },
    `power of nodes ${last} ${now.fixed ? now.from : ""}`,
  );
  const times = useMemo(() => axis(w.from, w.to, w.step), [w]);
  const stack = useMemo(() => {
    if (!byNode.data) return [];
    const ink = inksOf(byNode.data.each.map((x) => x.metric.node ?? "")),
      lines: Line[] = byNode.data.each.map((x) => ({
        label: x.metric.node ?? "",
        ink: ink.get(x.metric.node ?? ""),
        row: onto(times, x),
        href: nodeLink(x.metric.node ?? ""),
      })),
      all: Row = byNode.data.all[0] ? onto(times, byNode.data.all[0]) : [];
    const others = rest(
      all,
      lines.map((l) => l.row),
    );
    if (others.some((v) => (v ?? 0) > 0.01))
      lines.push({ label: "other nodes", row: others, quiet: 1 });
    return lines;
  }, [byNode.data, times]);
  const kinds = useMemo(
    () =>
      (byNode.data?.kind ?? [])
        .slice(0, 12)
        .map((x): Line => ({ label: partOf(x.metric), row: onto(times, x) })),
    [byNode.data, times],
  );
  return (
    <>
      <h1>Power</h1>
      <Show a={nodes}>
        {(d) => {
          const up = d.nodes.filter((n) => n.up),
            watts = sum(up, (n) => n.power_watts),
            idle = sum(up, (n) => n.power_idle_watts),
            cost = sum(up, (n) => n.cost_per_hour),
            co2 = sum(up, (n) => n.co2_grams_per_hour);
          const method = (m: string) =>
            up.filter((n) => known(n.power_watts) && n.power_method === m).length;
          return (
            <ul class="facts">
              <li>
                <span class="what">Power now</span>
                <b>
                  <Q v={watts} unit="watts" />
                </b>
                <small>
                  {up.length === 0 ? (
                    "no node reports now; the chart ends with their last reports"
                  ) : (
                    <>
                      <Q v={up.filter((n) => known(n.power_watts)).length} unit="count" /> of{" "}
                      <Q v={up.length} unit="count" /> nodes that report now measure power
                    </>
                  )}
                </small>
              </li>
              <li>
                <span class="what">Of that, idle</span>
                <b>
                  <Q v={idle} unit="watts" />
                </b>
                <small>
                  {known(watts) && known(idle) && watts > 0 && <Q v={idle / watts} unit="ratio" />}
                </small>
              </li>
              <li>
                <span class="what">Source</span>
                <b>
                  <Q v={method("measured")} unit="count" /> measured
                </b>
                <small>
                  <Q v={method("modelled")} unit="count" /> modelled,{" "}
                  <Q v={method("both")} unit="count" /> both
                </small>
              </li>
              {known(cost) && (
                <li>
                  <span class="what">Cost of an hour</span>
                  <b>
                    {cost.toFixed(2)} {up.find((n) => n.currency)?.currency}
                  </b>
                </li>
              )}
              {known(co2) && (
                <li>
                  <span class="what">CO₂ of an hour</span>
                  <b>
                    <Q v={co2} unit="grams" />
                  </b>
                </li>
              )}
            </ul>
          );
        }}
      </Show>
      {there(nodes) && (
        <Section title="By node">
          <Show a={byNode}>
            {() =>
              stack.length === 0 ? (
                <Empty>
                  Power is neither measured nor modelled here.{" "}
                  <a href="/about">What is missing, and how to get it</a>
                </Empty>
              ) : (
                <TimeChart
                  title="Power by node"
                  times={times}
                  lines={stack}
                  unit="watts"
                  stack
                  height={260}
                />
              )
            }
          </Show>
        </Section>
      )}
      {there(nodes, byNode) && (
        <>
          {kinds.length > 0 && (
            <Section title="By part of the machine">
              <TimeChart
                title="Power by part, share and method"
                times={times}
                lines={kinds}
                unit="watts"
                stack
                height={220}
              />
            </Section>
          )}
          {nodes.data && nodes.data.nodes.length > 0 && (
            <>
              <Follows nodes={nodes.data} w={w} />
              <Fit nodes={nodes.data} from={w.from} to={w.to} />
            </>
          )}
          <Models />
        </>
      )}
    </>
  );
}

const parts: Record<string, string> = {
  package: "processors",
  dram: "memory",
  gpu: "GPUs",
  psys: "whole board",
  node: "whole node",
  other: "rest of the node",
};
/** What drew the power, in plain words: processors, idle (measured). */
const partOf = (m: Record<string, string>) =>
  `${parts[m.domain] ?? m.domain ?? "node"}${m.share ? `, ${m.share}` : ""}${m.method ? ` (${m.method.startsWith("measured") ? "measured" : m.method})` : ""}`;

/** Power against cores in use of one node: how well the one follows the other is for the eye to judge. */
function Follows({
  nodes,
  w,
}: {
  nodes: NodeList;
  w: { from: number; to: number; step: number; r: string };
}) {
  const node =
      param("node") || nodes.nodes.find((n) => known(n.power_watts))?.node || nodes.nodes[0].node,
    sel = `node=${promQuote(node)}`;
  const a = useAsk(
    `scatter ${node} ${w.from} ${w.to}`,
    false,
    (_p, s) =>
      Promise.all(
        [
          `sum(rate(node_cpu_seconds_total{${sel},mode!~"idle|iowait"}${w.r}))`,
          `sum(rate(reckon_node_attributed_energy_joules_total{${sel}}${w.r}))`,
        ].map((q) => promRange(q, w.from, w.to, w.step, s)),
      ),
    `scatter ${node} ${w.to - w.from}`,
  );
  const times = axis(w.from, w.to, w.step);
  return (
    <Section
      title="Power against work"
      aside={
        nodes.nodes.length > 1 ? (
          <label>
            Node{" "}
            <select value={node} onChange={(e) => set({ node: e.currentTarget.value })}>
              {nodes.nodes.slice(0, 2000).map((n) => (
                <option value={n.node}>{clean(n.node).slice(0, 60)}</option>
              ))}
            </select>
          </label>
        ) : undefined
      }
    >
      <Show a={a}>
        {([x, y]) => {
          if (!x[0] || !y[0])
            return (
              <Empty>
                No power of <NodeName n={node} /> was measured or modelled in this time.
              </Empty>
            );
          const xs = onto(times, x[0]),
            ys = onto(times, y[0]),
            points = times.flatMap((t, i) =>
              xs[i] !== null && ys[i] !== null ? [{ t, x: xs[i]!, y: ys[i]! }] : [],
            );
          const right = Math.max(...points.map((p) => p.x), 0.01),
            top = Math.max(...points.map((p) => p.y), 1);
          return (
            <div class="scroll" tabIndex={0} role="region" aria-label="Power against work">
              <svg
                class="scatter"
                viewBox="0 0 664 260"
                role="img"
                aria-label={`${points.length} points: cores in use from 0 to ${human(right, "cores")}, power up to ${human(top, "watts")}`}
              >
                {marks(top).map((v) => (
                  <>
                    <line x1="60" x2="630" y1={230 - (210 * v) / top} y2={230 - (210 * v) / top} />
                    <text x="54" y={234 - (210 * v) / top} text-anchor="end">
                      {human(v, "watts")}
                    </text>
                  </>
                ))}
                {marks(right).map((v) => (
                  <text x={60 + (570 * v) / right} y="246" text-anchor="middle">
                    {human(v, "cores")}
                  </text>
                ))}
                {points.map((p) => (
                  <circle cx={60 + (570 * p.x) / right} cy={230 - (210 * p.y) / top} r="3">
                    <title>{`${stamp(p.t * 1000)}: ${human(p.x, "cores")} cores, ${human(p.y, "watts")}`}</title>
                  </circle>
                ))}
              </svg>
              <p class="quiet">Cores in use (across), power (up); a point for each step.</p>
            </div>
          );
        }}
      </Show>
    </Section>
  );
}

function Models() {
  const a = useAsk("models", false, (_p, s) => promInstant("reckon_power_model_info", s));
  if (!a.data || a.data.length === 0) return null;
  return (
    <Section title="Power models in use">
      <Table
        caption="Power models"
        rows={a.data.slice(0, 200)}
        keyOf={(m) => JSON.stringify(m.metric)}
        cols={[
          { title: "Node", cell: (m) => <NodeName n={m.metric.node ?? ""} /> },
          {
            title: "Model",
            cell: (m) => (
              <span class="wrap">
                {Object.entries(m.metric)
                  .filter(([k]) => !["__name__", "node", "site", "job", "instance"].includes(k))
                  .map(([k, v]) => `${k} ${clean(v)}`)
                  .join(", ")}
              </span>
            ),
          },
        ]}
      />
    </Section>
  );
}

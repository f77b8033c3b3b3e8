// About: which sensors work, which do not and how to get them, and what reckon itself costs.
import { useAsk } from "../lib/api";
import { clean, Empty, NodeName, Q, Section, Show, Table, there, When, Words } from "../lib/parts";
import { has, me, param, set, version } from "../lib/state";
import type { Inconsistent, Node, NodeList } from "../lib/types";

export function About() {
  const a = useAsk<NodeList>("/api/reckon/v1/nodes", true),
    m = me.value;
  return (
    <>
      <h1>About this {param("node") ? "node" : "site"}</h1>
      <Show a={a}>
        {(d) => {
          if (d.nodes.length === 0) return <Empty>No node has reported yet.</Empty>;
          const n =
            d.nodes.find((x) => x.node === param("node")) ??
            (d.nodes.length === 1 ? d.nodes[0] : undefined);
          return (
            <>
              {d.nodes.length > 1 && (
                <p>
                  <label>
                    Node{" "}
                    <select
                      value={n?.node ?? ""}
                      onChange={(e) => set({ node: e.currentTarget.value }, false)}
                    >
                      <option value="">all nodes</option>
                      {d.nodes.map((x) => (
                        <option value={x.node}>{clean(x.node).slice(0, 60)}</option>
                      ))}
                    </select>
                  </label>
                </p>
              )}
              {n ? <One n={n} /> : <All nodes={d.nodes} />}
            </>
          );
        }}
      </Show>
      {there(a) && (
        <>
          <Section title="This server">
            <ul>
              <li>Version {version || "unknown"}</li>
              <li>
                <a href="/api/reckon/openapi.json">OpenAPI document</a> of the whole API
              </li>
              {has("prometheus") && (
                <li>
                  <code>{location.origin}</code> is a Prometheus data source for Grafana
                </li>
              )}
              {has("metrics") && (
                <li>
                  <a href="/metrics">Metrics</a> of this process and its sensors
                </li>
              )}
              {m && (
                <li>
                  You view this as{" "}
                  {m.name || m.login ? (
                    <b>
                      <bdi>{clean(m.name || m.login!)}</bdi>
                    </b>
                  ) : (
                    "an unnamed user"
                  )}
                  , role {m.role}
                  {m.role === "user" && m.owners?.length > 0 && (
                    <>, and see in full the work of {m.owners.map(clean).join(", ")}</>
                  )}
                </li>
              )}
            </ul>
          </Section>
          {has("held-back") && (m?.role === "support" || m?.role === "admin") && <Withheld />}
        </>
      )}
    </>
  );
}

/** Figures that violated a bound: shown nowhere but here, so that somebody fixes the cause. */
function Withheld() {
  const a = useAsk<{ figures: Inconsistent[] }>("/api/reckon/v1/inconsistent", true);
  return (
    <Section title="Withheld figures">
      <Show a={a}>
        {(d) =>
          d.figures.length === 0 ? (
            <Empty>None: since the server started, every figure was within its bounds.</Empty>
          ) : (
            <Table
              caption="Figures that violated a bound since this server was started"
              rows={d.figures}
              keyOf={(x) => x.figure + x.rule}
              cols={[
                { title: "Figure", cell: (x) => <code>{x.figure}</code> },
                { title: "Rule", cell: (x) => <code>{x.rule}</code> },
                { title: "Of", number: true, cell: (x) => x.count },
                {
                  title: "The latest example",
                  cell: (x) => (
                    <span class="wrap">
                      {clean(x.subject)}: {x.value.toPrecision(4)}, and {clean(x.of)}:{" "}
                      {x.bound.toPrecision(4)} (<When t={x.time} relative />)
                    </span>
                  ),
                },
              ]}
            />
          )
        }
      </Show>
    </Section>
  );
}

/** Whether a sensor has nothing to read in this machine, which is no fault. */
export const absent = (reason?: string) =>
  !!reason &&
  /^(not an? |no |the kernel shows no |a virtual machine)|\b(is|are) configured\b/i.test(reason) &&
  !/permission|root|capabilit|CAP_|denied|privilege/i.test(reason);
function One({ n }: { n: Node }) {
  const missing = n.sensors.filter((s) => !s.up && !absent(s.reason)),
    there = n.sensors.filter((s) => s.up),
    other = n.sensors.filter((s) => !s.up && absent(s.reason));
  return (
    <>
      <p>
        <NodeName n={n.node} /> · {n.up ? "up" : "down"}, last report <When t={n.seen} relative /> ·{" "}
        {n.distribution} {n.kernel && `kernel ${clean(n.kernel)}`} · reckon itself uses{" "}
        <Q v={n.agent_cpu_cores} unit="cores" /> cores and{" "}
        <Q v={n.agent_memory_bytes} unit="bytes" /> here
      </p>
      <Section title={`Sensors that work (${there.length})`}>
        {there.length === 0 ? (
          <Empty>Nothing.</Empty>
        ) : (
          <p>
            {there.map((s) => (
              <>
                <code class="up">{s.sensor}</code>{" "}
              </>
            ))}
          </p>
        )}
      </Section>
      <Section title={`Sensors that do not work (${missing.length})`}>
        {missing.length === 0 ? (
          <Empty>None: every sensor works whose source is here and set up.</Empty>
        ) : (
          <Table
            caption="Sensors that do not work"
            rows={missing}
            keyOf={(s) => s.sensor}
            cols={[
              { title: "Sensor", cell: (s) => <code class="down">{s.sensor}</code> },
              {
                title: "Why, and what to do",
                cell: (s) => (
                  <span class="wrap">
                    {s.reason ? <Words>{s.reason}</Words> : "the agent gave no reason"}
                  </span>
                ),
              },
            ]}
          />
        )}
      </Section>
      {other.length > 0 && (
        <Section title={`Not in this machine, or not set up (${other.length})`}>
          <dl class="keys">
            {other.map((s) => (
              <>
                <dt>
                  <code>{s.sensor}</code>
                </dt>
                <dd class="quiet wrap">{clean(s.reason ?? "")}</dd>
              </>
            ))}
          </dl>
        </Section>
      )}
    </>
  );
}

function All({ nodes }: { nodes: Node[] }) {
  const by = new Map<string, { up: number; reasons: Map<string, string[]> }>();
  for (const n of nodes)
    for (const s of n.sensors) {
      const e = by.get(s.sensor) ?? { up: 0, reasons: new Map<string, string[]>() };
      if (s.up) e.up++;
      else
        e.reasons.set(s.reason ?? "no reason given", [
          ...(e.reasons.get(s.reason ?? "no reason given") ?? []),
          n.node,
        ]);
      by.set(s.sensor, e);
    }
  const rows = [...by].sort(([a], [b]) => a.localeCompare(b));
  const everywhere = rows.filter(([, e]) => e.up === nodes.length).length;
  return (
    <Section title="Sensors">
      <p>
        {everywhere} of {rows.length} sensors work on all {nodes.length} nodes.
      </p>
      <Table
        caption="Sensors of all nodes"
        rows={rows}
        keyOf={([s]) => s}
        cols={[
          { title: "Sensor", cell: ([s]) => <code>{s}</code> },
          { title: "Works on", number: true, cell: ([, e]) => `${e.up} of ${nodes.length}` },
          {
            title: "Missing elsewhere, and what to do",
            cell: ([, e]) =>
              e.reasons.size === 0 ? (
                <span class="quiet">–</span>
              ) : (
                [...e.reasons].map(([why, on]) => (
                  <div class="wrap">
                    {clean(why)}{" "}
                    <span class="quiet">
                      ({on.length === 1 ? clean(on[0]) : `${on.length} nodes`})
                    </span>
                  </div>
                ))
              ),
          },
        ]}
      />
    </Section>
  );
}

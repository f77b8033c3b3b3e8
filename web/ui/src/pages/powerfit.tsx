// How well a model explains the measured power of a node: scatter with the band, residuals
// over time, what each feature adds, and how the families of models did.
import { useAsk } from "../lib/api";
import { clean, Empty, NodeName, Q, Section, Show, Table } from "../lib/parts";
import { query } from "../lib/search";
import { range } from "../lib/range";
import { has, param, set } from "../lib/state";
import type { NodeList, PowerFit } from "../lib/types";
import { clock, human, known, stamp } from "../lib/units";

export function Fit({ nodes, from, to }: { nodes: NodeList; from: number; to: number }) {
  const node =
    param("node") ||
    nodes.nodes.find((n) => n.power_method === "measured" || n.power_method === "both")?.node ||
    "";
  // Without a meter there is nothing to fit; a time that was chosen may be one in which there was one.
  const metered = node !== "" || range.value.fixed;
  const a = useAsk<PowerFit>(
    has("power") && metered
      ? "/api/reckon/v1/power/fit?" +
          query({
            node: node || undefined,
            from: new Date(from * 1000).toISOString(),
            to: new Date(to * 1000).toISOString(),
          })
      : null,
  );
  if (!has("power")) return null;
  const pick = nodes.nodes.length > 1 && (
    <label>
      Node{" "}
      <select value={node} onChange={(e) => set({ node: e.currentTarget.value })}>
        <option value="">the first with a meter</option>
        {nodes.nodes.slice(0, 2000).map((n) => (
          <option value={n.node}>{clean(n.node).slice(0, 60)}</option>
        ))}
      </select>
    </label>
  );
  if (!metered)
    return (
      <Section title="Model of the power" aside={pick}>
        <Empty>
          No node measures power, so there is nothing to fit a model to. A model of another machine
          of the same kind is given with the setting <code>power-model</code>.
        </Empty>
      </Section>
    );
  if (a.error && a.error.status === 404)
    return (
      <Section title="Model of the power" aside={pick}>
        <Empty>
          <span class="wrap">
            {clean(a.error.message)}. {clean(a.error.hint)}
          </span>
        </Empty>
      </Section>
    );
  return (
    <Section title="Model of the power" aside={pick}>
      <Show a={a}>{(f) => <One f={f} />}</Show>
    </Section>
  );
}

function One({ f }: { f: PowerFit }) {
  const held = f.points.filter(
    (p) =>
      p.measured_watts >= f.band_low * p.modelled_watts &&
      p.measured_watts <= f.band_high * p.modelled_watts,
  ).length;
  return (
    <>
      <p>
        On stretches that it had not seen, the model <b>{clean(f.family)}</b> of{" "}
        <NodeName n={f.node} /> was off by{" "}
        <b>
          <Q v={f.score.mape} unit="ratio" />
        </b>{" "}
        on average (the worst stretch <Q v={f.score.worst_mape} unit="ratio" />
        ); always saying the mean would be off by <Q v={f.baseline.mape} unit="ratio" />. It
        explains <Q v={f.score.r2} unit="ratio" /> of the variance
        {f.band_coverage > 0 && (
          <>
            , and <Q v={f.points.length > 0 ? held / f.points.length : null} unit="ratio" /> of the
            points lie in its band of <Q v={f.band_coverage} unit="ratio" />
          </>
        )}
        .{" "}
        <span class="quiet">
          Judged by: {clean(f.protocol)}; <Q v={f.points.length} unit="count" /> steps of{" "}
          <Q v={f.step_seconds} unit="seconds" />.
        </span>
      </p>
      <div class="cols">
        <div>
          <h3>Measured against modelled</h3>
          <FitScatter f={f} />
        </div>
        <div>
          <h3>What is left: measured less modelled</h3>
          <Residuals f={f} />
        </div>
      </div>
      <h3>What adds to it, on average</h3>
      <Contributions f={f} />
      <details>
        <summary>Models that were tried</summary>
        <Table
          caption="Families of models"
          rows={f.candidates}
          keyOf={(c) => c.family}
          cols={[
            { title: "Family", cell: (c) => clean(c.family) },
            {
              title: "Off by, on what it had not seen",
              number: true,
              cell: (c) => <Q v={c.mape} unit="ratio" />,
            },
            {
              title: "",
              cell: (c) => (
                <span class="quiet wrap">
                  {c.family === f.family ? "chosen" : clean(c.skipped)}
                </span>
              ),
            },
          ]}
        />
        <p class="quiet">
          <code>reckon power fit --node {clean(f.node)}</code> also tries trees, and writes the
          model as a file.
        </p>
      </details>
      {f.warnings.length > 0 && (
        <details>
          <summary>
            {f.warnings.length} remark{f.warnings.length === 1 ? "" : "s"}
          </summary>
          <ul>
            {f.warnings.map((w) => (
              <li class="wrap">{clean(w)}</li>
            ))}
          </ul>
        </details>
      )}
    </>
  );
}

const X0 = 64,
  W = 560,
  Y0 = 226,
  H = 206;
function FitScatter({ f }: { f: PowerFit }) {
  const top =
      Math.max(1, ...f.points.map((p) => Math.max(p.measured_watts, p.modelled_watts))) * 1.04,
    low = Math.max(
      0,
      Math.min(...f.points.map((p) => Math.min(p.measured_watts, p.modelled_watts))) - 0.1 * top,
    );
  const at = (v: number) => (v - low) / (top - low || 1),
    X = (v: number) => X0 + W * at(v),
    Y = (v: number) => Y0 - H * Math.min(1, Math.max(0, at(v)));
  const steps = Array.from({ length: 41 }, (_, i) => low + ((top - low) * i) / 40),
    band = [
      ...steps.map((v) => `${X(v)} ${Y(v * f.band_high)}`),
      ...steps.reverse().map((v) => `${X(v)} ${Y(v * f.band_low)}`),
    ].join(" L");
  return (
    <svg
      class="scatter"
      viewBox="0 0 664 250"
      role="img"
      aria-label={`${f.points.length} points of measured against modelled power from ${human(low, "watts")} to ${human(top, "watts")}; the band holds measured power between ${human(f.band_low, "ratio")} and ${human(f.band_high, "ratio")} of the model`}
    >
      {[0, 0.5, 1].map((s) => {
        const v = low + (top - low) * s;
        return (
          <>
            <line x1={X0} x2={X0 + W} y1={Y(v)} y2={Y(v)} />
            <text x={X0 - 6} y={Y(v) + 4} text-anchor="end">
              {human(v, "watts")}
            </text>
            <text x={X(v)} y="244" text-anchor="middle">
              {human(v, "watts")}
            </text>
          </>
        );
      })}
      <path class="band" d={`M${band}Z`} />
      <line class="ideal" x1={X(low)} y1={Y(low)} x2={X(top)} y2={Y(top)} />
      {f.points.map((p) => (
        <circle cx={X(p.modelled_watts)} cy={Y(p.measured_watts)} r="2.5">
          <title>{`${stamp(p.time)}: measured ${human(p.measured_watts, "watts")}, modelled ${human(p.modelled_watts, "watts")}`}</title>
        </circle>
      ))}
    </svg>
  );
}

function Residuals({ f }: { f: PowerFit }) {
  const times = f.points.map((p) => Date.parse(p.time)),
    t0 = Math.min(...times),
    t1 = Math.max(...times),
    left = f.points.map((p) => p.measured_watts - p.modelled_watts),
    most = Math.max(1e-9, ...left.map(Math.abs)) * 1.05;
  const mean = left.reduce((a, b) => a + b, 0) / (left.length || 1),
    X = (t: number) => X0 + (W * (t - t0)) / (t1 - t0 || 1),
    Y = (v: number) => 120 - (106 * v) / most;
  const edge = (k: number) =>
    f.points.map(
      (p, i) =>
        `${X(times[i]).toFixed(1)} ${Math.max(8, Math.min(232, Y((k - 1) * p.modelled_watts))).toFixed(1)}`,
    );
  return (
    <svg
      class="scatter"
      viewBox="0 0 664 250"
      role="img"
      aria-label={`What the model leaves: on average ${human(mean, "watts")}, at most ${human(most / 1.05, "watts")}`}
    >
      {[-1, 0, 1].map((s) => (
        <>
          <line x1={X0} x2={X0 + W} y1={Y((s * most) / 1.05)} y2={Y((s * most) / 1.05)} />
          <text x={X0 - 6} y={Y((s * most) / 1.05) + 4} text-anchor="end">
            {human((s * most) / 1.05, "watts")}
          </text>
        </>
      ))}
      {f.points.length > 1 && f.band_coverage > 0 && (
        <path
          class="band"
          d={`M${[...edge(f.band_high), ...edge(f.band_low).reverse()].join(" L")}Z`}
        />
      )}
      {f.points.map((p, i) => (
        <circle cx={X(times[i])} cy={Y(left[i])} r="2.5">
          <title>{`${stamp(p.time)}: ${left[i] < 0 ? "" : "+"}${human(left[i], "watts")}`}</title>
        </circle>
      ))}
      <text x={X0} y="246">
        {clock(t0)}
      </text>
      <text x={X0 + W} y="246" text-anchor="end">
        {clock(t1)}
      </text>
    </svg>
  );
}

const words: Record<string, string> = {
  cpu_utilization: "CPU use",
  cpu_cycles: "CPU cycles",
  gpu_utilization: "GPU use",
  disk_read_bytes: "reading disks",
  disk_write_bytes: "writing disks",
  network_bytes: "network",
};
function Contributions({ f }: { f: PowerFit }) {
  const rows = [
      {
        feature: "without any of them",
        watts: f.base_watts,
        low_watts: f.base_watts,
        high_watts: f.base_watts,
      },
      ...f.contributions,
    ],
    top = Math.max(
      1e-9,
      ...rows.map((r) =>
        Math.max(Math.abs(r.high_watts), Math.abs(r.low_watts), Math.abs(r.watts)),
      ),
    ),
    all = rows.reduce((a, r) => a + r.watts, 0);
  return (
    <div class="hbars contrib">
      {rows.map((r) => (
        <>
          <span>{words[r.feature] ?? clean(r.feature)}</span>
          <svg
            viewBox="0 0 100 14"
            preserveAspectRatio="none"
            role="img"
            aria-label={`${words[r.feature] ?? r.feature}: ${human(r.watts, "watts")} on average, ${human(r.low_watts, "watts")} to ${human(r.high_watts, "watts")}`}
          >
            <rect class="track" width="100" height="14" />
            <rect
              class={r.watts < 0 ? "minus" : "fill"}
              y="3"
              width={(100 * Math.abs(r.watts)) / top}
              height="8"
            />
            {r.high_watts > r.low_watts && (
              <line
                class="range"
                x1={(100 * Math.max(0, r.low_watts)) / top}
                x2={(100 * Math.max(0, r.high_watts)) / top}
                y1="7"
                y2="7"
              />
            )}
          </svg>
          <span>
            <Q v={r.watts} unit="watts" />{" "}
            <span class="quiet">
              {all > 0 && known(r.watts) && <Q v={r.watts / all} unit="ratio" />}
              {r.high_watts > r.low_watts && (
                <>
                  , <Q v={r.low_watts} unit="watts" /> to <Q v={r.high_watts} unit="watts" />
                </>
              )}
            </span>
          </span>
        </>
      ))}
    </div>
  );
}

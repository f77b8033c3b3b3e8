// The first page: who used this machine or site, since when, and what needs somebody.
import { useMemo } from "preact/hooks";
import { ask, useAsk } from "../lib/api";
import type { Mark } from "../lib/chart";
import { today, type ForecastList } from "../lib/forecast";
import { LaterOutlook } from "../lib/outlook";
import { Pinned } from "../lib/own";
import { Choice, clean, Empty, Q, Section, Show, When } from "../lib/parts";
import { meanOf, measuredFrom, ownOf } from "../lib/measure";
import { asked, fitUsual, named, range } from "../lib/range";
import { ranking, type Ranking } from "../lib/ranked";
import { has, introduced, me, nodeLink, nothing, param, set } from "../lib/state";
import { todos, type Alert } from "../lib/todo";
import type { FindingList, Node, NodeList, Num, UsageList, WorkloadList } from "../lib/types";
import { human, known } from "../lib/units";
import type { By, Use, What } from "../lib/users";
import { Cells } from "./first/cells";
import { Needs } from "./first/needs";
import { Ranks } from "./first/ranks";
import { UseStack, useUse } from "./first/stack";

export const sum = (list: Node[], f: (n: Node) => Num): number | null => {
  const have = list.map(f).filter(known);
  return have.length ? have.reduce((a, b) => a + b, 0) : null;
};

export function Site() {
  const nodes = useAsk<NodeList>("/api/reckon/v1/nodes", true);
  return (
    <>
      {!nodes.data && <h1 class="lead">Who uses it</h1>}
      <Show a={nodes}>
        {(d) =>
          d.nodes.length === 0 ? (
            <>
              <h1>Nothing measured yet</h1>
              <Empty>
                No node has reported yet. On each machine run <code>reckon-agent</code>, or{" "}
                <code>reckon up</code> here.
              </Empty>
            </>
          ) : (
            fitUsual(d.nodes) && <Known nodes={d.nodes} />
          )
        }
      </Show>
    </>
  );
}

function Known({ nodes }: { nodes: Node[] }) {
  const open = me.value?.role === "public",
    ready = introduced.value,
    one = nodes.length === 1;
  const by: By = open ? "kind" : ((param("by") || (one ? "workload" : "owner")) as By),
    what = (param("of") || "cpu") as What,
    r = range.value,
    compared = param("compare") === "before";
  const prom = has("prometheus"),
    use = useUse(r, ready && prom ? nodes.length : 0, by, what),
    before = useUse(r, ready && prom && compared ? nodes.length : 0, by, what, r.length);
  const rankedBy = prom ? by : by === "workload" ? "owner" : by,
    rankBy = by === "workload" ? `${by} ${what}` : by; // of many workloads the largest of a measure are asked for
  const ranks = useAsk<Ranking>(
    ready && (prom || has("usage")) ? `ranking ${rankBy} ${r.from} ${r.to}` : null,
    false,
    (_p, s) => ranking(r, rankedBy, what, has("usage"), s),
    `ranking ${rankBy} ${r.length} ${r.fixed ? r.from : ""}`,
  );
  const past = { ...r, from: r.from - r.length, to: r.to - r.length, fixed: true },
    ranksBefore = useAsk<Ranking>(
      compared && ready && (prom || has("usage"))
        ? `ranking ${rankBy} ${past.from} ${past.to}`
        : null,
      false,
      (_p, s) => ranking(past, rankedBy, what, has("usage"), s),
      `ranking before ${rankBy} ${r.length} ${r.fixed ? r.from : ""}`,
    );
  const named_ = ready && !open;
  const works = useAsk<WorkloadList>(
    named_ && by === "owner"
      ? "/api/reckon/v1/workloads?" +
          new URLSearchParams({ ...asked(r), sort: "-cpu_seconds", limit: "400" })
      : null,
  );
  const found = useAsk<FindingList>(
      named_ && has("findings") ? "/api/reckon/v1/findings?limit=500" : null,
      true,
    ),
    fires = useAlerts();
  const todo = useMemo(
    () => todos(fires.data ?? [], nodes, found.data?.findings ?? []),
    [fires.data, nodes, found.data],
  );
  const marks = useMemo(
    () =>
      nodes
        .filter((n) => !n.up && n.agent !== false && Date.parse(n.seen) / 1000 > r.from)
        .map((n): Mark => ({
          from: Date.parse(n.seen) / 1000,
          to: Date.parse(n.seen) / 1000,
          label: `${n.node} down`,
          kind: "bad",
        })),
    [nodes, r.from],
  );
  const you =
    has("auth") && me.value && !["admin", "support", "public"].includes(me.value.role)
      ? me.value.name
      : undefined;
  const since = use.data && measuredFrom(use.data);
  const choices: [string, string][] = [
    ["owner", "people"],
    ["workload", "workloads"],
  ];
  return (
    <>
      <h1 class="lead">
        {headline(use.data, ranks.data, what, you, r.length)}
        {compared && use.data && (
          <small> {before_(before.data, ranksBefore.data, what, you, r.length)}</small>
        )}
      </h1>
      <p class="sub">
        <span>{named(r)}</span>
        {since !== undefined && (
          <>
            , measured since <When t={new Date(since * 1000).toISOString()} />
          </>
        )}{" "}
        ·{" "}
        {one ? (
          <a href={nodeLink(nodes[0].node, nodes[0].site)}>{clean(nodes[0].node)}</a>
        ) : (
          <>
            {nodes.filter((n) => n.up && n.agent !== false).length} of {nodes.length} nodes report
            now
          </>
        )}
        <EnergyToday />
      </p>
      <div class="controls">
        {!open && (
          <Choice
            label="By"
            value={by}
            of={choices}
            pick={(v) => set({ by: v === (one ? "workload" : "owner") ? "" : v })}
          />
        )}
        <Choice
          label="Of"
          value={what}
          of={[
            ["cpu", "CPU"],
            ["gpu", "GPU"],
            ["energy", "power"],
          ]}
          pick={(v) => set({ of: v === "cpu" ? "" : v })}
        />
        <label>
          <input
            type="checkbox"
            checked={compared}
            onChange={(e) => set({ compare: e.currentTarget.checked ? "before" : "" })}
          />{" "}
          compare with the time before
        </label>
      </div>
      {prom && <UseStack u={use} before={before.data} by={by} what={what} marks={marks} />}
      <div class={open ? undefined : "first"}>
        <Section
          title="Who used it"
          aside={
            <span class="quiet">
              {
                {
                  cpu: "core-hours, most used and unused first",
                  gpu: "most GPU-hours used and unused first",
                  energy: "most energy first",
                }[what]
              }
            </span>
          }
        >
          <Ranks
            a={ranks}
            by={by}
            what={what}
            you={you}
            before={compared ? ranksBefore.data : undefined}
            use={use.data}
            todo={todo}
            workloads={works.data?.workloads ?? []}
          />
        </Section>
        {!open && (
          <Section title="Needs you" aside={<a href="/findings">all findings</a>}>
            <Needs
              of={todo}
              waits={!found.data && !found.error && has("findings") && ready}
              looked={!has("findings") || !!found.data?.looked}
            />
          </Section>
        )}
      </div>
      {named_ && prom && <Pinned w={r} />}
      {!one && <Cells nodes={nodes} />}
      <LaterOutlook of={{}} what="forecasts of cores, memory, power and disk" />
    </>
  );
}

/** One sentence: how much of it was used, and how much is held for nothing. */
function headline(
  u: Use | undefined,
  d: Ranking | undefined,
  what: What,
  you: string | undefined,
  length: number,
) {
  if (!u) return "Who uses it";
  if (you) {
    if (!d) return "What you used";
    const own = ownOf(d.rows, you, what),
      word = what === "gpu" ? "GPUs" : "cores";
    if (what === "energy")
      return own.used === null ? (
        "The power of your work was not measured in this time."
      ) : (
        <>
          Your work drew <Q v={own.used / length} unit="watts" /> on average.
        </>
      );
    return !own.used && !own.wasted ? (
      `You used no ${word} in this time.`
    ) : (
      <>
        You used <Q v={(own.used ?? 0) / length} unit="cores" /> {word} on average
        {(own.wasted ?? 0) > 0.05 * length && (
          <> and held {human((own.wasted ?? 0) / length, "cores")} that you did not use</>
        )}
        .
      </>
    );
  }
  const used = meanOf(u),
    size = Math.max(0, ...u.size.map((v) => v ?? 0)),
    word = { cpu: "cores", gpu: "GPUs", energy: "" }[what];
  const head =
    used === null ? (
      "Nothing was measured in this time"
    ) : what === "energy" ? (
      <>
        <Q v={used} unit="watts" /> were drawn on average
      </>
    ) : (
      <>
        <Q v={used} unit="cores" /> {size > 0 && <>of {Math.round(size)} </>}
        {word} were in use on average
      </>
    );
  const seconds = (u.times.length || 1) * u.step,
    wasting =
      what === "energy" || !d
        ? []
        : d.rows.filter((r) => ((what === "gpu" ? r.gpuWasted : r.wasted) ?? 0) > 0.2 * seconds);
  const lost =
    wasting.reduce((a, r) => a + ((what === "gpu" ? r.gpuWasted : r.wasted) ?? 0), 0) / seconds;
  return (
    <>
      {head}
      {wasting.length > 0 && lost >= 0.5 && (
        <>
          ;{" "}
          {wasting.length === 1 ? (
            <>{clean(wasting[0].name)} held</>
          ) : (
            <>{wasting.length} people held</>
          )}{" "}
          {human(lost, "cores")} {word} that nobody used
        </>
      )}
      .
    </>
  );
}

/** The headline's figure of the time before, or that there is none. */
function before_(
  u: Use | undefined,
  d: Ranking | undefined,
  what: What,
  you: string | undefined,
  length: number,
) {
  if (!u || (you && !d)) return null;
  const since = measuredFrom(u);
  const own = you && d ? ownOf(d.rows, you, what).used : undefined,
    v = own === undefined || meanOf(u) === null ? meanOf(u) : own === null ? null : own / length;
  return v === null ? (
    `${nothing()} was measured in the time before.`
  ) : (
    <>
      In the time before
      {since !== undefined && (
        <>
          , measured since <When t={new Date(since * 1000).toISOString()} />
        </>
      )}
      : <Q v={v} unit={what === "energy" ? "watts" : "cores"} />.
    </>
  );
}

/** Alerts of rules, for those who may see all. */
export function useAlerts() {
  const may =
    has("alerts") &&
    introduced.value &&
    (!has("auth") || ["admin", "support"].includes(me.value?.role ?? ""));
  return useAsk<Alert[]>(may ? "alerts" : null, true, (_p, s) =>
    ask<{ data: { alerts: Alert[] } }>("/api/v1/alerts", s).then((d) => d.data.alerts),
  );
}

/** Energy of today so far, and what it will be. */
function EnergyToday() {
  const a = useAsk<UsageList>(has("usage") ? "/api/reckon/v1/usage?since=25h&span=hour" : null),
    f = useAsk<ForecastList>(has("forecast") ? "/api/reckon/v1/forecast" : null);
  const hours = useMemo(
    () =>
      a.data?.rows.flatMap((r) =>
        r.from && known(r.node_energy_joules)
          ? [{ from: Date.parse(r.from), joules: r.node_energy_joules }]
          : [],
      ),
    [a.data],
  );
  const t = useMemo(
    () =>
      hours &&
      f.data &&
      today(
        hours,
        f.data.forecasts.filter((x) => x.figure === "watts"),
        Date.now(),
      ),
    [hours, f.data],
  );
  if (!hours || hours.length === 0) return null;
  if (!t)
    return (
      <>
        {" "}
        · energy today <Q v={soFar(hours)} unit="joules" />
      </>
    );
  return (
    <>
      {" "}
      · energy today <Q v={t.soFar} unit="joules" />,{" "}
      <span
        title={`95 % likely ${human(t.low, "joules")} to ${human(t.high, "joules")} if all hours went together; hours of today that were not measured are not in it`}
      >
        forecast {human(t.joules, "joules")}
      </span>
    </>
  );
}
const soFar = (hours: { from: number; joules: number }[]) => {
  const d = new Date();
  d.setHours(0, 0, 0, 0);
  return hours.filter((h) => h.from >= d.getTime()).reduce((x, h) => x + h.joules, 0);
};

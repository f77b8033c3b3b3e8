// The first page: who used this machine or site, since when, and what needs somebody.
import { useMemo } from "preact/hooks";
import { ask, useAsk } from "../lib/api";
import type { Mark } from "../lib/chart";
import { today, type ForecastList } from "../lib/forecast";
import { LaterOutlook } from "../lib/outlook";
import { Pinned } from "../lib/own";
import { Choice, clean, Empty, Q, Section, Show, When } from "../lib/parts";
import {
  allocable,
  figuresOf,
  meanOf,
  measuredFrom,
  measures,
  ownOf,
  tariff,
  tariffOf,
  whats,
} from "../lib/measure";
import { asked, few, fitUsual, named, range } from "../lib/range";
import { ranking, type Rank, type Ranking } from "../lib/ranked";
import { has, introduced, keep, me, nodeLink, nothing, param, recall, set } from "../lib/state";
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
  tariff.value = tariffOf(nodes, priceGiven());
  const by: By = open ? "kind" : ((param("by") || (one ? "workload" : "owner")) as By),
    what = (param("of") || "cpu") as What,
    r = range.value,
    compared = param("compare") === "before";
  const prom = has("prometheus"),
    use = useUse(r, ready && prom ? nodes : null, by, what),
    before = useUse(r, ready && prom && compared ? nodes : null, by, what, r.length);
  const rankedBy = prom ? by : by === "workload" ? "owner" : by,
    many = nodes.length > few,
    rankBy =
      many || by === "workload" || what === "memory" || what === "network" ? `${by} ${what}` : by; // of many workloads the largest of a measure are asked for
  const ranks = useAsk<Ranking>(
    ready && (prom || has("usage")) ? `ranking ${rankBy} ${r.from} ${r.to}` : null,
    false,
    (_p, s) => ranking(r, rankedBy, what, has("usage"), s, many),
    `ranking ${rankBy} ${r.length} ${r.fixed ? r.from : ""}`,
  );
  const past = { ...r, from: r.from - r.length, to: r.to - r.length, fixed: true },
    ranksBefore = useAsk<Ranking>(
      compared && ready && (prom || has("usage"))
        ? `ranking ${rankBy} ${past.from} ${past.to}`
        : null,
      false,
      (_p, s) => ranking(past, rankedBy, what, has("usage"), s, many),
      `ranking before ${rankBy} ${r.length} ${r.fixed ? r.from : ""}`,
    );
  const named_ = ready && !open;
  const works = useAsk<WorkloadList>(
    named_ && by === "owner"
      ? "/api/reckon/v1/workloads?" +
          new URLSearchParams({ ...asked(r), sort: "-cpu_seconds", limit: "60" })
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
        <span class="when">{named(r)}</span>
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
            <Q v={nodes.filter((n) => n.up && n.agent !== false).length} unit="count" /> of{" "}
            <Q v={nodes.length} unit="count" /> nodes report now
          </>
        )}
        <EnergyToday word={you ? "energy of all nodes today" : "energy today"} />
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
          of={whats.map((w): [string, string] => [w, measures[w].title])}
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
        {what === "money" && (!tariff.value || tariff.value.own) && <Price />}
      </div>
      {prom && (
        <UseStack u={use} before={before.data} by={by} what={what} marks={marks} you={you} />
      )}
      <div class={open ? undefined : "first"}>
        <Section
          title="Who used it"
          aside={
            <span class="quiet">
              {measures[what].column.toLowerCase().replace("gpu", "GPU")}, most{" "}
              {allocable(what) ? "used and unused" : "used"} first
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
            workloads={works.data}
          />
        </Section>
        {!open && (
          <Section title="Needs you" aside={<a href="/findings">all findings</a>}>
            <Needs
              of={todo}
              waits={
                ready &&
                ((!found.data && !found.error && has("findings")) ||
                  (mayAlerts() && !fires.data && !fires.error))
              }
              alerts={
                !has("alerts") ? "none" : !mayAlerts() ? "hidden" : fires.data ? "seen" : "failed"
              }
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

const priceGiven = () => param("tariff") || recall("reckon.tariff") || "";
/** Asks what a kWh costs, where the server does not know. It stays in the address and in this browser. */
function Price() {
  return (
    <form
      onSubmit={(e) => {
        e.preventDefault();
        const v = new FormData(e.currentTarget).get("price") as string;
        keep("reckon.tariff", v);
        set({ tariff: v });
      }}
    >
      <label>
        Price of a kWh{" "}
        <input
          name="price"
          size={9}
          placeholder="0.28 EUR"
          pattern="\d+([.,]\d+)? *\S{0,6}"
          required
          value={priceGiven()}
        />
      </label>{" "}
      <button>Set</button>
    </form>
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
  const m = measures[what],
    perSecond = what === "money" ? length / 3600 : length; // money is an amount, and its mean is of an hour
  if (!u) return "Who uses it";
  if (you) {
    if (!d) return "What you used";
    const own = ownOf(d.rows, you, what);
    if (own.used === null)
      return `The ${m.title} of your work ${what === "money" && !tariff.value ? "needs a price" : "was not measured in this time"}.`;
    return !own.used && !own.wasted ? (
      `You used no${m.word.replace(" of", "")} in this time.`
    ) : (
      <>
        {allocable(what) ? "You used " : "Your work used "}
        <Q v={own.used / perSecond} unit={m.rate()} />
        {m.word} on average
        {(own.wasted ?? 0) > (m.least / 10) * length && (
          <>
            {" "}
            and held <Q v={(own.wasted ?? 0) / length} unit={m.rate()} /> that you did not use
          </>
        )}
        .
      </>
    );
  }
  const used = meanOf(u),
    size = Math.max(0, ...u.size.map((v) => v ?? 0));
  if (what === "money" && !tariff.value) return "What does a kWh cost? Its price is not set.";
  const head =
    used === null ? (
      "Nothing was measured in this time"
    ) : (
      <>
        <Q v={used} unit={m.rate()} />
        {size > 0 && (
          <>
            {" "}
            of <Q v={size} unit={m.rate()} />
          </>
        )}
        {m.word} {m.verb} on average
      </>
    );
  const at = (t: string | number) => (typeof t === "number" ? t : Date.parse(t) / 1000),
    seconds = d ? Math.min(at(d.span.until), Date.now() / 1000) - at(d.span.since) : 1,
    wasted = (r: Rank) => figuresOf(r, what).wasted ?? 0,
    wasting = d ? d.rows.filter((r) => wasted(r) > 0.4 * m.least * seconds) : [];
  const lost = wasting.reduce((a, r) => a + wasted(r), 0) / seconds;
  return (
    <>
      {head}
      {wasting.length > 0 && lost >= m.least && (
        <>
          ;{" "}
          {wasting.length === 1 ? (
            <>{clean(wasting[0].name)} held</>
          ) : (
            <>
              <Q v={wasting.length} unit="count" /> people held
            </>
          )}{" "}
          <Q v={lost} unit={m.rate()} />
          {m.word} that nobody used
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
    v =
      own === undefined || meanOf(u) === null
        ? meanOf(u)
        : own === null
          ? null
          : (own / length) * (what === "money" ? 3600 : 1);
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
      : <Q v={v} unit={measures[what].rate()} />
      {measures[what].word}.
    </>
  );
}

const mayAlerts = () =>
  has("alerts") &&
  introduced.value &&
  (!has("auth") || ["admin", "support"].includes(me.value?.role ?? ""));
/** Alerts of rules, for those who may see all. */
export function useAlerts() {
  return useAsk<Alert[]>(mayAlerts() ? "alerts" : null, true, (_p, s) =>
    ask<{ data: { alerts: Alert[] } }>("/api/v1/alerts", s).then((d) => d.data.alerts),
  );
}

/** Energy of today so far, and what it will be. */
function EnergyToday({ word }: { word: string }) {
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
        · {word} <Q v={soFar(hours)} unit="joules" />
      </>
    );
  return (
    <>
      {" "}
      · {word} <Q v={t.soFar} unit="joules" />,{" "}
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

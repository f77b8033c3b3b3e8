// One person, service or namespace: what was used, allocated and lost, by which work, findings, and what to request next.
import { useMemo } from "preact/hooks";
import { ask, useAsk, useAskOver } from "../lib/api";
import { TimeChart, type Line } from "../lib/chart";
import { alike, deaths, describe, titleOf } from "../lib/names";
import { LaterOutlook } from "../lib/outlook";
import { OwnPanel } from "../lib/own";
import {
  clean,
  Empty,
  isOf,
  Name,
  opposite,
  Q,
  same,
  Section,
  Show,
  Table,
  there,
  When,
} from "../lib/parts";
import { Peak } from "../lib/peak";
import { asked, named, range, zoomTo, type Range } from "../lib/range";
import { unusedCores } from "../lib/ranked";
import { axis, promQuote } from "../lib/stack";
import { stateOf, usedOf } from "../lib/search";
import { has, introduced, me, ownersWork, param, set, workloadLink } from "../lib/state";
import { wordsOf } from "../lib/todo";
import type {
  Advice,
  FindingList,
  MoveList,
  Num,
  UsageList,
  Workload,
  WorkloadDetail,
  WorkloadList,
} from "../lib/types";
import { human, known } from "../lib/units";

const hour = 3600;
export function OwnerPage() {
  const name = param("name") || me.value?.name || "",
    r = range.value;
  if (!name)
    return (
      <>
        <h1>Person</h1>
        <Empty>
          Which person? <a href="/owners">All people</a>
        </Empty>
      </>
    );
  return <One key={name} name={name} r={r} />;
}

function One({ name, r }: { name: string; r: Range }) {
  const q = (more: Record<string, string>) =>
      new URLSearchParams({ owner: name, ...more }).toString(),
    span = r.length <= 14 * 86400 ? "hour" : "day",
    ready = introduced.value;
  const usage = useAskOver<UsageList>(
      ready ? "/api/reckon/v1/usage?" + q({ ...asked(r), by: "kind" }) : null,
      r,
    ),
    past = useAskOver<UsageList>(
      ready
        ? "/api/reckon/v1/usage?" +
            q({ since: iso(r.from - r.length), until: iso(r.from), by: "kind" })
        : null,
      r,
    );
  const time = useAskOver<UsageList>(
    ready ? "/api/reckon/v1/usage?" + q({ ...asked(r), span, by: "owner" }) : null,
    r,
  );
  const site = useAskOver<UsageList>(
    ready ? "/api/reckon/v1/usage?" + new URLSearchParams({ ...asked(r), span, by: "kind" }) : null,
    r,
  );
  const works = useAskOver<WorkloadList>(
    ready
      ? "/api/reckon/v1/workloads?" +
          q({ ...asked(r), within: "true", sort: "-cpu_seconds", limit: "1000" })
      : null,
    r,
    true,
  );
  const found = useAsk<FindingList>(
    ready && has("findings") ? "/api/reckon/v1/findings?" + q({ limit: "200" }) : null,
  );
  const moves = useAsk<MoveList>(
    ready && me.value && has("move") ? "/api/reckon/v1/move?" + q(asked(r)) : null,
  );
  if (usage.data?.rows.length === 0 && works.data?.workloads.length === 0)
    return (
      <>
        <h1>
          <bdi>{clean(name).slice(0, 80)}</bdi>
        </h1>
        <p class="sub when">{named(r)}</p>
        <Empty>
          {me.value?.role === "user"
            ? me.value.name === name
              ? "Nothing of yours was measured in this time."
              : "Nothing of this name is shown to you in this time."
            : "Nothing of this name was measured in this time."}{" "}
          <a href="/owners">All people</a>{" "}
          <button onClick={() => set({ last: String(365 * 86400), from: "", to: "" })}>
            Look at the last year
          </button>
        </Empty>
      </>
    );
  return (
    <>
      <h1>
        <bdi>{clean(name).slice(0, 80)}</bdi>
      </h1>
      <p class="sub">
        <span class="when">{named(r)}</span> · <a href={ownersWork(name)}>all work</a> ·{" "}
        <a href={"/usage?" + new URLSearchParams({ owner: name })}>usage</a> ·{" "}
        <a href={"/report?" + q({ ...asked(r) })}>report</a>
      </p>
      <div class="keep" style="min-height:5rem">
        <Show a={there(past) ? usage : { ...usage, data: undefined }}>
          {(d) => <Sums d={d} past={past.data} name={name} r={r} />}
        </Show>
      </div>
      {there(usage, past) && (
        <>
          <Section title="Over time">
            <div class="keep" style="min-height:270px">
              <Show a={there(site) ? time : { ...time, data: undefined }}>
                {(d) => <Over d={d} site={site.data} step={span === "hour" ? hour : 86400} />}
              </Show>
            </div>
          </Section>
          <div class="first">
            <div>
              <Section
                title="Work, the most unused first"
                aside={<span class="quiet">allocated and not used, core-hours of whole runs</span>}
              >
                <div class="keep" style="min-height:20rem">
                  <Show a={works}>{(d) => <Lost list={d.workloads} />}</Show>
                </div>
              </Section>
            </div>
            <div>
              <Section title="Findings">
                <div class="keep" style="min-height:8rem">
                  {has("findings") ? (
                    <Show a={found}>{(d) => <Found d={d} name={name} />}</Show>
                  ) : (
                    <Empty>This server does not evaluate findings.</Empty>
                  )}
                </div>
              </Section>
              {moves.data && moves.data.moves.length > 0 && (
                <Section title="Would suit another partition better">
                  <Moves list={moves.data.moves} />
                </Section>
              )}
              <Section title="Next time, request">
                {works.data && <Next list={works.data.workloads} />}
              </Section>
            </div>
          </div>
          <OwnPanel of={{ owner: name }} w={r} />
          <LaterOutlook
            of={{ owner: name }}
            what="forecast of the cores that this person will use, with its band and last error"
          />
        </>
      )}
    </>
  );
}
const iso = (t: number) => new Date(t * 1000).toISOString();

/** What each sum is called where it stands beside those of others. */
const called: Record<string, string> = {
  Used: "used cpu",
  Allocated: "allocated cpu",
  "Allocated, not used": "unused cpu",
  "GPUs used": "used gpu",
  "GPUs allocated": "allocated gpu",
  Energy: "used energy",
  Started: "started",
};

function Sums({ d, past, name, r }: { d: UsageList; past?: UsageList; name: string; r: Range }) {
  const lost = unusedCores(d.rows),
    before = past ? unusedCores(past.rows) : null;
  const sum = (what: string, key: string, unit: string): [string, Num, Num, string, string?] => [
    what,
    d.total[key] as Num,
    past?.total[key] as Num,
    unit,
    isOf(d.total, key),
  ];
  const used = isOf(d.total, "cpu_seconds"),
    is = used === "at least" ? opposite(used) : (isOf(d.total, "held_core_seconds") ?? used);
  const rows: [string, Num, Num, string, string?][] = [
    sum("Used", "cpu_seconds", "core-seconds"),
    sum("Allocated", "held_core_seconds", "core-seconds"),
    ["Allocated, not used", lost, before, "core-seconds", is],
    sum("GPUs used", "gpu_seconds", "gpu-seconds"),
    sum("GPUs allocated", "held_gpu_seconds", "gpu-seconds"),
    sum("Energy", "energy_joules", "joules"),
    sum("Started", "started", "count"),
  ];
  return (
    <ul class="facts">
      {rows
        .filter(([what, v]) => known(v) && (v > 0 || what === "Used"))
        .map(([what, v, p, unit, is]) => (
          <li>
            <span class="what">{what}</span>
            <b>
              <Q v={v} unit={unit} is={is} of={same(called[what], "owner " + name, d)} />
            </b>
            <small>
              {known(p) && p > 0 && known(v) ? (
                <>
                  before: <Q v={p} unit={unit} />
                </>
              ) : (
                " "
              )}
            </small>
          </li>
        ))}
      {has("prometheus") && (
        <>
          <Peak
            what="Most cores"
            expr={(over) =>
              `sum(rate(reckon_workload_cpu_seconds_total{owner=${promQuote(name)}}${over}))`
            }
            unit="cores"
            r={r}
          />
          <Peak
            what="Most memory"
            expr={() => `sum(reckon_workload_memory_bytes{owner=${promQuote(name)}})`}
            unit="bytes"
            r={r}
          />
        </>
      )}
    </ul>
  );
}

/** Steps in which somebody used something and this owner has no row are 0, as is what was allocated in steps in which the batch system
 * reported others only; steps of which nothing is kept are a gap. */
function Over({ d, site, step }: { d: UsageList; site?: UsageList; step: number }) {
  const drawn = useMemo(() => {
    const stamps = (l?: UsageList) =>
        (l?.rows ?? []).map((x) => Date.parse(String(x.from)) / 1000).filter(Number.isFinite),
      mine = stamps(d),
      measured = new Set(stamps(site)),
      reported = new Set(
        (site?.rows ?? [])
          .filter((x) => known(x.held_core_seconds))
          .map((x) => Date.parse(String(x.from)) / 1000),
      ),
      all = [...mine, ...measured];
    const times = all.length ? axis(Math.min(...all), Math.max(...all), step) : [],
      now = Date.now() / 1000;
    const row = (key: string) =>
      times.map((t) => {
        const v = d.rows
          .filter((x) => Date.parse(String(x.from)) / 1000 === t)
          .map((x) => x[key])
          .find(known);
        return known(v)
          ? v / Math.max(60, Math.min(step, now - t))
          : measured.has(t) &&
              (!mine.includes(t) || (key === "held_core_seconds" && reported.has(t)))
            ? 0
            : null;
      });
    const lines: Line[] = [
      { label: "used", row: row("cpu_seconds") },
      ...(d.rows.some((x) => known(x.held_core_seconds))
        ? [{ label: "allocated", row: row("held_core_seconds") }]
        : []),
    ].filter((l) => l.row.some((v) => v !== null));
    return {
      times,
      lines,
      open:
        times.length && times[times.length - 1] + step > now ? times[times.length - 1] : undefined,
    };
  }, [d, site, step]);
  return drawn.lines.length === 0 ? (
    <Empty>This name used nothing in this time.</Empty>
  ) : (
    <TimeChart
      title="Cores used and allocated"
      times={drawn.times}
      lines={drawn.lines}
      unit="cores"
      steps
      open={drawn.open}
      lasting={step}
      height={200}
      zoom={zoomTo}
    />
  );
}

function Lost({ list }: { list: Workload[] }) {
  const groups = alike(
    list,
    (w) => titleOf(w),
    () => "",
  )
    .map((g) => ({
      ...g,
      lost: g.of.reduce<number | null>((a, w) => {
        const l = usedOf(w, "cpu").unused;
        return l === null ? a : (a ?? 0) + l;
      }, null),
      used: g.of.reduce((a, w) => a + (usedOf(w, "cpu").used ?? 0), 0),
      worst: [...g.of].sort(
        (a, b) => (usedOf(b, "cpu").unused ?? 0) - (usedOf(a, "cpu").unused ?? 0),
      )[0],
    }))
    .sort((a, b) => (b.lost ?? -1) - (a.lost ?? -1) || b.used - a.used)
    .slice(0, 15);
  if (groups.length === 0) return <Empty>This name ran nothing in this time.</Empty>;
  return (
    <Table
      caption="Work by what was allocated and not used"
      rows={groups}
      keyOf={(g) => g.title}
      cols={[
        {
          title: "Work",
          cell: (g) => (
            <>
              <Name href={workloadLink(g.worst.id, g.worst.start, g.worst.site)} max={40}>
                {g.title}
              </Name>{" "}
              <small class="quiet">
                {g.of.length > 1 && deaths(g.of) && (
                  <b title="ended so, of the runs of this name">{deaths(g.of)} · </b>
                )}
                {g.of.length > 1 && (
                  <>
                    worst of <Q v={g.of.length} unit="count" />:{" "}
                  </>
                )}
                <bdi>{clean(g.worst.id).slice(0, 40)}</bdi>
              </small>
            </>
          ),
        },
        { title: "State", wide: true, cell: (g) => stateOf(g.worst) },
        { title: "Unused", number: true, cell: (g) => <Q v={g.lost} unit="core-h" /> },
        { title: "Used", number: true, cell: (g) => <Q v={g.used} unit="core-h" /> },
        {
          title: "Energy",
          number: true,
          wide: true,
          cell: (g) => (
            <Q
              v={g.of.reduce<number | null>((a, w) => {
                const v = usedOf(w, "energy").used;
                return v === null ? a : (a ?? 0) + v;
              }, null)}
              unit="joules"
            />
          ),
        },
        {
          title: "Started",
          wide: true,
          cell: (g) => <When t={g.worst.start} />,
        },
      ]}
    />
  );
}

function Found({ d, name }: { d: FindingList; name: string }) {
  if (d.findings.length === 0) return <Empty>No findings.</Empty>;
  const by = alike(
    d.findings,
    (f) => f.rule,
    () => "",
  );
  return (
    <ul class="todo">
      {by.map((g) => (
        <li>
          <span class="w">
            {wordsOf(g.title)}
            {g.of.length > 1 && ` × ${g.of.length}`}
          </span>
          <div class="d">
            <span class="wrap">{clean(g.of[0].text)}</span> · since <When t={g.of[0].first} /> ·{" "}
            <a href={"/findings?" + new URLSearchParams({ owner: name, rule: g.title })}>
              evidence
            </a>
          </div>
        </li>
      ))}
    </ul>
  );
}

/** Work that should run elsewhere: where, why, what it would wait and what becomes free. */
function Moves({ list }: { list: MoveList["moves"] }) {
  return (
    <ul class="todo">
      {list.map((m) => (
        <li>
          <span class="w">
            {clean(m.name)}: {clean(m.from)} → {clean(m.to)}
            {m.to_site !== m.site && ` of ${clean(m.to_site ?? "")}`}
          </span>
          <div class="d">
            <span class="wrap">{clean(m.why)}</span> · waits{" "}
            <Q v={m.wait_here_seconds} unit="seconds" /> here,{" "}
            <Q v={m.wait_there_seconds} unit="seconds" /> there ({m.wait_there_runs} jobs) · frees{" "}
            {human(m.freed_core_hours ?? null, "count")} core-hours
            {(m.freed_gpu_hours ?? 0) > 0 &&
              ` and ${human(m.freed_gpu_hours ?? null, "count")} GPU-hours`}{" "}
            a month · not known: <span class="wrap">{clean(m.unknown.join("; "))}</span>
          </div>
        </li>
      ))}
    </ul>
  );
}

/** What the runs of the names that lost most would have needed: the advice of the latest of each. */
function Next({ list }: { list: Workload[] }) {
  const ids = useMemo(
    () =>
      alike(
        list.filter((w) => (usedOf(w, "cpu").unused ?? 0) > 0 && !w.running),
        (w) => w.name,
        () => "",
      )
        .sort(
          (a, b) =>
            b.of.reduce((x, w) => x + (usedOf(w, "cpu").unused ?? 0), 0) -
            a.of.reduce((x, w) => x + (usedOf(w, "cpu").unused ?? 0), 0),
        )
        .slice(0, 4)
        .map((g) => g.of.reduce((a, w) => (w.start > a.start ? w : a))),
    [list],
  );
  const a = useAsk<{ w: Workload; advice?: Advice; why?: string }[]>(
    ids.length ? "advice " + ids.map((w) => w.id).join(" ") : null,
    false,
    async (_p, s) =>
      (
        await Promise.all(
          ids.map((w) =>
            ask<WorkloadDetail>(
              `/api/reckon/v1/workloads/${w.id.split("/").map(encodeURIComponent).join("/")}?` +
                new URLSearchParams({ start: w.start, ...(w.site ? { site: w.site } : {}) }),
              s,
            ).then(
              (d) => [{ w, advice: d.advice ?? undefined, why: d.no_advice?.text }],
              () => [],
            ),
          ),
        )
      ).flat(),
  );
  if (ids.length === 0) return <Empty>No run was allocated more than it used.</Empty>;
  return (
    <Show a={a}>
      {(l) =>
        l.length === 0 ? (
          <Empty>The runs that lost most could not be asked for.</Empty>
        ) : (
          <ul class="todo">
            {l.map(({ w, advice: x, why }) => (
              <li>
                <span class="w">
                  <Name href={workloadLink(w.id, w.start, w.site)} max={36}>
                    {describe(w)}
                  </Name>
                </span>
                {!x && <div class="d wrap">{why ?? "no advice"}</div>}
                {x && (
                  <div class="d">
                    {(
                      [
                        ["cores", x.cores, "cores"],
                        ["memory", x.memory_bytes, "bytes"],
                        ["time", x.seconds, "seconds"],
                        ["GPUs", x.gpus, "gpus"],
                      ] as [string, Num, string][]
                    )
                      .filter(([, v]) => known(v) && v > 0)
                      .map(([word, v, u], i) => (
                        <>
                          {i > 0 && ", "}
                          <Q v={v} unit={u} /> {v === 1 ? word.replace(/s$/, "") : word}
                        </>
                      ))}{" "}
                    · from <Q v={x.runs} unit="count" /> run{x.runs === 1 ? "" : "s"}
                  </div>
                )}
              </li>
            ))}
          </ul>
        )
      }
    </Show>
  );
}

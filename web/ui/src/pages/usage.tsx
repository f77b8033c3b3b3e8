// Usage: when a site is used, and by whom, over long times.
import { useMemo } from "preact/hooks";
import { useAskOver } from "../lib/api";
import { TimeChart, type Line } from "../lib/chart";
import {
  Bar,
  Choice,
  clean,
  Empty,
  isOf,
  Name,
  Q,
  same,
  Section,
  Show,
  Table,
  there,
} from "../lib/parts";
import { introduced, me, nodeLink, ownerLink, param, set } from "../lib/state";
import { query } from "../lib/search";
import { localHours, rowsOf, type Row } from "../lib/stack";
import type { Num, Usage, UsageList } from "../lib/types";
import { exact, human, known } from "../lib/units";
import { inksOf } from "../lib/ink";
import { asked, named as spanOf, range, rangeBetween, zoomTo } from "../lib/range";
import { measures } from "./owners";

const dims: [string, string][] = [
  ["owner", "owner"],
  ["account", "account"],
  ["partition", "partition"],
  ["command", "software"],
  ["kind", "kind"],
  ["node", "node"],
  ["qos", "QOS"],
  ["size", "cores allocated"],
  ["gpus", "GPUs allocated"],
  ["length", "length"],
];
const named = ["owner", "account", "command"];
const shown: typeof measures = [
  ...measures,
  ["held_core_seconds", "Allocated", "core-seconds"],
  ["held_gpu_seconds", "GPU allocated", "gpu-seconds"],
];
/** What a measure is called on other pages. */
const calledAs: Record<string, string> = {
  cpu_seconds: "used cpu",
  gpu_seconds: "used gpu",
  energy_joules: "used energy",
  held_core_seconds: "allocated cpu",
  held_gpu_seconds: "allocated gpu",
};
/** What a row is of the dimensions that it is told apart by. */
const nameOf = (r: Usage, by: string) =>
  by
    .split(",")
    .map((d) => String((r as Record<string, unknown>)[d] ?? "") || "none")
    .join(", ");

export function UsagePage() {
  const open = me.value?.role === "public",
    choices = open ? dims.filter(([d]) => !named.includes(d)) : dims; // the public sees no names
  const r = range.value,
    time = asked(r),
    first = param("by") || choices[0][0],
    also = param("and") === first ? "" : param("and"),
    by = also ? first + "," + also : first,
    title = by
      .split(",")
      .map((d) => dims.find((x) => x[0] === d)?.[1] ?? d)
      .join(" and "),
    what = param("show") || "cpu_seconds",
    owner = param("owner");
  const who = { owner: owner || undefined };
  const weekly = r.length >= 2 * 86400,
    heat = useAskOver<UsageList>(
      weekly ? "/api/reckon/v1/usage?" + query({ ...time, span: "hour-of-week", ...who }) : null,
      r,
    );
  const wide = r.length <= 14 * 86400 ? "hour" : r.length > 120 * 86400 ? "week" : "day",
    of = (span: string) => "/api/reckon/v1/usage?" + query({ ...time, span, by, ...who });
  const coarse = useAskOver<UsageList>(introduced.value ? of(wide) : null, r);
  // A site that is new has little of a long time: what there is of it is shown in finer stretches.
  const few =
      wide !== "hour" && !!coarse.data && new Set(coarse.data.rows.map((r) => r.from)).size < 3,
    span = few ? (wide === "week" ? "day" : "hour") : wide;
  const finer = useAskOver<UsageList>(few ? of(span) : null, r),
    hist = few ? finer : coarse,
    path = of(span);
  const whole = useAskOver<UsageList>(
    introduced.value ? "/api/reckon/v1/usage?" + query({ ...time, by, ...who }) : null,
    r,
  );
  const measure = shown.find((m) => m[0] === what) ?? shown[0],
    unit = measure[2];
  const figureOf = (r: Usage): Num =>
    by === "node" && what === "cpu_seconds"
      ? ((r.core_used_seconds ?? r.cpu_seconds) as Num)
      : by === "node" && what === "energy_joules"
        ? ((r.node_energy_joules ?? r.energy_joules) as Num)
        : (r[what] as Num);
  return (
    <>
      <h1>
        Usage
        {owner && (
          <>
            {" "}
            of <bdi>{clean(owner).slice(0, 60)}</bdi>
          </>
        )}
      </h1>
      <p class="sub when">
        {whole.data
          ? `${spanOf(rangeBetween(whole.data.since, whole.data.until))}, in whole hours`
          : spanOf(r)}
      </p>
      <div class="controls">
        <Choice
          label="Of"
          value={what}
          of={shown.map(([k, t]) => [k, t])}
          pick={(v) => set({ show: v === "cpu_seconds" ? "" : v })}
        />
        <Choice
          label="By"
          value={first}
          of={choices}
          pick={(v) => set({ by: v === choices[0][0] ? "" : v })}
        />
        <Choice
          label="And by"
          value={also ?? ""}
          of={[["", "nothing else"], ...choices.filter(([d]) => d !== first)]}
          pick={(v) => set({ and: v })}
        />
        {owner && <button onClick={() => set({ owner: "" })}>Of everybody</button>}
        <a href={path + "&format=csv"} download="usage.csv">
          CSV
        </a>{" "}
        <a href={path} download="usage.json">
          JSON
        </a>
      </div>
      <Section title={`History by ${title}`}>
        <div class="keep" style="min-height:290px">
          <Show a={hist}>
            {(d) => <History d={d} by={by} of={figureOf} unit={unit} span={span} what={what} />}
          </Show>
        </div>
      </Section>
      {weekly && there(hist) && (
        <Section title="Hours of the week">
          <Show a={heat}>
            {(d) =>
              d.rows.some((r) => known(r[what])) ? (
                <Heat d={d} what={what} unit={unit} />
              ) : (
                <>
                  <p class="quiet">Not measured in this time: what was allocated.</p>
                  <Heat d={d} what="held_core_seconds" unit="core-seconds" />
                </>
              )
            }
          </Show>
        </Section>
      )}
      {(!weekly || there(heat)) && there(hist) && (
        <Section
          title="Total"
          aside={
            whole.data?.proof && (
              <span class="quiet wrap">usage against the counters: {clean(whole.data.proof)}</span>
            )
          }
        >
          <Show a={whole}>
            {(d) => {
              const every = d.rows
                  .filter((r) => known(figureOf(r)))
                  .sort((a, b) => Number(figureOf(b)) - Number(figureOf(a))),
                rows = every.slice(0, 50),
                all = every.reduce((a, r) => a + Number(figureOf(r)), 0);
              return rows.length === 0 ? (
                <Empty>Not measured in this time.</Empty>
              ) : (
                <Table
                  caption={"Usage by " + by}
                  rows={rows}
                  keyOf={(r, i) => nameOf(r, by) + i}
                  cols={[
                    {
                      title: title[0].toUpperCase() + title.slice(1),
                      cell: (r) => {
                        const v = also
                          ? nameOf(r, by)
                          : String((r as Record<string, unknown>)[by] ?? "");
                        return (
                          <Name
                            href={
                              v === "" || v === "others" || open
                                ? undefined
                                : by === "owner"
                                  ? ownerLink(v)
                                  : by === "node"
                                    ? nodeLink(v)
                                    : undefined
                            }
                          >
                            {v || "none"}
                          </Name>
                        );
                      },
                    },
                    {
                      title: measure[1],
                      number: true,
                      cell: (r) => (
                        <Q
                          v={figureOf(r)}
                          unit={unit}
                          is={by === "node" ? undefined : isOf(r, what)}
                          of={
                            owner
                              ? undefined
                              : same(calledAs[what] ?? what, `${by} ${nameOf(r, by)}`, d)
                          }
                        />
                      ),
                    },
                    {
                      title: what.startsWith("held_")
                        ? "Share of what was allocated"
                        : "Share of what was used",
                      cell: (r) => (
                        <Bar
                          v={figureOf(r)}
                          of={all}
                          unit={unit}
                          label={"Share of " + clean(nameOf(r, by))}
                        />
                      ),
                    },
                    {
                      title: "Share of capacity",
                      number: true,
                      wide: true,
                      cell: (r) => (
                        <Q v={what === "cpu_seconds" ? r.capacity_share : null} unit="ratio" />
                      ),
                    },
                    {
                      title: "Workloads",
                      number: true,
                      cell: (r) => <Q v={r.started} unit="count" />,
                    },
                    {
                      title: "Mean wait",
                      number: true,
                      wide: true,
                      cell: (r) => (
                        <Q
                          v={
                            known(r.wait_seconds) && known(r.waited) && r.waited > 0
                              ? r.wait_seconds / r.waited
                              : null
                          }
                          unit="seconds"
                        />
                      ),
                    },
                  ]}
                />
              );
            }}
          </Show>
        </Section>
      )}
    </>
  );
}

const days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
function Heat({ d, what, unit }: { d: UsageList; what: string; unit: string }) {
  const hours = useMemo(() => {
    const utc: (number | null)[] = new Array(168).fill(null),
      monday = Date.UTC(1970, 0, 5);
    for (const r of d.rows) {
      const i = r.from ? Math.round((Date.parse(r.from) - monday) / 3.6e6) : -1;
      const v = r[what];
      if (i >= 0 && i < 168 && known(v)) utc[i] = v;
    }
    return localHours(utc, -new Date().getTimezoneOffset());
  }, [d, what]);
  const most = Math.max(0, ...hours.map((v) => v ?? 0));
  if (!hours.some((v) => v !== null)) return <Empty>Not measured in this time.</Empty>;
  const at = hours.indexOf(most),
    u = unit;
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label="Hours of the week">
        <svg
          class="heat"
          viewBox="0 0 600 185"
          role="img"
          aria-label={`Usage by hour of the week. Most on ${days[Math.floor(at / 24)]} at ${at % 24}:00: ${human(most, u)}`}
        >
          {days.map((n, y) => (
            <text x="0" y={34 + y * 22}>
              {n}
            </text>
          ))}
          {[0, 3, 6, 9, 12, 15, 18, 21].map((h) => (
            <text x={32 + h * 23.5} y="12">
              {String(h).padStart(2, "0")}
            </text>
          ))}
          {hours.map((v, i) => (
            <rect
              x={30 + (i % 24) * 23.5}
              y={18 + Math.floor(i / 24) * 22}
              width="23"
              height="21"
              rx="2"
              class={v === null ? "fn" : "f" + Math.min(5, Math.floor((6 * v) / (most || 1)))}
            >
              <title>{`${days[Math.floor(i / 24)]} ${String(i % 24).padStart(2, "0")}:00: ${v === null ? "not measured" : `${human(v, u)} (${exact(v, u)})`}`}</title>
            </rect>
          ))}
        </svg>
      </div>
      <p class="scale">
        none{" "}
        {[0, 1, 2, 3, 4, 5].map((i) => (
          <i class={"c" + i} />
        ))}{" "}
        {human(most, u)} · all weeks of the time together, in your zone · dashed: not measured
      </p>
    </>
  );
}

function History({
  d,
  by,
  of,
  unit,
  span,
  what,
}: {
  d: UsageList;
  by: string;
  of: (r: Usage) => Num;
  unit: string;
  span: string;
  what: string;
}) {
  const drawn = useMemo(() => {
    const name = (r: Usage) => nameOf(r, by);
    const stamps = [...new Set(d.rows.map((r) => r.from).filter((f): f is string => !!f))].sort(),
      place = new Map(stamps.map((f, i) => [f, i]));
    const length = { hour: 3600, day: 86400, week: 604800 }[span as "day"] ?? 86400;
    const now = Date.now() / 1000,
      // Time used per time is cores, joules per second are watts: what a span's length does not change.
      rate = (r: Usage) => {
        const v = of(r);
        return known(v)
          ? v / Math.max(60, Math.min(length, now - Date.parse(r.from!) / 1000))
          : null;
      },
      sum = (r: Row) => r.reduce<number>((a, v) => a + (v ?? 0), 0),
      rows = rowsOf(
        d.rows.flatMap((r) => (r.from ? [[name(r), place.get(r.from)!, rate(r)]] : [])),
        stamps.length,
      );
    const list = [...rows].sort((a, b) => sum(b[1]) - sum(a[1])),
      ink = inksOf(list.slice(0, 10).map(([label]) => label)),
      lines: Line[] = list
        .slice(0, 10)
        .map(([label, row]) => ({ label, row, ink: ink.get(label) }));
    if (list.length > 10)
      lines.push({
        label: `${list.length - 10} more`,
        quiet: 1,
        row: stamps.map((_, i) => list.slice(10).reduce((a, [, row]) => a + (row[i] ?? 0), 0)),
      });
    const times = stamps.map((f) => Date.parse(f) / 1000),
      last = times[times.length - 1] ?? 0;
    return { times, lines, length, open: last + length > now ? last : undefined }; // the last stretch is not over: its mean is of what has passed of it
  }, [d, what]);
  const u =
    what === "energy_joules"
      ? "watts"
      : unit === "byte-seconds"
        ? "bytes"
        : unit === "gpu-seconds"
          ? "gpus"
          : "cores";
  return drawn.lines.length === 0 ? (
    <Empty>Not measured in this time, or it is still within the first hour.</Empty>
  ) : (
    <>
      <TimeChart
        title={`Usage by ${by}`}
        times={drawn.times}
        lines={drawn.lines}
        unit={u}
        stack
        height={260}
        steps
        open={drawn.open}
        lasting={drawn.length}
        zoom={zoomTo}
      />
      <p class="quiet">
        Mean of each {span}:{" "}
        {u === "watts"
          ? "watts"
          : u === "bytes"
            ? "bytes held"
            : u === "gpus"
              ? what === "gpu_seconds"
                ? "busy GPUs"
                : "GPUs allocated"
              : "cores"}
        .
      </p>
    </>
  );
}

// Figures that programs send themselves, by `reckon push`, text files and scrapes: on the pages of their owner, node and workload, and pinned to the first page.
import { signal } from "@preact/signals";
import { promRange, useAsk } from "./api";
import { TimeChart, type Line } from "./chart";
import { clean, Q, Section, Show } from "./parts";
import { largest, parseSeries, selector, shortNames, unitAsked } from "./series";
import { axis, niceStep, onto, stats } from "./stack";
import { has, keep, param, recall, url } from "./state";

/** Names of series that reckon and the exporters beside it write, and of rules. */
const others = `__name__!~"(reckon|node|container|kube|machine|kepler|scrape|prometheus|go|process|promhttp)_.*|(DCGM|tegra|ALERTS|up).*|.*:.*|.*_bucket"`;

const kept = signal((recall("reckon.pins") ?? "").split("\n").filter(Boolean));
const pin = (s: string, on: boolean) => {
  kept.value = on ? [...kept.value, s] : kept.value.filter((x) => x !== s);
  keep("reckon.pins", kept.value.join("\n"));
};
/** Pinned selectors: those of the address, else those that this browser keeps. */
export const pinned = () => (param("pin") ? param("pin").split("\n") : kept.value);

export function Pin({ of }: { of: string[] }) {
  const on = of.every((s) => kept.value.includes(s));
  return (
    <button
      class="quiet"
      aria-pressed={on}
      onClick={() => of.forEach((s) => on === kept.value.includes(s) && pin(s, !on))}
    >
      {on ? "Take off the first page" : "Pin to the first page"}
    </button>
  );
}

interface When {
  from: number;
  to: number;
}
/** The expression that draws a selector: a rate of what counts up. */
export const drawnAs = (s: string, step: number) =>
  /_(total|sum|count)$/.test(parseSeries(s).name)
    ? `rate(${s}[${Math.max(120, 2 * step)}s])`
    : `last_over_time(${s}[${Math.max(60, step)}s])`;

function OwnChart({ s, w }: { s: string; w: When }) {
  const step = niceStep(w.to - w.from),
    from = Math.floor(w.from / step) * step,
    to = Math.ceil(w.to / step) * step,
    expr = drawnAs(s, step),
    a = useAsk(
      `own ${expr} ${from} ${to}`,
      false,
      (_p, signal) => promRange(expr, from, to, step, signal),
      "own " + s + (w.to - w.from),
    ),
    times = axis(from, to, step),
    { name, labels } = parseSeries(s);
  return (
    <div class="keep" style="min-height:16rem">
      <div class="head">
        <h3>
          <bdi>{clean(name).slice(0, 80)}</bdi>{" "}
          <small class="quiet">
            {expr.startsWith("rate") && "each second "}
            <bdi>{clean(labels.map(([, v]) => v).join(" ")).slice(0, 80)}</bdi>
            {a.data?.length === 1 && (
              <>
                , last <Q v={stats(onto(times, a.data[0])).last} unit={unitAsked(expr)} />
              </>
            )}
          </small>
        </h3>
        <span>
          <Pin of={[s]} /> <a href={"/data?" + new URLSearchParams({ s })}>data</a>
        </span>
      </div>
      <Show a={a}>
        {(d) => {
          const of = largest(d, 12),
            names = shortNames(of.map((x) => selector(name, x.metric)));
          return d.length === 0 ? (
            <p class="empty">It was not sent in this time.</p>
          ) : (
            <TimeChart
              title={name}
              times={times}
              lines={of.map((x, i): Line => ({ label: names[i] || name, row: onto(times, x) }))}
              unit={unitAsked(expr)}
              height={180}
            />
          );
        }}
      </Show>
      {(a.data?.length ?? 0) > 12 && (
        <p class="quiet">The largest 12 of {a.data?.length} series are drawn.</p>
      )}
    </div>
  );
}

/** Own figures that carry these labels. */
export function OwnPanel({ of, w }: { of: Record<string, string | undefined>; w: When }) {
  const labels = Object.fromEntries(
      Object.entries(of).filter((e): e is [string, string] => !!e[1]),
    ),
    hour = (t: number) => String(Math.floor(t / 3600) * 3600),
    a = useAsk<{ data: string[] }>(
      has("prometheus")
        ? "/api/v1/label/__name__/values?" +
            new URLSearchParams({
              "match[]": selector("", labels).replace("{", `{${others},`),
              start: hour(w.from),
              end: hour(w.to + 3600),
              limit: "200",
            })
        : null,
    ),
    names = a.data?.data ?? [];
  return names.length === 0 ? null : (
    <Section title="Own figures" aside={<a href="/docs/own-metrics">how to send some</a>}>
      <div class="cols">
        {names.slice(0, 12).map((n) => (
          <OwnChart key={n} s={selector(n, labels)} w={w} />
        ))}
      </div>
      {names.length > 12 && (
        <p class="quiet">
          Names of more:{" "}
          {names.slice(12).map((n) => (
            <>
              <a href={"/data?" + new URLSearchParams({ s: selector(n, labels) })}>
                {clean(n)}
              </a>{" "}
            </>
          ))}
        </p>
      )}
    </Section>
  );
}

/** What is pinned to the first page. */
export function Pinned({ w }: { w: When }) {
  const list = pinned(),
    here = new URL(url.value);
  here.searchParams.set("pin", list.join("\n"));
  return list.length === 0 ? null : (
    <Section title="Pinned" aside={<a href={here.href}>address of this view</a>}>
      <div class="cols">
        {list.slice(0, 24).map((s) => (
          <OwnChart key={s} s={s} w={w} />
        ))}
      </div>
    </Section>
  );
}

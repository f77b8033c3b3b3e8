// Data: pick series by name and label, see them, see which go together, take them along.
import { useMemo, useRef, useState } from "preact/hooks";
import { promInstant, useAsk } from "../lib/api";
import { TimeChart, type Line } from "../lib/chart";
import { Pin } from "../lib/own";
import { Choice, clean, Empty, Q, Section, Show, Table } from "../lib/parts";
import { complete } from "../lib/promql";
import { query } from "../lib/search";
import { selector, shortNames, unitOf } from "../lib/series";
import { promAny, promQuote } from "../lib/stack";
import { range } from "../lib/range";
import { param, set } from "../lib/state";
import type { Correlation, DataTable, Pair } from "../lib/types";
import { duration, human, known, stamp } from "../lib/units";

type Meta = Record<string, { type: string; help: string; unit: string }[]>;
/** Starts: words, a series, the label of what it is of, and the order of those by which the ten greatest are taken. */
const some: [string, string, string, string][] = [
  [
    "CPU time of the ten biggest workloads",
    "reckon_workload_cpu_seconds_total",
    "workload",
    "rate(SERIES[6h])",
  ],
  [
    "Memory of the ten biggest workloads",
    "reckon_workload_memory_bytes",
    "workload",
    "max_over_time(SERIES[6h])",
  ],
  ["Load of the ten busiest nodes", "node_load1", "node", "max_over_time(SERIES[6h])"],
  [
    "Power of the ten nodes that draw most",
    "reckon_node_energy_joules_total",
    "node",
    "rate(SERIES[6h])",
  ],
];
/** A selector of the ten greatest: a series of every workload of a site is more than a chart holds. */
async function greatest(series: string, by: string, of: string): Promise<string> {
  const top = await promInstant(`topk(10, sum by (${by}) (${of.replace("SERIES", series)}))`).catch(
    () => [],
  );
  return top.length === 0
    ? series
    : `${series}{${by}=~${promAny(top.map((x) => x.metric[by] ?? ""))}}`;
}

export function Data() {
  const picked = param("s").split("\n").filter(Boolean),
    r = range.value;
  const put = (list: string[]) => set({ s: list.join("\n"), pair: "" }, false);
  const at = useMemo(() => ({ from: r.from, to: r.to }), [r.length, r.fixed && r.from, param("s")]);
  const q = query({
    select: picked,
    from: new Date(at.from * 1000).toISOString(),
    to: new Date(at.to * 1000).toISOString(),
  });
  return (
    <>
      <h1>Data</h1>
      <p class="quiet">
        Pick series, see them, see which go together, and take them along as a table. Counters are
        shown as rates per second.
      </p>
      <Pick
        add={(s) => {
          if (!picked.includes(s)) put([...picked, s]);
        }}
      />
      {picked.length > 0 && (
        <ul class="picked" aria-label="Picked series">
          {picked.map((s, i) => (
            <li>
              <input
                aria-label={`Selector ${i + 1}`}
                value={s}
                spellcheck={false}
                onChange={(e) => {
                  const v = e.currentTarget.value.trim();
                  put(picked.map((x, k) => (k === i ? v : x)).filter(Boolean));
                }}
              />
              <button
                aria-label={"Remove " + clean(s).slice(0, 80)}
                onClick={() => put(picked.filter((_, k) => k !== i))}
              >
                ✕
              </button>
            </li>
          ))}
        </ul>
      )}
      {picked.length === 0 ? (
        <Empty>
          No series is picked. Begin with{" "}
          {some.map(([words, series, by, of], i) => (
            <>
              {i > 0 && ", "}
              <button onClick={() => void greatest(series, by, of).then((s) => put([s]))}>
                {words}
              </button>
            </>
          ))}
          , or search above.
        </Empty>
      ) : (
        <>
          <p>
            <Pin of={picked} />
          </p>
          <Plots q={q} />
          <Export q={q} />
          <Together key={q} q={q} />
        </>
      )}
    </>
  );
}

/** A name by search, then its labels. */
function Pick({ add }: { add: (s: string) => void }) {
  const [text, setText] = useState(""),
    [at, setAt] = useState(-1),
    [open, setOpen] = useState(false),
    [name, setName] = useState(""),
    [labels, setLabels] = useState<Record<string, string>>({});
  const names = useAsk<{ data: string[] }>("/api/v1/label/__name__/values"),
    meta = useAsk<{ data: Meta }>("/api/v1/metadata");
  const list = open ? complete(text, names.data?.data ?? [], 12) : [],
    box = useRef<HTMLInputElement>(null);
  const take = (n: string) => {
    setText(n);
    setName(n);
    setLabels({});
    setOpen(false);
    setAt(-1);
  };
  const told = (n: string) => meta.data?.data[n]?.[0];
  return (
    <div class="controls">
      <div class="search" role="search">
        <label class="hidden" for="series">
          Search series by name
        </label>
        <input
          id="series"
          data-search
          ref={box}
          role="combobox"
          autocomplete="off"
          spellcheck={false}
          aria-expanded={list.length > 0}
          aria-controls="series-list"
          aria-autocomplete="list"
          aria-activedescendant={at >= 0 ? "series-" + at : undefined}
          placeholder="Search series by name: cpu, memory, node_load1   ( / )"
          value={text}
          onInput={(e) => {
            setText(e.currentTarget.value);
            setOpen(true);
            setAt(-1);
            setName("");
          }}
          onFocus={() => setOpen(true)}
          onBlur={() => setTimeout(() => setOpen(false), 150)}
          onKeyDown={(e) => {
            if (e.key === "ArrowDown" && list.length) {
              e.preventDefault();
              setAt((at + 1) % list.length);
            } else if (e.key === "ArrowUp" && list.length) {
              e.preventDefault();
              setAt(((at + list.length) % (list.length + 1)) - 1);
            } else if (e.key === "Escape") setOpen(false);
            else if (e.key === "Enter") {
              e.preventDefault();
              const n =
                list[at] ??
                ((names.data?.data ?? []).includes(text) ? text : list.length === 1 ? list[0] : "");
              if (n) take(n);
              else if (text.includes("{")) {
                add(text.trim());
                setText("");
              }
            }
          }}
        />
        {list.length > 0 && (
          <ul class="suggest" id="series-list" role="listbox" aria-label="Series">
            {list.map((s, i) => (
              <li
                id={"series-" + i}
                role="option"
                aria-selected={i === at}
                onMouseDown={(e) => {
                  e.preventDefault();
                  take(s);
                }}
              >
                <span>
                  <bdi>{clean(s).slice(0, 90)}</bdi>
                </span>
                <small>{told(s)?.help?.slice(0, 70) ?? ""}</small>
              </li>
            ))}
          </ul>
        )}
      </div>
      {name && (
        <Labels
          name={name}
          chosen={labels}
          choose={setLabels}
          add={() => {
            add(selector(name, labels));
            setText("");
            setName("");
            box.current?.focus();
          }}
          help={told(name)?.help}
        />
      )}
    </div>
  );
}

function Labels({
  name,
  chosen,
  choose,
  add,
  help,
}: {
  name: string;
  chosen: Record<string, string>;
  choose: (l: Record<string, string>) => void;
  add: () => void;
  help?: string;
}) {
  const a = useAsk<{ data: Record<string, string>[] }>(
    "/api/v1/series?" +
      new URLSearchParams({
        "match[]": `{__name__=${promQuote(name)}}`,
        limit: "2000",
        start: String(Math.floor(Date.now() / 3.6e6) * 3600 - 86400),
      }),
  );
  return (
    <div class="labels">
      {help && <p class="quiet">{help}</p>}
      <Show a={a}>
        {(d) => {
          const keys = [...new Set(d.data.flatMap((s) => Object.keys(s)))]
            .filter((k) => k !== "__name__")
            .sort();
          const fits = d.data.filter((s) =>
            Object.entries(chosen).every(([k, v]) => v === "" || s[k] === v),
          );
          return (
            <>
              <div class="controls">
                {keys.map((k) => {
                  const values = [
                    ...new Set(
                      d.data
                        .filter((s) =>
                          Object.entries(chosen).every(
                            ([c, v]) => c === k || v === "" || s[c] === v,
                          ),
                        )
                        .map((s) => s[k])
                        .filter(Boolean),
                    ),
                  ].sort((x, y) => x.localeCompare(y, undefined, { numeric: true }));
                  return (
                    <label>
                      {k}{" "}
                      <select
                        value={chosen[k] ?? ""}
                        onChange={(e) => choose({ ...chosen, [k]: e.currentTarget.value })}
                      >
                        <option value="">all {values.length}</option>
                        {values.slice(0, 500).map((v) => (
                          <option value={v}>{clean(v).slice(0, 60)}</option>
                        ))}
                      </select>
                    </label>
                  );
                })}
              </div>
              <button onClick={add}>
                Add{" "}
                {fits.length === 1
                  ? "this series"
                  : d.data.length >= 2000
                    ? "these series"
                    : `these ${fits.length} series`}
              </button>
            </>
          );
        }}
      </Show>
    </div>
  );
}

function Plots({ q }: { q: string }) {
  const a = useAsk<DataTable>("/api/reckon/v1/data?" + q);
  const groups = useMemo(() => {
    if (!a.data) return [];
    const times = a.data.times.map((t) => Date.parse(t) / 1000),
      units = [...new Set(a.data.columns.map((c) => unitOf(c.unit)))];
    return units.map((unit) => {
      const of = a.data!.columns.filter((c) => unitOf(c.unit) === unit),
        names = shortNames(of.map((c) => c.name));
      const all = of
        .map((c, i): Line & { sum: number } => ({
          label: names[i],
          row: c.values,
          sum: c.values.reduce<number>((s, v) => s + Math.abs(v ?? 0), 0),
        }))
        .sort((x, y) => y.sum - x.sum);
      return {
        unit,
        times,
        lines: all.slice(0, 24) as Line[],
        all: of.length,
        first: of.length === 1 ? of[0] : undefined,
      };
    });
  }, [a.data]);
  return (
    <Section title="Over time">
      <Show a={a}>
        {(d) => (
          <>
            <Warnings of={d.warnings} />
            {groups.length === 0 ? (
              <Empty>Nothing was measured of them in this time.</Empty>
            ) : (
              groups.map((g) => (
                <div>
                  <h3>
                    {
                      (
                        {
                          cores: "Cores (seconds per second)",
                          bytes: "Bytes",
                          bytes_per_second: "Bytes per second",
                          watts: "Watts",
                          joules: "Joules",
                          seconds: "Seconds",
                          ratio: "Share",
                          count: "Numbers",
                        } as Record<string, string>
                      )[g.unit]
                    }
                  </h3>
                  {g.all > g.lines.length && (
                    <p class="quiet">
                      The largest {g.lines.length} of {g.all} are drawn; the files hold all.
                    </p>
                  )}
                  <TimeChart
                    title={g.first?.help || g.unit}
                    times={g.times}
                    lines={g.lines}
                    unit={g.unit}
                    height={280}
                  />
                </div>
              ))
            )}
            <p class="quiet">
              {d.columns.length} series, {d.times.length} steps of {duration(d.step_seconds)}
            </p>
          </>
        )}
      </Show>
    </Section>
  );
}

const Warnings = ({ of }: { of: string[] }) =>
  of.length === 0 ? null : (
    <details class="note warning" open={of.length < 3}>
      <summary>
        {of.length} remark{of.length === 1 ? "" : "s"} on the data
      </summary>
      <ul>
        {of.slice(0, 50).map((w) => (
          <li class="wrap">{clean(w)}</li>
        ))}
      </ul>
    </details>
  );

function Export({ q }: { q: string }) {
  const [by, setBy] = useState(""),
    at = (f: string) => `/api/reckon/v1/data?${q}${by ? `&by=${by}` : ""}&format=${f}`;
  return (
    <Section title="Take along">
      <div class="controls">
        <Choice
          label="A row for each"
          value={by}
          of={[
            ["", "time"],
            ["node", "time and node"],
            ["workload", "time and workload"],
          ]}
          pick={setBy}
        />
        <a href={at("csv")} download="reckon-data.csv">
          CSV
        </a>{" "}
        <a href={at("parquet")} download="reckon-data.parquet">
          Parquet
        </a>{" "}
        <a href={at("json")} download="reckon-data.json">
          JSON
        </a>
      </div>
      <p class="quiet">
        The same in a terminal: <code>reckon dataset --select '…'</code>, then{" "}
        <code>reckon correlate FILE</code> or <code>reckon power fit FILE</code>.
      </p>
    </Section>
  );
}

function Together({ q }: { q: string }) {
  const a = useAsk<Correlation>("/api/reckon/v1/data/correlate?" + q),
    table = useAsk<DataTable>("/api/reckon/v1/data?" + q),
    [pair, setPair] = useState(""),
    [all, setAll] = useState(false);
  const csv = "/api/reckon/v1/data/correlate?" + q + "&format=csv";
  return (
    <Section
      title="What goes together"
      aside={
        <a href={csv} download="correlation.csv">
          CSV
        </a>
      }
    >
      <Show a={a}>
        {(d) => {
          if (d.pairs.length === 0)
            return <Empty>It takes two series or more that vary in this time.</Empty>;
          const names = new Map(shortNames(d.columns).map((s, i) => [d.columns[i], s])),
            shown = d.pairs.slice(0, all ? 200 : 15),
            at = shown.find((p) => p.a + "\n" + p.b === pair) ?? shown[0];
          const nameOf = (n: string) => (
            <bdi class="wrap" title={clean(n).slice(0, 400)}>
              {clean(names.get(n) ?? n).slice(0, 60)}
            </bdi>
          );
          return (
            <>
              <Warnings of={d.warnings} />
              <div class="cols">
                {d.columns.length <= 16 && <Matrix d={d} names={names} />}
                {table.data && at && <Scatter p={at} t={table.data} names={names} />}
              </div>
              <Table
                caption="Pairs of series, the strongest first"
                rows={shown}
                keyOf={(p) => p.a + "\n" + p.b}
                cols={[
                  { title: "Series", cell: (p) => nameOf(p.a) },
                  { title: "With", cell: (p) => nameOf(p.b) },
                  { title: "Pearson", number: true, cell: (p) => r(p.pearson) },
                  {
                    title: "95 % band",
                    number: true,
                    cell: (p) =>
                      known(p.low) && known(p.high) ? `${r(p.low)} to ${r(p.high)}` : "–",
                  },
                  { title: "Spearman", number: true, cell: (p) => r(p.spearman) },
                  {
                    title: "Points",
                    number: true,
                    cell: (p) => (
                      <span
                        title={
                          known(p.effective)
                            ? `worth ${Math.round(p.effective)} independent ones`
                            : "not known"
                        }
                      >
                        {p.points}
                      </span>
                    ),
                  },
                  {
                    title: "Best lag",
                    number: true,
                    cell: (p) =>
                      known(p.lag_pearson) ? (
                        <>
                          {p.lag_seconds === 0 ? "0" : duration(p.lag_seconds)}{" "}
                          <span class="quiet">({r(p.lag_pearson)})</span>
                        </>
                      ) : (
                        "–"
                      ),
                  },
                  {
                    title: "",
                    cell: (p) => (
                      <button
                        aria-pressed={p === at}
                        aria-label={`Show ${names.get(p.a)} against ${names.get(p.b)}`}
                        onClick={() => setPair(p.a + "\n" + p.b)}
                      >
                        show
                      </button>
                    ),
                  },
                ]}
              />
              {d.pairs.length > shown.length && (
                <p class="quiet">
                  The strongest {shown.length} of {d.pairs.length}; CSV holds all.{" "}
                  {!all && <button onClick={() => setAll(true)}>Show more</button>}
                </p>
              )}
              <p class="quiet">
                A coefficient near 0 is no relation, near +1 or −1 a strong one. A lag says by how
                much the second follows the first. Two things that go together need not cause each
                other.
              </p>
            </>
          );
        }}
      </Show>
    </Section>
  );
}

const r = (v: unknown) => (known(v) ? (v >= 0 ? "+" : "−") + Math.abs(v).toFixed(2) : "–");

/** Ends tell names apart more often than beginnings: what is cut is the middle. */
const middle = (s: string, n: number) => {
  const c = [...s];
  return c.length <= n ? s : c.slice(0, n / 2 - 4).join("") + "…" + c.slice(-(n / 2 + 3)).join("");
};

function Matrix({ d, names }: { d: Correlation; names: Map<string, string> }) {
  const n = d.columns.length,
    cell = Math.min(56, 640 / n),
    left = 240,
    of = new Map<string, Pair>();
  for (const p of d.pairs) {
    of.set(p.a + "\n" + p.b, p);
    of.set(p.b + "\n" + p.a, p);
  }
  const best = d.pairs[0];
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Coefficients of all pairs">
      <svg
        class="matrix"
        width={left + n * cell + 4}
        height={n * cell + 22}
        viewBox={`0 0 ${left + n * cell + 4} ${n * cell + 22}`}
        role="img"
        aria-label={`Coefficients of ${n} series. The strongest: ${names.get(best.a)} with ${names.get(best.b)}, ${r(best.lag_pearson)}. The table below holds the same.`}
      >
        {d.columns.map((a, y) => (
          <>
            <text
              x={left - 6}
              y={18 + (y + 0.6) * cell}
              text-anchor="end"
            >{`${middle(clean(names.get(a) ?? a), 34)} ${y + 1}`}</text>
            <text x={left + (y + 0.5) * cell} y="12" text-anchor="middle">
              {String(y + 1)}
            </text>
            {d.columns.map((b, x) => {
              const p = of.get(a + "\n" + b),
                v = p?.pearson;
              return x === y ? (
                <rect
                  class="gap"
                  x={left + x * cell}
                  y={18 + y * cell}
                  width={cell - 2}
                  height={cell - 2}
                />
              ) : (
                <g>
                  <title>{`${clean(names.get(a) ?? a)} with ${clean(names.get(b) ?? b)}: ${r(v)}`}</title>
                  <rect
                    class={!known(v) ? "gap" : v >= 0 ? "plus" : "minus"}
                    fill-opacity={known(v) ? 0.06 + 0.44 * Math.abs(v) : 1}
                    x={left + x * cell}
                    y={18 + y * cell}
                    width={cell - 2}
                    height={cell - 2}
                  />
                  {cell > 30 && (
                    <text
                      x={left + (x + 0.48) * cell}
                      y={18 + (y + 0.58) * cell}
                      text-anchor="middle"
                    >
                      {r(v)}
                    </text>
                  )}
                </g>
              );
            })}
          </>
        ))}
      </svg>
    </div>
  );
}

function Scatter({ p, t, names }: { p: Pair; t: DataTable; names: Map<string, string> }) {
  const a = t.columns.find((c) => c.name === p.a),
    b = t.columns.find((c) => c.name === p.b);
  if (!a || !b) return null;
  const points = t.times.flatMap((when, i) =>
    known(a.values[i]) && known(b.values[i]) ? [{ when, x: a.values[i]!, y: b.values[i]! }] : [],
  );
  const lo = (k: "x" | "y") => Math.min(0, ...points.map((v) => v[k])),
    hi = (k: "x" | "y") => Math.max(1e-12, ...points.map((v) => v[k])),
    [x0, x1, y0, y1] = [lo("x"), hi("x"), lo("y"), hi("y")];
  const X = (v: number) => 70 + (560 * (v - x0)) / (x1 - x0 || 1),
    Y = (v: number) => 230 - (210 * (v - y0)) / (y1 - y0 || 1),
    ua = unitOf(a.unit),
    ub = unitOf(b.unit);
  return (
    <figure class="chart">
      <svg
        class="scatter"
        viewBox="0 0 664 250"
        role="img"
        aria-label={`${names.get(p.b)} (up) against ${names.get(p.a)} (across), ${points.length} points, coefficient ${r(p.pearson)}`}
      >
        {[0, 0.5, 1].map((f) => (
          <>
            <line x1="70" x2="630" y1={230 - 210 * f} y2={230 - 210 * f} />
            <text x="64" y={234 - 210 * f} text-anchor="end">
              {human(y0 + (y1 - y0) * f, ub)}
            </text>
            <text x={70 + 560 * f} y="246" text-anchor="middle">
              {human(x0 + (x1 - x0) * f, ua)}
            </text>
          </>
        ))}
        {points.map((v) => (
          <circle cx={X(v.x)} cy={Y(v.y)} r="3">
            <title>{`${stamp(v.when)}: ${human(v.x, ua)}, ${human(v.y, ub)}`}</title>
          </circle>
        ))}
      </svg>
      <figcaption>
        Across: <bdi>{clean(names.get(p.a) ?? p.a)}</bdi>. Up:{" "}
        <bdi>{clean(names.get(p.b) ?? p.b)}</bdi>. <Q v={points.length} unit="count" /> points.
      </figcaption>
    </figure>
  );
}

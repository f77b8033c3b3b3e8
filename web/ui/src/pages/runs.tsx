// Runs of MetricSets: what was measured on demand; one run with its plots, and two held against each other.
import { useMemo } from "preact/hooks";
import { useAsk } from "../lib/api";
import { TimeChart } from "../lib/chart";
import { save } from "../lib/csv";
import { clean, Empty, Name, NodeName, Q, Section, Show, Table, When } from "../lib/parts";
import { linesOf, table, type Series, type Use } from "../lib/samples";
import { query } from "../lib/search";
import { param, set } from "../lib/state";
import type { Num } from "../lib/types";
import { human, known, type Unit } from "../lib/units";

interface Report {
  name: string;
  unit: string;
  values: number[];
}
interface Pod {
  name: string;
  uid: string;
  job: string;
  node?: string;
  kernel?: string;
  images?: Record<string, string>;
  started?: string;
  finished?: string;
  exit_code?: number;
  samples: number;
  ended?: string;
  incomplete?: string;
  absent?: Record<string, string>;
  total?: Use;
  commands?: (Use & { command: string; count?: number })[];
  reported?: Report[];
  result?: { metric: string; figures?: Record<string, number> };
  text?: string;
}
interface Run {
  namespace: string;
  name: string;
  site?: string;
  set: string;
  origin?: string;
  metrics?: { name: string; job: string; attach?: string; options?: Record<string, string> }[];
  outcome: string;
  started: string;
  finished?: string;
  samples: number;
  pods?: Pod[];
}
interface Difference {
  job: string;
  figure: string;
  unit: string;
  a: number;
  b: number;
  na: number;
  nb: number;
  ratio?: Num;
  low?: Num;
  high?: Num;
  p?: Num;
  test?: string;
  verdict: string;
  why?: string;
}
interface Comparison {
  a: string[];
  b: string[];
  level: number;
  figures: Difference[];
  differs: { job?: string; what: string; a: string; b: string }[];
  scope: string;
}

const root = "/api/reckon/v1/runs",
  at = (r: { namespace: string; name: string }) =>
    `${root}/${encodeURIComponent(r.namespace)}/${encodeURIComponent(r.name)}`;
const runLink = (r: { namespace: string; name: string }) =>
  "/run?" + new URLSearchParams({ namespace: r.namespace, name: r.name });
const took = (r: { started?: string; finished?: string }) =>
  r.started && r.finished ? (Date.parse(r.finished) - Date.parse(r.started)) / 1000 : null;
const metricsOf = (r: Run) => [...new Set((r.metrics ?? []).map((m) => m.name))].join(", ");
const units: Record<string, Unit> = {
  "seconds/s": "cores",
  "bytes/s": "bytes_per_second",
  per_second: "count",
  flops: "count",
};
const unitOf = (u: string): Unit => units[u] ?? u;

export function Runs() {
  const a = useAsk<{ runs: Run[]; total: number }>(root + "?limit=500", true),
    find = param("q").toLowerCase(),
    left = param("a"),
    right = param("b");
  const id = (r: Run) => `${r.namespace}/${r.name}`;
  return (
    <>
      <h1>Runs</h1>
      <p class="quiet">
        What MetricSets measured on demand: applications, volumes, networks. Choose two as A and B
        to see which differences are more than noise.
      </p>
      {left && right && <Compare a={left} b={right} />}
      <Show a={a}>
        {(d) => {
          if (d.runs.length === 0)
            return (
              <Empty>
                No run of a MetricSet is kept. A MetricSet makes one each time it measures; the
                guide “Measure an application on demand” says how.
              </Empty>
            );
          const rows = d.runs.filter((r) =>
            [r.namespace, r.name, r.set, metricsOf(r), r.outcome].some((t) =>
              t.toLowerCase().includes(find),
            ),
          );
          const pick = (side: "a" | "b", r: Run) => (
            <input
              type="radio"
              name={side}
              aria-label={`${clean(id(r))} as ${side.toUpperCase()}`}
              checked={param(side) === id(r)}
              onChange={() => set({ [side]: id(r) })}
            />
          );
          return (
            <Section
              title={`${rows.length}${rows.length < d.total ? ` of ${d.total}` : ""} run${rows.length === 1 ? "" : "s"}`}
              aside={
                (left || right) && (
                  <button onClick={() => set({ a: "", b: "" })}>Compare none</button>
                )
              }
            >
              <label class="search">
                <span class="hidden">Find runs</span>
                <input
                  type="search"
                  data-search
                  placeholder="Find by namespace, name, metric or outcome"
                  value={param("q")}
                  onInput={(e) => set({ q: e.currentTarget.value })}
                />
              </label>
              {rows.length === 0 ? (
                <Empty>
                  No run matches. <button onClick={() => set({ q: "" })}>Show all</button>
                </Empty>
              ) : (
                <Table
                  caption="Runs of MetricSets"
                  rows={rows}
                  keyOf={id}
                  cols={[
                    { title: "A", cell: (r) => pick("a", r) },
                    { title: "B", cell: (r) => pick("b", r) },
                    {
                      title: "Run",
                      cell: (r) => (
                        <Name href={runLink(r)} max={60}>
                          {r.name}
                        </Name>
                      ),
                    },
                    { title: "Namespace", cell: (r) => <Name max={40}>{r.namespace}</Name> },
                    { title: "Metrics", cell: (r) => clean(metricsOf(r)) },
                    { title: "Outcome", cell: (r) => <Outcome r={r} /> },
                    { title: "Started", cell: (r) => <When t={r.started} /> },
                    { title: "Took", number: true, cell: (r) => <Q v={took(r)} unit="seconds" /> },
                    { title: "Samples", number: true, cell: (r) => r.samples },
                  ]}
                />
              )}
            </Section>
          );
        }}
      </Show>
    </>
  );
}
const Outcome = ({ r }: { r: Run }) => (
  <span class={/fail|error/i.test(r.outcome) ? "attention" : ""}>
    {clean(r.outcome).toLowerCase()}
  </span>
);

/** Two runs, figure by figure, with what is not the same about them. */
function Compare({ a, b }: { a: string; b: string }) {
  const got = useAsk<Comparison>("/api/reckon/v1/compare/runs?" + query({ a, b })),
    link = (id: string) => {
      const [namespace, name] = id.split("/");
      return <Name href={runLink({ namespace, name: name ?? "" })}>{id}</Name>;
    };
  return (
    <Section title="A against B">
      <p>
        A: {link(a)} · B: {link(b)}
      </p>
      <Show a={got}>
        {(d) => (
          <>
            {d.differs.length > 0 && (
              <div class="note warning">
                <strong>Not the same:</strong>
                <ul>
                  {d.differs.map((x) => (
                    <li class="wrap">
                      {x.job && `${clean(x.job)}: `}
                      {clean(x.what)}: {clean(x.a || "none")} in A, {clean(x.b || "none")} in B
                    </li>
                  ))}
                </ul>
              </div>
            )}
            {d.figures.length === 0 ? (
              <Empty>The runs have no figure in common.</Empty>
            ) : (
              <Table
                caption="A against B"
                rows={d.figures}
                keyOf={(f) => f.job + f.figure}
                cols={[
                  {
                    title: "Figure",
                    cell: (f) => (
                      <>
                        {clean(f.figure).replaceAll("_", " ")}
                        {f.job && <small class="quiet"> {clean(f.job)}</small>}
                      </>
                    ),
                  },
                  {
                    title: "A",
                    number: true,
                    cell: (f) => <Q v={f.a} unit={unitOf(f.unit)} note={`mean of ${f.na}`} />,
                  },
                  {
                    title: "B",
                    number: true,
                    cell: (f) => <Q v={f.b} unit={unitOf(f.unit)} note={`mean of ${f.nb}`} />,
                  },
                  {
                    title: "B less A",
                    number: true,
                    cell: (f) =>
                      known(f.ratio)
                        ? `${f.ratio > 0 ? "+" : f.ratio < 0 ? "−" : ""}${human(Math.abs(f.ratio), "ratio")}`
                        : "–",
                  },
                  {
                    title: `Difference, ${Math.round(100 * d.level)} % sure`,
                    number: true,
                    cell: (f) =>
                      known(f.low) && known(f.high)
                        ? `${human(f.low, unitOf(f.unit))} to ${human(f.high, unitOf(f.unit))}`
                        : "–",
                  },
                  {
                    title: "Verdict",
                    cell: (f) => (
                      <span
                        title={[
                          f.test,
                          known(f.p) ? `p ${f.p < 0.001 ? "< 0.001" : f.p.toFixed(3)}` : "",
                          f.why,
                        ]
                          .filter(Boolean)
                          .join(", ")}
                      >
                        {f.verdict === "differs" ? <b>differs</b> : clean(f.verdict)}
                        {f.verdict === "untested" && f.why && (
                          <small class="quiet wrap"> {clean(f.why)}</small>
                        )}
                      </span>
                    ),
                  },
                ]}
              />
            )}
            <p class="quiet wrap">
              All intervals and verdicts together hold with {Math.round(100 * d.level)} %
              confidence. {clean(d.scope)}
            </p>
          </>
        )}
      </Show>
    </Section>
  );
}

export function RunPage() {
  const r = { namespace: param("namespace"), name: param("name") },
    there = r.namespace !== "" && r.name !== "";
  const a = useAsk<Run>(there ? at(r) : null, true),
    s = useAsk<{ pods: Series[] }>(there ? at(r) + "/samples" : null, true);
  if (!there)
    return (
      <>
        <h1>Run</h1>
        <Empty>
          Which run? <a href="/runs">All runs</a>
        </Empty>
      </>
    );
  return (
    <>
      <h1>
        <bdi>{clean(r.name)}</bdi> <small class="id">{clean(r.namespace)}</small>
      </h1>
      <Show a={a}>
        {(d) => (
          <>
            <p>
              MetricSet <Name>{d.set}</Name> ·{" "}
              <b>
                <Outcome r={d} />
              </b>{" "}
              · <When t={d.started} />
              {d.finished ? (
                <>
                  {" "}
                  to <When t={d.finished} /> (<Q v={took(d)} unit="seconds" />)
                </>
              ) : (
                " to now"
              )}{" "}
              ·{" "}
              <a href={"/runs?" + new URLSearchParams({ b: `${d.namespace}/${d.name}` })}>
                compare with another run
              </a>
            </p>
            {(d.metrics ?? []).length > 0 && (
              <ul>
                {d.metrics!.map((m) => (
                  <li class="wrap">
                    {clean(m.job)}: <b>{clean(m.name)}</b>
                    {m.attach && `, attached by ${clean(m.attach)}`}
                    {Object.entries(m.options ?? {}).map(([k, v]) => `, ${clean(k)} ${clean(v)}`)}
                  </li>
                ))}
              </ul>
            )}
            {(d.pods ?? [])
              .filter((p) => p.incomplete)
              .map((p) => (
                <div class="note warning">
                  <strong>{clean(p.name)} is not complete:</strong>{" "}
                  <span class="wrap">{clean(p.incomplete!)}</span>
                </div>
              ))}
            <Section title="Pods">
              <Table
                caption="Pods of the run"
                rows={d.pods ?? []}
                keyOf={(p) => p.uid}
                cols={[
                  { title: "Pod", cell: (p) => <Name max={60}>{p.name}</Name> },
                  {
                    title: "Node",
                    cell: (p) => (p.node ? <NodeName n={p.node} site={d.site} /> : "–"),
                  },
                  { title: "Exit", number: true, cell: (p) => p.exit_code ?? "–" },
                  { title: "Took", number: true, cell: (p) => <Q v={took(p)} unit="seconds" /> },
                  {
                    title: "CPU time",
                    number: true,
                    cell: (p) => <Q v={p.total?.cpu_seconds} unit="core-time" />,
                  },
                  {
                    title: "Read",
                    number: true,
                    cell: (p) => <Q v={p.total?.read_bytes} unit="bytes" />,
                  },
                  {
                    title: "Written",
                    number: true,
                    cell: (p) => <Q v={p.total?.write_bytes} unit="bytes" />,
                  },
                  { title: "Samples", number: true, cell: (p) => p.samples },
                ]}
              />
            </Section>
            <Section
              title="Over time"
              aside={
                <span>
                  {s.data && (
                    <button onClick={() => save(r.name + ".csv", table(s.data!.pods))}>CSV</button>
                  )}{" "}
                  <a href={at(r) + "/samples"} download={r.name + ".json"}>
                    JSON
                  </a>
                </span>
              }
            >
              <Show a={s}>{(x) => <Plots pods={x.pods} />}</Show>
            </Section>
            {(d.pods ?? []).map((p) => (
              <Reported key={p.uid} p={p} />
            ))}
          </>
        )}
      </Show>
    </>
  );
}

const plots: [string, Unit, boolean, (u: Use) => Num | undefined][] = [
  ["Cores in use", "cores", true, (u) => u.cpu_seconds],
  ["Memory, resident", "bytes", false, (u) => u.resident_bytes],
  ["Read from storage", "bytes_per_second", true, (u) => u.read_bytes],
  ["Written to storage", "bytes_per_second", true, (u) => u.write_bytes],
  ["Threads that waited for a core", "count", true, (u) => u.wait_seconds],
];
function Plots({ pods }: { pods: Series[] }) {
  const drawn = useMemo(
    () =>
      plots
        .map(([title, unit, rate, of]) => ({ title, unit, ...linesOf(pods, of, rate) }))
        .filter((g) => g.lines.length > 0),
    [pods],
  );
  if (drawn.length === 0) return <Empty>No samples are kept of this run.</Empty>;
  return (
    <div class="cols">
      {drawn.map((g) => (
        <div>
          <h3>{g.title}</h3>
          <TimeChart title={g.title} times={g.times} lines={g.lines} unit={g.unit} height={200} />
        </div>
      ))}
    </div>
  );
}

/** What the programs of a pod used, and what they reported by themselves. */
function Reported({ p }: { p: Pod }) {
  const figures = [
    ...(p.reported ?? []).map((x) => ({ name: x.name, unit: x.unit, values: x.values })),
    ...Object.entries(p.result?.figures ?? {}).map(([name, v]) => ({
      name,
      unit: name.endsWith("_seconds")
        ? "seconds"
        : name.endsWith("_bytes_per_second")
          ? "bytes_per_second"
          : name.endsWith("_bytes")
            ? "bytes"
            : "count",
      values: [v],
    })),
  ];
  const mean = (v: number[]) => (v.length ? v.reduce((a, b) => a + b, 0) / v.length : null);
  return (
    <>
      {(p.commands ?? []).length > 0 && (
        <Section title={`Programs of ${clean(p.name)}`} id={"programs-" + p.uid}>
          <Table
            caption={`Programs of ${clean(p.name)}`}
            rows={p.commands!}
            keyOf={(c, i) => c.command + i}
            cols={[
              { title: "Program", cell: (c) => <Name>{c.command}</Name> },
              { title: "Processes", number: true, cell: (c) => <Q v={c.count} unit="count" /> },
              {
                title: "CPU time",
                number: true,
                cell: (c) => <Q v={c.cpu_seconds} unit="core-time" />,
              },
              { title: "Read", number: true, cell: (c) => <Q v={c.read_bytes} unit="bytes" /> },
              { title: "Written", number: true, cell: (c) => <Q v={c.write_bytes} unit="bytes" /> },
            ]}
          />
        </Section>
      )}
      {figures.length > 0 && (
        <Section title={`Reported by ${clean(p.name)}`} id={"reported-" + p.uid}>
          <Table
            caption={`Figures that ${clean(p.name)} reported`}
            rows={figures}
            keyOf={(f, i) => f.name + i}
            cols={[
              { title: "Figure", cell: (f) => <Name>{f.name}</Name> },
              {
                title: "Mean",
                number: true,
                cell: (f) => <Q v={mean(f.values)} unit={unitOf(f.unit)} />,
              },
              {
                title: "Lowest",
                number: true,
                cell: (f) => <Q v={Math.min(...f.values)} unit={unitOf(f.unit)} />,
              },
              {
                title: "Highest",
                number: true,
                cell: (f) => <Q v={Math.max(...f.values)} unit={unitOf(f.unit)} />,
              },
              { title: "Values", number: true, cell: (f) => f.values.length },
            ]}
          />
        </Section>
      )}
      {p.text && (
        <Section title={`Log of ${clean(p.name)}`} id={"log-" + p.uid}>
          <pre class="log">
            {clean(p.text.replaceAll("\n", "\u2028")).replaceAll("\u2028", "\n")}
          </pre>
        </Section>
      )}
      {Object.keys(p.absent ?? {}).length > 0 && (
        <p class="quiet wrap">
          Not measured of {clean(p.name)}:{" "}
          {Object.entries(p.absent!)
            .map(([k, v]) => `${clean(k)} (${clean(v)})`)
            .join("; ")}
          .
        </p>
      )}
    </>
  );
}

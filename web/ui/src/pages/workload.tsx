// One workload: the verdict first, then what it was allocated and used, when, and what to request next.
import { useMemo, useState } from "preact/hooks";
import { ask, useAsk } from "../lib/api";
import { TimeChart, type Mark } from "../lib/chart";
import { ConnectionsPanel } from "../lib/connections";
import { group, Inside, spanOf } from "../lib/inside";
import { Log } from "../lib/logs";
import { Outlook } from "../lib/outlook";
import { OwnPanel } from "../lib/own";
import {
  Choice,
  clean,
  copy,
  Empty,
  Name,
  NodeName,
  OwnerOf,
  printing,
  Q,
  same,
  Section,
  Show,
  Table,
  W,
  When,
  Words,
} from "../lib/parts";
import { has, param, set, workloadLink } from "../lib/state";
import { titleOf } from "../lib/names";
import { fromStart, grouped, lastStep, overlaid, titles, together } from "../lib/profile";
import { stateOf } from "../lib/search";
import { marks as marksOf, quantile, rebin } from "../lib/stack";
import type { Bucket, Members, Num, Scale, Step, WorkloadDetail, WorkloadList } from "../lib/types";
import { exact, human, known, type Unit, stamp } from "../lib/units";
import { UnmeasuredOf } from "../lib/unmeasured";

const path = (id: string) => id.split("/").map(encodeURIComponent).join("/");
export function WorkloadPage() {
  const id = param("id"),
    start = param("start"),
    site = param("site"),
    by = param("by") || "total";
  const q = new URLSearchParams({ by, ...(start ? { start } : {}), ...(site ? { site } : {}) });
  const a = useAsk<WorkloadDetail>(id ? `/api/reckon/v1/workloads/${path(id)}?${q}` : null, true);
  const number = /^slurm\/\d+$/.test(id),
    family = useAsk<WorkloadList>(
      number
        ? "/api/reckon/v1/workloads?" +
            new URLSearchParams({ family: id, limit: "1", ...(site ? { site } : {}) })
        : null,
      true,
    );
  const whole =
    family.data && (family.data.total > 1 || family.data.workloads.some((w) => w.id !== id));
  if (!id)
    return (
      <Empty>
        Which workload? <a href="/workloads">All workloads</a>
      </Empty>
    );
  const called = a.data ? titleOf(a.data) : "";
  return (
    <>
      <h1>
        {called && !id.endsWith("/" + called) ? (
          <>
            <bdi>{clean(called).slice(0, 120)}</bdi>{" "}
            <small class="id">
              <Id id={id} />
            </small>
          </>
        ) : (
          <bdi>{clean(id).slice(0, 160)}</bdi>
        )}
      </h1>
      {whole && <Whole id={id} site={site} />}
      {whole && a.error?.status === 404 ? null : a.error?.status === 409 && !a.data ? (
        <Several id={id} />
      ) : (
        <Show a={a}>{(d) => <Detail d={d} by={by} />}</Show>
      )}
    </>
  );
}

/** An id, to be copied. */
function Id({ id }: { id: string }) {
  const [said, setSaid] = useState("");
  return (
    <>
      <code>{clean(id).slice(0, 160)}</code>{" "}
      <button
        class="quiet copy"
        aria-label={"Copy " + clean(id).slice(0, 80)}
        onClick={() => copy(id, (ok) => setSaid(ok ? "copied" : "not copied"))}
      >
        copy
      </button>
      <span role="status">{said}</span>
    </>
  );
}

/** A job array or a heterogeneous job as a whole. */
function Whole({ id, site }: { id: string; site: string }) {
  const [all, setAll] = useState(false),
    a = useAsk<Members>(
      `/api/reckon/v1/members/${path(id)}?` + new URLSearchParams(site ? { site } : {}),
      true,
    );
  if (!a.data) return null;
  const m = a.data,
    word = m.kind === "array" ? "task" : "component",
    rows = all ? m.members : m.members.slice(0, 100);
  return (
    <Section title={m.kind === "array" ? "Job array" : "Heterogeneous job"}>
      <p>
        {m.members.length.toLocaleString("en")} {word}s:{" "}
        {m.states.map((s) => `${s.count} ${clean(s.state).replaceAll("_", " ")}`).join(", ")}
        {m.waiting && ", the rest waits"}
        {m.start && (
          <>
            {" "}
            · <When t={m.start} /> to {m.end ? <When t={m.end} /> : "now"}
          </>
        )}
      </p>
      {m.verdicts.map((v) => (
        <div class={"note " + v.severity}>
          <span class="word">{v.severity}</span>:{" "}
          <span class="wrap">
            <Words>{v.text}</Words>
          </span>
        </div>
      ))}
      <ul class="facts">
        {(
          [
            ["CPU time", m.sums.cpu_seconds, "core-time"],
            ["Core time allocated", m.sums.core_seconds, "core-time"],
            ["GPU time", m.sums.gpu_seconds, "gpu-time"],
            ["GPU time allocated", m.sums.gpu_held_seconds, "gpu-time"],
            ["Memory, highest peak of one", m.sums.memory_peak_bytes, "bytes"],
            ["Energy", m.sums.energy_joules, "joules"],
            ["Wall, longest", m.sums.longest_seconds, "seconds"],
          ] as [string, Num, Unit][]
        )
          .filter(([, v]) => known(v))
          .map(([what, v, unit]) => (
            <li>
              <span class="what">{what}</span>
              <b>
                <Q v={v} unit={unit} />
              </b>
              {what === "CPU time" && m.sums.measured < m.members.length && (
                <small>
                  of {m.sums.measured} of {m.members.length}
                </small>
              )}
            </li>
          ))}
      </ul>
      <Table
        caption={`The ${word}s`}
        rows={rows}
        keyOf={(w) => w.id}
        cols={[
          { title: m.kind === "array" ? "Task" : "Component", cell: (w) => <W w={w} /> },
          { title: "State", cell: (w) => stateOf(w) },
          { title: "Start", cell: (w) => <When t={w.start} /> },
          {
            title: "Wall",
            number: true,
            cell: (w) => <Q v={w.wall_seconds} unit="seconds" is={w.exactness?.wall_seconds} />,
          },
          {
            title: "CPU time",
            number: true,
            cell: (w) => <Q v={w.cpu_seconds} unit="core-time" />,
          },
          {
            title: "Cores allocated",
            number: true,
            cell: (w) => <Q v={w.allocated_cores ?? w.request_cores} unit="cores" />,
          },
          {
            title: "Memory, peak",
            number: true,
            cell: (w) => <Q v={w.memory_peak_bytes} unit="bytes" />,
          },
        ]}
      />
      {!all && m.members.length > rows.length && (
        <p>
          <button onClick={() => setAll(true)}>
            Show all {m.members.length.toLocaleString("en")}
          </button>
        </p>
      )}
    </Section>
  );
}

/** An id that several sites gave. */
function Several({ id }: { id: string }) {
  const a = useAsk<WorkloadList>(
    "/api/reckon/v1/workloads?" + new URLSearchParams({ id, sort: "-start", limit: "100" }),
  );
  return (
    <Section title="Which of them?">
      <p>Several sites have given this id.</p>
      <Show a={a}>
        {(d) => (
          <Table
            caption="Workloads of this id"
            rows={d.workloads}
            keyOf={(w) => (w.site ?? "") + w.start}
            cols={[
              {
                title: "Site",
                cell: (w) => <Name href={workloadLink(w.id, w.start, w.site)}>{w.site ?? ""}</Name>,
              },
              { title: "Name", cell: (w) => <Name>{w.name}</Name> },
              { title: "Owner", cell: (w) => <OwnerOf w={w} /> },
              { title: "Start", cell: (w) => <When t={w.start} /> },
            ]}
          />
        )}
      </Show>
    </Section>
  );
}

/** The range of this job, a little before and after. */
const thisTime = (d: WorkloadDetail) => {
  const a = Date.parse(d.start) / 1000,
    b = d.end ? Date.parse(d.end) / 1000 : Date.now() / 1000,
    pad = Math.max(120, (b - a) * 0.1);
  return new URLSearchParams({
    from: String(Math.floor(a - pad)),
    to: String(Math.ceil(Math.min(Date.now() / 1000, b + pad))),
  }).toString();
};
const energyNote = (d: WorkloadDetail) =>
  d.energy_method === "both" ? "measured and modelled" : d.energy_method;

function Detail({ d, by }: { d: WorkloadDetail; by: string }) {
  const waits = d.state === "pending",
    of = /^(slurm\/\d+)([_+])\d+$/.exec(d.id);
  return (
    <>
      {of && (
        <p class="quiet">
          {of[2] === "_" ? "A task of the job array" : "A component of the heterogeneous job"}{" "}
          <Name href={workloadLink(of[1], undefined, d.site)}>{of[1]}</Name>.
        </p>
      )}
      <p>
        of <OwnerOf w={d} /> · <b>{stateOf(d)}</b>
        {d.reason && (
          <>
            {" "}
            (<Name>{d.reason}</Name>)
          </>
        )}
        {d.account && (
          <>
            {" "}
            · account <Name>{d.account}</Name>
          </>
        )}
        {d.partition && (
          <>
            {" "}
            · <Name>{d.partition}</Name>
          </>
        )}
        {d.qos && (
          <>
            {" "}
            · QOS <Name>{d.qos}</Name>
          </>
        )}
        {waits ? (
          <>
            {" "}
            · submitted <When t={d.submit ?? d.start} />
          </>
        ) : (
          <>
            {d.nodes.length > 0 && (
              <>
                {" "}
                · on{" "}
                {d.nodes.slice(0, 8).map((n, i) => (
                  <>
                    {i > 0 && ", "}
                    <NodeName n={n} site={d.site} />
                  </>
                ))}
                {d.nodes.length > 8 && ` and ${d.nodes.length - 8} more`}
              </>
            )}{" "}
            · <When t={d.start} />{" "}
            {d.lost ? (
              <>
                ; last report <When t={d.seen} />
              </>
            ) : (
              <>to {d.end ? <When t={d.end} /> : "now"}</>
            )}{" "}
            (<Q v={d.wall_seconds} unit="seconds" is={d.exactness?.wall_seconds} />) ·{" "}
            <a href={"/?" + thisTime(d)}>the site at this time</a>
            {d.nodes.length === 1 && (
              <>
                {" "}
                ·{" "}
                <a href={"/node?" + new URLSearchParams({ name: d.nodes[0] }) + "&" + thisTime(d)}>
                  its node
                </a>
              </>
            )}
          </>
        )}
      </p>
      {d.lives && d.lives.length > 1 && (
        <div class="note info">
          This id was given <Q v={d.lives.length} unit="count" /> times.{" "}
          <label>
            Run{" "}
            <select value={d.start} onChange={(e) => set({ start: e.currentTarget.value }, false)}>
              {d.lives.map((l) => (
                <option value={l.start}>
                  {stamp(l.start)} {clean(l.owner).slice(0, 30)} {clean(l.name).slice(0, 40)}
                </option>
              ))}
            </select>
          </label>
        </div>
      )}
      <Section title="Verdict">
        {d.verdicts && d.verdicts.length > 0 ? (
          d.verdicts.map((v) => (
            <div class={"note " + v.severity}>
              <span class="word">{v.severity}</span>:{" "}
              <span class="wrap">
                <Words>{v.text}</Words>
              </span>
            </div>
          ))
        ) : (
          <p class="quiet">
            Nothing stands out{d.running ? " so far" : ""}: no request is known to compare its use
            with, or its use fits the request.
          </p>
        )}
      </Section>
      {!waits && (
        <ul class="facts">
          {(
            [
              ["CPU time", "cpu_seconds", "core-time"],
              ["Cores, mean", "cores_mean", "cores"],
              ["Cores, p95", "cores_p95", "cores"],
              ["Memory, peak", "memory_peak_bytes", "bytes"],
              ["GPU time", "gpu_seconds", "gpu-time"],
              ["Read", "io_read_bytes", "bytes"],
              ["Written", "io_write_bytes", "bytes"],
              ["Network", "network_bytes", "bytes"],
              ["Memory traffic", "memory_traffic_bytes", "bytes"],
              ["Energy", "energy_joules", "joules"],
              ["CO₂", "co2_grams", "grams"],
              ["Waited for a core", "cpu_wait_seconds", "seconds"],
              ["Waited for storage", "io_wait_seconds", "seconds"],
              ["Processes", "processes", "count"],
            ] as [string, keyof WorkloadDetail, Unit][]
          )
            .filter(
              ([what, key]) =>
                known(d[key]) || ["CPU time", "Memory, peak", "Energy"].includes(what),
            )
            .map(([what, key, unit]) => (
              <li>
                <span class="what">{what}</span>
                <b>
                  <Q
                    v={d[key]}
                    unit={unit}
                    is={d.exactness?.[key]}
                    of={
                      d.running
                        ? undefined
                        : same(String(key), d.id, { since: d.start, until: d.end })
                    }
                  />
                </b>
                {what === "Energy" && energyNote(d) && <small>{energyNote(d)}</small>}
              </li>
            ))}
        </ul>
      )}
      <div class="cols">
        {waits ? <Asked d={d} /> : <Requests d={d} />}
        {d.advice ? (
          <Next d={d} />
        ) : (
          d.no_advice &&
          d.kind === "group" && (
            <Section title="Next time, request">
              <Empty>
                <span class="wrap">
                  {d.no_advice.text[0].toUpperCase() + d.no_advice.text.slice(1)}.
                </span>
              </Empty>
            </Section>
          )
        )}
      </div>
      {!waits && <Profiles d={d} by={by} />}
      <div class="cols">
        {d.cores_histogram && d.cores_histogram.length > 0 && (
          <Section title="Cores in use, by time">
            <Histogram
              b={d.cores_histogram}
              step={d.cores_histogram_step_seconds}
              nodes={d.nodes.length}
            />
          </Section>
        )}
        {d.events && d.events.length > 0 && (
          <Section title="Events">
            <Table
              caption="Events"
              rows={d.events}
              keyOf={(_e, i) => String(i)}
              cols={[
                { title: "When", cell: (e) => <When t={e.from} /> },
                { title: "What", cell: (e) => <span class="wrap">{eventText(e)}</span> },
                {
                  title: "Where",
                  cell: (e) => (
                    <>
                      <NodeName n={e.node ?? ""} /> {e.part && <Name>{e.part}</Name>}
                    </>
                  ),
                },
              ]}
            />
          </Section>
        )}
        {d.commands.length > 0 && (
          <Section title="Programs">
            <Table
              caption="CPU time by program"
              rows={d.commands}
              keyOf={(c) => c.command}
              cols={[
                { title: "Program", cell: (c) => <Name>{c.command}</Name> },
                {
                  title: "CPU time",
                  number: true,
                  cell: (c) => <Q v={c.cpu_seconds} unit="core-time" />,
                },
                {
                  title: "Share",
                  number: true,
                  cell: (c) =>
                    known(d.cpu_seconds) && d.cpu_seconds > 0 ? (
                      <Q v={c.cpu_seconds / d.cpu_seconds} unit="ratio" />
                    ) : (
                      "–"
                    ),
                },
                {
                  title: "Processes",
                  number: true,
                  cell: (c) => <Q v={c.processes} unit="count" />,
                },
              ]}
            />
          </Section>
        )}
        {d.parts &&
          d.parts.length > 1 &&
          !(d.steps && d.steps.length > 0 && d.nodes.length < 2) && (
            <Section title="Parts">
              <Table
                caption="What each part used"
                rows={d.parts.slice(0, 200)}
                keyOf={(p) => p.node + p.part}
                cols={[
                  { title: "Node", cell: (p) => <NodeName n={p.node} /> },
                  { title: "Part", cell: (p) => <Name>{p.part}</Name> },
                  {
                    title: "CPU time",
                    number: true,
                    cell: (p) => <Q v={p.cpu_seconds} unit="core-time" />,
                  },
                  {
                    title: "Memory, peak",
                    number: true,
                    cell: (p) => <Q v={p.memory_peak_bytes} unit="bytes" />,
                  },
                  {
                    title: "GPU time",
                    number: true,
                    cell: (p) => <Q v={p.gpu_seconds} unit="gpu-time" />,
                  },
                ]}
              />
              {d.parts.length > 200 && <p class="quiet">The first 200 of {d.parts.length}.</p>}
            </Section>
          )}
      </div>
      {d.steps && d.steps.length > 0 && <Steps d={d} steps={d.steps} />}
      {!waits && <Inside d={d} />}
      {!waits && (
        <UnmeasuredOf
          d={d}
          of={[
            ...(known(d.memory_traffic_bytes) ? [] : ["traffic"]),
            ...(known(d.network_bytes) ? [] : ["network"]),
            ...(known(d.io_wait_seconds) ? [] : ["waits"]),
            "runqueue",
          ]}
        />
      )}
      {!waits && <Log id={d.id} owner={d.owner} start={d.start} site={d.site} />}
      {has("scale") && <Runs d={d} />}
      <Outlook of={{ workload: d.id }} site={d.site} />
      <OwnPanel
        of={{ workload: d.id, site: d.site }}
        w={{ from: spanOf(d)[0], to: spanOf(d)[1] }}
      />
      <ConnectionsPanel of={{ workload: d.id, start: d.start, site: d.site }} />
    </>
  );
}

const eventText = (e: { kind: string; value: number; unit: string }) =>
  e.kind === "oom_kill"
    ? `${e.value} process${e.value === 1 ? "" : "es"} killed for lack of memory`
    : e.kind === "throttled"
      ? `throttled by its quota for ${human(e.value, "seconds")}`
      : `${e.kind} ${human(e.value, e.unit)}`;

const fewSteps = 50;
/** Whether a step ended otherwise than it should, as the command line has it. */
const stepFailed = (s: Step) =>
  ["failed", "out_of_memory", "node_fail", "boot_fail"].includes(s.state ?? "") ||
  (s.state === "completed" && known(s.exit_code) && s.exit_code !== 0);

/** The steps of a batch job; of very many those that failed and those that used most. */
function Steps({ d, steps }: { d: WorkloadDetail; steps: Step[] }) {
  const total = Math.max(steps.length, known(d.step_count) ? Number(d.step_count) : 0);
  const shown =
    steps.length <= fewSteps
      ? steps
      : [...steps]
          .sort(
            (a, b) =>
              Number(stepFailed(b)) - Number(stepFailed(a)) ||
              (b.cpu_seconds ?? 0) - (a.cpu_seconds ?? 0),
          )
          .slice(0, fewSteps);
  return (
    <Section title="Steps">
      <Table
        caption="Steps of the job"
        rows={shown}
        keyOf={(s) => s.id}
        cols={[
          { title: "Step", cell: (s) => <Name>{s.id}</Name> },
          { title: "Name", cell: (s) => <Name>{s.name ?? ""}</Name> },
          {
            title: "State",
            cell: (s) =>
              stepFailed(s) ? (
                <b class="attention wrap">{stepText(s)}</b>
              ) : (
                <span class="wrap">{stepText(s)}</span>
              ),
          },
          { title: "Start", cell: (s) => (s.start ? <When t={s.start} /> : "–") },
          { title: "Wall", number: true, cell: (s) => <Q v={s.wall_seconds} unit="seconds" /> },
          {
            title: "CPU time",
            number: true,
            cell: (s) => (
              <Q
                v={s.cpu_seconds}
                unit="core-time"
                note={s.accounted ? "from the accounting of the batch system" : undefined}
              />
            ),
          },
          {
            title: "Memory, peak",
            number: true,
            cell: (s) => (
              <Q
                v={s.memory_peak_bytes}
                unit="bytes"
                note={
                  s.accounted
                    ? "of a single task, from the accounting of the batch system"
                    : undefined
                }
              />
            ),
          },
          ...(steps.some((s) => known(s.gpu_seconds))
            ? [
                {
                  title: "GPU time",
                  number: true,
                  cell: (s: Step) => <Q v={s.gpu_seconds} unit="gpu-time" />,
                },
              ]
            : []),
        ]}
      />
      {total > shown.length && (
        <p class="quiet">
          <Q v={shown.length} unit="count" /> of <Q v={total} unit="count" />: those that failed and
          those that used most.
        </p>
      )}
    </Section>
  );
}
const stepText = (s: Step) =>
  `${(s.state ?? "").replaceAll("_", " ")}${known(s.exit_code) && s.exit_code !== 0 ? ` (exit ${s.exit_code})` : ""}` ||
  "–";

/** The request of a pending job. */
function Asked({ d }: { d: WorkloadDetail }) {
  const have = (
    [
      ["Cores", d.request_cores, "cores"],
      ["Memory", d.request_memory_bytes, "bytes"],
      ["GPUs", d.request_gpus, "gpus"],
      ["Nodes", d.request_nodes, "count"],
      ["Time", d.request_seconds, "seconds"],
    ] as [string, Num, Unit][]
  ).filter(([, v]) => known(v) && v > 0);
  return (
    <Section title="Requested">
      {have.length === 0 ? (
        <Empty>Its request is unknown.</Empty>
      ) : (
        <ul class="facts">
          {have.map(([what, v, unit]) => (
            <li>
              <span class="what">{what}</span>
              <b>
                <Q v={v} unit={unit} />
              </b>
            </li>
          ))}
        </ul>
      )}
    </Section>
  );
}

function Requests({ d }: { d: WorkloadDetail }) {
  const ran = d.wall_seconds - (known(d.suspended_seconds) ? d.suspended_seconds : 0); // the time limit stands still while a job is suspended
  const rows: [string, unknown, unknown, unknown, Unit][] = [
    ["Cores", d.cores_mean, d.allocated_cores ?? d.request_cores, d.cores_p95, "cores"],
    [
      "Memory",
      d.memory_peak_bytes,
      d.allocated_memory_bytes ?? d.request_memory_bytes,
      null,
      "bytes",
    ],
    [
      "GPUs",
      known(d.gpu_seconds) && ran > 0 ? d.gpu_seconds / ran : null,
      d.allocated_gpus ?? d.request_gpus,
      null,
      "gpus",
    ],
    ["Time", ran, d.request_seconds, null, "seconds"],
  ];
  const keys: Record<string, string> = {
    Cores: "cores_mean",
    Memory: "memory_peak_bytes",
    GPUs: "gpu_seconds",
  };
  const have = rows.filter(([, , asked]) => known(asked) && asked > 0);
  return (
    <Section title={known(d.allocated_cores) ? "Allocated and used" : "Requested and used"}>
      {have.length === 0 ? (
        <Empty>Its request is unknown.</Empty>
      ) : (
        <div class="hbars">
          {have.map(([name, used, asked, p95, unit]) => {
            const u = known(used) ? used : null,
              r = asked as number,
              top = Math.max(r, u ?? 0, known(p95) ? p95 : 0);
            return (
              <>
                <span>{name}</span>
                <svg
                  viewBox="0 0 100 14"
                  preserveAspectRatio="none"
                  role="img"
                  aria-label={`${name}: used ${human(u, unit)} of ${human(r, unit)}${known(p95) ? `, 95th percentile ${human(p95, unit)}` : ""}`}
                >
                  <title>{`used ${exact(u, unit)} of ${exact(r, unit)}`}</title>
                  <rect class="track" width={(100 * r) / top} height="14" />
                  {u !== null && (
                    <rect
                      class={u > r ? "full" : "fill"}
                      y="3"
                      width={(100 * u) / top}
                      height="8"
                    />
                  )}
                  {known(p95) && (
                    <line
                      class="p95"
                      x1={(100 * p95) / top}
                      x2={(100 * p95) / top}
                      y1="0"
                      y2="14"
                    />
                  )}
                </svg>
                <span>
                  <Q v={u} unit={unit} is={d.exactness?.[keys[name]]} /> of <Q v={r} unit={unit} />{" "}
                  ({u === null ? "not measured" : <Q v={u / r} unit="ratio" />})
                  {known(p95) && (
                    <span class="quiet">
                      , p95 <Q v={p95} unit={unit} />
                    </span>
                  )}
                </span>
              </>
            );
          })}
        </div>
      )}
    </Section>
  );
}

function Next({ d }: { d: WorkloadDetail }) {
  const a = d.advice!,
    [said, setSaid] = useState("");
  return (
    <Section title="Next time, request">
      <p>
        {(
          [
            ["cores", a.cores, "cores"],
            ["memory on each node", a.memory_bytes, "bytes"],
            ["wall time", a.seconds, "seconds"],
            ["GPUs", a.gpus, "gpus"],
          ] as [string, Num, Unit][]
        )
          .filter(([, v]) => known(v))
          .map(([w, v, u], i) => (
            <>
              {i > 0 && ", "}
              <b>
                <Q v={v} unit={u} />
              </b>{" "}
              {v === 1 ? w.replace(/s$/, "") : w}
            </>
          ))}{" "}
        <span class="quiet">
          from <Q v={a.runs} unit="count" /> run{a.runs === 1 ? "" : "s"}
        </span>
      </p>
      {a.paste && (
        <>
          <pre class="paste" tabIndex={0}>
            {clean(a.paste.replaceAll("\n", "\u2028")).replaceAll("\u2028", "\n")}
          </pre>
          <button
            onClick={() =>
              copy(a.paste!, (ok) =>
                setSaid(ok ? "Copied." : "Could not copy: select the lines and copy them."),
              )
            }
          >
            Copy
          </button>{" "}
          <span role="status">{said}</span>
        </>
      )}
      <ul>
        {a.why.map((w) => (
          <li class="wrap">
            <Words>{w}</Words>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function Profiles({ d, by }: { d: WorkloadDetail; by: string }) {
  const marks = useMemo(
    () =>
      [
        {
          from: Date.parse(d.start) / 1000,
          to: Date.parse(d.start) / 1000,
          label: "start",
          kind: "start",
        },
        ...(d.end
          ? [
              {
                from: Date.parse(d.end) / 1000,
                to: Date.parse(d.end) / 1000,
                label: `end: ${stateOf(d)}`,
                kind: "end",
              },
            ]
          : []),
        ...(d.events ?? []).map((e) => ({
          from: Date.parse(e.from) / 1000,
          to: Date.parse(e.to) / 1000,
          label: eventText(e),
          kind: e.kind === "throttled" ? "held" : "bad",
        })),
      ] as Mark[],
    [d.events, d.start, d.end],
  );
  const step = d.step_seconds,
    profile = useMemo(() => fromStart(d.profile, step, d.end), [d.profile, step, d.end]);
  const groups = useMemo(
    () =>
      by === "total"
        ? together(profile)
        : by === "command"
          ? [
              ...grouped(
                profile.filter((p) => p.command),
                by,
              ),
              ...together(profile.filter((p) => !p.command)),
            ]
          : grouped(profile, by),
    [profile, by],
  );
  return (
    <Section
      title="Over time"
      aside={
        <Choice
          label="By"
          value={by}
          of={[
            ["total", "whole"],
            ["node", "node"],
            ["part", "part"],
            ["command", "program"],
          ]}
          pick={(v) => set({ by: v === "total" ? "" : v })}
        />
      }
    >
      {groups.length === 0 ? (
        <Empty>
          {by === "total"
            ? "Nothing was measured over time: it was too short, or is too old."
            : `There are no figures by ${by === "command" ? "program" : by}.`}
        </Empty>
      ) : (
        <div class="cols">
          {groups.map((g) => (
            <div>
              <h3>{g.title}</h3>
              <TimeChart
                title={g.title}
                times={g.times}
                lines={g.lines}
                unit={g.unit}
                marks={marks}
                steps
                lasting={lastStep(g.times, step, d.end)}
                stack={g.stack}
                total={g.total}
                height={180}
                group={group}
              />
            </div>
          ))}
        </div>
      )}
      <p class="quiet">
        {groups.length > 0 && step > 0 && (
          <>
            Means of <Q v={step} unit="seconds" />.{" "}
          </>
        )}
        ▸ start{d.end && ", ■ end"}
        {(d.events ?? []).some((e) => e.kind !== "throttled") && ", ✕ a process was killed"}
        {(d.events ?? []).some((e) => e.kind === "throttled") && ", ≈ throttled by its quota"}
        {(d.events?.length ?? 0) > 0 && "; listed below"}.
      </p>
    </Section>
  );
}

function Histogram({ b, step, nodes }: { b: Bucket[]; step?: Num; nodes: number }) {
  const top = b[b.length - 1].high || 1,
    even = rebin(b, 24),
    most = Math.max(...even.map((x) => x.seconds)),
    all = b.reduce((a, x) => a + x.seconds, 0),
    p50 = quantile(b, 0.5),
    p95 = quantile(b, 0.95);
  const x = (v: number) => 30 + (560 * v) / top,
    near = known(p50) && known(p95) && x(p95) - x(p50) < 90;
  return (
    <>
      <svg
        class="hist"
        viewBox="0 0 600 150"
        role="img"
        aria-label={`Distribution of cores in use: half of the time up to ${human(p50, "cores")}, 95 percent of the time up to ${human(p95, "cores")}`}
      >
        {even.map((k) => {
          const h = (88 * k.seconds) / (most || 1);
          return (
            <rect x={x(k.low)} y={125 - h} width={Math.max(1, x(k.high) - x(k.low) - 1)} height={h}>
              <title>{`${human(k.low, "cores")} to ${human(k.high, "cores")} cores: ${human(k.seconds / (all || 1), "ratio")} of the time`}</title>
            </rect>
          );
        })}
        {(
          [
            ["p50", p50, 22],
            ["p95", p95, 10],
          ] as [string, number | null, number][]
        ).map(
          ([n, v, y]) =>
            v !== null && (
              <>
                <line x1={x(v)} x2={x(v)} y1={y} y2="125" />
                <text
                  x={(n === "p50" && near) || x(v) > 520 ? x(v) - 3 : x(v) + 3}
                  y={y + 2}
                  text-anchor={(n === "p50" && near) || x(v) > 520 ? "end" : "start"}
                >
                  {n} {human(v, "cores")}
                </text>
              </>
            ),
        )}
        {marksOf(top).map((v) => (
          <text x={x(v)} y="142" text-anchor="middle">
            {human(v, "cores")}
          </text>
        ))}
      </svg>
      <p class="quiet">
        Across: cores in use
        {known(step) && (
          <>
            {" "}
            on its <Q v={nodes} unit="count" /> nodes together, means of{" "}
            <Q v={step} unit="seconds" />
          </>
        )}
        . Height: share of the time. Half of the time it used up to <Q v={p50} unit="cores" />, 95 %
        of the time up to <Q v={p95} unit="cores" />.
      </p>
    </>
  );
}

function Runs({ d }: { d: WorkloadDetail }) {
  const [all, setAll] = useState(false);
  const a = useAsk<Scale>(
    `/api/reckon/v1/scale/${path(d.id)}?` +
      new URLSearchParams({ start: d.start, ...(d.site ? { site: d.site } : {}) }),
  );
  return (
    <Section title="Runs of the same name">
      <Show a={a}>
        {(s) =>
          s.runs.length < 2 ? (
            <Empty>
              <span class="wrap">
                {s.left_out > 0
                  ? `${s.left_out} run${s.left_out === 1 ? "" : "s"} of this name and owner cannot be compared: each failed, was too short, or waited for cores.`
                  : "No other run of the same name and owner has ended."}
              </span>
            </Empty>
          ) : (
            <>
              {(s.verdicts ?? []).map((v) => (
                <p class="wrap">
                  <Words>{v.text}</Words>
                </p>
              ))}
              <Overlay d={d} runs={s.runs} />
              <Table
                caption="Runs"
                rows={all || printing.value ? s.runs : latest(s.runs, d)}
                keyOf={(r) => r.id + r.start}
                cols={[
                  {
                    title: "Run",
                    cell: (r) =>
                      r.id === d.id && r.start === d.start ? (
                        <>
                          <W w={r} /> (this)
                        </>
                      ) : (
                        <Name href={workloadLink(r.id, r.start, d.site)}>{r.id}</Name>
                      ),
                  },
                  { title: "Start", cell: (r) => <When t={r.start} /> },
                  {
                    title: "Cores",
                    number: true,
                    cell: (r) => <Q v={r.cores} unit="cores" note={r.cores_from} />,
                  },
                  { title: "Wall", number: true, cell: (r) => <Q v={r.seconds} unit="seconds" /> },
                  {
                    title: "CPU time",
                    number: true,
                    cell: (r) => <Q v={r.cpu_seconds} unit="core-time" />,
                  },
                  {
                    title: "Speed-up over one core",
                    number: true,
                    cell: (r) => <Q v={r.speedup} unit="count" />,
                  },
                ]}
              />
              {!all && s.runs.length > few && (
                <p>
                  <button onClick={() => setAll(true)}>Show all {s.runs.length} runs</button>
                </p>
              )}
            </>
          )
        }
      </Show>
    </Section>
  );
}
const few = 12;
/** The latest runs, and this one. */
const latest = (runs: Scale["runs"], d: WorkloadDetail) =>
  runs.length <= few
    ? runs
    : [...runs]
        .sort((x, y) => Date.parse(y.start) - Date.parse(x.start))
        .filter((r, i) => i < few || (r.id === d.id && r.start === d.start));

/** The latest runs of the same name, each from its own start on. */
function Overlay({ d, runs }: { d: WorkloadDetail; runs: Scale["runs"] }) {
  const what = param("runs") || "cores",
    others = runs
      .filter((r) => !(r.id === d.id && r.start === d.start))
      .sort((a, b) => Date.parse(b.start) - Date.parse(a.start))
      .slice(0, 5);
  const a = useAsk(
    others.length
      ? `runs of ${d.id} ${d.start} ${others.map((r) => r.id + r.start).join(" ")}`
      : null,
    false,
    (_p, s) =>
      Promise.all(
        others.map((r) =>
          ask<WorkloadDetail>(
            `/api/reckon/v1/workloads/${path(r.id)}?${new URLSearchParams({ by: "total", start: r.start, ...(d.site ? { site: d.site } : {}) })}`,
            s,
          ).catch(() => null),
        ),
      ),
  );
  const drawn = useMemo(
    () =>
      overlaid(
        [d, ...(a.data ?? []).filter((x): x is WorkloadDetail => x !== null)],
        what,
        workloadLink,
      ),
    [a.data, d, what],
  );
  const mine = drawn.lines.some((l) => l.label.startsWith("this: "));
  if (others.length === 0) return null;
  return (
    <Show a={a}>
      {() =>
        drawn.lines.length < 2 || !mine ? (
          <Empty>
            {mine ? "No run before has" : "This run has no"} figures over time that are still kept.
          </Empty>
        ) : (
          <>
            <div class="controls">
              <Choice
                label="Side by side"
                value={what}
                of={[
                  ["cores", "cores"],
                  ["memory_bytes", "memory"],
                ]}
                pick={(v) => set({ runs: v === "cores" ? "" : v })}
              />
            </div>
            <TimeChart
              title={`${titles[what] ?? what} of runs of the same name, each from its start`}
              times={drawn.times}
              lines={drawn.lines}
              unit={what === "cores" ? "cores" : "bytes"}
              height={220}
              relative
            />
          </>
        )
      }
    </Show>
  );
}

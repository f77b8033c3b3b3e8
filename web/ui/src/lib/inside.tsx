// What goes on inside a job: how long its threads waited for a core and for disks, on which NUMA nodes its memory is, and which units of its GPUs were busy.
import { useMemo } from "preact/hooks";
import { promRange, useAsk } from "./api";
import { TimeChart, type Line } from "./chart";
import { Section } from "./parts";
import { axis, niceStep, onto, promQuote } from "./stack";
import { has } from "./state";
import type { WorkloadDetail } from "./types";
import { exact, human } from "./units";

export const group = "workload"; // charts of the page of a workload show the same moment
const parts: [string, number][] = [
  ["half within", 0.5],
  ["95 % within", 0.95],
  ["99 % within", 0.99],
];
/** Queries of the wait for a core, from the distributions that eBPF counts. */
export const delays = (sel: string, r: string): [string, string][] =>
  parts.map(([word, q]) => [
    word,
    `histogram_quantile(${q}, sum(rate(reckon_workload_run_queue_seconds${sel}${r})))`,
  ]);

/** The time of the other charts of a workload, so that the axes agree: what was measured of it may be less than its life. */
export function spanOf(
  d: Pick<WorkloadDetail, "start" | "end" | "seen" | "profile" | "step_seconds">,
): [number, number] {
  const from = Date.parse(d.start) / 1000,
    to = Date.parse(d.end ?? d.seen) / 1000,
    times = d.profile.flatMap((p) =>
      p.points.length > 0 ? [Date.parse(p.points[0].time) / 1000 - d.step_seconds] : [],
    );
  return [times.length > 0 ? Math.max(from, Math.min(to, ...times)) : from, to];
}

/** Units of GPUs in the order in which they are drawn; engine labels of reckon_gpu_engine_busy_seconds_total. */
export const units: [string, string][] = [
  ["sm", "multiprocessors"],
  ["tensor", "tensor cores"],
  ["fp64", "FP64"],
  ["fp32", "FP32"],
  ["fp16", "FP16"],
  ["dram", "memory traffic"],
];
/** How busy each unit of the GPUs was that a workload used, mean over them. */
export const gpuQuery = (who: string, r: string) =>
  `avg by (engine) (rate(reckon_gpu_engine_busy_seconds_total{engine=~"${units.map(([e]) => e).join("|")}"}${r}) and on (node, device) (sum by (node, device) (rate(reckon_workload_gpu_seconds_total{${who}}${r})) > 0))`;

export function Inside({ d }: { d: WorkloadDetail }) {
  const [from, to] = spanOf(d),
    who = `workload=${promQuote(d.id)}${d.site ? `,site=${promQuote(d.site)}` : ""}`;
  const step = Math.max(niceStep(to - from), 15),
    over = Math.max(60, 4 * (d.step_seconds || 15), step),
    r = `[${Math.ceil(over)}s]`,
    w = useMemo(
      () => ({ from: Math.floor(from / step) * step, to: Math.ceil(to / step) * step }),
      [from, to, step],
    );
  const may = has("prometheus") && to > from,
    gpu = may && (d.gpu_seconds ?? 0) > 0;
  const wait = useAsk(
    may ? `wait ${d.id} ${w.from} ${w.to}` : null,
    false,
    (_p, s) =>
      Promise.all(delays(`{${who}}`, r).map(([, q]) => promRange(q, w.from, w.to, step, s))),
    `wait ${d.id} ${d.start}`,
  );
  const disk = useAsk(
    may ? `disk ${d.id} ${w.from} ${w.to}` : null,
    false,
    (_p, s) =>
      promRange(
        `sum by (device) (rate(reckon_workload_disk_wait_seconds_total{${who}}${r}))`,
        w.from,
        w.to,
        step,
        s,
      ),
    `disk ${d.id} ${d.start}`,
  );
  const numa = useAsk(
    may ? `numa ${d.id} ${w.from} ${w.to}` : null,
    false,
    (_p, s) =>
      promRange(
        `sum by (numa_node) (reckon_workload_memory_numa_bytes{${who}})`,
        w.from,
        w.to,
        step,
        s,
      ),
    `numa ${d.id} ${d.start}`,
  );
  const use = useAsk(
    gpu ? `gpu use ${d.id} ${w.from} ${w.to}` : null,
    false,
    (_p, s) => promRange(gpuQuery(who, r), w.from, w.to, step, s),
    `gpu use ${d.id} ${d.start}`,
  );
  const times = useMemo(() => axis(w.from, w.to, step), [w, step]);
  const waits = useMemo(
    () =>
      (wait.data ?? [])
        .flatMap((s, i): Line[] => (s[0] ? [{ label: parts[i][0], row: onto(times, s[0]) }] : []))
        .filter((l) => l.row.some((v) => v !== null)),
    [wait.data, times],
  );
  const disks = useMemo(
    () =>
      (disk.data ?? [])
        .map((x): Line => ({ label: x.metric.device, row: onto(times, x) }))
        .filter((l) => l.row.some((v) => v)),
    [disk.data, times],
  );
  const places = useMemo(
    () =>
      (numa.data ?? []).map((x): Line => ({
        label: "NUMA node " + x.metric.numa_node,
        row: onto(times, x),
      })),
    [numa.data, times],
  );
  const busy = useMemo(
    () =>
      units.flatMap(([e, word]): Line[] => {
        const s = use.data?.find((x) => x.metric.engine === e);
        return s ? [{ label: word, row: onto(times, s) }] : [];
      }),
    [use.data, times],
  );
  const mean = units.flatMap(([e, word]): [string, number][] =>
    d.gpu_engines?.[e] === undefined ? [] : [[word, d.gpu_engines[e]]],
  );
  if (
    waits.length === 0 &&
    disks.length === 0 &&
    places.length === 0 &&
    busy.length === 0 &&
    mean.length === 0
  )
    return null;
  return (
    <div class="cols">
      {busy.length + mean.length > 0 && (
        <Section title="Kind of GPU use">
          {mean.length > 0 && (
            <>
              <p class="quiet">
                While its GPUs computed, share of the time in which each unit was busy:
              </p>
              <div class="hbars">
                {mean.map(([word, v]) => (
                  <>
                    <span>{word}</span>
                    <svg
                      viewBox="0 0 100 14"
                      preserveAspectRatio="none"
                      role="img"
                      aria-label={`${word}: ${human(v, "ratio")}`}
                    >
                      <rect class="track" width="100" height="14" />
                      <rect class="fill" y="3" width={100 * Math.min(1, v)} height="8" />
                    </svg>
                    <span title={exact(v, "ratio")}>{human(v, "ratio")}</span>
                  </>
                ))}
              </div>
            </>
          )}
          {busy.length > 0 && (
            <>
              <TimeChart
                title="Share of the time each unit of its GPUs was busy"
                times={times}
                lines={busy}
                unit="ratio"
                height={180}
                group={group}
              />
              <p class="quiet">
                Mean of the GPUs while it computed on them; of a shared GPU, the work of others is
                in it.
              </p>
            </>
          )}
        </Section>
      )}
      {waits.length > 0 && (
        <Section title="Wait of threads for a core">
          <TimeChart
            title="Wait of threads for a core"
            times={times}
            lines={waits}
            unit="seconds"
            height={180}
            group={group}
          />
          <p class="quiet">From ready to running, each time that a thread got a core.</p>
        </Section>
      )}
      {disks.length > 0 && (
        <Section title="Threads that waited for disks">
          <TimeChart
            title="Threads that waited for disks"
            times={times}
            lines={disks}
            unit="count"
            height={180}
            stack
            group={group}
          />
          <p class="quiet">
            Asleep until the disk had answered. Waits for network file systems are not in it.
          </p>
        </Section>
      )}
      {places.length > 0 && (
        <Section title="Memory by NUMA node">
          <TimeChart
            title="Memory by NUMA node"
            times={times}
            lines={places}
            unit="bytes"
            height={180}
            stack
            group={group}
          />
        </Section>
      )}
    </div>
  );
}

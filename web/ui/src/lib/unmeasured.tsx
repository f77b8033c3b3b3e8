// Figures that nothing measures on a node, with the reasons that its sensors give.
import { useAsk, promInstant } from "./api";
import { Words } from "./parts";
import { promAny, promQuote } from "./stack";
import { has } from "./state";
import type { Sensor, WorkloadDetail } from "./types";

/** A figure, the sensors of which any one measures it, and how to get it where the agent was not asked for any of them. */
interface Source {
  what: string;
  sensors: string[];
  off?: string;
}

export const sources: Record<string, Source> = {
  traffic: {
    what: "memory traffic by workload",
    sensors: ["counters", "resctrl"],
    off: "the agent counts it with the setting counters, where the kernel shows the counters of the processor; virtual machines mostly have none",
  },
  controllers: { what: "memory traffic by socket", sensors: ["uncore", "resctrl"] },
  network: { what: "network by workload", sensors: ["traffic"] },
  waits: { what: "threads that wait for disks", sensors: ["waits"] },
  runqueue: { what: "wait of threads for a core", sensors: ["runqueue"] },
  response: { what: "response time of disks", sensors: ["disks"] },
  pressure: { what: "pressure", sensors: ["pressure"] },
  power: {
    what: "power",
    sensors: ["power-model", "rapl", "cray", "hwmon", "redfish", "battery", "host", "tegra"],
  },
  gpu: { what: "GPUs", sensors: ["nvml", "amdgpu", "drm", "tegra"] },
};

/** Why nothing measures a figure; empty where a sensor does, or where the node has not reported its sensors. */
export function whyNot(key: string, sensors: Sensor[]): string {
  const s = sources[key];
  if (!s || sensors.length === 0) return "";
  const mine = s.sensors.flatMap((name) => sensors.filter((x) => x.sensor === name));
  if (mine.some((x) => x.up)) return "";
  const reasons = [
    ...new Set([
      ...(s.off && !mine.some((x) => x.sensor === s.sensors[0]) ? [s.off] : []),
      ...mine.map((x) => x.reason ?? "").filter(Boolean),
    ]),
  ];
  // One reason tells more than a list of all meters that could have been there.
  return reasons.slice(0, s.sensors.length > 2 ? 1 : 2).join("; ");
}

/** What of the figures is not measured, and why; nothing where all are. */
export function Unmeasured({
  of,
  sensors,
  where,
}: {
  of: string[];
  sensors: Sensor[];
  where: string;
}) {
  const list = of.flatMap((key): [string, string][] => {
    const why = whyNot(key, sensors);
    return why ? [[sources[key].what, why]] : [];
  });
  if (list.length === 0) return null;
  return (
    <details class="later">
      <summary>
        Not measured {where}: {list.map(([what]) => what).join(", ")}
      </summary>
      <dl class="keys">
        {list.map(([what, why]) => (
          <>
            <dt>{what}</dt>
            <dd class="quiet wrap">
              <Words>{why}</Words>
            </dd>
          </>
        ))}
      </dl>
    </details>
  );
}

/** The same of a workload, by the sensors of its nodes when it ran. */
export function UnmeasuredOf({ d, of }: { d: WorkloadDetail; of: string[] }) {
  const names = [...new Set(of.flatMap((key) => sources[key].sensors))],
    at = Date.parse(d.end ?? d.seen) / 1000;
  const sel = `node=~${promAny(d.nodes.slice(0, 20))},sensor=~${promAny(names)}${d.site ? `,site=${promQuote(d.site)}` : ""}`;
  const a = useAsk(
    has("prometheus") && of.length > 0 && d.nodes.length > 0 && at > 0
      ? `sensors ${d.id} ${at} ${names}`
      : null,
    false,
    (_p, s) =>
      promInstant(`max by (sensor, reason) (last_over_time(reckon_sensor_up{${sel}}[10m]))`, s, at),
    `sensors ${d.id} ${d.start}`,
  );
  const sensors = (a.data ?? []).map((s): Sensor => ({
    sensor: s.metric.sensor,
    up: Number(s.value?.[1]) > 0,
    reason: s.metric.reason,
  }));
  return (
    <Unmeasured
      of={of}
      sensors={sensors}
      where={d.nodes.length > 1 ? "on its nodes" : "on its node"}
    />
  );
}

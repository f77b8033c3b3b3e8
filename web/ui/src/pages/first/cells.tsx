// Nodes as coloured cells, grouped by partition.
import { useMemo, useRef } from "preact/hooks";
import { promInstant, useAsk, type Failure } from "../../lib/api";
import { pressure } from "../../lib/nodes";
import { Choice, clean, Problem, Section } from "../../lib/parts";
import { go, has, nodeLink, param, set } from "../../lib/state";
import type { Node, Num } from "../../lib/types";
import { human, known } from "../../lib/units";

const whats: [string, string][] = [
  ["cpu", "CPU"],
  ["memory", "Memory"],
  ["gpu", "GPU"],
  ["power", "Power"],
  ["pressure", "Pressure"],
  ["disk", "Disk"],
];

/** The share (0 to 1) that colours a cell, its words and, for hover, more of them; null when not measured. */
export function figure(
  n: Node,
  what: string,
  top: number,
  gpu?: Map<string, number>,
): { share: number | null; text: string; more?: string } {
  if (what === "pressure") {
    const p = pressure(n);
    return { share: p?.share ?? null, text: human(p?.share, "ratio"), more: p?.all };
  }
  const of = (v: Num, w: Num) => (known(v) && known(w) && w > 0 ? v / w : null);
  const share =
    what === "gpu"
      ? (gpu?.get((n.site ?? "") + "/" + n.node) ?? null)
      : what === "memory"
        ? of(n.memory_used_bytes, n.memory_bytes)
        : what === "power"
          ? of(n.power_watts, top)
          : what === "disk"
            ? of(n.disk_bytes_per_second, top)
            : of(n.cores_used, n.cores);
  const text =
    what === "power"
      ? human(n.power_watts, "watts")
      : what === "disk"
        ? human(n.disk_bytes_per_second, "bytes_per_second")
        : human(share, "ratio");
  return { share, text };
}

/** Nodes by the first partition that each is in; without a batch system all together. */
export function grouped(nodes: Node[]): [string, Node[]][] {
  const by = new Map<string, Node[]>();
  for (const n of nodes) {
    const k = n.batch?.partitions?.[0] ?? "";
    by.set(k, [...(by.get(k) ?? []), n]);
  }
  return [...by].sort(([a], [b]) => (a === "" ? 1 : b === "" ? -1 : a.localeCompare(b)));
}

export function Cells({ nodes }: { nodes: Node[] }) {
  const what = param("show") || "cpu",
    [gpu, gpuError] = useGPU(what === "gpu"),
    groups = useMemo(() => grouped(nodes), [nodes]);
  const top = Math.max(
    0,
    ...nodes.map((n) => (what === "power" ? n.power_watts : n.disk_bytes_per_second) ?? 0),
  );
  const box = useRef<HTMLDivElement>(null);
  const move = (e: KeyboardEvent) => {
    const all = [...box.current!.querySelectorAll<HTMLElement>(".cell")],
      i = all.indexOf(document.activeElement as HTMLElement);
    if (i < 0) return;
    const across = Math.max(1, all.filter((c) => c.offsetTop === all[0].offsetTop).length);
    const to =
      i + ({ ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[e.key] ?? 0);
    if (e.key === "Enter" || to === i || !all[to]) return;
    e.preventDefault();
    all[i].tabIndex = -1;
    all[to].tabIndex = 0;
    all[to].focus();
  };
  const size = nodes.length > 200 ? "many" : "";
  let at = 0;
  return (
    <Section
      title="Nodes"
      aside={
        <Choice
          label="Colour by"
          value={what}
          of={whats}
          pick={(v) => set({ show: v === "cpu" ? "" : v })}
        />
      }
    >
      <div ref={box} role="group" aria-label={`Nodes by ${what}; arrow keys move`} onKeyDown={move}>
        {groups.map(([name, list]) => (
          <div class={"part" + (groups.length === 1 && name === "" ? " alone" : "")}>
            {(groups.length > 1 || name !== "") && (
              <b>
                <bdi>{clean(name || "others").slice(0, 24)}</bdi>
              </b>
            )}
            <div class={"grid " + size}>
              {list.map((n) => {
                const f = figure(n, what, top, gpu),
                  first = at++ === 0;
                const c = !n.up
                  ? "isdown"
                  : f.share === null
                    ? "none"
                    : "c" + Math.min(5, Math.floor(f.share * 6));
                const seen = !n.up
                  ? "✕"
                  : f.share === null
                    ? "–"
                    : what === "power" || what === "disk"
                      ? f.text.replace(/ .*/, "")
                      : String(Math.round(f.share * 100));
                const words = `${clean(n.node).slice(0, 40)} ${!n.up ? "down" : n.agent === false ? "no agent" : f.share === null ? `${what} not measured` : `${what === "power" || what === "disk" ? f.text : seen + " %"} ${what}${f.more ? `: ${f.more}` : ""}`}`;
                return (
                  <a
                    key={(n.site ?? "") + "/" + n.node}
                    class={"cell " + c}
                    href={nodeLink(n.node, n.site)}
                    tabIndex={first ? 0 : -1}
                    aria-label={words}
                    title={words}
                    onClick={(e) => {
                      if (!e.ctrlKey && !e.metaKey) {
                        e.preventDefault();
                        go(nodeLink(n.node, n.site));
                      }
                    }}
                  >
                    {seen}
                  </a>
                );
              })}
            </div>
          </div>
        ))}
      </div>
      {gpuError && <Problem e={gpuError} />}
      <p class="scale">
        idle{" "}
        {[0, 1, 2, 3, 4, 5].map((i) => (
          <i class={"c" + i} />
        ))}{" "}
        full{" "}
        {what === "power" || what === "disk"
          ? `(${human(top, what === "power" ? "watts" : "bytes_per_second")})`
          : "(percent)"}{" "}
        · ✕ down · – not measured
      </p>
    </Section>
  );
}

/** Busy share of the GPUs of each node, mean of five minutes. */
function useGPU(wanted: boolean): [Map<string, number> | undefined, Failure | undefined] {
  const a = useAsk(wanted && has("prometheus") ? "busy share of GPUs" : null, true, (_p, s) =>
    promInstant(
      "sum by (site, node) (rate(reckon_gpu_busy_seconds_total[5m])) / count by (site, node) (reckon_gpu_busy_seconds_total)",
      s,
    ),
  );
  return [
    useMemo(
      () =>
        a.data &&
        new Map(
          a.data.map((s) => [
            (s.metric.site ?? "") + "/" + (s.metric.node ?? ""),
            Number(s.value?.[1]),
          ]),
        ),
      [a.data],
    ),
    a.error,
  ];
}

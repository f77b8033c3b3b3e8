// Who used it over time: a stack up to what was there, with what was allocated.
import { useMemo } from "preact/hooks";
import { useAsk } from "../../lib/api";
import { TimeChart, type Line, type Mark } from "../../lib/chart";
import { Empty, Show } from "../../lib/parts";
import { zoomTo, type Range } from "../../lib/range";
import { inksOf } from "../../lib/ink";
import { inUse, measures, priced } from "../../lib/measure";
import { rest, type Row } from "../../lib/stack";
import { nothing, ownerLink, param, workloadLink, me } from "../../lib/state";
import { human } from "../../lib/units";
import type { Node } from "../../lib/types";
import { usersOf, type By, type Use, type What } from "../../lib/users";

export const tall = 300;
export const useUse = (r: Range, list: Node[] | null, by: By, what: What, offset = 0) => {
  const nodes = list?.length ?? 0,
    cores = list?.reduce((a, n) => a + (n.up ? (n.cores ?? 0) : 0), 0);
  const w = offset === 0 ? r : { ...r, from: r.from - offset, to: r.to - offset };
  return useAsk<Use>(
    nodes > 0 ? `use ${by} ${what} ${w.from} ${w.to} ${param("tariff")}` : null,
    false,
    (_p, s) =>
      usersOf(w, nodes, by, what, s, cores).then((u) => (what === "money" ? priced(u) : u)),
    `use ${by} ${what} ${r.length} ${r.fixed ? r.from : ""} ${offset}`,
  );
};

/** The colour of each of those that are drawn, by nameOf. */
export const inkOf = (use: Use) => inksOf(use.users.map(nameOf));
export const nameOf = (x: { name: string; owner: string }) =>
  x.owner ? `${x.name} of ${x.owner}` : x.name;

export function UseStack({
  u,
  before,
  by,
  what,
  marks,
  you,
}: {
  u: ReturnType<typeof useUse>;
  before?: Use;
  by: By;
  what: What;
  marks: Mark[];
  /** Who sees the names of no others. */ you?: string;
}) {
  const drawn = useMemo(() => {
    const d = u.data;
    if (!d) return null;
    const ink = inkOf(d),
      lines: Line[] = d.users
        .map((x): Line => ({
          label: x.name,
          row: x.row,
          ink: ink.get(nameOf(x)),
          href:
            me.value?.role === "public"
              ? undefined
              : by === "owner"
                ? ownerLink(x.name)
                : by === "workload" && x.ids.length === 1
                  ? workloadLink(x.ids[0])
                  : by === "workload"
                    ? "/workloads?" + new URLSearchParams({ q: `name:${JSON.stringify(x.name)}` })
                    : undefined,
        }))
        .reverse();
    const others = rest(
      d.all,
      d.users.map((x) => x.row),
    );
    if (!you) lines.unshift({ label: "others", row: others, quiet: 1 });
    const unknown = rest(
      d.machine.map((m, i) => (m === null ? null : Math.max(m, d.all[i] ?? 0))),
      [d.all],
    );
    if (unknown.some((v) => (v ?? 0) > 0.01))
      lines.unshift({
        label: (you ? ["others", "others and idle"] : ["not attributed", "idle"])[
          Number(what === "energy" || what === "money")
        ],
        row: unknown,
        quiet: you ? 1 : 3,
      });
    const over: Line[] = [],
      any = (r: Row) => r.some((v) => v !== null);
    const most = (r: Row) => r.reduce<number>((a, v) => Math.max(a, v ?? 0), 0);
    if (any(d.held)) over.push({ label: you ? "allocated to you" : "allocated", row: d.held });
    if (any(d.size))
      over.push({
        label: human(most(d.size), measures[what].rate()) + measures[what].word,
        row: d.size,
      });
    const past = before ? inUse(before) : []; // the same that the headline compares
    if (any(past))
      over.push({
        label: what === "energy" ? "drawn before" : "used before",
        row: d.times.map((_, i) => past[i] ?? null),
      });
    const now = Date.now() / 1000,
      last = d.times[d.times.length - 1];
    return {
      times: d.times,
      lines,
      over,
      open: d.step >= 3600 && last + d.step > now ? last : undefined,
      steps: d.step >= 3600,
    };
  }, [u.data, before, by, what, you]);
  return (
    <div class="keep" style={`min-height:${tall + 28}px`}>
      <Show a={u}>
        {() =>
          !drawn || drawn.lines.length === 0 ? (
            <Empty>{nothing()} was measured in this time.</Empty>
          ) : (
            <TimeChart
              title={measures[what].chart}
              times={drawn.times}
              lines={drawn.lines}
              over={drawn.over}
              unit={measures[what].rate()}
              stack
              labels
              steps={drawn.steps}
              open={drawn.open}
              height={tall}
              marks={marks}
              zoom={zoomTo}
            />
          )
        }
      </Show>
    </div>
  );
}

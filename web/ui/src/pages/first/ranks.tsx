// People and workloads, who used most first: used, allocated and not used, what stands out of each.
import { useState } from "preact/hooks";
import type { Asked } from "../../lib/api";
import { colour } from "../../lib/chart";
import {
  amount,
  clean,
  Empty,
  Name,
  opposite,
  printing,
  Q,
  quantity,
  same,
  Show,
} from "../../lib/parts";
import type { Rank, Ranking } from "../../lib/ranked";
import { me, ownerLink, workloadLink } from "../../lib/state";
import { wordsOf, type Todo } from "../../lib/todo";
import type { WorkloadList } from "../../lib/types";
import { exact, human, known } from "../../lib/units";
import { allocable, byMeasure, figuresOf, measures, sizeOf, tariff } from "../../lib/measure";
import { named, rangeBetween } from "../../lib/range";
import type { By, Use, What } from "../../lib/users";
import { alike, titleOf } from "../../lib/names";
import { inkOf, nameOf } from "./stack";

const few = 9;
export function Ranks({
  a,
  by,
  use,
  todo,
  workloads,
  what,
  you,
  before,
}: {
  a: Asked<Ranking>;
  by: By;
  what: What;
  /** The same length of time before, where it is compared. */ before?: Ranking;
  /** The reader, where what others used is not shown by name. */ you?: string;
  use?: Use;
  todo: Todo[];
  /** The largest of all, for what people run. */ workloads?: WorkloadList;
}) {
  const [all, setAll] = useState(false);
  return (
    <div class="keep" style="min-height:26rem">
      <Show a={a}>
        {(d) => {
          const sorted = byMeasure(d.rows, what),
            rows = all || printing.value ? sorted : sorted.slice(0, few),
            top = Math.max(...sorted.map((r) => sizeOf(r, what)), 1);
          if (sorted.length === 0)
            return (
              <Empty>
                {you
                  ? "You used nothing in this time. What others used is not shown to you by name."
                  : what === "money" && !tariff.value
                    ? "Set the price of a kWh above."
                    : measures[what].nothing}
              </Empty>
            );
          const others = (["cpu", "gpu", "energy"] as What[]).filter(
            (w) => w !== what && sorted.some((r) => sizeOf(r, w) > 0),
          );
          return (
            <>
              <div class="scroll" tabIndex={0} role="region" aria-label="Who used it">
                <table class="ranks">
                  <thead>
                    <tr>
                      <th scope="col">
                        {by === "owner"
                          ? "Person or service"
                          : by === "kind"
                            ? "Kind of work"
                            : "Workload"}
                      </th>
                      <th scope="col" class="wide_">
                        Used · unused
                      </th>
                      <th scope="col" class="number">
                        Used
                      </th>
                      <th scope="col" class="number">
                        Unused
                      </th>
                      {before && (
                        <th scope="col" class="number">
                          Before
                        </th>
                      )}
                      {others.map((w) => (
                        <th scope="col" class="number wide_">
                          {measures[w].column}
                        </th>
                      ))}
                      <th scope="col" class="wide_">
                        Worth a look
                      </th>
                    </tr>
                  </thead>
                  <tbody>
                    {rows.map((r) => (
                      <Row
                        key={r.name + r.owner}
                        r={r}
                        by={by}
                        top={top}
                        use={use}
                        todo={todo}
                        workloads={workloads}
                        what={what}
                        others={others}
                        span={d}
                        before={
                          before && (before.rows.find((x) => nameOf(x) === nameOf(r)) ?? null)
                        }
                        known_={!!before?.rows.length}
                      />
                    ))}
                  </tbody>
                </table>
              </div>
              <p class="quiet">
                {sorted.length > few && (
                  <button onClick={() => setAll(!all)}>
                    {all ? "Show fewer" : `Show all ${sorted.length}`}
                  </button>
                )}{" "}
                {measures[what].note}
                {d.hours && (
                  <span class="when">
                    ; whole hours, {named(rangeBetween(d.hours.since, d.hours.until))}
                  </span>
                )}
                {sorted.length < d.rows.length && (
                  <>
                    ; <Q v={d.rows.length - sorted.length} unit="count" /> more have none of it, or
                    it was not measured
                  </>
                )}
                .
                {d.proof && (
                  <span class="wrap"> Usage against the counters: {clean(d.proof)}.</span>
                )}
              </p>
            </>
          );
        }}
      </Show>
    </div>
  );
}

function Row({
  r,
  by,
  top,
  use,
  todo,
  workloads,
  what,
  others,
  before,
  known_,
  span,
}: {
  r: Rank;
  by: By;
  top: number;
  use?: Use;
  todo: Todo[];
  /** The largest of all, for what people run. */ workloads?: WorkloadList;
  what: What;
  others: What[];
  span: Ranking;
  /** The same of the time before; null where it was not there then, undefined where none is asked for. */ before?: Rank | null;
  /** Whether anything was measured then. */ known_: boolean;
}) {
  const i = use && inkOf(use).get(nameOf(r)),
    ink = i === undefined ? undefined : colour(i),
    f = figuresOf(r, what),
    used = (w: What) => amount(figuresOf(r, w).used, measures[w].cell(), r.is?.[w]),
    unused = amount(f.wasted, measures[what].cell(), opposite(r.is?.[what])),
    cell = (v: number | null) => human(v, measures[what].cell()),
    is = (kind: string, v: number | null, w: What) =>
      quantity(same(`${kind} ${w}`, `${by} ${r.name}`, span.span), v);
  const mine = todo.filter((t) =>
    by === "owner" ? t.owner === r.name : t.workloads.some((w) => r.ids.includes(w)),
  );
  const open = me.value?.role === "public",
    bar = (
      <svg
        class="usedbar"
        viewBox="0 0 100 12"
        preserveAspectRatio="none"
        role="img"
        aria-label={`used ${used(what)}, unused ${unused}`}
      >
        <rect class="waste" width={(100 * sizeOf(r, what)) / top} height="12" />
        <rect
          width={(100 * (f.used ?? 0)) / top}
          height="12"
          style={`fill:${ink ?? "var(--quiet)"}`}
        />
      </svg>
    );
  const chips = (
    <>
      {mine.slice(0, 2).map((t) => (
        <Chip t={t} />
      ))}
      {mine.length > 2 && (
        <a
          class="chip"
          href={
            "/findings?" +
            new URLSearchParams(
              r.owner || by === "owner" ? { owner: by === "owner" ? r.name : r.owner } : {},
            )
          }
        >
          {mine.length - 2} more
        </a>
      )}
    </>
  );
  return (
    <tr>
      <td>
        <i class="dot" style={ink ? `background:${ink}` : ""} aria-hidden="true" />
        <span>
          {by === "owner" ? (
            r.name === "nobody" || r.name === "others" || open ? (
              clean(r.name)
            ) : (
              <Name href={ownerLink(r.name)} max={32}>
                {r.name}
              </Name>
            )
          ) : by === "kind" ? (
            clean(r.name)
          ) : (
            <Work r={r} />
          )}
          <small class="id">
            {by === "owner" ? (
              doing(r.name, workloads)
            ) : by === "workload" ? (
              <>
                {r.ids.length > 1 ? (
                  <>
                    <Q v={r.ids.length} unit="count" /> of this name
                  </>
                ) : (
                  <bdi>{clean(r.ids[0] ?? "")}</bdi>
                )}
                {r.owner && <> · {clean(r.owner).slice(0, 32)}</>}
              </>
            ) : (
              ""
            )}
          </small>
          <span class="narrow_">
            {bar}
            {chips}
          </span>
        </span>
      </td>
      <td class="wide_">{bar}</td>
      <td class="number" {...is("used", f.used, what)} title={full(f.used, what, r.is?.[what])}>
        {used(what)}
      </td>
      <td
        class={
          "number" + ((f.wasted ?? 0) > (f.used ?? 0) && (f.wasted ?? 0) > 3600 ? " much" : "")
        }
        {...is("unused", f.wasted, what)}
        title={
          !allocable(what)
            ? measures[what].note
            : f.wasted === null
              ? "nothing was allocated by a batch system"
              : full(f.wasted, what)
        }
      >
        {unused}
      </td>
      {before !== undefined && (
        <td
          class="number"
          title={
            !known_
              ? "nothing was measured in the time before"
              : before
                ? full(figuresOf(before, what).used, what)
                : "nothing was used in the time before"
          }
        >
          {before ? cell(figuresOf(before, what).used) : known_ ? "0" : "–"}
        </td>
      )}
      {others.map((w) => (
        <td
          class="number wide_"
          {...is("used", figuresOf(r, w).used, w)}
          title={
            allocable(w) && known(figuresOf(r, w).wasted)
              ? `allocated and not used: ${full(figuresOf(r, w).wasted, w)}`
              : undefined
          }
        >
          {used(w)}
        </td>
      ))}
      <td class="wide_">{chips}</td>
    </tr>
  );
}

const full = (v: number | null, what: What, is?: string) =>
  (is && is !== "exact" ? is + " " : "") +
  (what === "cpu" || what === "gpu"
    ? exact(v === null ? null : v / 3600, what === "gpu" ? "GPU-hours" : "core-hours")
    : exact(v, measures[what].cell()));
const Work = ({ r }: { r: Rank }) => (
  <Name
    href={
      r.ids.length === 1
        ? workloadLink(r.ids[0])
        : "/workloads?" +
          new URLSearchParams({
            q: `name:${JSON.stringify(r.name)}${r.owner ? " owner:" + (/[\s":,]/.test(r.owner) ? JSON.stringify(r.owner) : r.owner) : ""}`,
          })
    }
    max={40}
  >
    {r.name}
  </Name>
);
export const Chip = ({ t }: { t: Todo }) => (
  <a
    class={"chip" + (t.grave === 0 ? " bad" : "")}
    title={clean(t.text)}
    href={
      t.kind === "finding"
        ? "/findings?" +
          new URLSearchParams({ ...(t.owner ? { owner: t.owner } : {}), rule: t.rule })
        : "/alerts"
    }
  >
    {t.kind === "finding" ? wordsOf(t.rule) : clean(t.rule)}
    {t.more > 0 && ` × ${t.more + 1}`}
  </a>
);

/** What somebody runs, by name: the biggest, and how many more. */
function doing(owner: string, list?: WorkloadList) {
  const groups = alike(
    (list?.workloads ?? []).filter((w) => w.owner === owner),
    titleOf,
    () => "",
  );
  if (groups.length === 0) return "";
  const more = groups.slice(1).reduce((a, g) => a + g.of.length, 0),
    g = groups[0];
  return (
    <>
      <bdi>{clean(g.title).slice(0, 40)}</bdi>
      {list!.total > list!.workloads.length ? (
        " and more"
      ) : (
        <>
          {g.of.length > 1 && (
            <>
              {" "}
              × <Q v={g.of.length} unit="count" />
            </>
          )}
          {more > 0 && (
            <>
              {" "}
              and <Q v={more} unit="count" /> more
            </>
          )}
        </>
      )}
    </>
  );
}

// People and workloads, who used most first: used, allocated and not used, what stands out of each.
import { useState } from "preact/hooks";
import type { Asked } from "../../lib/api";
import { colour } from "../../lib/chart";
import { clean, Empty, Name, Q, Show } from "../../lib/parts";
import type { Rank, Ranking } from "../../lib/ranked";
import { me, ownerLink, workloadLink } from "../../lib/state";
import { wordsOf, type Todo } from "../../lib/todo";
import type { Workload } from "../../lib/types";
import { exact, human, known } from "../../lib/units";
import { byMeasure } from "../../lib/measure";
import type { By, Use, What } from "../../lib/users";
import { alike, titleOf } from "../../lib/names";

const few = 9;
const hours = (v: number | null) => human(v, "core-h");

export function Ranks({
  a,
  by,
  use,
  todo,
  workloads,
  what,
  you,
}: {
  a: Asked<Ranking>;
  by: By;
  what: What;
  /** The reader, where what others used is not shown by name. */ you?: string;
  use?: Use;
  todo: Todo[];
  workloads: Workload[];
}) {
  const [all, setAll] = useState(false);
  return (
    <div class="keep" style="min-height:26rem">
      <Show a={a}>
        {(d) => {
          if (d.rows.length === 0)
            return (
              <Empty>
                {you
                  ? "You used nothing in this time. What others used is not shown to you by name."
                  : "Nothing was used in this time."}
              </Empty>
            );
          const sorted = byMeasure(d.rows, what),
            rows = all ? sorted : sorted.slice(0, few),
            top = Math.max(...d.rows.map((r) => r.used + (r.wasted ?? 0)), 1);
          const gpus = d.rows.some((r) => (r.gpu ?? 0) > 0 || (r.gpuWasted ?? 0) > 0),
            energy = d.rows.some((r) => known(r.joules));
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
                      {gpus && (
                        <th scope="col" class="number wide_">
                          GPU-hours
                        </th>
                      )}
                      {energy && (
                        <th scope="col" class="number wide_">
                          Energy
                        </th>
                      )}
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
                        gpus={gpus}
                        energy={energy}
                      />
                    ))}
                  </tbody>
                </table>
              </div>
              <p class="quiet">
                {d.rows.length > few && (
                  <button onClick={() => setAll(!all)}>
                    {all ? "Show fewer" : `Show all ${d.rows.length}`}
                  </button>
                )}{" "}
                Hours are core-hours; unused is allocated and not used
                {d.hours && ", in whole hours"}.
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
  gpus,
  energy,
}: {
  r: Rank;
  by: By;
  top: number;
  use?: Use;
  todo: Todo[];
  workloads: Workload[];
  gpus: boolean;
  energy: boolean;
}) {
  const i = use
      ? use.users.findIndex((u) => u.name === r.name && (by !== "workload" || u.owner === r.owner))
      : -1,
    ink = i >= 0 && use ? colour(i) : undefined;
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
        aria-label={`used ${hours(r.used)}, unused ${hours(r.wasted)}`}
      >
        <rect class="waste" width={(100 * (r.used + (r.wasted ?? 0))) / top} height="12" />
        <rect width={(100 * r.used) / top} height="12" style={`fill:${ink ?? "var(--quiet)"}`} />
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
                {r.ids.length > 1 ? `${r.ids.length} of this name` : clean(r.ids[0] ?? "")}
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
      <td class="number" title={exact(r.used / 3600, "core-hours")}>
        {hours(r.used)}
      </td>
      <td
        class={"number" + ((r.wasted ?? 0) > r.used && (r.wasted ?? 0) > 3600 ? " much" : "")}
        title={
          r.wasted === null
            ? "nothing was allocated by a batch system"
            : exact(r.wasted / 3600, "core-hours")
        }
      >
        {hours(r.wasted)}
      </td>
      {gpus && (
        <td
          class="number wide_"
          title={
            known(r.gpuWasted)
              ? `allocated and not used: ${human(r.gpuWasted, "gpu-seconds")}`
              : undefined
          }
        >
          {known(r.gpu) ? hours(r.gpu) : "–"}
        </td>
      )}
      {energy && (
        <td class="number wide_">
          <Q v={r.joules} unit="joules" />
        </td>
      )}
      <td class="wide_">{chips}</td>
    </tr>
  );
}

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
function doing(owner: string, workloads: Workload[]) {
  const groups = alike(
    workloads.filter((w) => w.owner === owner),
    titleOf,
    () => "",
  );
  if (groups.length === 0) return "";
  const more = groups.slice(1).reduce((a, g) => a + g.of.length, 0),
    g = groups[0];
  return (
    <>
      {clean(g.title).slice(0, 40)}
      {g.of.length > 1 && ` × ${g.of.length}`}
      {more > 0 && ` and ${more} more`}
    </>
  );
}

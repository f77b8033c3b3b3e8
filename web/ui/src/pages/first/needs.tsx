// What needs somebody: who, what, since when, and where to look.
import { duration as lasting } from "../../lib/units";
import { useAsk } from "../../lib/api";
import { clean, Empty, Name, NodeName, Owner, When } from "../../lib/parts";
import { titleOf } from "../../lib/names";
import { workloadLink } from "../../lib/state";
import { without, wordsOf, type Todo } from "../../lib/todo";
import type { WorkloadList } from "../../lib/types";
import { human } from "../../lib/units";

const few = 6;
const nothing = {
  seen: "Nothing: no alert is firing and every node reports.",
  hidden: "Every node reports. Alerts are shown to administrators and support only.",
  failed: "Every node reports. Whether an alert is firing could not be read.",
  none: "Nothing: every node reports.",
};
export function Needs({
  of,
  waits,
  looked,
  alerts,
}: {
  of: Todo[];
  waits: boolean;
  looked: boolean;
  /** Whether the alerts were looked at: not every viewer may see them, and not every server has any. */
  alerts: keyof typeof nothing;
}) {
  const list = of.slice(0, few),
    ids = [...new Set(list.flatMap((t) => t.workloads.slice(0, 1)))];
  const named = useAsk<WorkloadList>(
    ids.length
      ? "/api/reckon/v1/workloads?" +
          new URLSearchParams([...ids.map((id) => ["id", id]), ["limit", "50"]] as [
            string,
            string,
          ][])
      : null,
  );
  const name = (id: string) => {
    const w = named.data?.workloads.find((x) => x.id === id);
    return w ? titleOf(w) : id;
  };
  return (
    <div class="keep" style="min-height:14rem">
      {waits ? (
        <p class="loading" role="status">
          <span class="bar" aria-hidden="true" />
          Loading…
        </p>
      ) : of.length === 0 ? (
        <Empty>
          {nothing[alerts]}{" "}
          {looked
            ? "There are no findings."
            : "Findings are not checked yet: the first check runs a few minutes after the server starts."}
        </Empty>
      ) : (
        <ul class="todo">
          {list.map((t) => (
            <li key={t.kind + t.who + t.rule + t.since}>
              <span class={"w" + (t.grave === 0 ? " bad" : "")}>
                {t.grave === 0 && "● "}
                {t.owner ? (
                  <Owner o={t.owner} />
                ) : t.node ? (
                  <NodeName n={t.node} site={t.site} />
                ) : (
                  clean(t.who)
                )}{" "}
                <span class="plain">
                  {t.kind === "node"
                    ? t.text
                    : t.kind === "alert"
                      ? clean(without(t.text, t.owner || t.node || t.who))
                      : wordsOf(t.rule)}
                  {t.more > 0 && ` × ${t.more + 1}`}
                </span>
              </span>
              <div class="d">
                {t.kind === "finding" && (
                  <>
                    {t.workloads[0] ? (
                      <Name href={workloadLink(t.workloads[0], undefined, t.site)} max={40}>
                        {name(t.workloads[0])}
                      </Name>
                    ) : t.node && t.owner ? (
                      <NodeName n={t.node} site={t.site} />
                    ) : null}{" "}
                    <span class="wrap">{clean(t.text)}</span> ·{" "}
                  </>
                )}
                {t.until ? (
                  <>
                    this was so from <When t={t.since} /> to <When t={t.until} />, and is over for{" "}
                    {lasting((Date.now() - Date.parse(t.until)) / 1000)}
                  </>
                ) : (
                  <>
                    since <When t={t.since} />
                  </>
                )}
                {(t.cores ?? 0) > 3600 && <> · {human(t.cores, "core-seconds")} lost</>}
                {(t.gpus ?? 0) > 360 && <> · {human(t.gpus, "gpu-seconds")} lost</>} ·{" "}
                <a
                  href={
                    t.kind === "finding"
                      ? "/findings?" +
                        new URLSearchParams({
                          ...(t.owner ? { owner: t.owner } : {}),
                          rule: t.rule,
                        })
                      : t.kind === "alert"
                        ? "/alerts"
                        : "/node?" + new URLSearchParams({ name: t.node ?? "" })
                  }
                >
                  {t.kind === "finding" ? "evidence" : "what happened"}
                </a>
              </div>
            </li>
          ))}
          {of.length > few && (
            <li class="d">
              <a href="/findings">{of.length - few} more</a>
            </li>
          )}
        </ul>
      )}
    </div>
  );
}

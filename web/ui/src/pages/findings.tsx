// Findings: what was found of misuse, its evidence, and who takes care.
import { signal } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import { Failure, ask, promRange, useAsk } from "../lib/api";
import { TimeChart, type Line } from "../lib/chart";
import {
  Choice,
  clean,
  Dialog,
  Empty,
  Name,
  NodeName,
  Owner,
  Problem,
  Q,
  Show,
  Table,
  When,
} from "../lib/parts";
import { axis, niceStep, onto } from "../lib/stack";
import { go, has, me, param, set, workloadLink } from "../lib/state";
import { query } from "../lib/search";
import { groupsOf, type FindingGroup } from "../lib/findings";
import { titleOf } from "../lib/names";
import { stepLines } from "../lib/steps";
import { ruleWords } from "../lib/rules";
import { without, wordsOf } from "../lib/todo";
import type {
  Workload,
  WorkloadList,
  Finding,
  FindingDifference,
  FindingList,
  FindingOwner,
  FindingSteps,
} from "../lib/types";
import { exact, human, known, type Unit } from "../lib/units";

/** Workloads of the findings shown, by id. */
const names = signal(new Map<string, Workload>());
const severities: Record<string, string> = { high: "critical", medium: "warning", low: "info" };

const may = () => !me.value || me.value.role === "admin" || me.value.role === "support";

export function Findings() {
  const state = param("state"),
    rule = param("rule"),
    muted = param("muted") === "true",
    owner = param("owner");
  const path =
    "/api/reckon/v1/findings?" +
    query({
      state: state === "all" ? ["new", "open", "gone"] : state || undefined,
      rule: rule || undefined,
      owner: owner || undefined,
      muted: muted ? "true" : undefined,
      limit: 500,
    });
  const a = useAsk<FindingList>(path, true),
    [trying, setTrying] = useState(false);
  const ids = useMemo(
    () =>
      [
        ...new Set(
          (a.data?.findings ?? [])
            .map((f) => f.workload ?? "")
            .filter((id) => id.length > 0 && id.length < 200),
        ),
      ].slice(0, 100),
    [a.data],
  );
  const named = useAsk<WorkloadList>(
    ids.length ? "/api/reckon/v1/workloads?" + query({ id: ids, limit: 400 }) : null,
  );
  useEffect(() => {
    if (named.data) names.value = new Map(named.data.workloads.map((w) => [w.id, w]));
  }, [named.data]);
  return (
    <>
      <h1>Findings</h1>
      <div class="controls">
        <Choice
          label="Show"
          value={state}
          of={[
            ["", "current"],
            ["new", "new"],
            ["gone", "gone"],
            ["all", "all"],
          ]}
          pick={(v) => set({ state: v })}
        />
        <label>
          Rule{" "}
          <select value={rule} onChange={(e) => set({ rule: e.currentTarget.value })}>
            <option value="">all</option>
            {Object.keys(ruleWords).map((r) => (
              <option value={r}>{wordsOf(r)}</option>
            ))}
          </select>
        </label>
        <label>
          <input
            type="checkbox"
            checked={muted}
            onChange={(e) => set({ muted: e.currentTarget.checked ? "true" : "" })}
          />{" "}
          with those muted
        </label>
        {owner && <button onClick={() => set({ owner: "" })}>Of everybody</button>}
        <a href={path + "&format=csv"} download="findings.csv">
          CSV
        </a>{" "}
        <a href="/api/reckon/v1/policy">Policy</a>{" "}
        {may() && <button onClick={() => setTrying(true)}>What if…</button>}
      </div>
      {trying && <WhatIf close={() => setTrying(false)} />}
      <Show a={a}>
        {(d) =>
          d.findings.length === 0 ? (
            <Empty>
              {d.looked ? (
                <>
                  No findings. Last checked <When t={d.looked} relative />.
                </>
              ) : (
                "Not checked yet: the first check runs a few minutes after the server starts."
              )}
            </Empty>
          ) : (
            <>
              <p class="quiet" role="status">
                {d.total} finding{d.total === 1 ? "" : "s"}
                {d.total > d.findings.length && `, the gravest ${d.findings.length}`}; checked{" "}
                <When t={d.looked} relative />
              </p>
              <Owners of={d.owners ?? []} />
              <Groups of={d.findings} again={a.again} />
            </>
          )
        }
      </Show>
    </>
  );
}

/** Findings of one rule and person together, those that cost most first; a search among them. */
function Groups({ of, again }: { of: Finding[]; again: () => void }) {
  const find = param("q").toLowerCase(),
    hit = (f: Finding) =>
      [f.rule, f.owner, f.workload, f.node, f.text, f.part].some((t) =>
        (t ?? "").toLowerCase().includes(find),
      );
  const list = find === "" ? of : of.filter(hit),
    groups = useMemo(() => groupsOf(list), [list]);
  return (
    <>
      {of.length > few && (
        <label class="search">
          <span class="hidden">Find among them</span>
          <input
            type="search"
            data-search
            placeholder="Find by person, work, node or words"
            value={param("q")}
            onInput={(e) => set({ q: e.currentTarget.value })}
          />
        </label>
      )}
      {groups.length === 0 ? (
        <Empty>
          No finding matches. <button onClick={() => set({ q: "" })}>Show all</button>
        </Empty>
      ) : (
        groups.map((g, i) =>
          g.of.length === 1 && of.length <= few ? (
            <One key={g.key} f={g.of[0]} again={again} open />
          ) : (
            <Group key={g.key} g={g} again={again} open={i === 0} few={of.length <= few} />
          ),
        )
      )}
    </>
  );
}

function Group({
  g,
  again,
  open,
  few: small,
}: {
  g: FindingGroup;
  again: () => void;
  open: boolean;
  few: boolean;
}) {
  const [muting, setMuting] = useState(false),
    [done, setDone] = useState(""),
    f = g.of[0],
    [shown, setShown] = useState(open);
  const all = async (reason: string, until: string) => {
    let failed = "",
      n = 0;
    for (const x of g.of)
      await ask(
        `/api/reckon/v1/findings/${encodeURIComponent(x.id)}/mute?` +
          new URLSearchParams({ reason, until }),
        undefined,
        "POST",
      ).then(
        () => {
          n++;
        },
        (e) => {
          failed = String((e as Error).message);
        },
      );
    setMuting(false);
    setDone(failed ? `${n} of ${g.of.length} are muted: ${failed}` : "");
    again();
  };
  return (
    <details
      class={"group note " + (severities[f.severity] ?? "info")}
      open={shown}
      onToggle={(e) => setShown(e.currentTarget.open)}
    >
      <summary>
        <b>{f.owner ? clean(f.owner) : clean(f.node ?? "")}</b>: {wordsOf(f.rule)}
        {g.of.length > 1 && ` × ${g.of.length}`}{" "}
        <span class="quiet">
          {g.of.length === 1 && <> · {clean(without(f.text, f.owner || f.node || ""))}</>} ·{" "}
          {f.severity}
          {g.cores > 0 && (
            <>
              {" "}
              · <Q v={g.cores} unit="core-seconds" /> lost
            </>
          )}
          {g.gpus > 0 && (
            <>
              {" "}
              · <Q v={g.gpus} unit="gpu-seconds" /> lost
            </>
          )}{" "}
          · since <When t={g.first} />
        </span>
      </summary>
      {shown && (
        <>
          {may() && g.of.length > 1 && (
            <p>
              <button onClick={() => setMuting(true)}>Mute all {g.of.length}…</button>{" "}
              <span role="status">{done}</span>
            </p>
          )}
          {f.means && <Rule f={f} />}
          {g.of.map((x) => (
            <One key={x.id} f={x} again={again} open={small} grouped />
          ))}
        </>
      )}
      {muting && (
        <Mute
          f={f}
          close={() => setMuting(false)}
          send={(reason, until) => void all(reason, until)}
        />
      )}
    </details>
  );
}

/** Who wastes how much, one line for each owner. */
function Owners({ of }: { of: FindingOwner[] }) {
  if (of.length < 2) return null;
  return (
    <details open={of.length <= 6}>
      <summary>By owner ({of.length})</summary>
      <Table
        caption="Findings by owner, and what was allocated and not used"
        rows={of}
        keyOf={(o) => (o.site ?? "") + "/" + o.owner}
        cols={[
          { title: "Owner", cell: (o) => (o.owner ? <Owner o={o.owner} /> : "nodes and the site") },
          {
            title: "Findings",
            number: true,
            cell: (o) => (
              <button class="quiet" onClick={() => set({ owner: o.owner })}>
                {o.findings}
              </button>
            ),
          },
          { title: "Gravest", cell: (o) => o.severity },
          {
            title: "Cores wasted",
            number: true,
            cell: (o) => <Q v={o.wasted_core_seconds} unit="core-seconds" />,
          },
          {
            title: "GPUs wasted",
            number: true,
            cell: (o) => <Q v={o.wasted_gpu_seconds} unit="gpu-seconds" />,
          },
          {
            title: "Memory wasted",
            number: true,
            cell: (o) => <Q v={o.wasted_memory_byte_seconds} unit="byte-seconds" />,
          },
          { title: "Rules", cell: (o) => o.rules.map(wordsOf).join(", ") },
        ]}
      />
    </details>
  );
}

/** What is held against a limit as bars, the rest in words. */
function Reasons({ of }: { of: Finding["evidence"] }) {
  const held = of.filter((e) => known(e.limit) && Number.isFinite(e.value)),
    rest = of.filter((e) => !held.includes(e));
  return (
    <>
      {held.length > 0 && (
        <div class="hbars">
          {held.map((e) => {
            const top = Math.max(Math.abs(e.value), Math.abs(e.limit!), 1e-12);
            return (
              <>
                <span>{clean(e.text)}</span>
                <svg
                  viewBox="0 0 100 14"
                  preserveAspectRatio="none"
                  role="img"
                  aria-label={`${human(e.value, e.unit)}, limit ${human(e.limit, e.unit)}`}
                >
                  <title>{`${exact(e.value, e.unit)}, limit ${exact(e.limit, e.unit)}`}</title>
                  <rect class="track" width="100" height="14" />
                  <rect class="fill" y="3" width={(100 * Math.abs(e.value)) / top} height="8" />
                  <line
                    class="p95"
                    x1={(100 * Math.abs(e.limit!)) / top}
                    x2={(100 * Math.abs(e.limit!)) / top}
                    y1="0"
                    y2="14"
                  />
                </svg>
                <span title={exact(e.value, e.unit)}>
                  {human(e.value, e.unit)} <span class="quiet">limit {human(e.limit, e.unit)}</span>
                </span>
              </>
            );
          })}
        </div>
      )}
      {rest.length > 0 && (
        <ul class="said">
          {rest.map((e) => (
            <li class="wrap" title={exact(e.value, e.unit)}>
              {clean(e.text)} <b>{human(e.value, e.unit)}</b>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

/** Up to how many findings show their evidence at once. */
const few = 5;

/** What a rule looks for; the long text of one opens. */
function Rule({ f }: { f: Finding }) {
  const text = clean(f.means ?? ""),
    end = text.indexOf(". ");
  return (
    <p class="quiet wrap">
      The rule: {end < 0 ? text : text.slice(0, end)}.
      {end >= 0 && (
        <details class="more">
          <summary>How it is counted</summary>
          {text.slice(end + 2)}.
        </details>
      )}
    </p>
  );
}

/** A workload by its name, the id beside it. */
function Work({ id, site }: { id: string; site?: string }) {
  const w = names.value.get(id),
    called = w ? titleOf(w) : id;
  return (
    <>
      <Name href={workloadLink(id, undefined, site)} max={60}>
        {called}
      </Name>
      {called !== id && (
        <>
          {" "}
          <small class="id">
            <bdi>{clean(id).slice(0, 80)}</bdi>
          </small>
        </>
      )}
    </>
  );
}

function One({
  f,
  again,
  open,
  grouped,
}: {
  f: Finding;
  again: () => void;
  open: boolean;
  grouped?: boolean;
}) {
  const [error, setError] = useState<Failure | null>(null),
    [muting, setMuting] = useState(false);
  const isMuted = !!f.muted_until && Date.parse(f.muted_until) > Date.now();
  const post = (verb: string, q: Record<string, string>) =>
    ask(
      `/api/reckon/v1/findings/${encodeURIComponent(f.id)}/${verb}?` + new URLSearchParams(q),
      undefined,
      "POST",
    ).then(
      () => {
        setError(null);
        setMuting(false);
        again();
      },
      (e) => setError(e instanceof Failure ? e : new Failure(0, String(e))),
    );
  return (
    <article
      class={"note " + (severities[f.severity] ?? "info")}
      aria-label={`${f.rule}, ${f.severity}`}
    >
      <div class="head">
        <h2>
          <span class="word">{f.severity}</span>: {wordsOf(f.rule)}{" "}
          <small class="quiet">
            {clean(f.rule)}
            {f.part && ` (${clean(f.part)})`}, {f.state}
          </small>
        </h2>
        {may() && (
          <span>
            {!f.acknowledged && (
              <button onClick={() => post("acknowledge", {})}>Acknowledge</button>
            )}{" "}
            {isMuted ? (
              <button
                onClick={() =>
                  post("mute", {
                    reason: "no longer",
                    until: new Date(Date.now() - 1000).toISOString(),
                  })
                }
              >
                Unmute
              </button>
            ) : (
              <button onClick={() => setMuting(true)}>Mute…</button>
            )}
          </span>
        )}
      </div>
      <p class="wrap">{clean(f.text)}</p>
      {f.means && !grouped && <Rule f={f} />}
      <p class="quiet">
        {f.owner && (
          <>
            of <Owner o={f.owner} /> ·{" "}
          </>
        )}
        {f.workload && (
          <>
            <Work id={f.workload} site={f.site} /> ·{" "}
          </>
        )}
        {f.node && (
          <>
            <NodeName n={f.node} /> ·{" "}
          </>
        )}
        <When t={f.first} /> to <When t={f.last} /> · found <When t={f.found} relative />
        {f.acknowledged && (
          <>
            {" "}
            · acknowledged
            {f.acknowledged_by && (
              <>
                {" "}
                by <bdi>{clean(f.acknowledged_by)}</bdi>
              </>
            )}{" "}
            <When t={f.acknowledged} relative />
          </>
        )}
        {isMuted && (
          <>
            {" "}
            · muted until <When t={f.muted_until} />: <bdi>{clean(f.mute_reason ?? "")}</bdi>
          </>
        )}
      </p>
      {f.evidence.length > 0 && (
        <details open={open}>
          <summary>Evidence</summary>
          <Reasons of={f.evidence} />
        </details>
      )}
      {f.node && f.workload && (
        <p>
          <button
            class="quiet"
            onClick={() =>
              go(
                "/node?" +
                  new URLSearchParams({
                    name: f.node!,
                    from: String(Math.floor(Date.parse(f.first) / 1000) - 600),
                    to: String(Math.ceil(Date.parse(f.last) / 1000) + 600),
                  }),
              )
            }
          >
            Show the node at that time
          </button>
        </p>
      )}
      <Shown f={f} />
      {error && <Problem e={error} />}
      {muting && (
        <Mute
          f={f}
          close={() => setMuting(false)}
          send={(reason, until) => post("mute", { reason, until })}
        />
      )}
    </article>
  );
}

function Mute({
  f,
  close,
  send,
}: {
  f: Finding;
  close: () => void;
  send: (reason: string, until: string) => void;
}) {
  const [reason, setReason] = useState(""),
    [days, setDays] = useState("7"),
    [day, setDay] = useState("");
  return (
    <Dialog title={`Mute ${clean(f.rule)}`} close={close}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          send(reason.trim(), muteEnd(days, day).toISOString());
        }}
      >
        <p>It will not be listed, and no alert sent, until then.</p>
        <p>
          <label>
            Why{" "}
            <input
              required
              value={reason}
              maxLength={500}
              onInput={(e) => setReason(e.currentTarget.value)}
            />
          </label>
        </p>
        <p>
          <label>
            For{" "}
            <select value={days} onChange={(e) => setDays(e.currentTarget.value)}>
              <option value="1">a day</option>
              <option value="7">a week</option>
              <option value="30">30 days</option>
              <option value="365">a year</option>
              <option value="">until a day</option>
            </select>
          </label>
          {days === "" && (
            <>
              {" "}
              <label>
                Last day{" "}
                <input
                  type="date"
                  required
                  value={day}
                  min={new Date(Date.now()).toISOString().slice(0, 10)}
                  onInput={(e) => setDay(e.currentTarget.value)}
                />
              </label>
            </>
          )}
        </p>
        <p class="controls">
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button>Mute</button>
        </p>
      </form>
    </Dialog>
  );
}

/** A day that is named ends with it, in the viewer's zone. */
function muteEnd(days: string, day: string, now = Date.now()): Date {
  if (days !== "") return new Date(now + Number(days) * 86400000);
  const [y, m, d] = day.split("-").map(Number);
  return new Date(y, m - 1, d + 1);
}

/** The evidence over its time: how the score of over-share adds up, and what the queries of the finding give. */
function Shown({ f }: { f: Finding }) {
  const [open, setOpen] = useState(false);
  if (!f.queries?.length && f.rule !== "over-share") return null;
  return (
    <details onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>Over time</summary>
      {open && (
        <>
          {f.rule === "over-share" && <Steps f={f} />}
          {has("prometheus") &&
            f.queries?.map((q) => <Evidence key={q.query} f={f} text={q.text} expr={q.query} />)}
        </>
      )}
    </details>
  );
}

function Steps({ f }: { f: Finding }) {
  const a = useAsk<FindingSteps>(`/api/reckon/v1/findings/${encodeURIComponent(f.id)}/steps`),
    [chosen, choose] = useState("");
  // Nodes that were contended at the same time have a chart each, the one that adds most first.
  const nodes = useMemo(() => {
    const by = new Map<string, number>();
    for (const s of a.data?.steps ?? []) by.set(s.node, (by.get(s.node) ?? 0) + s.seconds);
    return [...by].sort((x, y) => y[1] - x[1]);
  }, [a.data]);
  const node = chosen || nodes[0]?.[0] || "";
  const drawn = useMemo(
    () => stepLines((a.data?.steps ?? []).filter((s) => s.node === node)),
    [a.data, node],
  );
  const unit =
    ({ bytes: "bytes", cores: "cores", gpus: "gpus" } as Record<string, Unit>)[
      a.data?.unit ?? ""
    ] ?? "count";
  return (
    <Show a={a}>
      {(d) =>
        drawn.times.length === 0 ? (
          <Empty>{d.note ?? "What it rests on is no longer kept."}</Empty>
        ) : (
          <>
            <h3>
              Use and fair share on{" "}
              {nodes.length > 1 ? (
                <select
                  aria-label="Node"
                  value={node}
                  onChange={(e) => choose(e.currentTarget.value)}
                >
                  {nodes.map(([n, s]) => (
                    <option value={n}>
                      {clean(n)} ({human(s, "seconds")})
                    </option>
                  ))}
                </select>
              ) : (
                <NodeName n={node} />
              )}{" "}
              while others wanted it
            </h3>
            <TimeChart
              title={`Use and fair share on ${clean(node)} while others wanted it`}
              times={drawn.times}
              lines={drawn.lines}
              unit={unit}
              height={180}
            />
            <p class="quiet">
              {d.steps.length} stretches in which others wanted it
              {nodes.length > 1 && ` on ${nodes.length} nodes`}; above the fair share they add up to{" "}
              {human(d.total, "seconds")} of the whole node.
            </p>
          </>
        )
      }
    </Show>
  );
}

function Evidence({ f, text, expr }: { f: Finding; text: string; expr: string }) {
  const w = useMemo(() => {
    const a = Date.parse(f.first) / 1000,
      b = Date.parse(f.last) / 1000,
      pad = Math.max(300, (b - a) * 0.1),
      step = niceStep(b - a + 2 * pad),
      from = Math.floor((a - pad) / step) * step;
    return { from, to: b + pad, step };
  }, [f.first, f.last]);
  const a = useAsk(`${expr} ${w.from} ${w.to}`, false, (_p, s) =>
      promRange(expr, w.from, w.to, w.step, s),
    ),
    times = useMemo(() => axis(w.from, w.to, w.step), [w]);
  const lines = useMemo(
    () =>
      (a.data ?? []).slice(0, 12).map((s): Line => ({
        label:
          Object.entries(s.metric)
            .filter(([k]) => k !== "__name__")
            .map(([, v]) => v)
            .join(" ") || text,
        row: onto(times, s),
      })),
    [a.data, times],
  );
  const marks = useMemo(
    () => [
      {
        from: Date.parse(f.first) / 1000,
        to: Date.parse(f.last) / 1000,
        label: "the finding",
        kind: "held" as const,
      },
    ],
    [f.first, f.last],
  );
  return (
    <div>
      <h3>
        {clean(text)}{" "}
        <a class="quiet" href={"/explore?" + new URLSearchParams({ expr })}>
          explore
        </a>
      </h3>
      <Show a={a}>
        {() =>
          lines.length === 0 ? (
            <Empty>Nothing is kept of it any more.</Empty>
          ) : (
            <TimeChart
              title={text}
              times={times}
              lines={lines}
              unit="count"
              marks={marks}
              height={160}
            />
          )
        }
      </Show>
    </div>
  );
}

/** What another policy would have found. */
function WhatIf({ close }: { close: () => void }) {
  const now = useAsk<string>("/api/reckon/v1/policy", false, async (p, s) => {
    const r = await fetch(p, { signal: s });
    const t = await r.text();
    if (!r.ok) throw new Failure(r.status, t);
    return t;
  });
  const [text, setText] = useState<string | null>(null),
    [since, setSince] = useState("1d"),
    [busy, setBusy] = useState(false),
    [error, setError] = useState<Failure | null>(null),
    [d, setD] = useState<FindingDifference | null>(null);
  const policy = text ?? now.data ?? "";
  const ran = async () => {
    setBusy(true);
    setError(null);
    try {
      const r = await fetch("/api/reckon/v1/policy/what-if", {
          method: "POST",
          headers: { Accept: "application/json" },
          body: new URLSearchParams({ policy, since }),
        }),
        body = (await r.json()) as FindingDifference & { error?: string; hint?: string };
      if (!r.ok) throw new Failure(r.status, body.error ?? `status ${r.status}`, body.hint);
      setD(body);
    } catch (e) {
      setError(e instanceof Failure ? e : new Failure(0, String(e)));
    }
    setBusy(false);
  };
  const list = (of: Finding[], sign: string) =>
    of.slice(0, 50).map((f) => (
      <p class={"wrap diff-" + sign}>
        {f.severity} {clean(f.rule)}: {clean(f.text)}{" "}
        {f.owner && (
          <span class="quiet">
            of <bdi>{clean(f.owner)}</bdi>
          </span>
        )}
      </p>
    ));
  return (
    <Dialog title="What if the policy were another" close={close}>
      <Show a={now}>
        {() => (
          <form
            onSubmit={(e) => {
              e.preventDefault();
              void ran();
            }}
          >
            <p>
              Change thresholds and see what would have been found. Nothing is kept and no message
              is sent.
            </p>
            <p>
              <label>
                Policy
                <textarea
                  class="policy"
                  spellcheck={false}
                  value={policy}
                  onInput={(e) => setText(e.currentTarget.value)}
                />
              </label>
            </p>
            <div class="controls">
              <Choice
                label="Over the last"
                value={since}
                of={[
                  ["6h", "6 h"],
                  ["1d", "day"],
                  ["7d", "week"],
                ]}
                pick={setSince}
              />
              <button disabled={busy}>{busy ? "Evaluating…" : "Evaluate"}</button>
            </div>
          </form>
        )}
      </Show>
      {error && <Problem e={error} />}
      <div role="status">
        {d && (
          <>
            <p>
              This policy would have found <b>{d.then}</b>, the present one <b>{d.now}</b>:{" "}
              {d.added.length} more, {d.removed.length} fewer.
            </p>
            {list(d.added, "added")}
            {list(d.removed, "removed")}
            {d.added.length === 0 && d.removed.length === 0 && <p>No difference.</p>}
          </>
        )}
      </div>
    </Dialog>
  );
}

// Alerts: what fires, what is about to, what is silenced, what fired before, and why.
import { useEffect, useMemo, useState } from "preact/hooks";
import { ask, Failure, promRange, useAsk } from "../lib/api";
import {
  clean,
  Dialog,
  Empty,
  NodeName,
  Owner,
  printing,
  Problem,
  Section,
  Show,
  Table,
  there,
  When,
} from "../lib/parts";
import { meaning } from "../lib/meaning";
import { has, me, workloadLink } from "../lib/state";
import { causes, fired, readable, type Alert, firing, minute, refined } from "../lib/todo";
import { duration } from "../lib/units";
import { useAlerts } from "./site";

interface Matcher {
  name: string;
  value: string;
  isRegex: boolean;
  isEqual: boolean;
}
interface Silence {
  id: string;
  status: { state: string };
  matchers: Matcher[];
  startsAt: string;
  endsAt: string;
  createdBy: string;
  comment: string;
}
interface Rule {
  name: string;
  query: string;
  duration: number;
  labels: Record<string, string>;
  annotations: Record<string, string>;
  alerts?: Alert[];
  type: string;
  health: string;
  lastError?: string;
}

/** A card each, as long as there are few: a network that is down silences a thousand nodes. */
const most = 30;
const silencesAt = "/alertmanager/api/v2/silences";
const admin = () => !has("auth") || me.value?.role === "admin";
const silencedBy = (labels: Record<string, string>, list: Silence[]) =>
  list.find(
    (s) =>
      s.status.state === "active" &&
      s.matchers.every((m) => {
        const v = labels[m.name] ?? "",
          hit = m.isRegex ? safe(m.value, v) : v === m.value;
        return (m.isEqual ?? true) ? hit : !hit;
      }),
  );
const safe = (re: string, v: string) => {
  try {
    return new RegExp(`^(?:${re})$`).test(v);
  } catch {
    return false;
  }
};

export function Alerts() {
  const a = useAlerts(),
    rules = useAsk<{ data: { groups: { name: string; rules: Rule[] }[] } }>(
      "/api/v1/rules?type=alert",
      true,
    ),
    silences = useAsk<Silence[]>(has("silences") ? silencesAt : null, true),
    receivers = useAsk<{ data: { activeAlertmanagers: { url: string }[] } }>(
      has("silences") ? null : "/api/v1/alertmanagers",
    );
  const to = useAsk<SetUp>(has("silences") ? receiversAt : null, true);
  const [all, setAll] = useState(false);
  const [quiet, setQuiet] = useState<Alert | null>(null);
  if (has("auth") && me.value && !["admin", "support"].includes(me.value.role))
    return (
      <>
        <h1>Alerts</h1>
        <Empty>
          Alerts are about the whole site: they are shown to support and administrators. What was
          found of your own work is on <a href="/findings">Findings</a>.
        </Empty>
      </>
    );
  const list = rules.data?.data.groups.flatMap((g) => g.rules) ?? [],
    active = silences.data ?? [];
  const ruleOf = (x: Alert) => list.find((r) => r.name === x.labels.alertname);
  const rows = (state: string) =>
    causes((a.data ?? []).filter((x) => x.state === state && !silencedBy(x.labels, active)));
  const silenced = (a.data ?? []).filter((x) => silencedBy(x.labels, active));
  return (
    <>
      <h1>Alerts</h1>
      <div class="keep" style="min-height:8rem">
        <Show a={there(rules) ? a : { ...a, data: undefined }}>
          {() => (
            <>
              <Section title={`Firing (${rows("firing").length})`}>
                {rows("firing").length === 0 ? (
                  <Empty>No alert is firing. {list.length} rules are evaluated all the time.</Empty>
                ) : (
                  <>
                    {rows("firing")
                      .slice(0, all || printing.value ? undefined : most)
                      .map(({ first: x, also }) => (
                        <One
                          a={x}
                          also={also}
                          r={ruleOf(x)}
                          to={sentTo(x, to.data)}
                          silence={has("silences") && admin() ? () => setQuiet(x) : undefined}
                        />
                      ))}
                    {rows("firing").length > most && (
                      <button onClick={() => setAll(!all)}>
                        {all ? "Show fewer" : `Show all ${rows("firing").length}`}
                      </button>
                    )}
                  </>
                )}
              </Section>
              {rows("pending").length > 0 && (
                <Section title={`About to fire (${rows("pending").length})`}>
                  {rows("pending").map(({ first: x, also }) => (
                    <One a={x} also={also} r={ruleOf(x)} />
                  ))}
                </Section>
              )}
              {silenced.length > 0 && (
                <Section title={`Silenced (${silenced.length})`}>
                  {silenced.map((x) => (
                    <One a={x} r={ruleOf(x)} />
                  ))}
                </Section>
              )}
            </>
          )}
        </Show>
      </div>
      {there(a, rules) && (
        <>
          {has("silences") ? (
            <>
              <Receivers />
              <Silences of={active} again={silences.again} />
            </>
          ) : (
            <p class="quiet">
              {receivers.data?.data.activeAlertmanagers.length === 0
                ? "Alerts notify nobody: this server keeps no receivers."
                : "Alerts go to an Alertmanager elsewhere: make silences there."}
            </p>
          )}
          <History alerts={a.data ?? []} />
          <Section title={`Rules (${list.length})`}>
            <details>
              <summary>All rules, with what each means</summary>
              <Table
                caption="Rules"
                rows={list}
                keyOf={(r) => r.name + r.query}
                cols={[
                  { title: "Rule", cell: (r) => clean(r.name) },
                  { title: "Severity", cell: (r) => r.labels.severity ?? "" },
                  { title: "Holds for", number: true, cell: (r) => duration(r.duration) },
                  {
                    title: "What it means",
                    cell: (r) => <span class="wrap">{clean(meaning(r))}</span>,
                  },
                  {
                    title: "",
                    cell: (r) => (
                      <a href={"/explore?" + new URLSearchParams({ expr: r.query })}>chart</a>
                    ),
                  },
                ]}
              />
            </details>
          </Section>
        </>
      )}
      {quiet && (
        <Make
          a={quiet}
          close={() => {
            setQuiet(null);
            silences.again();
          }}
        />
      )}
    </>
  );
}

function One({
  a,
  also = [],
  r,
  to = "",
  silence,
}: {
  a: Alert;
  /** Other alerts of the same cause. */ also?: Alert[];
  r?: Rule;
  /** Whom it goes to. */ to?: string;
  silence?: () => void;
}) {
  const at = Date.parse(a.activeAt) / 1000,
    l = a.labels;
  return (
    <article
      class={
        "note " +
        (l.severity === "critical" ? "critical" : l.severity === "info" ? "info" : "warning")
      }
      aria-label={l.alertname}
    >
      <div class="head">
        <h2>
          {clean(readable(a.annotations.summary ?? l.alertname))}{" "}
          <small class="quiet">{clean(l.alertname)}</small>
        </h2>
        {silence && <button onClick={silence}>Silence…</button>}
      </div>
      {a.annotations.description && (
        <p class="wrap">{clean(readable(a.annotations.description))}</p>
      )}
      {also.length > 0 && (
        <p class="quiet">
          Of the same cause:{" "}
          {also.map((x, i) => (
            <>
              {i > 0 && ", "}
              {clean(x.labels.alertname)} since <When t={x.activeAt} />
            </>
          ))}
        </p>
      )}
      {a.annotations.runbook && <p class="wrap">What to do: {clean(a.annotations.runbook)}</p>}
      <p class="quiet">
        {l.node && (
          <>
            <NodeName n={l.node} site={l.site} /> ·{" "}
          </>
        )}
        {l.owner && (
          <>
            <Owner o={l.owner} /> ·{" "}
          </>
        )}
        {l.workload && (
          <>
            <a href={workloadLink(l.workload)}>{clean(l.workload)}</a> ·{" "}
          </>
        )}
        since <When t={a.activeAt} />
        {to && " · sent to " + clean(to)}
        {r && (
          <>
            {" "}
            ·{" "}
            <a
              href={
                "/explore?" +
                new URLSearchParams({
                  expr: r.query,
                  from: String(Math.floor(at - 3600)),
                  to: String(Math.ceil(Math.min(Date.now() / 1000, at + 3600))),
                })
              }
            >
              the chart at that time
            </a>
          </>
        )}
        {a.annotations.runbook_url && /^https?:/.test(a.annotations.runbook_url) && (
          <>
            {" "}
            · <a href={a.annotations.runbook_url}>what to do</a>
          </>
        )}
      </p>
    </article>
  );
}

interface Delivery {
  receiver: string;
  integration: string;
  arrived: boolean;
  error: string;
  time?: string;
  failed?: number;
}
const tests = "/api/reckon/v1/alerts/test",
  receiversAt = "/api/reckon/v1/alerts/receivers";
interface SetUp {
  from: "page" | "file" | "elsewhere";
  receivers: { id: string; kind: string; where: string; by: string; integration: string }[];
  sent: { labels: Record<string, string>; to: string[] }[];
}
const labelled = (labels: Record<string, string>) => JSON.stringify(Object.entries(labels).sort());
/** Whom a firing alert goes to; empty where that is not known. */
function sentTo(a: Alert, of?: SetUp) {
  const s = of?.sent.find((s) => labelled(s.labels) === labelled(a.labels));
  return s ? s.to.join(", ") || "nobody" : "";
}
/** Who is notified of alerts, and whether the latest notification reached them; a test is one too. */
function Receivers() {
  const a = useAsk<{ deliveries: Delivery[] }>(tests + "/last", true),
    own = useAsk<SetUp>(receiversAt),
    page = own.data?.from === "page",
    setUp = (d: Delivery) => own.data?.receivers.find((r) => r.integration === d.integration),
    [sent, setSent] = useState<number | null>(null),
    [error, setError] = useState<Failure | null>(null),
    waits = sent !== null && a.data?.deliveries.some((d) => !d.time || Date.parse(d.time) < sent);
  useEffect(() => {
    if (!waits) return;
    const t = setInterval(a.again, 1000);
    return () => clearInterval(t);
  }, [waits, a.at]);
  const test = () =>
    ask<object>(tests, undefined, "POST").then(
      () => {
        setError(null);
        setSent(Date.now() - 2000);
      },
      (e) => setError(e),
    );
  const change = (form: URLSearchParams) =>
    ask<object>(receiversAt + "/change", undefined, "POST", {}, form).then(
      () => {
        setError(null);
        own.again();
        a.again();
        if (form.has("kind")) void test();
      },
      (e) => setError(e),
    );
  const shown = (d: Delivery[]) => (page ? d.filter(setUp) : d);
  return (
    <Section
      title="Receivers"
      aside={
        admin() &&
        shown(a.data?.deliveries ?? []).length > 0 && (
          <button onClick={test}>Send a test alert</button>
        )
      }
    >
      <Show a={a}>
        {(d) =>
          shown(d.deliveries).length === 0 ? (
            <Empty>
              {page
                ? "Alerts notify nobody yet."
                : "No receiver is named in a route: alerts notify nobody."}
            </Empty>
          ) : (
            <Table
              caption="Receivers of alerts"
              rows={shown(d.deliveries)}
              keyOf={(r) => r.receiver + r.integration}
              cols={[
                {
                  title: "Receiver",
                  cell: (r) => (
                    <span class="wrap">{clean(page ? (setUp(r)?.where ?? "") : r.receiver)}</span>
                  ),
                },
                {
                  title: "By",
                  cell: (r) =>
                    clean(page ? (setUp(r)?.kind ?? "") : r.integration.replace(/\[0\]$/, "")),
                },
                {
                  title: "Latest notification",
                  cell: (r) => (
                    <>
                      {!r.time ? (
                        "None since the server started."
                      ) : r.arrived ? (
                        <>
                          <span class="up" /> Arrived <When t={r.time} relative />.
                        </>
                      ) : (
                        <span class="wrap">
                          <span class="down" /> <b>Refused</b>
                          {(r.failed ?? 0) > 1 && ` ${r.failed} times in a row, the last`}{" "}
                          <When t={r.time} relative />: {clean(r.error).slice(0, 400)}
                        </span>
                      )}
                      {sent !== null &&
                        (!r.time || Date.parse(r.time) < sent) &&
                        " Test is on its way…"}
                    </>
                  ),
                },
                {
                  title: "",
                  cell: (r) =>
                    page &&
                    admin() && (
                      <button
                        aria-label={"Remove " + (setUp(r)?.where ?? "")}
                        onClick={() =>
                          void change(new URLSearchParams({ remove: setUp(r)?.id ?? "" }))
                        }
                      >
                        Remove
                      </button>
                    ),
                },
              ]}
            />
          )
        }
      </Show>
      {page && admin() && <AddReceiver add={change} />}
      {own.data?.from === "file" && (
        <p class="quiet">
          They are set up in the file of the setting <code>alertmanager-config</code>.
        </p>
      )}
      {error && <Problem e={error} />}
    </Section>
  );
}

const fields: Record<string, [name: string, label: string, holder: string][]> = {
  slack: [
    ["url", "Webhook address", "https://hooks.slack.com/services/…"],
    ["channel", "Channel, if another one", "#ops"],
  ],
  teams: [["url", "Webhook address", "https://…"]],
  webhook: [["url", "Address", "https://…"]],
  email: [
    ["to", "To", "ops@example.org"],
    ["from", "From", "reckon@example.org"],
    ["smarthost", "Mail server", "mail.example.org:587"],
    ["user", "User at the mail server, if it asks", ""],
    ["password", "Password", ""],
  ],
};
const optional = ["channel", "user", "password"];

/** The form of a new receiver; a test alert follows at once. */
function AddReceiver({ add }: { add: (form: URLSearchParams) => Promise<void> }) {
  const [kind, setKind] = useState("slack"),
    [form, setForm] = useState<Record<string, string>>({}),
    [plain, setPlain] = useState(false);
  return (
    <details>
      <summary>Add a receiver</summary>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          const q = new URLSearchParams({ kind });
          for (const [name] of fields[kind]!) if (form[name]) q.set(name, form[name]);
          if (kind === "email" && plain) q.set("plain", "true");
          void add(q).then(() => setForm({}));
        }}
      >
        <p>
          <label>
            By{" "}
            <select value={kind} onChange={(e) => setKind(e.currentTarget.value)}>
              <option value="slack">Slack</option>
              <option value="teams">Teams</option>
              <option value="email">e-mail</option>
              <option value="webhook">webhook</option>
            </select>
          </label>
        </p>
        {fields[kind]!.map(([name, label, placeholder]) => {
          const props = {
            name,
            placeholder,
            autocomplete: "off",
            required: !optional.includes(name),
            value: form[name] ?? "",
            onInput: (e: { currentTarget: HTMLInputElement }) =>
              setForm({ ...form, [name]: e.currentTarget.value }),
          };
          return (
            <p key={name}>
              <label>
                {label}{" "}
                {name === "password" ? <input type="password" {...props} /> : <input {...props} />}
              </label>
            </p>
          );
        })}
        {kind === "email" && (
          <p>
            <label>
              <input
                type="checkbox"
                checked={plain}
                onChange={(e) => setPlain(e.currentTarget.checked)}
              />{" "}
              Without TLS
            </label>
          </p>
        )}
        <button>Add, and send a test alert</button>
      </form>
    </details>
  );
}

function Silences({ of, again }: { of: Silence[]; again: () => void }) {
  const [error, setError] = useState<Failure | null>(null),
    list = of.filter((s) => s.status.state !== "expired");
  const end = (id: string) =>
    fetch(`/alertmanager/api/v2/silence/${encodeURIComponent(id)}`, { method: "DELETE" })
      .then((r) => {
        if (!r.ok) throw new Failure(r.status, `status ${r.status}`);
        setError(null);
        again();
      })
      .catch((e) => setError(e instanceof Failure ? e : new Failure(0, String(e))));
  if (list.length === 0) return null;
  return (
    <Section title="Silences">
      <Table
        caption="Silences"
        rows={list}
        keyOf={(s) => s.id}
        cols={[
          {
            title: "What",
            cell: (s) => (
              <span class="wrap">
                {s.matchers
                  .map(
                    (m) =>
                      `${m.name}${m.isEqual === false ? "!" : ""}=${m.isRegex ? "~" : ""}${clean(m.value)}`,
                  )
                  .join(", ")}
              </span>
            ),
          },
          { title: "Until", cell: (s) => <When t={s.endsAt} /> },
          { title: "Why", cell: (s) => <span class="wrap">{clean(s.comment)}</span> },
          { title: "By", cell: (s) => clean(s.createdBy) },
          {
            title: "",
            cell: (s) => (admin() ? <button onClick={() => end(s.id)}>End</button> : null),
          },
        ]}
      />
      {error && <Problem e={error} />}
    </Section>
  );
}

function Make({ a, close }: { a: Alert; close: () => void }) {
  const keys = Object.keys(a.labels).filter((k) =>
    ["alertname", "site", "node", "owner", "workload", "mountpoint", "device"].includes(k),
  );
  const [on, setOn] = useState(keys),
    [hours, setHours] = useState("24"),
    [why, setWhy] = useState(""),
    [error, setError] = useState<Failure | null>(null);
  const send = () =>
    fetch(silencesAt, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({
        matchers: on.map((name) => ({
          name,
          value: a.labels[name],
          isRegex: false,
          isEqual: true,
        })),
        startsAt: new Date().toISOString(),
        endsAt: new Date(Date.now() + Number(hours) * 3.6e6).toISOString(),
        createdBy: me.value?.name || "reckon",
        comment: why,
      }),
    })
      .then(async (r) => {
        if (!r.ok) throw new Failure(r.status, (await r.text()).slice(0, 300));
        close();
      })
      .catch((e) => setError(e instanceof Failure ? e : new Failure(0, String(e))));
  return (
    <Dialog title={"Silence " + clean(a.labels.alertname)} close={close}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          void send();
        }}
      >
        <fieldset>
          <legend>For alerts with</legend>
          {keys.map((k) => (
            <label>
              <input
                type="checkbox"
                checked={on.includes(k)}
                onChange={(e) =>
                  setOn(keys.filter((x) => (x === k ? e.currentTarget.checked : on.includes(x))))
                }
              />{" "}
              {k} = {clean(a.labels[k]).slice(0, 60)}
              <br />
            </label>
          ))}
        </fieldset>
        <p>
          <label>
            For{" "}
            <select value={hours} onChange={(e) => setHours(e.currentTarget.value)}>
              {[
                ["1", "an hour"],
                ["24", "a day"],
                ["168", "a week"],
                ["720", "30 days"],
              ].map(([v, t]) => (
                <option value={v}>{t}</option>
              ))}
            </select>
          </label>
        </p>
        <p>
          <label>
            Why <input required value={why} onInput={(e) => setWhy(e.currentTarget.value)} />
          </label>
        </p>
        <button disabled={on.length === 0}>Silence</button>
      </form>
      {error && <Problem e={error} />}
    </Dialog>
  );
}

const step = 600,
  fewSeries = 100; // of more the beginnings and ends are known to a step
/** What fired in the last week, also between two steps, from the series that the rules write; and what fires now. */
function History({ alerts }: { alerts: Alert[] }) {
  const to = useMemo(() => Math.ceil(Date.now() / 1000 / step) * step, []),
    a = useAsk(has("prometheus") ? `alerts before ${to}` : null, false, (_p, s) =>
      promRange(
        `last_over_time(ALERTS{alertstate="firing"}[${step}s])`,
        to - 7 * 86400,
        to,
        step,
        s,
      ),
    );
  const edges = useAsk(
    a.data && a.data.length > 0 && a.data.length <= fewSeries
      ? `ends of alerts before ${to}`
      : null,
    false,
    (_p, s) =>
      Promise.all(
        (["begin", "end"] as const).map((e) => promRange(firing(e), to - 7 * 86400, to, minute, s)),
      ),
  );
  const rows = useMemo(() => {
    const l = fired(a.data ?? [], alerts, step, Date.now() / 1000),
      [begins, ends] = edges.data ?? [[], []];
    return refined(l, begins, ends, step);
  }, [a.data, alerts, edges.data]);
  return (
    <Section title="The last seven days">
      <div class="keep" style="min-height:6rem">
        <Show a={a}>
          {() =>
            rows.length === 0 ? (
              <Empty>No alert fired.</Empty>
            ) : (
              <Table
                caption="Alerts of the last seven days"
                rows={rows}
                keyOf={(r) => r.labels.alertname + r.from + (r.labels.node ?? "")}
                cols={[
                  { title: "Alert", cell: (r) => clean(r.labels.alertname) },
                  {
                    title: "Of",
                    cell: (r) => (
                      <>
                        {r.labels.owner && <Owner o={r.labels.owner} />}
                        {r.labels.owner && r.labels.node && " on "}
                        {r.labels.node && <NodeName n={r.labels.node} />}
                      </>
                    ),
                  },
                  {
                    title: "From",
                    cell: (r) => <When t={new Date(r.from * 1000).toISOString()} />,
                  },
                  {
                    title: "For",
                    number: true,
                    cell: (r) => (r.now ? "fires now" : `at most ${duration(r.to - r.from)}`),
                  },
                  { title: "Severity", cell: (r) => r.labels.severity ?? "" },
                ]}
              />
            )
          }
        </Show>
      </div>
    </Section>
  );
}

// Findings: what was found of misuse, its evidence, and who takes care.
import { useState } from "preact/hooks";
import { Failure, ask, useAsk } from "../lib/api";
import { Choice, clean, Dialog, Empty, Name, NodeName, Owner, Problem, Show, When } from "../lib/parts";
import { go, me, param, set, workloadLink } from "../lib/state";
import { query } from "../lib/search";
import type { Finding, FindingList } from "../lib/types";
import { exact, human, known } from "../lib/units";

const severities: Record<string, string> = { high: "critical", medium: "warning", low: "info" };

export function Findings() {
  const state = param("state"), rule = param("rule"), muted = param("muted") === "true", owner = param("owner");
  const path = "/api/reckon/v1/findings?" + query({ state: state === "all" ? ["new", "open", "gone"] : state || undefined, rule: rule || undefined, owner: owner || undefined, muted: muted ? "true" : undefined, limit: 500 });
  const a = useAsk<FindingList>(path, true);
  return <><h1>Findings</h1>
    <div class="controls"><Choice label="Show" value={state} of={[["", "new and open"], ["new", "new"], ["gone", "gone"], ["all", "all"]]} pick={(v) => set({ state: v })} />
      <label>Rule <select value={rule} onChange={(e) => set({ rule: e.currentTarget.value })}><option value="">all</option>{["hog", "misfit", "greedy", "deadweight", "vampire", "thrash", "imbalance"].map((r) => <option value={r}>{r}</option>)}</select></label>
      <label><input type="checkbox" checked={muted} onChange={(e) => set({ muted: e.currentTarget.checked ? "true" : "" })} /> with those muted</label>
      {owner && <button onClick={() => set({ owner: "" })}>Of everybody</button>}
      <a href={path + "&format=csv"} download="findings.csv">CSV</a> <a href="/api/reckon/v1/policy">Policy</a></div>
    <Show a={a}>{(d) => (d.findings.length === 0 ? <Empty>{d.looked ? <>Nothing was found. The server looked <When t={d.looked} relative />.</> : "The server has not looked yet; it does so a few minutes after its start."}</Empty>
      : <><p class="quiet" role="status">{d.total} finding{d.total === 1 ? "" : "s"}{d.total > d.findings.length && `, the gravest ${d.findings.length}`}; looked <When t={d.looked} relative /></p>{d.findings.map((f) => <One key={f.id} f={f} again={a.again} />)}</>)}</Show></>;
}

function One({ f, again }: { f: Finding; again: () => void }) {
  const [error, setError] = useState<Failure | null>(null), [muting, setMuting] = useState(false);
  const may = !me.value || me.value.role === "admin" || me.value.role === "support";
  const isMuted = !!f.muted_until && Date.parse(f.muted_until) > Date.now();
  const post = (verb: string, q: Record<string, string>) => ask(`/api/reckon/v1/findings/${encodeURIComponent(f.id)}/${verb}?` + new URLSearchParams(q), undefined, "POST").then(() => { setError(null); setMuting(false); again(); }, (e) => setError(e instanceof Failure ? e : new Failure(0, String(e))));
  return <article class={"note " + (severities[f.severity] ?? "info")} aria-label={`${f.rule}, ${f.severity}`}>
    <div class="head"><h2><span class="word">{f.severity}</span>: {clean(f.rule)}{f.part && ` (${clean(f.part)})`} <small class="quiet">{f.state}</small></h2>
      {may && <span>{!f.acknowledged && <button onClick={() => post("acknowledge", {})}>Acknowledge</button>} {isMuted ? <button onClick={() => post("mute", { reason: "no longer", until: new Date(Date.now() - 1000).toISOString() })}>Unmute</button> : <button onClick={() => setMuting(true)}>Mute…</button>}</span>}</div>
    <p class="wrap">{clean(f.text)}</p>
    <p class="quiet">{f.owner && <>of <Owner o={f.owner} /> · </>}{f.workload && <><Name href={workloadLink(f.workload)}>{f.workload}</Name> · </>}{f.node && <><NodeName n={f.node} /> · </>}<When t={f.first} /> to <When t={f.last} /> · found <When t={f.found} relative />
      {f.acknowledged && <> · acknowledged{f.acknowledged_by && <> by <bdi>{clean(f.acknowledged_by)}</bdi></>} <When t={f.acknowledged} relative /></>}{isMuted && <> · muted until <When t={f.muted_until} />: <bdi>{clean(f.mute_reason ?? "")}</bdi></>}</p>
    {f.evidence.length > 0 && <details open><summary>Evidence</summary><div class="hbars">{f.evidence.map((e) => {
      const has = known(e.limit) && Number.isFinite(e.value), top = has ? Math.max(Math.abs(e.value), Math.abs(e.limit!), 1e-12) : 1;
      return <><span>{clean(e.text)}</span>{has ? <svg viewBox="0 0 100 14" preserveAspectRatio="none" role="img" aria-label={`${human(e.value, e.unit)}, limit ${human(e.limit, e.unit)}`}><title>{`${exact(e.value, e.unit)}, limit ${exact(e.limit, e.unit)}`}</title><rect class="track" width="100" height="14" /><rect class="fill" y="3" width={(100 * Math.abs(e.value)) / top} height="8" /><line class="p95" x1={(100 * Math.abs(e.limit!)) / top} x2={(100 * Math.abs(e.limit!)) / top} y1="0" y2="14" /></svg> : <span />}
        <span title={exact(e.value, e.unit)}>{human(e.value, e.unit)}{has && <span class="quiet"> limit {human(e.limit, e.unit)}</span>}</span></>;
    })}</div></details>}
    {f.node && f.workload && <p><button class="quiet" onClick={() => go("/node?" + new URLSearchParams({ name: f.node!, from: String(Math.floor(Date.parse(f.first) / 1000) - 600), to: String(Math.ceil(Date.parse(f.last) / 1000) + 600) }))}>Show the node at that time</button></p>}
    {error && <Problem e={error} />}
    {muting && <Mute f={f} close={() => setMuting(false)} send={(reason, until) => post("mute", { reason, until })} />}
  </article>;
}

function Mute({ f, close, send }: { f: Finding; close: () => void; send: (reason: string, until: string) => void }) {
  const [reason, setReason] = useState(""), [days, setDays] = useState("7");
  return <Dialog title={`Mute ${clean(f.rule)}`} close={close}>
    <form onSubmit={(e) => { e.preventDefault(); send(reason.trim(), new Date(Date.now() + Number(days) * 86400000).toISOString()); }}>
      <p>It will not be listed, and no alert sent, until then.</p>
      <p><label>Why <input required value={reason} maxLength={500} onInput={(e) => setReason(e.currentTarget.value)} /></label></p>
      <p><label>For <select value={days} onChange={(e) => setDays(e.currentTarget.value)}><option value="1">a day</option><option value="7">a week</option><option value="30">30 days</option><option value="365">a year</option></select></label></p>
      <p class="controls"><button type="button" onClick={close}>Cancel</button><button>Mute</button></p></form></Dialog>;
}

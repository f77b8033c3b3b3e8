// Workloads: one search box, a table of any length of which only what is seen is asked for and drawn.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ask, Failure, promRange } from "../lib/api";
import { measures, tariff, tariffOf, whats } from "../lib/measure";
import {
  Choice,
  clean,
  Columns,
  Empty,
  Name,
  OwnerOf,
  Problem,
  Q,
  same,
  Spark,
  When,
  printing,
} from "../lib/parts";
import { titleOf } from "../lib/names";
import { asked, range } from "../lib/range";
import {
  beat,
  has,
  introduced,
  me,
  param,
  recall,
  searching,
  set,
  workloadLink,
} from "../lib/state";
import {
  columns,
  keyOf,
  parse,
  query,
  shown,
  stateOf,
  suggest,
  usedOf,
  type Column,
} from "../lib/search";
import { axis, onto, promAny, type Row } from "../lib/stack";
import type { NodeList, UsageList, Workload, WorkloadList } from "../lib/types";
import { hereTimes } from "../lib/units";
import type { What } from "../lib/users";

const rowHeight = 32,
  chunk = 100,
  onPaper = 1000,
  files = "every figure of all that the search selects, in this order; at most 100,000";

export function Workloads() {
  const text = param("q"),
    what = (param("of") || "cpu") as What,
    sort = param("sort") || "-used";
  tariff.value = tariffOf([], param("tariff") || recall("reckon.tariff") || "") ?? tariff.value;
  const keys = (param("cols") || shown.join(",")).split(",");
  const cols = columns.filter(
    (c) => keys.includes(c.key) && (c.key !== "spark" || has("prometheus")),
  );
  const parsed = useMemo(() => parse(text), [text]);
  const r = range.value,
    long = parsed.params.since || parsed.params.until || parsed.params.id,
    until = r.fixed ? r.to : Math.ceil(r.to / 300) * 300, // up to now is asked for anew each five minutes
    time = useMemo(
      () => (long ? {} : asked({ ...r, to: until })),
      [long, until, r.length, r.fixed],
    );
  const by = sort.replace(/\bused$/, keyOf(what)),
    base = useMemo(
      () => query({ ...time, ...parsed.params, within: "true", sort: by }),
      [time, parsed, by],
    );
  const file = (format: string) => `/api/reckon/v1/workloads?${base}&limit=100000&format=${format}`;
  return (
    <>
      <h1>Workloads</h1>
      <div class="controls">
        <SearchBox text={text} />
        <Choice
          label="Of"
          value={what}
          of={whats.map((w): [string, string] => [w, measures[w].title])}
          pick={(v) => set({ of: v === "cpu" ? "" : v, sort: "" })}
        />
        <Columns
          of={columns}
          keys={keys}
          fixed="name"
          pick={(k) => set({ cols: k.join(",") === shown.join(",") ? "" : k.join(",") })}
        />
        {has("runs") && me.value?.role !== "public" && <a href="/runs">runs of MetricSets</a>}
        {!parsed.problem && (
          <>
            <a href={file("csv")} download="workloads.csv" title={files}>
              CSV
            </a>{" "}
            <a href={file("json")} download="workloads.json" title={files}>
              JSON
            </a>
          </>
        )}
      </div>
      {parsed.problem ? (
        <div class="note warning" role="status">
          {parsed.problem}
        </div>
      ) : (
        <Rows base={base} cols={cols} sort={sort} what={what} filtered={text !== ""} />
      )}
    </>
  );
}

function SearchBox({ text }: { text: string }) {
  const [draft, setDraft] = useState(text),
    [open, setOpen] = useState(false),
    [at, setAt] = useState(-1);
  const [values, setValues] = useState<Record<string, string[]>>({});
  const later = useRef(0),
    asked = useRef(false),
    another = useRef(true);
  useEffect(() => setDraft(text), [text]);
  useEffect(() => {
    if (searching.value) {
      searching.value = false;
      document.getElementById("find")?.focus();
    }
  }, []);
  const learn = () => {
    if (asked.current) return;
    asked.current = true;
    const by = (what: string) =>
      has("usage") && introduced.value && me.value?.role !== "public"
        ? ask<UsageList>(`/api/reckon/v1/usage?since=30d&by=${what}`).then(
            (u) =>
              u.rows
                .map((r) => String((r as Record<string, unknown>)[what] ?? ""))
                .filter((x) => x && x !== "others"),
            () => [],
          )
        : Promise.resolve([]);
    Promise.all([
      by("owner"),
      by("account"),
      by("partition"),
      ask<NodeList>("/api/reckon/v1/nodes").then(
        (d) => d.nodes.map((n) => n.node),
        () => [],
      ),
    ]).then(([owner, account, partition, node]) => setValues({ owner, account, partition, node }));
  };
  const list = open ? suggest(draft, values) : [];
  // A search is one step back in the history of the browser, however it was typed.
  const apply = (t: string) => {
    clearTimeout(later.current);
    if (t.trim() !== text) {
      set({ q: t.trim() }, !another.current);
      another.current = false;
    }
  };
  const change = (t: string) => {
    setDraft(t);
    setAt(-1);
    setOpen(true);
    clearTimeout(later.current);
    later.current = setTimeout(() => {
      if (!parse(t).problem) apply(t);
    }, 350) as unknown as number;
  };
  return (
    <div class="search" role="search">
      <label class="hidden" for="find">
        Search workloads: field:value or words of the name
      </label>
      <input
        id="find"
        data-search
        type="text"
        role="combobox"
        autocomplete="off"
        spellcheck={false}
        aria-expanded={list.length > 0}
        aria-controls="find-list"
        aria-autocomplete="list"
        aria-activedescendant={at >= 0 ? "find-" + at : undefined}
        placeholder="owner:alice state:failed since:7d cpu>1h train*   ( / )"
        value={draft}
        onInput={(e) => change(e.currentTarget.value)}
        onFocus={() => {
          learn();
          setOpen(true);
          another.current = true;
        }}
        onBlur={() => setTimeout(() => setOpen(false), 150)}
        onKeyDown={(e) => {
          if (e.key === "ArrowDown" && list.length) {
            e.preventDefault();
            setAt((at + 1) % list.length);
          } else if (e.key === "ArrowUp" && list.length) {
            e.preventDefault();
            setAt(((at + list.length) % (list.length + 1)) - 1);
          } else if (e.key === "Tab" && at >= 0 && list[at]) {
            e.preventDefault();
            change(list[at].text);
          } else if (e.key === "Enter") {
            if (at >= 0 && list[at]) {
              e.preventDefault();
              change(list[at].text);
            } else {
              apply(e.currentTarget.value);
              another.current = true;
              setOpen(false);
            }
          } else if (e.key === "Escape") {
            if (list.length) setOpen(false);
            else e.currentTarget.blur();
          }
        }}
      />
      {list.length > 0 && (
        <ul class="suggest" id="find-list" role="listbox" aria-label="Suggestions">
          {list.map((s, i) => (
            <li
              id={"find-" + i}
              role="option"
              aria-selected={i === at}
              onMouseDown={(e) => {
                e.preventDefault();
                change(s.text);
              }}
            >
              <span>
                <bdi>{s.text.slice(0, 90)}</bdi>
              </span>
              <small>{s.doc}</small>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function Rows({
  base,
  cols,
  sort,
  what,
  filtered,
}: {
  base: string;
  cols: Column[];
  sort: string;
  what: What;
  filtered: boolean;
}) {
  const box = useRef<HTMLDivElement>(null),
    pages = useRef(new Map<number, Workload[]>()),
    pending = useRef(new Map<number, AbortController>());
  const [total, setTotal] = useState<number | null>(null),
    [missing, setMissing] = useState<string[]>([]),
    [error, setError] = useState<Failure | null>(null);
  const [scrolled, setRange] = useState<[number, number]>([0, 40]),
    [, redraw] = useState(0),
    [sparks, setSparks] = useState(new Map<string, Row>());
  const current = useRef("");
  // On paper stands what was fetched from the first row on; who prints by the button gets the first thousand.
  const toPaper = async () => {
    const of = base,
      l = await ask<WorkloadList>(`/api/reckon/v1/workloads?${base}&limit=${onPaper}`).catch(
        () => null, // what is there is printed
      );
    if (current.current !== of) return;
    for (let i = 0; l && i < l.workloads.length; i += chunk)
      pages.current.set(i / chunk, l.workloads.slice(i, i + chunk));
    print();
  };
  const fetched = () => {
    let n = 0;
    for (let p = 0; pages.current.has(p); p++) n += pages.current.get(p)!.length;
    return n;
  };
  const range: [number, number] = printing.value ? [0, fetched()] : scrolled;

  const load = (page: number, again = false) => {
    if (pending.current.has(page) || (!again && pages.current.has(page))) return;
    const of = base,
      stop = new AbortController();
    pending.current.set(page, stop);
    ask<WorkloadList>(
      `/api/reckon/v1/workloads?${base}&limit=${chunk}&offset=${page * chunk}`,
      stop.signal,
    )
      .then(
        (l) => {
          if (current.current !== of) return;
          pages.current.set(page, l.workloads);
          setTotal(l.total);
          setMissing(l.missing ?? []);
          setError(null);
          redraw((x) => x + 1);
        },
        (e) => {
          if (current.current === of && !stop.signal.aborted)
            setError(e instanceof Failure ? e : new Failure(0, String(e)));
        },
      )
      .finally(() => {
        if (pending.current.get(page) === stop) pending.current.delete(page);
      });
  };
  useEffect(() => {
    for (const s of pending.current.values()) s.abort();
    current.current = base;
    pages.current = new Map();
    pending.current = new Map();
    setTotal(null);
    setError(null);
    box.current?.scrollTo(0, 0);
    setRange([0, 40]);
    load(0);
  }, [base]);
  // Who scrolls fast passes most pages: asked for is where it comes to rest, and what was passed is given up.
  useEffect(() => {
    if (total === null) return;
    const t = setTimeout(() => {
      const [lo, hi] = [
        Math.floor(range[0] / chunk),
        Math.floor(Math.min(range[1], total - 1) / chunk),
      ];
      for (const [p, s] of pending.current)
        if (p < lo || p > hi) {
          pending.current.delete(p);
          s.abort();
        }
      for (let p = lo; p <= hi; p++) load(p);
    }, 40);
    return () => clearTimeout(t);
  }, [range, total]);
  const b = beat.value,
    first = useRef(b);
  useEffect(() => {
    if (b === first.current) return;
    // Pages out of sight are forgotten, those in sight are asked for again.
    const [lo, hi] = [Math.floor(range[0] / chunk), Math.floor(range[1] / chunk)];
    for (const p of pages.current.keys()) if (p < lo || p > hi) pages.current.delete(p);
    for (let p = lo; p <= hi; p++) if (pages.current.has(p)) load(p, true);
  }, [b]);

  const row = (i: number) => pages.current.get(Math.floor(i / chunk))?.[i % chunk];
  const visible = Array.from(
    { length: Math.max(0, Math.min(range[1], total ?? 0) - range[0]) },
    (_, k) => row(range[0] + k),
  );
  const wantSparks = cols.some((c) => c.key === "spark"),
    seenNow = visible.filter((w): w is Workload => !!w);
  const unknownIds = wantSparks
    ? seenNow.filter((w) => w.id.length < 300 && !sparks.has(sparkKey(w.id, w.site)))
    : [];
  useEffect(() => {
    if (unknownIds.length === 0) return;
    const t = setTimeout(() => {
      const end = Math.floor(Date.now() / 600000) * 600,
        from = end - 21600,
        list = unknownIds.slice(0, 60);
      const times = axis(from, end, 600),
        found = new Map(sparks);
      for (const w of list) found.set(sparkKey(w.id, w.site), []);
      promRange(
        `sum by (site, workload) (rate(reckon_workload_cpu_seconds_total{workload=~${promAny([...new Set(list.map((w) => w.id))])}}[10m]))`,
        from,
        end,
        600,
      )
        .then(
          (s) => {
            for (const x of s)
              found.set(sparkKey(x.metric.workload, x.metric.site), onto(times, x));
          },
          () => undefined,
        )
        .finally(() => setSparks(found));
    }, 150);
    return () => clearTimeout(t);
  }, [unknownIds.map((w) => sparkKey(w.id, w.site)).join("\n")]);

  if (error && total === null)
    return (
      <Problem
        e={error}
        again={() => {
          setError(null);
          load(0, true);
        }}
      />
    );
  const onScroll = () => {
    const el = box.current!,
      at = Math.max(0, Math.floor(el.scrollTop / rowHeight) - 10);
    const next: [number, number] = [at, at + Math.ceil(el.clientHeight / rowHeight) + 20];
    if (next[0] !== range[0] || next[1] !== range[1]) setRange(next);
  };
  const start = Math.min(range[0], Math.max(0, (total ?? 0) - 1)),
    end = Math.min(range[1], total ?? 0);
  return (
    <>
      {error && (
        <div class="note warning" role="status">
          <strong>Old figures:</strong> {error.message} {error.hint}
        </div>
      )}
      {missing.length > 0 && (
        <div class="note warning" role="status">
          <strong>Partial answer.</strong>{" "}
          <span class="wrap">Missing: {missing.map((t) => hereTimes(t)).join("; ")}</span>
        </div>
      )}
      <p class="quiet" role="status" aria-live="polite">
        {total === null ? (
          "Loading…"
        ) : (
          <>
            <span class="q" title={String(total)}>
              {total.toLocaleString("en")}
            </span>{" "}
            {`workload${total === 1 ? "" : "s"} ran or waited in this time${filtered ? " and match" + (total === 1 ? "es" : "") : ""}.`}{" "}
            {total > chunk && <button onClick={toPaper}>Print</button>}
          </>
        )}
      </p>
      {total === 0 ? (
        <Empty>
          {filtered ? (
            <>
              No workload of this time matches.{" "}
              <button onClick={() => set({ q: "" })}>Show all</button>{" "}
              <button onClick={() => set({ last: String(365 * 86400), from: "", to: "" })}>
                Search the last year
              </button>
            </>
          ) : me.value?.role === "user" ? (
            `Nothing of yours has been measured. You see the work of ${[
              me.value.name,
              ...(me.value.owners ?? []),
            ]
              .filter((o, i, l) => l.indexOf(o) === i)
              .map(clean)
              .join(", ")}; that of others is shown to them.`
          ) : (
            "Nothing has been measured yet: the first workloads appear within a minute of the start."
          )}
        </Empty>
      ) : (
        <>
          {printing.value && (total ?? 0) > range[1] && (
            <p>
              The first {range[1]} of {total}; the CSV holds all.
            </p>
          )}
          <div
            class="vtable"
            ref={box}
            tabIndex={0}
            role="region"
            aria-label="Workloads"
            onScroll={onScroll}
          >
            <table aria-rowcount={(total ?? 0) + 1}>
              <thead>
                <tr>
                  {cols.map((c) => (
                    <th
                      scope="col"
                      class={cell(c)}
                      aria-sort={
                        sort === c.key
                          ? "ascending"
                          : sort === "-" + c.key
                            ? "descending"
                            : undefined
                      }
                    >
                      {c.sort ? (
                        <button
                          class="sort"
                          onClick={() => {
                            const v = sort === "-" + c.key ? c.key : "-" + c.key;
                            set({ sort: v === "-used" ? "" : v });
                          }}
                        >
                          {titleIn(c, what)}
                          <span aria-hidden="true">
                            {sort === c.key ? " ↑" : sort === "-" + c.key ? " ↓" : ""}
                          </span>
                        </button>
                      ) : (
                        titleIn(c, what)
                      )}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {start > 0 && (
                  <tr class="space" aria-hidden="true">
                    <td colSpan={cols.length}>
                      <svg width="1" height={start * rowHeight} />
                    </td>
                  </tr>
                )}
                {visible.map((w, k) => (
                  <tr key={range[0] + k} aria-rowindex={range[0] + k + 2}>
                    {cols.map((c) => (
                      <td
                        class={cell(c)}
                        title={
                          w && c.wide ? clean(String(w[c.key] ?? "")).slice(0, 1000) : undefined
                        }
                      >
                        {w ? (
                          <Cell
                            w={w}
                            c={c}
                            spark={sparks.get(sparkKey(w.id, w.site))}
                            what={what}
                          />
                        ) : (
                          <span class="quiet">…</span>
                        )}
                      </td>
                    ))}
                  </tr>
                ))}
                {!printing.value && total !== null && end < total && (
                  <tr class="space" aria-hidden="true">
                    <td colSpan={cols.length}>
                      <svg width="1" height={(total - end) * rowHeight} />
                    </td>
                  </tr>
                )}
              </tbody>
            </table>
          </div>
        </>
      )}
    </>
  );
}

const times: Record<string, string> = { cpu_seconds: "core-cell", gpu_seconds: "gpu-cell" };
const titleIn = (c: Column, what: What) => (c.key === "used" ? measures[what].column : c.title);
const sparkKey = (id: string, site?: string) => (site ?? "") + " " + id;
/** On a phone the usual columns give way to those that say most; chosen ones stay. */
const givesWay = (c: Column) =>
  [
    "id",
    "state",
    "start",
    "wall_seconds",
    "spark",
    "unused",
    "cores_mean",
    "memory_peak_bytes",
  ].includes(c.key) && !param("cols");
const cell = (c: Column) =>
  (givesWay(c) ? "wide_ " : "") +
  (c.key === "spark"
    ? "plot_"
    : c.key === "start" || c.key === "end"
      ? "when"
      : c.wide
        ? "wide"
        : c.unit
          ? "number"
          : "");

function Cell({ w, c, spark, what }: { w: Workload; c: Column; spark?: Row; what: What }) {
  switch (c.key) {
    case "name":
      return (
        <Name
          max={60}
          href={me.value?.role === "public" ? undefined : workloadLink(w.id, w.start, w.site)}
        >
          {titleOf(w)}
        </Name>
      );
    case "id":
      return <Name max={60}>{w.id}</Name>;
    case "owner":
      return <OwnerOf w={w} />;
    case "state":
      return <span title={w.reason ?? undefined}>{stateOf(w)}</span>;
    case "nodes":
      return <Name max={40}>{w.nodes.join(", ")}</Name>;
    case "start":
      return <When t={w.start} />;
    case "end":
      return w.end ? <When t={w.end} /> : <span class="quiet">runs</span>;
    case "spark":
      return spark?.some((v) => v !== null) ? (
        <Spark rows={spark} label={`cores of the last 6 hours of ${w.id.slice(0, 60)}`} />
      ) : (
        <span title="no samples in the last 6 hours">–</span>
      );
  }
  const v = w.within?.[c.key as keyof typeof w.within] ?? w[c.key],
    held = usedOf(w, what);
  return c.key === "used" ? (
    <Q v={held.used} unit={measures[what].cell()} is={w.within?.exactness?.[keyOf(what)]} />
  ) : c.key === "unused" ? (
    <Q v={held.unused} unit={measures[what].cell()} note="allocated and not used in this time" />
  ) : c.key === "whole" ? (
    <Q
      v={w.cpu_seconds}
      unit={c.unit!}
      is={w.exactness?.cpu_seconds}
      of={w.running ? undefined : same("cpu_seconds", w.id, { since: w.start, until: w.end })}
    />
  ) : c.unit ? (
    <Q
      v={v}
      unit={times[c.key] ?? c.unit}
      is={(v === w[c.key] ? w : w.within)?.exactness?.[c.key]}
      of={
        w.running || v !== w[c.key]
          ? undefined
          : same(c.key, w.id, { since: w.start, until: w.end })
      }
    />
  ) : (
    <Name max={40}>{String(w[c.key] ?? "")}</Name>
  );
}

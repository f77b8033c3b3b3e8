// Explore: any question to the series in PromQL, as a chart or a table.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ask, promInstant, promRange, useAsk } from "../lib/api";
import { TimeChart, type Line } from "../lib/chart";
import { Choice, clean, Empty, Section, Show, Table } from "../lib/parts";
import { range, type Range } from "../lib/range";
import { param, set } from "../lib/state";
import { complete, place, words } from "../lib/promql";
import { inksOf } from "../lib/ink";
import { largest, unitAsked } from "../lib/series";
import { axis, onto, promQuote } from "../lib/stack";

const begin = "sum by (owner) (rate(reckon_workload_cpu_seconds_total[5m]))";
/** So many lines a chart draws at first, with their names. */
const few = 15,
  many = 100;
type Meta = Record<string, { type: string; help: string; unit: string }[]>;

export function Explore() {
  const expr = param("expr"),
    r = range.value,
    as = param("as") || "chart";
  const [draft, setDraft] = useState(expr || begin),
    [list, setList] = useState<string[]>([]),
    [at, setAt] = useState(0),
    [turn, setTurn] = useState(0);
  const box = useRef<HTMLTextAreaElement>(null),
    names = useRef(Promise.resolve<string[]>([])),
    asked = useRef(0);
  const meta = useAsk<{ data: Meta }>("/api/v1/metadata");
  useEffect(() => {
    if (expr) setDraft(expr);
  }, [expr]);
  useEffect(() => {
    names.current = ask<{ data: string[] }>("/api/v1/label/__name__/values").then(
      (d) => d.data,
      () => [],
    );
  }, []);

  const offer = async () => {
    const t = box.current!,
      p = place(t.value, t.selectionStart),
      turn = ++asked.current;
    let from: string[] = p.kind === "name" ? [...(await names.current), ...words] : [];
    if (p.kind !== "name") {
      const q = p.metric
        ? "?" + new URLSearchParams({ "match[]": `{__name__=${promQuote(p.metric)}}` })
        : "";
      from = await ask<{ data: string[] }>(
        p.kind === "label" ? "/api/v1/labels" + q : `/api/v1/label/${p.label}/values${q}`,
      ).then(
        (d) => d.data.filter((x) => x !== "__name__"),
        () => [],
      );
    }
    if (turn !== asked.current) return;
    setAt(0);
    setList(p.kind === "name" && p.begun.length === 0 ? [] : complete(p.begun, from));
  };
  const take = (w: string) => {
    const t = box.current!,
      p = place(t.value, t.selectionStart),
      next = t.value.slice(0, p.from) + w + t.value.slice(t.selectionStart);
    setDraft(next);
    setList([]);
    requestAnimationFrame(() => {
      t.focus();
      t.setSelectionRange(p.from + w.length, p.from + w.length);
    });
  };
  const ran = () => {
    setList([]);
    set({ expr: draft.trim() });
    setTurn(turn + 1);
  };
  const metricAt = list[at] && meta.data?.data[list[at]]?.[0];
  return (
    <>
      <h1>Explore</h1>
      <p class="quiet">
        Any question in PromQL. Enter asks, Shift+Enter begins a line, Ctrl+Space suggests. Separate
        several questions by an empty line.
      </p>
      <div class="search">
        <label class="hidden" for="expr">
          PromQL expression
        </label>
        <textarea
          id="expr"
          data-search
          ref={box}
          spellcheck={false}
          rows={3}
          value={draft}
          aria-controls={list.length ? "expr-list" : undefined}
          aria-autocomplete="list"
          aria-activedescendant={list.length ? "expr-" + at : undefined}
          onInput={(e) => {
            setDraft(e.currentTarget.value);
            void offer();
          }}
          onBlur={() => setTimeout(() => setList([]), 150)}
          onKeyDown={(e) => {
            if (e.key === " " && e.ctrlKey) {
              e.preventDefault();
              void offer();
            } else if (list.length && e.key === "ArrowDown") {
              e.preventDefault();
              setAt((at + 1) % list.length);
            } else if (list.length && e.key === "ArrowUp") {
              e.preventDefault();
              setAt((at + list.length - 1) % list.length);
            } else if (list.length && e.key === "Tab") {
              e.preventDefault();
              take(list[at]);
            } else if (e.key === "Escape") setList([]);
            else if (e.key === "Enter" && !e.shiftKey) {
              e.preventDefault();
              ran();
            }
          }}
        />
        {list.length > 0 && (
          <ul class="suggest" id="expr-list" role="listbox" aria-label="Suggestions; Tab takes one">
            {list.map((s, i) => (
              <li
                id={"expr-" + i}
                role="option"
                aria-selected={i === at}
                onMouseDown={(e) => {
                  e.preventDefault();
                  take(s);
                }}
              >
                <span>
                  <bdi>{clean(s).slice(0, 90)}</bdi>
                </span>
                <small>{meta.data?.data[s]?.[0]?.type ?? ""}</small>
              </li>
            ))}
            {metricAt && (
              <li role="option" aria-selected={false} aria-disabled="true">
                <small>{metricAt.help}</small>
              </li>
            )}
          </ul>
        )}
      </div>
      <div class="controls">
        <button onClick={ran}>Ask</button>
        <Choice
          label="As"
          value={as}
          of={[
            ["chart", "chart"],
            ["table", "table of now"],
          ]}
          pick={(v) => set({ as: v === "chart" ? "" : v })}
        />
      </div>
      {expr ? (
        <Answer key={turn} expr={expr} r={r} as={as} />
      ) : (
        <Empty>Ask something. The expression above shows how many cores each person uses.</Empty>
      )}
    </>
  );
}

export const nameOf = (m: Record<string, string>) => {
  const { __name__, ...labels } = m,
    rest = Object.entries(labels)
      .map(([k, v]) => `${k}=${v}`)
      .join(", ");
  return (__name__ ?? "") + (rest ? (__name__ ? ` {${rest}}` : rest) : __name__ ? "" : "value");
};

function Answer({ expr, r, as }: { expr: string; r: Range; as: string }) {
  const w = useMemo(
    () => ({ from: r.from, to: r.to, step: r.step }),
    [r.length, r.fixed && r.from, expr],
  );
  const queries = expr.split(/\n\s*\n/).filter((x) => x.trim());
  const a = useAsk(`${as} ${expr} ${w.from} ${w.to}`, false, (_p, s) =>
    Promise.all(
      queries.map((q) =>
        as === "table" ? promInstant(q, s) : promRange(q, w.from, w.to, w.step, s),
      ),
    ).then((l) =>
      l.length === 1
        ? l[0]
        : l.flatMap((of, i) =>
            Array.isArray(of)
              ? of.map((x) => ({ ...x, metric: { query: String(i + 1), ...x.metric } }))
              : [],
          ),
    ),
  );
  const q =
    queries.length > 1
      ? ""
      : as === "table"
        ? "/api/v1/query?" + new URLSearchParams({ query: expr })
        : "/api/v1/query_range?" +
          new URLSearchParams({
            query: expr,
            start: String(w.from),
            end: String(w.to),
            step: String(w.step),
          });
  const [all, setAll] = useState(false);
  const drawn = useMemo(() => {
    const times = axis(w.from, w.to, w.step),
      lines = largest(Array.isArray(a.data) ? a.data : [], all ? many : few),
      names = lines.map((s) => nameOf(s.metric ?? {})),
      ink = inksOf(names);
    return {
      times,
      lines: lines.map((s, i): Line => ({
        label: names[i],
        row: onto(times, s),
        ink: ink.get(names[i]),
      })),
    };
  }, [a.data, all]);
  return (
    <Section
      title="Answer"
      aside={
        q && (
          <a href={q} download="answer.json">
            JSON
          </a>
        )
      }
    >
      <Show a={a}>
        {(d) => {
          if (!Array.isArray(d) || d.length === 0 || typeof d[0] === "number")
            return (
              <Empty>
                {Array.isArray(d) && d.length
                  ? `The answer is ${String((d as unknown as [number, string])[1])}`
                  : "No series answers that in this time."}
              </Empty>
            );
          if (as === "table")
            return (
              <Table
                caption="Answer"
                rows={d.slice(0, 1000)}
                keyOf={(s) => nameOf(s.metric)}
                cols={[
                  {
                    title: "Series",
                    cell: (s) => (
                      <bdi class="wrap mono">{clean(nameOf(s.metric)).slice(0, 400)}</bdi>
                    ),
                  },
                  { title: "Value", number: true, cell: (s) => s.value?.[1] ?? "histogram" },
                ]}
              />
            );
          return (
            <>
              {d.length > few && (
                <div class="note warning" role="status">
                  The {drawn.lines.length} largest of {d.length} series are drawn, by their sum over
                  this time{" "}
                  <button onClick={() => setAll(!all)}>
                    {all ? `Draw ${few}` : `Draw ${Math.min(many, d.length)}`}
                  </button>
                </div>
              )}
              <TimeChart
                title={expr.slice(0, 120)}
                times={drawn.times}
                lines={drawn.lines}
                unit={unitAsked(expr)}
                height={320}
              />
            </>
          );
        }}
      </Show>
    </Section>
  );
}

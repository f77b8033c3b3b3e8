// The pieces that every page is made of.
import type { ComponentChildren } from "preact";
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Asked, Failure } from "./api";
import { ago, clock, exact, hereTimes, human, known, unknown, utc, type Unit } from "./units";
import { me, nodeLink, ownerLink, workloadLink } from "./state";
import { othersOf, titleOf } from "./names";
import type { Num } from "./types";

/** A figure: short, exact on hover. */
export function Q({
  v,
  unit,
  note,
  is,
  of,
}: {
  v: Num | unknown;
  unit: Unit;
  note?: string;
  is?: string;
  /** Which quantity it is, see same(). */ of?: string;
}) {
  return (
    <span
      class="q"
      {...quantity(of, v)}
      title={(is ? is + " " : "") + exact(v, unit) + (note ? ` · ${note}` : "")}
    >
      {amount(v, unit, is)}
    </span>
  );
}
/** The name of a quantity, by which a test holds all its places together: what, of whom or which, and in which time. */
export const same = (
  what: string,
  of: string | undefined,
  { since, until }: { since?: string | number | null; until?: string | number | null },
) =>
  [
    what,
    of || "nobody",
    ...[since, until].map((t) => (typeof t === "string" ? Date.parse(t) / 1000 : (t ?? ""))),
  ].join("|");
/** Attributes of the element that shows a quantity. */
export const quantity = (of: string | undefined, v: unknown) =>
  of ? { "data-of": of, "data-v": known(v) ? String(v) : "" } : {};
/** A figure with the sign of its exactness, as the command line has it: a text that is a bound already gets none, a lower bound that
 *  rounds to 0 shows nothing and is a dash, and at most 0 is 0. */
export function amount(v: Num | unknown, unit: Unit, is?: string): string {
  const text = human(v, unit),
    none = /^0( |$)/.test(text),
    tiny = text.startsWith("< ");
  if (!known(v)) return text;
  if (is === "at least" && (none || tiny)) return unknown;
  return tiny || (is === "at most" && none) ? text : mark(is) + text;
}
/** How exact the rest is of what is exact, less a figure. */
export const opposite = (is?: string) =>
  is === "at least" ? "at most" : is === "at most" ? "at least" : is;
/** What stands before a figure that is not exact; its word is in the title. */
export const mark = (is?: string) =>
  !is || is === "exact" ? "" : is === "at least" ? "≥ " : is === "at most" ? "≤ " : "~ ";
/** How exact a figure of a row of usage is. */
export const isOf = (r: { exactness?: unknown }, key: string) =>
  (r.exactness as Record<string, string> | undefined)?.[key];
/** A moment in the viewer's zone, UTC on hover. */
export function When({ t, relative }: { t: string | null | undefined; relative?: boolean }) {
  if (!t || t.startsWith("0001-")) return <span title="unknown">{unknown}</span>;
  return (
    <time dateTime={t} title={utc(t)}>
      {relative ? ago(t) : clock(t)}
    </time>
  );
}

/** Names come from anywhere: shown as text, isolated against right-to-left marks, cut when long. */
export function Name({
  children,
  href,
  max = 80,
}: {
  children: string;
  href?: string;
  max?: number;
}) {
  const text = [...clean(children)],
    cut = text.length > max ? text.slice(0, max - 1).join("") + "…" : text.join("");
  const inner = <bdi>{cut === "" ? unknown : cut}</bdi>,
    title = text.length > max ? text.slice(0, 1000).join("") : undefined;
  return href ? (
    <a class="name" href={href} title={title}>
      {inner}
    </a>
  ) : (
    <span class="name" title={title}>
      {inner}
    </span>
  );
}
/** Control and direction-changing characters made visible. */
export function clean(s: string): string {
  return s.replace(
    /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
/** Words of the server, in which commands stand in backticks. */
export const Words = ({ children }: { children: string }) => (
  <>
    {clean(children)
      .split("`")
      .map((t, i) => (i % 2 ? <code>{t}</code> : t))}
  </>
);
/** A workload; the public sees no more of one than its line. */
export const W = ({
  w,
}: {
  w: { id: string; name?: string; command?: string; owner?: string; kind?: string; site?: string };
}) => {
  const called = titleOf(w),
    same = w.id.endsWith("/" + called);
  return (
    <>
      <Name
        href={me.value?.role === "public" ? undefined : workloadLink(w.id, undefined, w.site)}
        max={60}
      >
        {same ? w.id : called}
      </Name>
      {!same && (
        <>
          {" "}
          <small class="id quiet">
            <bdi>{clean(w.id).slice(0, 80)}</bdi>
          </small>
        </>
      )}
    </>
  );
};
export const Owner = ({ o }: { o?: string }) =>
  o ? (
    <Name href={ownerLink(o)} max={32}>
      {o}
    </Name>
  ) : (
    <span title="not shown, or unknown">{unknown}</span>
  );
/** The owner of a workload; of a process group of several users with what they are. */
export const OwnerOf = ({ w }: { w: { owner: string; users?: string[]; partial?: boolean } }) => {
  const others = othersOf(w);
  return (
    <>
      <Owner o={w.owner} />
      {others && (
        <small
          class="quiet"
          title={
            w.partial
              ? "The totals are the share of these users in a process group of several; peaks and what is now are of the whole group."
              : "Users of this process group: " + (w.users ?? []).map((u) => clean(u)).join(", ")
          }
        >
          {" "}
          {others}
        </small>
      )}
    </>
  );
};
export const NodeName = ({ n, site }: { n: string; site?: string }) => (
  <Name href={nodeLink(n, site)} max={40}>
    {n}
  </Name>
);

export function Section({
  title,
  children,
  aside,
  id,
}: {
  title: string;
  children: ComponentChildren;
  aside?: ComponentChildren;
  id?: string;
}) {
  const key = id ?? title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  return (
    <section aria-labelledby={key}>
      <div class="head">
        <h2 id={key}>{title}</h2>
        {aside}
      </div>
      {children}
    </section>
  );
}

/** What is there, but not for who looks. */
export function Closed({ children }: { children: ComponentChildren }) {
  return (
    <div class="note forbidden" role="status">
      <strong>You may not see this.</strong> {children}
      {me.value?.role === "public" && (
        <>
          {" "}
          <a
            href={
              "/auth/login?" + new URLSearchParams({ next: location.pathname + location.search })
            }
          >
            Sign in
          </a>
        </>
      )}
    </div>
  );
}

export function Problem({ e, again }: { e: Failure; again?: () => void }) {
  if (e.status === 403 && me.value?.role === "public")
    return (
      <Closed>
        <span class="wrap">{e.message}.</span>
      </Closed>
    );
  const kind = e.status === 403 || e.status === 401 ? "forbidden" : "error";
  const head =
    e.status === 401
      ? "Sign in to see this"
      : e.status === 403
        ? "You may not see this"
        : e.status === 404
          ? "Not found"
          : e.status === 503
            ? "Not ready yet"
            : "That did not work";
  return (
    <div class={"note " + kind} role="alert">
      <strong>{head}.</strong> <span class="wrap">{e.message}</span>
      {e.hint && (
        <p class="wrap">
          <Words>{e.hint}</Words>
        </p>
      )}
      {again && e.status !== 403 && e.status !== 404 && <button onClick={again}>Ask again</button>}
    </div>
  );
}

/** Shows what was asked for in each of its states: loading, error, old figures, partial, and there. */
export function Show<T>({
  a,
  children,
  missing,
}: {
  a: Asked<T>;
  children: (d: T) => ComponentChildren;
  missing?: (d: T) => string[] | undefined;
}) {
  if (a.data === undefined) {
    if (a.error) return <Problem e={a.error} again={a.again} />;
    return (
      <p class="loading" role="status">
        <span class="bar" aria-hidden="true" />
        Loading…
      </p>
    );
  }
  const lost = missing?.(a.data) ?? (a.data as { missing?: string[] }).missing;
  return (
    <>
      {a.error && (
        <div class="note warning" role="status">
          <strong>Old figures</strong>, of {clock(a.at ?? 0)}: {a.error.message} {a.error.hint}
        </div>
      )}
      {lost && lost.length > 0 && (
        <div class="note warning" role="status">
          <strong>Partial answer.</strong>{" "}
          <span class="wrap">Missing: {lost.map((t) => hereTimes(t)).join("; ")}</span>
        </div>
      )}
      {children(a.data)}
    </>
  );
}
/** Whether all was answered, well or not: what stands below waits for it, so that it does not move. */
export const there = (...all: Asked<unknown>[]) =>
  all.every((a) => a.data !== undefined || a.error !== undefined);
export const Empty = ({ children }: { children: ComponentChildren }) => (
  <p class="empty">{children}</p>
);

/** Used against a whole, with the share in words. */
export function Bar({
  v,
  of,
  unit,
  label,
  scarce,
}: {
  v: Num;
  of: Num;
  unit: Unit;
  label: string;
  /** Nearly all of it in use is bad: memory, a disk. */ scarce?: boolean;
}) {
  const share = v !== null && v !== undefined && of ? v / of : null;
  return (
    <span class="meter" title={`${exact(v, unit)} of ${exact(of, unit)}`}>
      <svg
        viewBox="0 0 100 8"
        preserveAspectRatio="none"
        role="img"
        aria-label={`${label}: ${human(v, unit)} of ${human(of, unit)}${share === null ? "" : `, ${human(share, "ratio")}`}`}
      >
        <rect class="track" width="100" height="8" />
        {share !== null && (
          <rect
            class={scarce && share > 0.9 ? "full" : "fill"}
            width={Math.min(100, share * 100)}
            height="8"
          />
        )}
      </svg>
      <span>{share === null ? unknown : human(share, "ratio")}</span>
    </span>
  );
}

export function Spark({
  rows,
  label,
  top,
}: {
  rows: (number | null)[];
  label: string;
  top?: number;
}) {
  const max = Math.max(top ?? 0, ...rows.map((v) => v ?? 0)) || 1;
  let d = "",
    pen = false;
  rows.forEach((v, i) => {
    if (v === null) {
      pen = false;
      return;
    }
    // A value between gaps is a dot: a line of no length with round ends.
    d += `${pen ? "L" : "M"}${((i * 100) / Math.max(1, rows.length - 1)).toFixed(1)} ${(19 - (18 * v) / max).toFixed(1)}${!pen && (rows[i + 1] ?? null) === null ? "h0.1" : ""}`;
    pen = true;
  });
  return (
    <svg
      class="spark"
      viewBox="0 0 100 20"
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <title>{label}</title>
      <path d={d} />
    </svg>
  );
}

/** A menu of columns to show, in their order. */
export function Columns({
  of,
  keys,
  fixed,
  pick,
}: {
  of: { key: string; title: string }[];
  keys: string[];
  fixed: string;
  pick: (keys: string[]) => void;
}) {
  return (
    <details class="menu">
      <summary>Columns</summary>
      <div>
        {of.map((c) => (
          <label>
            <input
              type="checkbox"
              checked={keys.includes(c.key)}
              disabled={c.key === fixed}
              onChange={(e) =>
                pick(
                  of
                    .map((x) => x.key)
                    .filter((k) => (k === c.key ? e.currentTarget.checked : keys.includes(k))),
                )
              }
            />{" "}
            {c.title}
          </label>
        ))}
      </div>
    </details>
  );
}

/** While the page is put on paper: tables have all their rows then, and what is folded is open. */
export const printing = signal(false);
addEventListener("beforeprint", () => {
  printing.value = true;
  for (const d of document.querySelectorAll<HTMLDetailsElement>(
    "main details:not([open], .figures, .later, .menu)",
  )) {
    d.open = true;
    addEventListener("afterprint", () => (d.open = false), { once: true });
  }
});
addEventListener("afterprint", () => {
  printing.value = false;
});

/** Beyond so many rows only those in sight are drawn, each of the same height. */
const manyRows = 120,
  rowHigh = 34,
  spare = 5; // rows drawn above and below those in sight
export interface Col<T> {
  title: string;
  cell: (r: T) => ComponentChildren;
  number?: boolean;
  sort?: string;
  /** Left out on a phone. */ wide?: boolean;
}
const look = (c: { number?: boolean; wide?: boolean }) =>
  (c.number ? "number" : "") + (c.wide ? " wide_" : "");
export function Table<T>({
  cols,
  rows,
  caption,
  keyOf,
  sort,
  onSort,
}: {
  cols: Col<T>[];
  rows: T[];
  caption: string;
  keyOf: (r: T, i: number) => string;
  sort?: string;
  onSort?: (s: string) => void;
}) {
  const many = rows.length > manyRows && !printing.value,
    [at, setAt] = useState(0),
    drawn = Math.ceil((0.75 * innerHeight) / rowHigh) + 2 * spare,
    first = many ? Math.max(0, Math.min(at, rows.length - drawn)) : 0,
    end = many ? Math.min(rows.length, first + drawn) : rows.length;
  const scrolled = (e: Event) => {
    const next = Math.max(
      0,
      Math.floor((e.currentTarget as HTMLElement).scrollTop / rowHigh) - spare,
    );
    if (Math.abs(next - at) >= 3) setAt(next);
  };
  return (
    <div
      class={"scroll" + (many ? " many_" : "")}
      tabIndex={0}
      role="region"
      aria-label={caption}
      onScroll={many ? scrolled : undefined}
    >
      <table aria-rowcount={many ? rows.length + 1 : undefined}>
        <caption class="hidden">{caption}</caption>
        <thead>
          <tr>
            {cols.map((c) => (
              <th
                scope="col"
                class={look(c)}
                aria-sort={
                  c.sort && sort === c.sort
                    ? "ascending"
                    : c.sort && sort === "-" + c.sort
                      ? "descending"
                      : undefined
                }
              >
                {c.sort && onSort ? (
                  <button
                    class="sort"
                    onClick={() => onSort(sort === "-" + c.sort ? c.sort! : "-" + c.sort)}
                  >
                    {c.title}
                    <span aria-hidden="true">
                      {sort === c.sort ? " ↑" : sort === "-" + c.sort ? " ↓" : ""}
                    </span>
                  </button>
                ) : (
                  c.title
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && (
            <tr class="space" aria-hidden="true">
              <td colSpan={cols.length}>
                <svg width="1" height={first * rowHigh} />
              </td>
            </tr>
          )}
          {rows.slice(first, end).map((r, i) => (
            <tr key={keyOf(r, first + i)} aria-rowindex={many ? first + i + 2 : undefined}>
              {cols.map((c) => (
                <td class={look(c)}>{c.cell(r)}</td>
              ))}
            </tr>
          ))}
          {end < rows.length && (
            <tr class="space" aria-hidden="true">
              <td colSpan={cols.length}>
                <svg width="1" height={(rows.length - end) * rowHigh} />
              </td>
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}

/** A choice of a few words, as radio buttons that look like one control. */
export function Choice({
  label,
  value,
  of,
  pick,
}: {
  label: string;
  value: string;
  of: [string, string][];
  pick: (v: string) => void;
}) {
  return (
    <fieldset class="choice">
      <legend>{label}</legend>
      {of.map(([v, text]) => (
        <label class={v === value ? "on" : ""}>
          <input
            type="radio"
            name={label}
            value={v}
            checked={v === value}
            onChange={() => pick(v)}
          />
          {text}
        </label>
      ))}
    </fieldset>
  );
}

/** A dialog that keeps the focus and gives it back. */
export function Dialog({
  title,
  close,
  children,
}: {
  title: string;
  close: () => void;
  children: ComponentChildren;
}) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const d = ref.current!,
      before = document.activeElement as HTMLElement | null;
    d.showModal();
    return () => {
      d.close();
      before?.focus?.();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      aria-label={title}
      onCancel={(e) => {
        e.preventDefault();
        close();
      }}
    >
      <div class="head">
        <h2>{title}</h2>
        <button onClick={close} aria-label="Close">
          ✕
        </button>
      </div>
      {children}
    </dialog>
  );
}
export function copy(text: string, done: (ok: boolean) => void): void {
  const old = () => {
    const t = document.createElement("textarea");
    t.value = text;
    document.body.append(t);
    t.select();
    const ok = document.execCommand("copy");
    t.remove();
    done(ok);
  };
  navigator.clipboard ? navigator.clipboard.writeText(text).then(() => done(true), old) : old();
}

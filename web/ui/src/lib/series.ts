// Names of series as people read them: what all have in common is left out; and which of many are drawn.
import type { PromSeries } from "./types";

export interface Named {
  name: string;
  labels: [string, string][];
}

/** Reads name{a="b",c="d"}; a name that is none is kept whole. */
export function parseSeries(text: string): Named {
  const at = text.indexOf("{");
  if (at < 0 || !text.endsWith("}")) return { name: text, labels: [] };
  const labels: [string, string][] = [];
  for (const m of text.slice(at + 1, -1).matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g)) {
    let v = m[2];
    try {
      v = JSON.parse(`"${m[2]}"`) as string;
    } catch {
      /* Go writes some escapes that JSON does not know: shown as they are */
    }
    labels.push([m[1], v]);
  }
  return { name: text.slice(0, at), labels };
}

/** A short name for each: without the labels, and the name, that all of them share. */
export function shortNames(texts: string[]): string[] {
  if (texts.length < 2)
    return texts.map((t) => {
      const p = parseSeries(t);
      return p.name;
    });
  const all = texts.map(parseSeries);
  const sameName = all.every((p) => p.name === all[0].name);
  const shared = new Set(
    all[0].labels
      .filter(([k, v]) => all.every((p) => p.labels.some(([a, b]) => a === k && b === v)))
      .map(([k]) => k),
  );
  return all.map((p, i) => {
    const rest = p.labels
      .filter(([k]) => !shared.has(k))
      .map(([k, v]) => (k === "workload" || k === "node" ? v : `${k}=${v}`))
      .join(" ");
    return [sameName && rest ? "" : p.name, rest].filter(Boolean).join(" ") || texts[i];
  });
}

/** A selector of a name and values of labels. */
export function selector(name: string, labels: Record<string, string>): string {
  const list = Object.entries(labels)
    .filter(([, v]) => v !== "")
    .map(([k, v]) => `${k}=${JSON.stringify(v)}`)
    .join(",");
  return name + (list ? `{${list}}` : "");
}

/** Units of columns of data sets as those that pages draw. */
export function unitOf(unit: string): string {
  switch (unit) {
    case "seconds/second":
      return "cores";
    case "bytes/second":
      return "bytes_per_second";
    case "joules/second":
      return "watts";
    case "bytes":
    case "seconds":
    case "watts":
    case "joules":
    case "ratio":
      return unit;
  }
  return "count";
}

const size = (s: PromSeries) =>
  (s.values ?? []).reduce(
    (a, [, v]) => a + (Number.isFinite(Number(v)) ? Math.abs(Number(v)) : 0),
    0,
  );
/** The n largest series by their sum, the largest first: of an answer that topk() gives for each step they are not the first. */
export const largest = (list: PromSeries[], n: number) =>
  list
    .map((s) => ({ s, size: size(s) }))
    .sort((a, b) => b.size - a.size)
    .slice(0, n)
    .map((x) => x.s);

/** The unit of an expression of one metric, from its name and whether a rate is taken; "count" where that is not plain. */
export function unitAsked(expr: string): string {
  const names = [
      ...expr.matchAll(
        /\b([a-z_:][a-z0-9_:]*_(?:bytes|seconds|joules|watts)(?:_total)?)\b(?!\s*\()/gi,
      ),
    ].map((m) => m[1]),
    bare = expr.replace(/\{[^}]*\}|\[[^\]]*\]/g, "");
  if (
    new Set(names).size !== 1 ||
    /[-+*/%^<>]|==|\b(count|quantile|stddev|stdvar|absent|changes|resets|increase)\w*\s*\(/.test(
      bare,
    )
  )
    return "count";
  const n = names[0],
    rate = /\bi?rate\s*\(/.test(bare);
  if (!rate && n.endsWith("_total")) return "count";
  return /_seconds(_total)?$/.test(n)
    ? !rate
      ? "seconds"
      : /gpu/.test(n)
        ? "gpus"
        : /cpu/.test(n)
          ? "cores"
          : "count"
    : /_joules(_total)?$/.test(n)
      ? rate
        ? "watts"
        : "joules"
      : /_watts$/.test(n)
        ? "watts"
        : rate
          ? "bytes_per_second"
          : "bytes";
}

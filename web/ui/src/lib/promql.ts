// Completion for PromQL: what could stand where the cursor is. No parser: the text before it decides.
const functions =
  "abs absent absent_over_time avg_over_time ceil changes clamp clamp_max clamp_min count_over_time day_of_week delta deriv exp floor histogram_avg histogram_count histogram_quantile histogram_sum hour idelta increase irate label_join label_replace last_over_time ln log10 log2 max_over_time min_over_time predict_linear quantile_over_time rate resets round sort sort_desc sqrt stddev_over_time sum_over_time time timestamp vector".split(
    " ",
  );
const operators =
  "sum avg min max count stddev quantile topk bottomk count_values group by without and or unless on ignoring group_left group_right offset bool".split(
    " ",
  );

export interface Place {
  kind: "name" | "label" | "value";
  begun: string;
  from: number;
  metric?: string;
  label?: string;
}

export function place(text: string, cursor: number): Place {
  const before = text.slice(0, cursor);
  let brace = -1,
    inside: string | null = null;
  for (let i = 0; i < before.length; i++) {
    const c = before[i];
    if (inside) {
      if (c === "\\") i++;
      else if (c === inside) inside = null;
      continue;
    }
    if (c === '"' || c === "'" || c === "`") inside = c;
    else if (c === "{") brace = i;
    else if (c === "}") brace = -1;
  }
  const metric =
    brace >= 0 ? /([a-zA-Z_:][\w:]*)\s*$/.exec(before.slice(0, brace))?.[1] : undefined;
  if (brace >= 0 && inside) {
    const m = /([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)\s*["'`]((?:[^"'`\\]|\\.)*)$/.exec(before);
    if (m) return { kind: "value", begun: m[2], from: cursor - m[2].length, metric, label: m[1] };
  }
  const begun = /[a-zA-Z_:][\w:]*$/.exec(before)?.[0] ?? "";
  const grouping = /\b(?:by|without|on|ignoring)\s*\([^)]*$/.test(before);
  return {
    kind: inside ? "value" : brace >= 0 || grouping ? "label" : "name",
    begun,
    from: cursor - begun.length,
    metric,
  };
}

export function complete(begun: string, names: string[], max = 10): string[] {
  const b = begun.toLowerCase();
  const starts = names.filter((n) => n.toLowerCase().startsWith(b)),
    holds =
      b.length > 1
        ? names.filter((n) => !n.toLowerCase().startsWith(b) && n.toLowerCase().includes(b))
        : [];
  return [...starts, ...holds].filter((n) => n !== begun).slice(0, max);
}
export const words = [...functions, ...operators];

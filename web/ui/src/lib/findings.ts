// Findings of one rule and person, put together.
import type { Finding } from "./types";

export interface FindingGroup {
  key: string;
  of: Finding[];
  first: string;
  cores: number;
  gpus: number;
}
const rank: Record<string, number> = { high: 0, medium: 1, low: 2 };
const lost = (list: Finding[], unit: string) =>
  list.reduce(
    (a, f) =>
      a + f.evidence.filter((e) => e.wasted && e.unit === unit).reduce((s, e) => s + e.value, 0),
    0,
  );

/** The gravest first, then what cost most; a GPU counts as 16 cores in the order. */
export function groupsOf(list: Finding[]): FindingGroup[] {
  const by = new Map<string, Finding[]>();
  for (const f of list) {
    const k = [f.site ?? "", f.owner || f.node || f.id, f.rule, f.severity].join("\n");
    by.set(k, [...(by.get(k) ?? []), f]);
  }
  return [...by]
    .map(([key, of]) => ({
      key,
      of,
      first: of.reduce((a, f) => (f.first < a ? f.first : a), of[0].first),
      cores: lost(of, "core-seconds"),
      gpus: lost(of, "gpu-seconds"),
    }))
    .sort(
      (a, b) =>
        (rank[a.of[0].severity] ?? 3) - (rank[b.of[0].severity] ?? 3) ||
        b.cores + 16 * b.gpus - a.cores - 16 * a.gpus,
    );
}

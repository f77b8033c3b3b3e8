// What a chart says of the moment under the pointer, and texts that must fit.
import type { Line } from "./chart";
import { axisWord, human, known, type Unit } from "./units";

/** What a chart says of a moment: the line under the pointer, all together, and what is above them, with units. */
export function pointedAt(
  at: number,
  name: Line | undefined,
  stack: Line[],
  total: Line | undefined,
  above: Line[],
  unit: Unit,
): [string, string][] {
  const text = (v: number | null | undefined) => human(v, unit) + (known(v) ? axisWord(unit) : ""),
    used = stack.filter((l) => l.quiet !== 2).map((l) => l.row[at]), // without what is free
    all =
      stack.length > 1 && used.some(known) ? used.reduce<number>((a, v) => a + (v ?? 0), 0) : null,
    out: [string, string][] = [];
  if (name) out.push([name.label, text(name.row[at])]);
  if (total) out.push([total.label, text(total.row[at])]);
  if (known(all)) out.push(["all together", text(all)]);
  for (const l of above) if (known(l.row[at])) out.push([l.label, text(l.row[at])]);
  return out;
}

/** A text, or as much of its beginning as fits and a sign that there is more. */
export function fitted(text: string, fits: (t: string) => boolean): string {
  if (fits(text)) return text;
  const letters = [...text];
  while (letters.length > 1 && !fits(letters.join("") + "…")) letters.pop();
  return letters.join("").trimEnd() + "…";
}

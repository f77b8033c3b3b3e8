// The colour of a name: the same on all pages, and kept in a tab, over its reloads too, whatever its rank becomes.

/** How many colours charts have. */
export const inks = 12;
/** The first of them differ most: a name takes one of the others only where these are in use. */
const best = 9;
const mostKept = 500;
const kept = stored();
function stored(): Map<string, number> {
  try {
    return new Map(JSON.parse(sessionStorage.getItem("reckon.inks") ?? "[]"));
  } catch {
    return new Map(); // there is no storage, or another thing in it
  }
}
const hashed = (name: string) =>
  [...name].reduce((h, c) => Math.imul(h ^ c.codePointAt(0)!, 0x01000193) >>> 0, 0x811c9dc5) % best;

/** A colour for each name of one chart, no two alike while there are as many colours as names. */
export function inksOf(names: string[], had = kept): Map<string, number> {
  const out = new Map<string, number>(),
    used = new Set<number>();
  const give = (name: string, from: number) => {
    let i = from;
    for (let n = 0; n < inks && used.has(i); n++) i = (i + 1) % inks;
    used.add(i);
    out.set(name, i);
    had.set(name, i);
  };
  for (const n of names)
    if (had.has(n) && !used.has(had.get(n)!) && !out.has(n)) give(n, had.get(n)!);
  for (const n of names) if (!out.has(n)) give(n, hashed(n));
  try {
    if (had === kept)
      sessionStorage.setItem("reckon.inks", JSON.stringify([...kept].slice(-mostKept)));
  } catch {
    // They are kept until the page is left.
  }
  return out;
}

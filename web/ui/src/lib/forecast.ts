// What a day will have used when it ends: what it has used, and for the hours to come what
// the same hours of the days before used, as much more or less as today did so far.
export interface Hour { from: number; joules: number }
export interface Forecast { soFar: number; joules: number; low: number; high: number; days: number }

const hour = 3.6e6;
const midnight = (t: number) => { const d = new Date(t); d.setHours(0, 0, 0, 0); return d.getTime(); };

/** Hours are sums of whole hours, the running one as far as it came; watts is the draw of now. null: nothing is known. */
export function forecast(hours: Hour[], now: number, watts: number | null): Forecast | null {
  const begin = midnight(now), end = midnight(begin + 26 * hour), running = Math.floor(now / hour) * hour;
  const today = hours.filter((h) => h.from >= begin && h.from < running);
  const byDay = new Map<number, Map<number, number>>();
  for (const h of hours) {
    if (h.from >= begin) continue;
    const day = midnight(h.from), of = byDay.get(day) ?? new Map<number, number>();
    of.set(new Date(h.from).getHours(), h.joules);
    byDay.set(day, of);
  }
  // The mean of what is there for an hour of the day; days that lack it do not count as 0.
  const typical = (h: number): number | null => { const have = [...byDay.values()].map((d) => d.get(h)).filter((v): v is number => v !== undefined); return have.length ? have.reduce((a, b) => a + b, 0) / have.length : null; };
  const rolled = hours.find((h) => h.from === running)?.joules ?? 0, part = (now - running) / hour;
  // Before anything was kept nothing is known to have been used: the power of now says nothing of it.
  const current = watts !== null && today.length > 0 ? Math.max(rolled, watts * 3600 * part) : rolled;
  const soFar = today.reduce((a, h) => a + h.joules, 0) + current;
  let did = 0, usual = 0;
  for (const h of today) { const t = typical(new Date(h.from).getHours()); if (t !== null) { did += h.joules; usual += t; } }
  const ratio = usual > 0 ? Math.min(2, Math.max(0.5, did / usual)) : 1;
  if (watts === null && typical(new Date(now).getHours()) === null) return null;
  let rest = 0, low = 0, high = 0;
  for (let t = running; t < end; t += hour) {
    const share = t === running ? 1 - part : 1, of = new Date(t).getHours(), all = [...byDay.values()].map((d) => d.get(of)).filter((v): v is number => v !== undefined);
    const mean = typical(of), v = mean === null ? watts! * 3600 : mean * ratio;
    rest += v * share;
    low += (all.length > 1 ? Math.min(...all) * ratio : v * 0.8) * share;
    high += (all.length > 1 ? Math.max(...all) * ratio : v * 1.2) * share;
  }
  return { soFar, joules: soFar + rest, low: soFar + low, high: soFar + high, days: byDay.size };
}

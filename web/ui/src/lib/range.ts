// The time that all pages are about: in the address as last=SECONDS (or 24h, 7d), or from= and to=, so that it is
// shared by a copied link. Pages take it along from one to the next.
import { computed, signal } from "@preact/signals";
import { few, rangeOf } from "./span";
import { beat, param, set } from "./state";
import type { Node } from "./types";

export * from "./span";
/** The length where none is chosen: a day, less where less is measured yet. */
export const usual = signal(86400);
/** A range of a large site moves on each minute, so that its viewers share answers. */
const least = signal(0);
/** A site that is new has little to show of a day. */
export function fitUsual(nodes: Node[]): true {
  least.value = nodes.length > few ? 60 : 0;
  const seen = Math.max(0, ...nodes.map((n) => n.day?.up_seconds ?? 86400));
  usual.value = seen < 2 * 3600 ? 3600 : seen < 12 * 3600 ? 21600 : 86400;
  return true;
}
export const range = computed(() => {
  beat.value;
  return rangeOf(param, Date.now() / 1000, usual.value, least.value);
});
export const zoomTo = (from: number, to: number) =>
  set({ from: String(Math.floor(from)), to: String(Math.ceil(to)), last: "", since: "" }, false);

// The time that all pages are about: in the address as last=SECONDS (or 24h, 7d), or from= and to=, so that it is
// shared by a copied link. Pages take it along from one to the next.
import { computed, signal } from "@preact/signals";
import { rangeOf } from "./span";
import { beat, param, set } from "./state";

export * from "./span";
/** The length where none is chosen: a day, less where less is measured yet. */
export const usual = signal(86400);
export const range = computed(() => { beat.value; return rangeOf(param, Date.now() / 1000, usual.value); });
export const zoomTo = (from: number, to: number) => set({ from: String(Math.floor(from)), to: String(Math.ceil(to)), last: "", since: "" }, false);

// What the whole page shares: where it is, what the server can, who looks, which theme.
import { computed, effect, signal } from "@preact/signals";
import places from "../places.json";
import type { Live, Me } from "./types";

const body = document.body.dataset;
export const version = body.version ?? "";
const can = new Set((body.has ?? "").split(" "));
/** Whether this server answers a topic: live, auth, usage, scale, prometheus, metrics. */
export const has = (topic: string) => can.has(topic);

// --- where we are ---------------------------------------------------------------
export const url = signal(new URL(location.href));
export const page = computed(() => url.value.pathname);
export const param = (name: string) => url.value.searchParams.get(name) ?? "";

export function go(href: string, replace = false): void {
  const next = taking(new URL(href, location.href));
  const moved = next.pathname !== url.value.pathname;
  history[replace ? "replaceState" : "pushState"](null, "", next);
  url.value = next;
  if (moved && !replace) {
    scrollTo(0, 0);
    document.getElementById("main")?.focus({ preventScroll: true });
  }
}
/** Another page is about the same time, unless its address says another. */
function taking(next: URL): URL {
  const time = ["last", "from", "to", "since"],
    here = url.value.searchParams;
  if (next.pathname !== url.value.pathname && !time.some((k) => next.searchParams.has(k)))
    for (const k of time) if (here.has(k)) next.searchParams.set(k, here.get(k)!);
  return next;
}
/** Changes parameters of the address of this page; empty removes one. */
export function set(values: Record<string, string>, replace = true): void {
  const next = new URL(url.value);
  for (const [k, v] of Object.entries(values))
    v === "" ? next.searchParams.delete(k) : next.searchParams.set(k, v);
  if (next.href !== url.value.href) go(next.href, replace);
}
const also = (more: Record<string, string | undefined>) =>
  Object.fromEntries(Object.entries(more).filter((e): e is [string, string] => !!e[1]));
// Sites may give the same names: where the site is known it is in the address.
export const workloadLink = (id: string, start?: string, site?: string) =>
  "/workload?" + new URLSearchParams({ id, ...also({ start, site }) });
export const nodeLink = (node: string, site?: string) =>
  "/node?" + new URLSearchParams({ name: node, ...also({ site }) });
export const ownerLink = (owner: string) =>
  has("usage") ? "/owner?" + new URLSearchParams({ name: owner }) : ownersWork(owner);
export const ownersWork = (owner: string) =>
  "/workloads?" +
  new URLSearchParams({ q: "owner:" + (/[\s":,]/.test(owner) ? JSON.stringify(owner) : owner) });

addEventListener("popstate", () => {
  url.value = new URL(location.href);
});
document.addEventListener("click", (e) => {
  if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey)
    return;
  const a = (e.target as Element).closest?.("a[href]") as HTMLAnchorElement | null;
  if (
    !a ||
    a.target ||
    a.hasAttribute("download") ||
    a.origin !== location.origin ||
    !places.some((p) => p.path === a.pathname) // the server's own: reports, guides, the API
  )
    return;
  if (a.getAttribute("href")!.startsWith("#")) return;
  e.preventDefault();
  go(a.href);
});

// --- theme ------------------------------------------------------------------------
const kept = (key: string) => {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
};
export const keep = (key: string, v: string) => {
  try {
    localStorage.setItem(key, v);
  } catch {
    /* private window: not kept */
  }
};
export const recall = kept;
export const theme = signal(kept("reckon.theme") ?? "auto");
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(prefersDark.matches);
prefersDark.addEventListener("change", (e) => {
  systemDark.value = e.matches;
});
export const dark = computed(
  () => theme.value === "dark" || (theme.value === "auto" && systemDark.value),
);
effect(() => {
  document.documentElement.dataset.theme = dark.value ? "dark" : "light";
  keep("reckon.theme", theme.value);
});

// --- time ------------------------------------------------------------------------
/** Goes up when views of now should ask again: every 15 s while somebody looks. */
export const beat = signal(0);
export const live = signal<Live | null>(null);
export const liveState = signal<"off" | "on" | "lost">("off");
export const paused = signal(false);
let last = Date.now();
function tick(): void {
  if (document.hidden || paused.value || Date.now() - last < 14_500) return;
  last = Date.now();
  beat.value++;
}
export function start(): void {
  setInterval(tick, 1000);
  if (!has("live")) return;
  let source: EventSource | null = null;
  const listen = () => {
    if (document.hidden) {
      source?.close();
      source = null;
      return;
    }
    if (source) return;
    source = new EventSource("/api/reckon/v1/live");
    source.addEventListener("live", (e) => {
      liveState.value = "on";
      if (!paused.value) live.value = JSON.parse((e as MessageEvent).data) as Live;
    });
    source.addEventListener("error", () => {
      liveState.value = "lost";
    });
  };
  document.addEventListener("visibilitychange", listen);
  listen();
}

/** The next search box that comes takes the focus. */
export const searching = signal(false);

// --- who looks -------------------------------------------------------------------
export const me = signal<Me | null>(null);
/** Whether it is known who looks, as far as it can be: what to ask for depends on it. */
/** "Nothing", to who sees all; to who sees only their own work it is nothing of theirs. */
export const nothing = () => (me.value?.role === "user" ? "Nothing of yours" : "Nothing");
export const introduced = signal(!has("auth"));

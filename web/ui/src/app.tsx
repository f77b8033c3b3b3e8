// The frame of all pages: navigation, keys, theme, who is signed in, help and the tour.
import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask } from "./lib/api";
import { Closed, Dialog } from "./lib/parts";
import {
  go,
  has,
  introduced,
  keep,
  live,
  liveState,
  me,
  page,
  paused,
  recall,
  searching,
  theme,
  version,
} from "./lib/state";
import type { Me } from "./lib/types";
import { Picker } from "./lib/picker";
import { Nodes } from "./pages/nodes";
import { Owners } from "./pages/owners";
import { Site } from "./pages/site";
import { Workloads } from "./pages/workloads";
import list from "./places.json";

interface Place {
  path: string;
  title: string;
  key?: string;
  under?: string;
  when?: string;
  range?: boolean;
}
/** A page that is fetched when it is opened, so that the first one has less to load. */
function later(load: () => Promise<ComponentType<any>>): ComponentType<any> {
  let view: ComponentType<any> | undefined;
  return (props: object) => {
    const [state, set] = useState("");
    useEffect(() => {
      if (view) return;
      let wait = 0,
        gone = false;
      // A browser keeps that a part of a page failed: once the server answers again, all is loaded again.
      const again = () =>
        fetch("/healthz").then(
          () => {
            if (gone) location.reload();
            else set("failed");
          },
          () => {
            gone = true;
            set("gone");
            wait = setTimeout(again, 3000) as unknown as number;
          },
        );
      load().then((v) => {
        view = v;
        set("there");
      }, again);
      return () => clearTimeout(wait);
    }, []);
    const View = view;
    return View ? (
      <View {...props} />
    ) : state === "gone" ? (
      <div class="note error" role="alert">
        <strong>The server does not answer.</strong> This page is loaded once it does.
      </div>
    ) : state === "failed" ? (
      <div class="note error" role="alert">
        <strong>This page could not be loaded.</strong> The server may have a new version.{" "}
        <button onClick={() => location.reload()}>Load again</button>
      </div>
    ) : (
      <p class="loading" role="status">
        <span class="bar" aria-hidden="true" />
        Loading the page…
      </p>
    );
  };
}
const Tour = later(() => import("./pages/tour").then((m) => m.Tour));

/** What stands at the addresses of places.json, which the server answers. */
const views: Record<string, ComponentType> = {
  "/": Site,
  "/nodes": Nodes,
  "/node": later(() => import("./pages/node").then((m) => m.NodePage)),
  "/workloads": Workloads,
  "/workload": later(() => import("./pages/workload").then((m) => m.WorkloadPage)),
  "/owners": Owners,
  "/owner": later(() => import("./pages/owner").then((m) => m.OwnerPage)),
  "/alerts": later(() => import("./pages/alerts").then((m) => m.Alerts)),
  "/usage": later(() => import("./pages/usage").then((m) => m.UsagePage)),
  "/findings": later(() => import("./pages/findings").then((m) => m.Findings)),
  "/power": later(() => import("./pages/power").then((m) => m.Power)),
  "/runs": later(() => import("./pages/runs").then((m) => m.Runs)),
  "/run": later(() => import("./pages/runs").then((m) => m.RunPage)),
  "/data": later(() => import("./pages/data").then((m) => m.Data)),
  "/explore": later(() => import("./pages/explore").then((m) => m.Explore)),
  "/about": later(() => import("./pages/about").then((m) => m.About)),
};
const places = (list as Place[]).map((p) => ({ ...p, view: views[p.path] }));
const offered = places.filter((p) => !p.when || has(p.when));
/** Pages of what has names are no use to those who are not signed in. */
const named = ["/owners", "/owner", "/findings", "/alerts", "/runs", "/run"];
const shownTo = () => offered.filter((p) => me.value?.role !== "public" || !named.includes(p.path));

const help = signal(false),
  tour = signal(false);

function keys(): () => void {
  let g = 0;
  const typing = (t: EventTarget | null) =>
    t instanceof HTMLElement &&
    (/^(TEXTAREA|SELECT)$/.test(t.tagName) ||
      t.isContentEditable ||
      (t instanceof HTMLInputElement && t.type !== "radio" && t.type !== "checkbox"));
  const press = (e: KeyboardEvent) => {
    if (
      e.ctrlKey ||
      e.metaKey ||
      e.altKey ||
      typing(e.target) ||
      document.querySelector("dialog[open]")
    )
      return;
    const place = Date.now() - g < 1500 && offered.find((p) => p.key === e.key);
    g = 0;
    if (place) {
      e.preventDefault();
      go(place.path);
      return;
    }
    switch (e.key) {
      case "g":
        g = Date.now();
        break;
      case "?":
        e.preventDefault();
        help.value = true;
        break;
      case "t":
        theme.value = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
        break;
      case "p":
        paused.value = !paused.value;
        break;
      case "/": {
        e.preventDefault();
        const box = document.querySelector<HTMLElement>("[data-search]");
        if (box) box.focus();
        else {
          searching.value = true;
          go("/workloads");
        }
      }
    }
  };
  addEventListener("keydown", press);
  return () => removeEventListener("keydown", press);
}

export function App() {
  useEffect(keys, []);
  useEffect(() => {
    if (has("auth"))
      ask<Me>("/auth/me")
        .then(
          (m) => {
            me.value = m;
            if (m.role === "nobody")
              location.assign(
                "/auth/login?" + new URLSearchParams({ next: location.pathname + location.search }),
              );
          },
          () => {
            me.value = null;
          },
        )
        .finally(() => {
          introduced.value = true;
        });
    if (!recall("reckon.tour")) tour.value = true;
  }, []);
  const here = offered.find((p) => p.path === page.value);
  useEffect(() => {
    document.title = (here?.title ?? "Not found") + " – reckon";
  }, [here]);
  const View = here?.view;
  const m = me.value;
  return (
    <>
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <header class="top">
        <a class="brand" href="/">
          <img src="/static/icon.svg" width="22" height="22" alt="" />
          reckon
        </a>
        <nav aria-label="Pages">
          {shownTo()
            .filter((p) => p.key)
            .map((p) => (
              <a
                href={p.path}
                aria-current={p.path === page.value || p.path === here?.under ? "page" : undefined}
                aria-keyshortcuts={"g " + p.key}
              >
                {p.title}
              </a>
            ))}
        </nav>
        <div class="tools">
          <LiveMark />
          <button
            aria-label={`Theme: ${theme.value}. Change`}
            title="Theme: as the system, light or dark"
            onClick={() => {
              theme.value =
                theme.value === "auto" ? "light" : theme.value === "light" ? "dark" : "auto";
            }}
          >
            {theme.value === "auto" ? "◐ auto" : theme.value === "light" ? "☀ light" : "☾ dark"}
          </button>
          <button
            aria-label="Help and keys"
            title="Help (?)"
            onClick={() => {
              help.value = true;
            }}
          >
            ?
          </button>
          {m && m.name && (
            <form method="post" action="/auth/logout">
              <span title={`role ${m.role}`}>
                <bdi>{m.name}</bdi>
              </span>{" "}
              <button>Sign out</button>
            </form>
          )}
          {m && !m.name && m.role === "public" && <a href="/auth/login">Sign in</a>}
        </div>
      </header>
      {here?.range && (
        <div class="timebar">
          <Picker />
        </div>
      )}
      {has("made-up") && (
        <aside class="madeup" aria-label="Simulated">
          <b>Simulated site:</b> nothing here was measured.
        </aside>
      )}
      <main id="main" tabIndex={-1}>
        {View && m?.role === "public" && named.includes(here.path) ? (
          <>
            <h1>{here.title}</h1>
            <Closed>{here.title} are shown to those who are signed in.</Closed>
          </>
        ) : View ? (
          <View />
        ) : (
          <>
            <h1>Not found</h1>
            <p>
              There is no page at <code>{page.value.slice(0, 80)}</code>. Pages:{" "}
              {shownTo()
                .filter((p) => p.key)
                .map((p, i) => (
                  <>
                    {i > 0 && ", "}
                    <a href={p.path}>{p.title}</a>
                  </>
                ))}
              .
            </p>
          </>
        )}
      </main>
      {help.value && <Help />}
      {tour.value && (
        <Tour
          close={() => {
            tour.value = false;
            keep("reckon.tour", "seen");
          }}
        />
      )}
    </>
  );
}

function LiveMark() {
  if (!has("live"))
    return (
      <span class="quiet" title="Figures are read again every 15 s">
        {paused.value ? "paused" : "↻ 15 s"}
      </span>
    );
  const text = paused.value
    ? "⏸ paused"
    : liveState.value === "lost"
      ? "✕ no live figures"
      : liveState.value === "on"
        ? "● live"
        : "○ waiting";
  return (
    <button
      aria-pressed={paused.value}
      title={live.value ? `last tick ${live.value.time} (p pauses)` : "p pauses"}
      onClick={() => {
        paused.value = !paused.value;
      }}
    >
      {text}
    </button>
  );
}

function Help() {
  return (
    <Dialog
      title="Help"
      close={() => {
        help.value = false;
      }}
    >
      <p>
        Hover over a figure for its exact value, over a time for its UTC; – means not measured. The
        address of a page holds everything you chose: copy it to share the page.
      </p>
      <h3>Keys</h3>
      <dl class="keys">
        {shownTo()
          .filter((p) => p.key)
          .map((p) => (
            <>
              <dt>
                <kbd>g</kbd> <kbd>{p.key}</kbd>
              </dt>
              <dd>{p.title}</dd>
            </>
          ))}
        <dt>
          <kbd>/</kbd>
        </dt>
        <dd>search workloads</dd>
        <dt>
          <kbd>t</kbd>
        </dt>
        <dd>light or dark</dd>
        <dt>
          <kbd>p</kbd>
        </dt>
        <dd>pause and resume live figures</dd>
        <dt>
          <kbd>?</kbd>
        </dt>
        <dd>this help</dd>
        <dt>
          <kbd>Esc</kbd>
        </dt>
        <dd>close</dd>
        <dt>
          <kbd>←</kbd>
          <kbd>→</kbd>
          <kbd>↑</kbd>
          <kbd>↓</kbd>
        </dt>
        <dd>from node to node on the first page</dd>
      </dl>
      <p>
        <button
          onClick={() => {
            help.value = false;
            tour.value = true;
          }}
        >
          Show the tour
        </button>{" "}
        <a href="/api/reckon/openapi.json">API</a>{" "}
        <span class="quiet">version {version || "unknown"}</span>
      </p>
    </Dialog>
  );
}

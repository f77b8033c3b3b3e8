// What the tests of the pages against the real program share: starting it, a browser, looks.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

export const browserAt = [
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
].find(existsSync);
export function need(shots) {
  if (!browserAt) {
    console.log("ui: skipped, there is no Chromium here (on Debian: apt-get install chromium)");
    process.exit(0);
  }
  mkdirSync(shots, { recursive: true });
}
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const dirs = [],
  servers = [];
// Whatever ends this script, no server outlives it.
process.on("exit", () => {
  for (const s of servers) s.kill("SIGKILL");
  for (const d of dirs) rmSync(d, { recursive: true, force: true });
});
process.on("SIGTERM", () => process.exit(1));
process.on("SIGINT", () => process.exit(1));
export function dir() {
  const d = mkdtempSync(join(tmpdir(), "reckon-ui-"));
  dirs.push(d);
  return d;
}
export const launch = () =>
  chromium.launch({
    executablePath: browserAt,
    args: ["--no-sandbox", "--force-prefers-reduced-motion"],
  });

/** Runs the program to its end. */
export function run(reckon, ...args) {
  const r = spawnSync(reckon, args, { encoding: "utf8", timeout: 240_000 });
  assert.equal(r.status, 0, `reckon ${args.join(" ")}: ${r.stderr}${r.error ?? ""}`);
  return r.stdout;
}
/** Writes a simulated site that has just reached the present. */
export const makeUp = (reckon, data, ...args) =>
  run(reckon, "simulate", "--tick", "60s", "--export", "2m", "--data", data, ...args);

/** Starts a server and gives its address. */
export async function serve(reckon, ...args) {
  const server = spawn(reckon, [...args, "--listen", "127.0.0.1:0"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  servers.push(server);
  let base = "";
  for await (const line of createInterface({ input: server.stdout })) {
    base = /http:\/\/[\d.:]+/.exec(line)?.[0] ?? "";
    if (base) break;
  }
  server.stdout.resume();
  assert.ok(base, `reckon ${args.join(" ")} gave no address`);
  return { base, stop: () => stop(server) };
}
const stop = (server) =>
  new Promise((r) => {
    if (server.exitCode !== null || server.signalCode !== null) return r();
    server.on("exit", r);
    server.kill("SIGTERM");
  });
export async function clean() {
  await Promise.all(servers.map(stop));
  for (const d of dirs) rmSync(d, { recursive: true, force: true });
}

/** Asks again until there is an answer, for so many seconds. */
export async function until(what, f, seconds = 300) {
  for (let i = 0; i < 4 * seconds; i++) {
    const v = await f().catch(() => null);
    if (v) return v;
    await new Promise((r) => setTimeout(r, 250));
  }
  throw new Error("waited in vain for " + what);
}
/** Until nothing is asked for any more. */
export const settled = (page) =>
  page.waitForFunction(
    () =>
      document.querySelector("h1") &&
      !document.querySelector(".loading") &&
      !document.querySelector("main").innerText.includes("Loading…"),
    null,
    { timeout: 60_000 },
  );

export async function accessible(page, name) {
  await page.evaluate(axe);
  assert.deepEqual(
    await page.evaluate(async () =>
      (
        await globalThis.axe.run(document, {
          runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"],
        })
      ).violations.map(
        (v) =>
          `${v.id}: ${v.nodes
            .slice(0, 3)
            .map((n) => n.target + " " + (n.any[0]?.message ?? ""))
            .join("; ")}`,
      ),
    ),
    [],
    name,
  );
}
export async function fits(page, name) {
  const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(over <= 0, `${name}: ${over} pixels wider than the window`);
}

/** Counts what fails, of the visits whose names match `only`; each visit has a browser of its own and may say nothing on the console but what `quiet` matches. */
export function visits(browser, shots, prefix, quiet = /^$/, only = "") {
  const state = { failed: 0, done: 0 };
  state.visit = async (name, options, f) => {
    if (!new RegExp(only).test(name)) return;
    const context = await browser.newContext({
        viewport: { width: 1280, height: 900 },
        timezoneId: "Europe/Berlin",
        locale: "en-GB",
        ...options,
      }),
      page = await context.newPage(),
      said = [];
    await context.addInitScript(() => localStorage.setItem("reckon.tour", "seen"));
    page.on("console", (m) => {
      if ((m.type() === "error" || m.type() === "warning") && !quiet.test(m.text()))
        said.push(m.text());
    });
    page.on("pageerror", (e) => said.push(String(e)));
    try {
      await f(page);
      assert.deepEqual(said, [], "console");
      state.done++;
    } catch (err) {
      state.failed++;
      console.error(
        `FAIL ${name}\n     ${String(err?.stack ?? err)
          .split("\n")
          .slice(0, 8)
          .join("\n     ")}`,
      );
      await page
        .screenshot({ path: `${shots}/${prefix}-failed-${state.failed}.png` })
        .catch(() => undefined);
    }
    await context.close();
  };
  return state;
}

/** What is asked of the server, without the times in it. */
const question = (url) => {
  const u = new URL(url);
  return (
    u.pathname +
    ["query", "by", "sort", "since"]
      .map((k) => " " + (u.searchParams.get(k) ?? "").replace(/\d{4}-[\d-]+T\S+/, ""))
      .join("")
      .trimEnd()
  );
};
/** The layout shift of a page while it loads: the greatest sum of a session window (at most 5 s, gaps below 1 s), as web.dev/cls defines it. With `late` only the answer to that question is held back. */
async function shift(browser, url, phone, delay, late) {
  const context = await browser.newContext({
      viewport: phone ? { width: 390, height: 844 } : { width: 1440, height: 900 },
    }),
    page = await context.newPage();
  await context.addInitScript(() => {
    localStorage.setItem("reckon.tour", "seen");
    const name = (n) => {
      const e = n?.nodeType === 1 ? n : n?.parentElement;
      return e
        ? `${e.tagName.toLowerCase()}${e.id ? "#" + e.id : ""}${typeof e.className === "string" && e.className ? "." + e.className.split(" ").join(".") : ""} "${e.textContent.slice(0, 30)}"`
        : "gone";
    };
    globalThis.shifts = [];
    globalThis.longTasks = 0;
    new PerformanceObserver((l) => {
      for (const e of l.getEntries())
        if (!e.hadRecentInput)
          globalThis.shifts.push({
            t: e.startTime,
            v: e.value,
            of: e.sources.map(
              (s) =>
                `${name(s.node)} ${Math.round(s.previousRect.top)}+${Math.round(s.previousRect.height)} -> ${Math.round(s.currentRect.top)}+${Math.round(s.currentRect.height)}`,
            ),
          });
    }).observe({ type: "layout-shift", buffered: true });
    new PerformanceObserver((l) => {
      for (const e of l.getEntries()) globalThis.longTasks += e.duration;
    }).observe({ type: "longtask", buffered: true });
  });
  // Another build of the pages than the server has: UI=web/ui/dist.
  if (process.env.UI)
    await page.route(/\/static\/app\.(js|css)/, (r) =>
      r.fulfill({
        path: process.env.UI + new URL(r.request().url()).pathname.replace("/static", ""),
      }),
    );
  const questions = new Set();
  if (delay > 0)
    await page.route(/\/(api|auth|alertmanager)\//, async (r) => {
      const u = r.request().url(),
        q = question(u);
      if (u.includes("/live")) return r.continue();
      questions.add(q);
      if (late === undefined || late === q)
        await new Promise((x) => setTimeout(x, late === q ? delay : delay * (0.5 + Math.random())));
      await r.continue().catch(() => undefined);
    });
  await page.goto(url);
  await settled(page);
  await page.waitForTimeout(late === undefined ? delay * 4 + 300 : delay + 500);
  await settled(page);
  const got = await page.evaluate(() => ({
    shifts: globalThis.shifts,
    long: globalThis.longTasks,
  }));
  await context.close();
  let most = 0,
    first = -1e9,
    last = -1e9,
    sum = 0;
  for (const s of got.shifts) {
    if (s.t - last > 1000 || s.t - first > 5000) {
      first = s.t;
      sum = 0;
    }
    last = s.t;
    sum += s.v;
    most = Math.max(most, sum);
  }
  return {
    shift: most,
    long: got.long,
    questions: [...questions],
    moved: got.shifts
      .sort((a, b) => b.v - a.v)
      .slice(0, 4)
      .map((s) => `${s.v.toFixed(3)} at ${s.t.toFixed(0)} ms: ${s.of.join("; ")}`),
  };
}
/** Every page, each with something on it. */
async function everyPage(ask) {
  const nodes = await ask("/api/reckon/v1/nodes"),
    works = await ask("/api/reckon/v1/workloads?sort=-cpu_seconds&limit=400"),
    n = nodes.nodes[0].node,
    w =
      works.workloads.find((x) => x.kind === "slurm" && !x.running && x.wall_seconds > 3600) ??
      works.workloads[0],
    q = (o) => new URLSearchParams(o);
  return [
    ["first", "/"],
    ["nodes", "/nodes"],
    ["node", "/node?" + q({ name: n })],
    ["workloads", "/workloads"],
    ["workload", "/workload?" + q({ id: w.id })],
    ["owners", "/owners"],
    ["owner", "/owner?" + q({ name: w.owner })],
    ["usage", "/usage"],
    ["findings", "/findings"],
    ["alerts", "/alerts"],
    ["power", "/power"],
    ["data", "/data"],
    ["explore", "/explore?expr=up"],
    ["about", "/about"],
  ];
}
export const measured = { shift, pages: everyPage };

/** Keeps a run of a MetricSet as the operator does: a pod that uses `cores` for a minute, and a latency that it reported. */
export async function keepRun(base, name, cores, node) {
  const end = Math.floor(Date.now() / 1000) - 3600,
    at = (s) => new Date((end - 60 + s) * 1000).toISOString(),
    uid = "uid-" + name;
  const samples = Array.from({ length: 60 }, (_, i) => ({
    seq: i + 1,
    from: at(i),
    to: at(i + 1),
    total: {
      cpu_seconds: cores * (1 + 0.05 * Math.sin(i * 1.7)),
      user_seconds: 0.9 * cores,
      system_seconds: 0.1 * cores,
      read_bytes: 4e6 * (1 + (i % 5)),
      write_bytes: 1e6,
      resident_bytes: 2e9 + i * 1e7,
      wait_seconds: 0.05,
      threads: 8,
    },
    ended: {},
  }));
  const body = {
    run: {
      set: "fio",
      outcome: "Completed",
      started: at(0),
      finished: at(60),
      metrics: [{ name: "app-usage", job: "main", attach: "agent", options: { rate: "1" } }],
      pods: [
        {
          name: `${name}-main-0`,
          uid,
          job: "main",
          node,
          started: at(0),
          finished: at(60),
          exit_code: 0,
          reported: [
            {
              name: "latency 8 bytes",
              unit: "seconds",
              values: Array.from({ length: 30 }, (_, i) => 2e-6 * cores * (1 + (i % 7) / 100)),
            },
          ],
        },
      ],
    },
    pod: uid,
    samples,
  };
  const r = await fetch(`${base}/api/reckon/v1/runs/bench/${name}/keep`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!r.ok) throw new Error(`${r.status} ${await r.text()}`);
}

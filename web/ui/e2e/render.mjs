// Whether pages contradict each other or themselves: every place of places.json, of eight sites, as administrator,
// as user and as the public. It fails when two places give one quantity two values, when a share is above 100 %, when a
// count of now stands beside a mean of hours, when a page tells somebody who may not see others that nothing was used,
// and when a page has no sentence or no figure. Three contradictions are planted, and must be found.
// Usage: node e2e/render.mjs RECKON SHOTS [ONLY]: the binary, where screenshots go, and a regular expression that
// the names of sites must match.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import assert from "node:assert/strict";
import { clean, dir, launch, makeUp, need, run, serve, settled } from "./common.mjs";

const [reckon, shots = "shots", only = ""] = process.argv.slice(2);
need(shots);
const secret = "correct horse battery",
  places = JSON.parse(readFileSync(new URL("../src/places.json", import.meta.url), "utf8")),
  roles = ["admin", "user", "public"],
  hour = 3600_000;
/** Parts of the time of a site: how long, and how long before now they end. A stranger is a user who has no work. */
const sites = {
  "a machine of 20 minutes": {
    parts: [[20, 0, "--nodes", "1", "--tick", "15s", "--export", "15s"]],
  },
  "ended jobs": {
    parts: [
      [600, 180, "--nodes", "2"],
      [180, 0, "--nodes", "2", "--jobs", "1"],
    ],
  },
  "a plain user": { parts: [[1800, 0, "--nodes", "5", "--gpu-nodes", "2"]], stranger: true },
  "one node down": {
    parts: [
      [360, 40, "--nodes", "3"],
      [40, 0, "--nodes", "2"],
    ],
  },
  "nothing before": { parts: [[300, 0, "--nodes", "3"]], more: { compare: "before" } },
  "a gap": {
    parts: [
      [240, 180, "--nodes", "3"],
      [60, 0, "--nodes", "3"],
    ],
  },
  "one owner": { parts: [[480, 0, "--nodes", "3", "--users", "1"]] },
  "1,000 nodes": { parts: [[40, 0, "--nodes", "1000"]], stranger: true },
};

/** What a page of this browser shows, as its reader has it. */
function read() {
  const main = document.querySelector("main"),
    seen = (e) => e.offsetParent !== null || getComputedStyle(e).position === "fixed";
  // A block is what is read in one go: a heading with the line under it, a paragraph, a cell, an item.
  const blocks = [...main.querySelectorAll("p, h1, h2, li, td, figcaption, .note, .empty, small")]
    .filter(seen)
    .map((e) =>
      e.tagName === "H1" && e.nextElementSibling?.matches("p.sub")
        ? e.innerText + " " + e.nextElementSibling.innerText
        : e.innerText,
    )
    .map((t) => t.replace(/\s+/g, " ").trim())
    .filter(Boolean);
  // A figure stands in an element that has its exact value (.q, a title, data-of). Apart are names, times, inputs, charts, and
  // sentences of the server, whose JSON has their values.
  const bare = (main) => {
    const out = [],
      walk = document.createTreeWalker(main, NodeFilter.SHOW_TEXT),
      apart =
        ".q, [title], [data-of], time, .when, bdi, a, code, pre, kbd, input, select, option, textarea, button, svg, figure.chart, .wrap, h2, summary, th";
    for (let n = walk.nextNode(); n; n = walk.nextNode())
      if (
        /\d/.test(n.data.replace(/\bp95\b|95 % of the time|for 95 %/g, "")) &&
        !n.parentElement.closest(apart) &&
        n.parentElement.checkVisibility()
      )
        out.push(`${n.data.trim().slice(0, 60)} in: ${n.parentElement.innerText.slice(0, 80)}`);
    return out;
  };
  return {
    text: main.innerText,
    blocks: [...new Set(blocks)],
    titles: [...main.querySelectorAll("[title]")].map((e) => e.title),
    closed: !!main.querySelector(".empty, .note"),
    figures:
      main.querySelectorAll(".q, [data-of], .uplot, .cell, svg.heat").length +
      [...main.querySelectorAll("td")].filter((e) => /\d/.test(e.innerText)).length,
    bare: bare(main),
    named: [...main.querySelectorAll("[data-of]")].map((e) => [e.dataset.of, e.dataset.v]),
  };
}

/** What is wrong with one page. */
function faults(page, role) {
  const out = [];
  for (const t of [...page.blocks, ...page.titles])
    for (const [, n] of t.matchAll(/(\d[\d,.]*) ?%/g))
      if (Number(n.replaceAll(",", "")) > 100) out.push(`a share above 100 %: ${t.slice(0, 160)}`);
  for (const t of page.blocks)
    if (/on average|\bmean\b/i.test(t))
      for (const [count] of t.matchAll(
        /\d+ (?:of \d+ )?(?:nodes?|jobs?|workloads?|people)\b(?! held| wait)[^.;·]*/g,
      ))
        if (
          /\b(report|measure|run|are|is|have|has)s?\b|up|down/.test(count) &&
          !/\bnow\b/.test(count)
        )
          out.push(`a count of now beside a mean: ${t.slice(0, 160)}`);
  if (role === "user")
    // the public sees all, without names
    for (const t of page.blocks)
      for (const s of t.split(/(?<=[.:;])\s/))
        if (
          /^(nothing|no one|nobody|no (core|GPU|power|energy|work(load)?|jobs?)) (ran|(was|were|is|are|has been) (used|running|measured|drawn|allocated))\b/i.test(
            s,
          ) &&
          !/\byou(r|rs)?\b|not shown|by name|may not see/i.test(t)
        )
          out.push(`says of all what ${role} may not know: ${t.slice(0, 160)}`);
  if (!page.blocks.some((t) => t.split(" ").length > 3 && /[.:…!?]($|\s)|·/.test(t)))
    out.push(`no sentence in: ${page.text.slice(0, 200)}`);
  // Tables of correlations, texts of rules and states of sensors have no exact value behind them.
  if (!/^\/(data|alerts|about|runs?|explore)\b/.test(page.path))
    for (const b of page.bare) out.push(`a figure without its exact value: ${b}`);
  // A page that has nothing to show says why.
  if (page.figures === 0 && !page.closed) out.push(`no figure in: ${page.text.slice(0, 200)}`);
  return out;
}

/** Quantities of one site and role with where each was read; two values of one are a contradiction. */
class Quantities {
  seen = new Map();
  wrong = [];
  twice = new Set();
  add(where, named) {
    for (const [of, text] of named) {
      if (text === "") continue;
      const v = Number(text),
        had = this.seen.get(of);
      if (!had) this.seen.set(of, { v, where });
      else {
        if (had.where !== where) this.twice.add(of);
        if (Math.abs(v - had.v) > 0.01 * Math.max(Math.abs(v), Math.abs(had.v)) + 1e-6)
          this.wrong.push(`two values of ${of}: ${had.v} on ${had.where}, ${v} on ${where}`);
      }
    }
  }
}

const browser = await launch();
let failed = 0,
  visits = 0,
  compared = 0;
const fail = (what) => {
  failed++;
  console.error("FAIL " + what.replace(/\s+/g, " "));
};

async function make(name, { parts, stranger }) {
  const data = dir(),
    now = Date.now();
  for (const [minutes, before, ...flags] of parts)
    makeUp(
      reckon,
      data,
      ...flags,
      "--for",
      minutes + "m",
      "--from",
      new Date(now - (minutes + before) * 60_000).toISOString().replace(/\.\d+/, ""),
    );
  // Who used most, and one of the workloads, are asked for before there are people who may not see them.
  const first = await serve(reckon, "serve", "--data", data),
    ask = async (path) => (await fetch(first.base + path)).json();
  let works = [];
  for (let i = 0; i < 120 && works.length === 0; i++) {
    works =
      (
        await ask("/api/reckon/v1/workloads?limit=500&sort=-cpu_seconds&kind=slurm").catch(
          () => ({}),
        )
      ).workloads ?? [];
    if (works.length === 0) await new Promise((r) => setTimeout(r, 250));
  }
  const nodes = (await ask("/api/reckon/v1/nodes")).nodes;
  await first.stop();
  const work = works.find((w) => w.end && w.wall_seconds > 600) ?? works[0],
    user = stranger ? "stranger" : (work?.owner ?? "nobody"),
    file = join(data, "password");
  writeFileSync(file, secret + "\n");
  for (const [who, role] of [
    [user, "user"],
    ["boss", "admin"],
  ])
    run(reckon, "user", "add", who, "--role", role, "--data", data, "--password-file", file);
  const site = await serve(reckon, "serve", "--data", data, "--set=public=true");
  return { ...site, name, user, work, node: nodes.find((n) => !n.up)?.node ?? nodes[0].node };
}

/** A browser signed in as a role. */
async function signedIn(site, role) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    timezoneId: "UTC",
    locale: "en-GB",
  });
  await context.addInitScript(() => localStorage.setItem("reckon.tour", "seen"));
  const page = await context.newPage();
  if (role !== "public") {
    await page.goto(site.base + "/auth/login?next=%2Fabout");
    await page.getByLabel("Name").fill(role === "admin" ? "boss" : site.user);
    await page.getByLabel("Password").fill(secret);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForURL(/about/);
  }
  return page;
}

/** The addresses of a place: as it opens, and of whole hours, in which series and hours are of the same time. */
function addresses(site, place, more = {}) {
  const what =
    {
      "/owner": { name: site.work?.owner ?? site.user },
      "/workload": site.work
        ? { id: site.work.id, start: site.work.start }
        : { id: "unit/cron.service" },
      "/node": { name: site.node },
      "/explore": { expr: "sum(reckon_workload_memory_bytes)" },
      "/data": { s: "node_load1" },
      "/run": { name: "none" },
    }[place.path] ?? {};
  const at = (o) => place.path + "?" + new URLSearchParams({ ...what, ...more, ...o }),
    end = Math.floor(Date.now() / hour) * 3600;
  return place.range && ["/", "/owners", "/owner", "/usage"].includes(place.path)
    ? [at({}), at({ from: end - 2 * 3600, to: end })]
    : [at({})];
}

async function look(page, site, role, path, quantities) {
  await page.goto(site.base + path);
  await settled(page);
  await page.waitForTimeout(120);
  const seen = await page.evaluate(read);
  quantities?.add(path, seen.named);
  visits++;
  return faults({ ...seen, path }, role);
}

const begin = Date.now();
for (const [name, how] of Object.entries(sites)) {
  if (!new RegExp(only).test(name)) continue;
  const site = await make(name, how);
  for (const role of roles) {
    const page = await signedIn(site, role),
      quantities = new Quantities();
    for (const place of places)
      for (const path of addresses(site, place, how.more)) {
        try {
          for (const f of await look(page, site, role, path, quantities))
            fail(`${name}, ${role}, ${path}: ${f}`);
        } catch (err) {
          fail(`${name}, ${role}, ${path}: ${String(err).slice(0, 300)}`);
        }
      }
    for (const w of quantities.wrong) fail(`${name}, ${role}: ${w}`);
    compared += quantities.twice.size;
    if (role === "admin" && name === "a plain user") {
      assert.ok(quantities.twice.size > 20, `only ${quantities.twice.size} quantities stand twice`);
      await planted(page, site);
    }
    await page.context().close();
  }
  await site.stop();
}

/** What is planted into answers or pages, one at a time, is found. */
async function planted(page, site) {
  const owners = places.filter((p) => ["/", "/owners", "/owner"].includes(p.path));
  const walk = async () => {
    const quantities = new Quantities(),
      found = [];
    for (const place of owners)
      for (const path of addresses(site, place))
        found.push(...(await look(page, site, "user", path, quantities)));
    return [...found, ...quantities.wrong];
  };
  const plant = async (what, route, change, expected) => {
    await page.route(route, async (r) => {
      const answer = await r.fetch();
      await r.fulfill({ response: answer, body: change(await answer.text(), page.url()) });
    });
    const found = await walk();
    await page.unroute(route);
    if (!found.some((f) => expected.test(f)))
      fail(`planted and not found: ${what}; found: ${found.slice(0, 3).join(" | ")}`);
    else console.log(`  planted and found: ${what}`);
  };
  await plant(
    "another CPU time of an owner on one page",
    /\/usage\?/,
    (t, at) =>
      at.includes("/owners")
        ? t.replace(/"cpu_seconds":(\d)/g, (_, d) => `"cpu_seconds":1${d}`)
        : t,
    /two values of used cpu/,
  );
  await plant(
    "a share above 100 %",
    /\/usage\?/,
    (t, at) => {
      if (!at.includes("/owners")) return t;
      const d = JSON.parse(t);
      d.total.cpu_seconds /= 1000;
      return JSON.stringify(d);
    },
    /a share above 100 %/,
  );
  await plant(
    "a count of now beside a mean",
    /\/static\/.*\.js/,
    (t) => t.replaceAll("nodes report now", "nodes report"),
    /a count of now beside a mean/,
  );
  await plant(
    "nothing was used, to who may not see it",
    /\/usage\?|\/query/,
    (t, at) => {
      if (!at.includes("/owners")) return t;
      const d = JSON.parse(t);
      return JSON.stringify(d.rows ? { ...d, rows: [] } : d);
    },
    /may not know/,
  );
}

await browser.close();
await clean();
console.log(
  `ui: render test, ${visits} pages of ${Object.keys(sites).length} sites in ${((Date.now() - begin) / 1000).toFixed(0)} s, ${compared} quantities in several places, ${failed} failed`,
);
process.exit(failed ? 1 : 0);

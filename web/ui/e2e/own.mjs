// Figures that a script sends: on the pages of its owner and its node, pinned, and at an address of their own, with the real program on this
// machine. And the efficiency of jobs in a page of another server, by one script tag.
// Usage: node e2e/own.mjs RECKON SHOTS: the binary and where screenshots go.
import { createServer } from "node:http";
import { writeFileSync } from "node:fs";
import { userInfo } from "node:os";
import { join } from "node:path";
import assert from "node:assert/strict";
import {
  accessible,
  clean,
  dir,
  fits,
  launch,
  makeUp,
  need,
  run,
  serve,
  settled,
  until,
  visits,
} from "./common.mjs";

const [reckon, shots = "shots"] = process.argv.slice(2);
need(shots);
const browser = await launch(),
  count = visits(browser, shots, "own", /CORS|ERR_FAILED|401|403|404/), // what the browser itself says of a refusal, and of an icon that a report lacks
  phone = { viewport: { width: 390, height: 844 } },
  me = userInfo().username;

// --- a script's figures ---------------------------------------------------------------
const own = dir(),
  socket = join(own, "push.sock"),
  machine = await serve(reckon, "up", "--data", own, "--set=push-socket=" + socket),
  ask = async (path) => (await fetch(machine.base + path)).json(),
  push = (...args) => run(reckon, "push", "--socket", socket, ...args);
await until("a node", async () => (await ask("/api/reckon/v1/nodes")).nodes.length === 1, 60);
push('loss{phase="train"}', "0.31", "epoch", "4");
push("--add", "files_done_total", "7");
const sent = await until(
    "the figure",
    async () => (await ask("/api/v1/query?query=loss")).data.result[0],
    60,
  ),
  [node] = (await ask("/api/reckon/v1/nodes")).nodes;
assert.equal(sent.metric.owner, me);
for (const [where, path] of [
  ["owner", "/owner?" + new URLSearchParams({ name: me, last: "3600" })],
  ["node", "/node?" + new URLSearchParams({ name: node.node, last: "3600" })],
  ["workload", "/workload?" + new URLSearchParams({ id: sent.metric.workload })],
])
  for (const look of [{}, phone])
    await count.visit(`own figures on the page of the ${where}`, look, async (page) => {
      await page.goto(machine.base + path);
      const section = page.locator("section", { has: page.locator("h2:text-is('Own figures')") });
      await section.locator("h3:has-text('loss')").waitFor();
      await settled(page);
      if (where !== "workload") await section.locator("h3:has-text('last 0.31')").waitFor();
      const names = await section.locator("h3 > bdi").allInnerTexts();
      assert.deepEqual(names, ["epoch", "files_done_total", "loss"]);
      assert.match(await section.locator("h3:has-text('files_done')").innerText(), /each second/);
      await fits(page, where);
      await accessible(page, where);
      await page.screenshot({
        path: `${shots}/own-${where}${look === phone ? "-phone" : ""}.png`,
        fullPage: true,
      });
    });
await count.visit("a pinned figure, and the address of the view", {}, async (page) => {
  await page.goto(machine.base + "/owner?" + new URLSearchParams({ name: me, last: "3600" }));
  const loss = page.locator(".keep", { has: page.locator("h3:has-text('loss')") }).last();
  await loss.getByRole("button", { name: "Pin to the first page" }).click();
  await loss.getByRole("button", { name: "Take off the first page" }).waitFor();
  await page.getByRole("link", { name: "Now", exact: true }).click();
  const pinned = page.locator("section", { has: page.locator("h2:text-is('Pinned')") });
  await pinned.locator("h3:has-text('loss')").waitFor();
  await settled(page);
  const href = await pinned
    .getByRole("link", { name: "address of this view" })
    .evaluate((a) => a.href);
  assert.match(href, /last=3600/);
  assert.match(href, /pin=loss/);
  await page.screenshot({ path: `${shots}/own-pinned.png`, fullPage: true });
  // Another browser that never pinned anything sees the same at that address.
  const other = await browser.newContext(),
    there = await other.newPage();
  await there.goto(href);
  await there.locator("h3:has-text('loss')").waitFor();
  await there.goto(machine.base + "/");
  await settled(there);
  assert.equal(await there.locator("h2:text-is('Pinned')").count(), 0);
  await other.close();
  await page.reload();
  await pinned.locator("h3:has-text('loss')").waitFor();
  await pinned.getByRole("button", { name: "Take off the first page" }).click();
  await pinned.waitFor({ state: "detached" });
});
await count.visit("reports and guides are not taken for pages", {}, async (page) => {
  await page.goto(machine.base + "/owner?" + new URLSearchParams({ name: me, last: "3600" }));
  await page.getByRole("link", { name: "how to send some" }).click();
  await page.waitForSelector("h1:has-text('Metrics of your own')");
  await page.goBack();
  await settled(page);
  await page.getByRole("link", { name: "report", exact: true }).click();
  await page.waitForSelector(`h1:has-text("${me}")`);
  assert.match(page.url(), /\/report\?/);
  assert.doesNotMatch(await page.locator("body").innerText(), /Not found/);
});
await machine.stop();

// --- a page of another server -----------------------------------------------------------
const made = dir();
makeUp(reckon, made, "--nodes", "3", "--jobs", "120", "--users", "5", "--for", "8h");
const password = join(made, "password");
writeFileSync(password, "correct horse battery\n");
const before = await serve(reckon, "serve", "--data", made),
  first = await until(
    "a job",
    async () =>
      (
        await (
          await fetch(before.base + "/api/reckon/v1/workloads?kind=slurm&sort=-start&limit=400")
        ).json()
      ).workloads.find((w) => w.end && w.allocated_cores > 1),
    60,
  );
await before.stop();
for (const [who, role] of [
  [first.owner, "user"],
  ["boss", "admin"],
])
  run(reckon, "user", "add", who, "--role", role, "--data", made, "--password-file", password);
const token = (...args) =>
    run(reckon, "token", "create", "--data", made, ...args)
      .split("\n")
      .find((l) => l.trim())
      .trim(),
  mine = token("--role", "user", "--name", first.owner, "--expires", "1h"),
  long = token("--role", "user", "--name", first.owner, "--expires", "2h"),
  endless = token("--role", "user", "--name", first.owner),
  admin = token("--role", "admin", "--name", "boss", "--expires", "1h");
let tag = "";
const portal = createServer((_q, a) => {
  a.setHeader("Content-Type", "text/html; charset=utf-8");
  a.end(`<!doctype html><html lang="en"><title>Portal</title><h1>Portal</h1>${tag}</html>`);
});
await new Promise((r) => portal.listen(0, "127.0.0.1", r));
const at = `http://127.0.0.1:${portal.address().port}`,
  site = await serve(reckon, "serve", "--data", made, "--set=widget-origins=" + at),
  widget = (attributes) => `<script src="${site.base}/static/widget.js" ${attributes}></script>`,
  asMe = async (path) =>
    (await fetch(site.base + path, { headers: { Authorization: "Bearer " + mine } })).json();
const rows = async (page, look) => {
  await page.goto(at.replace("127.0.0.1", look ?? "127.0.0.1"));
  await page.waitForSelector("table tbody tr, [role=alert]");
  return page
    .locator("tbody tr")
    .evaluateAll((l) => l.map((r) => [...r.children].map((c) => c.textContent)));
};
/** What the widget should show of a job, worked out here. */
const expected = (w) => [
  w.name.slice(0, 40),
  w.state.replaceAll("_", " "),
  w.state === "pending"
    ? "not started"
    : `${Math.min(100, Math.round((100 * w.cpu_seconds) / (w.allocated_cores * w.wall_seconds)))} % of ${w.allocated_cores} core${w.allocated_cores === 1 ? "" : "s"}`,
];
for (const look of [{}, phone])
  await count.visit("the latest jobs of a user in a portal", look, async (page) => {
    tag = widget(`data-token="${mine}"`);
    const got = await rows(page),
      { workloads } = await asMe("/api/reckon/v1/workloads?kind=slurm&sort=-start&limit=5");
    assert.equal(got.length, 5);
    assert.deepEqual(
      got.filter((_, i) => !workloads[i].running).map((r) => r.slice(0, 3)),
      workloads.filter((w) => !w.running).map(expected),
    );
    assert.ok(
      got.every((r) => /^((. )?\d+ % of [\d.]+ GiB|not started)$/.test(r[3])),
      JSON.stringify(got),
    );
    await fits(page, "portal");
    await accessible(page, "portal");
    await page.screenshot({ path: `${shots}/own-portal${look === phone ? "-phone" : ""}.png` });
  });
await count.visit("one job, and an answer that the portal brings along", {}, async (page) => {
  tag = widget(`data-token="${mine}" data-job="${first.id}"`);
  assert.deepEqual((await rows(page))[0].slice(0, 3), expected(first));
  const along = (answer) => {
    const jobs = JSON.stringify(answer);
    tag = widget(`data-jobs="${jobs.replaceAll("&", "&amp;").replaceAll('"', "&quot;")}"`);
    return rows(page);
  };
  assert.equal((await along(await asMe("/api/reckon/v1/workloads?sort=-start&limit=3"))).length, 3);
  const waits = { ...first, state: "pending", cpu_seconds: null, memory_needed_peak_bytes: null };
  assert.deepEqual((await along({ workloads: [waits] }))[0].slice(1), [
    "pending",
    "not started",
    "not started",
  ]);
});
for (const [why, secret, name] of [
  ["a token that lasts two hours", long],
  ["a token that never expires", endless],
  ["a token of an administrator", admin],
  ["no token, but a session", "none"],
  ["an origin that is not listed", mine, "localhost"],
])
  await count.visit("refused: " + why, {}, async (page) => {
    if (secret === "none") {
      await page.goto(site.base + "/auth/login?next=%2Fabout");
      await page.getByLabel("Name").fill("boss");
      await page.getByLabel("Password").fill("correct horse battery");
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.waitForURL(/about/);
    }
    tag = widget(`data-token="${secret}"`);
    assert.deepEqual(await rows(page, name), []);
    assert.match(await page.locator("[role=alert]").innerText(), /widget-origins/);
    // Nor may it read, or change, anything else.
    for (const [path, method] of [
      ["/api/reckon/v1/usage", "GET"],
      ["/api/v1/query?query=up", "GET"],
      ["/api/reckon/v1/workloads", "POST"],
    ])
      assert.equal(
        await page.evaluate(
          ([u, m, t]) =>
            fetch(u, { method: m, headers: { Authorization: "Bearer " + t } }).then(
              (r) => r.status,
              () => "refused",
            ),
          [site.base + path, method, mine],
        ),
        "refused",
      );
  });
portal.close();

await browser.close();
await clean();
console.log(`ui: own figures and the widget, ${count.done} visits well, ${count.failed} failed`);
process.exit(count.failed ? 1 : 0);

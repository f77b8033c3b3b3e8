// Signing in and out of the real program, and every page as somebody who may see little: a user of a machine,
// a user and the public of a simulated site, and who is known by a web configuration.
// Usage: node e2e/access.mjs RECKON SHOTS: the binary and where screenshots go.
import { writeFileSync } from "node:fs";
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
  visits,
} from "./common.mjs";

const [reckon, shots = "shots"] = process.argv.slice(2);
need(shots);
const browser = await launch();
const count = visits(browser, shots, "access", /401|403|404|503/),
  visit = count.visit; // what the browser itself says of such an answer
const secret = "correct horse battery",
  pages = [
    "/",
    "/?show=gpu",
    "/nodes",
    "/workloads",
    "/owners",
    "/usage",
    "/findings",
    "/power",
    "/data?s=node_load1",
    "/explore?expr=reckon_workload_info",
    "/about",
  ];
const shot = (page, who, path) =>
  page.screenshot({
    path: `${shots}/${who}-${path.slice(1).split("?")[0] || "site"}.png`,
    fullPage: true,
  });
function people(data, list) {
  const file = join(data, "password");
  writeFileSync(file, secret + "\n");
  for (const [name, role] of list)
    run(reckon, "user", "add", name, "--role", role, "--data", data, "--password-file", file);
}
async function signIn(page, name, password = secret) {
  await page.getByLabel("Name").fill(name);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
}

// --- the machine of this test ---------------------------------------------------------
const own = dir();
people(own, [
  ["alice", "user"],
  ["boss", "admin"],
]);
const machine = await serve(reckon, "up", "--data", own),
  base = machine.base;
for (const [dark, phone] of [
  [false, false],
  [true, true],
])
  await visit(
    "the form to sign in",
    {
      colorScheme: dark ? "dark" : "light",
      ...(phone ? { viewport: { width: 375, height: 740 } } : {}),
    },
    async (page) => {
      await page.goto(base + "/");
      await page.waitForURL(/\/auth\/login\?next=%2F$/);
      await page.waitForLoadState();
      assert.equal(
        await page.evaluate(
          () => [...document.styleSheets].filter((s) => s.cssRules.length > 0).length,
        ),
        1,
        "the page has its style",
      );
      await fits(page, "sign in");
      await page.screenshot({
        path: `${shots}/signin-${dark ? "dark" : "light"}-${phone ? "phone" : "wide"}.png`,
      });
      await accessible(page, "sign in");
    },
  );
await visit("a user of a machine", {}, async (page) => {
  // The way back survives a wrong password.
  await page.goto(base + "/workloads?q=running:yes");
  await page.waitForURL(/\/auth\/login/);
  await signIn(page, "alice", "wrong");
  await page.waitForSelector("[role=alert]:has-text('The name or the password is wrong')");
  await signIn(page, "alice");
  await page.waitForURL(base + "/workloads?q=running:yes");
  await page.waitForSelector("header >> text=alice");
  for (const path of pages) {
    await page.goto(base + path);
    await settled(page);
    const text = await page.locator("main").innerText();
    assert.ok(
      !text.includes("unit/") && !text.includes("That did not work"),
      `${path}: shows ${text.slice(0, 300)}`,
    );
    assert.equal(await page.getByText("Simulated site").count(), 0, "this machine is real");
    if (path === "/workloads")
      assert.match(text, /Nothing of yours has been measured. You see the work of alice/);
    if (path === "/") {
      assert.match(text, /Alerts are shown to administrators and support only/);
      assert.doesNotMatch(text, /no alert is firing/); // it was not told
    }
    for (const button of ["Acknowledge", "Mute…", "What if…"])
      assert.equal(
        await page.getByRole("button", { name: button }).count(),
        0,
        `${path}: ${button} is offered`,
      );
    await shot(page, "user", path);
    await accessible(page, "user " + path);
  }
  await page.goto(base + "/workload?id=unit/cron.service");
  await page.waitForSelector("text=Not found");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForURL(/\/auth\/login/);
  await page.goto(base + "/nodes");
  await page.waitForURL(/\/auth\/login\?next=%2Fnodes/);
});
await visit("an administrator", {}, async (page) => {
  await page.goto(base + "/about");
  await page.waitForURL(/\/auth\/login/);
  await signIn(page, "boss");
  await page.waitForURL(base + "/about");
  await page.waitForSelector("text=You view this as boss, role admin");
});
await machine.stop();

// --- a site with many people, of which each sees little --------------------------------
const made = dir();
makeUp(
  reckon,
  made,
  "--nodes",
  "5",
  "--gpu-nodes",
  "2",
  "--jobs",
  "220",
  "--users",
  "10",
  "--for",
  "12h",
);
const before = await serve(reckon, "serve", "--data", made);
const answer = async (path) =>
  (await fetch(before.base + path, { headers: { Accept: "application/json" } })).json();
let all = [];
for (let i = 0; i < 240 && all.length < 50; i++) {
  all =
    (await answer("/api/reckon/v1/workloads?limit=100000&sort=-cpu_seconds").catch(() => ({})))
      .workloads ?? [];
  if (all.length < 50) await new Promise((r) => setTimeout(r, 500));
}
assert.ok(all.length >= 50, `the simulated site has ${all.length} workloads`);
await before.stop();
const system =
  /^(root|slurm|grafana|mysql|munge|chrony|nobody|syslog|postgres|messagebus|systemd.*|_.*)$/; // words that mean other things too
const people_ = [...new Set(all.map((w) => w.owner).filter((o) => o && !system.test(o)))],
  alice = all.find((w) => w.kind === "slurm" && people_.includes(w.owner)).owner;
const others = people_.filter((o) => o !== alice),
  theirs = all.find((w) => w.kind === "slurm" && w.owner !== alice);
assert.ok(others.length > 4, people_.join(" "));
people(made, [
  [alice, "user"],
  ["boss", "admin"],
  ["help", "support"],
]);
const site = await serve(reckon, "serve", "--data", made, "--set=public=true");

/** Looks at every page, and at all that was answered to it, for names that are not to be seen. */
async function nameless(page, who, hidden) {
  const leaks = [],
    hide = new RegExp(`\\b(${hidden.join("|")})\\b`),
    checks = [];
  page.on("response", (r) => {
    if (r.url().includes("/api/"))
      checks.push(
        r.text().then(
          (t) => {
            const m = hide.exec(t);
            if (m) leaks.push(`${r.url()}: ${t.slice(Math.max(0, m.index - 60), m.index + 40)}`);
          },
          () => undefined,
        ),
      );
  });
  for (const path of pages) {
    await page.goto(site.base + path);
    await settled(page);
    const main = page.locator("main"),
      text = await main.innerText();
    assert.ok(!hide.test(text), `${who} ${path}: shows ${hide.exec(text)?.[0]}`);
    assert.ok(!text.includes("That did not work"), `${who} ${path}: ${text.slice(0, 400)}`);
    assert.ok((await main.locator("h1").count()) === 1);
    await fits(page, who + path);
    await shot(page, who, path);
    await accessible(page, `${who} ${path}`);
  }
  await page.goto(site.base + "/workload?" + new URLSearchParams({ id: theirs.id }));
  await page.waitForSelector(who === "public" ? "text=You may not see this" : "text=Not found");
  await shot(page, who, "/workload");
  await Promise.all(checks);
  assert.deepEqual(leaks, [], "names in answers");
}
await visit("the public", {}, async (page) => {
  await page.goto(site.base + "/");
  await page.waitForSelector("header >> text=Sign in");
  await page.waitForSelector("text=Kind of work");
  const nav = await page.locator("header nav").innerText();
  assert.ok(!/People|Findings|Alerts/.test(nav), nav);
  await nameless(page, "public", people_);
  for (const path of ["/owners", "/findings"]) {
    await page.goto(site.base + path);
    await page.waitForSelector("text=are shown to those who are signed in");
    assert.equal(await page.locator("main a").innerText(), "Sign in");
    await shot(page, "public", path);
    await accessible(page, "public " + path);
  }
  await page.goto(site.base + "/usage");
  await page.waitForSelector("text=History by partition");
  await page.locator("main figure.chart").first().waitFor();
  await shot(page, "public", "/usage");
  await page.goto(site.base + "/workloads");
  await settled(page);
  await page.waitForSelector(".vtable tbody tr[aria-rowindex]");
  assert.equal(await page.locator(".vtable tbody a").count(), 0, "nothing leads to one workload");
  await page.fill("#find", `owner:${others[0]}`);
  await page.keyboard.press("Enter");
  await page.waitForSelector("text=shown to the public without names");
  await accessible(page, "public search");
  await page.locator("header").getByText("Sign in").click();
  await page.waitForURL(/\/auth\/login/);
});
await visit("a user among others", {}, async (page) => {
  await page.goto(site.base + "/auth/login?next=%2F");
  await signIn(page, alice);
  await page.waitForSelector(`header >> text=${alice}`);
  await nameless(page, "other-user", others);
  // What is not theirs is of others, and what was allocated is said to be theirs.
  for (const [of, rest] of [
    ["", "others:"],
    ["energy", "others and idle:"],
  ]) {
    await page.goto(site.base + "/?of=" + of);
    await settled(page);
    const drawn = await page.locator("figure.chart .plot").first().getAttribute("aria-label");
    assert.ok(drawn.includes(rest) && !/not attributed:|; allocated:/.test(drawn), drawn);
    if (!of) assert.match(drawn, /allocated to you:/);
    await page.getByText("energy of all nodes today").waitFor();
  }
  await page.goto(site.base + "/owners?since=24h");
  await settled(page);
  const rows = await page.locator("tbody tr td:first-child").allInnerTexts();
  assert.deepEqual([...rows].sort(), [alice, "others"].sort());
  await page.goto(
    site.base +
      "/workload?" +
      new URLSearchParams({ id: all.find((w) => w.owner === alice && w.kind === "slurm").id }),
  );
  await page.waitForSelector("text=Verdict");
});
await visit("support acknowledges, and changes nothing else", {}, async (page) => {
  await page.goto(site.base + "/auth/login?next=%2Ffindings");
  await signIn(page, "help");
  await page.waitForSelector("button:has-text('What if…')");
  await page.goto(site.base + "/about");
  await page.waitForSelector("text=You view this as help, role support");
});
await site.stop();

// --- who is known by a web configuration: "test" with the password "test" ----------------
const web = join(made, "web.yml");
writeFileSync(
  web,
  "basic_auth_users:\n  test: $2b$12$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay\n",
);
const closed = await serve(reckon, "serve", "--data", made, "--web-config", web);
await visit("nobody passes a web configuration without its password", {}, async () => {
  assert.equal((await fetch(closed.base + "/")).status, 401);
});
await visit(
  "who has the password is admin",
  { httpCredentials: { username: "test", password: "test" } },
  async (page) => {
    await page.goto(closed.base + "/");
    await settled(page);
    await page.waitForSelector("text=Person or service");
    await page.goto(closed.base + "/about");
    await page.waitForSelector("text=You view this as test, role admin");
  },
);

await browser.close();
await clean();
console.log(
  `ui: signing in and out, the public and users, ${count.done} visits well, ${count.failed} failed`,
);
process.exit(count.failed ? 1 : 0);

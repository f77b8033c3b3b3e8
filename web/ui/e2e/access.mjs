// Signing in and out of the real program, and every page as somebody who may see little.
// Usage: node e2e/access.mjs RECKON SHOTS: the binary and where screenshots go.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const [reckon, shots = "shots"] = process.argv.slice(2);
const browserAt = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
if (!browserAt) { console.log("ui: skipped, there is no Chromium here (on Debian: apt-get install chromium)"); process.exit(0); }
mkdirSync(shots, { recursive: true });
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const data = mkdtempSync(join(tmpdir(), "reckon-ui-")), secret = join(data, "password");
writeFileSync(secret, "correct horse battery\n");
for (const [name, role] of [["alice", "user"], ["boss", "admin"]]) {
  const added = spawnSync(reckon, ["user", "add", name, "--role", role, "--data", data, "--password-file", secret], { encoding: "utf8" });
  assert.equal(added.status, 0, added.stderr);
}
const server = spawn(reckon, ["up", "--data", data, "--listen", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "inherit"] });
let base = "";
for await (const line of createInterface({ input: server.stdout })) { base = /http:\/\/[\d.:]+/.exec(line)?.[0] ?? ""; if (base) break; }
server.stdout.resume();
const browser = await chromium.launch({ executablePath: browserAt, args: ["--no-sandbox", "--force-prefers-reduced-motion"] });
const quiet = /401|403|404|503/; // what the browser itself says of such an answer
let failed = 0;
async function visit(options, f) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options }), page = await context.newPage(), said = [];
  await context.addInitScript(() => localStorage.setItem("reckon.tour", "seen"));
  page.on("console", (m) => { if ((m.type() === "error" || m.type() === "warning") && !quiet.test(m.text())) said.push(m.text()); });
  page.on("pageerror", (e) => said.push(String(e)));
  try { await f(page); assert.deepEqual(said, [], "console"); } catch (err) { failed++; console.error("FAIL " + String(err?.stack ?? err).split("\n").slice(0, 7).join("\n     ")); await page.screenshot({ path: `${shots}/access-failed.png` }); }
  await context.close();
}
async function accessible(page, name) {
  await page.evaluate(axe);
  assert.deepEqual(await page.evaluate(async () => (await globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] })).violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.target).join("; ")}`)), [], name);
}
async function signIn(page, name, password = "correct horse battery") {
  await page.getByLabel("Name").fill(name);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
}

for (const dark of [false, true]) for (const phone of [false, true]) await visit({ colorScheme: dark ? "dark" : "light", ...(phone ? { viewport: { width: 375, height: 740 } } : {}) }, async (page) => {
  await page.goto(base + "/");
  await page.waitForURL(/\/auth\/login\?next=%2F$/);
  await page.waitForLoadState();
  assert.equal(await page.evaluate(() => [...document.styleSheets].filter((s) => s.cssRules.length > 0).length), 1, "the page has its style");
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await page.screenshot({ path: `${shots}/signin-${dark ? "dark" : "light"}-${phone ? "phone" : "wide"}.png` });
  await accessible(page, "sign in");
});
await visit({}, async (page) => {
  // The way back survives a wrong password.
  await page.goto(base + "/workloads?q=running:yes");
  await page.waitForURL(/\/auth\/login/);
  await signIn(page, "alice", "wrong");
  await page.waitForSelector("[role=alert]:has-text('The name or the password is wrong')");
  await signIn(page, "alice");
  await page.waitForURL(base + "/workloads?q=running:yes");
  await page.waitForSelector("header >> text=alice");
  for (const path of ["/", "/nodes", "/workloads", "/owners", "/usage", "/findings", "/power", "/data", "/explore?expr=reckon_workload_info", "/about"]) {
    await page.goto(base + path);
    await page.waitForFunction(() => document.querySelector("h1") && !document.querySelector(".loading") && !document.querySelector("main").innerText.includes("Asking the server"), null, { timeout: 60000 });
    const text = await page.locator("main").innerText();
    assert.ok(!text.includes("unit/") && !text.includes("That did not work"), `${path}: shows ${text.slice(0, 300)}`);
    if (path === "/workloads") assert.match(text, /Nothing of yours has been measured. You see the work of alice/);
    for (const button of ["Acknowledge", "Mute…", "What if…"]) assert.equal(await page.getByRole("button", { name: button }).count(), 0, `${path}: ${button} is offered`);
    await page.screenshot({ path: `${shots}/user-${path.slice(1).split("?")[0] || "site"}.png` });
    await accessible(page, "user " + path);
  }
  await page.goto(base + "/workload?id=unit/cron.service");
  await page.waitForSelector("text=Not found");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForURL(/\/auth\/login/);
  await page.goto(base + "/nodes");
  await page.waitForURL(/\/auth\/login\?next=%2Fnodes/);
});
await visit({}, async (page) => {
  await page.goto(base + "/about");
  await page.waitForURL(/\/auth\/login/);
  await signIn(page, "boss");
  await page.waitForURL(base + "/about");
  await page.waitForSelector("text=You look as boss, role admin");
});

await browser.close();
await new Promise((r) => { server.on("exit", r); server.kill("SIGTERM"); });
rmSync(data, { recursive: true });
console.log(`ui: signing in and out, ${failed} failed`);
process.exit(failed ? 1 : 0);

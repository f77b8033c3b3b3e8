// What newcomers come for, each from the first page: counted in clicks, timed, with a screenshot at 1440 and 390
// pixels, light and dark. Over a simulated site in the real program.
// Usage: node e2e/tasks.mjs RECKON SHOTS [ONLY]
import assert from "node:assert/strict";
import {
  accessible,
  clean,
  dir,
  fits,
  launch,
  makeUp,
  measured,
  need,
  serve,
  settled,
  visits,
} from "./common.mjs";

const [reckon, shots = "shots", only = ""] = process.argv.slice(2);
need(shots);
const data = dir();
makeUp(
  reckon,
  data,
  "--nodes",
  "8",
  "--gpu-nodes",
  "3",
  "--jobs",
  "900",
  "--users",
  "12",
  "--for",
  "30h",
);
const { base } = await serve(reckon, "serve", "--data", data);
const browser = await launch(),
  count = visits(browser, shots, "task", /^$/, only);
const ask = async (path) => {
  const r = await fetch(base + path, { headers: { Accept: "application/json" } });
  assert.ok(r.ok, `${path}: ${r.status}`);
  return r.json();
};
const until = async (what, f) => {
  for (let i = 0; i < 600; i++) {
    const v = await f().catch(() => null);
    if (v) return v;
    await new Promise((r) => setTimeout(r, 500));
  }
  throw new Error("waited in vain for " + what);
};
await until("findings", async () => {
  const l = await ask("/api/reckon/v1/findings");
  return l.looked && l.findings.length > 3;
});

/** Does a task in each look; `most` clicks are allowed. */
async function task(name, most, f) {
  for (const [dark, phone] of [
    [false, false],
    [true, false],
    [false, true],
    [true, true],
  ]) {
    const look = `${name}-${dark ? "dark" : "light"}-${phone ? 390 : 1440}`;
    await count.visit(
      look,
      {
        colorScheme: dark ? "dark" : "light",
        viewport: phone ? { width: 390, height: 844 } : { width: 1440, height: 900 },
      },
      async (page) => {
        const begin = Date.now();
        let clicks = 0;
        await page.goto(base + "/");
        await settled(page);
        await f(page, async (what) => {
          clicks++;
          await what.first().click();
          await settled(page);
        });
        console.log(`  ${look}: ${clicks} clicks, ${((Date.now() - begin) / 1000).toFixed(1)} s`);
        assert.ok(clicks <= most, `${clicks} clicks where ${most} are allowed`);
        await fits(page, look);
        await page.screenshot({ path: `${shots}/task-${look}.png`, fullPage: true });
        await accessible(page, look);
      },
    );
  }
}

await task("who-filled-it-an-hour-ago", 2, async (page, click) => {
  await click(page.getByRole("button", { name: "1 h", exact: true }));
  await click(page.getByRole("button", { name: "Earlier" }));
  assert.match(await page.locator("h1").innerText(), /of \d+ cores were in use on average/);
  assert.match(page.url(), /from=\d+&to=\d+/);
  const used = await page
    .locator(".ranks tbody tr")
    .evaluateAll((l) =>
      l.map((r) => [r.querySelector("a")?.textContent, r.querySelectorAll("td")[2].textContent]),
    );
  assert.ok(used.length > 0 && used[0][0], JSON.stringify(used));
  // The same answer from the counters, asked for by hand.
  const to = Number(new URL(page.url()).searchParams.get("to"));
  const truth = await ask(
    "/api/v1/query?" +
      new URLSearchParams({
        query: "topk(3, sum by (owner) (increase(reckon_workload_cpu_seconds_total[1h])))",
        time: String(to),
      }),
  );
  const names = truth.data.result.map((x) => x.metric.owner);
  assert.ok(
    used.some(([n]) => names.includes(n)),
    `${JSON.stringify(used)} names none of ${names}`,
  );
});
await task("which-of-my-jobs-wasted-most", 1, async (page, click) => {
  const who = page.locator(".ranks tbody tr", { has: page.locator("td.much") }).locator("td a");
  await click((await who.count()) > 0 ? who : page.locator(".ranks tbody td a"));
  await page.waitForSelector("h2:has-text('Work, the most unused first')");
  const rows = await page
    .locator("table", { has: page.locator("caption:has-text('not used')") })
    .locator("tbody tr")
    .allInnerTexts();
  assert.ok(rows.length > 0, "no work is listed");
});
await task("why-was-my-job-killed", 1, async (page, click) => {
  const killed = await until(
    "a killed job",
    async () =>
      (await ask("/api/reckon/v1/workloads?state=out_of_memory&sort=-start&limit=1")).workloads[0],
  );
  await page.goto(
    base +
      "/workloads?" +
      new URLSearchParams({ q: "state:out_of_memory", last: String(7 * 86400) }),
  );
  await settled(page);
  await click(page.locator(".vtable tbody a"));
  await page.waitForSelector("text=killed");
  assert.match(await page.locator("main").innerText(), /memory/i, killed.id);
});
await task("who-must-be-told-first", 0, async (page) => {
  const first = page.locator(".todo li").first();
  await first.waitFor();
  assert.ok((await first.locator("a").count()) >= 2, "it names somebody and leads somewhere");
});
await task("what-did-this-cost-in-energy", 1, async (page, click) => {
  await click(page.getByText("power", { exact: true }));
  assert.match(await page.locator("h1").innerText(), /[\d.]+ k?W were drawn on average/);
});
await task("is-anything-wrong-with-a-node", 0, async (page) => {
  const nodes = await ask("/api/reckon/v1/nodes"),
    down = nodes.nodes.filter((n) => !n.up);
  assert.equal(await page.locator(".cell").count(), nodes.nodes.length);
  assert.equal(await page.locator(".cell.isdown").count(), down.length);
  for (const n of down.slice(0, 3))
    assert.ok((await page.locator(".todo").innerText()).includes(n.node), n.node);
});

// What is read does not move: cumulative layout shift of each page while its answers come late.
for (const [name, path] of await measured.pages(ask))
  for (const phone of [false, true])
    await count.visit(`steady-${name}-${phone ? 390 : 1440}`, {}, async () => {
      const { shift, moved } = await measured.shift(browser, base + path, phone, 100);
      assert.ok(shift <= 0.05, `layout shift ${shift.toFixed(3)}:\n${moved.join("\n")}`);
    });
// Nor does the first page when one of its answers comes after all the others, whichever it is.
await count.visit("steady-late-answers", {}, async () => {
  const { questions } = await measured.shift(browser, base + "/", false, 100);
  assert.ok(questions.length > 10, `only ${questions.length} questions`);
  for (const q of questions) {
    const { shift, moved } = await measured.shift(browser, base + "/", false, 1200, q);
    assert.ok(
      shift <= 0.05,
      `layout shift ${shift.toFixed(3)} with a late answer to ${q}:\n${moved.join("\n")}`,
    );
  }
});

await browser.close();
await clean();
console.log(`ui: newcomers' tasks, ${count.done} visits well, ${count.failed} failed`);
process.exit(count.failed ? 1 : 0);

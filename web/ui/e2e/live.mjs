// The pages of the real program over a site that is made up: jobs with GPUs, arrays, jobs out of memory, findings
// with their evidence, what another policy would find, acknowledging and muting, a table of workloads.
// Usage: node e2e/live.mjs RECKON SHOTS [ONLY]: the binary, where screenshots go, and a regular expression that
// the names of visits must match.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import assert from "node:assert/strict";
import {
  accessible,
  clean,
  dir,
  fits,
  keepRun,
  launch,
  makeUp,
  need,
  run,
  serve,
  settled,
  until,
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
const browser = await launch();
const count = visits(browser, shots, "live", /^$/, only),
  visit = count.visit;
const ask = async (path) => {
  const r = await fetch(base + path, { headers: { Accept: "application/json" } });
  assert.ok(r.ok, `${path}: ${r.status}`);
  return r.json();
};
const shot = (page, name) => page.screenshot({ path: `${shots}/live-${name}.png`, fullPage: true });
const looks = [
  [false, false],
  [true, true],
]; // the recorded site is looked at in all four
/** A page wide and light, and dark on a phone: what it says, that it fits, axe, a screenshot. */
async function look(name, path, ...texts) {
  for (const [dark, phone] of looks)
    await visit(
      `${name} ${dark ? "dark" : "light"} ${phone ? "phone" : "wide"}`,
      {
        colorScheme: dark ? "dark" : "light",
        ...(phone ? { viewport: { width: 375, height: 740 } } : {}),
      },
      async (page) => {
        await page.goto(base + path);
        await settled(page);
        const text = (await page.locator("body").innerText()).toLowerCase();
        for (const t of texts)
          assert.ok(
            t instanceof RegExp ? t.test(text) : text.includes(t.toLowerCase()),
            `no ${t} in: ${text.slice(0, 500)}`,
          );
        await fits(page, name);
        await shot(page, `${name}-${dark ? "dark" : "light"}${phone ? "-phone" : ""}`);
        await accessible(page, name);
      },
    );
}

const all = await until("workloads", async () => {
  const l = await ask("/api/reckon/v1/workloads?limit=100000&sort=-cpu_seconds");
  return l.total > 300 && l.workloads;
});
const pick = (what, f) => {
  const w = all.find(f);
  assert.ok(w, `the simulated site has no ${what}`);
  return `/workload?${new URLSearchParams({ id: w.id })}`;
};
const long = (w) => w.wall_seconds > 1800;

await look(
  "site",
  "/",
  "Simulated site",
  "nothing here was measured",
  "were in use on average",
  "Who used it",
  "Needs you",
  "energy today",
);
await look("pressure", "/?show=pressure");
await visit("what a node waits for shows on hover", {}, async (page) => {
  await page.goto(base + "/?show=pressure");
  await settled(page);
  const words = await page.locator(".cell").evaluateAll((l) => l.map((c) => c.title));
  assert.ok(
    words.every((w) =>
      /pressure: share of time in which some task waited for CPU .*, memory .*, storage /.test(w),
    ),
    words.join("\n"),
  );
});
await visit("a list is printed with rows that were out of sight", {}, async (page) => {
  await page.addInitScript(() => {
    globalThis.print = () => {
      dispatchEvent(new Event("beforeprint"));
      setTimeout(() => (globalThis.onPaper = document.querySelectorAll(".vtable tbody tr").length));
    };
  });
  await page.goto(base + "/workloads?last=604800");
  await settled(page);
  await page.getByRole("button", { name: "Print" }).click();
  await page.waitForFunction(() => globalThis.onPaper);
  const total = (await ask("/api/reckon/v1/workloads?since=7d&limit=1")).total;
  assert.equal(await page.evaluate(() => globalThis.onPaper), Math.min(1000, total));
});
await visit("a list of six hours is in the order of what was used in them", {}, async (page) => {
  for (const [what, metric] of [
    ["cpu", "cpu_seconds"],
    ["gpu", "gpu_seconds"],
    ["energy", "energy_joules"],
    ["memory", "memory_byte_seconds"],
  ]) {
    const at = await ask(
        "/api/v1/query?" +
          new URLSearchParams({
            query: "max(timestamp(reckon_workload_cpu_seconds_total))",
            time: Math.floor(Date.now() / 1000) - 7200,
          }),
      ),
      end = Math.ceil(Number(at.data.result[0].value[1])), // and six hours before there are samples too
      last = `last_over_time(reckon_workload_${metric}_total[6h])`, // what began in this time began at 0
      query = `sort_desc(sum by (workload) (${last} - (last_over_time(reckon_workload_${metric}_total[5m] offset 6h) or 0 * ${last})))`;
    const d = await ask("/api/v1/query?" + new URLSearchParams({ query, time: end })),
      want = d.data.result.slice(0, 5).map((r) => [r.metric.workload, Number(r.value[1])]);
    await page.goto(`${base}/workloads?of=${what}&from=${end - 6 * 3600}&to=${end}&cols=id,used`);
    await settled(page);
    const rows = await page
      .locator(".vtable tbody tr[aria-rowindex]")
      .evaluateAll((l) =>
        l.map((r) => [
          r.cells[0].innerText,
          r.cells[1].innerText,
          r.cells[1].querySelector("[title]").title,
        ]),
      );
    for (const [i, [id, v]] of want.entries()) {
      const exact = Number(rows[i][2].replace(/,/g, "").match(/[\d.]+/)[0]);
      assert.ok(
        rows[i][0] === id && Math.abs(exact - v) <= 0.02 * v,
        `${what}: ${rows[i]} is not ${id} ${v}`,
      );
    }
    assert.ok(
      rows.every((r) => /\d [A-Za-z]|–/.test(r[1])),
      `a figure of ${what} without its unit`,
    );
  }
});
await visit("a panel of the dashboards shows figures or what the site lacks", {}, async () => {
  const folder = "deploy/dashboards",
    end = Math.floor(Date.now() / 1000),
    silent = [];
  let full = 0;
  for (const file of readdirSync(folder).filter((f) => f.endsWith(".json")))
    for (const panel of JSON.parse(readFileSync(join(folder, file))).panels.flatMap((p) => [
      p,
      ...(p.panels ?? []),
    ]))
      for (const t of panel.targets ?? []) {
        const query = t.expr
          .replaceAll("$__rate_interval", "5m")
          .replace(/\$(site|node|workload|owner|server)/g, ".*");
        const d = await ask(
          `/api/v1/query${t.instant ? "" : "_range"}?` +
            new URLSearchParams({ query, start: end - 3600, end, step: 60, time: end }),
        );
        if (d.data.result.length) full++;
        else if (!/\w{4}/.test(panel.fieldConfig.defaults.noValue ?? ""))
          silent.push(`${file}: ${panel.title}`);
      }
  assert.deepEqual(silent, []);
  assert.ok(full >= 90, `${full} queries with data`);
});
await look("nodes", "/nodes", "Allocated", "Used, day", /\d+ of 32/);
const gpuNode = (await ask("/api/reckon/v1/nodes")).nodes.find((n) => n.gpus > 0).node;
await look(
  "node",
  `/node?name=${gpuNode}&last=86400`,
  "Last day",
  "Last week",
  "Batch system",
  "idle",
  "the machine",
);
await look(
  "job-gpu",
  pick("job with GPUs", (w) => w.gpu_seconds > 0 && w.state === "completed" && long(w)),
  "Verdict",
  "GPUs",
  "GPU memory",
  /(requested|allocated) and used/,
  "Cores in use, by time",
  "Storage",
  "Power",
);
await look(
  "job-array",
  pick(
    "task of an array",
    (w) => /_\d+$/.test(w.id) && w.state === "completed" && w.wall_seconds > 300,
  ),
  "Verdict",
  "Runs of the same name",
);
await look(
  "job-oom",
  pick("job out of memory", (w) => w.state === "out_of_memory" && w.wall_seconds > 600),
  "killed 1 process",
  "Critical",
  "a process was killed",
  "Events",
);
await look(
  "job-nodes",
  pick("job on several nodes", (w) => w.nodes.length > 1 && long(w)) + "&by=node",
  "Verdict",
  "Parts",
);
for (const by of ["part", "command"])
  await look(
    "job-by-" + by,
    pick("long job", (w) => w.kind === "slurm" && long(w)) + "&by=" + by,
    "Cores",
  );
const waiting = all.find((w) => w.state === "pending");
if (waiting)
  await look("job-waits", `/workload?id=${waiting.id}`, "pending", "submitted", "Requested");

await keepRun(base, "fio-a1", 4, gpuNode);
await keepRun(base, "fio-b2", 5, gpuNode);
await look("runs", "/runs", "2 runs", "fio-a1", "app-usage", "completed");
await look(
  "run",
  "/run?namespace=bench&name=fio-a1",
  "Cores in use",
  "Memory, resident",
  "Written to storage",
  "latency 8 bytes",
  "mean and highest",
);
await look(
  "runs-compared",
  "/runs?" + new URLSearchParams({ a: "bench/fio-a1", b: "bench/fio-b2" }),
  "A against B",
  "+25 %",
  "differs",
  "95 % confidence",
);
await visit("a run is found from the list, and its samples are a file", {}, async (page) => {
  await page.goto(base + "/workloads");
  await settled(page);
  await page.getByRole("link", { name: "runs of MetricSets" }).click();
  await page.getByLabel("bench/fio-a1 as A").check();
  await page.getByLabel("bench/fio-b2 as B").check();
  await page.waitForSelector("h2:has-text('A against B')");
  await page.locator("table a", { hasText: "fio-b2" }).first().click();
  await page.waitForSelector("h2:has-text('Over time')");
  await settled(page);
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page
      .locator("section", { hasText: "Over time" })
      .getByRole("button", { name: "CSV" })
      .first()
      .click(),
  ]);
  const rows = readFileSync(await file.path(), "utf8")
    .trim()
    .split("\r\n");
  assert.equal(rows.length, 61);
  assert.match(rows[0], /^time,pod,job,interval_seconds,cpu_seconds,/);
  assert.match(rows[1], /,fio-b2-main-0,main,1,5,4.5,0.5,/);
});

await visit(
  "workloads: suggestions of this site, sparklines, a file of what is shown",
  {},
  async (page) => {
    await page.goto(base + "/workloads");
    await settled(page);
    await page.waitForSelector(".vtable .spark path", { state: "attached" });
    const owner = all.find((w) => w.kind === "slurm").owner;
    await page.keyboard.press("/");
    await page.keyboard.type(`kind:slurm owner:${owner.slice(0, 2)}`);
    await page.waitForSelector(`.suggest li:has-text("owner:${owner}")`);
    await page.fill("#find", `kind:slurm owner:${owner} state:completed since:30d`);
    await page.keyboard.press("Enter");
    const want = all.filter(
      (w) => w.kind === "slurm" && w.owner === owner && w.state === "completed",
    ).length;
    await page.waitForFunction(
      (n) => document.querySelector("[role=status]").textContent.startsWith(n + " workload"),
      want,
    );
    await page.waitForSelector("th[aria-sort=descending]:has-text('Core-hours')");
    const files = await page.evaluate(async () => {
      const of = (t) =>
        fetch([...document.querySelectorAll("a")].find((a) => a.textContent === t).href);
      return [await (await of("CSV")).text(), await (await of("JSON")).json()];
    });
    assert.equal(files[0].trim().split("\n").length, want + 1);
    assert.equal(files[1].workloads.length, want);
    assert.equal(
      files[1].workloads[0].id,
      await page.locator(".vtable tbody tr[aria-rowindex] td:nth-child(2)").first().innerText(),
    );
    await shot(page, "workloads");
    await accessible(page, "workloads");
  },
);
await visit(
  "a node: the stack fills to the machine, what is not measured is not idle",
  {},
  async (page) => {
    await page.goto(base + `/node?name=${gpuNode}&last=21600`);
    await page.waitForSelector('.legend th:has-text("the machine")', { state: "attached" }); // other charts may be there before
    const rows = await page
      .locator("section", { hasText: "Cores by workload" })
      .locator(".legend tbody tr")
      .evaluateAll((l) =>
        l.map((r) => [
          r.querySelector("th").innerText.trim(),
          Number(/^[\d.]+/.exec(r.querySelectorAll("td")[0].title)?.[0] ?? 0),
        ]),
      );
    const whole = rows.find(([n]) => n === "the machine")[1],
      parts = rows.filter(([n]) => n !== "the machine").reduce((a, [, v]) => a + v, 0);
    assert.ok(
      Math.abs(parts - whole) <= 0.05 * whole,
      `the parts add up to ${parts} of ${whole}: ${JSON.stringify(rows)}`,
    );
    const over = page.locator(".u-over").first(),
      box = await over.boundingBox();
    await page.mouse.move(box.x + box.width * 0.3, box.y + 50);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.6, box.y + 60, { steps: 4 });
    await page.mouse.up();
    await page.waitForFunction(() => location.search.includes("from="));
    await page.getByRole("button", { name: "24 h", exact: true }).click();
  },
);
for (const [name, path] of [
  ["owners", "/owners?since=24h"],
  ["usage", "/usage?since=7d"],
  ["power", "/power?last=86400"],
  ["about", "/about"],
  ["data", "/data?s=" + encodeURIComponent("node_load1")],
  [
    "explore",
    "/explore?expr=" +
      encodeURIComponent('sum by (node) (rate(node_cpu_seconds_total{mode="user"}[10m]))'),
  ],
])
  await look(name, path, "Simulated site");

await visit("data: each start shows lines", {}, async (page) => {
  await page.goto(base + "/data");
  await settled(page);
  for (let i = 0; i < 4; i++) {
    await page.locator(".empty button").nth(i).click();
    await page.waitForSelector("figure.chart .u-over");
    await settled(page);
    assert.equal(
      await page.locator(".note.error").count(),
      0,
      await page.locator("main").innerText(),
    );
    await page.goBack();
    await page.waitForSelector(".empty button");
  }
});

// The server looks for misuse a minute after its start.
await until("findings", async () => {
  const l = await ask("/api/reckon/v1/findings");
  return l.looked && l.findings.length > 3;
});
await look("findings", "/findings", /\d+ findings/, "Evidence", "Acknowledge");
await look(
  "findings-over-share",
  "/findings?rule=over-share",
  /(high|medium): took more than a fair share/,
  "login1",
);
await visit(
  "a finding: its evidence, acknowledged, muted until a day, and back",
  {},
  async (page) => {
    await page.goto(base + "/findings?rule=over-share");
    await settled(page);
    const one = page.locator("article").first(),
      text = await one.locator("p").first().innerText();
    for (const summary of ["Evidence", "Over time"]) {
      const s = one.locator("summary", { hasText: summary });
      if (!(await s.evaluate((e) => e.parentElement.open))) await s.click();
    }
    await page.waitForSelector("text=above the fair share they add up to");
    await one.locator("figure.chart").first().waitFor();
    await settled(page);
    assert.equal(await one.locator(".note.error, .empty").count(), 0, await one.innerText());
    assert.ok((await one.locator("figure.chart").count()) >= 2, "steps and the queries");
    await page.screenshot({ path: `${shots}/live-finding-evidence.png`, fullPage: false });
    await accessible(page, "evidence");
    await one.getByRole("button", { name: "Acknowledge" }).click();
    await one.getByText("acknowledged by admin").waitFor();
    await one.getByRole("button", { name: "Mute…" }).click();
    await page.locator("dialog").getByLabel("Why").fill("agreed until the paper");
    await page.locator("dialog").getByLabel("For").selectOption("");
    const day = new Date(Date.now() + 3 * 86400e3).toISOString().slice(0, 10);
    await page.locator("dialog").getByLabel("Last day").fill(day);
    await page.locator("dialog").getByRole("button", { name: "Mute", exact: true }).click();
    await page.waitForFunction((t) => !document.querySelector("main").innerText.includes(t), text);
    assert.ok(
      !run(reckon, "findings", "--server", base).includes(text),
      "nor does the command list it",
    );
    await page.getByLabel("with those muted").check();
    const muted = page.locator("article", { hasText: "agreed until the paper" });
    await muted.waitFor();
    assert.match(await muted.innerText(), /muted until/);
    await muted.getByRole("button", { name: "Unmute" }).click();
    await page.getByLabel("with those muted").uncheck();
    await page.locator("article", { hasText: text }).first().waitFor();
  },
);
await visit("what another policy would find, here and on the command line", {}, async (page) => {
  await page.goto(base + "/findings");
  await settled(page);
  await page.getByRole("button", { name: "What if…" }).click();
  const box = page.getByRole("textbox", { name: "Policy" });
  await box.waitFor();
  const policy = (await box.inputValue()).replace(/(over-share:\s+on: )true/, "$1false"),
    file = join(data, "other.yaml");
  writeFileSync(file, policy);
  await box.fill(policy);
  await page.getByRole("button", { name: "Evaluate" }).click();
  await page.waitForSelector("text=This policy would have found", { timeout: 120_000 });
  const [, then, now, more, fewer] = /found (\d+), the present one (\d+): (\d+) more, (\d+) fewer/
    .exec(await page.locator("dialog [role=status]").innerText())
    .map(Number);
  assert.ok(
    fewer > 0 && more === 0 && then === now - fewer,
    `${then} instead of ${now}, ${more} more, ${fewer} fewer`,
  );
  const told = run(reckon, "findings", "--what-if", file, "--server", base);
  assert.ok(told.includes(String(then)) && told.includes(String(now)), told.slice(0, 400));
  await shot(page, "what-if");
  await accessible(page, "what if");
});

await visit("who is notified of alerts, and what a test of that finds", {}, async (page) => {
  const config = join(data, "receivers.yml"),
    other = dir();
  writeFileSync(
    config,
    'route: {receiver: ops, group_wait: 1s}\nreceivers: [{name: ops, webhook_configs: [{url: "http://127.0.0.1:9/"}]}]\n',
  );
  const sends = await serve(
    reckon,
    "serve",
    "--data",
    other,
    "--set=alertmanager-config=" + config,
  );
  await page.goto(sends.base + "/alerts");
  await page.waitForSelector("text=None since the server started");
  await page.getByRole("button", { name: "Send a test alert" }).click();
  await page.waitForSelector("td:has-text('Refused')", { timeout: 30_000 });
  assert.match(
    await page.locator("section:has(#receivers)").innerText(),
    /ops.*webhook.*refused/is,
  );
  await accessible(page, "receivers");
  await sends.stop();
});

await browser.close();
await clean();
console.log(
  `ui: the simulated site in the real program, ${count.done} visits well, ${count.failed} failed`,
);
process.exit(count.failed ? 1 : 0);

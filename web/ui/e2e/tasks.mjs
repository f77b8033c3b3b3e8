// Twelve tasks that newcomers come for, each from the first page in two clicks at most (typing is none), its answer compared with PromQL: counted
// in clicks, timed, with a screenshot at 1440 and 390 pixels, light and dark. Over a simulated site in the real program.
// Usage: node e2e/tasks.mjs RECKON SHOTS [ONLY]
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import {
  accessible,
  clean,
  dir,
  fits,
  launch,
  makeUp,
  measured,
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
const browser = await launch(),
  count = visits(browser, shots, "task", /^$/, only);
const ask = async (path) => {
  const r = await fetch(base + path, { headers: { Accept: "application/json" } });
  assert.ok(r.ok, `${path}: ${r.status}`);
  return r.json();
};
await until("findings", async () => {
  const l = await ask("/api/reckon/v1/findings");
  return l.looked && l.findings.length > 3;
});

/** Does a task in each look; `most` clicks are allowed. */
async function task(name, most, f, at = base) {
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
        await page.goto(at + "/");
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
/** An expression at a moment, as label value to number. */
const prom = async (query, by, time, at = base) => {
  const q = new URLSearchParams({ query, ...(time ? { time: String(time) } : {}) }),
    r = await (await fetch(at + "/api/v1/query?" + q)).json();
  assert.equal(r.status, "success", query);
  return new Map(r.data.result.map((x) => [x.metric[by] ?? "", Number(x.value[1])]));
};
const near = (got, want, share, what) =>
  assert.ok(Math.abs(got - want) <= share * Math.abs(want), `${what}: ${got}, by PromQL ${want}`);
/** The range of the page that is open, Unix seconds. */
const rangeOf = (page) => {
  const q = new URL(page.url()).searchParams;
  return q.has("from")
    ? [Number(q.get("from")), Number(q.get("to"))]
    : [Date.now() / 1000 - Number(q.get("last") || 86400), Date.now() / 1000];
};
await task("which-of-my-jobs-wasted-most-this-month", 2, async (page, click) => {
  await click(page.getByRole("button", { name: "30 d", exact: true }));
  const who = page.locator(".ranks tbody tr", { has: page.locator("td.much") }).locator("td a");
  await click((await who.count()) > 0 ? who : page.locator(".ranks tbody td a"));
  await page.waitForSelector("h2:has-text('Work, the most unused first')");
  const owner = new URL(page.url()).searchParams.get("name"),
    first = await page
      .locator("table", { has: page.locator("caption:has-text('not used')") })
      .locator("tbody tr")
      .first()
      .innerText(),
    { workloads } = await ask(
      "/api/reckon/v1/workloads?" + new URLSearchParams({ owner, limit: "5000", since: "30d" }),
    ),
    lost = new Map();
  for (const w of workloads)
    if (w.allocated_cores && w.wall_seconds && w.cpu_seconds !== null)
      lost.set(
        w.name,
        (lost.get(w.name) ?? 0) + Math.max(0, w.allocated_cores * w.wall_seconds - w.cpu_seconds),
      );
  const [most] = [...lost].sort((x, y) => y[1] - x[1]);
  assert.ok(first.startsWith(most[0]), `${first} is first, ${most} lost most`);
  assert.match(first, /[\d.]+k? h/);
});
await task("why-was-my-job-killed", 2, async (page, click) => {
  await until(
    "a killed job",
    async () =>
      (await ask("/api/reckon/v1/workloads?state=out_of_memory&sort=-start&limit=1")).workloads[0],
  );
  if ((await page.viewportSize()).width > 500) await page.keyboard.press("/");
  else await click(page.locator("header nav").getByRole("link", { name: "Workloads" }));
  await page.locator("#find").fill("killed");
  await page.keyboard.press("Enter");
  await settled(page);
  await page.waitForSelector(".vtable tbody a");
  await click(page.locator(".vtable tbody a"));
  const id = new URL(page.url()).searchParams.get("id"),
    w = await ask("/api/reckon/v1/workloads/" + id),
    words = { out_of_memory: /killed .*memory|out of memory/i, timeout: /time limit/i };
  assert.match(
    await page.locator("main").innerText(),
    words[w.state] ?? /preempted|node/i,
    w.state,
  );
});
await task("who-must-be-told-first", 0, async (page) => {
  const first = page.locator(".todo li").first();
  await first.waitFor();
  assert.ok((await first.locator("a").count()) >= 2, "it names somebody and leads somewhere");
  const down = (await ask("/api/reckon/v1/nodes")).nodes.filter((n) => !n.up),
    { findings } = await ask("/api/reckon/v1/findings?limit=500"),
    text = await first.innerText();
  assert.ok(
    down.some((n) => text.includes(n.node)) ||
      (down.length === 0 && findings.some((f) => text.includes(f.owner))),
    text,
  );
});
await task("what-did-this-cost-in-energy-and-money", 1, async (page, click) => {
  await click(page.getByText("money", { exact: true }));
  await page.getByLabel("Price of a kWh").fill("0.30 EUR");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /EUR an hour/.test(document.querySelector("h1").innerText));
  await settled(page);
  const [name, money] = await page
      .locator(".ranks tbody tr")
      .first()
      .evaluate((r) => [r.querySelector("a").textContent, r.querySelectorAll("td")[2].textContent]),
    hours = await ask("/api/reckon/v1/usage?since=24h&by=owner"),
    joules = hours.rows.find((r) => r.owner === name).energy_joules;
  near(parseFloat(money), (joules / 3.6e6) * 0.3, 0.02, `cost of ${name}`);
  const begin = Date.parse(hours.since) / 1000,
    end = Math.min(Date.parse(hours.until) / 1000, Date.now() / 1000),
    by = await prom(
      `sum by (owner) (increase(reckon_workload_energy_joules_total[${Math.round(end - begin)}s]))`,
      "owner",
      end,
    );
  near(joules, by.get(name), 0.05, `energy of ${name}`);
  assert.match(await page.locator("main").innerText(), /energy today [\d.]+ k?Wh/);
});
await task("is-anything-wrong-with-a-node", 0, async (page) => {
  const nodes = await ask("/api/reckon/v1/nodes"),
    down = nodes.nodes.filter((n) => !n.up);
  assert.equal(await page.locator(".cell").count(), nodes.nodes.length);
  assert.equal(await page.locator(".cell.isdown").count(), down.length);
  for (const n of down.slice(0, 3))
    assert.ok((await page.locator(".todo").innerText()).includes(n.node), n.node);
});
await task("mute-a-finding", 2, async (page, click) => {
  const muted = async () =>
      (await ask("/api/reckon/v1/findings?limit=500&muted=true")).findings.filter(
        (f) => f.muted_until,
      ).length,
    before = await muted();
  await click(page.locator(".todo li", { hasText: "evidence" }).getByText("evidence"));
  await click(
    page.locator("main button", { hasText: /^Mute( all \d+)?…$/ }).locator("visible=true"),
  );
  await page.getByLabel("Why").fill("agreed with them");
  await page.keyboard.press("Enter");
  await until("the finding to be muted", async () => (await muted()) > before);
  await page.keyboard.press("Escape");
});
await task("send-and-see-an-own-figure", 1, async (page, click) => {
  const owner = await page.locator(".ranks tbody td a").first().innerText(),
    value = (Date.now() % 9000) / 1000 + 1,
    r = await fetch(base + "/v1/metrics", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({
        resourceMetrics: [
          {
            resource: { attributes: [{ key: "node", value: { stringValue: "cpu0001" } }] },
            scopeMetrics: [
              {
                metrics: [
                  {
                    name: "loss",
                    gauge: {
                      dataPoints: [
                        {
                          timeUnixNano: String(Date.now() - 5000) + "000000",
                          asDouble: value,
                          attributes: [{ key: "owner", value: { stringValue: owner } }],
                        },
                      ],
                    },
                  },
                ],
              },
            ],
          },
        ],
      }),
    });
  assert.ok(r.ok, await r.text());
  await click(page.locator(".ranks tbody td a"));
  await page.waitForSelector("h2:has-text('Own figures')");
  await page.waitForSelector("h3:has-text('loss')");
  assert.equal((await prom(`loss{owner=${JSON.stringify(owner)}}`, "owner")).get(owner), value);
});
await task("take-it-along-as-csv", 2, async (page, click) => {
  await click(page.getByText("Figures over time"));
  const file = page.waitForEvent("download");
  await click(page.getByRole("button", { name: "CSV", exact: true }));
  const text = readFileSync(await (await file).path(), "utf8"),
    [head, ...rows] = text
      .trim()
      .split(/\r?\n/)
      .map((l) => l.split(",")),
    of = head.findIndex((h) => h === "elena" || h === "alice" || h === "ines");
  assert.ok(rows.length > 100 && of > 0, text.slice(0, 300));
  // Three rows of the day, and PromQL over the step that ends at each of them.
  const step = (Date.parse(rows[1][0]) - Date.parse(rows[0][0])) / 1000;
  for (const part of [0.25, 0.5, 0.75]) {
    const row = rows[Math.floor(rows.length * part)],
      rates = await prom(
        `sum by (owner) (rate(reckon_workload_cpu_seconds_total[${step}s]))`,
        "owner",
        Date.parse(row[0]) / 1000,
      ),
      want = rates.get(head[of]) ?? 0;
    assert.ok(
      Math.abs(Number(row[of]) - want) < 0.001 + 0.01 * want,
      `${row[0]}: ${row[of]} of ${head[of]}, by PromQL ${want}`,
    );
  }
});

// --- two weeks, and a receiver of alerts -----------------------------------------------
const older = dir(),
  got = [],
  post = createServer((c) => {
    let body = false;
    c.write("220 post\r\n");
    c.on("error", () => undefined);
    c.on("data", (d) => {
      for (const line of String(d).split("\r\n")) {
        if (body) {
          got.push(line);
          if (line === ".") {
            body = false;
            c.write("250 kept\r\n");
          }
        } else if (/^DATA/i.test(line)) {
          body = true;
          c.write("354 go on\r\n");
        } else if (/^QUIT/i.test(line)) c.end("221 bye\r\n");
        else if (line) c.write("250 ok\r\n");
      }
    });
  });
await new Promise((r) => post.listen(0, "127.0.0.1", r));
run(
  ...[reckon, "simulate", "--tick", "2m", "--export", "10m", "--data", older],
  ...["--nodes", "2", "--jobs", "300", "--users", "4", "--for", "360h"],
);
const config = join(older, "alertmanager.yml");
writeFileSync(
  config,
  `global: {smtp_smarthost: '127.0.0.1:${post.address().port}', smtp_from: reckon@example.org, smtp_require_tls: false}
route: {receiver: mail, group_wait: 100ms, group_interval: 1s, repeat_interval: 1s}
receivers: [{name: mail, email_configs: [{to: admins@example.org}]}]
`,
);
const { base: weeks } = await serve(
  ...[reckon, "serve", "--data", older, "--set=alertmanager-config=" + config],
);
await until("two weeks", async () => {
  const r = await (await fetch(weeks + "/api/reckon/v1/usage?since=14d&span=day")).json();
  return r.rows.length > 10;
});
await task(
  "this-week-against-last-in-numbers",
  2,
  async (page, click) => {
    await click(page.getByRole("button", { name: "7 d", exact: true }));
    await click(page.getByLabel("compare with the time before"));
    await page.waitForSelector("h1 small:has-text('In the time before')");
    await settled(page);
    const head = /^([\d.]+) of .*In the time before: ([\d.]+) cores/.exec(
        (await page.locator("h1").innerText()).replace(/\s+/g, " "),
      ),
      end = Math.floor(Date.now() / 3.6e6) * 3600,
      of = async (at) =>
        [
          ...(await prom(
            "sum(increase(reckon_workload_cpu_seconds_total[7d])) / 604800",
            "x",
            at,
            weeks,
          )),
        ][0][1];
    assert.ok(head, await page.locator("h1").innerText());
    near(Number(head[1]), await of(end), 0.05, "this week");
    near(Number(head[2]), await of(end - 604800), 0.05, "the week before");
    assert.ok((await page.locator(".ranks th:has-text('Before')").count()) === 1);
  },
  weeks,
);
await task(
  "yesterdays-peak-of-a-user-with-its-minute",
  2,
  async (page, click) => {
    await click(page.locator(".ranks tbody td a"));
    await click(page.getByRole("button", { name: "Earlier" }));
    const tile = page.locator(".facts li", { hasText: "Most cores" });
    await tile.locator("time").waitFor();
    const owner = new URL(page.url()).searchParams.get("name"),
      [from, to] = rangeOf(page),
      peak = Number(await tile.locator("b").innerText()),
      at = Date.parse(await tile.locator("time").getAttribute("datetime")) / 1000,
      want = await prom(
        `max_over_time(sum by (owner) (rate(reckon_workload_cpu_seconds_total{owner="${owner}"}[1500s]))[${to - from}s:1m])`,
        "owner",
        to,
        weeks,
      ),
      then = await prom(
        `sum by (owner) (rate(reckon_workload_cpu_seconds_total{owner="${owner}"}[1500s]))`,
        "owner",
        at,
        weeks,
      );
    assert.ok(at >= from && at <= to && at % 60 === 0, `${at} of ${from} to ${to}`);
    near(peak, want.get(owner), 0.02, "the peak");
    near(then.get(owner), want.get(owner), 0.02, "what was used then");
  },
  weeks,
);
await task(
  "an-alert-by-mail",
  2,
  async (page, click) => {
    got.length = 0;
    await click(page.locator("header nav").getByRole("link", { name: "Alerts" }));
    await click(page.getByRole("button", { name: "Send a test alert" }));
    await page.waitForSelector("td:has-text('Arrived')", { timeout: 60_000 });
    await until("the mail", async () => got.some((l) => /^Subject:.*/i.test(l)));
  },
  weeks,
);
post.close();

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

// Every page in Chromium against a simulated site: contents, keys, accessibility, both
// themes, phone width, hostile names, the states of failure, and no error on the console.
// Usage: node e2e/run.mjs SITE [SHOTS [ONLY]]: the program of test/ui/site, where screenshots go,
// and a regular expression that the names of checks must match.
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const [program, shots = "shots", only = ""] = process.argv.slice(2);
const browserAt = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(
  existsSync,
);
if (!browserAt) {
  console.log("ui: skipped, there is no Chromium here (on Debian: apt-get install chromium)");
  process.exit(0);
}
mkdirSync(shots, { recursive: true });
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const children = [];
async function serve(...flags) {
  const child = spawn(program, [...flags, "0"], { stdio: ["pipe", "pipe", "inherit"] });
  children.push(child);
  for await (const line of createInterface({ input: child.stdout })) return "http://" + line;
  throw new Error("the site did not start");
}

const browser = await chromium.launch({
  executablePath: browserAt,
  args: ["--no-sandbox", "--force-prefers-reduced-motion"],
});
let failed = 0,
  done = 0;
async function check(name, f) {
  if (!new RegExp(only).test(name)) return;
  try {
    await f();
    done++;
  } catch (err) {
    failed++;
    console.error(
      `FAIL ${name}\n     ${String(err?.stack ?? err)
        .split("\n")
        .slice(0, 6)
        .join("\n     ")}`,
    );
  }
}
async function open(
  base,
  path,
  { dark = false, phone = false, tour = false, allow = () => false } = {},
) {
  const context = await browser.newContext({
    viewport: phone ? { width: 375, height: 740 } : { width: 1280, height: 900 },
    colorScheme: dark ? "dark" : "light",
    timezoneId: "Europe/Berlin",
    locale: "en-GB",
    bypassCSP: false,
  });
  if (!tour) await context.addInitScript(() => localStorage.setItem("reckon.tour", "seen"));
  const page = await context.newPage(),
    said = [];
  page.on("console", (m) => {
    if ((m.type() === "error" || m.type() === "warning") && !allow(m.text())) said.push(m.text());
  });
  page.on("pageerror", (e) => said.push(String(e)));
  await page.goto(base + path);
  await page.waitForFunction(
    () =>
      document.querySelector("h1") &&
      !document.querySelector(".loading") &&
      !document.querySelector("main").innerText.includes("Loading…"),
    null,
    { timeout: 15000 },
  );
  page.problems = () => said;
  return page;
}
async function shot(page, name) {
  await page.screenshot({ path: `${shots}/${name}.png`, fullPage: true });
}
async function accessible(page, name) {
  // axe runs in the page's world through the debugger, which the policy of the page does not hold back.
  await page.evaluate(axe);
  const found = await page.evaluate(async () =>
    (
      await globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] })
    ).violations.map(
      (v) =>
        `${v.id}: ${v.help} at ${v.nodes
          .slice(0, 3)
          .map((n) => n.target + " " + (n.any[0]?.message ?? ""))
          .join("; ")}`,
    ),
  );
  assert.deepEqual(found, [], name);
}

const pages = {
  site: [
    "/",
    "were in use on average",
    "Who used it",
    "Needs you",
    "took more than a fair share",
    "allocated and not used",
  ],
  nodes: ["/nodes", "node-0002", "Pressure", "drained", "3 jobs", "75 % storage"],
  node: ["/node?name=n1", "Cores by workload", "train", "idle"],
  workloads: ["/workloads", "workloads", "Core-hours"],
  workload: [
    "/workload?id=slurm/4711",
    "Verdict",
    "killed 1 process",
    "Requested and used",
    "#SBATCH --nodes=2",
    "Cores in use, by time",
    "Runs of the same name",
    "start, ✕",
    "Side by side",
    "Kind of GPU use",
    "tensor cores",
    "34 %",
  ],
  owners: ["/owners", "alice", "Unused"],
  usage: ["/usage?last=604800", "Hours of the week", "History by owner"],
  findings: [
    "/findings",
    "high: took more than a fair share",
    "over-share",
    "two owners wanted it",
    "Acknowledge",
  ],
  power: [
    "/power?node=n1",
    "Power now",
    "By node",
    "Power against work",
    "Model of the power",
    "root",
    "What adds to it",
    "CPU use",
  ],
  data: [
    "/data?s=" +
      encodeURIComponent(
        'reckon_workload_cpu_seconds_total{node="n1"}\nreckon_workload_memory_bytes',
      ),
    "Over time",
    "Take along",
    "What goes together",
    "Pearson",
    "Parquet",
    "points.",
  ],
  explore: ["/explore?expr=up", "Answer"],
  about: ["/about?node=n1", "no such hardware", "Sensors that do not work"],
};

const base = await serve();
for (const [name, [path, ...texts]] of Object.entries(pages))
  for (const dark of [false, true])
    for (const phone of [false, true]) {
      const full = `${name}-${dark ? "dark" : "light"}-${phone ? "phone" : "wide"}`;
      await check(full, async () => {
        const page = await open(base, path, { dark, phone });
        const text = await page.locator("main").innerText();
        for (const t of texts)
          assert.ok(
            text.toLowerCase().includes(t.toLowerCase()),
            `no ${JSON.stringify(t)} in: ${text.slice(0, 400)}`,
          );
        await page.waitForTimeout(120);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wide <= 0, `the page is ${wide} pixels wider than the window`);
        await shot(page, full);
        await accessible(page, full);
        assert.equal(await page.evaluate(() => globalThis.hacked), undefined, "a name ran as code");
        assert.deepEqual(page.problems(), [], "console");
        await page.context().close();
      });
    }

await check("on paper charts are whole and lines keep their names", async () => {
  const page = await open(base, "/");
  await page.waitForSelector("figure.chart canvas");
  await page.evaluate(() => {
    // What the layout of the page is while it is printed is read in the middle of it.
    addEventListener("beforeprint", () => {
      globalThis.printed = [...document.querySelectorAll(".uplot")].map((u) => [
        u.getBoundingClientRect().width,
        u.querySelector("canvas").width / devicePixelRatio,
      ]);
    });
    addEventListener("afterprint", () => {
      globalThis.after = document.querySelector(".uplot").getBoundingClientRect().width;
    });
  });
  for (const format of ["A4", "Letter"]) {
    const pdf = await page.pdf({ format, printBackground: true, path: `${shots}/${format}.pdf` });
    assert.ok(pdf.length > 10000, "a document");
    const printed = await page.evaluate(() => globalThis.printed);
    assert.ok(printed?.length > 0, "charts are told that they are printed");
    for (const [width, drawn] of printed) {
      assert.ok(width <= 700, `a chart is ${width} wide on paper`);
      assert.equal(Math.round(drawn), Math.round(width), "all of the picture is there");
    }
    assert.ok((await page.evaluate(() => globalThis.after)) > 700, "and wide again after");
  }
  await page.emulateMedia({ media: "print" });
  const names = await page.locator("figure.chart .keys_").first().innerText();
  assert.match(names, /alice/);
  assert.equal(await page.locator("header.top").isVisible(), false);
  await page.context().close();
});

await check("every page is whole on paper", async () => {
  const all = [];
  for (const [name, [path]] of Object.entries(pages)) {
    const page = await open(base, path);
    await page.waitForSelector("h1");
    await page.waitForFunction(() => !document.querySelector("main .loading"));
    await page.setViewportSize({ width: 690, height: 1000 });
    await page.emulateMedia({ media: "print" });
    await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
    await page.waitForTimeout(200);
    const cut = await page.evaluate(() => {
      const out = [],
        seen = (e) => e.checkVisibility(),
        words = (e) => `${e.tagName}.${e.className} ${e.textContent.slice(0, 40)}`;
      for (const e of document.querySelectorAll(
        "header.top, .timebar, .choice, main form, .figures",
      ))
        if (seen(e)) out.push("navigation: " + words(e));
      // A table or list with a bar of its own would lose what is outside of it.
      for (const e of document.querySelectorAll(".scroll, .vtable, .legend, ul, ol, main"))
        if (
          seen(e) &&
          (e.scrollWidth > e.clientWidth + 2 || e.scrollHeight > e.clientHeight + 2) &&
          getComputedStyle(e).overflow !== "visible"
        )
          out.push(`cut at ${e.clientWidth} x ${e.clientHeight}: ` + words(e));
      for (const e of document.querySelectorAll("main table, main .uplot"))
        if (seen(e) && e.getBoundingClientRect().right > innerWidth + 2)
          out.push(`${e.getBoundingClientRect().right} wide: ` + words(e));
      for (const e of document.querySelectorAll("main thead th"))
        if (e.querySelector("button") && !seen(e.querySelector("button")))
          out.push("a column without its name");
      for (const e of document.querySelectorAll("main details.legend[open] tbody svg"))
        if (!seen(e)) out.push("a legend without its colours: " + words(e.closest("tr")));
      for (const e of document.querySelectorAll("main details:not([open])"))
        if (seen(e) && !e.matches(".menu")) out.push("folded: " + words(e));
      for (const e of document.querySelectorAll("main [aria-rowcount]")) {
        const rows = e.querySelectorAll("tbody tr[aria-rowindex]").length,
          all = Number(e.getAttribute("aria-rowcount")) - 1;
        if (rows < all && !/The first \d+ of \d+/.test(document.body.innerText))
          out.push(`${rows} of ${all} rows`);
      }
      return out;
    });
    await page.screenshot({ path: `${shots}/paper-${name}.png`, fullPage: true });
    await page.context().close();
    all.push(...cut.map((c) => name + ": " + c));
  }
  assert.deepEqual(all, []);
});
await check("a chart is kept as a picture, with its title and its names", async () => {
  const page = await open(base, "/");
  await page.waitForSelector("figure.chart canvas");
  await page.locator("summary:has-text('Figures over time')").first().click();
  const file = page.waitForEvent("download");
  await page.getByRole("button", { name: "PNG" }).first().click();
  const got = await file,
    bytes = readFileSync(await got.path()),
    drawn = await page
      .locator("figure.chart canvas")
      .first()
      .evaluate((c) => [c.width, c.height]);
  assert.equal(got.suggestedFilename(), "cores-in-use.png");
  assert.equal(bytes.toString("latin1", 1, 4), "PNG");
  assert.equal(bytes.readUInt32BE(16), drawn[0]);
  assert.ok(bytes.readUInt32BE(20) >= drawn[1] + 50, "room for the title and the names");
  writeFileSync(`${shots}/chart.png`, bytes);
  await page.context().close();
});

await check("the measure rules the columns, and a colour stays with a name", async () => {
  const page = await open(base, "/?of=energy");
  await page.waitForSelector("table.ranks");
  const heads = await page.locator("table.ranks thead").innerText();
  assert.match(heads, /Core-hours/);
  assert.doesNotMatch(heads, /Energy/);
  assert.match(await page.locator("table.ranks tbody tr").first().innerText(), /Wh/);
  assert.match(await page.locator("main").innerText(), /Energy is not allocated/);
  const ink = () =>
    page
      .locator("table.ranks tbody tr", { hasText: "alice" })
      .locator('i.dot[style*="background"]')
      .first()
      .getAttribute("style");
  const first = await ink();
  assert.match(first, /background/);
  await page.goto(base + "/?of=cpu");
  await page.waitForSelector("table.ranks");
  assert.equal(await ink(), first);
  await page.goto(base + "/?of=gpu");
  await page.waitForSelector("text=No GPU was used or allocated in this time");
  await page.goto(base + "/?compare=before");
  await page.waitForSelector("h1 small");
  assert.match(
    (await page.locator("h1 small").innerText()).trim(),
    /^(In the time before: [\d.]+|Nothing was measured in the time before)/,
  );
  assert.match(await page.locator("table.ranks thead").innerText(), /Before/);
  assert.doesNotMatch(await page.locator("main").innerText(), /measured on \d+ of/);
  assert.deepEqual(page.problems(), []);
  await page.context().close();
});

await check("keyboard", async () => {
  const page = await open(base, "/");
  for (const [key, path] of [
    ["n", "/nodes"],
    ["w", "/workloads"],
    ["o", "/owners"],
    ["u", "/usage"],
    ["f", "/findings"],
    ["p", "/power"],
    ["d", "/data"],
    ["e", "/explore"],
    ["a", "/about"],
    ["s", "/"],
  ]) {
    await page.keyboard.press("g");
    await page.keyboard.press(key);
    await page.waitForFunction((p) => location.pathname === p, path, { timeout: 3000 });
  }
  await page.keyboard.press("?");
  assert.equal(await page.locator("dialog[open]").count(), 1);
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("dialog[open]").count(), 0);
  await page.keyboard.press("/");
  await page.waitForFunction(() => document.activeElement?.id === "find");
  await page.keyboard.type("owner:bob kind:slurm");
  await page.keyboard.press("Enter");
  await page.waitForFunction(
    () => new URL(location.href).searchParams.get("q") === "owner:bob kind:slurm",
  );
  await page.waitForFunction(() =>
    [...document.querySelectorAll(".vtable tbody tr td:nth-child(3)")].some(
      (c) => c.textContent === "bob",
    ),
  );
  assert.ok(
    !(await page.locator(".vtable tbody").innerText()).includes("alice"),
    "the filter holds",
  );
  await page.goto(base + "/");
  await page.waitForSelector(".cell");
  await page.locator(".cell").first().focus();
  await page.keyboard.press("ArrowRight");
  assert.match(
    await page.evaluate(() => document.activeElement.getAttribute("aria-label")),
    /^node-0003 \d+ % cpu/,
  );
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.pathname === "/node");
  assert.deepEqual(page.problems(), []);
  await page.context().close();
});

await check("findings are acknowledged and muted", async () => {
  const page = await open(base, "/findings");
  await page.getByRole("button", { name: "Acknowledge" }).first().click();
  await page.waitForSelector("text=acknowledged by admin");
  await page.getByRole("button", { name: "Mute…" }).first().click();
  await page.getByLabel("Why").fill("known <b>case</b>");
  await accessible(page, "mute dialog");
  await page.locator("dialog").getByRole("button", { name: "Mute", exact: true }).click();
  await page.waitForSelector("text=No findings");
  await page.getByLabel("with those muted").check();
  await page.waitForSelector("text=known <b>case</b>");
  assert.deepEqual(page.problems(), []);
  await page.context().close();
});

await check("the evidence of a finding over time, and what another policy would find", async () => {
  const page = await open(await serve(), "/findings");
  await page.getByText("Over time", { exact: true }).first().click();
  await page.waitForSelector("text=above the fair share they add up to");
  await page.waitForSelector("h3:has-text('cores it used')");
  assert.equal(await page.locator("article figure.chart").count(), 2);
  await shot(page, "findings-evidence");
  await accessible(page, "findings-evidence");
  await page.getByRole("button", { name: "What if…" }).click();
  await page.getByRole("textbox", { name: "Policy" }).fill("rules: {}  # other");
  await page.getByRole("button", { name: "Evaluate" }).click();
  await page.waitForSelector("text=1 more, 0 fewer");
  await page.waitForSelector("text=used <b>2</b>");
  await shot(page, "findings-whatif");
  await accessible(page, "what if");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Mute…" }).first().click();
  await page.locator("dialog").getByLabel("For").selectOption("");
  await page.getByLabel("Last day").fill("2030-01-31");
  await page.getByLabel("Why").fill("until the end of January");
  const [sent] = await Promise.all([
    page.waitForRequest((r) => r.url().includes("/mute")),
    page.locator("dialog").getByRole("button", { name: "Mute", exact: true }).click(),
  ]);
  assert.match(
    new URL(sent.url()).searchParams.get("until"),
    /^2030-01-31T23:00/,
    "the day ends at midnight in Berlin",
  );
  await page.getByLabel("with those muted").check();
  await page.getByRole("button", { name: "Unmute" }).click();
  await page.waitForSelector("button:has-text('Mute…')");
  assert.deepEqual(page.problems(), []);
  await page.context().close();
});

await check("series are picked by keyboard, correlated and taken along", async () => {
  const page = await open(base, "/data");
  await page.waitForSelector(".empty");
  await page.keyboard.press("/");
  await page.keyboard.type("node_lo");
  await page.waitForSelector("#series-list li");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.getByRole("combobox", { name: /^node/ }).selectOption("n2");
  await page.getByRole("button", { name: "Add these 2 series" }).click();
  await page.waitForFunction(
    () => new URL(location.href).searchParams.get("s") === 'node_load1{node="n2"}',
  );
  await page.waitForSelector("figure.chart .u-over");
  await page.waitForSelector("text=it takes two series", { state: "detached" });
  for (const [name, format] of [
    ["CSV", "csv"],
    ["Parquet", "parquet"],
  ]) {
    const link = await page
      .locator("section", { hasText: "Take along" })
      .getByRole("link", { name, exact: true })
      .getAttribute("href");
    assert.match(
      await page.evaluate(async (u) => (await fetch(u)).text(), link),
      new RegExp("rows as " + format),
    );
  }
  await page.getByLabel("Selector 1").fill("oops{");
  await page.keyboard.press("Enter");
  await page.waitForSelector("text=is no selector");
  assert.equal(page.problems().filter((t) => !t.includes("400")).length, 0);
  await page.context().close();
});

await check("nodes by GPU, down is not idle", async () => {
  const page = await open(base, "/?show=gpu");
  await page.waitForSelector('.cell[aria-label="n1 72 % gpu"]');
  assert.match(await page.locator('.cell[href*="name=n2"]').getAttribute("class"), /isdown/);
  assert.match(
    await page.locator('.cell[href*="name=node-0003"]').getAttribute("aria-label"),
    /gpu not measured/,
  );
  await shot(page, "site-gpu");
  await page.context().close();
});

await check("a node that takes no jobs says why, what it did and what waits for", async () => {
  const page = await open(base, "/node?name=node-0003");
  const text = await page.locator("main").innerText();
  for (const t of [
    "Takes no jobs.",
    "drained",
    "disk errors <b>sdb</b>",
    "Had room for",
    "3 waiting jobs",
    "Last day",
    "Last week",
    "waits for storage",
  ])
    assert.ok(text.includes(t), `no ${t} in ${text.slice(0, 600)}`);
  await shot(page, "node-drained");
  await accessible(page, "node-drained");
  await page.goto(base + "/nodes?sort=-pressure&cols=node,pressure,load");
  await page.waitForSelector("th[aria-sort=descending]:has-text('Pressure')");
  assert.equal(await page.locator("thead th").count(), 3);
  const of = await page.locator("tbody tr td:nth-child(2)").allInnerTexts();
  assert.match(of[0], /^80 % CPU$|^75 % storage$/);
  await page.goto(base + "/?show=pressure");
  await page.waitForSelector(
    '.cell[title="node-0006 75 % pressure: share of time in which some task waited for CPU 60 %, storage 75 %"]',
  );
  assert.deepEqual(page.problems(), []);
  await page.context().close();
});

await check("runs of the same name lie over each other, events are marked", async () => {
  const page = await open(base, "/workload?id=slurm/4711");
  await page.waitForSelector("text=this: slurm/4711");
  await page.getByText("Side by side").scrollIntoViewIfNeeded();
  const over = page.locator("h3:has-text('Cores') + figure .u-over").first();
  await over.scrollIntoViewIfNeeded();
  const box = await over.boundingBox();
  for (
    let x = 4;
    x < box.width && !(await page.locator(".tip b", { hasText: "killed" }).count());
    x += 4
  )
    await page.mouse.move(box.x + x, box.y + 40);
  assert.match(
    await page.locator(".tip").first().innerText(),
    /1 process killed for lack of memory/,
  );
  await shot(page, "workload-marks");
  for (const by of ["node", "part", "program"])
    await page.locator("fieldset", { hasText: "By" }).getByText(by, { exact: true }).click();
  await page.waitForFunction(() => location.search.includes("by=command"));
  assert.deepEqual(page.problems(), []);
  await page.context().close();
});

await check("memory traffic beside cores, and why there is none", async () => {
  for (const phone of [false, true]) {
    const page = await open(base, "/node?name=n1&show=traffic", { phone }),
      at = (title) =>
        page
          .locator("section", { has: page.getByRole("heading", { name: title, exact: true }) })
          .locator(".u-over")
          .first();
    await page.waitForSelector("h2:has-text('Memory traffic by socket')");
    await at("Memory traffic by workload").scrollIntoViewIfNeeded();
    const [traffic, cores] = [
      await at("Memory traffic by workload").boundingBox(),
      await at("Cores by workload").boundingBox(),
    ];
    assert.deepEqual([traffic.x, traffic.width], [cores.x, cores.width], "one axis of time");
    await page.mouse.move(traffic.x + traffic.width / 2, traffic.y + 20);
    await page.waitForFunction(() => document.querySelectorAll(".legend summary span").length > 4); // all charts show that moment
    assert.equal(await page.locator(".tip").count(), 1);
    await shot(page, "node-traffic" + (phone ? "-phone" : ""));
    await accessible(page, "node-traffic");
    assert.deepEqual(page.problems(), []);
    await page.context().close();
  }
  const page = await open(base, "/node?name=n2&show=traffic");
  for (const t of [
    "Not measured on this node: the agent counts it with the setting counters",
    "Not measured on this node: power, memory traffic by socket, memory traffic by workload",
  ])
    await page.waitForSelector(`text=${t}`);
  assert.equal(await page.locator("h2:has-text('by socket')").count(), 0, "no dead panel");
  await shot(page, "node-no-traffic");
  await accessible(page, "node-no-traffic");
  await page.goto(base + "/workload?id=slurm/4711");
  await page.waitForSelector("h3:has-text('Memory traffic')");
  await page.waitForSelector("text=wait of threads for a core");
  await page.context().close();
});

await check("suggestions by keyboard", async () => {
  const page = await open(base, "/workloads");
  await page.keyboard.press("/");
  await page.keyboard.type("sta");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  assert.equal(await page.inputValue("#find"), "state:");
  await page.keyboard.type("fai");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Tab");
  assert.equal(await page.inputValue("#find"), "state:failed ");
  await page.fill("#find", "onwer:x");
  await page.keyboard.press("Enter");
  await page.waitForSelector("text=There is no field onwer");
  await page.context().close();
});

await check("a search is one step back, however it was typed", async () => {
  const page = await open(base, "/workloads"),
    q = () => new URL(page.url()).searchParams.get("q");
  for (const words of ["owner:alice", "owner:bob"]) {
    await page.fill("#find", "");
    await page.locator("#find").pressSequentially(words, { delay: 60 });
    await page.waitForFunction((w) => new URL(location.href).searchParams.get("q") === w, words);
    await page.keyboard.press("Enter");
  }
  await page.goBack();
  await page.waitForFunction(() => new URL(location.href).searchParams.get("q") === "owner:alice");
  assert.equal(await page.inputValue("#find"), "owner:alice");
  await page.goBack();
  assert.equal(q(), null);
  assert.match(page.url(), /\/workloads/);
  await page.context().close();
});

await check("two questions in one chart", async () => {
  const page = await open(base, "/explore?expr=" + encodeURIComponent("up\n\nup"));
  await page.waitForSelector("figure.chart .u-over");
  const rows = await page.locator(".legend tbody tr th").allInnerTexts();
  assert.ok(
    rows.some((r) => r.includes("query=1")) && rows.some((r) => r.includes("query=2")),
    rows.join("; "),
  );
  await page.context().close();
});

await check("virtual rows, sorting, columns, a shared address", async () => {
  const many = await serve("-jobs", "99990");
  const page = await open(many, "/workloads");
  await page.waitForSelector("text=100,002 workloads");
  assert.ok((await page.locator(".vtable tbody tr").count()) < 120, "only what is seen is drawn");
  const took = await page.evaluate(async () => {
    const t = performance.now(),
      v = document.querySelector(".vtable");
    v.scrollTop = v.scrollHeight;
    await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
    return performance.now() - t;
  });
  await page.waitForFunction(() => {
    const r = [...document.querySelectorAll(".vtable tbody tr[aria-rowindex]")].at(-1);
    return r && r.getAttribute("aria-rowindex") === "100003" && !r.textContent.startsWith("…");
  });
  console.log(`  100,002 rows: to the end in ${took.toFixed(0)} ms of drawing`);
  // Lines of what is seen, wherever it is scrolled to, and the longest that a frame took meanwhile.
  await page.waitForFunction(() => document.querySelectorAll(".vtable .spark").length > 10);
  const worst = await page.evaluate(async () => {
    const v = document.querySelector(".vtable"),
      frame = () => new Promise((r) => requestAnimationFrame(() => r(performance.now())));
    let last = await frame(),
      worst = 0;
    for (let i = 0; i < 60; i++) {
      v.scrollTop = (v.scrollHeight * ((i * 37) % 60)) / 60;
      const now = await frame();
      worst = Math.max(worst, now - last);
      last = now;
    }
    return worst;
  });
  await page.waitForFunction(
    () =>
      [...document.querySelectorAll(".vtable tbody tr[aria-rowindex]")].every(
        (r) => !r.textContent.startsWith("…"),
      ) && document.querySelectorAll(".vtable .spark").length > 10,
  );
  const rows = await page.locator(".vtable tbody tr").count();
  assert.ok(rows < 120, `${rows} rows are drawn after scrolling`);
  // Each key is taken at once; the answer follows a moment after the last one.
  const typed = await page.evaluate(() => {
    const t = [];
    globalThis.typedAt = t;
    document.getElementById("find").addEventListener("input", () => {
      const at = performance.now();
      requestAnimationFrame(() => t.push(performance.now() - at));
    });
  });
  assert.equal(typed, undefined);
  await page.locator("#find").pressSequentially("owner:bob step00", { delay: 20 });
  const end = Date.now();
  await page.waitForFunction(() =>
    /^1,3\d\d workloads/.test(document.querySelector("[role=status]").textContent),
  );
  console.log(
    `  100,002 rows: the slowest frame of 60 jumps ${worst.toFixed(0)} ms, of 16 keys ${Math.max(...(await page.evaluate(() => globalThis.typedAt))).toFixed(0)} ms, the filter's answer ${Date.now() - end} ms after the last`,
  );
  await page.fill("#find", "");
  await page.keyboard.press("Enter");
  await page.waitForSelector("text=100,002 workloads");
  await page
    .getByRole("button", { name: "Wall" })
    .or(page.getByRole("button", { name: "Cores, mean" }))
    .first()
    .click();
  await page.waitForFunction(() => location.search.includes("sort=-cores_mean"));
  await page.locator("summary", { hasText: "Columns" }).click();
  await page.getByLabel("Account").check();
  await page.waitForSelector("th:has-text('Account')");
  const shared = page.url();
  await page.goto("about:blank");
  await page.goto(shared);
  await page.waitForSelector("th[aria-sort=descending]:has-text('Cores, mean')");
  await page.waitForSelector("th:has-text('Account')");
  const csv = await page.evaluate(
    async () =>
      await (
        await fetch(
          [...document.querySelectorAll("a")]
            .find((a) => a.textContent === "CSV")
            .href.replace("100000", "3"),
        )
      ).text(),
  );
  assert.match(csv.split("\n")[0], /^id,kind,name,owner/);
  await page.context().close();
});

await check("hostile names are text", async () => {
  const listed = await open(base, "/workloads?q=kind:group&sort=id");
  await listed.waitForSelector(".vtable tbody tr[aria-rowindex] a");
  const links = await listed
    .locator(".vtable tbody td:first-child a")
    .evaluateAll((l) => l.map((a) => a.getAttribute("href")));
  assert.equal(links.length, 7);
  await shot(listed, "hostile-list");
  await listed.context().close();
  for (const [i, link] of links.entries()) {
    const page = await open(base, link);
    await page.waitForSelector("text=Verdict");
    assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
    assert.ok(
      (await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0,
      "4 KB do not burst the page",
    );
    assert.equal(await page.locator("main img, main script").count(), 0);
    assert.ok(
      !(await page.locator("main").innerText()).includes("\u202e"),
      "marks of direction are made visible",
    );
    assert.deepEqual(page.problems(), []);
    await shot(page, "hostile-" + i);
    await page.context().close();
  }
});

await check("failing, empty and partial sites say so", async () => {
  const failing = await serve("-fail"),
    empty = await serve("-empty"),
    partial = await serve("-partial");
  for (const [name, [path]] of Object.entries(pages)) {
    if (
      ["node", "owners", "usage", "explore", "workloads", "findings", "power", "data"].includes(
        name,
      )
    )
      continue;
    const page = await open(failing, path, { allow: (t) => t.includes("500") });
    assert.ok((await page.locator("[role=alert]").count()) > 0, `${name}: no error is shown`);
    await shot(page, "fail-" + name);
    await accessible(page, "fail-" + name);
    await page.context().close();
  }
  for (const [name, [path]] of Object.entries(pages)) {
    const page = await open(empty, path, { allow: (t) => t.includes("404") });
    if (name !== "workload" && name !== "site") await page.waitForSelector(".empty");
    await shot(page, "empty-" + name);
    await accessible(page, "empty-" + name);
    assert.deepEqual(page.problems(), []);
    await page.context().close();
  }
  for (const path of ["/nosuch", "/no/such"]) {
    const page = await open(empty, path, { allow: (t) => t.includes("404") });
    await page.waitForSelector(`text=There is no page at ${path}`);
    await accessible(page, "no page");
    await page.context().close();
  }
  for (const path of ["/", "/nodes", "/workloads"]) {
    const page = await open(partial, path);
    await page.waitForSelector("text=site north: no route to host");
    await page.context().close();
  }
});

await check("what may not be seen", async () => {
  const page = await open(base, "/about");
  await page.route("**/api/reckon/v1/usage*", (r) =>
    r.fulfill({
      status: 403,
      contentType: "application/json",
      body: '{"error":"a viewer of role public may not see owners","hint":"sign in"}',
    }),
  );
  await page.keyboard.press("g");
  await page.keyboard.press("o");
  await page.waitForSelector("text=You may not see this");
  await page.route("**/api/reckon/v1/nodes", (r) =>
    r.fulfill({
      status: 401,
      contentType: "application/json",
      body: '{"error":"a viewer of role nobody sees nothing","hint":"sign in"}',
    }),
  );
  await page.route("**/auth/login*", (r) =>
    r.fulfill({ status: 200, contentType: "text/html", body: "<h1>login</h1>" }),
  );
  await page.keyboard.press("g");
  await page.keyboard.press("n");
  await page.waitForURL(/\/auth\/login\?next=%2Fnodes/);
  await page.context().close();
});

await check("the tour of a first visit", async () => {
  const page = await open(base, "/", { tour: true });
  await page.waitForSelector(".tour");
  assert.match(await page.locator(".tour").innerText(), /n1 uses 4\.1 of its 16 cores/);
  assert.equal(await page.locator("dialog[open]").count(), 0, "nothing is covered or dimmed");
  assert.ok(
    await page.evaluate(() => !document.activeElement.closest(".tour")),
    "the focus stays with the page",
  );
  await shot(page, "tour");
  await accessible(page, "tour");
  for (let i = 0; i < 4; i++) await page.getByRole("button", { name: "Next" }).click();
  await page.getByRole("button", { name: "Done" }).click();
  await page.reload();
  await page.waitForSelector(".cell");
  assert.equal(await page.locator(".tour").count(), 0, "it is shown once");
  await page.context().close();
});

await check("1,000 nodes, a year of a node, an error of PromQL", async () => {
  const large = await serve("-nodes", "1000");
  const page = await open(large, "/");
  assert.equal(await page.locator(".cell").count(), 1000);
  const paint = await page.evaluate(
    () => performance.getEntriesByName("first-contentful-paint")[0].startTime,
  );
  console.log(`  first paint of the site page with 1,000 nodes: ${paint.toFixed(0)} ms`);
  await shot(page, "site-1000");
  await accessible(page, "site-1000");
  await page.goto(base + "/node?name=n1&last=31536000");
  const begin = Date.now();
  await page.waitForSelector(".u-over");
  console.log(
    `  a year of one node: ${Date.now() - begin} ms to the first chart, of ${await page.evaluate(() => Math.round(performance.now()))} ms since navigation`,
  );
  await page.goto(base + "/explore");
  await page.fill("#expr", "sum(reckon_work");
  await page.keyboard.press("End");
  await page.keyboard.type("l");
  await page.waitForSelector(".suggest li");
  await page.keyboard.press("Tab");
  assert.match(await page.inputValue("#expr"), /^sum\(reckon_workload_/);
  await page.context().close();
  const wrong = await open(base, "/explore?expr=oops&as=table", {
    allow: (t) => t.includes("400"),
  });
  await wrong.waitForSelector("text=parse error");
  await wrong.context().close();
});

await check("the chart names what is under the pointer, and a click goes there", async () => {
  const page = await open(base, "/node?name=n1");
  const over = page.locator(".u-over").first();
  await over.scrollIntoViewIfNeeded();
  const box = await over.boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height - 20);
  await page.waitForSelector(".tip");
  assert.match(await page.locator(".tip").innerText(), /train/);
  await shot(page, "node-hover");
  await page.mouse.click(box.x + box.width / 2, box.y + box.height - 20);
  await page.waitForFunction(() => location.pathname === "/workload");
  await page.context().close();
});

await browser.close();
for (const c of children) c.stdin.end();
console.log(`ui: ${done} checks passed, ${failed} failed`);
process.exit(failed ? 1 : 0);

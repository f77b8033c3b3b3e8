// How long the page of a node takes to draw a year and a month, in Chromium, against a
// server with a store of that length. Usage: node e2e/year.mjs BASE NODE ROUNDS.
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const [base, node, rounds = "5"] = process.argv.slice(2);
const browserAt = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(
  existsSync,
);
if (!browserAt) {
  console.log("  not opened: there is no Chromium here (on Debian: apt-get install chromium)");
  process.exit(0);
}
const browser = await chromium.launch({
  executablePath: browserAt,
  args: ["--no-sandbox", "--force-prefers-reduced-motion"],
});
const median = (list) => list.sort((a, b) => a - b)[Math.floor(list.length / 2)];
for (const [name, last] of [
  ["a year", 31536000],
  ["30 days", 2592000],
]) {
  const first = [],
    all = [],
    said = [];
  for (let i = 0; i < Number(rounds); i++) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    await context.addInitScript(() => localStorage.setItem("reckon.tour", "seen"));
    // When charts stand in the page, by its own clock, counted from the event that it is loaded.
    await context.addInitScript(() => {
      const charts = (globalThis.charts = []);
      let seen = 0;
      new MutationObserver(() => {
        const n = document.querySelectorAll(".u-over").length;
        for (; seen < n; seen++) requestAnimationFrame((t) => charts.push(t));
      }).observe(document, { childList: true, subtree: true });
    });
    const page = await context.newPage();
    page.on("console", (m) => {
      if (m.type() === "error") said.push(m.text());
    });
    await page.goto(`${base}/node?${new URLSearchParams({ name: node, last })}`);
    await page.waitForFunction(
      () => document.querySelector(".u-over") && !document.querySelector(".loading"),
      null,
      { timeout: 120000 },
    );
    const [loaded, charts] = await page.evaluate(() => [
      performance.getEntriesByType("navigation")[0].loadEventEnd,
      globalThis.charts,
    ]);
    first.push(charts[0] - loaded);
    all.push(charts[charts.length - 1] - loaded);
    if (process.env.SHOTS && i === 0)
      await page.screenshot({ path: `${process.env.SHOTS}/node-${last}.png`, fullPage: true });
    await context.close();
  }
  console.log(
    `  ${name}: first chart ${median(first).toFixed(0)} ms after the page is loaded, all of them ${median(all).toFixed(0)} ms (median of ${rounds})${said.length ? "; the console says " + said[0] : ""}`,
  );
}
await browser.close();

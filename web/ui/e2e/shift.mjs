// How much the layout of each page moves while it loads (cumulative layout shift), and its long tasks, in Chromium,
// wide and on a phone, with answers held back so that every state of loading is painted.
// Usage: node e2e/shift.mjs BASE [ONLY [DELAY]]: the address of a server, a regular expression that the names of pages
// must match, and by how many ms answers are held back. Ends with 1 when a page moves by more than 0.05.
import { measured, launch } from "./common.mjs";

const [base, only = "", delay = "150"] = process.argv.slice(2);
const ask = async (path) => (await fetch(base + path)).json();
const pages = await measured.pages(ask);
const browser = await launch();
let worst = 0;
for (const [name, path] of pages.filter(([n]) => new RegExp(only).test(n)))
  for (const phone of [false, true]) {
    const { shift, long, moved } = await measured.shift(browser, base + path, phone, Number(delay));
    worst = Math.max(worst, shift);
    console.log(
      `${name.padEnd(10)} ${phone ? "390" : "1440"} shift ${shift.toFixed(3)} long tasks ${long.toFixed(0)} ms${shift > 0.05 || process.env.WHY ? "\n    " + moved.join("\n    ") : ""}`,
    );
  }
await browser.close();
process.exit(worst > 0.05 ? 1 : 0);

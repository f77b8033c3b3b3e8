import { afterEach, describe, expect, test, vi } from "vitest";
// @ts-expect-error Node's types are not installed.
import { readFileSync } from "node:fs";
import type { Line } from "../src/lib/chart";
import { inks, inksOf } from "../src/lib/ink";
import {
  figuresOf,
  meanOf,
  measuredFrom,
  measures,
  ownOf,
  priced,
  tariff,
  tariffOf,
} from "../src/lib/measure";
import { meaning } from "../src/lib/meaning";
import { fitted, pointedAt } from "../src/lib/pointed";
import { ranking, type Rank } from "../src/lib/ranked";
import { largest, unitAsked } from "../src/lib/series";
import { rangeBetween } from "../src/lib/span";
import type { Node, PromSeries } from "../src/lib/types";
import { clock, hereTimes, human } from "../src/lib/units";
import { partly, usersOf, type Use } from "../src/lib/users";

const asked: { expr: string; steps: number }[] = [],
  once: string[] = [];
let answers: [RegExp, PromSeries[]][] = [];
let recorded = true,
  born = 0,
  met = 128;
vi.mock("../src/lib/api", () => ({
  ask: async () => ({ rows: [] }),
  promInstant: async (expr: string) => {
    once.push(expr);
    const own = answers.find(([of]) => of.test(expr));
    return own
      ? own[1]
      : expr.startsWith("topk")
        ? [{ metric: { owner: "amir" }, value: [0, "2"] }]
        : [];
  },
  promRange: async (expr: string, from: number, to: number, step: number) => {
    asked.push({ expr, steps: (to - from) / step });
    const values: [number, string][] = [];
    for (let t = Math.max(from, born); t <= to; t += step)
      values.push([t, /node:/.test(expr) ? String(met) : /count/.test(expr) ? "128" : "2"]);
    return /node:/.test(expr) && !recorded ? [] : [{ metric: { owner: "amir" }, values }];
  },
}));

describe("colours", () => {
  const people = ["amir", "lena", "zoe", "bob", "carol", "dmitri", "nora", "alice"];
  test("belong to a name, whatever its rank becomes and who else is there", () => {
    const kept = new Map<string, number>(),
      first = new Map(inksOf(people, kept)),
      after = inksOf(["nora", "wei", "amir", "zoe", "alice"], kept);
    for (const n of ["nora", "amir", "zoe", "alice"]) expect(after.get(n)).toBe(first.get(n));
  });
  test("differ within a chart while there are as many as names", () => {
    const many = Array.from({ length: inks }, (_, i) => `user${i}`);
    expect(new Set(inksOf(many, new Map()).values()).size).toBe(inks);
    expect(inksOf([...many, "one", "more"], new Map()).size).toBe(inks + 2);
  });
  test("are the same on a page that was opened anew", () => {
    expect(inksOf(["amir"], new Map())).toEqual(inksOf(["amir"], new Map()));
  });
  test("give way where two that are kept meet", () => {
    const kept = new Map([
      ["a", 3],
      ["b", 3],
    ]);
    const got = inksOf(["a", "b"], kept);
    expect(got.get("a")).toBe(3);
    expect(got.get("b")).not.toBe(3);
  });
});

const rank = (o: Partial<Rank>): Rank => ({
  name: "amy",
  owner: "",
  ids: [],
  used: 0,
  held: null,
  wasted: null,
  gpu: null,
  gpuWasted: null,
  memory: null,
  memoryWasted: null,
  network: null,
  joules: null,
  ...o,
});
describe("the measure of a page", () => {
  const r = rank({ used: 10, wasted: 5, gpu: 2, gpuWasted: 7, joules: 100 });
  test.each([
    ["cpu", { used: 10, wasted: 5 }],
    ["gpu", { used: 2, wasted: 7 }],
    ["energy", { used: 100, wasted: null }],
  ] as const)("%s fills the columns", (what, want) => expect(figuresOf(r, what)).toEqual(want));
  test("energy of somebody that nothing measured is not 0", () => {
    expect(ownOf([rank({ used: 10 })], "amy", "energy").used).toBeNull();
    expect(ownOf([r], "amy", "energy").used).toBe(100);
  });
});

describe("money is energy at its price", () => {
  test("takes the server's price before the reader's", () => {
    const node = { cost_per_hour: 0.56, power_watts: 2000, currency: "EUR" } as Node;
    expect(tariffOf([node], "9 USD")).toEqual({ rate: 0.28, word: "EUR", own: false });
    expect(tariffOf([], "0,3 CHF")).toEqual({ rate: 0.3, word: "CHF", own: true });
    expect(tariffOf([], "0 CHF")).toBeNull();
    expect(tariffOf([], "cheap")).toBeNull();
  });
  test("prices rows and lines alike", () => {
    tariff.value = { rate: 0.3, word: "CHF", own: true };
    expect(figuresOf(rank({ joules: 7.2e6 }), "money")).toEqual({ used: 0.6, wasted: null });
    expect(human(0.6, measures.money.cell())).toBe("0.60 CHF");
    expect(human(0.001, measures.money.cell())).toBe("< 0.01 CHF");
    const u = priced({
      times: [0],
      step: 60,
      users: [],
      all: [2000],
      held: [],
      size: [],
      machine: [null],
    });
    expect(u.all[0]).toBeCloseTo(0.6);
    expect(u.machine).toEqual([null]);
    tariff.value = null;
    expect(figuresOf(rank({ joules: 7.2e6 }), "money").used).toBeNull();
  });
});

describe("means", () => {
  const use = (machine: (number | null)[], all: (number | null)[] = machine): Use => ({
    times: machine.map((_, i) => 1000 + i * 60),
    step: 60,
    users: [],
    all,
    held: [],
    size: [],
    machine,
  });
  const gap = (n: number, then: number) => [
    ...Array.from({ length: n }, () => null),
    ...Array.from({ length: 60 - n }, () => then),
  ];
  test("are of the time that was measured", () => {
    expect(meanOf(use(gap(40, 2)))).toBe(2);
    expect(meanOf(use(gap(60, 2)))).toBeNull();
    expect(meanOf(use(gap(60, 2), gap(0, 1)))).toBe(1);
  });
  test("tell since when that is, where it is not the whole range", () => {
    expect(measuredFrom(use(gap(40, 2)))).toBe(1000 + 40 * 60);
    expect(measuredFrom(use(gap(1, 2)))).toBeUndefined();
    expect(measuredFrom(use(gap(60, 2)))).toBeUndefined();
  });
});

test("the range of an answer in whole hours ends now at the latest", () => {
  const now = Date.parse("2026-11-26T17:45:00Z"),
    r = rangeBetween("2026-11-25T17:00:00Z", "2026-11-26T18:00:00Z", now);
  expect([r.from, r.to]).toEqual([Date.parse("2026-11-25T17:00:00Z") / 1000, now / 1000]);
});

describe("under the pointer", () => {
  const line = (label: string, v: number | null, more: Partial<Line> = {}): Line => ({
    label,
    row: [v],
    ...more,
  });
  test("stand the name with its unit, all together without what is free, and what is above", () => {
    const stack = [line("idle", 50, { quiet: 2 }), line("lena", 12.5), line("amir", 30)];
    expect(pointedAt(0, stack[1], stack, undefined, [line("allocated", 64)], "cores")).toEqual([
      ["lena", "12.5 cores"],
      ["all together", "42.5 cores"],
      ["allocated", "64 cores"],
    ]);
  });
  test("above the stack still stands how much it is", () =>
    expect(pointedAt(0, undefined, [line("a", 1), line("b", 2)], undefined, [], "watts")).toEqual([
      ["all together", "3 W"],
    ]));
  test("what was not measured has no unit and no sum", () =>
    expect(
      pointedAt(0, line("a", null), [line("a", null), line("b", null)], undefined, [], "cores"),
    ).toEqual([["a", "–"]]));
});
test("names that do not fit end in a sign", () => {
  const fits = (t: string) => t.length <= 10;
  expect(fitted("short", fits)).toBe("short");
  expect(fitted("short commands of root", fits)).toBe("short com…");
});

describe("Explore", () => {
  const series = (name: string, ...v: string[]): PromSeries =>
    ({ metric: { workload: name }, values: v.map((x, i) => [i * 60, x]) }) as PromSeries;
  test("draws the largest series, not the first", () => {
    const list = [series("a", "1"), series("b", "5", "5"), series("c", "7"), series("d", "NaN")];
    expect(largest(list, 2).map((s) => s.metric.workload)).toEqual(["b", "c"]);
    expect(largest(list, 9)).toHaveLength(4);
  });
  test.each([
    ["sum by (owner) (rate(reckon_workload_cpu_seconds_total[5m]))", "cores"],
    ["topk(5, sum by (workload) (rate(reckon_workload_gpu_seconds_total[5m])))", "gpus"],
    ['sum(rate(reckon_node_energy_joules_total{node="a"}[5m]))', "watts"],
    ["rate(node_network_receive_bytes_total[1m])", "bytes_per_second"],
    ["node_memory_MemTotal_bytes", "bytes"],
    ["node_memory_MemTotal_bytes - node_memory_MemAvailable_bytes", "count"],
    ["increase(reckon_workload_cpu_seconds_total[1h])", "count"],
    ["reckon_workload_cpu_seconds_total", "count"],
    ["rate(reckon_workload_cpu_seconds_total[5m]) / 4", "count"],
    ["count(node_memory_MemTotal_bytes)", "count"],
    ["up", "count"],
  ])("%s is in %s", (expr, unit) => expect(unitAsked(expr)).toBe(unit));
});

test("moments in texts of the server are in the zone of who looks", () => {
  const now = new Date("2026-11-27T00:25:00Z"),
    at = "2026-11-27T00:21:42Z";
  expect(hereTimes(`what happened after ${at}: down`, now)).toBe(
    `what happened after ${clock(at, now)}: down`,
  );
  expect(hereTimes("n1: no answer", now)).toBe("n1: no answer");
});

describe("the first page of a large site", () => {
  afterEach(() => void asked.splice(0));
  const r = { from: 7200, to: 7200 + 6 * 3600, step: 60, fixed: false, length: 6 * 3600 },
    never = new AbortController().signal,
    cores = () => asked.filter((a) => a.expr.includes("node_cpu_seconds_total"));
  test("asks for no core of each node at each step, and shows the same", async () => {
    const many = await usersOf(r, 1000, "owner", "cpu", never);
    expect(cores().every((a) => a.steps <= 6)).toBe(true);
    expect(cores()).toHaveLength(0); // how many there are is recorded
    expect(many.size.every((v) => v === 128)).toBe(true);
    expect(meanOf(many)).toBe(2);
    expect(many.users.map((u) => u.name)).toEqual(["amir"]);
  });
  test("takes the cores of its nodes before they are recorded", async () => {
    recorded = false;
    const new_ = await usersOf(r, 1000, "owner", "cpu", never, 32_000);
    recorded = true;
    expect(cores()).toHaveLength(0);
    expect(new_.size.every((v) => v === 32_000)).toBe(true);
  });
  test("counts the cores of a time that is over, where fewer were recorded", async () => {
    met = 12;
    const over = await usersOf(r, 1000, "owner", "cpu", never, 0);
    met = 128;
    expect(over.size.every((v) => v === 128)).toBe(true);
    expect(cores().map((a) => a.steps)).toEqual([4]);
  });
  test("its list asks for energy where the page is about it", async () => {
    for (const [many, what, want] of [
      [true, "cpu", false],
      [true, "energy", true],
      [true, "money", true],
      [false, "cpu", true],
    ] as const) {
      once.length = 0;
      await ranking(r, "owner", what, false, never, many);
      expect(once.some((q) => q.includes("energy_joules"))).toBe(want);
    }
  });
  test("a small one draws what its machines count", async () => {
    const few = await usersOf(r, 4, "owner", "cpu", never);
    expect(cores().map((a) => a.steps)).toEqual([360, 360]);
    expect(few.machine.every((v) => v === 2)).toBe(true);
  });
});

describe("the first page of a machine that was started minutes ago", () => {
  const now = Math.floor(Date.now() / 1e4) * 10,
    r = { from: now - 3600, to: now, step: 10, fixed: false, length: 3600 },
    never = new AbortController().signal;
  afterEach(() => {
    asked.splice(0);
    once.length = born = 0;
    answers = [];
  });
  test("takes rates over a minute, and leaves out those that cover a part of it", async () => {
    once.length = 0;
    born = now - 300;
    const use = await usersOf(r, 1, "workload", "cpu", never);
    expect(once[0]).toMatch(/^min\(.*offset 10m/); // none of windows that are partly filled
    expect(once[1]).toMatch(/^min\(5 \* .*offset 2m/); // none of ten minutes: those of two
    expect(asked.some((a) => a.expr.includes("[60s]"))).toBe(true);
    const of = (row: (number | null)[]) => row.filter((v) => v !== null).length;
    expect([of(use.machine), of(use.all), of(use.size)]).toEqual([25, 25, 31]);
    expect(measuredFrom(use)).toBe(born);
  });
  test("in its first minute takes them from sample to sample", async () => {
    born = now - 40;
    const use = await usersOf(r, 1, "owner", "cpu", never);
    expect(use.machine.filter((v) => v !== null)).toHaveLength(5);
    expect(asked.filter((a) => a.expr.includes("irate(")).length).toBeGreaterThan(2);
  });
  test("tells rates of a part of their time by what was not measured before them", () => {
    const row = [1, 1, null, 1, 1, 1, 1, null, 1, null];
    expect([...partly(row, 2)]).toEqual([3, 4]); // 1 by itself stays, and what was there at the beginning
    expect([...partly([null, 1, 1, 1], 6)]).toEqual([1, 2]);
  });
  test("its list adds up what counters say at both ends, with how exact that is", async () => {
    const one = (metric: Record<string, string>, v = "1"): PromSeries => ({
      metric,
      value: [0, v],
    });
    answers = [
      [
        /figure_exactness/,
        [
          one({ owner: "amir", kind: "group", figure: "memory_bytes", is: "4" }),
          one({ kind: "group", figure: "cpu_seconds", is: "1" }),
          one({ kind: "slurm", figure: "cpu_seconds", is: "2" }),
        ],
      ],
      [/cpu_seconds_total/, [one({ owner: "amir", kind: "group" }, "600")]],
    ];
    const { rows } = await ranking(r, "owner", "cpu", false, never);
    expect(rows.map((x) => [x.name, x.used, x.is])).toEqual([
      ["amir", 600, { cpu: "at least", memory: "at most" }],
    ]);
    const sums = once.filter((q) => q.includes("increase("));
    expect(sums.length).toBeGreaterThan(1);
    for (const q of sums) expect(q).toContain(" anchored)");
  });
});

test("the table of rules has plain sentences for every rule that reckon brings", () => {
  const rules = (readFileSync("../../deploy/alerts/reckon.yml", "utf8") as string)
    .split(/\n\s+- alert: /)
    .slice(1);
  expect(rules.length).toBeGreaterThan(30);
  for (const rule of rules) {
    const annotation = (name: string) =>
      new RegExp(`\\n\\s+${name}: '(.*)'`).exec(rule)?.[1]?.replaceAll("''", "'") ?? "";
    const name = /^\w+/.exec(rule)![0],
      own = { summary: annotation("summary"), runbook: annotation("runbook") };
    expect(own.summary && own.runbook, name).toBeTruthy();
    for (const shown of [
      meaning({ name, annotations: own }),
      meaning({ name: "A copy", annotations: own }),
    ])
      expect(shown, name).not.toMatch(/\{\{|\}\}|……|… …/);
    expect(meaning({ name, annotations: {} }), name).toMatch(/^[A-Z][^.]+\.$/);
  }
});

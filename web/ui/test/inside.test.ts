import { expect, it, vi } from "vitest";
vi.stubGlobal("document", {
  body: { dataset: {} },
  addEventListener: () => undefined,
  documentElement: { dataset: {} },
});
vi.stubGlobal("location", { href: "http://x/" });
vi.stubGlobal("addEventListener", () => undefined);
vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => undefined }));
vi.stubGlobal("localStorage", { getItem: () => null, setItem: () => undefined });
const { absent } = await import("../src/pages/about");
it.each([
  ["not a Cray", true],
  ["no battery or supply", true],
  ["the kernel shows no thermal zones", true],
  ["no targets with figures of their own are configured", true],
  ["pods have no names: no kubelet is configured", true],
  ["some traffic is not counted", false],
  ["no permission to read /dev/cpu", false],
  ["not allowed: run as root", false],
  ["", false],
])("%s: nothing to mend is %s", (reason, want) => expect(absent(reason)).toBe(want));

const { sources, whyNot } = await import("../src/lib/unmeasured");
const { spanOf } = await import("../src/lib/inside");
it.each([
  ["traffic", [{ sensor: "uncore", up: false, reason: "no" }], sources.traffic.off],
  [
    "traffic",
    [
      { sensor: "counters", up: false, reason: "not allowed" },
      { sensor: "resctrl", up: false, reason: "not mounted" },
    ],
    "not allowed; not mounted",
  ],
  [
    "traffic",
    [
      { sensor: "counters", up: true },
      { sensor: "resctrl", up: false, reason: "not mounted" },
    ],
    "",
  ],
  [
    "controllers",
    [
      { sensor: "uncore", up: false, reason: "none" },
      { sensor: "resctrl", up: true },
    ],
    "",
  ],
  [
    "power",
    [
      { sensor: "rapl", up: false, reason: "no zones" },
      { sensor: "power-model", up: false, reason: "a virtual machine" },
    ],
    "a virtual machine",
  ],
  ["power", [], ""],
  ["cpu", [{ sensor: "rapl", up: false }], ""],
])("why there is no %s with %j is %s", (key, sensors, want) =>
  expect(whyNot(key, sensors)).toBe(want),
);
it("charts inside a workload are of the time of its other charts", () => {
  const at = (s: number) => new Date(s * 1000).toISOString(),
    of = (first: number[]) => ({
      start: at(1000),
      end: at(9000),
      seen: at(9000),
      step_seconds: 60,
      profile: first.map((s) => ({
        metric: "cores",
        unit: "cores",
        points: [{ time: at(s), value: 1 }],
      })),
    });
  expect(spanOf(of([5000, 4000]))).toEqual([3940, 9000]);
  expect(spanOf(of([900]))).toEqual([1000, 9000]);
  expect(spanOf(of([]))).toEqual([1000, 9000]);
});

const { amount } = await import("../src/lib/parts");
it.each([
  [3, "cores", "at least", "≥ 3"],
  [3, "cores", "exact", "3"],
  [3, "cores", undefined, "3"],
  [3, "cores", "estimated", "~ 3"],
  [0.0001, "cores", "at least", "–"],
  [0, "cores", "at least", "–"],
  [0, "bytes", "at least", "–"],
  [0, "bytes", "at most", "0 B"],
  [0.0001, "cores", "at most", "< 0.001"],
  [0, "bytes", "estimated", "~ 0 B"],
  [0.0001, "cores", "estimated", "< 0.001"],
  [5, "core-seconds", "at least", "–"],
  [17.9, "core-seconds", undefined, "< 0.01 core-hours"],
  [18, "core-seconds", "at least", "≥ 0.01 core-hours"],
  [0, "core-seconds", undefined, "0 core-hours"],
  [null, "cores", "at least", "–"],
  [175, "core-cell", undefined, "2 min 55 s"],
  [359, "core-cell", undefined, "5 min 59 s"],
  [360, "core-cell", undefined, "0.1 h"],
])("%s %s %s is %s", (v, unit, is, want) => expect(amount(v, unit, is)).toBe(want));

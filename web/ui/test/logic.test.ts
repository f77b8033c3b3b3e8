import { describe, expect, test } from "vitest";
import { parse, query, suggest, words } from "../src/lib/search";
import {
  alone,
  axis,
  bandAt,
  free,
  localHours,
  marks,
  niceStep,
  onto,
  promAny,
  promQuote,
  quantile,
  rebin,
  rest,
  rowsOf,
  stacked,
  stats,
} from "../src/lib/stack";
import { duration, exact, human } from "../src/lib/units";
import { complete, place } from "../src/lib/promql";
import { figureUnit, today } from "../src/lib/forecast";
import { pressure, sorted, stateOfNode } from "../src/lib/nodes";
import { stepLines } from "../src/lib/steps";
import { asked as periodOf, rangeOf } from "../src/lib/span";
import { fromStart, lastStep, overlaid, together } from "../src/lib/profile";
import type { Node, Profile, WorkloadDetail } from "../src/lib/types";
import { othersOf } from "../src/lib/names";
import { connections, nameOf, relationOf } from "../src/lib/links";
import { parseSeries, selector, shortNames, unitOf } from "../src/lib/series";

test("a process group of several users names the others, and a share of it", () => {
  expect(othersOf({})).toBe("");
  expect(othersOf({ users: ["root"] })).toBe("");
  expect(othersOf({ users: ["root", "alice", "bob"] })).toBe("+2");
  expect(othersOf({ users: ["alice"], partial: true })).toBe("share");
});

describe("units", () => {
  test.each([
    [0, "bytes", "0 B"],
    [1023, "bytes", "1023 B"],
    [1024, "bytes", "1 KiB"],
    [1536, "bytes", "1.5 KiB"],
    [6 * 2 ** 30, "bytes", "6 GiB"],
    [2 ** 20 * 3, "bytes_per_second", "3 MiB/s"],
    [0.2, "ratio", "20 %"],
    [0.031, "ratio", "3.1 %"],
    [3.2, "cores", "3.2"],
    [0.001, "cores", "0.001"],
    [0, "cores", "0"],
    [250, "watts", "250 W"],
    [1500, "watts", "1.5 kW"],
    [3.6e6, "joules", "1 kWh"],
    [12, "joules", "< 0.01 Wh"],
    [0, "joules", "0 Wh"],
    [512, "joules", "0.14 Wh"],
    [5.4e6, "joules", "1.5 kWh"],
    [3600, "joules", "1 Wh"],
    [299e3, "joules", "83.1 Wh"],
    [12345, "count", "12.3 k"],
    [1000, "count", "1,000"],
    [0.1, "count", "0.1"],
    [0.0999, "count", "0.1"],
    [0.0123, "count", "0.012"],
    [-0.0123, "count", "−0.012"],
    [0.0005, "count", "0.0005"],
    [0.0004, "count", "< 0.001"],
    [-0.0004, "count", "> −0.001"],
    [0, "count", "0"],
    [null, "bytes", "–"],
    [undefined, "cores", "–"],
    [NaN, "cores", "–"],
  ])("%s %s is %s", (v, unit, want) => expect(human(v, unit)).toBe(want));
  test.each([
    [0, "0 s"],
    [8.2e-6, "8.2 µs"],
    [0.000999, "999 µs"],
    [0.001, "1 ms"],
    [0.02, "20 ms"],
    [0.29, "290 ms"],
    [59, "59 s"],
    [59.99, "1 min"],
    [61, "1 min 1 s"],
    [3600, "1 h 0 min"],
    [90000, "1 d 1 h"],
    [86400 * 20, "20 d"],
  ])("%s seconds are %s", (s, want) => expect(duration(s)).toBe(want));
  test("a figure that was not measured is told so, never 0", () => {
    expect(exact(null, "bytes")).toBe("not measured");
    expect(exact(1234567, "bytes")).toBe("1,234,567 bytes");
  });
});

describe("search", () => {
  test("fields, lists, quotes and free words", () => {
    expect(parse('owner:alice,bob kind:slurm state:failed cpu>2h "my job"').params).toEqual({
      owner: ["alice", "bob"],
      kind: ["slurm"],
      state: ["failed"],
      min_cpu: "7200",
      name: "*my job*",
    });
    expect(parse("running:yes since:7d").params).toEqual({ running: "true", since: "7d" });
    expect(parse("slurm/4711").params).toEqual({ id: "slurm/4711" });
    expect(parse("killed owner:alice").params).toEqual({
      owner: ["alice"],
      state: ["out_of_memory", "timeout", "node_fail", "preempted"],
    });
    expect(parse('"killed"').params).toEqual({ name: "*killed*" });
    expect(parse("train*").params).toEqual({ name: "train*" });
    expect(parse("owner:alice owner:bob").params).toEqual({ owner: ["alice", "bob"] });
  });
  test("mistakes are said, not swallowed", () => {
    expect(parse("onwer:alice").problem).toContain("no field onwer");
    expect(parse("owner:").problem).toContain("Give owner a value");
    expect(parse("running:maybe").problem).toContain("yes or no");
  });
  test("words keep quoted spaces", () => expect(words('a:"b c" d')).toEqual(['a:"b c"', "d"]));
  test("suggestions of fields and of values", () => {
    expect(suggest("ow", {}).map((s) => s.text)).toEqual(["owner:"]);
    expect(suggest("kind:sl", {})[0].text).toBe("kind:slurm ");
    expect(suggest("owner:alice,b", { owner: ["alice", "bob", "b c"] }).map((s) => s.text)).toEqual(
      ["owner:alice,bob ", 'owner:alice,"b c" '],
    );
    expect(suggest("running:yes st", {}).map((s) => s.text)).toEqual(["running:yes state:"]);
  });
  test("query repeats lists and leaves out what is empty", () =>
    expect(query({ a: ["x", "y"], b: "", c: undefined, d: 1 })).toBe("a=x&a=y&d=1"));
});

describe("stacks", () => {
  const times = axis(0, 60, 15);
  test("samples go to their step, gaps stay gaps", () =>
    expect(
      onto(times, {
        metric: {},
        values: [
          [0, "1"],
          [30, "3"],
          [60, "NaN"],
        ],
      }),
    ).toEqual([1, null, 3, null, null]));
  test("the stack with its rest fills to the total (conservation)", () => {
    const parts = [
        [1, 2, null],
        [3, null, 1],
      ],
      total = [10, 10, 10];
    const all = stacked([...parts, rest(total, parts)]);
    expect(all[all.length - 1]).toEqual([10, 10, 10]);
    expect(rest([1, null], [[3, 3]])).toEqual([0, null]);
  });
  test("a gap of all is a gap", () =>
    expect(
      stacked([
        [null, 1],
        [null, 2],
      ]),
    ).toEqual([
      [null, 1],
      [null, 3],
    ]));
  test("the band under the pointer", () => {
    const s = stacked([[1], [2]]);
    expect([bandAt(s, 0, 0.5), bandAt(s, 0, 2), bandAt(s, 0, 9), bandAt(s, 0, -1)]).toEqual([
      0, 1, -1, -1,
    ]);
  });
  test("values without a neighbour are seen", () => {
    expect(alone([1, null, 2, 3, null, 4])).toEqual([0, 5]);
    expect(alone([null])).toEqual([]);
    expect(alone([7])).toEqual([0]);
  });
  test("who has no amount in a stretch used nothing, what was not measured is a gap", () => {
    const rows = rowsOf(
      [
        ["amy", 0, 4],
        ["amy", 2, 8],
        ["bob", 1, 3],
        ["bob", 1, 3],
        ["eve", 2, null],
        ["eve", 0, 2],
        ["ivy", 0, null],
      ],
      4,
    );
    expect(Object.fromEntries(rows)).toEqual({
      amy: [4, 0, 8, null],
      bob: [0, 6, 0, null],
      eve: [2, 0, null, null],
    });
    expect(stats(rows.get("bob")!).mean).toBe(2);
  });
  test("stats of nothing are unknown", () => {
    expect(stats([null]).mean).toBeNull();
    expect(stats([1, null, 3])).toEqual({ last: 3, mean: 2, max: 3 });
  });
  test("a year has a few hundred points", () =>
    expect(31536000 / niceStep(31536000)).toBeLessThan(800));
  test("hostile names cannot leave a selector", () => {
    expect(promQuote('a"} or up{x="')).toBe('"a\\"} or up{x=\\""');
    expect(promAny(["a.b", "c|d"])).toBe('"a\\\\.b|c\\\\|d"');
  });
  test("hours of the week move to the viewer's zone and come around", () => {
    const utc = Array.from({ length: 168 }, (_, i) => i),
      berlin = localHours(utc, 60);
    expect([berlin[0], berlin[1], berlin[167]]).toEqual([167, 0, 166]);
    expect(localHours(berlin, -60)).toEqual(utc);
  });
  test("quantiles of a distribution", () => {
    const b = [
      { low: 0, high: 1, seconds: 50 },
      { low: 1, high: 4, seconds: 50 },
    ];
    expect(quantile(b, 0.5)).toBe(1);
    expect(quantile(b, 0.95)).toBeCloseTo(3.7);
    expect(quantile([], 0.5)).toBeNull();
  });
});

describe("forecast of the day", () => {
  const h = 3.6e6,
    midnight = new Date(2026, 10, 21).getTime(),
    now = midnight + 10.5 * h;
  const hours = Array.from({ length: 34 }, (_, i) => ({
    from: midnight + (i - 24) * h,
    joules: 100,
  }));
  const power = (from: number, n: number) => ({
    subject: "site",
    figure: "watts",
    made: "",
    kept: true,
    old: false,
    step_seconds: 3600,
    methods: [],
    flags: [],
    backtest: null,
    naive: null,
    error: null,
    steps: Array.from({ length: n }, (_, i) => ({
      at: new Date(from + i * h).toISOString(),
      median: 0.8,
      mean: 1,
      low: 0.5,
      high: 2,
    })),
  });
  test("what was measured today and the power of the rest", () => {
    const f = today(hours, [power(midnight + 10 * h, 48)], now)!;
    expect(f.soFar).toBeCloseTo(1000);
    expect(f.joules).toBeCloseTo(1000 + 13.5 * 3600);
    expect(f.low).toBeCloseTo(1000 + 6.75 * 3600);
    expect(f.high).toBeCloseTo(1000 + 27 * 3600);
  });
  test("sites add up", () =>
    expect(today(hours, [power(midnight, 48), power(midnight, 48)], now)!.joules).toBeCloseTo(
      1000 + 27 * 3600,
    ));
  test("a forecast that ends before the day says nothing of it", () => {
    expect(today(hours, [power(midnight, 23)], now)).toBeNull();
    expect(today(hours, [power(midnight, 24)], now)).not.toBeNull();
    expect(today(hours, [], now)).toBeNull();
  });
  test("units", () =>
    expect(
      [
        "cores",
        "memory_bytes",
        "disk_bytes_per_second",
        "energy_joules",
        "wall_seconds",
        "watts",
        "gpus",
      ].map(figureUnit),
    ).toEqual(["cores", "bytes", "bytes_per_second", "joules", "seconds", "watts", "gpus"]));
});

describe("names of series", () => {
  test("what all share is left out", () => {
    expect(shortNames(['a{node="n1",workload="x"}', 'a{node="n1",workload="y"}'])).toEqual([
      "x",
      "y",
    ]);
    expect(shortNames(['a{node="n1"}', 'b{node="n1"}'])).toEqual(["a", "b"]);
    expect(shortNames(['a{node="n1",mode="user"}'])).toEqual(["a"]);
  });
  test("hostile values survive", () => {
    expect(parseSeries('a{workload="}\\"{x="}').labels).toEqual([["workload", '}"{x=']]);
    expect(parseSeries("no braces").name).toBe("no braces");
    expect(selector("a", { workload: 'x"}', node: "" })).toBe('a{workload="x\\"}"}');
  });
  test("units of rates", () =>
    expect(["seconds/second", "bytes/second", "joules/second", "bytes", "odd"].map(unitOf)).toEqual(
      ["cores", "bytes_per_second", "watts", "bytes", "count"],
    ));
});

describe("completion of PromQL", () => {
  const at = (t: string) => place(t, t.length);
  test("names, labels and values", () => {
    expect(at("sum(rec")).toMatchObject({ kind: "name", begun: "rec", from: 4 });
    expect(at("up{no")).toMatchObject({ kind: "label", begun: "no", metric: "up" });
    expect(at('up{node="n')).toMatchObject({
      kind: "value",
      begun: "n",
      label: "node",
      metric: "up",
    });
    expect(at('up{node="a{b"}')).toMatchObject({ kind: "name" });
    expect(at("sum by (wo")).toMatchObject({ kind: "label", begun: "wo" });
  });
  test("what starts so comes before what only holds it", () =>
    expect(complete("cpu", ["node_cpu", "cpu_x", "mem"])).toEqual(["cpu_x", "node_cpu"]));
});

describe("nodes", () => {
  const node = (x: Partial<Node>) =>
    ({
      node: "n",
      up: true,
      seen: "",
      cores: 1,
      cores_used: 1,
      memory_bytes: 1,
      memory_used_bytes: 1,
      workloads: 0,
      sensors: [],
      ...x,
    }) as Node;
  test("the worst pressure counts, and which it is", () => {
    expect(pressure({ cpu_pressure: 0.1, memory_pressure: 0.4, io_pressure: null })).toEqual({
      share: 0.4,
      of: "memory",
      all: "share of time in which some task waited for CPU 10 %, memory 40 %",
    });
    expect(pressure({ io_pressure: 0 })?.of).toBe("storage");
    expect(pressure({ cpu_pressure: null })).toBeNull();
  });
  test("the state is that of the batch system, and a silent agent shows", () => {
    const batch = {
      state: "mixed",
      open: true,
      flags: ["plan"],
      partitions: [],
      cores: 8,
      cores_held: 4,
      memory_bytes: null,
      memory_held_bytes: null,
      gpus: null,
      gpus_held: null,
    };
    expect(stateOfNode(node({}))).toEqual({ word: "up", why: "", bad: false });
    expect(stateOfNode(node({ up: false })).word).toBe("down");
    expect(stateOfNode(node({ batch })).word).toBe("mixed plan");
    expect(stateOfNode(node({ batch, up: false })).word).toBe("silent (mixed plan)");
    expect(
      stateOfNode(
        node({ batch: { ...batch, state: "drained", flags: [], open: false, reason: "bad disk" } }),
      ),
    ).toEqual({ word: "drained", why: "bad disk", bad: true });
  });
  test("nodes are sorted by what a column shows, the unknown last", () => {
    const list = [
      node({ node: "a", io_pressure: 0.2 }),
      node({ node: "b" }),
      node({ node: "c", cpu_pressure: 0.7 }),
    ];
    expect(sorted(list, "-pressure").map((n) => n.node)).toEqual(["c", "a", "b"]);
    expect(sorted(list, "pressure").map((n) => n.node)).toEqual(["a", "c", "b"]);
  });
});

describe("what is free, marks and buckets", () => {
  test("what is not measured is not idle", () =>
    expect(free([4, 4, null], [1, null, 1])).toEqual([3, null, null]));
  test("rounding leaves nothing", () => expect(rest([0.3], [[0.1], [0.2]])).toEqual([0]));
  test("tiny figures are told as tiny, not as 0", () => {
    expect(human(6e-17, "cores")).toBe("< 0.001");
    expect(human(0.0001, "ratio")).toBe("< 0.1 %");
    expect(human(0, "ratio")).toBe("0 %");
  });
  test("buckets keep what they hold", () => {
    const out = rebin(
      [
        { low: 0, high: 0.1, seconds: 10 },
        { low: 1, high: 4, seconds: 30 },
      ],
      4,
    );
    expect(out.map((b) => b.seconds)).toEqual([10, 10, 10, 10]);
    expect(
      rebin(
        [
          { low: 0, high: 3.7, seconds: 7 },
          { low: 3.7, high: 3.9, seconds: 5 },
          { low: 2, high: 2, seconds: 1 },
        ],
        7,
      ).reduce((a, b) => a + b.seconds, 0),
    ).toBeCloseTo(13);
  });
  test("an axis has round marks", () => {
    expect(marks(17.4)).toEqual([0, 5, 10, 15]);
    expect(marks(1)).toEqual([0, 0.2, 0.4, 0.6000000000000001, 0.8, 1]);
  });
});

test("a range from one second to another is asked for so", () => {
  const at: Record<string, string> = { from: "1795829877", to: "1795851477" },
    r = rangeOf((k) => at[k] ?? "", 0);
  expect(r.from % r.step).toBe(0);
  expect(Object.values(periodOf(r)).map((t) => Date.parse(t) / 1000)).toEqual([
    1795829877, 1795851477,
  ]);
});

describe("a workload's charts", () => {
  const profile = (metric: string, unit: string, values: (number | null)[]): Profile => ({
    metric,
    unit,
    points: values.map((value, i) => ({ time: new Date(i * 60000).toISOString(), value })),
  });
  test("what has ended ends with its last figure, and begins with its first step", () => {
    const p = [profile("cores", "cores", [2, 0, 3, 0])],
      values = (end: number) =>
        fromStart(p, 60, new Date(end).toISOString())[0].points.map((x) => x.value);
    expect(values(3 * 60000)).toEqual([2, 0, 3]);
    expect(values(3 * 60000 + 1)).toEqual([2, 0, 3, 0]);
    expect(values(60000)).toEqual([2]); // the third step began when it had ended
    expect(fromStart(p, 60, null)[0].points.map((x) => Date.parse(x.time) / 1000)).toEqual([
      -60, 0, 60, 120,
    ]);
    expect(lastStep([-60, 0, 60], 60, new Date(110_000).toISOString())).toBe(50);
    expect(lastStep([-60, 0, 60], 60, null)).toBe(60);
  });
  test("a run beside others begins with its first step", () => {
    const p = profile("cores", "cores", [0, 2, 3]),
      d = {
        id: "a",
        start: new Date(0).toISOString(),
        step_seconds: 60,
        profile: [{ ...p, points: p.points.slice(1) }],
      } as unknown as WorkloadDetail;
    expect(overlaid([d], "cores", (id) => id)).toMatchObject({
      times: [0, 60],
      lines: [{ row: [2, 3] }],
    });
  });
  test("what is read side by side is in one chart, with the whole above its parts", () => {
    const out = together([
      profile("memory_bytes", "bytes", [3, 5]),
      profile("memory_anon_bytes", "bytes", [2, 3]),
      profile("memory_file_bytes", "bytes", [1, 2]),
      profile("cores", "cores", [1, 1]),
      profile("cpu_wait", "cores", [0, 0]),
      profile("something", "count", [1, 1]),
    ]);
    expect(out.map((g) => g.title)).toEqual(["Cores", "Memory", "something"]);
    expect(out[1].lines.map((l) => [l.label, l.row])).toEqual([
      ["anonymous", [2, 3]],
      ["page cache", [1, 2]],
    ]);
    expect([out[1].stack, out[1].total?.row]).toEqual([true, [3, 5]]);
    expect(out[0].lines.map((l) => l.label)).toEqual(["in use"]);
    expect(together([profile("memory_bytes", "bytes", [3])])[0].lines[0].row).toEqual([3]);
  });
  test("received and sent are lines of their own, without their sum", () => {
    const out = together([
      profile("network_receive_bytes_per_second", "bytes_per_second", [1, 2]),
      profile("network_transmit_bytes_per_second", "bytes_per_second", [3, 4]),
      profile("network_bytes_per_second", "bytes_per_second", [4, 6]),
      profile("memory_traffic_bytes_per_second", "bytes_per_second", [9, 9]),
      profile("cores", "cores", [1, 1]),
    ]);
    expect(out.map((g) => [g.title, g.stack, g.total])).toEqual([
      ["Cores", false, undefined],
      ["Memory traffic", false, undefined],
      ["Network", false, undefined],
    ]);
    expect(out[2].lines.map((l) => [l.label, l.row])).toEqual([
      ["received", [1, 2]],
      ["sent", [3, 4]],
    ]);
    expect(
      together([profile("network_bytes_per_second", "bytes_per_second", [4, 6])])[0].lines[0].row,
    ).toEqual([4, 6]);
  });
  test("the line of a run that has no figures is no other run", () => {
    const run = (id: string, p: Profile[]) =>
      ({
        id,
        start: new Date(0).toISOString(),
        step_seconds: 60,
        profile: p,
      }) as unknown as WorkloadDetail;
    expect(
      overlaid(
        [run("a", []), run("b", [profile("cores", "cores", [1, 2])])],
        "cores",
        (id) => id,
      ).lines.map((l) => l.label),
    ).toEqual(["b"]);
  });
});

test("the stretches of a score are flat, with nothing across a hole", () => {
  const at = (m: number) => new Date(m * 60000).toISOString(),
    step = (a: number, b: number, use: number) => ({
      node: "n",
      start: at(a),
      end: at(b),
      use,
      fair: 1,
      capacity: 4,
      owners: 2,
      why: "",
      seconds: 1,
    });
  const { times, lines } = stepLines([step(5, 6, 3), step(0, 1, 2), step(1, 2, 4)]);
  expect(lines[0].row).toEqual([2, 2, 4, 4, null, 3, 3]);
  expect(times.every((t, i) => i === 0 || t > times[i - 1])).toBe(true);
});

describe("connections", () => {
  const rk = (word: string) => "urn:reckon:ns#" + word;
  test("are named from both ends, and classes and literals are none", () => {
    const list = [
      { relation: "http://www.w3.org/1999/02/22-rdf-syntax-ns#type", to: rk("Workload") },
      { relation: rk("name"), value: "cart" },
      { relation: rk("runsOn"), to: "urn:reckon:node/lab/n1", name: "n1" },
      { relation: rk("runsOn"), to: "urn:reckon:node/lab/n1" },
      { relation: rk("partOf"), to: "urn:reckon:site/lab%2Fa", back: true },
      { relation: "x:y#odd", to: "x:%zz", back: true },
    ];
    expect(connections(list).map((l) => [relationOf(l), nameOf(l)])).toEqual([
      ["runs on", "n1"],
      ["has", "lab/a"],
      ["← odd", "x:%zz"],
    ]);
    expect(nameOf({ relation: rk("partOf"), to: "x:d", name: "cart", kind: "Deployment" })).toBe(
      "Deployment cart",
    );
  });
});

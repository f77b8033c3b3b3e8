import { byMeasure, ownOf } from "../src/lib/measure";
import type { Rank } from "../src/lib/ranked";
import { deaths } from "../src/lib/names";
import { describe, expect, test } from "vitest";
import { cell, csv } from "../src/lib/csv";
import { alike, describe as described, titleOf } from "../src/lib/names";
import { groupsOf } from "../src/lib/findings";
import { rangeOf, seconds, shifted } from "../src/lib/span";
import { readable, todos, type Alert, byGravity, causes, fired, refined } from "../src/lib/todo";
import type { Finding, Node } from "../src/lib/types";

const of = (p: Record<string, string>) => (k: string) => p[k] ?? "";
describe("range", () => {
  test.each([
    ["3600", 3600],
    ["24h", 86400],
    ["7d", 604800],
    ["2w", 1209600],
    ["1.5h", 5400],
    ["yesterday", 0],
    ["", 0],
  ])("%s is %d seconds", (text, want) => expect(seconds(text)).toBe(want));
  test("lengths end now, moments are exact, addresses of before are read", () => {
    expect(rangeOf(of({ last: "3600" }), 1_000_000)).toMatchObject({
      length: 3600,
      fixed: false,
      to: 999_990,
    });
    expect(rangeOf(of({ since: "7d" }), 1_000_000).length).toBe(604800);
    expect(rangeOf(of({}), 1_000_000).length).toBe(86400);
    expect(rangeOf(of({ from: "900000", to: "903600" }), 1_000_000)).toMatchObject({
      from: 900000,
      to: 903600,
      fixed: true,
    });
    expect(rangeOf(of({ from: "903600", to: "900000" }), 1_000_000).fixed).toBe(false);
  });
  test("earlier and later keep the length; later than now is now", () => {
    const r = rangeOf(of({ from: "900000", to: "903600" }), 1_000_000);
    expect(shifted(r, -1, 1_000_000)).toMatchObject({ from: "896400", to: "900000" });
    expect(shifted(r, 1, 1_000_000)).toMatchObject({ from: "903600", to: "907200" });
    expect(shifted(r, 1, 907_200)).toMatchObject({ from: "", last: "3600" });
    expect(shifted(r, 1, 907_201)).toMatchObject({ from: "903600" });
  });
});

describe("names", () => {
  test.each([
    [{ id: "group/vm/8873-1795309640", kind: "group", name: "make", owner: "alice" }, "make"],
    [{ id: "group/vm/1-2", kind: "group", name: "bash", command: "compile" }, "compile"],
    [{ id: "group/vm/1-2", kind: "group", name: "bash", command: "sh" }, "bash"],
    [{ id: "group/vm/1-3", kind: "group", name: "timeout", command: "compile" }, "compile"],
    [{ id: "group/vm/1-3", kind: "group", name: "timeout" }, "timeout"],
    [{ id: "slurm/4711", kind: "slurm", name: "cfd" }, "cfd"],
    [{ id: "slurm/4711" }, "4711"],
    [{ id: "other/vm", name: "x" }, "the system"],
    [{ id: "short/bob/vm" }, "short commands of bob"],
    [{ id: "session/alice/3", owner: "alice" }, "session of alice"],
    [{ id: "deployment/shop/cart", name: "cart" }, "cart"],
  ])("%o is called %s", (w, want) => expect(titleOf(w)).toBe(want));
  test("with its owner and age", () =>
    expect(
      described({ id: "group/vm/1-2", name: "make", owner: "alice", wall_seconds: 7200 }),
    ).toBe("make (alice, 2 h 0 min)"));
  test("equal names of one owner are one", () =>
    expect(
      alike(
        [
          { n: "a", o: "x" },
          { n: "b", o: "x" },
          { n: "a", o: "x" },
          { n: "a", o: "y" },
        ],
        (v) => v.n,
        (v) => v.o,
      ).map((g) => [g.title, g.owner, g.of.length]),
    ).toEqual([
      ["a", "x", 2],
      ["b", "x", 1],
      ["a", "y", 1],
    ]));
});

describe("csv", () => {
  test.each([
    ["=cmd|'/c calc'!A1", `"'=cmd|'/c calc'!A1"`],
    ["@SUM(1)", `"'@SUM(1)"`],
    ["+1+1", `"'+1+1"`],
    ["-2", "-2"],
    ["+3.5e-7", "+3.5e-7"],
    ["-", `"'-"`],
    ["a,b", `"a,b"`],
    ['say "x"', `"say ""x"""`],
    ["\u001b[31mred\u009b", "[31mred"],
    ["", ""],
  ])("%s", (text, want) => expect(cell(text)).toBe(want));
  test("rows", () =>
    expect(
      csv([
        ["a", "b"],
        ["1", "2"],
      ]),
    ).toBe("a,b\r\n1,2\r\n"));
});

describe("what needs somebody", () => {
  const finding = (
    id: string,
    owner: string,
    rule: string,
    severity: string,
    cost: number,
  ): Finding => ({
    id,
    rule,
    severity,
    state: "new",
    owner,
    workload: "slurm/" + id,
    text: "t" + id,
    first: "2026-11-22T0" + id + ":00:00Z",
    last: "",
    found: "",
    seen: "",
    evidence: [{ text: "", value: cost, unit: "core-seconds", wasted: true }],
  });
  const alert = (alertname: string, node: string, severity: string, state = "firing"): Alert => ({
    labels: { alertname, node, severity },
    annotations: { summary: alertname + " " + node },
    state,
    activeAt: "2026-11-22T01:00:00Z",
    value: "1",
  });
  const node = (name: string, up: boolean) =>
    ({
      node: name,
      up,
      seen: "2026-11-22T02:00:00Z",
      sensors: [],
      workloads: 0,
    }) as unknown as Node;
  test("a node that is down is one thing, whoever says it; pending alerts are none", () => {
    const l = todos(
      [
        alert("NodeDown", "n1", "critical"),
        alert("AgentSilent", "n1", "warning"),
        alert("NodeDownInSlurm", "n1", "warning"),
        alert("DiskFull", "n3", "warning", "pending"),
      ],
      [node("n1", false), node("n2", false), node("n3", true)],
      [],
    );
    expect(l.map((t) => [t.kind, t.node])).toEqual([
      ["alert", "n1"],
      ["node", "n2"],
    ]);
  });
  test("findings of one rule and person are one line with their sum, the dearest first", () => {
    const l = todos(
      [],
      [],
      [
        finding("1", "bob", "over-requested", "medium", 100),
        finding("2", "bob", "over-requested", "medium", 900),
        finding("3", "amy", "over-requested", "medium", 950),
        finding("4", "amy", "over-share", "high", 0),
      ],
    );
    expect(l.map((t) => [t.who, t.rule, t.more, t.cost])).toEqual([
      ["amy", "over-share", 0, 0],
      ["bob", "over-requested", 1, 1000],
      ["amy", "over-requested", 0, 950],
    ]);
    expect(l[1]).toMatchObject({ since: "2026-11-22T01:00:00Z", text: "t2" });
  });
});

describe("findings together", () => {
  const f = (
    id: string,
    owner: string,
    rule: string,
    severity: string,
    value: number,
    unit = "core-seconds",
  ): Finding => ({
    id,
    rule,
    severity,
    state: "new",
    owner,
    text: "",
    first: "2026-11-22T0" + id + ":00:00Z",
    last: "",
    found: "",
    seen: "",
    evidence: [
      { text: "", value, unit, wasted: true },
      { text: "", value: 1e9, unit },
    ],
  });
  test("of one rule, person and severity, with what they cost; the gravest first", () => {
    const l = groupsOf([
      f("3", "bob", "over-requested", "medium", 5),
      f("1", "bob", "over-requested", "medium", 7),
      f("2", "amy", "gpu-unused", "medium", 1, "gpu-seconds"),
      f("4", "bob", "over-requested", "high", 1),
    ]);
    expect(
      l.map((g) => [g.of[0].owner, g.of.length, g.cores, g.gpus, g.first.slice(11, 13)]),
    ).toEqual([
      ["bob", 1, 1, 0, "04"],
      ["amy", 1, 0, 1, "02"],
      ["bob", 2, 12, 0, "01"],
    ]);
  });
});

describe("text of alerts", () => {
  test.each([
    ["uses 66.84% of login1", "uses 67 % of login1"],
    ["5.234% is left", "5.2 % is left"],
    ["9.96% and 10.02%", "10 % and 10 %"],
    ["50% of v1.2", "50% of v1.2"],
  ])("%s", (text, want) => expect(readable(text)).toBe(want));
});

describe("alerts that fired", () => {
  const labels = { alertname: "NodeDown", node: "n1", severity: "critical" };
  const alert = (l: Record<string, string>, activeAt: string): Alert => ({
    labels: l,
    annotations: {},
    state: "firing",
    activeAt,
    value: "1",
  });
  const series = (l: Record<string, string>, ...at: number[]) => ({
    metric: { ...l, alertstate: "firing" },
    values: at.map((t): [number, string] => [t, "1"]),
  });
  test("what fires now is in the list though no step has it", () =>
    expect(fired([], [alert(labels, "1970-01-01T00:50:00Z")], 600, 3300)).toEqual([
      { labels, from: 3000, to: 3300, now: true },
    ]));
  test("once where the steps have it too, and apart from an earlier time", () =>
    expect(
      fired(
        [series(labels, 1200, 3000, 3600)],
        [alert(labels, "1970-01-01T00:45:00Z")],
        600,
        3300,
      ).map((x) => [x.from, x.to, x.now]),
    ).toEqual([
      [2700, 3300, true],
      [600, 1200, false],
    ]));
  test("from the minute it began to the minute it ended, where these are known", () => {
    // It fired from 2142 to 2187, between the steps at 1800 and 2400.
    const rows = fired([series(labels, 2400)], [], 600, 3300);
    expect(rows).toMatchObject([{ from: 1800, to: 2400 }]);
    expect(refined(rows, [series(labels, 2160)], [series(labels, 900, 2280)], 600)).toMatchObject([
      { from: 2100, to: 2220 },
    ]);
    expect(refined(rows, [series({ ...labels, node: "n2" }, 2160)], [], 600)).toEqual(rows);
  });
  test("another node that ended is not the one that fires", () =>
    expect(
      fired(
        [series({ ...labels, node: "n2" }, 3000)],
        [alert(labels, "1970-01-01T00:45:00Z")],
        600,
        3300,
      ),
    ).toHaveLength(2));
  test("the gravest first", () =>
    expect(
      [
        alert({ alertname: "AgentSilent", severity: "warning" }, "2026-11-22T01:00:00Z"),
        alert(labels, "2026-11-22T02:00:00Z"),
      ]
        .sort(byGravity)
        .map((x) => x.labels.alertname),
    ).toEqual(["NodeDown", "AgentSilent"]));
  test("one card for a node that is gone, others by themselves, the gravest first", () => {
    const of = (alertname: string, severity: string, node?: string, site = "a") =>
      alert({ alertname, severity, site, ...(node ? { node } : {}) }, "2026-11-22T02:00:00Z");
    const got = causes([
      of("AgentSilent", "warning", "n1"),
      of("DiskFull", "warning", "n1"),
      of("NodeDown", "critical", "n1"),
      of("NodeDownInSlurm", "critical", "n1"),
      of("AgentSilent", "warning", "n1", "b"),
      of("AgentSilent", "warning", "n2"),
      of("TooManySilent", "info"),
    ]);
    expect(
      got.map((c) => [
        c.first.labels.alertname + " " + c.first.labels.site + "/" + c.first.labels.node,
        c.also.map((x) => x.labels.alertname).join(" "),
      ]),
    ).toEqual([
      ["NodeDown a/n1", "NodeDownInSlurm AgentSilent"],
      ["DiskFull a/n1", ""],
      ["AgentSilent b/n1", ""],
      ["AgentSilent a/n2", ""],
      ["TooManySilent a/undefined", ""],
    ]);
  });
});

describe("runs of one name", () => {
  const runs = (...states: string[]) => states.map((state) => ({ state }));
  test.each([
    [["completed", "out_of_memory", "running", "out_of_memory"], "2 of 4 out of memory"],
    [["failed", "timeout", "failed"], "2 of 3 failed, 1 of 3 timeout"],
    [["completed", "cancelled"], ""],
    [[], ""],
  ])("%s", (states, want) => expect(deaths(runs(...states))).toBe(want));
});

describe("what is over", () => {
  const f = (owner: string, severity: string, last: string): Finding => ({
    id: owner + last,
    rule: "gpu-unused",
    severity,
    state: "new",
    owner,
    text: "keeps 2 GPUs",
    first: "2026-11-22T04:31:00Z",
    last,
    found: "",
    seen: "",
    evidence: [],
  });
  const now = Date.parse("2026-11-22T18:20:00Z");
  test("has its end and stands behind what is still so, even if graver", () =>
    expect(
      todos(
        [],
        [],
        [
          f("dan", "high", "2026-11-22T06:45:00Z"),
          f("dan", "high", "2026-11-22T10:46:00Z"),
          f("amy", "medium", "2026-11-22T18:15:00Z"),
          f("bob", "medium", "2026-11-22T09:00:00Z"),
          f("bob", "medium", "2026-11-22T18:10:00Z"),
        ],
        now,
      ).map((t) => [t.who, t.until]),
    ).toEqual([
      ["amy", undefined],
      ["bob", undefined],
      ["dan", "2026-11-22T10:46:00Z"],
    ]));
});

describe("ranks", () => {
  const rank = (name: string, x: Partial<Rank>): Rank => ({
    name,
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
    ...x,
  });
  const rows = [
    rank("lena", { used: 900, wasted: 10, gpu: null, joules: 5 }),
    rank("dan", { used: 10, gpu: 1, gpuWasted: 99, joules: 70 }),
    rank("zoe", { used: 300, wasted: 50, gpu: 40, joules: null }),
  ];
  const names = (l: Rank[]) => l.map((r) => r.name).join(" ");
  test("the measure of the page rules the order", () => {
    expect(names(byMeasure(rows, "cpu"))).toBe("lena zoe dan");
    expect(names(byMeasure(rows, "gpu"))).toBe("dan zoe");
    expect(names(byMeasure(rows, "energy"))).toBe("dan lena");
  });
  test("a person's own work, by name of the person or of the workload", () => {
    expect(ownOf(rows, "dan", "gpu")).toEqual({ used: 1, wasted: 99 });
    expect(ownOf(rows, "dan", "cpu")).toEqual({ used: 10, wasted: null });
    expect(ownOf([rank("a.sh", { owner: "amy", used: 3, wasted: 4 })], "amy", "cpu")).toEqual({
      used: 3,
      wasted: 4,
    });
    expect(ownOf(rows, "amir", "cpu")).toEqual({ used: 0, wasted: null });
  });
});

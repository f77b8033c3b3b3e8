import { describe, expect, test } from "vitest";
import { parse, query, suggest, words } from "../src/lib/search";
import { alone, axis, bandAt, localHours, niceStep, onto, promAny, promQuote, quantile, rest, stacked, stats } from "../src/lib/stack";
import { duration, exact, human } from "../src/lib/units";
import { complete, place } from "../src/lib/promql";
import { forecast } from "../src/lib/forecast";
import { parseSeries, selector, shortNames, unitOf } from "../src/lib/series";

describe("units", () => {
  test.each([
    [0, "bytes", "0 B"], [1023, "bytes", "1023 B"], [1024, "bytes", "1 KiB"], [1536, "bytes", "1.5 KiB"], [6 * 2 ** 30, "bytes", "6 GiB"], [2 ** 20 * 3, "bytes_per_second", "3 MiB/s"],
    [0.2, "ratio", "20 %"], [0.031, "ratio", "3.1 %"], [3.2, "cores", "3.2"], [0.001, "cores", "0.001"], [0, "cores", "0"], [250, "watts", "250 W"], [1500, "watts", "1.5 kW"],
    [3.6e6, "joules", "1 kWh"], [12, "joules", "12 J"], [12345, "count", "12.3 k"], [null, "bytes", "–"], [undefined, "cores", "–"], [NaN, "cores", "–"],
  ])("%s %s is %s", (v, unit, want) => expect(human(v, unit)).toBe(want));
  test.each([[0, "0 s"], [0.02, "20 ms"], [0.29, "290 ms"], [59, "59 s"], [59.99, "1 min"], [61, "1 min 1 s"], [3600, "1 h 0 min"], [90000, "1 d 1 h"], [86400 * 20, "20 d"]])("%s seconds are %s", (s, want) => expect(duration(s)).toBe(want));
  test("a figure that was not measured is told so, never 0", () => { expect(exact(null, "bytes")).toBe("not measured"); expect(exact(1234567, "bytes")).toBe("1,234,567 bytes"); });
});

describe("search", () => {
  test("fields, lists, quotes and free words", () => {
    expect(parse('owner:alice,bob kind:slurm state:failed cpu>2h "my job"').params).toEqual({ owner: ["alice", "bob"], kind: ["slurm"], state: ["failed"], min_cpu: "7200", name: "*my job*" });
    expect(parse("running:yes since:7d").params).toEqual({ running: "true", since: "7d" });
    expect(parse("slurm/4711").params).toEqual({ id: "slurm/4711" });
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
    expect(suggest("owner:alice,b", { owner: ["alice", "bob", "b c"] }).map((s) => s.text)).toEqual(["owner:alice,bob ", 'owner:alice,"b c" ']);
    expect(suggest("running:yes st", {}).map((s) => s.text)).toEqual(["running:yes state:"]);
  });
  test("query repeats lists and leaves out what is empty", () => expect(query({ a: ["x", "y"], b: "", c: undefined, d: 1 })).toBe("a=x&a=y&d=1"));
});

describe("stacks", () => {
  const times = axis(0, 60, 15);
  test("samples go to their step, gaps stay gaps", () => expect(onto(times, { metric: {}, values: [[0, "1"], [30, "3"], [60, "NaN"]] })).toEqual([1, null, 3, null, null]));
  test("the stack with its rest fills to the total (conservation)", () => {
    const parts = [[1, 2, null], [3, null, 1]], total = [10, 10, 10];
    const all = stacked([...parts, rest(total, parts)]);
    expect(all[all.length - 1]).toEqual([10, 10, 10]);
    expect(rest([1, null], [[3, 3]])).toEqual([0, null]);
  });
  test("a gap of all is a gap", () => expect(stacked([[null, 1], [null, 2]])).toEqual([[null, 1], [null, 3]]));
  test("the band under the pointer", () => { const s = stacked([[1], [2]]); expect([bandAt(s, 0, 0.5), bandAt(s, 0, 2), bandAt(s, 0, 9), bandAt(s, 0, -1)]).toEqual([0, 1, -1, -1]); });
  test("values without a neighbour are seen", () => { expect(alone([1, null, 2, 3, null, 4])).toEqual([0, 5]); expect(alone([null])).toEqual([]); expect(alone([7])).toEqual([0]); });
  test("stats of nothing are unknown", () => { expect(stats([null]).mean).toBeNull(); expect(stats([1, null, 3])).toEqual({ last: 3, mean: 2, max: 3 }); });
  test("a year has a few hundred points", () => expect(31536000 / niceStep(31536000)).toBeLessThan(800));
  test("hostile names can not leave a selector", () => {
    expect(promQuote('a"} or up{x="')).toBe('"a\\"} or up{x=\\""');
    expect(promAny(["a.b", "c|d"])).toBe('"a\\\\.b|c\\\\|d"');
  });
  test("hours of the week move to the viewer's zone and come around", () => {
    const utc = Array.from({ length: 168 }, (_, i) => i), berlin = localHours(utc, 60);
    expect([berlin[0], berlin[1], berlin[167]]).toEqual([167, 0, 166]);
    expect(localHours(berlin, -60)).toEqual(utc);
  });
  test("quantiles of a distribution", () => { const b = [{ low: 0, high: 1, seconds: 50 }, { low: 1, high: 4, seconds: 50 }]; expect(quantile(b, 0.5)).toBe(1); expect(quantile(b, 0.95)).toBeCloseTo(3.7); expect(quantile([], 0.5)).toBeNull(); });
});

describe("forecast of the day", () => {
  const h = 3.6e6, midnight = new Date(2026, 10, 21).getTime(), now = midnight + 10.5 * h;
  const day = (back: number, joules: number) => Array.from({ length: 24 }, (_, i) => ({ from: new Date(2026, 10, 21 - back, i).getTime(), joules }));
  test("a day like the ones before", () => {
    const f = forecast([...day(1, 100), ...day(2, 100), ...day(0, 100).slice(0, 10)], now, 100 / 3600)!;
    expect(f.soFar).toBeCloseTo(1050); expect(f.joules).toBeCloseTo(2400); expect(f.days).toBe(2);
  });
  test("a day that is busier so far stays busier, within bounds", () => {
    expect(forecast([...day(1, 100), ...day(0, 150).slice(0, 10)], now, 150 / 3600)!.joules).toBeCloseTo(1575 + 13.5 * 150);
    expect(forecast([...day(1, 1), ...day(0, 150).slice(0, 10)], now, 150 / 3600)!.joules).toBeCloseTo(1575 + 13.5 * 2);
  });
  test("without days before it is the power of now; the band is told", () => {
    const f = forecast([], now, 1)!;
    expect(f.joules).toBeCloseTo(13.5 * 3600); expect(f.soFar).toBe(0); expect(f.low).toBeLessThan(f.joules); expect(f.high).toBeGreaterThan(f.joules); expect(f.days).toBe(0);
  });
  test("nothing known is nothing said", () => expect(forecast([], now, null)).toBeNull());
  test("days that differ widen the band", () => { const f = forecast([...day(1, 50), ...day(2, 150)], now, null)!; expect(f.high - f.low).toBeCloseTo(13.5 * 100); });
});

describe("names of series", () => {
  test("what all share is left out", () => {
    expect(shortNames(['a{node="n1",workload="x"}', 'a{node="n1",workload="y"}'])).toEqual(["x", "y"]);
    expect(shortNames(['a{node="n1"}', 'b{node="n1"}'])).toEqual(["a", "b"]);
    expect(shortNames(['a{node="n1",mode="user"}'])).toEqual(["a"]);
  });
  test("hostile values survive", () => {
    expect(parseSeries('a{workload="}\\"{x="}').labels).toEqual([["workload", '}"{x=']]);
    expect(parseSeries("no braces").name).toBe("no braces");
    expect(selector("a", { workload: 'x"}', node: "" })).toBe('a{workload="x\\"}"}');
  });
  test("units of rates", () => expect(["seconds/second", "bytes/second", "joules/second", "bytes", "odd"].map(unitOf)).toEqual(["cores", "bytes_per_second", "watts", "bytes", "count"]));
});

describe("completion of PromQL", () => {
  const at = (t: string) => place(t, t.length);
  test("names, labels and values", () => {
    expect(at("sum(rec")).toMatchObject({ kind: "name", begun: "rec", from: 4 });
    expect(at("up{no")).toMatchObject({ kind: "label", begun: "no", metric: "up" });
    expect(at('up{node="n')).toMatchObject({ kind: "value", begun: "n", label: "node", metric: "up" });
    expect(at('up{node="a{b"}')).toMatchObject({ kind: "name" });
    expect(at("sum by (wo")).toMatchObject({ kind: "label", begun: "wo" });
  });
  test("what starts so comes before what only holds it", () => expect(complete("cpu", ["node_cpu", "cpu_x", "mem"])).toEqual(["cpu_x", "node_cpu"]));
});

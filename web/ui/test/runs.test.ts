import { describe, expect, it } from "vitest";
import { linesOf, table, type Series } from "../src/lib/samples";

const at = (s: number) => new Date(Date.UTC(2026, 10, 22) + s * 1000).toISOString();
const sample = (from: number, to: number, cpu: number | null) => ({
  from: at(from),
  to: at(to),
  total: { cpu_seconds: cpu, resident_bytes: 100 * to },
});
const pods: Series[] = [
  {
    pod: "a",
    uid: "1",
    job: "main",
    samples: [sample(0, 2, 4), sample(2, 3, null), sample(3, 3, 1)],
  },
  { pod: "=b", uid: "2", job: "main", samples: [sample(1, 2, 0.5)] },
];

describe("samples of a run", () => {
  it("are rates over their own intervals; what was not read, or has no length, is no point", () => {
    const g = linesOf(pods, (u) => u.cpu_seconds, true);
    expect(g.times.length).toBe(2);
    expect(g.lines.map((l) => l.row)).toEqual([
      [2, null],
      [0.5, null],
    ]);
    expect(linesOf(pods, (u) => u.resident_bytes, false).lines[0].row).toEqual([200, 300]);
    expect(linesOf(pods, (u) => u.read_bytes, true).lines).toEqual([]);
  });
  it("are rows of a file, empty where not read, and no formula", () => {
    const rows = table(pods).trim().split("\r\n");
    expect(rows[0]).toBe(
      "time,pod,job,interval_seconds,cpu_seconds,user_seconds,system_seconds,wait_seconds,io_wait_seconds,read_bytes,write_bytes,resident_bytes,threads",
    );
    expect(rows[1]).toBe(`${at(2)},a,main,2,4,,,,,,,200,`);
    expect(rows[2].startsWith(`${at(3)},a,main,1,,`)).toBe(true);
    expect(rows[4]).toContain(`"'=b"`);
  });
});

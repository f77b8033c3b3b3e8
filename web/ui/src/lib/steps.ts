// The stretches that add up to a score of over-share as lines: flat in each, and none across a hole.
import type { Line } from "./chart";
import type { FindingSteps } from "./types";

export function stepLines(steps: FindingSteps["steps"]): { times: number[]; lines: Line[] } {
  const list = [...steps].sort((x, y) => Date.parse(x.start) - Date.parse(y.start)),
    times: number[] = [],
    use: (number | null)[] = [],
    fair: (number | null)[] = [],
    all: (number | null)[] = [];
  for (const s of list) {
    const from = Date.parse(s.start) / 1000,
      to = Date.parse(s.end) / 1000;
    for (const t of [from, to - 0.001]) {
      if (times.length && t <= times[times.length - 1]) continue;
      if (t === from && times.length && t - times[times.length - 1] > 1) {
        times.push(t - 0.5);
        use.push(null);
        fair.push(null);
        all.push(null);
      }
      times.push(t);
      use.push(s.use);
      fair.push(s.fair);
      all.push(s.capacity);
    }
  }
  return {
    times,
    lines: [
      { label: "what it used", row: use },
      { label: "its fair share", row: fair },
      { label: "what there is", row: all, quiet: 1 },
    ],
  };
}

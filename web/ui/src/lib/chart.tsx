// Lines and stacks over time, drawn by uPlot; what a chart says is also there as text.
import uPlot from "uplot";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { dark, go } from "./state";
import { clean } from "./parts";
import { csv, save } from "./csv";
import { alone, bandAt, stacked, stats, type Row } from "./stack";
import { fitted, pointedAt } from "./pointed";
import { axisWord, clock, duration, exact, human, utc, type Unit } from "./units";

// Colour-blind safe in either theme; lines differ in their dashes too, and hover and legend name each.
const light = [
  "#0072b2",
  "#d55e00",
  "#00795b",
  "#aa3377",
  "#332288",
  "#8a6d00",
  "#44779f",
  "#882255",
  "#5c6632",
  "#b3371e",
  "#4d4dff",
  "#7a4a00",
];
const night = [
  "#56b4e9",
  "#e69f00",
  "#2dc79c",
  "#ee99cc",
  "#bbaaff",
  "#ddcc55",
  "#88ccee",
  "#ff9977",
  "#bbcc88",
  "#ee7733",
  "#9fb4ff",
  "#d9a76a",
];
const dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3], [4, 4]];
export const colour = (i: number) => (dark.value ? night : light)[i % light.length];
const grey = () =>
  dark.value ? ["#8b949e", "#30363d", "#57606a"] : ["#6e7781", "#e6e9ed", "#afb8c1"];

export interface Line {
  label: string;
  row: Row;
  href?: string;
  quiet?: 1 | 2 | 3;
  /** Its colour, where that is not its place among the lines. */ ink?: number;
}
export interface Mark {
  from: number;
  to: number;
  label: string;
  kind?: "start" | "end" | "bad" | "held";
}
const none: Mark[] = [];
/** The width of a page of A4 or Letter between its margins, CSS pixels. */
const paper = 690;
const spansOfTime = [
  1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800,
  604800, 1209600, 2592000,
];
const binary = Array.from({ length: 60 }, (_, i) => 2 ** i);
interface Props {
  title: string;
  times: number[];
  lines: Line[];
  unit: Unit;
  stack?: boolean;
  total?: Line;
  marks?: Mark[];
  height?: number;
  zoom?: (from: number, to: number) => void;
  relative?: boolean;
  /** Lines over a stack: what was allocated, what was there. */ over?: Line[];
  /** Values stand for the whole of a step. */ steps?: boolean;
  /** From here on a step is not over. */ open?: number;
  /** Length of a step, seconds: the last one is as wide as the others. */ lasting?: number;
  /** Names at the right end in place of a legend. */ labels?: boolean;
  /** Charts of one name show the same moment, on axes of the same width. */ group?: string;
}

const noLines: Line[] = [];
/** What charts of a group tell each other: where the pointer is, not what it selects. */
const moves = (type: string) => type === "mousemove" || type === "mouseleave";
export function TimeChart({
  title,
  times,
  lines: every,
  unit,
  stack,
  total,
  marks = none,
  height = 220,
  zoom,
  relative,
  over: above = noLines,
  steps,
  open,
  lasting,
  labels,
  group,
}: Props) {
  const [only, setOnly] = useState("");
  const lines = useMemo(() => {
      const l = every.filter((x) => x.label === only);
      return l.length ? l : every;
    }, [every, only]),
    alone_ = lines !== every;
  const box = useRef<HTMLDivElement>(null),
    plot = useRef<uPlot | null>(null),
    tip = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<number | null>(null),
    [over, setOver] = useState(-1),
    [pointed, setPointed] = useState(false);
  const spot = useRef([0, 0]),
    night = dark.value;
  const put = (t: HTMLDivElement | null) => {
    tip.current = t;
    if (t) {
      t.style.left = spot.current[0] + "px";
      t.style.top = spot.current[1] + "px";
    }
  };
  const rows = useMemo(
    () => (stack ? stacked(lines.map((l) => l.row)) : lines.map((l) => l.row)),
    [lines, stack],
  );
  const shadeOf = (l: Line) => (l.quiet ? grey()[l.quiet - 1] : colour(l.ink ?? every.indexOf(l))),
    shade = (i: number) => shadeOf(lines[i]);
  useEffect(() => {
    const el = box.current!;
    const css = getComputedStyle(document.documentElement),
      ink = css.getPropertyValue("--quiet"),
      rule = css.getPropertyValue("--line");
    const drawnOver = alone_ ? noLines : above,
      stepped = steps
        ? {
            paths: uPlot.paths.stepped!({
              align: 1,
              extend: !!lasting && rows.every((r) => r[r.length - 1] !== null),
            }),
          }
        : {},
      named = labels && el.clientWidth > 700;
    const order = stack ? rows.map((_, i) => rows.length - 1 - i) : rows.map((_, i) => i); // the highest of a stack is drawn first
    const axisStyle = {
      stroke: ink,
      grid: { stroke: rule, width: 1 },
      ticks: { stroke: rule, width: 1 },
      font: "12px system-ui, sans-serif",
    };
    const u = new uPlot(
      {
        width: Math.max(200, el.clientWidth),
        height,
        legend: { show: false },
        pxAlign: 0,
        ...(named ? { padding: [8, margin, 0, 0] as uPlot.Padding } : {}),
        cursor: {
          drag: { x: !!zoom, y: false, setScale: false },
          points: { show: !stack },
          y: false,
          ...(group ? { sync: { key: group, filters: { pub: moves, sub: moves } } } : {}),
        },
        scales: {
          x: {
            time: !relative,
            ...(lasting
              ? { range: (): [number, number] => [times[0], times[times.length - 1] + lasting] }
              : times.length === 1
                ? { range: (): [number, number] => [times[0] - 43200, times[0] + 43200] }
                : {}),
          },
          y: {
            range: (_u, lo, hi) => [
              Math.min(0, lo ?? 0),
              (hi ?? 0) > 0 ? Math.max(hi * 1.05, unit === "ratio" ? 0.01 : 0) : 1,
            ],
          },
        },
        axes: [
          {
            ...axisStyle,
            space: 70,
            ...(relative ? { incrs: spansOfTime } : {}),
            values: (_u, splits, _i, _s, incr) =>
              splits.map((t) => (relative ? duration(t) : label(t, incr))),
          },
          {
            ...axisStyle,
            size: group || unit === "bytes_per_second" ? 88 : axisWord(unit) ? 84 : 74,
            ...(/^bytes/.test(unit) ? { incrs: binary } : {}),
            values: (_u, splits) =>
              splits.map(
                (v, i) => human(v, unit) + (i === splits.length - 1 ? axisWord(unit) : ""),
              ),
          },
        ],
        series: [
          {},
          ...order.map((i) => ({
            label: "",
            stroke: lines[i].quiet === 2 ? rule : shade(i),
            width: stack ? 1 : 1.75,
            dash: stack ? undefined : dashes[Math.floor(i / 2) % dashes.length],
            ...stepped,
            fill: stack ? shade(i) : lines.length === 1 ? shade(i) + "22" : undefined,
            points: { show: true, size: 5, filter: (p: uPlot, k: number) => alone(p.data[k]) },
            spanGaps: false,
          })),
          ...drawnOver.map((_, k) => ({
            label: "",
            stroke: css.getPropertyValue("--text"),
            width: 1.4,
            dash: k === 0 && drawnOver.length > 1 ? [6, 4] : k > 1 ? [2, 4] : undefined,
            points: { show: false },
            spanGaps: false,
          })),
          ...(total && !alone_
            ? [
                {
                  label: "",
                  stroke: css.getPropertyValue("--text"),
                  width: 1.5,
                  dash: [6, 4],
                  points: { show: false },
                },
              ]
            : []),
        ],
        hooks: {
          setCursor: [
            (p) => {
              const i = p.cursor.idx ?? null;
              setAt(p.cursor.left !== undefined && p.cursor.left >= 0 ? i : null);
              const here = !group || el.matches(":hover"),
                y =
                  here && p.cursor.top !== undefined && p.cursor.top >= 0
                    ? p.posToVal(p.cursor.top, "y")
                    : -1;
              setPointed(here);
              setOver(i === null || y < 0 ? -1 : stack ? bandAt(rows, i, y) : closest(rows, i, y));
              spot.current = [
                Math.min(Math.max(0, (p.cursor.left ?? 0) + 80), el.clientWidth - 220),
                Math.max(0, (p.cursor.top ?? 0) - 50),
              ];
              put(tip.current);
            },
          ],
          setSelect: [
            (p) => {
              if (zoom && p.select.width > 4)
                zoom(
                  p.posToVal(p.select.left, "x"),
                  p.posToVal(p.select.left + p.select.width, "x"),
                );
            },
          ],
          draw: [
            (p) => {
              if (named)
                ends(
                  p,
                  lines,
                  rows,
                  shade,
                  stack ?? false,
                  drawnOver,
                  css.getPropertyValue("--text"),
                );
            },
          ],
          drawClear: [
            (p) => {
              const c = p.ctx;
              c.save();
              if (open !== undefined && open < times[times.length - 1] + 1) {
                // unfinished: the ground behind it is hatched
                const x = Math.max(p.bbox.left, p.valToPos(open, "x", true)),
                  right = p.bbox.left + p.bbox.width;
                c.save();
                c.beginPath();
                c.rect(x, p.bbox.top, right - x, p.bbox.height);
                c.clip();
                c.strokeStyle = rule;
                c.lineWidth = devicePixelRatio;
                for (let k = x - p.bbox.height; k < right; k += 8 * devicePixelRatio) {
                  c.beginPath();
                  c.moveTo(k, p.bbox.top + p.bbox.height);
                  c.lineTo(k + p.bbox.height, p.bbox.top);
                  c.stroke();
                }
                c.restore();
              }
              for (const m of marks) {
                // The first figure is of the end of the first step: a start just before it stands at the edge.
                const slack = p.bbox.width / 25,
                  inside = (v: number) =>
                    v < p.bbox.left && v > p.bbox.left - slack
                      ? p.bbox.left
                      : v > p.bbox.left + p.bbox.width && v < p.bbox.left + p.bbox.width + slack
                        ? p.bbox.left + p.bbox.width
                        : v;
                const x = inside(p.valToPos(m.from, "x", true)),
                  x2 = Math.min(p.valToPos(m.to, "x", true), p.bbox.left + p.bbox.width);
                if (
                  x2 < p.bbox.left - slack ||
                  x > p.bbox.left + p.bbox.width ||
                  (x < p.bbox.left && m.from === m.to)
                )
                  continue;
                const ink =
                    m.kind === "start" || m.kind === "end"
                      ? css.getPropertyValue("--quiet")
                      : m.kind === "held"
                        ? night
                          ? "#e3b341"
                          : "#7a4a00"
                        : night
                          ? "#ff7b72"
                          : "#a40e26",
                  edge = m.kind === "start" || m.kind === "end";
                c.fillStyle = ink;
                c.globalAlpha = 0.22;
                if (!edge)
                  c.fillRect(
                    Math.max(x, p.bbox.left),
                    p.bbox.top,
                    Math.max(2, x2 - Math.max(x, p.bbox.left)),
                    p.bbox.height,
                  );
                // What happened is shown by the sign at the top too, not by colour alone.
                c.globalAlpha = 1;
                c.fillRect(x - 0.5, p.bbox.top, edge ? 1 : 1.5, p.bbox.height);
                c.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
                c.textBaseline = "top";
                c.textAlign = m.kind === "end" ? "right" : "left";
                c.fillText(
                  { start: "▸", end: "■", held: "≈", bad: "✕" }[m.kind ?? "bad"],
                  x + (m.kind === "end" ? -3 : 3),
                  p.bbox.top + 1,
                );
              }
              c.restore();
            },
          ],
        },
      },
      [
        times,
        ...order.map((i) => rows[i]),
        ...drawnOver.map((l) => l.row),
        ...(total && !alone_ ? [total.row] : []),
      ] as uPlot.AlignedData,
      el,
    );
    plot.current = u;
    const fit = () => u.setSize({ width: Math.max(200, el.clientWidth), height }),
      sized = new ResizeObserver(fit),
      print = () => u.setSize({ width: Math.min(paper, Math.max(200, el.clientWidth)), height });
    sized.observe(el);
    addEventListener("beforeprint", print);
    addEventListener("afterprint", fit);
    return () => {
      removeEventListener("beforeprint", print);
      removeEventListener("afterprint", fit);
      sized.disconnect();
      u.destroy();
    };
  }, [times, rows, total, night, height, marks, above, open, lasting, group]);

  // A stack's last figures are those of one moment: what had ended by then is not in it.
  const end = useMemo(() => {
    let e = -1;
    if (stack)
      for (const { row: r } of lines)
        for (let i = r.length - 1; i > e; i--) if (r[i] !== null) e = i;
    return e;
  }, [lines, stack]);
  const name = over >= 0 ? lines[over] : undefined;
  const summary =
    `${title}. ` +
    [...(total ? [total] : []), ...above, ...lines]
      .slice(0, 12)
      .map((l) => {
        const s = stats(l.row);
        return `${clean(l.label)}: mean ${human(s.mean, unit)}, highest ${human(s.max, unit)}`;
      })
      .join("; ");
  const moment = (t: number) => (relative ? duration(t) : clock(t * 1000)),
    near = times.length > 1 ? (times[times.length - 1] - times[0]) / 100 : 0;
  const target = over >= 0 ? lines[over]?.href : undefined;
  return (
    <figure class="chart">
      <div
        class={"plot" + (target ? " link" : "")}
        role="img"
        aria-label={summary}
        ref={box}
        style={`height:${height}px`}
        onClick={() => {
          if (target) go(target);
        }}
      />
      {at !== null && pointed && (
        <div class="tip" ref={put} aria-hidden="true">
          <b>{moment(times[at])}</b>
          {pointedAt(at, name, stack ? lines : [], total, above, unit).map(([label, text]) => (
            <>
              <br />
              <bdi>{clean(label).slice(0, 80)}</bdi> {text}
            </>
          ))}
          {marks
            .filter((m) => times[at] >= m.from - near && times[at] <= m.to + near)
            .slice(0, 4)
            .map((m) => (
              <>
                <br />
                <b>{m.label}</b>
              </>
            ))}
        </div>
      )}
      {labels && (
        <ul class="keys_" aria-label={"Lines of " + title}>
          {[...every].reverse().map((l) => (
            <li>
              <i class="dot" style={`background:${shadeOf(l)}`} aria-hidden="true" />{" "}
              <bdi>{clean(l.label).slice(0, 40)}</bdi>
            </li>
          ))}
        </ul>
      )}
      {!labels && (
        <details class="legend" open={every.length > 1 && every.length < 16}>
          <summary>
            {lines.length === 1 && !total
              ? "Mean and highest"
              : `${every.length} ${every.length === 1 ? "line" : "lines"}`}
            {at !== null ? (
              <span title={relative ? undefined : utc(times[at] * 1000)}>
                {" "}
                at {moment(times[at])}
              </span>
            ) : (
              ""
            )}
          </summary>
          <table>
            <caption class="hidden">{title}</caption>
            <thead>
              <tr>
                <th scope="col">{stack ? "From the top" : "Line"}</th>
                <th scope="col" class="number">
                  {at === null ? "Last" : "Here"}
                </th>
                <th scope="col" class="number">
                  Mean
                </th>
                <th scope="col" class="number">
                  Highest
                </th>
              </tr>
            </thead>
            <tbody>
              {total && (
                <LegendRow
                  l={total}
                  unit={unit}
                  at={at ?? (stack && end >= 0 ? end : null)}
                  swatch={<path class="totalline" d="M0 6h14" />}
                />
              )}
              {(stack ? [...every].reverse() : every).map((l, _k, all) => (
                <LegendRow
                  l={l}
                  unit={unit}
                  at={at ?? (stack && end >= 0 ? end : null)}
                  on={l === name}
                  quiet={alone_ && l.label !== only}
                  pick={all.length > 1 ? () => setOnly(only === l.label ? "" : l.label) : undefined}
                  swatch={
                    stack ? (
                      <rect
                        width="14"
                        height="12"
                        fill={shadeOf(l)}
                        stroke="currentColor"
                        stroke-width=".5"
                      />
                    ) : (
                      <path
                        d="M0 6h14"
                        stroke={shadeOf(l)}
                        stroke-width="3"
                        stroke-dasharray={dashes[Math.floor(every.indexOf(l) / 2) % dashes.length]
                          .slice(0, 2)
                          .map((d) => d / 2)
                          .join(" ")}
                      />
                    )
                  }
                />
              ))}
            </tbody>
          </table>
          {alone_ && <button onClick={() => setOnly("")}>Show all lines</button>}
        </details>
      )}
      <Figures
        png={() =>
          plot.current &&
          picture(
            plot.current,
            title,
            every.map((l) => [clean(l.label), shadeOf(l)]),
          )
        }
        title={title}
        times={times}
        lines={[...(total ? [total] : []), ...above, ...every]}
        unit={unit}
        relative={relative}
      />
    </figure>
  );
}

/** Room for names right of a chart, CSS pixels. */
const margin = 160;
/** Names of the lines at their right ends, apart from each other. */
function ends(
  p: uPlot,
  lines: Line[],
  rows: Row[],
  shade: (i: number) => string,
  stack: boolean,
  above: Line[],
  ink: string,
): void {
  const c = p.ctx,
    k = devicePixelRatio,
    x = p.bbox.left + p.bbox.width + 8 * k,
    low = p.bbox.top + p.bbox.height,
    want: { y: number; text: string; ink: string }[] = [];
  const last = (r: Row) => {
    for (let i = r.length - 1; i >= 0; i--) if (r[i] !== null) return i;
    return -1;
  };
  lines.forEach((l, i) => {
    const e = Math.max(...rows.map(last));
    if (e < 0 || l.quiet === 2) return;
    const top = rows[i][e] ?? 0,
      under = stack && i > 0 ? (rows[i - 1][e] ?? 0) : 0;
    want.push({
      y: p.valToPos(stack ? (top + under) / 2 : top, "y", true),
      text: l.label,
      ink: shade(i),
    });
  });
  for (const l of above) {
    const e = last(l.row);
    if (e >= 0) want.push({ y: p.valToPos(l.row[e]!, "y", true), text: l.label, ink });
  }
  want.sort((a, b) => b.y - a.y);
  const gap = 14 * k;
  let at = low + gap;
  for (const w of want) {
    w.y = Math.min(w.y, at - gap);
    at = w.y;
  }
  at = p.bbox.top - gap / 2; // what was pushed beyond the top comes back down
  for (const w of [...want].reverse()) {
    w.y = Math.max(w.y, at + gap);
    at = w.y;
  }
  c.save();
  c.font = `600 ${12 * k}px system-ui, sans-serif`;
  c.textAlign = "left";
  c.textBaseline = "middle";
  for (const w of want) {
    c.fillStyle = w.ink;
    c.fillText(
      fitted(clean(w.text), (t) => c.measureText(t).width <= (margin - 10) * k),
      x,
      w.y,
    );
  }
  c.restore();
}

const fileOf = (title: string, kind: string) =>
  title
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, 60) +
  "." +
  kind;
/** Keeps a chart as a picture, with its title above and the names of its lines below. */
function picture(u: uPlot, title: string, names: [string, string][]): void {
  const from = u.ctx.canvas,
    to = document.createElement("canvas"),
    c = to.getContext("2d")!,
    css = getComputedStyle(document.documentElement),
    k = devicePixelRatio,
    line = 18 * k,
    across = Math.max(1, Math.floor(from.width / (200 * k)));
  to.width = from.width;
  to.height = from.height + line * (2 + Math.ceil(names.length / across));
  c.fillStyle = css.getPropertyValue("--ground") || css.backgroundColor || "white";
  c.fillRect(0, 0, to.width, to.height);
  c.fillStyle = css.getPropertyValue("--text");
  c.font = `600 ${13 * k}px system-ui, sans-serif`;
  c.textBaseline = "middle";
  c.fillText(title.slice(0, 120), 8 * k, line / 2 + 2 * k);
  c.drawImage(from, 0, line * 1.5);
  c.font = `${12 * k}px system-ui, sans-serif`;
  names.forEach(([name, ink], i) => {
    const x = (8 + 200 * (i % across)) * k,
      y = line * 2 + from.height + line * Math.floor(i / across);
    c.fillStyle = ink;
    c.fillRect(x, y - 5 * k, 10 * k, 10 * k);
    c.fillStyle = css.getPropertyValue("--text");
    c.fillText(
      fitted(name, (t) => c.measureText(t).width <= 176 * k),
      x + 15 * k,
      y,
    );
  });
  to.toBlob((b) => b && save(fileOf(title, "png"), b));
}

/** The figures behind a chart, as a table, as CSV and as a picture. */
function Figures({
  png,
  title,
  times,
  lines,
  unit,
  relative,
}: {
  png: () => void;
  title: string;
  times: number[];
  lines: Line[];
  unit: Unit;
  relative?: boolean;
}) {
  const [open, setOpen] = useState(false),
    when = (t: number) => (relative ? String(t) : new Date(t * 1000).toISOString());
  const keep = () =>
    save(
      fileOf(title, "csv"),
      csv([
        ["time", ...lines.map((l) => l.label)],
        ...times.map((t, i) => [
          when(t),
          ...lines.map((l) =>
            l.row[i] === null || l.row[i] === undefined ? "" : String(l.row[i]),
          ),
        ]),
      ]),
    );
  return (
    <details class="legend figures" onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>Figures over time</summary>
      {open && (
        <>
          <button onClick={keep}>CSV</button> <button onClick={png}>PNG</button>
          <div class="scroll" tabIndex={0} role="region" aria-label={"Figures of " + clean(title)}>
            <table>
              <thead>
                <tr>
                  <th scope="col">{relative ? "After" : "Time"}</th>
                  {lines.slice(0, 16).map((l) => (
                    <th scope="col" class="number">
                      <bdi>{clean(l.label).slice(0, 30)}</bdi>
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {times
                  .map((_t, i) => i)
                  .slice(-200)
                  .map((i) => (
                    <tr>
                      <th scope="row" title={relative ? undefined : utc(times[i] * 1000)}>
                        {relative ? duration(times[i]) : clock(times[i] * 1000)}
                      </th>
                      {lines.slice(0, 16).map((l) => (
                        <td class="number">{human(l.row[i], unit)}</td>
                      ))}
                    </tr>
                  ))}
              </tbody>
            </table>
          </div>
          {times.length > 200 && (
            <p class="quiet">The last 200 of {times.length}; the CSV holds all.</p>
          )}
        </>
      )}
    </details>
  );
}

function LegendRow({
  l,
  unit,
  at,
  swatch,
  on,
  quiet,
  pick,
}: {
  l: Line;
  unit: Unit;
  at: number | null;
  swatch: preact.ComponentChild;
  on?: boolean;
  quiet?: boolean;
  pick?: () => void;
}) {
  const s = stats(l.row),
    here = at === null ? s.last : l.row[at];
  const text = clean(l.label);
  const mark = (
    <svg width="14" height="12" aria-hidden="true">
      {swatch}
    </svg>
  );
  return (
    <tr class={(on ? "on" : "") + (quiet ? " off" : "")}>
      <th scope="row">
        {pick ? (
          <button
            class="pick"
            aria-label={"Show only " + text.slice(0, 60)}
            title="Show only this"
            onClick={pick}
          >
            {mark}
          </button>
        ) : (
          mark
        )}{" "}
        {l.href ? (
          <a href={l.href}>
            <bdi>{text.slice(0, 70)}</bdi>
          </a>
        ) : (
          <bdi>{text.slice(0, 70)}</bdi>
        )}
      </th>
      {[here, s.mean, s.max].map((v) => (
        <td class="number" title={exact(v, unit)}>
          {human(v, unit)}
        </td>
      ))}
    </tr>
  );
}

function closest(rows: Row[], i: number, y: number): number {
  let best = -1,
    d = Infinity;
  rows.forEach((r, k) => {
    const v = r[i];
    if (v !== null && v !== undefined && Math.abs(v - y) < d) {
      d = Math.abs(v - y);
      best = k;
    }
  });
  return best;
}
function label(t: number, incr: number): string {
  const d = new Date(t * 1000);
  if (incr >= 86400 * 27)
    return d.toLocaleDateString(undefined, { month: "short", year: "numeric" });
  if (incr >= 86400 || (d.getHours() === 0 && d.getMinutes() === 0))
    return d.toLocaleDateString(undefined, { day: "numeric", month: "short" });
  return d.toLocaleTimeString(undefined, {
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
    ...(incr < 60 ? { second: "2-digit" } : {}),
  });
}

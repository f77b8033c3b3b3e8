// The forecasts of one subject: middle, band, and how wrong those before were.
import { useState } from "preact/hooks";
import { useAsk } from "./api";
import { TimeChart } from "./chart";
import { titleOf, figureUnit, type Forecast, type ForecastList } from "./forecast";
import { clean, Empty, Q, Section, Show, Table, When } from "./parts";
import { has } from "./state";
import { exact, human, known } from "./units";

export function Outlook({ of, site }: { of: Record<string, string>; site?: string }) {
  const path =
      "/api/reckon/v1/forecast?" + new URLSearchParams({ ...of, ...(site ? { site } : {}) }),
    a = useAsk<ForecastList>(has("forecast") ? path : null);
  if (!has("forecast")) return null;
  return (
    <Section title="What comes next" aside={<a href={path}>JSON</a>}>
      <Show a={a} missing={(d) => d.missing}>
        {(d) =>
          d.next.length > 0 ? (
            <NextRun d={d} />
          ) : d.forecasts.length === 0 ? (
            <Empty>
              No forecast yet: <Q v={d.measured_hours ?? 0} unit="count" /> of the{" "}
              <Q v={d.least_hours ?? 24} unit="count" /> hours that it needs at least were measured.
            </Empty>
          ) : (
            <div class="cols">
              {d.forecasts.map((f) => (
                <One f={f} key={(f.site ?? "") + f.name + f.figure} />
              ))}
            </div>
          )
        }
      </Show>
    </Section>
  );
}

/** The same, opened by who has the question. */
export function LaterOutlook({ of, what }: { of: Record<string, string>; what: string }) {
  const [open, setOpen] = useState(false);
  return has("forecast") ? (
    <details class="later" onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>What comes next: {what}</summary>
      {open && <Outlook of={of} />}
    </details>
  ) : null;
}

const flagWords: Record<string, string> = {
  "no-history": "No history yet",
  short: "Little history",
  constant: "It never changed",
  gaps: "Gaps in its history",
  stale: "Its latest figures are old",
  "level-shift": "Its level changed lately",
  spike: "A spike was left out",
  "clock-change": "The clock changed",
  clipped: "Kept within what there is",
  seasonless: "No daily pattern found",
};

function One({ f }: { f: Forecast }) {
  const unit = figureUnit(f.figure),
    amount = (v: number) =>
      human(v, unit) + (unit === "cores" ? " cores" : unit === "gpus" ? " GPUs" : ""),
    times = f.steps.map((s) => Date.parse(s.at) / 1000),
    e = f.error;
  return (
    <div>
      <h3>
        {titleOf(f)}
        {f.site && f.subject === "site" && (
          <>
            , <bdi>{clean(f.site)}</bdi>
          </>
        )}
      </h3>
      <TimeChart
        title={titleOf(f) + ", forecast"}
        times={times}
        unit={unit}
        height={150}
        lines={[
          { label: "expected", row: f.steps.map((s) => s.mean ?? s.median) },
          { label: "lower end of 95 %", row: f.steps.map((s) => s.low), quiet: 1 },
          { label: "upper end of 95 %", row: f.steps.map((s) => s.high), quiet: 3 },
        ]}
      />
      <p class="quiet">
        {f.kept ? (
          <>
            Made <When t={f.made} relative />
            {f.old && <strong>, old</strong>}.{" "}
          </>
        ) : (
          "Made just now. "
        )}
        {e ? (
          <>
            Mean error of the last <Q v={e.forecasts} unit="count" /> forecasts:{" "}
            <span class="q" title={exact(e.mean, unit)}>
              {amount(e.mean)}
            </span>
            {known(e.of_naive) && (
              <>
                , <Q v={e.of_naive} unit="ratio" /> of the error of repeating the day before
              </>
            )}
            ; <Q v={e.coverage} unit="ratio" /> of the hours were within the band.
          </>
        ) : known(f.backtest) ? (
          <>
            Typical error, tried on past days: <Q v={f.backtest} unit={unit} />
            {unit === "cores" ? " cores" : unit === "gpus" ? " GPUs" : ""}.
          </>
        ) : (
          "Its error is not known yet."
        )}
        {f.flags.length > 0 && (
          <> {f.flags.map((x) => flagWords[x] ?? x.replaceAll("-", " ")).join("; ")}.</>
        )}
      </p>
    </div>
  );
}

const runWords: Record<string, string> = {
  wall_seconds: "Length",
  cores_mean: "Cores, mean",
  memory_needed_peak_bytes: "Memory needed, peak",
  memory_peak_bytes: "Memory peak",
  energy_joules: "Energy",
};

function NextRun({ d }: { d: ForecastList }) {
  return (
    <Table
      caption="The next run"
      rows={d.next}
      keyOf={(n) => n.figure}
      cols={[
        { title: "The next run", cell: (n) => runWords[n.figure] ?? n.figure },
        {
          title: "Median",
          number: true,
          cell: (n) => (
            <Q v={n.median} unit={n.figure === "cores_mean" ? "cores" : figureUnit(n.figure)} />
          ),
        },
        {
          title: "90 % of runs",
          number: true,
          cell: (n) => {
            const u = n.figure === "cores_mean" ? "cores" : figureUnit(n.figure);
            return n.runs < 3 ? (
              <span title="fewer than three runs have ended">too few runs</span>
            ) : (
              <>
                <Q v={n.low} unit={u} /> to <Q v={n.high} unit={u} />
              </>
            );
          },
        },
        { title: "Off so far", number: true, cell: (n) => <Q v={n.error} unit="ratio" /> },
        { title: "Runs", number: true, cell: (n) => <Q v={n.runs} unit="count" /> },
      ]}
    />
  );
}

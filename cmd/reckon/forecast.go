package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/internal/term"
	"reckon/web/client"
)

func newForecast(g *globals) *cobra.Command {
	var q client.ForecastQuery
	var format *choice
	var steps bool
	cmd := &cobra.Command{
		Use:   "forecast [WORKLOAD]",
		Short: "Forecast demand, with the errors of earlier forecasts",
		Long: `Show the needs of a site, node, owner or service in the next two days: cores, memory,
power, GPUs, disk and network, and the free space of a node's file systems. Each
forecast has the accuracy of the last 14 days: the mean error, its share of the error of
"as yesterday at this time", and the share of hours within the band (95 % is right).
In brackets is the error on earlier days, where no forecast has passed yet.

For batch work it is the next run: length, cores, memory and energy, from earlier runs
of its name that ended well.

The server forecasts once a day, and the next hours once an hour. Other forecasts are
made on demand, as with --now. Kept forecasts need two days of history.`,
		Example: `  reckon forecast                        the site
  reckon forecast --node n1
  reckon forecast --owner alice --steps  every hour
  reckon forecast unit/nginx.service
  reckon forecast --hours 168
  reckon forecast --format json | jq '.forecasts[0].steps'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: firstArg(g, completeIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				q.Workload = args[0]
			}
			if q.Hours < 0 || q.Hours > 336 {
				return &usageError{fmt.Errorf("--hours %d: give 1 to 336", q.Hours)}
			}
			return runForecast(cmd.Context(), g, q, steps, format.value)
		},
	}
	f := cmd.Flags()
	g.shared.addFlag(cmd, "node", &q.Node)
	g.shared.addFlag(cmd, "owner", &q.Owner)
	g.shared.addFlag(cmd, "site", &q.Site)
	f.BoolVar(&q.Now, "now", false, "forecast from the data of this moment")
	f.IntVar(&q.Hours, "hours", 0, "how far ahead, 1 to 336; forecast at this moment, as with --now")
	f.BoolVar(&steps, "steps", false, "a line for each hour")
	format = g.shared.addFormatFlag(cmd, "table", "json", "csv")
	cmd.MarkFlagsMutuallyExclusive("node", "owner")
	return cmd
}

func runForecast(ctx context.Context, g *globals, q client.ForecastQuery, steps bool, format string) error {
	return printAnswer(ctx, g, format, func(ctx context.Context, c *client.Client) (output, error) {
		list, err := c.Forecast(ctx, q)
		a := output{json: list, csv: csvOf(forecastRows(list.Forecasts)), rows: len(list.Forecasts), missing: list.Missing,
			empty: noForecastReason(&list),
			print: func(term.Screen) error { return printForecasts(g, list.Forecasts) }}
		if steps {
			a.print = func(term.Screen) error { return printSteps(g, list.Forecasts) }
		}
		if len(list.Next) > 0 {
			a.csv, a.rows = csvOf(list.Next), len(list.Next)
			a.print = func(term.Screen) error { return printNext(g, list.Next) }
		}
		return a, err
	})
}

// noForecastReason explains why there is no forecast.
func noForecastReason(list *client.ForecastList) string {
	if list.MeasuredHours == 0 {
		return "no forecast: no full hour was measured"
	}
	return fmt.Sprintf("no forecast: hours measured %d, needed %d", list.MeasuredHours, list.LeastHours)
}

// forecastRow is one hour in CSV.
type forecastRow struct {
	Subject string    `json:"subject"`
	Site    string    `json:"site"`
	Name    string    `json:"name"`
	Figure  string    `json:"figure"`
	At      time.Time `json:"at"`
	Median  float64   `json:"median"`
	Mean    *float64  `json:"mean"`
	Low     float64   `json:"low"`
	High    float64   `json:"high"`
}

func forecastRows(list []client.Forecast) []forecastRow {
	rows := []forecastRow{}
	for _, f := range list {
		for _, s := range f.Steps {
			rows = append(rows, forecastRow{f.Subject, f.Site, f.Name, f.Figure, s.At, s.Median, s.Mean, s.Low, s.High})
		}
	}
	return rows
}

// formatValue formats a value of a figure with its unit.
func formatValue(figure string, v float64) string {
	switch {
	case strings.HasSuffix(figure, "_per_second"):
		return term.Rate(&v)
	case strings.HasSuffix(figure, "_bytes"):
		return term.Bytes(&v)
	case figure == "watts":
		return term.Watts(&v)
	case strings.HasSuffix(figure, "_joules"):
		return term.Energy(&v)
	case strings.HasSuffix(figure, "_seconds"):
		return term.Seconds(&v)
	}
	return term.Cores(&v)
}

// figureTitle returns the display name of the figure of a forecast.
func figureTitle(f *client.Forecast) string {
	if f.Subject == "filesystem" {
		_, mount, _ := strings.Cut(f.Name, ":")
		return "free on " + mount
	}
	return strings.ReplaceAll(strings.TrimSuffix(strings.TrimSuffix(f.Figure, "_bytes"), "_bytes_per_second"), "_", " ")
}

func printForecasts(g *globals, list []client.Forecast) error {
	now := g.now()
	first := &list[0]
	made := "made now"
	if first.Kept {
		made = "made " + term.Ago(first.Made, now)
	}
	fmt.Fprintf(g.stdout, "Forecast of %s, %s\n", strings.TrimSpace(first.Subject+" "+term.Safe(cmp.Or(first.Name, first.Site))), made)
	t := term.TableOf("FIGURE:s8|NEXT HOUR:r|MEAN:r|LEAST:ro3|MOST:r|95 % BAND:r|ERROR:r|VS YESTERDAY:ro2|IN BAND:ro1|NOTE:s8")
	sites := map[string]bool{}
	for i := range list {
		sites[list[i].Site] = true
	}
	for i := range list {
		f := &list[i]
		if len(f.Steps) == 0 {
			continue
		}
		next := expectedValue(&f.Steps[0])
		least, most, sum := next, next, 0.0
		low, high := f.Steps[0].Low, f.Steps[0].High
		for _, s := range f.Steps {
			mean := expectedValue(&s)
			least, most = min(least, mean), max(most, mean)
			sum += mean / float64(len(f.Steps))
			low, high = min(low, s.Low), max(high, s.High)
		}
		name := figureTitle(f)
		if len(sites) > 1 {
			name = f.Site + " " + name
		}
		e, of, band := formatErrors(f)
		t.Add(name, formatValue(f.Figure, next), formatValue(f.Figure, sum), formatValue(f.Figure, least), formatValue(f.Figure, most),
			formatValue(f.Figure, low)+" to "+formatValue(f.Figure, high), e, of, band, formatFlags(f))
	}
	return t.Print(g.screen())
}

// expectedValue returns the expected value of a step, or the median if an older version made the forecast.
func expectedValue(s *client.ForecastStep) float64 {
	if s.Mean != nil {
		return *s.Mean
	}
	return s.Median
}

// formatErrors formats the errors of the last 14 days, or in parentheses the error of the back-test if there are none yet.
func formatErrors(f *client.Forecast) (mean, ofNaive, band string) {
	switch {
	case f.Error != nil:
		return formatValue(f.Figure, f.Error.Mean), term.Percent(f.Error.OfNaive), term.Percent(&f.Error.Coverage)
	case f.Backtest != nil:
		ratio := (*float64)(nil)
		if f.Naive != nil && *f.Naive > 0 {
			r := *f.Backtest / *f.Naive
			ratio = &r
		}
		return "(" + formatValue(f.Figure, *f.Backtest) + ")", "(" + term.Percent(ratio) + ")", term.Unknown
	}
	return term.Unknown, term.Unknown, term.Unknown
}

// flagNotes are the texts for the flags of a forecast.
var flagNotes = map[string]string{
	"no-history": "no history", "short": "less than two days of history", "constant": "constant", "gaps": "gaps in the history",
	"stale":       "last hours missing",
	"level-shift": "level changed lately", "spike": "outliers left out", "clock-change": "clock change", "clipped": "at zero or capacity",
	"seasonless": "no daily pattern",
}

func formatFlags(f *client.Forecast) string {
	var notes []string
	for _, flag := range f.Flags {
		notes = append(notes, cmp.Or(flagNotes[flag], flag))
	}
	if f.Old {
		notes = append(notes, "out of date")
	}
	return cmp.Or(strings.Join(notes, ", "), "-")
}

func printSteps(g *globals, list []client.Forecast) error {
	t := term.TableOf("FIGURE:s8|FROM|MEAN:r|MEDIAN:r|LOW:r|HIGH:r")
	now := g.now()
	for i := range list {
		f := &list[i]
		for _, s := range f.Steps {
			t.Add(figureTitle(f), s.At.In(now.Location()).Format("Jan 02 15:04"), formatValue(f.Figure, expectedValue(&s)),
				formatValue(f.Figure, s.Median), formatValue(f.Figure, s.Low), formatValue(f.Figure, s.High))
		}
	}
	return t.Print(g.screen())
}

func printNext(g *globals, list []client.NextFigure) error {
	runs := "1 run"
	if n := list[0].Runs; n > 1 {
		runs = fmt.Sprintf("the last %d runs", n)
	}
	if !slices.ContainsFunc(list, func(n client.NextFigure) bool { return n.Runs >= 3 }) {
		_, err := fmt.Fprintf(g.stdout, "Next run: %s ended well, three are needed for a prediction\n", runs)
		return err
	}
	fmt.Fprintf(g.stdout, "Next run, from %s that ended well\n", runs)
	t := term.TableOf("FIGURE|MEDIAN:r|90 % OF RUNS:r|ERROR:r|RUNS:r")
	words := map[string]string{"wall_seconds": "length", "cores_mean": "cores, mean", "memory_needed_peak_bytes": "memory needed, peak",
		"memory_peak_bytes": "memory peak, with page cache", "energy_joules": "energy"}
	if !slices.ContainsFunc(list, func(n client.NextFigure) bool { return n.Figure == "memory_needed_peak_bytes" }) {
		words["memory_peak_bytes"] = "memory peak" // accounting and sonar sample resident memory, which has none
	}
	for _, n := range list {
		between := "too few runs"
		if n.Runs >= 3 {
			between = formatValue(n.Figure, n.Low) + " to " + formatValue(n.Figure, n.High)
		}
		t.Add(words[n.Figure], formatValue(n.Figure, n.Median), between, term.Percent(n.Error), fmt.Sprint(n.Runs))
	}
	return t.Print(g.screen())
}

package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"reckon/internal/term"
	"reckon/web/client"
)

type queryOptions struct {
	expr          string
	at, rng, step string
	format        *choice
	formatSet     bool
}

func newQuery(g *globals) *cobra.Command {
	var o queryOptions
	cmd := &cobra.Command{
		Use:   "query 'PROMQL'",
		Short: "Query the time-series store in PromQL",
		Long: `Evaluate a PromQL expression on the server: at one moment, or over a time with
--range, which draws a chart. Put the expression in single quotes.

Metric names start with reckon_ (per workload) and node_ (machines);
PromQL is described at https://prometheus.io/docs/prometheus/latest/querying/basics/.`,
		Example: `  reckon query 'sum by (owner) (rate(reckon_workload_cpu_seconds_total[5m]))'
  reckon query 'topk(5, reckon_workload_memory_peak_bytes)'
  reckon query --range 2h 'sum(rate(reckon_workload_cpu_seconds_total[1m]))'
  reckon query --range 1d --step 1h --format csv 'node_load1' > load.csv`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.expr, o.formatSet = args[0], cmd.Flags().Changed("format")
			return runQuery(cmd.Context(), g, o)
		},
	}
	cmd.Flags().StringVar(&o.at, "at", "", "moment to ask for, or end of the range (default now)")
	cmd.Flags().StringVar(&o.rng, "range", "", "ask for this long a time before --at: 30m, 2h, 7d")
	cmd.Flags().StringVar(&o.step, "step", "", "length of a step of the range (default: about 120 steps)")
	o.format = g.shared.addFormatFlag(cmd, "table", "chart", "json", "csv")
	cmd.Flags().Lookup("format").DefValue = "table, chart with --range"
	return cmd
}

func runQuery(ctx context.Context, g *globals, o queryOptions) error {
	now := g.now()
	at, err := parseTime("at", o.at, now)
	if err != nil {
		return err
	}
	length, err := parseSpan("range", o.rng)
	if err != nil {
		return err
	}
	step, err := parseSpan("step", o.step)
	if err != nil {
		return err
	}
	if length == 0 && (step != 0 || o.format.value == "chart") {
		return &usageError{fmt.Errorf("--step and --format chart need a range; add --range 1h")}
	}
	c, err := g.newClient()
	if err != nil {
		return err
	}
	var res client.Result
	if length == 0 {
		res, err = c.Query(ctx, o.expr, at)
	} else {
		if at.IsZero() {
			at = now
		}
		step = cmp.Or(step, max((length/120).Round(time.Second), time.Second))
		res, err = c.QueryRange(ctx, o.expr, at.Add(-length), at, step)
	}
	if err != nil {
		return err
	}
	g.reportMissing(res.Warnings)
	sortByLabels(res, o.expr)
	format := o.format.value
	if length != 0 && !o.formatSet {
		format = "chart"
	}
	switch format {
	case "json":
		return writeJSON(g.stdout, res)
	case "csv":
		return writeResultCSV(g, res)
	case "chart":
		return printResultCharts(g.screen(), res, at.Add(-length), at, step)
	}
	return printResultTable(g, res)
}

// rankedExpr matches PromQL expressions that order their result.
var rankedExpr = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*(sort|topk|bottomk|limitk)`)
})

// sortByLabels sorts the series by label, because the order of most results is undefined.
func sortByLabels(res client.Result, expr string) {
	if rankedExpr().MatchString(expr) {
		return
	}
	names := labelNames(res)
	slices.SortStableFunc(res.Series, func(a, b client.Series) int {
		for _, n := range names {
			if c := strings.Compare(a.Metric[n], b.Metric[n]); c != 0 {
				return c
			}
		}
		return 0
	})
}

// labelNames returns the labels of all the series, the name of the metric first.
func labelNames(res client.Result) []string {
	seen := map[string]bool{}
	for _, s := range res.Series {
		for name := range s.Metric {
			seen[name] = true
		}
	}
	var out []string
	if seen["__name__"] {
		out = append(out, "__name__")
		delete(seen, "__name__")
	}
	return append(out, slices.Sorted(maps.Keys(seen))...)
}

func printResultTable(g *globals, res client.Result) error {
	if len(res.Series) == 0 {
		fmt.Fprintln(g.stderr, "no series matches; check names with `reckon query 'count by (__name__) ({__name__=~\".+\"})'`")
		return nil
	}
	names := labelNames(res)
	var columns []term.Column
	for _, n := range names {
		title := n
		if n == "__name__" {
			title = "metric"
		}
		columns = append(columns, term.Column{Title: strings.ToUpper(title), Shrink: 8})
	}
	withTime := res.Type == "matrix"
	if withTime {
		columns = append(columns, term.Column{Title: "TIME"})
	}
	columns = append(columns, term.Column{Title: "VALUE", Right: true})
	t := term.NewTable(columns...)
	for _, s := range res.Series {
		for _, p := range s.Samples {
			cells := make([]string, 0, len(columns))
			for _, n := range names {
				cells = append(cells, s.Metric[n])
			}
			if withTime {
				cells = append(cells, p.Time.Local().Format("2006-01-02 15:04:05"))
			}
			value := p.Value
			if v, err := strconv.ParseFloat(value, 64); err == nil && g.screen().Width > 0 && len(value) > 8 {
				value = strconv.FormatFloat(v, 'g', 7, 64) // in a pipe, CSV and JSON it is exact
			}
			if p.Histogram != nil {
				value = "histogram of " + value
			}
			t.Add(append(cells, value)...)
		}
	}
	return t.Print(g.screen())
}

func writeResultCSV(g *globals, res client.Result) error {
	names := labelNames(res)
	w := csv.NewWriter(g.stdout)
	_ = w.Write(append(slices.Clone(names), "time", "value")) // a csv.Writer returns its error from Error
	for _, s := range res.Series {
		for _, p := range s.Samples {
			var row []string
			for _, n := range names {
				row = append(row, client.CSVText(s.Metric[n]))
			}
			_ = w.Write(append(row, p.Time.Format(time.RFC3339Nano), p.Value))
		}
	}
	w.Flush()
	return w.Error()
}

const maxCharts = 8

// printResultCharts draws one chart per series. Steps without a sample are gaps.
func printResultCharts(s term.Screen, res client.Result, from, to time.Time, step time.Duration) error {
	if len(res.Series) == 0 {
		_, err := fmt.Fprintln(s, "no series matches in this time")
		return err
	}
	width := cmp.Or(s.Width, 80)
	for i, series := range res.Series {
		if i == maxCharts {
			_, err := fmt.Fprintf(s, "and %d more series; --format table lists them\n", len(res.Series)-maxCharts)
			return err
		}
		var points []term.Point
		next := from
		for _, p := range series.Samples {
			for ; p.Time.Sub(next) > step/2; next = next.Add(step) {
				points = append(points, term.Point{Time: next.Local()})
			}
			point := term.Point{Time: p.Time.Local()}
			if v, err := p.Float(); err == nil {
				point.Value = &v
			}
			points = append(points, point)
			next = next.Add(step)
		}
		for ; !next.After(to); next = next.Add(step) { // the series ended earlier
			points = append(points, term.Point{Time: next.Local()})
		}
		text := s.Draw(term.Chart{Title: term.Safe(seriesName(series.Metric)), Points: points, Format: formatPlain, Width: width,
			Height: 6})
		if _, err := fmt.Fprint(s, text); err != nil {
			return err
		}
	}
	return nil
}

func formatPlain(v *float64) string {
	if v == nil {
		return term.Unknown
	}
	return strconv.FormatFloat(*v, 'g', 4, 64)
}

// seriesName formats labels in PromQL syntax.
func seriesName(m map[string]string) string {
	keys := make([]string, 0, len(m))
	for k := range m {
		if k != "__name__" {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for i, k := range keys {
		keys[i] = k + "=" + strconv.Quote(m[k])
	}
	return m["__name__"] + "{" + strings.Join(keys, ", ") + "}"
}

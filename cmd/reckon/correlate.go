package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"reckon/analysis/correlate"
	"reckon/answer/dataset"
	"reckon/internal/term"
	"reckon/web/client"
)

type correlateOptions struct {
	columns []string
	maxLag  int
	limit   int
	format  *choice
}

// newCorrelate returns `reckon correlate`.
func newCorrelate(g *globals) *cobra.Command {
	var o correlateOptions
	cmd := &cobra.Command{
		Use:   "correlate FILE",
		Short: "Show which columns of a data set correlate, and at which lag",
		Long: `Show which columns of a data set go together, the strongest pair first. Each pair has
the coefficients of Pearson and Spearman, the lag of the best agreement, and the number
of points behind them.

The file is Parquet, or CSV with a header; - is standard input. It has a column of times
(time, timestamp or ts), columns of numbers, and columns of words as labels. Gaps are
empty fields. A change of label starts a new recording; lags do not cross it.

Readings of a time series resemble the ones before them. EFFECTIVE is the number of
independent points that they are worth; the band of 95 % rests on it.`,
		Example: `  reckon correlate measurements.csv
  reckon correlate measurements.csv --columns watts,cores --max-lag 300
  reckon correlate measurements.csv --format csv > pairs.csv
  reckon correlate measurements.parquet --format html > pairs.html`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runCorrelate(cmd, g, o, args[0]) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.columns, "columns", nil, "only these columns (default: all that hold numbers)")
	f.IntVar(&o.maxLag, "max-lag", 60, "longest lag to try, in rows; 0 tries none")
	f.IntVar(&o.limit, "limit", 50, "how many pairs to print, the strongest first; 0 is all")
	o.format = g.shared.addFormatFlag(cmd, "table", "csv", "svg", "html")
	return cmd
}

// maxPlotted is the maximum number of columns in a plot.
const maxPlotted = 60

// maxPairs limits the work: a thousand columns are half a million pairs.
const maxPairs = 50_000

func runCorrelate(cmd *cobra.Command, g *globals, o correlateOptions, name string) error {
	if o.maxLag < 0 || o.limit < 0 {
		return asUsageError(cmd, fmt.Errorf("--max-lag and --limit must not be below 0"))
	}
	frame, err := readFrame(g, name)
	if err != nil {
		return err
	}
	columns, err := pickColumns(frame, o.columns)
	if err != nil {
		return asUsageError(cmd, err)
	}
	if n := len(columns); n < 2 || n*(n-1)/2 > maxPairs {
		return asUsageError(cmd, fmt.Errorf("%s: %d columns of numbers; give 2 or more, and at most %d pairs of them, by --columns", name,
			n,
			maxPairs))
	}
	co := correlate.Options{MaxLag: o.maxLag, StepSeconds: rowSpacing(frame), Breaks: labelChanges(frame)}
	if o.maxLag == 0 {
		co.MaxLag = -1
	}
	m, err := correlate.Pairs(columns, co)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, w := range m.Warnings {
		fmt.Fprintln(g.stderr, "reckon: note: "+term.Safe(w))
	}
	pairs := m.Strongest()
	if o.limit > 0 && len(pairs) > o.limit {
		fmt.Fprintf(g.stderr, "reckon: note: %d of %d pairs; --limit 0 shows all\n", o.limit, len(pairs))
		pairs = pairs[:o.limit]
	}
	switch o.format.value {
	case "csv":
		return writePairsCSV(g.stdout, pairs)
	case "svg":
		if n := len(m.Names); n > maxPlotted {
			return asUsageError(cmd, fmt.Errorf("a plot of %d columns is unreadable; name at most %d with --columns", n, maxPlotted))
		}
		return writeMatrixSVG(g.stdout, m)
	case "html":
		if n := len(m.Names); n > maxPlotted {
			return asUsageError(cmd, fmt.Errorf("a plot of %d columns is unreadable; name at most %d with --columns", n, maxPlotted))
		}
		return writePairsHTML(g.stdout, name, m, pairs, columns)
	}
	return printPairs(g.screen(), pairs)
}

func readInput(g *globals, name string) ([]byte, error) {
	if name == "-" {
		text, err := io.ReadAll(g.stdin)
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		return text, nil
	}
	return os.ReadFile(name)
}

func pickColumns(frame *dataset.Frame, names []string) (out []correlate.Column, err error) {
	for _, c := range frame.Columns {
		if len(names) == 0 || slices.Contains(names, c.Name) {
			out = append(out, correlate.Column{Name: c.Name, Values: c.Values})
		}
	}
	for _, n := range names {
		if frame.Column(n) == nil {
			return nil, fmt.Errorf("--columns: there is no column of numbers called %q", n)
		}
	}
	return out, nil
}

// labelChanges returns the indexes of the rows that start with a different label.
func labelChanges(frame *dataset.Frame) (rows []int) {
	for i := 1; i < frame.Rows(); i++ {
		if slices.ContainsFunc(frame.Labels, func(l dataset.LabelColumn) bool { return l.Values[i] != l.Values[i-1] }) {
			rows = append(rows, i)
		}
	}
	return rows
}

// rowSpacing returns the time between rows in seconds. It returns 0 if the time varies within a recording. A lag of some
// rows is then not a fixed time.
func rowSpacing(frame *dataset.Frame) float64 {
	cuts, step := labelChanges(frame), int64(0)
	for i := 1; i < frame.Rows(); i++ {
		if _, cut := slices.BinarySearch(cuts, i); cut {
			continue
		}
		d := frame.Time[i] - frame.Time[i-1]
		if step != 0 && d != step {
			return 0
		}
		step = d
	}
	return float64(step) / 1000
}

func printPairs(s term.Screen, pairs []correlate.Pair) error {
	t := term.TableOf("COLUMN:s12|WITH:s12|PEARSON:r|95 % BAND:ro2|SPEARMAN:ro1|POINTS:r|EFFECTIVE:ro3|LAG:r|AT LAG:r")
	for _, p := range pairs {
		lag := strconv.Itoa(p.Lag) + " rows"
		if p.LagSeconds != 0 || p.Lag == 0 {
			lag = strconv.FormatFloat(p.LagSeconds, 'g', 6, 64) + " s"
		}
		if math.IsNaN(p.LagPearson) {
			lag = term.Unknown
		}
		band := term.Unknown
		if !math.IsNaN(p.Low) && !math.IsNaN(p.High) {
			band = formatCoef(p.Low) + " to " + formatCoef(p.High)
		}
		t.Add(p.A, p.B, formatCoef(p.Pearson), band, formatCoef(p.Spearman), strconv.Itoa(p.Points), formatWhole(p.Effective), lag,
			formatCoef(p.LagPearson))
	}
	return t.Print(s)
}

func formatCoef(v float64) string {
	if math.IsNaN(v) {
		return term.Unknown
	}
	return fmt.Sprintf("%+.2f", v)
}

func formatWhole(v float64) string {
	if math.IsNaN(v) {
		return term.Unknown
	}
	return fmt.Sprintf("%.0f", v)
}

// writePairsCSV writes every figure of the pairs as CSV. Unknown figures are empty.
func writePairsCSV(w io.Writer, pairs []correlate.Pair) error {
	out := csv.NewWriter(w)
	f := func(v float64) string {
		if math.IsNaN(v) {
			return ""
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	_ = out.Write([]string{"a", "b", "points", "effective", "pearson", "low", "high", "spearman", "lag_rows", "lag_seconds", "lag_pearson",
		"lag_points"})
	for _, p := range pairs {
		_ = out.Write([]string{client.CSVText(p.A), client.CSVText(p.B), strconv.Itoa(p.Points), f(p.Effective), f(p.Pearson), f(p.Low),
			f(p.High), f(p.Spearman),
			strconv.Itoa(p.Lag), f(p.LagSeconds), f(p.LagPearson), strconv.Itoa(p.LagPoints)})
	}
	out.Flush() // the first error persists and is returned here
	if err := out.Error(); err != nil {
		return fmt.Errorf("write pairs: %w", err)
	}
	return nil
}

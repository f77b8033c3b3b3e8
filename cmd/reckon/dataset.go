package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/answer/dataset"
	"reckon/internal/term"
	"reckon/metric"
	"reckon/web/client"
)

type datasetOptions struct {
	selectors      []string
	file           string
	by             []string
	from, to, step string
	gap, output    string
	format         *choice
}

// newDataset returns `reckon dataset`.
func newDataset(g *globals) *cobra.Command {
	var o datasetOptions
	cmd := &cobra.Command{
		Use:   "dataset --select SELECTOR",
		Short: "Make a data set of measured series, counters as rates",
		Long: `Make a data set of measured series. It has a row for each step of time and each set of
the labels in --by, and a column for each series. Counters (names that end in _total,
_sum, _count or _bucket) become rates a second, all others the mean of their samples in
the step. A gap is an empty field, never zero.

The samples come as they were stored, by the HTTP API of Prometheus: from reckon, or
by --server from any store that speaks it.

With --output FILE a data dictionary is written next to it, as FILE.json for programs
and FILE.md for people.`,
		Example: `  reckon dataset --select '{workload="slurm/4711"}' --from 2h > job.csv
  reckon dataset --select-file series.txt --format parquet -o all.parquet
  reckon dataset --server http://prometheus:9090 --select node_load1 --by instance`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDataset(cmd, g, o) },
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.selectors, "select", nil, "series: a PromQL selector such as node_load1{node=\"n1\"}; repeatable")
	f.StringVar(&o.file, "select-file", "", "file of selectors, one per line; # starts a comment")
	f.StringSliceVar(&o.by, "by", []string{"workload", "node"},
		"labels that become columns and distinguish rows; the others become part of the names of columns")
	f.StringVar(&o.from, "from", "1h", "start: a duration before now, or a time")
	f.StringVar(&o.to, "to", "now", "end")
	f.StringVar(&o.step, "step", "15s", "time between rows, 1ms or more")
	f.StringVar(&o.gap, "gap", "",
		"longest time without a sample that is bridged (default: five steps, or five times the spacing of the series)")
	o.format = g.shared.addFormatFlag(cmd, "csv", "parquet")
	g.shared.addFlag(cmd, "output", &o.output)
	return cmd
}

// maxDatasetSteps limits the rows of one set of labels.
const maxDatasetSteps = 10_000_000

func runDataset(cmd *cobra.Command, g *globals, o datasetOptions) error {
	now := g.now()
	from, err := parseTime("from", o.from, now)
	if err != nil {
		return err
	}
	to, err := parseTime("to", o.to, now)
	if err != nil {
		return err
	}
	step, err := parseSpan("step", o.step)
	if err != nil {
		return err
	}
	gap, err := parseSpan("gap", o.gap)
	if err != nil {
		return err
	}
	if !from.Before(to) || step < time.Millisecond || to.Sub(from)/step > maxDatasetSteps {
		return asUsageError(cmd, fmt.Errorf("--from, --to and --step: give a beginning before the end and 1 to %d steps of 1ms or more",
			maxDatasetSteps))
	}
	selectors, err := o.readSelectors()
	if err != nil {
		return asUsageError(cmd, err)
	}
	c, err := g.newClient()
	if err != nil {
		return err
	}
	series, err := fetchSeries(cmd.Context(), c, selectors, from, to)
	if err != nil {
		return err
	}
	if len(series) == 0 {
		return fmt.Errorf("no samples of %s between %s and %s", strings.Join(selectors, ", "), from.Format(time.RFC3339),
			to.Format(time.RFC3339))
	}
	grid := dataset.Grid{Start: from.Add(step).UnixMilli(), End: to.UnixMilli(), Step: step.Milliseconds(), By: o.by,
		Gap: gap.Milliseconds()}
	frame, warnings, err := dataset.Join(series, grid)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		fmt.Fprintln(g.stderr, "reckon: note: "+term.Safe(w))
	}
	return writeDataset(g, o, frame)
}

// readSelectors returns the selectors of the flags and of the file.
func (o *datasetOptions) readSelectors() ([]string, error) {
	out := slices.Clone(o.selectors)
	if o.file != "" {
		text, err := os.ReadFile(o.file)
		if err != nil {
			return nil, fmt.Errorf("--select-file: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				out = append(out, line)
			}
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no series selected: give --select SELECTOR or --select-file FILE")
	}
	return out, nil
}

// queryRange is the time range per query: client and server both limit the size of a response.
const queryRange = time.Hour

// fetchSeries reads the stored samples of the selected series. It includes samples before from that the first step
// needs. A series that matches several selectors is returned once.
func fetchSeries(ctx context.Context, c *client.Client, selectors []string, from, to time.Time) ([]dataset.Series, error) {
	from = from.Add(-5 * time.Minute)
	found := map[string]*dataset.Series{}
	for _, sel := range selectors {
		mine := map[string]*dataset.Series{} // found by an earlier selector: skip it in later ones
		for begin := from; begin.Before(to); begin = begin.Add(queryRange) {
			end := begin.Add(queryRange)
			if end.After(to) {
				end = to
			}
			// A range selector excludes its start, so that pieces do not overlap.
			r, err := c.Query(ctx, fmt.Sprintf("%s[%dms]", sel, end.Sub(begin).Milliseconds()), end)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", sel, err)
			}
			for _, s := range r.Series {
				one := newSeries(s.Metric)
				key := fmt.Sprint(one.Name, one.Labels)
				if found[key] != nil && mine[key] == nil {
					continue
				}
				if mine[key] == nil {
					mine[key], found[key] = one, one
				}
				for _, p := range s.Samples {
					if v, err := p.Float(); err == nil && p.Histogram == nil && !math.IsNaN(v) {
						mine[key].Points = append(mine[key].Points, dataset.Point{T: p.Time.UnixMilli(), V: v})
					}
				}
			}
		}
	}
	var out []dataset.Series
	for _, s := range found {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b dataset.Series) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(fmt.Sprint(a.Labels), fmt.Sprint(b.Labels)))
	})
	return out, nil
}

func newSeries(labels map[string]string) *dataset.Series {
	s := &dataset.Series{Name: labels["__name__"], Kind: metric.Gauge}
	for name, value := range labels {
		if name != "__name__" {
			s.Labels = append(s.Labels, dataset.Label{Name: name, Value: value})
		}
	}
	slices.SortFunc(s.Labels, func(a, b dataset.Label) int { return strings.Compare(a.Name, b.Name) })
	for _, end := range []string{"_total", "_sum", "_count", "_bucket"} {
		if strings.HasSuffix(s.Name, end) {
			s.Kind = metric.Counter
		}
	}
	return s
}

func writeDataset(g *globals, o datasetOptions, frame *dataset.Frame) error {
	var b bytes.Buffer
	write := frame.WriteCSV
	if o.format.value == "parquet" {
		write = frame.WriteParquet
	}
	if err := write(&b); err != nil {
		return err
	}
	if o.output == "" {
		_, err := g.stdout.Write(b.Bytes())
		return err
	}
	var js, md bytes.Buffer
	d := frame.Dictionary()
	if err := errors.Join(d.WriteJSON(&js), d.WriteMarkdown(&md)); err != nil {
		return err
	}
	for name, text := range map[string][]byte{o.output: b.Bytes(), o.output + ".json": js.Bytes(), o.output + ".md": md.Bytes()} {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			return err
		}
	}
	fmt.Fprintf(g.stderr, "reckon: %d rows, %d columns in %s; the columns are described in %s.md\n", frame.Rows(), len(frame.Columns),
		term.Safe(o.output), term.Safe(o.output))
	return nil
}

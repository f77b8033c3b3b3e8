package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/answer/dataset"
	"reckon/internal/term"
	"reckon/lab/experiment"
	"reckon/lab/stress"
	"reckon/web/client"
)

type experimentOptions struct {
	output string
	check  bool
	noData bool
	domain string
	format *choice
}

// newExperiment returns `reckon experiment`.
func newExperiment(g *globals) *cobra.Command {
	var o experimentOptions
	cmd := &cobra.Command{
		Use:   "experiment FILE.yaml",
		Short: "Run a plan of loads and commands, and keep the measurements",
		Long: `Run a plan: loads (as of ` + "`reckon stress`" + `) and commands, repeated, with pauses between
them, in an order determined by a seed. The start and end of each run are marked. The
measurements of the server become a data set: one row for each step of time, with the
run in the column workload. Rows between runs are "idle"; rows on the edge of a run are
left out.

Without columns: or select: in the plan the columns are the power of the node, or of
the --domain, and the series that explain it, ready for ` + "`reckon power fit`" + `.

The folder of --output holds data.csv (or .parquet) with its data dictionary, marks.csv,
the plan, and the output of each run. A load writes its target and the achieved amounts.
The first signal stops the present run; finished runs are kept.

For runs of a few seconds let the server sample as finely:
  reckon up --export 1s`,
		Example: `  reckon experiment plan.yaml --output run1
  reckon power fit run1/data.csv -o node.json

A plan:
  seed: 7
  repeat: 3
  shuffle: true
  pause: 30s
  measure: {step: 15s}
  runs:
    - {name: half, stress: {cpu: allx50%, for: 3m}}
    - {name: disk, stress: {disk: write=20MB/s, for: 3m}}
    - {name: build, command: [make, -j2], timeout: 10m}`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runExperiment(cmd, g, o, args[0]) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "",
		"folder for the results; it must not exist yet, or be empty (default: the name of the plan and the time)")
	g.shared.addFlag(cmd, "domain", &o.domain)
	f.BoolVar(&o.check, "check", false, "dry run: print the steps and how long they take")
	f.BoolVar(&o.noData, "no-data", false, "run and mark only; ask no server")
	o.format = g.shared.addFormatFlag(cmd, "csv", "parquet")
	return cmd
}

func runExperiment(cmd *cobra.Command, g *globals, o experimentOptions, name string) error {
	text, err := readInput(g, name)
	if err != nil {
		return err
	}
	p, err := experiment.Read(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	programs, err := preparePrograms(cmd, g, p)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if o.check {
		return printPlan(g, p, programs)
	}
	var m *measurement
	if !o.noData {
		if m, err = newMeasurement(cmd.Context(), g, p.Measure, o.domain); err != nil {
			return fmt.Errorf("%w; --no-data runs the plan without a server", err)
		}
	}
	if o.output == "" {
		o.output = strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)) + g.now().Format("-20060102-150405")
	}
	if err := makeEmptyDir(o.output); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.output, "plan.yaml"), text, 0o644); err != nil {
		return err
	}
	begin := g.now()
	marks, ran := newRunner(g, o.output, programs).Do(cmd.Context(), p)
	var b bytes.Buffer
	if err := experiment.WriteMarks(&b, marks); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.output, "marks.csv"), b.Bytes(), 0o644); err != nil {
		return err
	}
	if m != nil && len(marks) > 0 {
		// Also after a signal: the completed part is worth keeping.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), 5*time.Minute)
		defer cancel()
		if err := m.saveDataset(ctx, g, o, marks, begin, g.now()); err != nil {
			return errors.Join(ran, err)
		}
	}
	failed := 0
	for _, k := range marks {
		if k.Failed != "" {
			failed++
		}
	}
	fmt.Fprintf(g.stderr, "reckon: %d runs, %d failed; everything is in %s\n", len(marks), failed, term.Safe(o.output))
	if ran == nil && failed > 0 {
		return runExit(1)
	}
	return ran
}

// makeEmptyDir creates a folder or accepts an empty one, so that experiments are never mixed.
func makeEmptyDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("--output %s holds files already; name another folder", dir)
	}
	return err
}

// preparePrograms prepares the programs of all runs before the first one starts.
func preparePrograms(cmd *cobra.Command, g *globals, p *experiment.Plan) (map[string]load, error) {
	out := map[string]load{}
	for i, r := range p.Runs {
		if len(r.Stress) == 0 {
			if _, err := exec.LookPath(r.Command[0]); err != nil {
				return nil, fmt.Errorf("run %q: %w", r.Name, err)
			}
			continue
		}
		// The flags of `reckon stress` by name, with its defaults and errors.
		var so stressOptions
		sub := stressCommand(g, &so)
		for _, flag := range slices.Sorted(mapKeys(r.Stress)) {
			known := sub.Flags().Lookup(flag)
			if known == nil || slices.Contains([]string{"format", "output", "strict", "quiet", "net-sink"}, flag) {
				return nil, fmt.Errorf("run %q: stress has no %q; see `reckon stress --help`", r.Name, flag)
			}
			if err := sub.Flags().Set(flag, r.Stress[flag]); err != nil {
				return nil, fmt.Errorf("run %q: %s: %w", r.Name, flag, err)
			}
		}
		if !sub.Flags().Changed("seed") {
			if err := sub.Flags().Set("seed", fmt.Sprint(p.Seed+uint64(i))); err != nil {
				return nil, err
			}
		}
		length, err := parseSpan("for", so.length)
		if err != nil {
			return nil, fmt.Errorf("run %q: %w", r.Name, err)
		}
		if out[r.Name], err = so.buildLoad(sub, g, length); err != nil {
			return nil, fmt.Errorf("run %q: %w", r.Name, err)
		}
	}
	return out, nil
}

func mapKeys(m map[string]string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func printPlan(g *globals, p *experiment.Plan, programs map[string]load) error {
	order := p.Order()
	t := term.TableOf("#:r|RUN:s10|REPETITION:r|AT MOST:r|WHAT:s20w")
	total := time.Duration(p.Pause) * time.Duration(len(order)+1)
	for i, turn := range order {
		length, what := time.Duration(turn.Run.Timeout), strings.Join(turn.Run.Command, " ")
		if len(turn.Run.Command) > 0 && length == 0 {
			length = time.Hour
		}
		if l, ok := programs[turn.Run.Name]; ok {
			length, what = l.program.Duration(), "load"
			for _, k := range slices.Sorted(mapKeys(turn.Run.Stress)) {
				what += " " + k + " " + turn.Run.Stress[k]
			}
		}
		total += length
		t.Add(fmt.Sprint(i+1), turn.Run.Name, fmt.Sprint(turn.Repetition), length.String(), what)
	}
	if err := t.Print(g.screen()); err != nil {
		return err
	}
	_, err := fmt.Fprintf(g.stdout, "\n%d runs, at most %s with pauses of %s.\n", len(order), total, time.Duration(p.Pause))
	return err
}

func newRunner(g *globals, dir string, programs map[string]load) *experiment.Runner {
	file := func(t experiment.Turn, ext string) string {
		return filepath.Join(dir, fmt.Sprintf("%s-%d%s", t.Run.Name, t.Repetition, ext))
	}
	return &experiment.Runner{
		Stress: func(ctx context.Context, t experiment.Turn) error {
			l := programs[t.Run.Name]
			report, err := stress.Run(ctx, l.program, l.options)
			if err != nil {
				return err
			}
			for _, w := range report.Warnings {
				fmt.Fprintln(g.stderr, "reckon: warning: "+term.Safe(w))
			}
			var b bytes.Buffer
			if err := writeStress(g, &b, report, "csv"); err != nil {
				return err
			}
			return os.WriteFile(file(t, ".csv"), b.Bytes(), 0o644)
		},
		Output: func(t experiment.Turn) (io.WriteCloser, error) { return os.Create(file(t, ".log")) },
		Before: func(t experiment.Turn, n, of int) {
			fmt.Fprintf(g.stderr, "reckon: run %d of %d: %s, repetition %d\n", n, of, term.Safe(t.Run.Name), t.Repetition)
		},
		After: func(m experiment.Mark) {
			if m.Failed != "" {
				fmt.Fprintf(g.stderr, "reckon: %s failed: %s\n", term.Safe(m.Name), term.Safe(m.Failed))
			}
		},
		Clock: g.now,
	}
}

// measurement queries a server for the measurements of an experiment.
type measurement struct {
	c       *client.Client
	plan    experiment.Measure
	step    time.Duration
	columns []dataset.PowerFeature
}

// newMeasurement checks that the server has the required series before the first run.
func newMeasurement(ctx context.Context, g *globals, p experiment.Measure, domain string) (*measurement, error) {
	if err := checkDomain(domain); err != nil {
		return nil, err
	}
	c, err := g.newClient()
	if err != nil {
		return nil, err
	}
	m := &measurement{c: c, plan: p, step: time.Duration(p.Step)}
	if m.step == 0 {
		m.step = 15 * time.Second
	}
	for _, name := range slices.Sorted(mapKeys(p.Columns)) {
		col, known := dataset.FindPowerFeature(name)
		if expr := p.Columns[name]; !known || expr != "" && expr != name {
			col = dataset.PowerFeature{Name: name, Expr: expr}
		}
		m.columns = append(m.columns, col)
	}
	if len(p.Columns) == 0 && len(p.Select) == 0 {
		if m.columns, err = m.powerFeatures(ctx, g, domain); err != nil {
			return nil, err
		}
	}
	for _, col := range m.columns {
		got, err := m.querySeries(ctx, col.Expr, g.now().Add(-time.Minute), g.now())
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", col.Name, err)
		}
		if _, own := p.Columns[col.Name]; own && len(got) == 0 {
			return nil, fmt.Errorf(
				"column %s: the server has no data of the last minute for %s; mend the expression, or wait until it is measured", col.Name,
				col.Expr)
		}
	}
	return m, nil
}

// powerFeatures returns expressions for the power of the node and its features.
func (m *measurement) powerFeatures(ctx context.Context, g *globals, domain string) ([]dataset.PowerFeature, error) {
	const instead = "name a series under columns: watts: in the measure: of the plan"
	now := g.now()
	if m.plan.Node == "" {
		node, err := meteredNode(ctx, g, m.c, domain, now.Add(-10*time.Minute), now)
		if err != nil {
			return nil, suggestInstead(err, domain, instead)
		}
		m.plan.Node = node
	}
	for _, way := range dataset.PowerMeters(domain) {
		got, err := m.querySeries(ctx, way, now.Add(-10*time.Minute), now)
		if err != nil {
			return nil, err
		}
		if len(got) > 0 {
			return append([]dataset.PowerFeature{{Name: "watts", Unit: "W", Expr: way}}, dataset.PowerFeatures()...), nil
		}
	}
	return nil, noMeterError(domain, instead)
}

func (m *measurement) window() time.Duration { return 4 * m.step }

func (m *measurement) querySeries(ctx context.Context, expr string, from, to time.Time) (map[int64]float64, error) {
	return querySeries(ctx, m.c, dataset.OnNode(expr, m.plan.Node, m.window()), from, to, m.step)
}

// saveDataset writes the data set to the folder.
func (m *measurement) saveDataset(ctx context.Context, g *globals, o experimentOptions, marks []experiment.Mark, from, to time.Time) error {
	if err := m.waitForSamples(ctx, to); err != nil {
		return err
	}
	frame, err := m.fetchFrame(ctx, from, to)
	if err != nil {
		return err
	}
	whole := frame.Rows()
	labelRuns(frame, marks, m.window())
	for _, k := range marks {
		if runs := frame.Label("workload"); !slices.Contains(runs.Values, k.Name) {
			fmt.Fprintf(
				g.stderr, "reckon: note: no row is within %s: it is shorter than %s; make it longer, or the step shorter and let the "+
					"server export as often (`reckon up --export %s`)\n", term.Safe(k.Name), m.window(), m.step)
		}
	}
	if frame.Rows() == 0 {
		return fmt.Errorf("none of %d rows is within a run or a pause", whole)
	}
	return writeDataset(g, datasetOptions{output: filepath.Join(o.output, "data."+o.format.value), format: o.format}, frame)
}

// waitForSamples waits until the server has samples from the time end, or gets no more samples.
func (m *measurement) waitForSamples(ctx context.Context, end time.Time) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range 60 {
		r, err := m.c.Query(ctx, dataset.OnNode(`max(timestamp(node_cpu_seconds_total{mode="idle",NODE}))`, m.plan.Node, m.window()),
			time.Time{})
		if err != nil {
			return err
		}
		for _, s := range r.Series {
			for _, p := range s.Samples {
				if v, err := p.Float(); err == nil && v >= float64(end.Unix()) {
					return nil
				}
			}
		}
		if len(r.Series) == 0 {
			return nil // a store without our series of the machine
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

func (m *measurement) fetchFrame(ctx context.Context, from, to time.Time) (*dataset.Frame, error) {
	f := &dataset.Frame{StepSeconds: m.step.Seconds()}
	begin := from.Truncate(m.step).Add(m.step)
	for at := begin; !at.After(to); at = at.Add(m.step) {
		f.Time = append(f.Time, at.UnixMilli())
	}
	for _, col := range m.columns {
		values, err := m.querySeries(ctx, col.Expr, begin, to)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", col.Name, err)
		}
		if len(values) == 0 {
			continue // not measured on this node
		}
		c := dataset.Column{Name: col.Name, Unit: col.Unit, Help: col.Help, Source: dataset.OnNode(col.Expr, m.plan.Node, m.window()),
			Values: make([]float64, len(f.Time))}
		for i, t := range f.Time {
			c.Values[i] = math.NaN()
			if v, ok := values[t]; ok {
				c.Values[i] = v
			}
		}
		f.Columns = append(f.Columns, c)
	}
	if len(m.plan.Select) > 0 && len(f.Time) > 0 {
		series, err := fetchSeries(ctx, m.c, m.plan.Select, from, to)
		if err != nil {
			return nil, err
		}
		joined, _, err := dataset.Join(series, dataset.Grid{Start: f.Time[0], End: f.Time[len(f.Time)-1], Step: m.step.Milliseconds()})
		if err != nil {
			return nil, err
		}
		f.Columns = append(f.Columns, joined.Columns...)
	}
	if len(f.Columns) == 0 {
		return nil, errors.New("the server has no samples of that time; is `reckon up` still running?")
	}
	return f, nil
}

// labelRuns assigns each row to its run, and drops rows at the edges of runs.
func labelRuns(f *dataset.Frame, marks []experiment.Mark, window time.Duration) {
	var runs, reps []string
	var keep []int
	for i, t := range f.Time {
		at := time.UnixMilli(t)
		if name, rep, ok := experiment.RunAt(marks, at.Add(-window), at); ok {
			keep, runs, reps = append(keep, i), append(runs, name), append(reps, fmt.Sprint(rep))
		}
	}
	times := make([]int64, len(keep))
	for to, i := range keep {
		times[to] = f.Time[i]
	}
	for c := range f.Columns {
		values := make([]float64, len(keep))
		for to, i := range keep {
			values[to] = f.Columns[c].Values[i]
		}
		f.Columns[c].Values = values
	}
	f.Time = times
	f.Labels = []dataset.LabelColumn{{Name: "workload", Values: runs}, {Name: "repetition", Values: reps}}
}

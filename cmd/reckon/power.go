package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"reckon/account/attribution/powermodel"
	"reckon/analysis/powerfit"
	"reckon/answer/dataset"
	"reckon/internal/term"
)

// newPower returns `reckon power`.
func newPower(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "power",
		Short: "Fit, explain and evaluate models of the power that a machine draws",
		Long: `Fit, explain and evaluate models that turn a machine's counters (CPU use, cycles,
memory, disk and network traffic, GPU use) into the watts it draws. A model is a
small file; give it to ` + "`reckon up --set power-model=FILE`" + ` or to the agents of machines
that have no meter.

Errors are those on work that the model has not seen: whole workloads or blocks of time
are left out in turn. The mean power is the baseline; a model must be better.`,
		Example: `  reckon power fit measurements.csv -o node.json     from a data set
  reckon power fit --node n1 --from 1d -o n1.json    from the server's measurements
  reckon power show node.json --at cpu_utilization=0.4
  reckon power eval node.json other-day.csv
  reckon power compare measurements.csv
  reckon power builtin --cpu "AMD EPYC 7763" --cores 64 --memory 256GiB`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	in := newPowerInput()
	cmd.AddCommand(newPowerFit(g, in), newPowerShow(g), newPowerEval(g, in), newPowerCompare(g, in), newPowerBuiltin(g))
	return cmd
}

type powerFit struct {
	in       *powerInput
	families []string
	name     string
	licence  string
	machine  powermodel.Machine
	output   string
	honest   bool
	format   *choice
}

func newPowerFit(g *globals, in *powerInput) *cobra.Command {
	o := powerFit{in: in}
	cmd := &cobra.Command{
		Use:   "fit [FILE]",
		Short: "Fit a model to measured power",
		Long: `Fit a model to measured power: of a data set (CSV or Parquet, as ` + "`reckon dataset`" + `
and ` + "`reckon experiment`" + ` make it; - is standard input), or without a file of what the
server has measured of a node.

Every family is tried on work it has not seen, and the best one is fitted to all of
it: ` + strings.Join(powerfit.Families(), ", ") + `.`,
		Example: `  reckon power fit measurements.csv -o node.json
  reckon power fit run.parquet --power wall_watts --feature cpu_utilization --family root
  reckon power fit --node n1 --from 7d -o n1.json
  reckon power fit --domain gpu --from 1d -o gpu.json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.runPowerFit(cmd, g, args) },
	}
	cmd.Flags().AddFlagSet(o.in.flags)
	f := cmd.Flags()
	f.StringSliceVar(&o.families, "family", nil, "try only these families (default: all)")
	f.StringVar(&o.name, "name", "", "short description of the modelled hardware")
	g.shared.addFlag(cmd, "domain", &o.in.domain)
	f.StringVar(&o.licence, "licence", "", "licence of the data, kept in the model")
	f.StringVar(&o.machine.CPU, "cpu", "", "model name of the CPU that was measured: other machines then refuse the model")
	f.IntVar(&o.machine.Cores, "cores", 0, "its physical cores, kept in the model")
	f.IntVar(&o.machine.Sockets, "sockets", 0, "its sockets, kept in the model")
	f.BoolVar(&o.honest, "nested", true,
		"state the error of choosing and fitting together (slower); without it the error of the chosen family, which is too small")
	g.shared.addFlag(cmd, "output", &o.output)
	o.format = g.shared.addFormatFlag(cmd, "table", "json")
	completeWords(cmd, "family", powerfit.Families()...)
	return cmd
}

func (o *powerFit) runPowerFit(cmd *cobra.Command, g *globals, args []string) error {
	if err := checkDomain(o.in.domain); err != nil {
		return err
	}
	for _, f := range o.families {
		if !slices.Contains(powerfit.Families(), f) {
			return asUsageError(cmd, fmt.Errorf("unknown --family %q; use some of %s", f, strings.Join(powerfit.Families(), ", ")))
		}
	}
	d, source, err := o.in.readData(cmd.Context(), g, firstArgument(args))
	if err != nil {
		return err
	}
	options := powerfit.Options{Seed: o.in.seed, Families: o.families, Name: o.name, Domain: cmp.Or(o.in.domain, "node"),
		Machine: o.machine, Source: source,
		Licence: o.licence}
	r, err := powerfit.Fit(d, options)
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	printNotes(g, append(r.Warnings, listUnbindable(r.Model)...))
	var nested *powerfit.Nested
	if o.honest {
		if nested, err = powerfit.Validate(d, options); err != nil {
			printNotes(g, []string{"the error of selection and fit together cannot be estimated: " + err.Error()})
		} else {
			nested.State(r)
		}
	}
	if o.output != "" {
		var b bytes.Buffer
		if err := r.Model.Write(&b); err != nil {
			return err
		}
		if err := os.WriteFile(o.output, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	if o.format.value == "json" {
		return printJSON(g, map[string]any{"source": source, "protocol": r.Protocol, "folds": r.Folds, "chosen": r.Chosen, "score": r.Score,
			"baseline": r.Baseline, "candidates": r.Candidates, "nested": nested, "warnings": r.Warnings})
	}
	if err := printCandidates(g, r, len(d.Features)); err != nil {
		return err
	}
	if nested != nil && r.Model.Training.Score.Points > 0 { // of fewer parts no error is stated
		fmt.Fprintf(g.stdout, "\nChoosing and fitting together, on work it had not seen: MAPE %s (worst %s), the mean power %s.\n",
			formatError(nested.Score.MAPE), formatError(nested.Score.Worst), formatError(nested.Baseline.MAPE))
	}
	switch {
	case o.output != "":
		fmt.Fprintf(g.stdout, "\nThe model is in %s. `reckon power show %s` explains it.\n", term.Safe(o.output), term.Safe(o.output))
	default:
		fmt.Fprintln(g.stdout, "\nNo file was written; give --output FILE to keep the model.")
	}
	return nil
}

// listUnbindable lists the features of a model that no agent could read.
func listUnbindable(m *powermodel.Model) (notes []string) {
	for _, f := range m.Features {
		if err := dataset.Bindable(f.Name, f.Source); err != nil && f.Lag == 0 {
			notes = append(notes, fmt.Sprintf("an agent cannot use this model: %v", err))
		}
	}
	return notes
}

func firstArgument(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func printNotes(g *globals, warnings []string) {
	for _, w := range warnings {
		fmt.Fprintln(g.stderr, "reckon: note: "+term.Safe(w))
	}
}

func printJSON(g *globals, v any) error {
	enc := json.NewEncoder(g.stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// countColumns returns the number of columns that a model uses, regardless of lags.
func countColumns(m *powermodel.Model) int {
	names := map[string]bool{}
	for _, f := range m.Features {
		names[f.Name] = true
	}
	return len(names)
}

// printCandidates prints the error of every family next to the baseline.
func printCandidates(g *globals, r *powerfit.Result, given int) error {
	fmt.Fprintf(g.stdout, "%s rows, %d of %d features kept; judged by: %s (%d parts)\n\n",
		term.Number(new(float64(r.Model.Training.Rows))), countColumns(r.Model), given, r.Protocol, len(r.Folds))
	t := scoreTable("FAMILY")
	for _, c := range r.Candidates {
		name := c.Family
		if c.Family == r.Chosen {
			name += " *"
		}
		if c.Skipped != "" {
			t.Add(name, term.Unknown, term.Unknown, term.Unknown, term.Unknown, term.Unknown, c.Skipped)
			continue
		}
		addScore(t, name, c.Score, "")
	}
	if err := t.Print(g.screen()); err != nil {
		return err
	}
	verb := fmt.Sprintf("%s is chosen", r.Chosen)
	if r.Chosen == powerfit.Mean {
		verb = "no family beats the mean power, so the mean is chosen: these features do not explain the power"
	}
	_, err := fmt.Fprintf(g.stdout, "\n* %s. Errors are on work that was left out; the mean power alone has a MAPE of %s.\n", verb,
		formatError(r.Baseline.MAPE))
	return err
}

func scoreTable(first string) *term.Table {
	return term.TableOf(first + ":s10|MAPE:r|WORST PART:ro1|RMSE:r|R2:ro2|DRE:ro3|:s1o4")
}

func addScore(t *term.Table, name string, s powermodel.Score, note string) {
	t.Add(name, formatError(s.MAPE), formatError(s.Worst), term.Watts(&s.RMSE), formatFixed(s.R2), formatError(s.DRE), note)
}

// formatError formats a ratio in percent, with two digits if it is small.
func formatError(v float64) string {
	switch {
	case math.IsNaN(v):
		return term.Unknown
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.0f %%", 100*v)
	}
	return fmt.Sprintf("%.2f %%", 100*v)
}

func formatFixed(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return term.Unknown
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// readModel reads a model file.
func readModel(g *globals, name string) (*powermodel.Model, error) {
	text, err := readInput(g, name)
	if err != nil {
		return nil, err
	}
	m, err := powermodel.Read(bytes.NewReader(text))
	switch {
	case errors.Is(err, powermodel.ErrNewer):
		return nil, fmt.Errorf("%s: %w; use the reckon that made it, or fit it again", name, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

func newPowerEval(g *globals, in *powerInput) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "eval MODEL [FILE]",
		Short: "Evaluate a model on measurements that it was not fitted to",
		Long: `Judge a model by measurements that it was not made from: of a data set, or without a
file of the server's measurements. The mean power is judged beside it, and rows
outside the range that the model was trained on are counted.`,
		Example: `  reckon power eval node.json other-day.csv
  reckon power eval n1.json --node n1 --from 1d`,
		Args: cobra.RangeArgs(1, 2),
	}
	in.flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "seed" {
			cmd.Flags().AddFlag(f)
		}
	})
	format := g.shared.addFormatFlag(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m, err := readModel(g, args[0])
		if err != nil {
			return err
		}
		d, source, err := in.readData(cmd.Context(), g, firstArgument(args[1:]))
		if err != nil {
			return err
		}
		score, baseline, outside, err := scoreModel(m, d)
		if err != nil {
			return fmt.Errorf("%s on %s: %w", args[0], source, err)
		}
		if format.value == "json" {
			return printJSON(g, map[string]any{"model": m.Name, "data": source, "score": score, "baseline": baseline,
				"rows_outside_range": outside})
		}
		t := scoreTable("MODEL")
		addScore(t, cmp.Or(m.Name, args[0]), score, "")
		addScore(t, "mean power of the data", baseline, "baseline")
		if err := t.Print(g.screen()); err != nil {
			return err
		}
		fmt.Fprintf(g.stdout, "\n%d rows of %s.", score.Points, term.Safe(source))
		if score.MAPE >= baseline.MAPE {
			fmt.Fprint(g.stdout, " The model is worse than a constant: do not use it for this machine and work.")
		}
		if outside > 0 {
			fmt.Fprintf(g.stdout, " %d rows (%s) are outside the model's training range, where it extrapolates.", outside,
				formatError(float64(outside)/float64(len(d.Watts))))
		}
		fmt.Fprintln(g.stdout)
		return nil
	}
	return cmd
}

// scoreModel scores a model and the mean of the data, and counts rows outside the model's range.
func scoreModel(m *powermodel.Model, d powerfit.Data) (score, baseline powermodel.Score, outside int, err error) {
	if score, err = powerfit.Evaluate(m, d); err != nil {
		return score, baseline, 0, err
	}
	baseline = meanScore(d.Watts)
	names := make([]string, len(d.Features))
	for i, f := range d.Features {
		names[i] = f.Name
	}
	tr, err := powermodel.NewTracker(m, names)
	if err != nil {
		return score, baseline, 0, err
	}
	x := make([]float64, len(names))
	for row := range d.Watts {
		for i, f := range d.Features {
			x[i] = f.Values[row]
		}
		if tr.Observe(x).Outside > 0 {
			outside++
		}
	}
	return score, baseline, outside, nil
}

// meanScore returns the score of the mean power of the same rows, the best constant.
func meanScore(watts []float64) powermodel.Score {
	var n, sum float64
	low, high := math.Inf(1), math.Inf(-1)
	for _, w := range watts {
		if !math.IsNaN(w) {
			n, sum, low, high = n+1, sum+w, min(low, w), max(high, w)
		}
	}
	s := powermodel.Score{Points: int(n)}
	mean := sum / n
	for _, w := range watts {
		if !math.IsNaN(w) {
			s.RMSE += (w - mean) * (w - mean) / n
			if w > 0 {
				s.MAPE += math.Abs(w-mean) / w / n
			}
		}
	}
	s.RMSE = math.Sqrt(s.RMSE)
	s.DRE = s.RMSE / (high - low)
	s.Worst = s.MAPE
	return s
}

func newPowerCompare(g *globals, in *powerInput) *cobra.Command {
	o := powerFit{in: in}
	cmd := &cobra.Command{
		Use:   "compare FILE [MODEL...]",
		Short: "Compare families, or models, on one data set",
		Long: `Compare families on one data set, each on work that it has not seen. With MODEL files
compare those; they must not have been made from this data set.`,
		Example: `  reckon power compare measurements.csv
  reckon power compare wednesday.csv monday.json builtin.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, source, err := o.in.readData(cmd.Context(), g, args[0])
			if err != nil {
				return err
			}
			if len(args) == 1 {
				r, err := powerfit.Fit(d, powerfit.Options{Seed: o.in.seed, Source: source})
				if err != nil {
					return fmt.Errorf("%s: %w", source, err)
				}
				printNotes(g, r.Warnings)
				return printCandidates(g, r, len(d.Features))
			}
			t := scoreTable("MODEL")
			for _, name := range args[1:] {
				m, err := readModel(g, name)
				if err != nil {
					return err
				}
				score, _, outside, err := scoreModel(m, d)
				if err != nil {
					return fmt.Errorf("%s on %s: %w", name, source, err)
				}
				note := ""
				if outside > 0 {
					note = fmt.Sprintf("%d rows outside its range", outside)
				}
				addScore(t, name, score, note)
			}
			addScore(t, "mean power of the data", meanScore(d.Watts), "baseline")
			return t.Print(g.screen())
		},
	}
	cmd.Flags().AddFlagSet(o.in.flags)
	return cmd
}

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"reckon/account/attribution/powermodel"
	"reckon/figure/format"
	"reckon/internal/term"
	"reckon/lab/stress"
)

func newPowerShow(g *globals) *cobra.Command {
	var at []string
	cmd := &cobra.Command{
		Use:   "show MODEL",
		Short: "Explain a model in watts: coverage, error, contribution of each feature",
		Example: `  reckon power show node.json
  reckon power show node.json --at cpu_utilization=0.4 --at disk_bytes=2e6`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := readModel(g, args[0])
			if err != nil {
				return err
			}
			given, err := parseAssignments(m, at)
			if err != nil {
				return asUsageError(cmd, err)
			}
			return showModel(g, m, given)
		},
	}
	cmd.Flags().StringArrayVar(&at, "at", nil,
		"explain the power at this point: NAME=VALUE, repeatable (default: idle, half and full range)")
	return cmd
}

// parseAssignments parses NAME=VALUE; without any it returns nil.
func parseAssignments(m *powermodel.Model, texts []string) (map[string]float64, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	out := map[string]float64{}
	for _, a := range texts {
		name, text, ok := strings.Cut(a, "=")
		v, err := strconv.ParseFloat(text, 64)
		if !ok || err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("--at %q: give NAME=VALUE, such as cpu_utilization=0.4", a)
		}
		if !slices.ContainsFunc(m.Features, func(f powermodel.Feature) bool { return f.Name == name }) {
			return nil, fmt.Errorf("--at: the model has no feature %q; it has %s", name, strings.Join(featureNames(m), ", "))
		}
		out[name] = v
	}
	return out, nil
}

func featureNames(m *powermodel.Model) (names []string) {
	for _, f := range m.Features {
		if !slices.Contains(names, f.Name) {
			names = append(names, f.Name)
		}
	}
	return names
}

func showModel(g *globals, m *powermodel.Model, given map[string]float64) error {
	w := g.stdout
	tr := m.Training
	fmt.Fprintf(w, "%s\n", term.Safe(cmp.Or(m.Name, "power model")))
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "  %-12s %s\n", name, term.Safe(text))
		}
	}
	line("power of", m.Domain)
	line("machine", describeMachine(m.Machine))
	line("family", tr.Family)
	line("made from", tr.Source)
	if tr.Licence != tr.Source {
		line("licence", tr.Licence)
	}
	line("judged by", fmt.Sprintf("%s, %d rows", tr.Protocol, tr.Rows))
	stated := "MAPE " + formatError(tr.Score.MAPE)
	if tr.Score.Points == 0 {
		stated = "not stated: it was fitted to too little"
	} else if tr.Score.RMSE > 0 { // the built-in models have only the mean error
		stated += fmt.Sprintf(" (worst part %s), RMSE %s; the mean power alone: %s", formatError(tr.Score.Worst),
			term.Watts(&tr.Score.RMSE),
			formatError(tr.Baseline.MAPE))
	}
	line("error", stated)
	if tr.Score.Outside > 0 {
		line("outside", fmt.Sprintf("MAPE %s below the lowest and above the highest of the other levels", formatError(tr.Score.Outside)))
	}
	band := "not stated: it was fitted to too little"
	if m.Band.Coverage > 0 {
		band = fmt.Sprintf("%.0f %% of measurements were %s to %s of the modelled power", 100*m.Band.Coverage, formatError(m.Band.Low),
			formatError(m.Band.High))
	}
	line("band", band)
	if len(m.Features) == 0 {
		p := m.Predict(nil)
		between := ""
		if m.Band.Coverage > 0 {
			between = fmt.Sprintf(" (%s to %s)", term.Watts(&p.Low), term.Watts(&p.High))
		}
		_, err := fmt.Fprintf(w, "\nIt is the same power always: %s%s.\n", term.Watts(&p.Watts), between)
		return err
	}
	points := [][]float64{pointAt(m, 0), pointAt(m, 0.5), pointAt(m, 1)}
	titles := []string{"LOWEST", "HALF", "HIGHEST"}
	if given != nil {
		x := pointAt(m, 0)
		for i, f := range m.Features {
			if v, ok := given[f.Name]; ok {
				x[i] = v
			}
		}
		points, titles = [][]float64{x}, []string{"WATTS"}
	}
	return printContributions(g, m, points, titles)
}

// pointAt returns the point at a fraction of the range of every feature.
func pointAt(m *powermodel.Model, fraction float64) []float64 {
	x := make([]float64, len(m.Features))
	for i, f := range m.Features {
		x[i] = f.Min + fraction*(f.Max-f.Min)
	}
	return x
}

// printContributions prints the contribution of each feature at some points.
func printContributions(g *globals, m *powermodel.Model, points [][]float64, titles []string) error {
	columns := term.Columns("WHAT:s16|TRAINED FROM:ro2|TO:ro2|UNIT:o1")
	if len(points) == 1 {
		titles = append([]string{"AT"}, titles...)
	}
	for _, t := range titles {
		columns = append(columns, term.Column{Title: t, Right: true})
	}
	t := term.NewTable(columns...)
	watts := make([][]float64, len(points))
	base := make([]float64, len(points))
	for i, x := range points {
		watts[i] = make([]float64, len(m.Features))
		base[i] = m.Explain(x, watts[i])
	}
	row := func(cells []string, values func(i int) float64) {
		for i := range points {
			v := values(i)
			cells = append(cells, term.Watts(&v))
		}
		t.Add(cells...)
	}
	lead := func(name, from, to, unit, at string) []string {
		cells := []string{name, from, to, unit}
		if len(points) == 1 {
			cells = append(cells, at)
		}
		return cells
	}
	row(lead("without any", "", "", "", ""), func(i int) float64 { return base[i] })
	for k, f := range m.Features {
		name := f.Name
		if f.Lag > 0 {
			name += fmt.Sprintf(", %g s before", float64(f.Lag)*m.StepSeconds)
		}
		row(lead(name, formatNumber(f.Min), formatNumber(f.Max), f.Unit, formatNumber(points[0][k])),
			func(i int) float64 { return watts[i][k] })
	}
	row(lead("together", "", "", "", ""), func(i int) float64 { return m.Predict(points[i]).Watts })
	fmt.Fprintln(g.stdout)
	if err := t.Print(g.screen()); err != nil {
		return err
	}
	last := m.Predict(points[len(points)-1])
	if len(points) == 1 {
		if m.Band.Coverage > 0 {
			fmt.Fprintf(g.stdout, "\nMeasured power is between %s and %s in %.0f of 100 cases.\n", term.Watts(&last.Low),
				term.Watts(&last.High), 100*m.Band.Coverage)
		}
		if last.Outside > 0 {
			fmt.Fprintf(g.stdout, "Note: here it guesses. Values outside the range that it was trained on: %d of %d, furthest %s.\n",
				last.Outside, len(m.Features), m.Features[last.Furthest].Name)
		}
	}
	return nil
}

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

func describeMachine(m powermodel.Machine) string {
	var parts []string
	add := func(text string, v any, known bool) {
		if known {
			parts = append(parts, fmt.Sprintf(text, v))
		}
	}
	add("%s", m.Product, m.Product != "")
	add("%s", m.CPU, m.CPU != "")
	add("%s", format.Plural(float64(m.Sockets), "socket"), m.Sockets > 0)
	add("%s", format.Plural(float64(m.Cores), "core"), m.Cores > 0)
	add("%s memory", term.Bytes(&m.Memory), m.Memory > 0)
	add("%s", m.Arch, m.Arch != "")
	if len(parts) == 0 {
		return "any: the model names none"
	}
	return strings.Join(parts, ", ")
}

func newPowerBuiltin(g *globals) *cobra.Command {
	var m powermodel.Machine
	var family, memory, output string
	cmd := &cobra.Command{
		Use:   "builtin",
		Short: "Make a starting point for a server that was never measured",
		Long: `A starting point for a server without a meter: power by CPU use, averaged over published
SPECpower_ssj2008 results of its CPU family. The error is that of systems left out of the
average; it is large. A processor of an unknown family has no curve. For it, --family
takes one by name; "any server" is the average of all, and wrong by 70 % on small
boards. One day beside a meter and ` + "`reckon power fit`" + ` make a better model.`,
		Example: `  reckon power builtin --cpu "AMD EPYC 7763" --cores 64 --memory 256GiB -o g.json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if m.CPU == "" || m.Cores <= 0 || m.Sockets <= 0 || memory == "" {
				return asUsageError(cmd, errors.New("give --cpu, --cores, --sockets and --memory of the server"))
			}
			bytes, err := stress.ParseBytes(memory)
			if err != nil {
				return asUsageError(cmd, fmt.Errorf("--memory: %w", err))
			}
			m.Memory = bytes
			return writeBuiltin(g, m, family, output)
		},
	}
	f := cmd.Flags()
	f.StringVar(&m.CPU, "cpu", "", "model name of the CPU, as in /proc/cpuinfo")
	f.StringVar(&family, "family", "", "take the curve of this family, whatever the CPU is")
	f.IntVar(&m.Cores, "cores", 0, "physical cores of all sockets")
	f.IntVar(&m.Sockets, "sockets", 1, "sockets")
	f.StringVar(&memory, "memory", "", "memory installed, such as 384GiB")
	f.StringVar(&m.Arch, "arch", runtime.GOARCH, "architecture, amd64 or arm64")
	g.shared.addFlag(cmd, "output", &output)
	return cmd
}

func writeBuiltin(g *globals, machine powermodel.Machine, family, output string) error {
	m, err := powermodel.Builtin(machine)
	if family != "" {
		m, err = powermodel.BuiltinOf(family, machine)
	} else if errors.Is(err, powermodel.ErrNoFamily) {
		return fmt.Errorf("%w (--family %q takes the average of all servers, with a large error)", err, powermodel.AnyFamily)
	}
	if err != nil {
		return err
	}
	if output != "" {
		var b bytes.Buffer
		if err := m.Write(&b); err != nil {
			return err
		}
		if err := os.WriteFile(output, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return showModel(g, m, nil)
}

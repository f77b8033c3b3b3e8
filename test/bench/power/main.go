// Package power measures the power models of reckon on public data: the figure, the figure to beat and the goal. Each
// protocol is named in the row. Predicted parts are never seen in training: prior curves are learnt from systems with
// other CPU models, and families are chosen anew within the training part of every fold. The data are not part of the
// repository (doc/power-model-format.md names their sources); if it is missing, the program reports that.
package power

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"reckon/analysis/powerfit"
	"reckon/test/bench/measure"
)

// Run measures the error of the power models, or derives the embedded tables:
//
//	go run ./test/bench power [-data DIR] [-folds]
//	go run ./test/bench power -derive .
func Run(_ context.Context, e *measure.Env, args []string) error {
	def := cmp.Or(os.Getenv("RECKON_POWER_DATA"), "../shared/data/power")
	f := flag.NewFlagSet("power", flag.ContinueOnError)
	dir := f.String("data", def, "folder of the public power data (or RECKON_POWER_DATA)")
	root := f.String("derive", "", "derive the embedded tables into the repository at this path and end")
	folds := f.Bool("folds", false, "print every fold")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *root != "" {
		return deriveTables(*dir, *root)
	}
	return runBenchmarks(e.Out, *dir, *folds)
}

// tableRow is one line of the table; figures are in percent.
type tableRow struct {
	data, protocol, toBeat, goal string
	value, second                string
	ok                           bool
}

// runBenchmarks runs the benchmarks that find their data.
func runBenchmarks(w io.Writer, dir string, folds bool) error {
	var rows []tableRow
	for _, part := range []func(io.Writer, string, bool) ([]tableRow, error){specRows, allFamilies, orinRows} {
		r, err := part(w, dir, folds)
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(w, "skipped: %v (set -data or RECKON_POWER_DATA)\n", err)
			continue
		}
		if err != nil {
			return err
		}
		rows = append(rows, r...)
	}
	line := (&measure.Env{Out: w}).Table("", "data", "protocol", "error, %", "to beat", "goal", "", "")
	for _, r := range rows {
		verdict := "reached"
		if !r.ok {
			verdict = "MISSED"
		}
		line("%s | %s | %s | %s | %s | %s | %s", r.data, r.protocol, r.value, r.toBeat, r.goal, verdict, r.second)
	}
	return nil
}

func specRows(w io.Writer, dir string, _ bool) ([]tableRow, error) {
	systems, err := readSpec(dir)
	if err != nil {
		return nil, err
	}
	by, err := fitPriors(systems)
	if err != nil {
		return nil, err
	}
	measure := func(splits [][2][]int, f interpolator) (med, avg, worst, point float64, err error) {
		m, point, err := errorsBySystem(systems, splits, f)
		if err != nil {
			return 0, 0, 0, 0, err
		}
		return 100 * median(m), 100 * mean(m), 100 * slices.Max(m), 100 * point, nil
	}
	line := func(name, protocol string, splits [][2][]int, rivals map[string]interpolator, order []string, goal string, reached func(med,
		worst float64) bool) (tableRow, error) {
		med, avg, worst, point, err := measure(splits, ownFamily(by))
		if err != nil {
			return tableRow{}, err
		}
		r := tableRow{data: name, protocol: protocol, goal: goal, ok: reached(med, worst),
			value: fmt.Sprintf("%.2f (max %.2f)", med, worst)}
		var beat []string
		for _, n := range order {
			m, _, x, _, err := measure(splits, rivals[n])
			if err != nil {
				return tableRow{}, err
			}
			beat = append(beat, fmt.Sprintf("%s %.2f (max %.1f)", n, m, x))
		}
		r.toBeat = strings.Join(beat, ", ")
		r.second = fmt.Sprintf("%d systems; median over systems of the MAPE (max: worst system); mean %.2f, worst single point %.1f",
			len(systems), avg, point)
		return r, nil
	}
	a, err := line("SPECpower", "idle/10/50/100 known, the other loads", fourPoints(),
		map[string]interpolator{"pwl": piecewise}, []string{"pwl"}, "<= 2.0", func(m, _ float64) bool { return m <= 2 })
	if err != nil {
		return nil, err
	}
	b, err := line("SPECpower", "leave one load (10..90 %) out", leaveOneLoad(),
		map[string]interpolator{"poly5": polynomial(5), "poly9": polynomial(9)}, []string{"poly5", "poly9"}, "<= 1.45, max <= 6",
		func(m, x float64) bool { return m <= 1.45 && x <= 6 })
	return []tableRow{a, b}, err
}

func allFamilies(w io.Writer, dir string, folds bool) ([]tableRow, error) {
	return serverRows(w, dir, folds, nil)
}

// serverRows measures the wall-metered servers with the given families, nil for all.
func serverRows(w io.Writer, dir string, folds bool, families []string) ([]tableRow, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "canuto_*.csv.gz"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "canuto_*.csv.gz"), fs.ErrNotExist)
	}
	var rows []tableRow
	for _, p := range paths {
		d, err := readServer(dir, filepath.Base(p), true)
		if err != nil {
			return nil, err
		}
		r, err := powerfit.Validate(d, powerfit.Options{Seed: 1, Families: families})
		if err != nil {
			return nil, err
		}
		if folds {
			for i, f := range r.Folds {
				fmt.Fprintf(w, "  %-20s %-18s %-14s %5.2f (mean power %5.2f)\n", filepath.Base(p), f, r.Chosen[i], 100*r.Errors[i],
					100*r.BaselineErrors[i])
			}
		}
		m, x := 100*r.Score.MAPE, 100*r.Score.Worst
		better := r.Score.MAPE <= r.Baseline.MAPE && r.Score.RMSE <= r.Baseline.RMSE && r.Score.Worst <= r.Baseline.Worst
		rows = append(rows, tableRow{data: strings.TrimSuffix(filepath.Base(p), ".csv.gz"),
			protocol: "leave one workload out, choice nested",
			value:    fmt.Sprintf("%.2f (worst %.2f)", m, x), toBeat: "5.7-7.9 (worst 11.5-15.2)", goal: "<= 5 (<= 11)", ok: m <= 5 &&
				x <= 11 && better,
			second: fmt.Sprintf("mean power %.2f (worst %.2f); RMSE %.2f W, R2 %.3f, DRE %.3f; baseline RMSE %.2f W; %s",
				100*r.Baseline.MAPE, 100*r.Baseline.Worst, r.Score.RMSE, r.Score.R2, r.Score.DRE, r.Baseline.RMSE,
				strings.Join(r.Warnings, "; "))})
	}
	return rows, nil
}

func orinRows(w io.Writer, dir string, folds bool) ([]tableRow, error) {
	d, err := readOrin(dir)
	if err != nil {
		return nil, err
	}
	n := len(d.Watts) * 7 / 10
	train, test := rowRange(d, 0, n), rowRange(d, n, len(d.Watts))
	r, err := powerfit.Fit(train, powerfit.Options{Seed: 1, Domain: "board"})
	if err != nil {
		return nil, err
	}
	if folds {
		for _, c := range r.Candidates {
			fmt.Fprintf(w, "  orin, training part: %-12s %5.2f %s\n", c.Family, 100*c.Score.MAPE, c.Skipped)
		}
	}
	s, err := powerfit.Evaluate(r.Model, test)
	if err != nil {
		return nil, err
	}
	base := 100 * meanError(train, test)
	return []tableRow{{data: "AGX Orin", protocol: "first 70 % trains, last 30 % tests", value: fmt.Sprintf("%.2f", 100*s.MAPE),
		toBeat: fmt.Sprintf("trees 5.6, mean power %.1f", base), goal: "<= 5", ok: 100*s.MAPE <= 5 && 100*s.MAPE <= base,
		second: fmt.Sprintf("chosen on the training part: %s; RMSE %.2f W, R2 %.3f", r.Chosen, s.RMSE, s.R2)}}, nil
}

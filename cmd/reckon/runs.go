package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/internal/term"
	"reckon/web/client"
)

type runsOptions struct {
	filter       client.MetricRunFilter
	since, until string
	format       *choice
}

// newRuns returns `reckon runs`.
func newRuns(g *globals) *cobra.Command {
	var o runsOptions
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "Show what MetricSets measured on demand, and compare two runs",
		Long: `Measurements of MetricSets on demand: an application, a volume or a network, one run
each. A run belongs to the namespace of its MetricSet and outlives it.

reckon runs show prints one run, its samples as a plot, CSV or Parquet. reckon runs
compare compares two runs and marks differences that are noise.`,
		Example: `  reckon runs --namespace bench --since 7d
  reckon runs show demo-3f2a9c1b
  reckon runs show bench/demo-3f2a9c1b --format parquet > demo.parquet
  reckon runs compare demo-3f2a9c1b demo-77aa01c2`,
		Args: requireSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return listMetricRuns(cmd, g, o) },
	}
	f := cmd.Flags()
	f.StringSliceVarP(&o.filter.Namespaces, "namespace", "n", nil, "of these namespaces")
	f.StringSliceVar(&o.filter.Sets, "set", nil, "of MetricSets of these names")
	g.shared.addListFlag(cmd, "site", &o.filter.Sites)
	g.shared.addFlag(cmd, "since", &o.since)
	g.shared.addFlag(cmd, "until", &o.until)
	f.IntVar(&o.filter.Limit, "limit", 0, "at most this many (default 100)")
	o.format = g.shared.addFormatFlag(cmd, "table", "json", "csv")
	cmd.AddCommand(newRunsShow(g), newRunsCompare(g))
	return cmd
}

func listMetricRuns(cmd *cobra.Command, g *globals, o runsOptions) (err error) {
	if o.filter.Since, err = parseTime("since", o.since, g.now()); err != nil {
		return err
	}
	if o.filter.Until, err = parseTime("until", o.until, g.now()); err != nil {
		return err
	}
	c, err := g.newClient()
	if err != nil {
		return err
	}
	list, err := c.MetricRuns(cmd.Context(), o.filter)
	if err != nil {
		return err
	}
	switch o.format.value {
	case "json":
		return printJSON(g, list)
	case "csv":
		return writeRunsCSV(g, list.Runs)
	}
	if len(list.Runs) == 0 {
		fmt.Fprintln(g.stdout, "No run of a MetricSet is kept; `reckon docs experiments` describes how to make one.")
		return nil
	}
	t := term.TableOf("NAMESPACE:s8|RUN:s16|METRICS:s12|OUTCOME|STARTED|TOOK:r|SAMPLES:r|SITE:o1")
	for _, r := range list.Runs {
		t.Add(r.Namespace, r.Name, metricNames(&r), r.Outcome, term.Clock(r.Started, g.now()), formatRunTime(&r),
			strconv.FormatInt(r.Samples, 10),
			r.Site)
	}
	if err := t.Print(g.screen()); err != nil {
		return err
	}
	if more := list.Total - len(list.Runs); more > 0 {
		fmt.Fprintf(g.stdout, "\n%d more; --limit shows them.\n", more)
	}
	return nil
}

func metricNames(r *client.MetricRun) string {
	var names []string
	for _, m := range r.Metrics {
		if !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	return strings.Join(names, ", ")
}

func formatRunTime(r *client.MetricRun) string {
	if r.Finished == nil {
		return term.Unknown
	}
	s := r.Finished.Sub(r.Started).Seconds()
	return term.Seconds(&s)
}

// runRow is a run as a row of CSV.
type runRow struct {
	Namespace string     `json:"namespace"`
	Run       string     `json:"run"`
	Set       string     `json:"set"`
	Metrics   string     `json:"metrics"`
	Outcome   string     `json:"outcome"`
	Started   time.Time  `json:"started"`
	Finished  *time.Time `json:"finished"`
	Samples   int64      `json:"samples"`
	Site      string     `json:"site"`
}

func writeRunsCSV(g *globals, list []client.MetricRun) error {
	rows := make([]runRow, len(list))
	for i, r := range list {
		rows[i] = runRow{r.Namespace, r.Name, r.Set, metricNames(&r), r.Outcome, r.Started, r.Finished, r.Samples, r.Site}
	}
	return client.WriteCSV(g.stdout, rows)
}

// findRun returns the namespace and name of a run. word is NAMESPACE/NAME, or NAME if only one namespace has such a
// run. The name of a MetricSet selects its latest run.
func findRun(ctx context.Context, c *client.Client, word string) (namespace, name string, err error) {
	if namespace, name, ok := strings.Cut(word, "/"); ok {
		return namespace, name, nil
	}
	list, err := c.MetricRuns(ctx, client.MetricRunFilter{Names: []string{word}})
	if err == nil && len(list.Runs) == 0 {
		list, err = c.MetricRuns(ctx, client.MetricRunFilter{Sets: []string{word}})
	}
	if err != nil {
		return "", "", err
	}
	if len(list.Runs) == 0 {
		return "", "", fmt.Errorf("%s: no such run; `reckon runs` lists them", word)
	}
	first := list.Runs[0]
	for _, r := range list.Runs {
		if r.Namespace != first.Namespace {
			return "", "", &usageError{
				fmt.Errorf("%s is in the namespaces %s and %s; write %s/%s", word, first.Namespace, r.Namespace, first.Namespace, word)}
		}
	}
	return first.Namespace, first.Name, nil
}

func newRunsCompare(g *globals) *cobra.Command {
	var format *choice
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Show which differences between two runs are more than noise",
		Long: `compare prints every figure that both runs have, B against A: the difference, its
95 % confidence interval, and the test. Samples of one run resemble
each other; the test counts how many independent ones they are worth.

Two runs are two looks at a machine that changes. Several runs on each side, with commas
between them, show whether another run would differ too. Their samples are not compared.
One run against three or more earlier ones shows whether it is out of the ordinary.`,
		Example: `  reckon runs compare demo-3f2a9c1b demo-77aa01c2
  reckon runs compare a1,a2,a3 b1,b2,b3`,
		Args: cobra.ExactArgs(2),
		RunE: g.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			var sides [2][]string
			for i, arg := range args {
				for word := range strings.SplitSeq(arg, ",") {
					namespace, name, err := findRun(ctx, c, strings.TrimSpace(word))
					if err != nil {
						return err
					}
					sides[i] = append(sides[i], namespace+"/"+name)
				}
			}
			comparison, err := c.CompareMetricRuns(ctx, sides[0], sides[1])
			if err != nil {
				return err
			}
			return printComparison(g, format.value, comparison)
		}),
	}
	format = g.shared.addFormatFlag(cmd, "table", "json", "csv")
	return cmd
}

func printComparison(g *globals, format string, c client.MetricRunComparison) error {
	switch format {
	case "json":
		return printJSON(g, c)
	case "csv":
		return client.WriteCSV(g.stdout, c.Figures)
	}
	w := g.stdout
	fmt.Fprintf(w, "A  %s\nB  %s\n\n", term.Safe(strings.Join(c.A, ", ")), term.Safe(strings.Join(c.B, ", ")))
	if len(c.Figures) == 0 {
		return errors.New("the runs have no figure in common")
	}
	t := term.TableOf("JOB:s8o1|FIGURE:s12|A:r|B:r|B-A:r|BETWEEN:r|P:ro2|VERDICT")
	tests, whys := map[string]bool{}, map[string]bool{}
	for _, f := range c.Figures {
		ratio, between, p := term.Unknown, term.Unknown, term.Unknown
		if f.Ratio != nil {
			ratio = fmt.Sprintf("%+.1f %%", 100**f.Ratio)
		}
		if f.Low != nil && f.High != nil {
			between = formatUnit(*f.Low, f.Unit) + " .. " + formatUnit(*f.High, f.Unit)
		}
		if f.P != nil {
			p = strconv.FormatFloat(*f.P, 'f', 3, 64)
			if *f.P < 0.001 {
				p = "<0.001"
			}
		}
		tests[f.Test], whys[f.Why] = true, true
		t.Add(f.Job, f.Figure, formatUnit(f.A, f.Unit), formatUnit(f.B, f.Unit), ratio, between, p, f.Verdict)
	}
	if err := t.Print(g.screen()); err != nil {
		return err
	}
	for _, d := range c.Differs {
		fmt.Fprintf(w, "\nNot the same: %s",
			term.Safe(strings.TrimSpace(d.Job+" "+d.What)+": "+cmp.Or(d.A, "none")+" | "+cmp.Or(d.B, "none")))
	}
	if len(c.Differs) > 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "\nAll intervals and verdicts together hold with %.0f %% confidence.", 100*c.Level)
	for _, set := range []struct {
		word string
		set  map[string]bool
	}{{"Test", tests}, {"Untested", whys}} {
		delete(set.set, "")
		if len(set.set) > 0 {
			fmt.Fprintf(w, " %s: %s.", set.word, strings.Join(slices.Sorted(maps.Keys(set.set)), "; "))
		}
	}
	fmt.Fprintf(w, "\n%s\n", c.Scope)
	return nil
}

// formatUnit formats a figure with its unit.
func formatUnit(v float64, unit string) string {
	sign, size := "", v
	if v < 0 {
		sign, size = "-", -v
	}
	switch unit {
	case "bytes":
		return sign + term.Bytes(&size)
	case "bytes/s", "bytes_per_second":
		return sign + term.Rate(&size)
	case "seconds":
		if size < 1 {
			return sign + formatShortTime(size)
		}
		return sign + term.Seconds(&size)
	}
	return strings.TrimSpace(fmt.Sprintf("%.4g", v))
}

// formatShortTime formats a time below a second.
func formatShortTime(s float64) string {
	switch {
	case s == 0:
		return "0 s"
	case s < 1e-3:
		return fmt.Sprintf("%.3g us", 1e6*s)
	}
	return fmt.Sprintf("%.3g ms", 1e3*s)
}

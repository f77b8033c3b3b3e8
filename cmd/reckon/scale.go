package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"reckon/figure"
	"reckon/internal/term"
	"reckon/web/client"
)

func newScale(g *globals) *cobra.Command {
	var start, site string
	var format *choice
	cmd := &cobra.Command{
		Use:   "scale ID",
		Short: "Show whether more cores would make a workload faster",
		Long: `Show how well one workload used its cores, memory, GPUs, disk and network, and what
holds it back. Runs of the same name and owner with other numbers of cores show the
serial share of the work and its greatest speed. The laws are Amdahl's law and the
Universal Scalability Law, with the error of the fit.

One run shows whether it used its allocation. A law needs three sizes, runs that used
about the same CPU time, and no more speed than the busy cores allow. Work with GPUs is
compared by their number. CPU time that grows in step with the cores is named: the work
grew (weak scaling) or cores wait busily. It has no serial share.
Without a batch system a run counts with the cores that it used (p95).`,
		Example: `  reckon scale slurm/4711
  reckon scale 4711                      the same, when no other workload is called so
  reckon scale slurm/4711 --start 2026-11-20T10:00:00Z     an earlier run of the id
  reckon scale slurm/4711 --format json | jq .amdahl.speedup_limit`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: firstArg(g, completeIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &usageError{errors.New("no ID was given; give one that `reckon jobs` lists")}
			}
			return runScale(cmd.Context(), g, args[0], start, site, format.value)
		},
	}
	g.shared.addFlag(cmd, "start", &start)
	g.shared.addFlag(cmd, "site", &site)
	format = g.shared.addFormatFlag(cmd, "table", "json", "csv")
	return cmd
}

func runScale(ctx context.Context, g *globals, id, start, site, format string) error {
	id, at, err := parseRunID(id, start, g.now())
	if err != nil {
		return err
	}
	return printAnswer(ctx, g, format, func(ctx context.Context, c *client.Client) (output, error) {
		s, err := c.Scale(ctx, id, client.Range{Start: at, Site: site})
		return output{json: s, csv: csvOf(s.Runs), rows: 1, missing: s.Missing, // CSV lists the compared runs
			print: func(screen term.Screen) error { return printScale(screen, s, g.now()) }}, err
	})
}

func printScale(s term.Screen, scale client.Scale, now time.Time) error {
	p := &page{Screen: s}
	p.printHeader(scale.Workload, now)
	if len(scale.Resources) > 0 {
		t := term.TableOf("RESOURCE|ALLOCATED:r|MEAN:r|P50:r|P95:r|MAX:r|P95 OF ALLOCATED:r")
		for _, r := range scale.Resources {
			f := unitFormatter(r.Unit)
			t.Add(resourceName(r.Resource), f(r.Held), f(r.Mean), f(r.P50), f(r.P95), f(r.Max), term.Percent(figure.Ratio(r.P95, r.Held)))
		}
		if err := p.printTable(t); err != nil {
			return err
		}
	}
	p.printVerdicts(scale.Verdicts)
	best := betterLaw(scale)
	if best != nil {
		p.printSpeedups(scale, best)
	}
	if err := p.printSizes(scale, best); err != nil {
		return err
	}
	if scale.LeftOut > 0 {
		p.printf("\n%d more of this name do not count: they failed, were too short, or waited for cores", scale.LeftOut)
	}
	_, err := fmt.Fprint(s, p.b.String())
	return err
}

func resourceName(word string) string {
	if name := map[string]string{"gpus": "GPUs", "gpu_memory": "GPU memory"}[word]; name != "" {
		return name
	}
	return term.Safe(word)
}

// betterLaw returns the law behind the speed-ups of the runs: the richer one if the server found it clearly better.
func betterLaw(scale client.Scale) *client.ScaleFit {
	for _, f := range []*client.ScaleFit{scale.Amdahl, scale.USL} {
		if f == nil {
			continue
		}
		for _, r := range scale.Runs {
			if r.Speedup != nil && r.Seconds > 0 && math.Abs(*r.Speedup*r.Seconds/f.OneCore-1) < 1e-9 {
				return f
			}
		}
	}
	return nil
}

// printSpeedups draws the speed-up by cores: the runs, and the fitted law.
func (p *page) printSpeedups(d client.Scale, fit *client.ScaleFit) {
	law := "Amdahl's law"
	if fit.Crosstalk > 0 {
		law = "the Universal Scalability Law"
	}
	off := "which two sizes cannot test"
	if fit.Error != nil {
		off = "off by " + term.Percent(fit.Error)
	}
	unit := "cores"
	if d.SizeUnit == "gpus" {
		unit = "GPUs"
	}
	p.printf("\n%s (%s, %s)", p.Paint(term.Bold, "Speed-up by "+unit), law, off)
	width := cmp.Or(p.Width, 80)
	for _, line := range plotSpeedup(d, fit, min(width, 80), 10, p.ASCII) {
		p.printf("%s", line)
	}
}

// plotSpeedup draws the runs and the law over the number of cores, up to 1.5 times the largest size.
func plotSpeedup(d client.Scale, fit *client.ScaleFit, width, height int, ascii bool) []string {
	dot, run, axis, corner, rule := '·', '●', "┤", "└", "─"
	if ascii {
		dot, run, axis, corner, rule = '.', 'o', "|", "+", "-"
	}
	right, top := 2.0, 1.0
	for _, r := range d.Runs {
		right, top = max(right, r.Size(d.SizeUnit)*1.5), max(top, *r.Speedup)
	}
	columns := max(width-8, 20)
	at := func(column int) float64 { return 1 + (right-1)*float64(column)/float64(columns-1) }
	for c := range columns {
		top = max(top, fit.Speedup(at(c)))
	}
	top *= 1.05
	cells := make([][]rune, height)
	for i := range cells {
		cells[i] = []rune(fmt.Sprintf("%*s", columns, ""))
	}
	set := func(n, speed float64, mark rune) {
		c := int(math.Round((n - 1) / (right - 1) * float64(columns-1)))
		r := height - 1 - int(speed/top*float64(height))
		if c >= 0 && c < columns && r >= 0 && r < height {
			cells[r][c] = mark
		}
	}
	for c := range columns {
		set(at(c), fit.Speedup(at(c)), dot)
	}
	for _, r := range d.Runs {
		set(r.Size(d.SizeUnit), *r.Speedup, run)
	}
	var out []string
	for i, row := range cells {
		label := ""
		if i%3 == 0 {
			v := top * float64(height-i) / float64(height)
			label = fmt.Sprintf("%.1f", v)
		}
		out = append(out, fmt.Sprintf("%6s %s%s", label, axis, trimRight(row)))
	}
	line := ""
	for range columns {
		line += rule
	}
	out = append(out, fmt.Sprintf("%6s %s%s", "", corner, line))
	left, end := "1 core", fmt.Sprintf("%.0f cores", right)
	if d.SizeUnit == "gpus" {
		left, end = "1 GPU", fmt.Sprintf("%.0f GPUs", right)
	}
	return append(out, fmt.Sprintf("%8s%s%*s", "", left, columns-len(left), end))
}

func trimRight(row []rune) string {
	n := len(row)
	for n > 0 && row[n-1] == ' ' {
		n--
	}
	return string(row[:n])
}

func formatFactor(v *float64) string {
	if v == nil {
		return term.Unknown
	}
	return fmt.Sprintf("%.2f", *v)
}

// parseRunID splits ID@TIME, and parses --start. An id may itself contain an @.
func parseRunID(id, start string, now time.Time) (string, time.Time, error) {
	at, err := parseTime("start", start, now)
	if err != nil || start != "" {
		return id, at, err
	}
	for i := len(id) - 1; i > 0; i-- {
		if id[i] == '@' {
			if t, err := client.ParseTime(id[i+1:], now); err == nil {
				return id[:i], t, nil
			}
			break
		}
	}
	return id, time.Time{}, nil
}

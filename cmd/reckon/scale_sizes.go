package main

import (
	"fmt"

	"reckon/internal/quantiles"
	"reckon/internal/term"
	"reckon/web/client"
)

// sizeSummary sums up the runs at one number of cores or GPUs: medians, and the latest run.
type sizeSummary struct {
	runs    int
	seconds float64
	cpu     *float64
	latest  client.ScaleRun
}

// groupBySize groups runs, which are in order of size.
func groupBySize(runs []client.ScaleRun, unit string) []sizeSummary {
	var out []sizeSummary
	for i := 0; i < len(runs); {
		s := sizeSummary{latest: runs[i]}
		var seconds, cpu []float64
		for ; i < len(runs) && runs[i].Size(unit) == s.latest.Size(unit); i++ {
			s.runs++
			seconds = append(seconds, runs[i].Seconds)
			if used := usedTime(&runs[i], unit); used != nil {
				cpu = append(cpu, *used)
			}
			if runs[i].Start.After(s.latest.Start) {
				s.latest = runs[i]
			}
		}
		s.seconds = quantiles.Median(seconds)
		if len(cpu) > 0 {
			v := quantiles.Median(cpu)
			s.cpu = &v
		}
		out = append(out, s)
	}
	return out
}

// usedTime returns the core time or GPU time that a run used.
func usedTime(r *client.ScaleRun, unit string) *float64 {
	if unit == "gpus" {
		return r.GPUSeconds
	}
	return r.CPUSeconds
}

// printSizes lists the runs at each number of cores. It compares them with the law in fit. If the work appears to grow with
// the cores, it compares them with the run with the fewest cores.
func (p *page) printSizes(d client.Scale, fit *client.ScaleFit) error {
	if len(d.Runs) == 0 {
		return nil
	}
	heads := "CORES:r|RUNS:r|TIME:r|CPU TIME:r"
	if d.SizeUnit == "gpus" {
		heads = "GPUS:r|RUNS:r|TIME:r|GPU TIME:r"
	}
	switch {
	case fit != nil:
		heads += "|SPEED-UP:r|BY THE LAW:r|EFFICIENCY:r"
	case d.Weak != nil:
		heads += "|EFFICIENCY IF THE WORK GREW:r"
	}
	t := term.TableOf(heads + "|LATEST:s10")
	list := groupBySize(d.Runs, d.SizeUnit)
	for _, s := range list {
		n := s.latest.Size(d.SizeUnit)
		cells := []string{term.Cores(&n), fmt.Sprint(s.runs), term.Seconds(&s.seconds), term.Seconds(s.cpu)}
		switch {
		case fit != nil:
			speed, law := fit.OneCore/s.seconds, fit.Speedup(n)
			efficiency := speed / n
			cells = append(cells, formatFactor(&speed), formatFactor(&law), term.Percent(&efficiency))
		case d.Weak != nil:
			efficiency := list[0].seconds / s.seconds
			cells = append(cells, term.Percent(&efficiency))
		}
		t.Add(append(cells, s.latest.ID)...)
	}
	if err := p.printTable(t); err != nil {
		return err
	}
	if d.Runs[0].CoresFrom == "used" {
		p.printf("Cores are the p95 of use: no cores were requested.")
	}
	return nil
}

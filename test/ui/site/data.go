package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"reckon/answer"
	"reckon/web/client"
)

// tables returns simulated series with the names in the selectors. The series are waves, each slightly later than the
// previous one, and a power that depends on them.
type tables struct{ empty bool }

func (x tables) Data(_ context.Context, q client.DataQuery) (client.DataTable, error) {
	t := client.DataTable{From: q.From, To: q.To, StepSeconds: q.Step.Seconds(), Times: []time.Time{}, Labels: []client.DataLabels{},
		Columns: []client.DataColumn{}, Warnings: []string{}}
	if strings.Contains(q.Select[0], "oops") {
		return t, answer.Invalid("give a selector such as node_load1", fmt.Errorf("parameter select: %q is no selector", q.Select[0]))
	}
	if x.empty {
		t.Warnings = append(t.Warnings, "no series was found by "+strings.Join(q.Select, ", "))
		return t, nil
	}
	for at := q.From.Truncate(q.Step).Add(q.Step); !at.After(q.To); at = at.Add(q.Step) {
		t.Times = append(t.Times, at)
	}
	for i, name := range x.names(q) {
		unit := "seconds/second"
		if strings.Contains(name, "memory") {
			unit = "bytes"
		}
		c := client.DataColumn{Name: name, Unit: unit, Help: "CPU time.", Source: name, Rate: true}
		for k, at := range t.Times {
			v := 2 + math.Sin(float64(at.Unix())/900-float64(i)/2) + 0.2*math.Sin(float64(k*k))
			if c.Values = append(c.Values, &v); k == 7 {
				c.Values[k] = nil
			}
		}
		t.Columns = append(t.Columns, c)
	}
	return t, nil
}

// names are two workloads for each selector, one of them hostile.
func (tables) names(q client.DataQuery) (out []string) {
	for _, s := range q.Select {
		name, _, _ := strings.Cut(s, "{")
		out = append(out, name+`_per_second{node="n1",workload="slurm/4711"}`,
			fmt.Sprintf("%s_per_second{node=%q,workload=%q}", name, "n1", "group/n1/"+hostile()[0]))
	}
	return out
}

func (x tables) WriteData(ctx context.Context, q client.DataQuery, format string, w io.Writer) error {
	t, err := x.Data(ctx, q)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "time\n%d rows as %s\n", len(t.Times), format)
	return err
}

func (x tables) Correlate(_ context.Context, q client.DataQuery) (client.Correlation, error) {
	c := client.Correlation{From: q.From, To: q.To, StepSeconds: q.Step.Seconds(), Rows: 100, Columns: []string{}, Warnings: []string{}}
	if x.empty {
		return c, nil
	}
	c.Columns = x.names(q)
	for i, a := range c.Columns {
		for k, b := range c.Columns[i+1:] {
			r := math.Cos(float64(k+1) / 2)
			low, high, lagged, worth := r-0.1, min(1, r+0.1), math.Copysign(0.97, r), 31.0
			c.Pairs = append(c.Pairs, client.CorrelationPair{A: a, B: b, Points: 99, Effective: &worth, Pearson: &r, Low: &low, High: &high,
				Spearman: &r, LagSeconds: 450 * float64(k+1), LagPearson: &lagged, LagPoints: 90})
		}
	}
	return c, nil
}

func (x tables) PowerFit(_ context.Context, q client.PowerFitQuery) (client.PowerFit, error) {
	if x.empty || q.Node == "n2" {
		return client.PowerFit{}, answer.NotFound("the page About lists the missing sensors",
			errors.New("no node has measured power in that time"))
	}
	f := client.PowerFit{
		Node: "n1", From: q.From, To: q.To, StepSeconds: 30, Family: "root", Protocol: "leave one block of time out",
		Score: client.PowerScore{MAPE: 0.021, RMSE: 3, R2: 0.96, Worst: 0.04}, Baseline: client.PowerScore{MAPE: 0.19, RMSE: 28},
		BandCoverage: 0.9, BandLow: 0.94, BandHigh: 1.06, BaseWatts: 82,
		Contributions: []client.PowerContribution{{Feature: "cpu_utilization", Watts: 61, Low: 4, High: 118},
			{Feature: "network_bytes", Watts: 2.5, Low: 0, High: 9}},
		Candidates: []client.PowerCandidate{{Family: "mean", MAPE: ptr(0.19)}, {Family: "root", MAPE: ptr(0.021)},
			{Family: "fan", Skipped: "no utilisation"}}, Warnings: []string{"3 rows without power were dropped"},
	}
	for i := range 240 {
		m := 145 + 58*math.Sin(float64(i)/17)
		f.Points = append(f.Points, client.PowerPoint{Time: q.From.Add(time.Duration(i) * q.To.Sub(q.From) / 240), Modelled: m,
			Measured: m * (1 + 0.035*math.Sin(float64(i*i)))})
	}
	return f, nil
}

func ptr(v float64) *float64 { return &v }

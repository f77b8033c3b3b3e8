package answer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"

	"reckon/account/attribution/powermodel"
	"reckon/analysis/powerfit"
	"reckon/answer/dataset"
	"reckon/figure/wire"
)

// Power fits models to the measured power of nodes.
type Power struct {
	Series storage.Queryable // restricted to series that the viewer may see
	Engine promql.QueryEngine
	Slots  chan struct{} // limits the fits made at a time
}

const (
	powerPoints = 720 // approximate maximum: fitting them takes a fraction of a second
	fewPoints   = 20  // fewer are not enough for a fit
)

// pageFamilies returns the models that are fitted while a page waits; `reckon power fit` tries all.
func pageFamilies() []string {
	return slices.DeleteFunc(powerfit.Families(), func(f string) bool { return strings.Contains(f, "tree") })
}

// PowerFit fits a model to the power of a node. If the query has no node, it takes the first node with a meter.
func (p *Power) PowerFit(ctx context.Context, q wire.PowerFitQuery) (wire.PowerFit, error) {
	out := wire.PowerFit{Node: q.Node, From: q.From, To: q.To, Contributions: []wire.PowerContribution{}, Points: []wire.PowerPoint{},
		Candidates: []wire.PowerCandidate{}, Warnings: []string{}}
	select {
	case p.Slots <- struct{}{}:
		defer func() { <-p.Slots }()
	case <-ctx.Done():
		return out, ctx.Err()
	}
	step := max(15*time.Second, q.To.Sub(q.From)/powerPoints).Round(15 * time.Second)
	out.StepSeconds = step.Seconds()
	if out.Node == "" {
		node, err := p.findMetered(ctx, q)
		if err != nil {
			return out, err
		}
		out.Node = node
	}
	d, err := p.readPower(ctx, out.Node, q, step)
	if err != nil {
		return out, err
	}
	r, err := powerfit.Fit(d, powerfit.Options{Seed: 1, Families: pageFamilies(), Name: out.Node, Domain: "node", Lags: -1})
	if err != nil {
		return out, NotFound("give a longer time, or one with more varied work", fmt.Errorf("power of %s: %w", out.Node, err))
	}
	out.Family, out.Protocol, out.Score, out.Baseline = r.Chosen, r.Protocol, toWireScore(r.Score), toWireScore(r.Baseline)
	out.Warnings = append(out.Warnings, r.Warnings...)
	out.BandCoverage, out.BandLow, out.BandHigh = r.Model.Band.Coverage, r.Model.Band.Low, r.Model.Band.High
	for _, c := range r.Candidates {
		one := wire.PowerCandidate{Family: c.Family, Skipped: c.Skipped}
		if c.Skipped == "" {
			one.MAPE = finiteOrNil(c.Score.MAPE)
		}
		out.Candidates = append(out.Candidates, one)
	}
	return out, explainModel(&out, r.Model, d)
}

func toWireScore(s powermodel.Score) wire.PowerScore {
	return wire.PowerScore{MAPE: s.MAPE, RMSE: s.RMSE, R2: s.R2, Worst: s.Worst}
}

// explainModel evaluates the model for the readings and adds up the contribution of each feature.
func explainModel(out *wire.PowerFit, m *powermodel.Model, d powerfit.Data) error {
	var names []string
	for _, f := range d.Features {
		names = append(names, f.Name)
	}
	tracker, err := powermodel.NewTracker(m, names)
	if err != nil {
		return err
	}
	x, watts := make([]float64, len(names)), make([]float64, len(m.Features))
	sums := make([]wire.PowerContribution, len(m.Features))
	for i, f := range m.Features {
		sums[i] = wire.PowerContribution{Feature: f.Name, Low: math.Inf(1), High: math.Inf(-1)}
	}
	base, n := 0.0, 0.0
	for i := range d.Watts {
		for k := range d.Features {
			x[k] = d.Features[k].Values[i]
		}
		p := tracker.Observe(x)
		if math.IsNaN(p.Watts) || math.IsNaN(d.Watts[i]) {
			continue
		}
		out.Points = append(out.Points,
			wire.PowerPoint{Time: time.Unix(int64(d.Time[i]), 0).UTC(), Measured: d.Watts[i], Modelled: p.Watts})
		base += tracker.Explain(watts)
		n++
		for k, w := range watts {
			sums[k].Watts += w
			sums[k].Low, sums[k].High = min(sums[k].Low, w), max(sums[k].High, w)
		}
	}
	if n == 0 {
		return nil
	}
	out.BaseWatts = base / n
	for _, c := range sums {
		c.Watts /= n
		out.Contributions = append(out.Contributions, c)
	}
	slices.SortStableFunc(out.Contributions, func(a, b wire.PowerContribution) int {
		switch {
		case a.Watts > b.Watts:
			return -1
		case a.Watts < b.Watts:
			return 1
		}
		return strings.Compare(a.Feature, b.Feature)
	})
	return nil
}

var errNoMeter = errors.New("no node has measured power in that time: a model has nothing to be fitted to")

func noMeterError() error {
	return NotFound(
		"the page About lists the missing sensors and how to enable them; a model of another machine of the same kind is a file for the "+
			"setting power-model", errNoMeter)
}

// findMetered returns the name of the first node with a meter.
func (p *Power) findMetered(ctx context.Context, q wire.PowerFitQuery) (string, error) {
	expr := fmt.Sprintf(`group by (node) (last_over_time(reckon_node_energy_joules_total{method="measured"}[%ds]))`,
		int(q.To.Sub(q.From).Seconds()))
	query, err := p.Engine.NewInstantQuery(ctx, p.Series, nil, expr, q.To)
	if err != nil {
		return "", err
	}
	defer query.Close()
	r := query.Exec(ctx)
	v, err := r.Vector()
	if err != nil {
		return "", err
	}
	var nodes []string
	for _, s := range v {
		nodes = append(nodes, s.Metric.Get("node"))
	}
	if len(nodes) == 0 {
		return "", noMeterError()
	}
	slices.Sort(nodes)
	return nodes[0], nil
}

// querySingle evaluates an expression that yields one series, by time in milliseconds.
func (p *Power) querySingle(ctx context.Context, expr string, q wire.PowerFitQuery, step time.Duration) (map[int64]float64, error) {
	query, err := p.Engine.NewRangeQuery(ctx, p.Series, nil, expr, q.From.Truncate(step).Add(step), q.To, step)
	if err != nil {
		return nil, err
	}
	defer query.Close()
	r := query.Exec(ctx)
	matrix, err := r.Matrix()
	if err != nil {
		return nil, err
	}
	out := map[int64]float64{}
	for _, s := range matrix {
		for _, f := range s.Floats {
			if !math.IsNaN(f.F) && !math.IsInf(f.F, 0) {
				out[f.T] = f.F
			}
		}
	}
	return out, nil
}

func (p *Power) readPower(ctx context.Context, node string, q wire.PowerFitQuery, step time.Duration) (powerfit.Data, error) {
	var d powerfit.Data
	window := max(4*step, time.Minute)
	var watts map[int64]float64
	for _, way := range dataset.PowerMeters("") {
		var err error
		if watts, err = p.querySingle(ctx, dataset.OnNode(way, node, window), q, step); err != nil {
			return d, fmt.Errorf("power of %s: %w", node, err)
		}
		if len(watts) > 0 {
			break
		}
	}
	switch {
	case len(watts) == 0:
		return d, noMeterError()
	case len(watts) < fewPoints:
		return d, NotFound("wait, or give a longer time",
			fmt.Errorf("power of %s was measured at %d steps of %s only; a model takes %d", node, len(watts), step, fewPoints))
	}
	times := slices.Sorted(maps.Keys(watts))
	for _, t := range times {
		d.Time, d.Watts = append(d.Time, float64(t)/1000), append(d.Watts, watts[t])
	}
	for _, f := range dataset.PowerFeatures() {
		values, err := p.querySingle(ctx, dataset.OnNode(f.Expr, node, window), q, step)
		if err != nil {
			return d, fmt.Errorf("feature %s: %w", f.Name, err)
		}
		if len(values) == 0 {
			continue // not measured on this node
		}
		col := powerfit.Column{Name: f.Name, Unit: f.Unit, Values: make([]float64, len(times))}
		for i, t := range times {
			col.Values[i] = math.NaN()
			if v, ok := values[t]; ok {
				col.Values[i] = v
			}
		}
		d.Features = append(d.Features, col)
	}
	if len(d.Features) == 0 {
		return d, NotFound("its agent must send the series of the machine (node_cpu_seconds_total and others)",
			fmt.Errorf("there is power of node %s, but nothing to explain it with", node))
	}
	return d, nil
}

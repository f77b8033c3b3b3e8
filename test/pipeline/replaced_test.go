package pipeline_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"reckon/figure"
	"reckon/lab/simulate"
	"reckon/lab/simulation"
	"reckon/metric"
	"reckon/store"
	"reckon/test/pipeline"
)

// oneName is the place where two machines of one name send to: of each it takes what it measured between two times.
type oneName struct {
	site     *pipeline.Site
	from, to time.Time
	last     map[*metric.Series]float64
	sums     map[string]float64 // what was counted, by metric
}

// Put implements simulation.Sink.
func (o *oneName) Put(_ context.Context, node string, b *metric.Batch) error {
	if node == "" || b.Time.Before(o.from) || !b.Time.Before(o.to) {
		return nil
	}
	for _, s := range b.Samples {
		if name := s.Series.Desc.Name; name != figure.CPU && name != figure.NodeCPU || strings.HasPrefix(s.Series.Label("mode"), "guest") {
			continue
		}
		if last, ok := o.last[s.Series]; ok {
			o.sums[s.Series.Desc.Name] += s.Value - last
		}
		o.last[s.Series] = s.Value
	}
	return o.site.Append("n1", b)
}

// TestReplacedMachine: usage of a node after its machine was replaced by another of its name, which had run for as long elsewhere, is what
// both of them counted while they had the name.
func TestReplacedMachine(t *testing.T) {
	begin := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for name, seeds := range map[string][2]uint64{"one way": {1, 5}, "the other": {5, 1}} {
		t.Run(name, func(t *testing.T) {
			s := pipeline.Empty(t, begin)
			over, end := begin.Add(90*time.Minute), begin.Add(3*time.Hour)
			want := map[string]float64{}
			for i, part := range [][2]time.Time{{begin.Add(time.Minute), over}, {over.Add(time.Minute), end}} {
				plan, err := simulate.New(simulate.Config{Nodes: 1, Cores: 8, OnlyPlanned: true, Seed: seeds[i], From: begin})
				if err != nil {
					t.Fatal(err)
				}
				s.Now = part[1]
				sink := &oneName{site: s, from: part[0], to: part[1], last: map[*metric.Series]float64{}, sums: want}
				fleet := simulation.New(simulation.Config{Site: plan})
				if _, err := fleet.Run(t.Context(), simulation.Stretch{Until: end, Tick: 30 * time.Second, Export: time.Minute}, sink); err != nil {
					t.Fatal(err)
				}
				s.Advance()
			}
			rows, err := s.Catalogue.NodeUse(t.Context(), store.RollupQuery{From: begin, To: end, Span: store.SpanWhole, By: []string{"node"}})
			if err != nil || len(rows) != 1 || rows[0].CoreSeconds == nil || rows[0].CPUSeconds == nil {
				t.Fatalf("%+v, %v", rows, err)
			}
			for figure, got := range map[string]float64{figure.NodeCPU: *rows[0].CoreSeconds, figure.CPU: *rows[0].CPUSeconds} {
				if math.Abs(got-want[figure]) > 0.01*want[figure] || want[figure] == 0 {
					t.Errorf("%s: %g s accounted, %g s counted by both machines", figure, got, want[figure])
				}
			}
		})
	}
}

package answer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"reckon/answer/invariant"
	"reckon/figure"
	"reckon/figure/wire"
	"reckon/store"
)

// oneMachine is a site with one machine, n1, with 4 cores and 16 GB, and one without an agent,
// n2.
type oneMachine struct{ err error }

func (o oneMachine) NodeUse(context.Context, store.RollupQuery) ([]store.NodeUse, error) {
	return []store.NodeUse{
		{Site: "s", Node: "n1", Capacity: figure.Capacity{UpSeconds: new(100.0), CoreSeconds: new(400.0), NodeMemoryByteSeconds: new(1.0)}},
		{Site: "s", Node: "n2", Capacity: figure.Capacity{UpSeconds: new(100.0), CoreSeconds: new(400.0)}},
	}, o.err
}

func (o oneMachine) Nodes(context.Context, time.Time) ([]wire.Node, error) {
	return []wire.Node{{Site: "s", Node: "n1", Agent: true, Cores: new(4.0), MemoryBytes: new(16e9)}}, o.err
}

var checkedAt = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func newBounds(o oneMachine) *Bounds {
	return &Bounds{Rollups: o, Views: o, Ledger: new(invariant.Ledger), Clock: func() time.Time { return checkedAt }}
}

// goodRun uses all of n1 for 100 s.
func goodRun() wire.Workload {
	start := checkedAt.Add(-200 * time.Second)
	end := start.Add(100 * time.Second)
	w := wire.Workload{ID: "unit/a", Site: "s", Nodes: []string{"n1"}, Start: start, Seen: end, End: &end, WallSeconds: 100}
	w.CPUSeconds, w.CPUUserSeconds, w.CPUSystemSeconds = new(400.0), new(300.0), new(100.0)
	w.CoresMean, w.CoresP50, w.CoresP95, w.CoresMax = new(4.0), new(4.0), new(4.2), new(4.1)
	w.MemoryBytes, w.MemoryPeakBytes, w.MemoryMeanBytes = new(16e9), new(16e9), new(8e9)
	return w
}

// limitedRun uses all of a limit of 2 cores and 8 GB on n1 for 100 s.
func limitedRun() wire.Workload {
	w := goodRun()
	w.LimitCores, w.LimitMemoryBytes = new(2.0), new(8e9)
	w.CPUSeconds, w.CPUUserSeconds, w.CPUSystemSeconds = new(200.0), new(150.0), new(50.0)
	w.CoresMean, w.CoresP50, w.CoresP95, w.CoresMax = new(2.0), new(2.0), new(2.1), new(2.1)
	w.MemoryBytes, w.MemoryPeakBytes, w.MemoryMeanBytes = new(8e9), new(8e9), new(4e9)
	return w
}

// TestRunBounds: each rule has an input that breaks it, which is counted once and does not affect
// other figures; a figure on its bound is shown.
func TestRunBounds(t *testing.T) {
	cases := []runBound{
		{"cpu_seconds", invariant.CPUWithinWall, func(w *wire.Workload) **float64 { return &w.CPUSeconds }, 404.03, 404.05},
		{"cores_mean", invariant.CPUWithinWall, func(w *wire.Workload) **float64 { return &w.CoresMean }, 4.04, 4.05},
		{"cores_p50", invariant.CPUWithinWall, func(w *wire.Workload) **float64 { return &w.CoresP50 }, 4.39, 4.41},
		{"cores_p95", invariant.CPUWithinWall, func(w *wire.Workload) **float64 { return &w.CoresP95 }, 4.39, 4.41},
		{"cores_max", invariant.CPUWithinWall, func(w *wire.Workload) **float64 { return &w.CoresMax }, 4.23, 4.25},
		{"cpu_user_seconds", invariant.SumWithinWhole, func(w *wire.Workload) **float64 { return &w.CPUUserSeconds }, 404, 404.02},
		{"cpu_system_seconds", invariant.SumWithinWhole, func(w *wire.Workload) **float64 { return &w.CPUSystemSeconds }, 404, 404.02},
		{"memory_peak_bytes", invariant.PeakWithinMachine, func(w *wire.Workload) **float64 { return &w.MemoryPeakBytes }, 16.16e9, 16.162e9},
		{"memory_bytes", invariant.PeakWithinMachine, func(w *wire.Workload) **float64 { return &w.MemoryBytes }, 16.16e9, 16.162e9},
		{"memory_mean_bytes", invariant.PeakWithinMachine, func(w *wire.Workload) **float64 { return &w.MemoryMeanBytes }, 16.16e9, 16.162e9},
	}
	checkRunBounds(t, goodRun, cases)
	// Slack: 0.1 s of the quota period, 0.01 s of a tick, and 1 %.
	checkRunBounds(t, limitedRun, []runBound{
		{"cpu_seconds", invariant.UseWithinAllocation, func(w *wire.Workload) **float64 { return &w.CPUSeconds }, 202.21, 202.23},
		{"cores_mean", invariant.UseWithinAllocation, func(w *wire.Workload) **float64 { return &w.CoresMean }, 2.022, 2.023},
		{"cores_p50", invariant.UseWithinAllocation, func(w *wire.Workload) **float64 { return &w.CoresP50 }, 2.49, 2.51},
		{"cores_p95", invariant.UseWithinAllocation, func(w *wire.Workload) **float64 { return &w.CoresP95 }, 2.49, 2.51},
		{"cores_max", invariant.UseWithinAllocation, func(w *wire.Workload) **float64 { return &w.CoresMax }, 2.49, 2.51},
		{"memory_peak_bytes", invariant.PeakWithinLimit, func(w *wire.Workload) **float64 { return &w.MemoryPeakBytes }, 8.08e9, 8.082e9},
		{"memory_bytes", invariant.PeakWithinLimit, func(w *wire.Workload) **float64 { return &w.MemoryBytes }, 8.08e9, 8.082e9},
		{"memory_mean_bytes", invariant.PeakWithinLimit, func(w *wire.Workload) **float64 { return &w.MemoryMeanBytes }, 8.08e9, 8.082e9},
	})
}

// runBound is a figure on both sides of its bound.
type runBound struct {
	figure, rule  string
	value         func(*wire.Workload) **float64
	shown, broken float64
}

func checkRunBounds(t *testing.T, run func() wire.Workload, cases []runBound) {
	t.Helper()
	for _, c := range cases {
		b := newBounds(oneMachine{})
		edge := []wire.Workload{run()}
		*c.value(&edge[0]) = new(c.shown)
		b.checkWorkloads(t.Context(), edge)
		if *c.value(&edge[0]) == nil || len(b.Inconsistent()) != 0 {
			t.Errorf("%s of %g is held back: %+v", c.figure, c.shown, b.Inconsistent())
		}
		for range 2 { // queried twice, counted once
			list := []wire.Workload{run()}
			*c.value(&list[0]) = new(c.broken)
			b.checkWorkloads(t.Context(), list)
			if *c.value(&list[0]) != nil {
				t.Errorf("%s of %g is shown as %g", c.figure, c.broken, **c.value(&list[0]))
			}
			if got, want := known(&list[0]), known(new(run()))-1; got != want {
				t.Errorf("%s of %g: %d figures are left, want %d", c.figure, c.broken, got, want)
			}
		}
		got := b.Inconsistent()
		if len(got) != 1 || got[0].Figure != c.figure || got[0].Rule != c.rule || got[0].Count != 1 || got[0].Value != c.broken || got[0].Of == "" {
			t.Errorf("%s of %g: %+v", c.figure, c.broken, got)
		}
	}
}

// known counts the figures of a run that are not withheld.
func known(w *wire.Workload) (n int) {
	for _, v := range []*float64{w.CPUSeconds, w.CPUUserSeconds, w.CPUSystemSeconds, w.CoresMean, w.CoresP50, w.CoresP95, w.CoresMax, w.MemoryBytes, w.MemoryPeakBytes, w.MemoryMeanBytes} {
		if v != nil {
			n++
		}
	}
	return n
}

// TestRowBounds: rules that read the catalogue themselves get the same figures as people, and a
// figure withheld in both places is counted once.
func TestRowBounds(t *testing.T) {
	b := newBounds(oneMachine{})
	w := goodRun()
	w.CPUSeconds = new(4000.0)
	rows := []store.Workload{{ID: w.ID, Site: w.Site, Nodes: w.Nodes, Start: w.Start, Seen: w.Seen, End: *w.End, Row: w.Row}}
	b.Runs(t.Context(), rows)
	b.checkWorkloads(t.Context(), []wire.Workload{w})
	if got := b.Inconsistent(); rows[0].CPUSeconds != nil || rows[0].CoresMean == nil || len(got) != 1 || got[0].Count != 1 {
		t.Errorf("%+v", got)
	}
	(*Bounds)(nil).Runs(t.Context(), rows)
}

// TestPartBounds: a part uses no more than its node has, nor more than its run.
func TestPartBounds(t *testing.T) {
	b := newBounds(oneMachine{})
	d := wire.WorkloadDetail{Workload: goodRun(), Parts: []wire.Part{
		{Node: "n1", Part: "0", CPUSeconds: new(404.0), MemoryPeakBytes: new(16e9), MemoryNeededPeakBytes: new(16e9)},
		{Node: "n1", Part: "1", CPUSeconds: new(404.1), MemoryPeakBytes: new(17e9), MemoryNeededPeakBytes: new(17e9)},
		{Node: "n9", Part: "2", CPUSeconds: new(404.1), MemoryPeakBytes: new(17e9)},
	}}
	b.checkParts(t.Context(), &d)
	if p := d.Parts[0]; p.CPUSeconds == nil || p.MemoryPeakBytes == nil || p.MemoryNeededPeakBytes == nil {
		t.Errorf("on the edge: %+v", p)
	}
	if p := d.Parts[1]; p.CPUSeconds != nil || p.MemoryPeakBytes != nil || p.MemoryNeededPeakBytes != nil {
		t.Errorf("beyond: %+v", p)
	}
	if p := d.Parts[2]; p.CPUSeconds != nil || p.MemoryPeakBytes == nil {
		t.Errorf("of an unknown node: %+v", p)
	}
	var got []string
	for _, x := range b.Inconsistent() {
		got = append(got, fmt.Sprintf("%s %s %d", x.Figure, x.Rule, x.Count))
	}
	want := []string{"cpu_seconds cpu_within_wall 1", "cpu_seconds sum_within_whole 2", "memory_needed_peak_bytes peak_within_machine 1", "memory_peak_bytes peak_within_machine 1"}
	if !slices.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

// TestPeaksAddedUp: the sum of the peaks of a pod's containers may exceed its limit; a true peak may not.
func TestPeaksAddedUp(t *testing.T) {
	for e, held := range map[figure.Exactness]bool{figure.Exact: true, figure.AtLeast: true, figure.AtMost: false, figure.Estimated: false} {
		w := goodRun()
		w.MemoryPeakBytes, w.LimitMemoryBytes = new(66e6), new(64e6)
		w.Exactness.Add("memory_peak_bytes", e)
		list := []wire.Workload{w}
		newBounds(oneMachine{}).checkWorkloads(t.Context(), list)
		if got := list[0].MemoryPeakBytes == nil; got != held {
			t.Errorf("a peak that is %v: held back %v", e, got)
		}
	}
}

// TestUnknownBounds: an unknown size bounds nothing, and times in whole seconds leave a slack of one
// second at each end.
func TestUnknownBounds(t *testing.T) {
	over := func(change func(*wire.Workload)) []wire.Workload {
		w := goodRun()
		w.CPUSeconds, w.CoresMean, w.MemoryPeakBytes = new(407.0), new(4.07), new(17e9)
		change(&w)
		return []wire.Workload{w}
	}
	for name, c := range map[string]struct {
		list []wire.Workload
		of   oneMachine
		want []string
	}{
		"all is known":                         {over(func(*wire.Workload) {}), oneMachine{}, []string{"cores_mean", "cpu_seconds", "memory_peak_bytes"}},
		"memory of a node whose agent is gone": {over(func(w *wire.Workload) { w.Nodes = []string{"n2"} }), oneMachine{}, []string{"cores_mean", "cpu_seconds"}},
		"one of two nodes is unknown":          {over(func(w *wire.Workload) { w.Nodes = []string{"n1", "n9"} }), oneMachine{}, nil},
		"no node":                              {over(func(w *wire.Workload) { w.Nodes = nil }), oneMachine{}, nil},
		"another site":                         {over(func(w *wire.Workload) { w.Site = "x" }), oneMachine{}, nil},
		"reported by a batch system":           {over(func(w *wire.Workload) { w.State = "completed" }), oneMachine{}, []string{"memory_peak_bytes"}},
		"the stores cannot be asked":           {over(func(*wire.Workload) {}), oneMachine{errors.New("away")}, nil},
	} {
		b := newBounds(c.of)
		b.checkWorkloads(t.Context(), c.list)
		var got []string
		for _, x := range b.Inconsistent() {
			got = append(got, x.Figure)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: held back %v, want %v", name, got, c.want)
		}
	}
	(*Bounds)(nil).checkWorkloads(t.Context(), over(func(*wire.Workload) {}))
}

// TestShareBounds: shares above 1 are withheld, not clipped, along with figures derived from them.
func TestShareBounds(t *testing.T) {
	b := newBounds(oneMachine{})
	now := checkedAt
	use := store.NodeUse{Capacity: figure.Capacity{UpSeconds: new(3700.0), CoreSeconds: new(3600.0), CoreUsedSeconds: new(5000.0), NodeMemoryByteSeconds: new(10.0), NodeMemoryUsedByteSeconds: new(9.0)}}
	s := toSpan(&use, now.Add(-time.Hour), now)
	if *s.UpShare <= 1 || *s.UnusedCoreSeconds >= 0 {
		t.Errorf("cut before it was looked at: %g, %g", *s.UpShare, *s.UnusedCoreSeconds)
	}
	if b.checkSpan("n1", s); s.UpShare != nil || s.CPUShare != nil || s.UnusedCoreSeconds != nil || s.MemoryShare == nil {
		t.Errorf("%+v", s)
	}
	list := wire.UsageList{Rows: []wire.Usage{{Owner: "a", CapacityShare: new(1.01)}, {Owner: "b", CapacityShare: new(1.02)}}}
	list.Total.CapacityShare = new(1014.27)
	if b.checkUsage(&list); list.Rows[0].CapacityShare == nil || list.Rows[1].CapacityShare != nil || list.Total.CapacityShare != nil {
		t.Errorf("%+v", list)
	}
	// A pass over the task table takes a moment, and the CPU time of children arrives late, which matters in the first seconds of a machine.
	for _, c := range []struct {
		seconds, share float64
		is             figure.Exactness
		shown          bool
	}{
		{10, 1.0199, figure.Exact, true}, {10, 1.0201, figure.Exact, false}, {60, 1.0116, figure.Exact, true}, {60, 1.0117, figure.Exact, false},
		{10, 1.2099, figure.AtLeast, true}, {10, 1.2101, figure.Estimated, false}, {60, 1.0433, figure.Estimated, true}, {60, 1.0434, figure.AtLeast, false},
	} {
		list := wire.UsageList{Rows: []wire.Usage{{Owner: "c", CapacityShare: new(c.share), Capacity: figure.Capacity{UpSeconds: new(c.seconds)}}}}
		list.Rows[0].Exactness.Add("cpu_seconds", c.is)
		if newBounds(oneMachine{}).checkUsage(&list); (list.Rows[0].CapacityShare != nil) != c.shown {
			t.Errorf("a share of %g in %g s, %v: shown is %v", c.share, c.seconds, c.is, !c.shown)
		}
	}
	n := wire.Node{Node: "n1", Cores: new(4.0), CoresUsed: new(4.3), MemoryBytes: new(10.0), MemoryUsed: new(9.0)}
	if b.checkNode(&n); n.CoresUsed != nil || n.MemoryUsed == nil {
		t.Errorf("%+v", n)
	}
	runs := wire.Scale{Runs: []wire.ScaleRun{
		{ID: "slurm/1", Cores: 8, Seconds: 10, CPUSeconds: new(70.0), Speedup: new(7.3)},
		{ID: "slurm/2", Cores: 128, Seconds: 10, CPUSeconds: new(10.0), Speedup: new(97.0)},
		{ID: "slurm/3", Cores: 2, Seconds: 10, Speedup: new(2.0)},
	}}
	if b.checkScale(&runs); runs.Runs[0].Speedup == nil || runs.Runs[1].Speedup != nil || runs.Runs[2].Speedup == nil {
		t.Errorf("%+v", runs.Runs)
	}
	want := map[string]int{"up_share": 1, "cpu_share": 1, "capacity_share": 2, "cores_used": 1, "speedup": 1}
	for _, x := range b.Inconsistent() {
		if want[x.Figure] != x.Count {
			t.Errorf("%+v", x)
		}
		delete(want, x.Figure)
	}
	if len(want) > 0 {
		t.Errorf("not counted: %v", want)
	}
}

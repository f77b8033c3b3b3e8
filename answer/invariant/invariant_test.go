package invariant

import (
	"math"
	"sync"
	"testing"
	"time"

	"reckon/metric"
)

var at = time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)

// TestEdges: a figure on its bound, and within the tolerance, is shown; one beyond is withheld.
func TestEdges(t *testing.T) {
	for _, c := range []struct {
		value, bound *float64
		slack        float64
		shown        bool
	}{
		{new(100.0), new(100.0), 0, true},
		{new(101.0), new(100.0), 0, true},
		{new(101.001), new(100.0), 0, false},
		{new(101.4), new(100.0), 0.5, true},
		{new(101.6), new(100.0), 0.5, false},
		{new(0.0), new(0.0), 0, true},
		{new(0.001), new(0.0), 0, false},
		{nil, new(1.0), 0, true},
		{new(5.0), nil, 0, true},
		{new(math.NaN()), new(1.0), 0, false},
	} {
		var l Ledger
		v := c.value
		n := l.Hold("slurm/1", at, Check{Figure: "x", Rule: ShareWithinWhole, Value: &v, Bound: c.bound, Slack: c.slack})
		if shown := n == 0; shown != c.shown || (c.value != nil && (v != nil) != c.shown) || len(l.Broken()) != n {
			t.Errorf("%v of %v: shown %v, value %v, %d counted", c.value, c.bound, shown, v, len(l.Broken()))
		}
	}
}

// TestCountedOnce: a broken figure is counted once per subject, however often it is queried,
// and under each rule that it breaks; it is never clipped to its bound.
func TestCountedOnce(t *testing.T) {
	var l Ledger
	ask := func(subject string) {
		v, good := new(200.0), new(5.0)
		n := l.Hold(subject, at,
			Check{Figure: "memory_peak_bytes", Rule: PeakWithinMachine, Value: &v, Bound: new(100.0), Of: "memory of its nodes"},
			Check{Figure: "memory_peak_bytes", Rule: PeakWithinLimit, Value: &v, Bound: new(50.0)},
			Check{Figure: "cores_p95", Rule: SumWithinWhole, Value: &good, Bound: new(6.0)})
		if n != 1 || v != nil || good == nil || *good != 5 {
			t.Errorf("%d held back: %v, %v", n, v, good)
		}
	}
	ask("slurm/1")
	ask("slurm/1")
	ask("slurm/2")
	got := l.Broken()
	if len(got) != 2 || got[0].Rule != PeakWithinLimit || got[0].Count != 2 || got[1].Rule != PeakWithinMachine || got[1].Count != 2 {
		t.Fatalf("%+v", got)
	}
	if b := got[1]; b.Subject != "slurm/2" || b.Value != 200 || b.Bound != 100 || b.Of != "memory of its nodes" || !b.At.Equal(at) {
		t.Errorf("the example is %+v", b)
	}
	var b metric.Batch
	l.Gather(&b)
	if len(b.Samples) != 2 || b.Samples[0].Value != 2 {
		t.Errorf("%+v", b.Samples)
	}
	v := new(2.0)
	if n := (*Ledger)(nil).Hold("x", at, Check{Value: &v, Bound: new(1.0)}); n != 1 || v != nil {
		t.Error("without a ledger nothing is held back")
	}
}

func TestConcurrent(t *testing.T) {
	var l Ledger
	var g sync.WaitGroup
	for range 8 {
		g.Go(func() {
			for range 1000 {
				v := new(2.0)
				l.Hold("s", at, Check{Figure: "x", Rule: ShareWithinWhole, Value: &v, Bound: new(1.0)})
				l.Broken()
			}
		})
	}
	g.Wait()
	if got := l.Broken(); len(got) != 1 || got[0].Count != 1 {
		t.Errorf("%+v", got)
	}
}

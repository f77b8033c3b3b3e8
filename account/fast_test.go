package account

import (
	"slices"
	"testing"
	"time"

	"reckon/metric"
	"reckon/workload"
)

// TestExportFast: between two exports it exports only the requested containers, with their present counters, and only
// once they have been exported.
func TestExportFast(t *testing.T) {
	r, c, running := pods(t, 2, true, workload.Amounts{})
	fast := func() map[string]float64 {
		var b metric.Batch
		b.Reset(time.Unix(1, 0))
		r.l.ExportFast(&b, func(f *workload.ContainerFacts) bool { return f.UID == "a" })
		out := map[string]float64{}
		for _, s := range b.Samples {
			if slices.Contains(s.Series.Values, "cart-b/app") || s.Last {
				t.Errorf("%s %v", s.Series.Desc.Name, s.Series.Values)
			}
			if s.Series.Desc == cpuSeconds && slices.Contains(s.Series.Values, "cart-a/app") && slices.Contains(s.Series.Values, "user") {
				out["cpu"] = s.Value
			}
			out["samples"]++
		}
		return out
	}
	r.tick(0, running(0, 1))
	if got := fast(); got["samples"] != 0 {
		t.Errorf("before the first export: %v", got)
	}
	r.export()
	first := fast()
	more := running(0, 1)
	for i := range more {
		more[i].UserNanos += second / 2
	}
	r.tick(0, more)
	if got := fast(); got["cpu"] <= first["cpu"] {
		t.Errorf("%v, %v before", got, first)
	}
	c.containers[10].removed, c.containers[20].removed = true, true
	r.tick(0, nil)
	r.tick(0, nil)
	if got := fast(); got["cpu"] != 0 {
		t.Errorf("after its end: %v", got)
	}
}

package query_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"reckon/figure/wire"
	"reckon/query"
	"reckon/store"
)

// TestSteps: measurements of a step count where all its nodes were measured; accounting provides the rest.
func TestSteps(t *testing.T) {
	at := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	v := func(x float64) *float64 { return &x }
	accounted := []store.Step{
		{ID: "batch", Name: "batch", State: "completed", Nodes: "n1", Start: at, End: at.Add(time.Minute), CPUSeconds: v(1)},
		{ID: "0", Name: "wide", State: "completed", Nodes: "n[1-2]", Start: at, End: at.Add(time.Minute), CPUSeconds: v(50), MemoryPeakBytes: v(7)},
		{ID: "1", Name: "partly", State: "failed", Nodes: "n[1-3]", Start: at, CPUSeconds: v(60), MemoryPeakBytes: v(8)},
		{ID: "2", Name: "short", State: "completed", Start: at, End: at.Add(time.Second), CPUSeconds: v(0.1)},
		{ID: "3", Name: "unknown", State: "completed"},
	}
	parts := []wire.Part{
		{Node: "n1", Part: "0", CPUSeconds: v(20), MemoryPeakBytes: v(5), MemoryNeededPeakBytes: v(4)}, {Node: "n2", Part: "0", CPUSeconds: v(31), MemoryPeakBytes: v(6)},
		{Node: "n1", Part: "1", CPUSeconds: v(2)}, {Node: "n1", Part: "short", CPUSeconds: v(0.2)}, {Node: "n1", Part: ""},
		{Node: "n1", Part: "3", CPUSeconds: v(9)}, {Node: "n1", Part: "extern", CPUSeconds: v(0.3)},
	}
	var got []string
	for _, s := range query.Steps(accounted, parts) {
		n := func(v *float64) string {
			if v == nil {
				return "-"
			}
			return fmt.Sprint(*v)
		}
		got = append(got, fmt.Sprint(s.ID, " ", s.Name, " ", n(s.CPUSeconds), " ", n(s.MemoryPeakBytes), " ", n(s.MemoryNeededPeakBytes), " ", n(s.WallSeconds), " ", s.Accounted))
	}
	want := `batch batch 1 - - 60 true
0 wide 51 11 4 60 false
1 partly 60 8 - - true
2 short 0.1 - - 1 true
3 unknown 9 - - - false
extern  0.3 - - - false`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	if query.Steps(nil, nil) != nil {
		t.Error("steps of nothing")
	}
}

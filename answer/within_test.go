package answer

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"reckon/figure/wire"
)

// TestListWithin: a list of a time is in the order of what was used in it, page by page, and has that beside whole runs.
func TestListWithin(t *testing.T) {
	h := newHistory(t)
	hour := func(n float64) time.Time { return h.now.Add(-time.Duration(n * float64(time.Hour))) }
	// One that used most before the time, one that lies within, one that goes on after it, and one that is over before.
	h.job(run{id: "slurm/1", owner: "alice", start: hour(4), wall: 3 * time.Hour, used: 1, asked: 2})
	h.job(run{id: "slurm/2", owner: "bob", start: hour(1.5), wall: 15 * time.Minute, used: 4, asked: 4})
	h.job(run{id: "slurm/3", owner: "bob", start: hour(1.25), wall: time.Hour, used: 8, asked: 8})
	h.put(hour(1.25), "n1", "reckon_workload_cpu_seconds_total", 0, "workload", "slurm/3", "kind", "slurm", "part", "0", "owner", "bob", "mode", "user")
	h.job(run{id: "slurm/4", owner: "bob", start: hour(3.5), wall: time.Hour, used: 2, asked: 2})
	// Steps that ended before the time count to none of it, those that begin within in full.
	who := []string{"workload", "slurm/5", "kind", "slurm", "owner", "ann", "mode", "user"}
	h.put(hour(4), "n1", "reckon_workload_start_time_seconds", float64(hour(4).Unix()), append(who, "part", "0")...)
	for i, at := range []float64{3.5, 1.45, 1.4, 1.1} {
		for k := range 40 {
			h.put(hour(at).Add(time.Duration(k)*time.Minute), "n1", "reckon_workload_memory_bytes", 1, append(who, "part", "x")...)
		}
		h.put(hour(at), "n1", "reckon_workload_cpu_seconds_total", 0, append(who, "part", fmt.Sprint(i))...)
		h.put(hour(at).Add(time.Minute), "n1", "reckon_workload_cpu_seconds_total", 1100, append(who, "part", fmt.Sprint(i))...)
	}
	s := h.site()
	f := wire.Filter{Since: hour(1.5), Until: hour(1), Sort: "-cpu_seconds", Within: true}
	want := []struct {
		id         string
		used, held float64
	}{{"slurm/3", 8 * 900, 8 * 900}, {"slurm/2", 3600, 3600}, {"slurm/5", 3300, 0}, {"slurm/1", 1800, 3600}}
	list, err := s.Workloads(t.Context(), f)
	if err != nil || list.Total != len(want) || len(list.Workloads) != len(want) {
		t.Fatalf("%d of %d workloads, want %d: %v", len(list.Workloads), list.Total, len(want), err)
	}
	for i, w := range list.Workloads {
		if w.ID != want[i].id || w.Within == nil || math.Abs(orZero(w.Within.CPUSeconds)-want[i].used) > 1 ||
			math.Abs(orZero(w.Within.HeldCoreSeconds)-want[i].held) > 1 || w.Within.Exactness["cpu_seconds"] != 0 {
			t.Errorf("row %d: %s used %v and held %v, want %+v", i, w.ID, orZero(w.Within.CPUSeconds), orZero(w.Within.HeldCoreSeconds), want[i])
		}
	}
	var paged []string
	f.Limit = 1
	for f.Offset = range len(want) {
		one, err := s.Workloads(t.Context(), f)
		if err != nil || len(one.Workloads) != 1 || one.Total != len(want) {
			t.Fatal(f.Offset, one, err)
		}
		paged = append(paged, one.Workloads[0].ID)
	}
	if !slices.Equal(paged, []string{"slurm/3", "slurm/2", "slurm/5", "slurm/1"}) {
		t.Error(paged)
	}
	f.Sort, f.Limit, f.Offset = "cpu_seconds", 1, 0
	if up, err := s.Workloads(t.Context(), f); err != nil || len(up.Workloads) != 1 || up.Workloads[0].ID != "slurm/1" {
		t.Error("the least first:", up, err)
	}
}

package account

import (
	"testing"

	"reckon/figure"
	"reckon/sensor"
	"reckon/sensor/task/counters"
)

// Counters are charged as waits are, including short processes; misses are also exported as bytes of memory, and
// multiplexed counts are scaled, marked, and never decrease.
func TestCounters(t *testing.T) {
	r := newRig(t, Config{})
	p, idle := proc(10, 10, 5*second, 9*second), proc(20, 20, 5*second, 9*second)
	live := []sensor.Process{p, idle}
	r.tick(0, live)
	r.export()
	if v, ok := r.values["reckon_workload_cycles_total|group/n1/10|group||alice"]; ok {
		t.Errorf("without a source: %v cycles", v)
	}
	r.l.Tally(counters.Spec, counted(10, 5*second, map[counters.Counter]uint64{counters.Cycles: 1000, counters.CacheMisses: 10}))
	gone := proc(30, 30, r.boot+5, 2*second)
	r.tick(2*second, live, gone)
	r.l.Tally(counters.Spec, counted(30, r.boot-second+5, map[counters.Counter]uint64{counters.Cycles: 7}))
	r.export()
	check := func(when string, want map[string]float64) {
		t.Helper()
		for key, v := range want {
			if got, ok := r.values["reckon_workload_"+key]; !ok || got != v {
				t.Errorf("%s: %s is %v (%v), want %v", when, key, got, ok, v)
			}
		}
	}
	check("at first", map[string]float64{
		"cycles_total|group/n1/10|group||alice": 1000, "cycles_total|group/n1/20|group||alice": 0, "cycles_total|group/n1/30|group||alice": 7,
		"cache_misses_total|group/n1/10|group||alice": 10, "memory_traffic_bytes_total|group/n1/10|group||alice|misses": 640,
		"fp_instructions_total|group/n1/10|group||alice|512": 0,
	})
	for _, absent := range []string{"instructions_total|group/n1/10|group||alice", "fp_instructions_total|group/n1/10|group||alice|scalar", "memory_traffic_bytes_total|group/n1/20|group||alice|misses"} {
		if v, ok := r.values["reckon_workload_"+absent]; ok {
			t.Errorf("%s is %v, and was not counted", absent, v)
		}
	}
	for _, row := range r.l.Live(nil) {
		if row.KnowTraffic != (row.Workload == "group/n1/10") || row.TrafficRate != 0 {
			t.Errorf("%s moves %v (%v) a tick after it missed", row.Workload, row.TrafficRate, row.KnowTraffic)
		}
	}
	// Half of the time, then never, then a tenth of the time, including the pending counts.
	turns := func(part, enabled, running uint64) *sensor.TallyPass {
		p := counted(10, 5*second, map[counters.Counter]uint64{counters.Cycles: part})
		p.Rows[0].Enabled, p.Rows[0].Running = enabled, running
		return p
	}
	r.l.Tally(counters.Spec, turns(100, 20, 10))
	r.export()
	check("in turns", map[string]float64{"cycles_total|group/n1/10|group||alice": 1200})
	if d := r.degrees("group"); d["instructions multiplexed"] != figure.Estimated || d["memory_traffic_bytes cache_misses"] != figure.Estimated {
		t.Errorf("in turns: %v", d)
	}
	r.tick(second, live)
	r.l.Tally(counters.Spec, counted(10, 5*second, map[counters.Counter]uint64{counters.CacheMisses: 5}))
	for _, row := range r.l.Live(nil) {
		if want := map[bool]float64{true: 320}[row.Workload == "group/n1/10"]; row.TrafficRate != want {
			t.Errorf("%s moves %v bytes a second, want %v", row.Workload, row.TrafficRate, want)
		}
	}
	r.l.Tally(counters.Spec, turns(0, 10, 0))
	r.export()
	check("without a turn", map[string]float64{"cycles_total|group/n1/10|group||alice": 1200})
	r.restart()
	r.tick(0, live)
	r.l.Tally(counters.Spec, turns(50, 10, 2))
	r.export()
	check("after a restart and a turn", map[string]float64{"cycles_total|group/n1/10|group||alice": 1700, "cache_misses_total|group/n1/10|group||alice": 15})
	gaps := counted(10, 5*second, map[counters.Counter]uint64{counters.Cycles: 1})
	r.l.Tally(counters.Spec, gaps)
	r.export()
	if d, ok := r.degrees("group")["instructions counters"]; !ok || d != figure.Exact {
		t.Errorf("whole again: %v", r.degrees("group"))
	}
	gaps.Gaps, gaps.Rows = true, append(gaps.Rows, row(0, 0, int(counters.Cycles), 5))
	r.l.Tally(counters.Spec, gaps)
	r.export()
	if d := r.degrees("group"); d["instructions full_table"] != figure.AtLeast {
		t.Errorf("with gaps: %v", d)
	}
	check("of nobody", map[string]float64{"cycles_total|other/n1|other||root": 5, "cycles_total|group/n1/10|group||alice": 1702})
}

// TestLiveMemoryTraffic: the rate is over the time between two readings, which may be several ticks apart.
func TestLiveMemoryTraffic(t *testing.T) {
	r := newRig(t, Config{})
	live := []sensor.Process{proc(10, 10, 5*second, 0)}
	r.tick(0, live)
	r.tick(second, live)
	misses := func() {
		r.l.Tally(counters.Spec, counted(10, 5*second, map[counters.Counter]uint64{counters.CacheMisses: 8}))
	}
	for i, c := range []struct {
		ticks int
		want  float64
	}{{1, 512}, {4, 128}, {1, 512}} {
		for range c.ticks {
			r.tick(second, live)
		}
		if misses(); i == 0 { // the first reading may cover more
			continue
		}
		for _, row := range r.l.Live(nil) {
			if row.Workload == "group/n1/10" && (!row.KnowTraffic || row.TrafficRate != c.want) {
				t.Errorf("%d s after the reading before: %v bytes a second, want %v", c.ticks, row.TrafficRate, c.want)
			}
		}
	}
}

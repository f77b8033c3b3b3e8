package account

import (
	"slices"
	"testing"

	"reckon/figure"
	"reckon/sensor"
	"reckon/sensor/task/counters"
)

// TestMonitored: a monitoring group is charged to the workload that has all of its threads, and to nobody else; misses of the cache are not charged
// meanwhile, and nothing falls over a restart.
func TestMonitored(t *testing.T) {
	r := newRig(t, Config{})
	a, b := proc(10, 10, 5*second, 9*second), proc(20, 20, 5*second, 9*second)
	a.Threads = 8
	live := []sensor.Process{a, b}
	r.tick(0, live)
	group := func(g sensor.Monitored) {
		t.Helper()
		r.l.Monitored(&sensor.MonitorPass{Groups: []sensor.Monitored{g}})
		r.export()
	}
	const (
		ofA   = "reckon_workload_memory_traffic_bytes_total|group/n1/10|group||alice|resctrl"
		ofB   = "reckon_workload_memory_traffic_bytes_total|group/n1/20|group||alice|resctrl"
		cache = "reckon_workload_cache_bytes|group/n1/10|group||alice"
	)
	check := func(when string, want float64) {
		t.Helper()
		if got, ok := r.values[ofA]; !ok || got != want {
			t.Errorf("%s: %v (%v), want %v", when, got, ok, want)
		}
		if _, ok := r.values[ofB]; ok {
			t.Errorf("%s: another workload was charged", when)
		}
	}
	tasks := []int32{10, 11, 12, 13, 14, 15, 16, 17}
	group(sensor.Monitored{Tasks: tasks, Bytes: 100, Counted: true, Cache: 7, Occupies: true})
	check("at first", 100)
	if r.values[cache] != 7 {
		t.Errorf("cache: %v", r.values[cache])
	}
	if d := r.degrees("group")["memory_traffic_bytes resctrl"]; d != figure.AtLeast {
		t.Errorf("older than its group: %v", d)
	}
	r.l.Tally(counters.Spec, counted(10, 5*second, map[counters.Counter]uint64{counters.CacheMisses: 10}))
	group(sensor.Monitored{Tasks: tasks, Bytes: 50, Counted: true})
	check("counted twice", 150)
	if v, ok := r.values["reckon_workload_memory_traffic_bytes_total|group/n1/10|group||alice|misses"]; ok {
		t.Errorf("misses were charged besides: %v", v)
	}
	if _, ok := r.values[cache]; ok {
		t.Error("a cache that could not be read")
	}
	for when, g := range map[string]sensor.Monitored{
		"threads of two workloads":           {Tasks: []int32{10, 20}},
		"more threads than the workload has": {Tasks: slices.Repeat([]int32{10, 99}, 10)},
		"threads that nobody knows":          {Tasks: []int32{98, 99}},
	} {
		g.Bytes, g.Counted = 1000, true
		group(g)
		check(when, 150)
	}
	group(sensor.Monitored{Tasks: tasks, Bytes: 1000, Counted: true})
	check("back in a group, while misses were charged until now", 150)
	r.restart()
	r.tick(0, live)
	group(sensor.Monitored{Tasks: tasks, Bytes: 5, Counted: true})
	check("after a restart", 155)
}

// TestMonitoredFromBirth: a workload that was in a group all the time is exact, one that is in it in part is at least that.
func TestMonitoredFromBirth(t *testing.T) {
	for name, c := range map[string]struct {
		threads uint32
		g       sensor.Monitored
		want    figure.Exactness
	}{
		"all the time":           {1, sensor.Monitored{Fresh: true}, figure.Exact},
		"a group from before":    {1, sensor.Monitored{}, figure.AtLeast},
		"a counter that fell":    {1, sensor.Monitored{Fresh: true, Gap: true}, figure.AtLeast},
		"some threads are apart": {9, sensor.Monitored{Fresh: true}, figure.AtLeast},
		"threads come and go":    {5, sensor.Monitored{Fresh: true}, figure.Exact},
	} {
		r := newRig(t, Config{})
		r.tick(0, nil)
		r.l.Monitored(&sensor.MonitorPass{})
		p := proc(10, 10, r.boot+5, second)
		p.Threads = c.threads
		r.tick(second, []sensor.Process{p})
		c.g.Tasks, c.g.Bytes, c.g.Counted = []int32{10}, 10, true
		r.l.Monitored(&sensor.MonitorPass{Groups: []sensor.Monitored{c.g}})
		r.export()
		if got, ok := r.degrees("group")["memory_traffic_bytes resctrl"]; !ok || got != c.want {
			t.Errorf("%s: %v (%v), want %v", name, got, ok, c.want)
		}
	}
}

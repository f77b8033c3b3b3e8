package account

import (
	"testing"
	"time"

	"reckon/metric"
	"reckon/sensor"
	"reckon/workload"
)

// TestTasks: the number of tasks of a step, and the CPU time of the busiest, also over a restart; children of a task
// belong to it.
func TestTasks(t *testing.T) {
	const step = workload.ID("slurm/1")
	of := map[int32]string{10: "0", 11: "1", 20: "0"}
	config := Config{Node: "n", Identify: func(p *sensor.Process, parent *Part, _ bool) Identified {
		part := "0"
		if p.PID == 20 {
			part = "1" // a step of one task
		}
		return Identified{Identity: workload.Identity{Workload: step, Part: part, Task: of[p.PID], Owner: "alice"}}
	}}
	l := New(config)
	process := func(pid, ppid int32, cpu time.Duration) sensor.Process {
		return sensor.Process{PID: pid, PPID: ppid, Start: uint64(pid), UserNanos: uint64(cpu), Have: sensor.FieldParent}
	}
	wall := time.Unix(1_800_000_000, 0)
	tick := func(second int, list ...sensor.Process) {
		l.Tick(wall.Add(time.Duration(second)*time.Second), &sensor.Pass{Boot: uint64(second) * uint64(time.Second), Live: list}, nil)
	}
	figures := func(part string) (count, busiest float64) {
		var b metric.Batch
		l.Export(&b)
		for _, s := range b.Samples {
			switch {
			case s.Series.Values[2] != part:
			case s.Series.Desc == taskCount:
				count = s.Value
			case s.Series.Desc == busiestTask:
				busiest = s.Value
			}
		}
		return count, busiest
	}
	tick(100, process(10, 1, time.Second), process(11, 1, 5*time.Second), process(20, 1, time.Second))
	tick(101, process(10, 1, 2*time.Second), process(11, 1, 6*time.Second), process(12, 11, time.Second), process(20, 1, 2*time.Second))
	if count, busiest := figures("0"); count != 2 || busiest != 7 {
		t.Errorf("%g tasks, the busiest used %g s, want 2 and 7", count, busiest)
	}
	if count, busiest := figures("1"); count != 0 || busiest != 0 {
		t.Errorf("one task alone: %g, %g", count, busiest)
	}
	data, err := saved(l, "boot")
	if err != nil {
		t.Fatal(err)
	}
	l = New(config)
	if err := l.Restore(data, "boot"); err != nil {
		t.Fatal(err)
	}
	tick(102, process(10, 1, 10*time.Second), process(11, 1, 7*time.Second), process(12, 11, time.Second))
	if count, busiest := figures("0"); count != 2 || busiest != 10 {
		t.Errorf("after a restart: %g tasks, the busiest used %g s, want 2 and 10", count, busiest)
	}
}

// TestManyTasks: a part with more tasks than can be distinguished exports no task series.
func TestManyTasks(t *testing.T) {
	for _, n := range []int{maxTasks, maxTasks + 1} {
		p := &Part{}
		for i := range n {
			p.taskNumber(time.Duration(i).String())
		}
		var b metric.Batch
		if p.exportTasks(&b); (len(b.Samples) == 2) != (n <= maxTasks) || (len(p.taskState()) == n) != (n <= maxTasks) {
			t.Errorf("of %d tasks: %d samples", n, len(b.Samples))
		}
	}
}

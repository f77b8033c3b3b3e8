package account

import (
	"testing"
	"time"

	"reckon/account/tally"
	"reckon/sensor"
)

// TestPutOff: what a process did that ended is charged to its workload also where it is read ticks later, as long as
// SkipCounts reported each tick without a reading. The process is forgotten afterwards.
func TestPutOff(t *testing.T) {
	for name, c := range map[string]struct {
		putOff bool
		after  int // ticks between the end and the reading
		own    float64
	}{
		"read in the tick":            {false, 0, 40},
		"read in the next tick":       {false, 1, 40},
		"read late, and not put off":  {false, 3, 0},
		"put off for three ticks":     {true, 3, 40},
		"put off, the second reading": {true, 7, 40},
		"put off for too long":        {true, 20, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{Export: time.Hour})
			other := proc(10, 10, 5*second, 0)
			r.tick(0, []sensor.Process{other})
			p := proc(20, 20, r.boot+5, 2*second)
			r.tick(2*second, []sensor.Process{other, p})
			r.tick(0, []sensor.Process{other}, p)
			for range c.after {
				if c.putOff {
					r.l.SkipCounts()
				}
				r.tick(0, []sensor.Process{other})
			}
			r.traffic(sent(20, p.Start, 40))
			for range tally.MaxWaitTicks + 1 {
				r.tick(0, []sensor.Process{other})
				r.traffic()
			}
			r.export()
			r.want("its own", r.sentBy("group/n1/20", "alice"), c.own)
			r.want("other", r.sentBy("other/n1", "root"), 40-c.own)
			if _, procs, _ := r.l.Counts(); procs != 1 {
				t.Errorf("the ledger holds %d processes, want 1", procs)
			}
		})
	}
}

// TestOutOfOrder: a process that is not at its place in a pass is not taken for missing.
func TestOutOfOrder(t *testing.T) {
	r := newRig(t, Config{})
	a, b, c := proc(10, 10, 5*second, 0), proc(20, 20, 5*second, 0), proc(30, 30, 5*second, 0)
	for range 3 {
		r.tick(0, []sensor.Process{a, b, c})
		r.tick(0, []sensor.Process{b, c, a})
	}
	for range lateTicks + 1 {
		r.tick(0, []sensor.Process{c, a})
	}
	if _, procs, _ := r.l.Counts(); procs != 2 {
		t.Errorf("the ledger holds %d processes, want 2", procs)
	}
	a.UserNanos += second
	r.tick(second, []sensor.Process{c, a})
	r.export()
	r.want("the first", r.cpu("group/n1/10", "", "alice"), 1)
	r.want("other", r.cpu("other/n1", "", "root"), 0)
}

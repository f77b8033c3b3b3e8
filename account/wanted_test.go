package account

import (
	"testing"

	"reckon/sensor"
)

// TestCoresWanted: a thread that gets its core half of the time wants one; a wait that is reported late is spread over the ticks that follow, as
// no thread wants more than one core.
func TestCoresWanted(t *testing.T) {
	cg := &fakeCgroup{c: sensor.Cgroup{Have: sensor.CgroupCPU}}
	r := newRig(t, Config{Identify: inJob(cg, nil)})
	p := proc(10, 10, r.boot+1, 0)
	p.Have |= sensor.FieldWait
	for i := range 60 {
		switch {
		case i < 20: // alone
			p.UserNanos += second / 2
		case i < 40: // others have the core for half of the time
			p.UserNanos += second / 2
			p.WaitNanos += second / 2
		case i == 59: // ten seconds without a core are reported at once
			p.WaitNanos += 10 * second
		}
		r.complete(true)
		r.tick(0, []sensor.Process{p})
		if i == 50 {
			r.restart()
		}
	}
	g := r.l.parts.groups["slurm/1"]
	if g.wanted == nil || g.wanted.cores.Count != g.cores.Count {
		t.Fatalf("%+v beside %d observations", g.wanted, g.cores.Count)
	}
	if sum := g.wanted.cores.Sum; sum < 20*0.5+20*1+1-0.6 || sum > 20*0.5+20*1+1+0.1 {
		t.Errorf("%g core seconds were wanted, want 31", sum)
	}
	if g.wanted.waited != 9*second {
		t.Errorf("%d ns of the wait are in no observation", g.wanted.waited)
	}
}

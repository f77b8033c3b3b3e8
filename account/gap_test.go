package account

import (
	"testing"
	"time"

	"reckon/figure"
	"reckon/sensor"
)

// TestWaitLostInAGap: what processes waited that ended while no agent ran is in no reading and in no record, so that the wait of their
// workload is a lower bound, also where its control group counted all CPU time. What was read again has all that it waited.
func TestWaitLostInAGap(t *testing.T) {
	for name, c := range map[string]struct {
		job  bool                                // in a control group that counts CPU time
		dead bool                                // the second process, before
		then func(shell, p *sensor.Process) bool // what it has become; false if it is gone
		want figure.Exactness
	}{
		"waits on":         {false, false, func(_, _ *sensor.Process) bool { return true }, figure.Exact},
		"ended":            {false, false, func(_, _ *sensor.Process) bool { return false }, figure.AtLeast},
		"ended in a job":   {true, false, func(_, _ *sensor.Process) bool { return false }, figure.AtLeast},
		"not waited for":   {false, false, func(_, p *sensor.Process) bool { p.State = 'Z'; return true }, figure.Exact},
		"had ended before": {false, true, func(_, _ *sensor.Process) bool { return false }, figure.Exact},
		"so did one that began since": {false, false, func(shell,
			_ *sensor.Process) bool {
			shell.ChildUserNanos = second / 10
			return true
		}, figure.AtLeast},
		"its id is another's": {false, false, func(_, p *sensor.Process) bool { p.Start += 5 * second; return true },
			figure.AtLeast},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{})
			if c.job {
				cg := &fakeCgroup{c: sensor.Cgroup{Have: sensor.CgroupCPU, UsageNanos: 20 * second}}
				r.l.config.Identify = inJob(cg, nil)
			}
			r.complete(true)
			r.tick(0, nil)
			shell, child := proc(10, 10, r.boot+1, 9*second), proc(11, 10, r.boot+2, 9*second)
			shell.Have |= sensor.FieldChildren
			child.PPID, child.WaitNanos = 10, second
			if c.dead {
				child.State = 'Z'
			}
			r.tick(0, []sensor.Process{shell, child})
			r.export()
			r.restart()
			r.boot += 2 * second
			child.WaitNanos += second
			live := []sensor.Process{shell, child}
			if !c.then(&live[0], &live[1]) {
				live = live[:1]
			}
			r.tick(0, live)
			for range 2 {
				r.tick(0, live)
				r.export()
				id := map[bool]string{false: "group/n1/10", true: "slurm/1"}[c.job]
				if got := r.worst("cpu_wait_seconds", id); got != c.want {
					t.Errorf("the wait of %s is %v, want %v", id, got, c.want)
				}
			}
		})
	}
}

// TestShortWorkInAGap: what began and ended while no agent ran may be short work of any owner, so that its wait is a lower bound where the
// machine was busy then.
func TestShortWorkInAGap(t *testing.T) {
	for busy, want := range map[uint64]figure.Exactness{0: figure.Exact, second: figure.AtLeast} {
		r := newRig(t, Config{Export: 5 * time.Second})
		r.complete(true)
		r.tick(0, nil)
		p := proc(10, 10, r.boot+1, second/10)
		p.WaitNanos = second
		r.tick(second/10, nil, p)
		r.tick(0, nil)
		r.export()
		r.restart()
		r.tick(busy, nil)
		r.export()
		r.export()
		if got := r.worst("cpu_wait_seconds", "short/alice/n1"); got != want {
			t.Errorf("%.0f s of nobody: the wait of short work is %v, want %v", toSeconds(busy), got, want)
		}
	}
}

// TestZombieOfAnEndedGroup: a process that nobody waits for is charged once, and to nobody else after restarts, although its group has
// ended
// and is in the accounts no more, or is short work. It remains its owner's, and its parent's child times that have it later are no new use.
func TestZombieOfAnEndedGroup(t *testing.T) {
	for name, used := range map[string]uint64{"a group": 30 * second, "short work": second / 2} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{Export: 5 * time.Second})
			k := newKin(10 * second)
			daemon := k.fork(1, true, 20*second)
			r.step(k, 0)
			r.export()
			child := k.fork(daemon, true, r.boot)
			k.run(child, used)
			r.step(k, 0)
			k.exit(child, 1)
			for range 3 {
				for range 5 {
					r.step(k, 0)
				}
				r.export()
				r.restart()
			}
			shorts := r.values["reckon_short_workloads_total|alice"]
			for range 70 {
				r.step(k, 0)
			}
			r.export()
			r.want("zombies of alice", r.values["reckon_zombie_processes|alice"], 1)
			k.wait(child)
			for range 10 {
				r.step(k, 0)
			}
			r.export()
			about(t, "all", toSeconds(r.l.Total()), toSeconds(used))
			r.want("short work", r.values["reckon_short_workloads_total|alice"], shorts)
			if got := r.group(daemon); got != 0 {
				t.Errorf("its parent was charged with %.3f s", got)
			}
		})
	}
}

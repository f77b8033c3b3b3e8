package account

import (
	"testing"

	"reckon/sensor"
	"reckon/workload"
)

// resting is a control group that always may rest, and counts its readings.
type resting struct {
	fakeCgroup
	reads int
}

func (r *resting) Read(c *sensor.Cgroup) error {
	r.reads++
	return r.fakeCgroup.Read(c)
}

func (r *resting) Rest() bool { return true }

// TestIdleGroupsRest: a control group is left alone while all its processes are there and none has run, by a source that
// would know; the whole workload's while this is so of each part.
func TestIdleGroupsRest(t *testing.T) {
	var step, other, whole resting
	r := newRig(t, Config{Identify: func(p *sensor.Process, _ *Part, _ bool) Identified {
		id := Identified{Identity: workload.Identity{Workload: "slurm/1", Part: "0", Owner: "bob"}, Handle: &step, Whole: &whole}
		if p.PID == 20 {
			id.Part, id.Handle = "1", &other
		}
		return id
	}})
	r.complete(true)
	r.pass.Joined = true
	a, b, c := proc(10, 10, r.boot, second), proc(11, 10, r.boot, second), proc(20, 20, r.boot, second)
	r.tick(second, []sensor.Process{a, b, c})
	for _, x := range []struct {
		name               string
		change             func()
		step, other, whole int // readings in this tick
	}{
		{"nothing runs", func() {}, 0, 0, 0},
		{"one runs", func() { a.UserNanos++ }, 1, 0, 1},
		{"it rests again", func() {}, 0, 0, 0},
		{"one was switched to", func() { b.Voluntary++ }, 1, 0, 1},
		{"another part runs", func() { c.UserNanos++ }, 0, 1, 1},
		{"ends are not known", func() { r.complete(false) }, 1, 1, 1},
		{"from two sources", func() { r.complete(true); r.pass.Joined = false }, 1, 1, 1},
		{"an end was lost", func() { r.pass.Joined, r.pass.Lost = true, 1 }, 1, 1, 1},
		{"none was lost since", func() { r.pass.Lost = 0 }, 0, 0, 0},
	} {
		step.reads, other.reads, whole.reads = 0, 0, 0
		x.change()
		r.tick(0, []sensor.Process{a, b, c})
		if got, want := [...]int{step.reads, other.reads, whole.reads}, [...]int{x.step, x.other, x.whole}; got != want {
			t.Errorf("%s: readings %v, want %v", x.name, got, want)
		}
	}
	step.reads, other.reads = 0, 0
	b.UserNanos++
	r.tick(0, []sensor.Process{a, c}, b)
	r.tick(0, []sensor.Process{a})
	if step.reads != 1 || other.reads != 1 {
		t.Errorf("one of two processes ended, then the only one of another part: %d and %d readings, want one each", step.reads, other.reads)
	}
}

// TestLastReadingOfGroup: what a group used until shortly before its end is charged when its container is replaced at once.
func TestLastReadingOfGroup(t *testing.T) {
	old := &fakeCgroup{c: sensor.Cgroup{Have: sensor.CgroupCPU, UsageNanos: second}}
	next := &fakeCgroup{c: sensor.Cgroup{Have: sensor.CgroupCPU}}
	r := newRig(t, Config{Identify: func(p *sensor.Process, _ *Part, _ bool) Identified {
		id := Identified{Identity: workload.Identity{Workload: "pod/shop/a", Part: "main", Owner: "shop", Place: "u/1", Run: "u"}, Handle: old}
		if p.PID == 11 {
			id.Place, id.Handle = "u/2", next
		}
		return id
	}})
	r.tick(second, nil)
	a, b := proc(10, 10, r.boot+1, second/2), proc(11, 11, r.boot+second+1, second/4)
	r.tick(second, []sensor.Process{a})
	old.c.UsageNanos += second / 2 // by children that nobody saw
	next.c.UsageNanos = second / 4
	r.tick(second, []sensor.Process{b}, a)
	r.export()
	r.want("both containers", r.cpu("pod/shop/a", "main", "shop"), 1.75)
}

// TestUsedBeforeTheContainer: a process of the runtime that becomes the container's first one used CPU time before it entered the
// container's group, which is not the container's.
func TestUsedBeforeTheContainer(t *testing.T) {
	for _, x := range []struct {
		name, place string
		want        float64
	}{
		{"container", "u/1", 0.4},
		{"group that may not hold all processes of its part", "", 0.45},
	} {
		cg := &fakeCgroup{c: sensor.Cgroup{Have: sensor.CgroupCPU}}
		r := newRig(t, Config{Identify: func(*sensor.Process, *Part, bool) Identified {
			return Identified{Identity: workload.Identity{Workload: "pod/shop/a", Part: "main", Owner: "shop", Place: x.place, Run: "u"}, Handle: cg}
		}})
		r.tick(second, nil)
		p := proc(10, 10, r.boot+1, second/4)
		cg.c.UsageNanos = second / 5 // of 0.25 s
		r.tick(second, []sensor.Process{p})
		r.export()
		p.UserNanos += second / 5
		cg.gone = true
		r.tick(second, nil, p)
		r.export()
		r.want(x.name, r.cpu("pod/shop/a", "main", "shop"), x.want)
	}
}

package account

import (
	"bytes"
	"fmt"
	"testing"

	"reckon/sensor"
	"reckon/workload"
)

// stepOf puts processes of group 1 into the batch step of a job, and processes of group 2 into a step of it.
func stepOf(p *sensor.Process, _ *Part, _ bool) Identified {
	part := map[int32]string{1: "batch", 2: "0"}[p.PGID]
	return Identified{Identity: workload.Identity{Workload: "slurm/7", Part: part, Owner: "alice"}}
}

// TestProcessesLeft: processes alive at the end of a script are counted, whichever pass has the records, and no others.
func TestProcessesLeft(t *testing.T) {
	const s = second
	began := 1000*s + s/2
	p := func(pid, group int32, after uint64) sensor.Process { return proc(pid, group, began+after, 0) }
	ended := func(p sensor.Process, at uint64) sensor.Process {
		p.Life, p.State = began+at-p.Start, 'X'
		return p
	}
	script, child, other, step := p(50, 1, 0), p(51, 1, s/10), p(52, 1, s/5), p(60, 2, s/10)
	lower := p(9, 1, s/10+1) // ids began again at the lowest
	lower.PPID, lower.Have = script.PID, lower.Have|sensor.FieldParent
	type passes [][2][]sensor.Process // live and ended, by second
	live := func(list ...sensor.Process) []sensor.Process { return list }
	both := live(script, child, other)
	for name, c := range map[string]struct {
		passes  passes
		records bool // of taskstats: their order is theirs, and their times are not exact
		want    float64
	}{
		"nothing left":        {passes{{both, nil}, {nil, live(ended(child, s), ended(other, s), ended(script, 2*s))}}, false, 0},
		"killed with it":      {passes{{both, nil}, {nil, live(ended(script, s), ended(child, s+1), ended(other, s+2))}}, false, 2},
		"a record before its": {passes{{both, nil}, {nil, live(ended(child, s+1), ended(script, s), ended(other, s/2))}}, false, 1},
		"killed seconds later": {passes{{both, nil}, {live(child, other), live(ended(script, s))}, {live(other), nil},
			{nil, live(ended(child, 3*s), ended(other, 4*s))}}, false, 2},
		"started after it": {passes{{both, nil}, {live(child), live(ended(other, s/2), ended(script, s))},
			{live(child, p(70, 1, 2*s)), nil}, {nil, live(ended(p(70, 1, 2*s), 3*s), ended(child, 3*s))}}, false, 1},
		"a step that goes on":      {passes{{live(script, step), nil}, {live(step), live(ended(script, s))}, {nil, live(ended(step, 3*s))}}, false, 0},
		"all between two readings": {passes{{nil, nil}, {nil, live(ended(child, s/4), ended(script, s/3), ended(other, s/3+9))}}, false, 1},
		"taskstats":                {passes{{both, nil}, {nil, live(ended(other, s), ended(script, s), ended(child, s))}}, true, 1},
		"taskstats, seconds later": {passes{{both, nil}, {live(child), live(ended(other, s), ended(script, s))}, {nil, live(ended(child, 3*s))}}, true, 1},
		"taskstats, short":         {passes{{nil, nil}, {nil, live(ended(p(51, 1, 0), s), ended(script, s), ended(p(52, 1, 0), s))}}, true, 1},
		"a lower id, later start": {passes{{live(lower, script, other), nil},
			{nil, live(ended(lower, s/2), ended(other, s), ended(script, 2*s))}}, false, 0},
		"taskstats, a lower id, later start": {passes{{live(script, other), nil},
			{live(script, other), live(ended(lower, s/2))}, {nil, live(ended(other, s), ended(script, 2*s))}}, true, 0},
		"it runs": {passes{{both, nil}, {live(script, child), live(ended(other, s))}}, false, 0},
	} {
		for _, again := range []bool{false, true} { // with a restart after the first second
			t.Run(fmt.Sprint(name, " ", again), func(t *testing.T) {
				r := newRig(t, Config{Identify: stepOf})
				for i, x := range c.passes {
					r.pass.Joined = !c.records
					r.tick(0, x[0], x[1]...)
					r.export()
					if again && i == 0 {
						var saved bytes.Buffer
						if err := r.l.Save(&saved, "b"); err != nil {
							t.Fatal(err)
						}
						if r.l = New(r.l.config); r.l.Restore(saved.Bytes(), "b") != nil {
							t.Fatal("not restored")
						}
					}
				}
				if got := r.values["reckon_workload_processes_left|slurm/7|slurm|batch|alice"]; got != c.want {
					t.Errorf("%g, want %g", got, c.want)
				}
			})
		}
	}
}

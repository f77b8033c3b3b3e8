package account

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"reckon/figure"
)

// TestParentEndsWithChild: where the leader of a group and the process that waits for it end in the same tick, the CPU time of the
// leader and its children since the last reading is charged to the group, from the child times of the next ancestor.
func TestParentEndsWithChild(t *testing.T) {
	const ms = uint64(time.Millisecond)
	for name, tt := range map[string]struct {
		own      uint64 // CPU time of the leader in a second
		children int    // of a millisecond, in a second
		between  int    // processes between the shell and the one that waits
		seconds  int
		noise    int // short commands of the shell itself in a second, 2 ms each
	}{
		"a busy leader":                 {own: 900 * ms, seconds: 5},
		"its children":                  {children: 900, seconds: 5},
		"its children, deeper":          {children: 900, between: 2, seconds: 5},
		"both":                          {own: 200 * ms, children: 700, seconds: 4},
		"both, beside other commands":   {own: 200 * ms, children: 500, seconds: 4, noise: 50},
		"which ends after one reading":  {children: 900, seconds: 1},
		"which does nothing until then": {own: ms, seconds: 3},
	} {
		r := newRig(t, Config{Export: 15 * time.Second})
		k := newKin(10 * second)
		shell := k.fork(1, true, 20*second)
		r.step(k, 0)
		r.step(k, 0)
		chain := []int32{shell}
		for range tt.between + 1 {
			chain = append(chain, k.fork(chain[len(chain)-1], false, r.boot+second/10))
		}
		leader := k.fork(chain[len(chain)-1], true, r.boot+second/10)
		work := func(part uint64) { // in parts of a tenth of a second
			for range part {
				k.run(leader, tt.own/10)
				for range tt.children / 10 {
					c := k.fork(leader, false, r.boot)
					k.run(c, ms)
					k.end(c)
				}
				for range tt.noise / 10 {
					c := k.fork(shell, false, r.boot)
					k.run(c, 2*ms)
					k.end(c)
				}
			}
		}
		work(9)
		r.step(k, 0)
		for range tt.seconds - 1 {
			work(10)
			r.step(k, 0)
		}
		r.export() // seen alive, it is not folded
		work(9)
		k.end(leader)
		for i := len(chain) - 1; i > 0; i-- {
			k.end(chain[i])
		}
		r.step(k, 0)
		r.step(k, 0)
		r.step(k, 0)
		r.export()
		got, rest := r.cpu(fmt.Sprintf("group/n1/%d", leader), "", "alice"), r.cpu(fmt.Sprintf("group/n1/%d", shell), "", "alice")
		if short := r.cpu("short/alice/n1", "", "alice"); got == 0 {
			got = short
		}
		want, others := float64(k.truth[leader])/1e9, float64(k.truth[shell])/1e9
		about(t, name+", both", got+rest, want+others)
		if tt.noise > 0 { // by its rate, which is not known better than the other commands allow
			if got < want*0.97 || got > want*1.04 {
				t.Errorf("%s: %.3f s, want about %.3f", name, got, want)
			}
			continue
		}
		about(t, name, got, want)
		about(t, name+", the shell", rest, others)
	}
}

// TestDeadAtItsReading: a process that was dead when a reading saw it has no last moments, whatever its siblings used since.
func TestDeadAtItsReading(t *testing.T) {
	const ms = uint64(time.Millisecond)
	for name, others := range map[string]bool{"which nobody saw": true, "that was seen to be idle": false} {
		r := newRig(t, Config{Export: 15 * time.Second})
		k := newKin(10 * second)
		shell := k.fork(1, true, 20*second)
		r.step(k, 0)
		r.step(k, 0)
		dead := k.fork(shell, true, r.boot+second/10)
		for range 100 {
			c := k.fork(dead, false, r.boot)
			k.run(c, ms)
			k.end(c)
		}
		k.exit(dead, 1)
		sibling := k.fork(shell, true, r.boot+second/2)
		r.step(k, 0)
		r.export() // it is not folded
		k.wait(dead)
		for range 10 {
			c := sibling
			if others {
				c = k.fork(shell, true, r.boot)
			}
			if k.run(c, 50*ms); others {
				k.end(c)
			}
		}
		k.end(sibling)
		r.step(k, 0)
		got := r.group(dead)
		r.step(k, 0)
		if got = max(got, r.group(dead)); got < 0.08 || got > 0.101 {
			t.Errorf("beside siblings %s: %.3f s, want 0.1", name, got)
		}
	}
}

// TestMoreAtTheEndThanItsRate: a process that others kept from running may use more in its last second than in those before. Where its parent
// has had children that no reading saw, its owner is not known, unless those use as much all the time.
func TestMoreAtTheEndThanItsRate(t *testing.T) {
	const ms = uint64(time.Millisecond)
	for name, c := range map[string]struct {
		before, all uint64 // the parent's unseen children: once, and in each second
		last        uint64 // of the process
		group       float64
		marked      bool
	}{
		"a parent without other children":   {last: 500 * ms, group: 0.8},
		"one that had another":              {before: 100 * ms, last: 500 * ms, group: 0.445, marked: true},
		"no more than before":               {before: 100 * ms, last: 100 * ms, group: 0.4},
		"not much more":                     {before: 100 * ms, last: 140 * ms, group: 0.44},
		"others use as much all the time":   {all: 500 * ms, last: 100 * ms, group: 0.445},
		"others use less than what is left": {all: 100 * ms, last: 500 * ms, group: 0.445, marked: true},
	} {
		r := newRig(t, Config{Export: 15 * time.Second})
		k := newKin(10 * second)
		shell := k.fork(1, true, 20*second)
		k.run(shell, 10*second)
		r.step(k, 0)
		r.step(k, 0)
		others := func(nanos uint64) {
			if nanos > 0 {
				o := k.fork(shell, false, r.boot+second/4)
				k.run(o, nanos)
				k.end(o)
			}
		}
		others(c.before)
		r.step(k, 0)
		job := k.fork(shell, true, r.boot)
		for range 4 {
			k.run(job, 75*ms)
			others(c.all)
			r.step(k, 0)
		}
		r.export() // it is not folded
		k.run(job, c.last)
		others(c.all)
		k.end(job)
		r.step(k, 0)
		r.step(k, 0)
		r.export()
		if got := r.cpu(fmt.Sprintf("group/n1/%d", job), "", "alice"); got < c.group-0.035 || got > c.group+0.035 {
			t.Errorf("%s: %.3f s, want about %.3f", name, got, c.group)
		}
		sure := map[string]figure.Exactness{}
		for key, v := range r.values {
			if f := strings.Split(key, "|"); f[0] == "reckon_figure_exactness" && f[1] == "cpu_seconds" && f[4] != "" && v != 0 {
				sure[f[4]] = figure.Exactness(v)
			}
		}
		want := map[string]figure.Exactness{}
		if c.marked {
			want[fmt.Sprintf("group/n1/%d", job)], want["short/alice/n1"] = figure.AtLeast, figure.Estimated
		} else if c.before > 0 {
			want["short/alice/n1"] = figure.AtLeast // the other one, which may have been a group of its own
		}
		if !maps.Equal(sure, want) {
			t.Errorf("%s: %v, want %v", name, sure, want)
		}
	}
}

// TestEndWithoutChildTimes: the last moments of a process are in no child times where its parent ignores SIGCHLD and ends with it. Its
// group is marked.
func TestEndWithoutChildTimes(t *testing.T) {
	for _, ignored := range []bool{false, true} {
		r := newRig(t, Config{Export: 15 * time.Second})
		k := newKin(10 * second)
		shell := k.fork(1, true, 20*second)
		r.step(k, 0)
		r.step(k, 0)
		leader := k.fork(shell, true, r.boot+second/10)
		worker := k.fork(leader, false, r.boot+second/10)
		for range 4 {
			k.run(worker, second)
			r.step(k, 0)
		}
		r.export() // it is not folded
		k.run(worker, second/2)
		if k.exit(worker, 1); ignored {
			delete(k.procs, worker)
		} else {
			k.wait(worker)
		}
		k.end(leader)
		for range 40 { // as of the whole machine it is little
			r.step(k, 0)
		}
		r.export()
		id := fmt.Sprintf("group/n1/%d", leader)
		got, mark := r.cpu(id, "", "alice"), r.worst("cpu_seconds", id)
		if ignored && (got > 4.01 || mark != figure.AtLeast) || !ignored && (got < 4.45 || mark != figure.Exact) {
			t.Errorf("ignored %t: %.3f s, %v", ignored, got, mark)
		}
	}
}

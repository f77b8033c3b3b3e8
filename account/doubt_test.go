package account

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"reckon/figure"
	"reckon/sensor"
	"reckon/workload"
)

// unsure returns the workloads with CPU time that was not exact in the last export.
func (r *rig) unsure() map[string]figure.Exactness {
	out := map[string]figure.Exactness{}
	for key, v := range r.values {
		if f := strings.Split(key, "|"); f[0] == "reckon_figure_exactness" && f[1] == "cpu_seconds" && f[4] != "" && v != 0 {
			out[f[4]] = figure.Exactness(v)
		}
	}
	return out
}

// TestSessionsAndCommands: of a parent of which both sessions and commands of its own group were seen, children that no reading saw are
// charged as those were seen, whether they leave records without a group or none at all, and neither figure is exact. One command among
// many sessions, or a session that a reading met before its setsid, changes nothing.
func TestSessionsAndCommands(t *testing.T) {
	const each = second / 50
	for name, c := range map[string]struct {
		commands int  // of 40 children in a second
		seen     int  // of 10 readings that see a child, this many see a command
		records  bool // without a group
		early    bool // a reading sees each session before its setsid
		marked   bool
	}{
		"half":               {commands: 20, seen: 5, marked: true},
		"half, with records": {commands: 20, seen: 5, records: true, marked: true},
		"few":                {commands: 8, seen: 2, marked: true},
		"few, with records":  {commands: 8, seen: 2, records: true, marked: true},
		"sessions":           {},
		"sessions, records":  {records: true},
		"seen early":         {early: true},
		"commands":           {commands: 40, seen: 10},
		"commands, records":  {commands: 40, seen: 10, records: true},
	} {
		r := newRig(t, Config{Export: 15 * time.Second, Identify: func(p *sensor.Process, parent *Part, ended bool) Identified {
			if p.Have&sensor.FieldGroup == 0 && parent == nil {
				return Identified{Identity: workload.Identity{Workload: workload.MakeID(workload.Short, "alice/n1"), Owner: "alice"}}
			}
			return byGroup(p, parent, ended)
		}})
		k := newKin(10 * second)
		shell := k.fork(1, true, 20*second)
		r.step(k, 0)
		r.step(k, 0)
		see := func(i int) { // a child that does nothing
			s := k.fork(shell, i >= c.seen, r.boot+second/2)
			if c.early {
				k.procs[s].pgid = shell
				r.step(k, 0)
				k.procs[s].pgid = s
			}
			r.step(k, 0)
			k.end(s)
		}
		for i := range 10 {
			see(i)
		}
		for i := range 10 {
			var ended []sensor.Process
			if i == 5 && c.marked { // and one more of each
				see(0)
				see(9)
			}
			for n := range 40 {
				s := k.fork(shell, n >= c.commands, r.boot)
				k.run(s, each)
				k.end(s)
				if c.records {
					p := proc(s, 0, r.boot, each)
					p.PPID, p.State = shell, 'X'
					p.Have &^= sensor.FieldGroup
					ended = append(ended, p)
				}
			}
			r.step(k, 0, ended...)
		}
		r.step(k, 0)
		r.export()
		group := r.cpu(fmt.Sprintf("group/n1/%d", shell), "", "alice")
		short := r.cpu("short/alice/n1", "", "alice")
		all := 400 * float64(each) / 1e9
		about(t, name+": both", group+short, all)
		if want := all * float64(c.commands) / 40; group < want-0.05*all || group > want+0.05*all {
			t.Errorf("%s: the parent's group has %.3f s, want %.3f of %.3f", name, group, want, all)
		}
		want := map[string]figure.Exactness{}
		if c.marked {
			want["short/alice/n1"], want[fmt.Sprintf("group/n1/%d", shell)] = figure.Estimated, figure.Estimated
		}
		if got := r.unsure(); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// TestTwoEndAtOnce: two groups of one shell end between two readings. What both used since is divided by their rates, so that an idle one
// gets none of a busy one; where both were busy neither is exact.
func TestTwoEndAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		one, other   [2]uint64 // in a second, and in the last one, in thousandths
		marked       bool
		least, wants float64 // of the one
	}{
		"both busy":         {one: [2]uint64{900, 800}, other: [2]uint64{900, 100}, marked: true, least: 4.1, wants: 4.5},
		"the other is idle": {one: [2]uint64{900, 800}, least: 4.47, wants: 4.5},
		"the one is idle":   {other: [2]uint64{900, 800}, least: 1, wants: 1.03},
	} {
		r := newRig(t, Config{Export: 15 * time.Second})
		k := newKin(10 * second)
		shell := k.fork(1, true, 20*second)
		r.step(k, 0)
		r.step(k, 0)
		one, other := k.fork(shell, true, r.boot), k.fork(shell, true, r.boot)
		k.run(one, second) // so much that 20 ms more or less do not matter
		k.run(other, second)
		r.step(k, 0)
		for range 3 {
			k.run(one, c.one[0]*second/1000)
			k.run(other, c.other[0]*second/1000)
			r.step(k, 0)
		}
		r.export() // they are not folded
		k.run(one, c.one[1]*second/1000)
		k.run(other, c.other[1]*second/1000)
		k.end(one)
		k.end(other)
		r.step(k, 0)
		r.step(k, 0)
		r.export()
		names := [2]string{fmt.Sprintf("group/n1/%d", one), fmt.Sprintf("group/n1/%d", other)}
		got, rest := r.cpu(names[0], "", "alice"), r.cpu(names[1], "", "alice")
		about(t, name+": both", got+rest, float64(k.used)/1e9)
		if got < c.least || got > c.wants+0.001 {
			t.Errorf("%s: %.3f s, want %.2f to %.2f", name, got, c.least, c.wants)
		}
		want := map[string]figure.Exactness{}
		if c.marked {
			want[names[0]], want[names[1]] = figure.Estimated, figure.Estimated
		}
		if got := r.unsure(); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// TestNoChildSeen: children that no reading saw are charged to the group of their parent. They may be groups of their own, so that
// this is exact only once one was seen there; also where the parent ends, and after a restart.
func TestNoChildSeen(t *testing.T) {
	for name, c := range map[string]struct{ seen, ends, restart, marked bool }{
		"none":               {marked: true},
		"and ends":           {ends: true, marked: true},
		"after a restart":    {restart: true, ends: true, marked: true},
		"one in the group":   {seen: true},
		"one, and it ends":   {seen: true, ends: true},
		"one, and a restart": {seen: true, restart: true},
	} {
		r := newRig(t, Config{Export: 15 * time.Second})
		k := newKin(10 * second)
		shell := k.fork(1, true, 20*second)
		r.step(k, 0)
		r.export() // it is not folded
		r.step(k, 0)
		for range 20 {
			s := k.fork(shell, false, r.boot)
			k.run(s, second/50)
			k.end(s)
		}
		r.step(k, 0)
		if c.seen {
			s := k.fork(shell, false, r.boot)
			r.step(k, 0)
			k.end(s)
		}
		if c.ends {
			k.end(shell)
		}
		r.step(k, 0)
		if c.restart {
			r.export()
			r.restart()
		}
		r.step(k, 0)
		r.export()
		r.want(name, r.cpu(fmt.Sprintf("group/n1/%d", shell), "", "alice"), 0.4)
		want := map[string]figure.Exactness{}
		if c.marked {
			want[fmt.Sprintf("group/n1/%d", shell)] = figure.Estimated
		}
		if got := r.unsure(); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// TestDoubtsAddUp: uncertainty is held against the whole use of a workload: a little in each export is much in the end.
func TestDoubtsAddUp(t *testing.T) {
	r := newRig(t, Config{Export: 15 * time.Second})
	k := newKin(10 * second)
	shell := k.fork(1, true, 20*second)
	k.run(shell, 2*second)
	r.step(k, 0)
	one, other := k.fork(shell, false, r.boot), k.fork(shell, true, r.boot)
	for i := range 20 {
		s := k.fork(shell, i%2 == 0, r.boot)
		k.run(s, second/100)
		k.end(s)
		r.step(k, 0)
		r.export()
	}
	if got := r.unsure()[fmt.Sprintf("group/n1/%d", shell)]; got != figure.Estimated {
		t.Errorf("0.2 of 2.1 s are unclear, and the figure is %v", got)
	}
	k.end(one)
	k.end(other)
}

// TestWokenOnce: a group that one reading saw, beside forks that none saw, gets all that its parent's child times show where the parent
// was woken once since: it has not waited for anything else. That is exact.
func TestWokenOnce(t *testing.T) {
	for name, c := range map[string]struct {
		silent  bool // the turns of processes are unknown
		others  int  // of the parent's own children, in groups of their own, after it
		between bool // a process of another group between the parent and the group ends with it
		late    bool // the parent's id is after the group's
		exact   bool
	}{
		"alone":              {exact: true},
		"read before":        {late: true, exact: true},
		"one after it":       {others: 1},
		"unknown":            {silent: true},
		"by way of a parent": {between: true},
	} {
		r := newRig(t, Config{Export: 15 * time.Second})
		k := newKin(10 * second)
		k.turns = !c.silent
		if k.next = 100; c.late {
			k.next = 20000
		}
		shell := k.fork(1, true, 20*second)
		r.step(k, 0)
		r.step(k, 0)
		k.next, k.given[100] = 100, true
		top := shell
		if c.between {
			top = k.fork(shell, true, r.boot+second/2)
		}
		job := k.fork(top, true, r.boot+second/2)
		for range 100 {
			s := k.fork(job, false, r.boot+second/2)
			k.run(s, second/500)
			k.end(s)
		}
		seen := k.fork(job, false, r.boot+second/2)
		r.step(k, 0)
		r.export()
		k.end(seen)
		for range 300 {
			s := k.fork(job, false, r.boot)
			k.run(s, second/500)
			k.end(s)
		}
		k.end(job)
		if c.between {
			k.end(top)
		}
		for range c.others {
			s := k.fork(shell, true, r.boot)
			k.run(s, second/4)
			k.end(s)
		}
		r.step(k, 0)
		r.step(k, 0)
		r.export()
		id := fmt.Sprintf("group/n1/%d", job)
		got, marked := r.cpu(id, "", "alice"), r.unsure()[id] != figure.Exact
		if exact := got > 0.789 && got < 0.801; exact != c.exact || marked == c.exact {
			t.Errorf("%s: %.3f of 0.8 s, marked: %t", name, got, marked)
		}
	}
}

// TestEndsUnderInit: what a process used after its last reading is nobody's where process 1 waits for it. It may lack what was charged to
// other then, so that its group has at least what it shows.
func TestEndsUnderInit(t *testing.T) {
	for name, c := range map[string]struct {
		last   uint64 // of the process, after its last reading
		irq    uint64 // interrupts in the same second
		waited bool   // a shell waits for it
		sure   figure.Exactness
	}{
		"it did nothing":     {},
		"it worked":          {last: second / 4, sure: figure.AtLeast},
		"interrupts":         {irq: second / 4},
		"its shell waits":    {last: second / 4, waited: true},
		"hardly a hundredth": {last: second / 100},
	} {
		r := newRig(t, Config{Export: 15 * time.Second})
		k := newKin(10 * second)
		k.next = 100
		parent := int32(1)
		if c.waited {
			parent = k.fork(1, true, 20*second)
		}
		r.step(k, 0)
		r.step(k, 0)
		job := k.fork(parent, true, r.boot)
		for range 4 {
			k.run(job, second/2)
			r.step(k, 0)
		}
		r.export()
		for range 20 { // the rest of the node is exact
			k.run(job, second/4)
			r.step(k, 0)
		}
		k.run(job, c.last)
		k.end(job)
		r.m.IRQ += c.irq
		r.step(k, c.irq)
		r.step(k, 0)
		r.export()
		id := fmt.Sprintf("group/n1/%d", job)
		if got := r.unsure()[id]; got != c.sure {
			t.Errorf("%s: %.3f s is %v, want %v", name, r.cpu(id, "", "alice"), got, c.sure)
		}
	}
}

// TestEndsInTheReading: a process that ends while the table is read, after its parent was read and before its turn, gets its last moments
// from the child times that the next reading shows.
func TestEndsInTheReading(t *testing.T) {
	r := newRig(t, Config{Export: 15 * time.Second})
	k := newKin(10 * second)
	k.turns = true
	shell := k.fork(1, true, 20*second)
	r.step(k, 0)
	r.step(k, 0)
	job := k.fork(shell, true, r.boot)
	for range 4 {
		k.run(job, second/2)
		r.step(k, 0)
	}
	r.export()
	k.run(job, second/2)
	before := k.live()
	k.end(job)
	busy := k.used - r.before
	r.before = k.used
	r.tick(busy, torn(before, k.live(), job))
	r.step(k, 0)
	r.export()
	id := fmt.Sprintf("group/n1/%d", job)
	about(t, "the group", r.cpu(id, "", "alice"), 2.5)
	about(t, "the shell", r.cpu(fmt.Sprintf("group/n1/%d", shell), "", "alice"), 0)
	if sure := r.unsure(); len(sure) > 0 {
		t.Errorf("%v", sure)
	}
}

// TestUnseenAfterALongOne: after a command that it has had for a while a shell ran others that no reading saw, which it has not had before.
// What its child times show may be the one's or the others'. Without anything that began it is the one's.
func TestUnseenAfterALongOne(t *testing.T) {
	for _, others := range []bool{false, true} {
		r := newRig(t, Config{Export: 15 * time.Second})
		k := newKin(10 * second)
		shell := k.fork(1, true, 20*second)
		r.step(k, 0)
		r.step(k, 0)
		job := k.fork(shell, true, r.boot)
		k.run(job, second/10)
		r.step(k, 0)
		r.step(k, 0)
		r.export()
		if others {
			k.end(job)
			s := k.fork(shell, true, r.boot)
			k.run(s, second/2)
			k.end(s)
		} else {
			k.run(job, second/2)
			k.end(job)
		}
		r.step(k, 0)
		r.step(k, 0)
		r.export()
		id := fmt.Sprintf("group/n1/%d", job)
		got, sure := r.cpu(id, "", "alice"), r.unsure()[id]
		if others && sure != figure.Estimated || !others && (sure != figure.Exact || got < 0.59 || got > 0.61) {
			t.Errorf("with others: %t: %.3f s, %v", others, got, sure)
		}
	}
}

// TestRecordsOfUnseenTrees: records without a process group of a tree that no reading saw are of the group of the living process above it, on a
// guess: what comes to light of its children later holds for the whole tree.
func TestRecordsOfUnseenTrees(t *testing.T) {
	for _, own := range []bool{false, true} {
		r := newRig(t, Config{Export: 15 * time.Second, Identify: identifySimulated})
		shell := proc(100, 100, r.boot, 0)
		shell.UID = 1000
		r.tick(0, []sensor.Process{shell})
		r.tick(0, []sensor.Process{shell})
		ended := func(pid, parent int32, cpu uint64) sensor.Process {
			p := proc(pid, 0, r.boot+second/5, cpu)
			p.PPID, p.UID, p.State = parent, 1000, 'X'
			p.Have &^= sensor.FieldGroup
			return p
		}
		r.tick(second/2, []sensor.Process{shell}, ended(203, 202, second/2), ended(202, 201, 0), ended(201, 100, 0))
		child := proc(150, 100, r.boot+second/2, 0)
		if child.PPID, child.UID = 100, 1000; own {
			child.PGID, child.SID = 150, 150
		}
		r.tick(0, []sensor.Process{shell, child})
		r.export()
		if got := r.unsure()["group/n1/100"]; (got != figure.Exact) != own {
			t.Errorf("children are groups of their own: %t: %v", own, got)
		}
	}
}

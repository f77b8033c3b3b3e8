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

// TestOneSeenOfMany: of many children that one parent starts one after the other, each in a group of its own, a reading sees one,
// which is charged with at most as much again as it used by then, and a slack. One child that used as much, where nothing else began, is.
func TestOneSeenOfMany(t *testing.T) {
	const each = second / 25
	for seen := range 3 { // how far the one that is seen has come
		r := newRig(t, Config{Export: 15 * time.Second})
		k := newKin(10 * second)
		shell := k.fork(1, true, 20*second)
		r.step(k, 0)
		r.step(k, 0)
		got := map[int32]float64{}
		export := func() { // each second, so that they are not folded into short work
			r.export()
			for c := range got {
				got[c] = max(got[c], r.cpu(fmt.Sprintf("group/n1/%d", c), "", "alice"))
			}
		}
		for range 4 {
			for range 23 {
				c := k.fork(shell, true, r.boot)
				k.run(c, each)
				k.end(c)
			}
			c := k.fork(shell, true, r.boot+second-each)
			got[c] = 0
			k.run(c, each*uint64(seen)/2)
			r.step(k, 0)
			export()
			k.run(c, each-each*uint64(seen)/2)
			k.end(c)
		}
		r.step(k, 0)
		export()
		r.step(k, 0)
		export()
		sum := r.cpu("short/alice/n1", "", "alice") + r.cpu(fmt.Sprintf("group/n1/%d", shell), "", "alice")
		for _, v := range got {
			if sum += v; v > float64(2*each+tailSlack)/1e9+1e-9 {
				t.Errorf("seen at %d/2: a group has %.3f s, want about %.3f", seen, v, float64(each)/1e9)
			}
		}
		about(t, "all groups", sum, 4*24*float64(each)/1e9)
	}
	for _, others := range []bool{false, true} {
		r := newRig(t, Config{Export: 15 * time.Second})
		k := newKin(10 * second)
		shell := k.fork(1, true, 20*second)
		r.step(k, 0)
		r.step(k, 0)
		c := k.fork(shell, true, r.boot+second*9/10)
		k.run(c, second/100)
		r.step(k, 0)
		r.export()
		if k.run(c, second*3/4); others {
			k.end(k.fork(1, true, r.boot))
		}
		k.end(c)
		r.step(k, 0)
		got := r.group(c)
		r.step(k, 0)
		if got = max(got, r.group(c)); others && got > 0.06 || !others && (got < 0.74 || got > 0.78) {
			t.Errorf("with something that nobody saw (%t), the group has %.3f s", others, got)
		}
	}
}

// TestRecordsWithoutGroups: an exit record that names no process group, of a child that no reading saw, is charged to its parent's
// group, or to the short work of its owner where the children that were seen are groups of their own.
func TestRecordsWithoutGroups(t *testing.T) {
	const each = second / 25
	for name, c := range map[string]struct {
		seen  bool // one of the children
		own   bool // they are groups of their own
		short bool
	}{
		"commands of a shell":      {seen: true},
		"sessions":                 {seen: true, own: true, short: true},
		"of which nothing is seen": {own: true},
	} {
		identify := func(p *sensor.Process, parent *Part, ended bool) Identified {
			if p.Have&sensor.FieldGroup == 0 && parent == nil {
				return Identified{Identity: workload.Identity{Workload: workload.MakeID(workload.Short, "alice/n1"), Owner: "alice"}}
			}
			return byGroup(p, parent, ended)
		}
		r := newRig(t, Config{Export: 15 * time.Second, Identify: identify})
		shell := proc(100, 100, 20*second, 0)
		r.tick(0, []sensor.Process{shell})
		r.tick(0, []sensor.Process{shell})
		live := []sensor.Process{shell}
		if c.seen {
			one := proc(101, 100, r.boot, 0)
			one.PPID = 100
			if c.own {
				one.PGID, one.SID = 101, 101
			}
			live = append(live, one)
		}
		r.tick(0, live)
		for k := range int32(4) {
			var gone []sensor.Process
			for i := range int32(10) {
				p := proc(200+10*k+i, 0, r.boot, each)
				p.PPID, p.State = 100, 'X'
				p.Have &^= sensor.FieldGroup
				gone = append(gone, p)
			}
			r.tick(10*each, live, gone...)
		}
		r.tick(0, live)
		r.export()
		want := 40 * float64(each) / 1e9
		if c.short {
			r.want(name+": short work", r.cpu("short/alice/n1", "", "alice"), want)
			want = 0
		}
		r.want(name+": the parent's group", r.cpu("group/n1/100", "", "alice"), want)
	}
}

// TestRecordsBeforeTheFirstChildIsSeen: records without a process group that come before a reading has seen a child, or with the reading
// that sees the first one, of sessions and of commands of a shell, and child times where there are no records. What was charged to the
// parent's group by then is marked where it is a guess.
func TestRecordsBeforeTheFirstChildIsSeen(t *testing.T) {
	const each = second / 25
	guessed := map[string]figure.Exactness{"group/n1/100": figure.Estimated, "short/alice/n1": figure.AtLeast}
	for _, c := range []struct {
		own    bool // the children are groups of their own
		before bool // some end before a reading sees one
		silent bool // they leave no records
		group  float64
		sure   map[string]figure.Exactness
	}{
		{own: true},
		{own: true, silent: true},
		{own: true, before: true, group: 0.4, sure: guessed},
		{own: true, before: true, silent: true, group: 0.4, sure: guessed},
		{group: 0.8},
		{silent: true, group: 0.8},
		{before: true, group: 1.2},
		{before: true, silent: true, group: 1.2},
	} {
		r := newRig(t, Config{Export: 15 * time.Second, Identify: func(p *sensor.Process, parent *Part, ended bool) Identified {
			if p.Have&sensor.FieldGroup == 0 && parent == nil {
				return Identified{Identity: workload.Identity{Workload: workload.MakeID(workload.Short, "alice/n1"), Owner: "alice"}}
			}
			return byGroup(p, parent, ended)
		}})
		old := proc(99, 99, second, 0)
		old.Have |= sensor.FieldChildren
		r.tick(0, []sensor.Process{old})
		r.export()
		r.tick(0, []sensor.Process{old})
		shell, next := proc(100, 100, r.boot+second/10, 0), int32(200)
		shell.Have |= sensor.FieldChildren
		live := []sensor.Process{old, shell}
		tick := func(n int) {
			live[1].ChildUserNanos += uint64(n) * each
			var gone []sensor.Process
			for range n {
				p := proc(next, 0, r.boot+second/5, each)
				p.PPID, p.State = 100, 'X'
				p.Have &^= sensor.FieldGroup
				gone, next = append(gone, p), next+1
			}
			if c.silent {
				gone = nil
			}
			r.tick(uint64(n)*each, live, gone...)
		}
		if c.before {
			tick(10)
		}
		child := proc(150, 100, r.boot+second/2, 0)
		if child.PPID = 100; c.own {
			child.PGID, child.SID = 150, 150
		}
		live = append(live, child)
		tick(10)
		tick(10)
		r.export()
		r.want(fmt.Sprintf("%+v: the parent's group", c), r.cpu("group/n1/100", "", "alice"), c.group)
		sure := map[string]figure.Exactness{}
		for key, v := range r.values {
			if f := strings.Split(key, "|"); f[0] == "reckon_figure_exactness" && f[1] == "cpu_seconds" && f[4] != "" && v != 0 {
				sure[f[4]] = figure.Exactness(v)
			}
		}
		if !maps.Equal(sure, c.sure) {
			t.Errorf("%+v: %v", c, sure)
		}
	}
}

// TestDoubt: where a group with a process that one reading saw ends beside forks that no reading saw, the rest of what its parent's child
// times show may be the group's. Neither is exact then, unless both are counted to the short work of one owner.
func TestDoubt(t *testing.T) {
	for _, c := range []struct{ others, same, marked bool }{
		{false, true, false},
		{true, false, false}, // the rest is short work, as the group is
		{true, true, true},   // the rest is the shell's: most of its children were in its own group
	} {
		r := newRig(t, Config{Export: 15 * time.Second})
		k := newKin(10 * second)
		shell := k.fork(1, true, 20*second)
		r.step(k, 0)
		if c.same {
			one, other := k.fork(shell, false, r.boot), k.fork(shell, false, r.boot)
			r.step(k, 0)
			k.end(one)
			k.end(other)
		}
		r.export()
		r.step(k, 0)
		job := k.fork(shell, true, r.boot+second/2)
		k.run(job, second/5)
		r.step(k, 0)
		if k.run(job, second*3/4); c.others {
			k.end(k.fork(1, true, r.boot))
		}
		k.end(job)
		r.step(k, 0)
		r.step(k, 0)
		r.export()
		worst := map[string]figure.Exactness{}
		for key, v := range r.values {
			if f := strings.Split(key, "|"); f[0] == "reckon_figure_exactness" && f[1] == "cpu_seconds" && f[4] != "" {
				worst[f[4]] = figure.Exactness(v)
			}
		}
		want := map[string]figure.Exactness{}
		if c.marked {
			want["short/alice/n1"], want[fmt.Sprintf("group/n1/%d", shell)] = figure.Estimated, figure.Estimated
		}
		if !maps.Equal(worst, want) {
			t.Errorf("%+v: %v, want %v (short %.3f s)", c, worst, want, r.cpu("short/alice/n1", "", "alice"))
		}
	}
}

// TestParentOfSessionsEnds: what the sessions used that a process started in its last second, in which it ended itself, goes to
// the short work of their owner as in the seconds before, and its own use to its group.
func TestParentOfSessionsEnds(t *testing.T) {
	const ms = uint64(time.Millisecond)
	for name, c := range map[string]struct {
		sessions, own uint64 // used in a second
		same          bool   // no sessions, but commands in its group
		group         float64
	}{
		"sessions alone":   {sessions: 900 * ms, group: 0},
		"and own work":     {sessions: 500 * ms, own: 300 * ms, group: 1.05},
		"commands instead": {sessions: 900 * ms, same: true, group: 3.15},
	} {
		r := newRig(t, Config{Export: 15 * time.Second})
		k := newKin(10 * second)
		shell := k.fork(1, true, 20*second)
		r.step(k, 0)
		r.step(k, 0)
		job := k.fork(shell, true, r.boot)
		seen := int32(0)
		work := func(parts uint64) { // of ten
			for range parts {
				k.run(job, c.own/10)
				if seen != 0 {
					k.end(seen)
				}
				seen = k.fork(job, !c.same, r.boot+second/2)
				k.run(seen, c.sessions/10)
			}
		}
		for range 3 {
			work(10)
			r.step(k, 0)
		}
		r.export()
		work(5)
		k.end(seen)
		k.end(job)
		used := k.used
		r.step(k, 0)
		r.step(k, 0)
		r.export()
		if got := r.cpu(fmt.Sprintf("group/n1/%d", job), "", "alice"); got < c.group-0.04 || got > c.group+0.04 {
			t.Errorf("%s: the group has %.3f s, want about %.3f", name, got, c.group)
		}
		all := 0.0
		for key, v := range r.values {
			if strings.HasPrefix(key, "reckon_workload_cpu_seconds_total|") && strings.Contains(key, "|alice|") {
				all += v
			}
		}
		about(t, name+", in all", all, float64(used)/1e9)
	}
}

// TestRecordsAfterARestart: commands of a shell that leave records without a process group are counted to its group also after the agent
// was started again, while it is down, and where one of them is alive at each reading.
func TestRecordsAfterARestart(t *testing.T) {
	r := newRig(t, Config{Export: 15 * time.Second, Identify: func(p *sensor.Process, parent *Part, ended bool) Identified {
		if p.Have&sensor.FieldGroup == 0 && parent == nil {
			return Identified{Identity: workload.Identity{Workload: workload.MakeID(workload.Short, "alice/n1"), Owner: "alice"}}
		}
		return byGroup(p, parent, ended)
	}})
	k := newKin(10 * second)
	shell := k.fork(1, true, 20*second)
	r.step(k, 0)
	command := k.fork(shell, false, r.boot)
	work := func() (ended []sensor.Process) {
		for range 9 {
			p := k.procs[command]
			e := proc(command, 0, p.start, p.cpu)
			e.PPID, e.State = shell, 'X'
			e.Have &^= sensor.FieldGroup
			ended = append(ended, e)
			k.end(command)
			command = k.fork(shell, false, r.boot+second/2)
			k.run(command, second/100)
		}
		return ended
	}
	for range 5 {
		for range 5 {
			r.step(k, 0, work()...)
		}
		r.export()
		saved, err := r.saved("b")
		if err != nil {
			t.Fatal(err)
		}
		r.step(k, 0, work()...)
		r.l = New(r.l.config)
		if err := r.l.Restore(saved, "b"); err != nil {
			t.Fatal(err)
		}
		for range 3 { // it is down
			work()
			r.boot += second
			r.m.User, r.m.Idle, r.before = r.m.User+k.used-r.before, r.m.Idle+4*second-(k.used-r.before), k.used
		}
	}
	for range 5 {
		r.step(k, 0, work()...)
	}
	r.export()
	if got, want := r.cpu(fmt.Sprintf("group/n1/%d", shell), "", "alice"), toSeconds(k.truth[shell]); got < want*0.98 || got > want+0.001 {
		t.Errorf("the group has %.3f s, want %.3f", got, want)
	}
	r.want("short work", r.cpu("short/alice/n1", "", "alice"), 0)
}

package account

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"reckon/figure"
	"reckon/sensor"
	"reckon/workload"
)

// step runs a tick of a rig on a kin.
func (r *rig) step(k *kin, irq uint64, exited ...sensor.Process) {
	busy := k.used - r.before + irq
	r.before, r.m.Forks = k.used, 1000+k.forks
	r.tick(busy, k.live(), exited...)
}

func (r *rig) group(pgid int32) float64 {
	r.export()
	return r.cpu(fmt.Sprintf("group/n1/%d", pgid), "", "alice")
}

func about(t *testing.T, what string, got, want float64) {
	t.Helper()
	if got < want*0.99-0.02 || got > want*1.01+0.02 {
		t.Errorf("%s: %.3f s, want %.3f", what, got, want)
	}
}

// TestChildrenThatNobodySaw: short children, trees of them, and children with groups of
// their own are charged from the child times of the process that waited for them.
func TestChildrenThatNobodySaw(t *testing.T) {
	const ms = uint64(time.Millisecond)
	for name, tt := range map[string]struct {
		second func(k *kin, shell int32, now uint64)
		group  float64 // of the shell, after 10 seconds
		short  float64
		other  float64
	}{
		"1 ms each": {func(k *kin, shell int32, now uint64) {
			for range 300 {
				c := k.fork(shell, false, now)
				k.run(c, ms)
				k.end(c)
			}
		}, 3, 0, 0},
		"trees": {func(k *kin, shell int32, now uint64) {
			for range 30 {
				a := k.fork(shell, false, now)
				b := k.fork(a, false, now)
				c := k.fork(b, false, now)
				k.run(a, ms)
				k.run(b, 4*ms)
				k.run(c, 5*ms)
				k.end(c)
				k.end(b)
				k.end(a)
			}
		}, 3, 0, 0},
		"groups of their own": {func(k *kin, shell int32, now uint64) {
			for i := range 30 {
				c := k.fork(shell, true, now)
				k.run(c, 10*ms)
				if i == 29 { // it is seen, and ended by the next second
					k.run(c, 100*ms)
					continue
				}
				k.end(c)
			}
			for pid, p := range k.procs {
				if p.ppid == shell && p.start+uint64(time.Second) <= now {
					k.end(pid)
				}
			}
		}, 0, 3.9, 0},
		"orphans": {func(k *kin, shell int32, now uint64) {
			for range 30 {
				a := k.fork(shell, false, now)
				b := k.fork(a, false, now)
				k.exit(a, 1)
				k.wait(a)
				k.run(b, 10*ms)
				k.end(b)
			}
		}, 0, 0, 3},
	} {
		r := newRig(t, Config{Export: 5 * time.Second})
		k := newKin(10 * second)
		shell := k.fork(1, true, 20*second)
		r.step(k, 0)
		for range 10 {
			tt.second(k, shell, r.boot+second/2)
			r.step(k, 0)
		}
		r.step(k, 0)
		r.step(k, 0)
		got := r.group(shell)
		about(t, name+": group", got, tt.group)
		about(t, name+": short", r.cpu("short/alice/n1", "", "alice"), tt.short)
		about(t, name+": other", r.cpu("other/n1", "", "root"), tt.other)
	}
}

// TestLongPass: on a busy machine one pass over /proc takes seconds. A counter read late in the pass (cutime of a shell, cpu.stat of a control group)
// may grow by more CPU time than the machine has between the starts of two passes. All of it is charged.
func TestLongPass(t *testing.T) {
	const took = 8 * second
	group := &fakeCgroup{c: sensor.Cgroup{Have: sensor.CgroupCPU}}
	for name, tt := range map[string]struct {
		identify func(*sensor.Process, *Part, bool) Identified
		of       string
	}{
		"child times": {nil, "group/n1/100"},
		"a control group": {func(p *sensor.Process, parent *Part, ended bool) Identified {
			if p.PID == 100 {
				return Identified{Identity: workload.Identity{Workload: "slurm/1", Owner: "alice"}, Handle: group}
			}
			return byGroup(p, parent, ended)
		}, "slurm/1"},
	} {
		t.Run(name, func(t *testing.T) {
			group.c.UsageNanos = 0
			r := newRig(t, Config{Identify: tt.identify})
			shell := proc(100, 100, 5*second, 0)
			shell.Have |= sensor.FieldChildren
			for range 3 {
				r.tick(0, []sensor.Process{shell})
			}
			const used = uint64(15 * second) // of 4 processors
			shell.ChildUserNanos, group.c.UsageNanos = used, used
			r.boot += second
			r.m.Boot = r.boot + took
			r.m.User += used
			r.m.Idle += 4*(second+took) - used
			r.pass.Boot, r.pass.Live = r.boot, []sensor.Process{shell}
			r.l.Tick(wall.Add(time.Duration(r.boot)), &r.pass, &r.m)
			r.boot += took
			r.tick(0, []sensor.Process{shell})
			r.export()
			about(t, "the workload", r.cpu(tt.of, "", "alice"), 15)
			about(t, "other", r.cpu("other/n1", "", "root"), 0)
		})
	}
}

// TestReconcileRules: the processes with child times that are not reconciled, and the parts that are not charged.
func TestReconcileRules(t *testing.T) {
	const burst = uint64(200 * time.Millisecond)
	counted := &fakeCgroup{c: sensor.Cgroup{Have: sensor.CgroupCPU}}
	identify := func(p *sensor.Process, parent *Part, ended bool) Identified {
		if p.PGID == 999 || p.Comm.String() == "job" {
			return Identified{Identity: workload.Identity{Workload: "slurm/1", Owner: "bob"}, Handle: counted}
		}
		return byGroup(p, parent, ended)
	}
	for name, tt := range map[string]struct {
		before   func(k *kin, shell int32, r *rig)
		complete bool
		exited   []sensor.Process
		group    float64
	}{
		"plain":            {nil, false, nil, 0.2},
		"complete records": {nil, true, nil, 0},
		"adopts orphans": {func(k *kin, shell int32, r *rig) {
			a := k.fork(shell, false, r.boot)
			b := k.fork(a, false, r.boot)
			r.step(k, 0)
			k.exit(a, shell)
			k.wait(a)
			r.step(k, 0)
			k.end(b)
			r.step(k, 0)
		}, false, nil, 0},
		"children in a control group": {func(k *kin, shell int32, r *rig) {
			c := k.fork(shell, true, r.boot)
			k.procs[c].pgid = 999
			r.step(k, 0)
			k.end(c)
			r.step(k, 0)
		}, false, nil, 0},
		"a control group charges it": {func(k *kin, shell int32, r *rig) {
			k.procs[shell].pgid = 999
			r.step(k, 0)
		}, false, nil, 0},
		"more than the machine has": {func(k *kin, shell int32, r *rig) {
			c := k.fork(shell, false, r.boot)
			k.run(c, 9*second)
			k.used -= 9 * second // in another second, unobserved
			k.end(c)
		}, false, nil, 0},
	} {
		r := newRig(t, Config{Export: 5 * time.Second, Identify: identify})
		k := newKin(10 * second)
		shell := k.fork(1, true, 20*second)
		k.procs[shell].child = 50 * second // before the ledger
		r.step(k, 0)
		if tt.before != nil {
			tt.before(k, shell, r)
		}
		c := k.fork(shell, false, r.boot+second/2)
		k.run(c, burst)
		k.end(c)
		r.complete(tt.complete)
		r.step(k, 0, tt.exited...)
		r.step(k, 0)
		about(t, name, r.group(shell), tt.group)
		r.want(name+": sum", toSeconds(total(r.l)), toSeconds(k.used))
	}
}

// TestLastMomentsOfAChild: the use of a child in a group of its own after its last
// reading belongs to that group.
func TestLastMomentsOfAChild(t *testing.T) {
	r := newRig(t, Config{Export: 5 * time.Second})
	k := newKin(10 * second)
	shell := k.fork(1, true, 20*second)
	r.step(k, 0)
	c := k.fork(shell, true, r.boot)
	k.run(c, second)
	r.step(k, 0)
	k.run(c, second)
	r.step(k, 0)
	k.run(c, 8*second/10)
	k.end(c)
	r.step(k, 0)
	r.step(k, 0)
	r.export()
	r.want("child", r.cpu(fmt.Sprintf("group/n1/%d", c), "", "alice"), 2.8)
	r.want("shell", r.cpu(fmt.Sprintf("group/n1/%d", shell), "", "alice"), 0)
}

// TestLastMomentsOfAContainer: what the only process of a control group used after its last reading is charged once: by the
// group while that is there, and by the child times of its parent where it was removed before it could be read.
func TestLastMomentsOfAContainer(t *testing.T) {
	for _, removed := range []bool{false, true} {
		cg := &fakeCgroup{c: sensor.Cgroup{Have: sensor.CgroupCPU}}
		shell := int32(0)
		r := newRig(t, Config{Identify: func(p *sensor.Process, parent *Part, ended bool) Identified {
			if p.PPID == shell {
				return Identified{Identity: workload.Identity{Workload: "pod/shop/a", Part: "main", Owner: "shop", Place: "u/1", Run: "u"}, Handle: cg}
			}
			return byGroup(p, parent, ended)
		}})
		k := newKin(10 * second)
		shell = k.fork(1, true, 20*second)
		r.step(k, 0)
		c := k.fork(shell, true, r.boot)
		for range 2 {
			k.run(c, second)
			cg.c.UsageNanos += second
			r.step(k, 0)
		}
		k.run(c, 8*second/10)
		cg.c.UsageNanos += 8 * second / 10
		cg.gone = removed
		k.end(c)
		r.step(k, 0)
		cg.gone = true
		r.step(k, 0)
		r.export()
		r.want(fmt.Sprintf("container, its group removed at once: %v", removed), r.cpu("pod/shop/a", "main", "shop"), 2.8)
		r.want("shell", r.cpu(fmt.Sprintf("group/n1/%d", shell), "", "alice"), 0)
	}
}

// TestLastMomentsOfAParent: a script in a group of its own that ends with its last children
// is charged for those, rather than the process that started it.
func TestLastMomentsOfAParent(t *testing.T) {
	r := newRig(t, Config{Export: 5 * time.Second})
	k := newKin(10 * second)
	shell := k.fork(1, true, 20*second)
	r.step(k, 0)
	script := k.fork(shell, true, r.boot)
	loop := func(n int) {
		for range n {
			c := k.fork(script, false, r.boot+second/2)
			k.run(c, 3*second/1000)
			k.end(c)
		}
	}
	for range 4 {
		loop(300)
		k.run(script, second/20)
		r.step(k, 0)
	}
	loop(250)
	k.end(script)
	r.step(k, 0)
	r.step(k, 0)
	r.export()
	about(t, "script", r.cpu(fmt.Sprintf("group/n1/%d", script), "", "alice"), 4*0.95+0.75)
	// One that waited in its last second.
	script = k.fork(shell, true, r.boot)
	r.step(k, 0)
	r.step(k, 0)
	loop(500)
	k.end(script)
	r.step(k, 0)
	r.step(k, 0)
	r.export()
	about(t, "late script", r.cpu(fmt.Sprintf("group/n1/%d", script), "", "alice"), 1.5)
	about(t, "short", r.cpu("short/alice/n1", "", "alice"), 0)
	about(t, "shell", r.cpu(fmt.Sprintf("group/n1/%d", shell), "", "alice"), 0)
}

// TestChildReadBeforeItsParent: process ids wrap around, and a pass goes by them. A child
// that is read alive, ends and is waited for before its parent is read is charged once.
func TestChildReadBeforeItsParent(t *testing.T) {
	r := newRig(t, Config{Export: 5 * time.Second})
	k := newKin(10 * second)
	k.next = 30000
	shell := k.fork(1, true, 20*second)
	k.next = 200
	r.step(k, 0)
	for range 5 {
		c := k.fork(shell, false, r.boot)
		for range 3 {
			k.run(c, second)
			r.step(k, 0)
		}
		k.run(c, second/2)
		u := k.fork(shell, false, r.boot) // missing from every pass
		k.run(u, second/10)
		k.end(u)
		alive := k.live() // the child is read
		k.end(c)
		for i, p := range k.live() {
			if p.PID == shell { // and then its parent
				alive[slices.IndexFunc(alive, func(q sensor.Process) bool { return q.PID == shell })] = k.live()[i]
			}
		}
		r.tick(second/2+second/10, alive)
		r.before = k.used
		r.export()
		r.want("other while it is held", r.cpu("other/n1", "", "root"), 0)
		if d := r.degrees("group")["cpu_seconds child_times"]; d != figure.Exact {
			t.Errorf("CPU times are %v while some is held", d)
		}
		r.step(k, 0)
		r.step(k, 0)
	}
	r.step(k, 0)
	about(t, "shell", r.group(shell), 5*(3.5+0.1))
	if got := total(r.l); got != k.used {
		t.Errorf("the sum is %d ns, used were %d", got, k.used)
	}
}

// TestOrphansAreNobodys: time that process 1 waited for is not attributed to any owner,
// even when an orphan was seen that ended in the same second. The figures are marked as
// lacking it.
func TestOrphansAreNobodys(t *testing.T) {
	r := newRig(t, Config{Export: 5 * time.Second})
	k := newKin(10 * second)
	shell := k.fork(1, true, 20*second)
	r.step(k, 0)
	r.export()
	seen := k.fork(1, true, r.boot)
	for range 5 {
		k.run(seen, second/2)
		r.step(k, 0)
		for range 30 {
			a := k.fork(shell, false, r.boot+second/2)
			b := k.fork(a, false, r.boot+second/2)
			k.end(a)
			k.run(b, second/100)
			k.end(b)
		}
	}
	k.end(seen)
	r.step(k, 0)
	r.export()
	r.want("orphan that was seen", r.cpu(fmt.Sprintf("group/n1/%d", seen), "", "alice"), 2.5)
	about(t, "shell", r.cpu(fmt.Sprintf("group/n1/%d", shell), "", "alice"), 0)
	about(t, "other", r.cpu("other/n1", "", "root"), 1.5)
	if got := r.degrees("group")["cpu_seconds child_times"]; got != figure.AtLeast {
		t.Errorf("CPU time is %v, want at least", got)
	}
}

// TestParentThatIsNewItself: records of taskstats have no process group; the group of a parent
// which is seen for the first time in the same pass counts.
func TestParentThatIsNewItself(t *testing.T) {
	r := newRig(t, Config{Export: 5 * time.Second})
	r.tick(0, nil)
	shell, child := proc(20, 20, r.boot+1, second/10), proc(21, 0, r.boot+2, second/4)
	child.PPID, child.Have = 20, child.Have&^sensor.FieldGroup
	r.tick(second*35/100, []sensor.Process{shell}, child)
	r.tick(0, []sensor.Process{shell})
	r.export()
	r.want("group", r.cpu("group/n1/20", "", "alice"), 0.35)
	r.want("started", r.values["reckon_workload_processes_started_total|group/n1/20|group||alice"], 2)
}

// TestRestartFindsWhatChildrenDid: children in the gap of a restart were never read; also
// with a source of complete records, which has none of the gap.
func TestRestartFindsWhatChildrenDid(t *testing.T) {
	for _, complete := range []bool{false, true} {
		r := newRig(t, Config{Export: 5 * time.Second})
		k := newKin(10 * second)
		shell := k.fork(1, true, 20*second)
		k.procs[shell].child = 7 * second
		r.step(k, 0)
		c := k.fork(shell, false, r.boot)
		k.run(c, second)
		r.complete(complete)
		r.step(k, 0)
		r.restart()
		k.run(c, 2*second)
		k.end(c)
		for range 100 {
			c := k.fork(shell, false, r.boot+3*second)
			k.run(c, second/20)
			k.end(c)
		}
		born := k.fork(1, true, r.boot+4*second)
		c = k.fork(born, false, r.boot+5*second)
		k.run(c, second)
		k.end(c)
		r.boot += 9 * second
		r.m.Idle += 9 * 4 * second
		r.m.Idle -= k.used - r.before - second // tick takes a second as busy at most
		r.m.User += k.used - r.before - second
		r.before = k.used - second
		r.step(k, 0)
		r.complete(complete)
		r.step(k, 0)
		about(t, "shell", r.group(shell), 1+2+5)
		about(t, "born in the gap", r.group(born), 1)
		about(t, "other", r.cpu("other/n1", "", "root"), 0)
	}
}

// TestConservationOfChildren runs random trees of processes, seen and unseen, waited for
// soon, late or by process 1, and compares every group with the true values and the sum
// with the machine.
func TestConservationOfChildren(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t, Config{Export: time.Hour})
		k := newKin(10 * second)
		var roots []int32
		most := second / 2 // used in one pass
		for range rapid.IntRange(1, 4).Draw(t, "roots") {
			roots = append(roots, k.fork(1, true, 20*second))
		}
		r.step(k, 0)
		for range rapid.IntRange(2, 60).Draw(t, "seconds") {
			k.next = int32(rapid.IntRange(2, 30000).Draw(t, "next id"))
			left := 3 * second
			run := func(pid int32, limit uint64) {
				d := min(uint64(rapid.IntRange(0, int(limit)).Draw(t, "use")), left)
				left -= d
				k.run(pid, d)
			}
			for range rapid.IntRange(0, 12).Draw(t, "events") {
				pids := make([]int32, 0, len(k.procs))
				for pid, p := range k.procs {
					if pid != 1 && !p.dead {
						pids = append(pids, pid)
					}
				}
				slices.Sort(pids)
				pid := rapid.SampledFrom(pids).Draw(t, "process")
				switch rapid.IntRange(0, 4).Draw(t, "event") {
				case 0:
					if len(k.procs) < 20 {
						k.fork(pid, false, r.boot+second/2)
					}
				case 1: // short work, some of it two deep
					c := k.fork(pid, false, r.boot+second/2)
					run(c, second/50)
					if rapid.Bool().Draw(t, "grandchild") {
						g := k.fork(c, false, r.boot+second/2)
						run(g, second/50)
						k.end(g)
					}
					k.end(c)
				case 2:
					run(pid, second/2)
				case 3:
					if !slices.Contains(roots, pid) && !k.hasChildren(pid) {
						k.exit(pid, 1) // a zombie until its parent waits
					}
				case 4:
					if dead := k.zombies(); len(dead) > 0 {
						k.wait(dead[0])
					}
				}
			}
			// In the middle of the pass some end and are waited for, children first.
			before := k.live()
			for range rapid.IntRange(0, 4).Draw(t, "ends in the pass") {
				var can []int32
				for pid := range k.procs {
					if pid != 1 && !slices.Contains(roots, pid) && !k.hasChildren(pid) {
						can = append(can, pid)
					}
				}
				if slices.Sort(can); len(can) > 0 {
					pid := rapid.SampledFrom(can).Draw(t, "which")
					run(pid, second/100)
					k.end(pid)
				}
			}
			busy := k.used - r.before
			r.before = k.used
			most = max(most, busy)
			r.tick(busy, torn(before, k.live(), int32(rapid.IntRange(2, 32000).Draw(t, "cut"))))
		}
		for _, z := range k.zombies() {
			k.wait(z)
		}
		for range 5 {
			r.step(k, 0)
		}
		// Child times that are visible a clock tick late, or a tick late because a child ended between the reading of
		// its parent and its own, were charged to other, which pays them back from the next time: at most the use of
		// one pass, if there is no next.
		if got := total(r.l); got != k.used || -r.l.node.balance > int64(len(k.procs))*20e6+int64(most) {
			t.Fatalf("the sum is %d ns, used were %d; %d are to be paid back", got, k.used, -r.l.node.balance)
		}
		r.export()
		for _, root := range roots {
			got := r.cpu(fmt.Sprintf("group/n1/%d", root), "", "alice")
			want := toSeconds(k.truth[root])
			// A clock tick for each process that waits, and 1 %.
			if slack := 0.02*float64(len(k.procs)) + 0.01*want; got < want-slack || got > want+slack {
				t.Fatalf("group %d: %.3f s, want %.3f", root, got, want)
			}
		}
	})
}

// TestLateChildrenAreSpread: child times that come in one tick for several make no observation of
// more cores than the machine has; the counter gets all of them at once, and the observations add
// up to the use.
func TestLateChildrenAreSpread(t *testing.T) {
	for name, c := range map[string]struct {
		late uint64 // child times that come in one tick of a second, on 4 cores
		most float64
	}{
		"fits in the tick": {4 * second, 4},
		"does not fit":     {5 * second, 4},
	} {
		r := newRig(t, Config{Export: 5 * time.Second})
		shell := proc(20, 20, r.boot+1, 0)
		shell.Have |= sensor.FieldChildren
		r.tick(0, []sensor.Process{shell})
		r.tick(0, []sensor.Process{shell})
		shell.ChildUserNanos = c.late
		r.tick(4*second, []sensor.Process{shell})
		if busy, ok := r.l.Busy(); !ok || busy != 4 {
			t.Errorf("%s: %g cores were busy, want the 4 that the kernel counted", name, busy)
		}
		r.export()
		r.want(name, r.cpu("group/n1/20", "", "alice"), float64(c.late)/1e9)
		for range 3 {
			r.tick(0, []sensor.Process{shell})
		}
		cores := &r.l.parts.order[slices.IndexFunc(r.l.parts.order, func(p *Part) bool { return p.id == "group/n1/20" })].group.cores
		if got := cores.Quantile(1); got > c.most*1.1 {
			t.Errorf("%s: %g cores in use, want %g", name, got, c.most)
		}
		r.want(name+", observed", cores.Sum, float64(c.late)/1e9)
	}
}

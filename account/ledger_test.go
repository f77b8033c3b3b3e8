package account

import (
	"fmt"
	"io/fs"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"reckon/metric"
	"reckon/sensor"
	"reckon/workload"
)

const second = uint64(time.Second)

var wall = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// rig feeds a ledger second by second.
type rig struct {
	t      interface{ Fatalf(string, ...any) }
	l      *Ledger
	boot   uint64
	pass   sensor.Pass
	m      sensor.Machine
	values map[string]float64 // of the last export, by name and labels
	before uint64             // CPU time used up to the last step; see children_test.go
	users  bool               // one part may be of several users
}

func newRig(t interface{ Fatalf(string, ...any) }, c Config) *rig {
	c.Node = "n1"
	if c.Identify == nil {
		c.Identify = byGroup
	}
	c.Tallies = sources
	r := &rig{t: t, l: New(c), boot: 1000 * second, m: sensor.Machine{Cores: 4}}
	r.complete(false)
	return r
}

// complete sets whether the ends of processes are recorded from now on.
func (r *rig) complete(all bool) {
	r.pass.Lacks = r.pass.Lacks[:0]
	if !all {
		r.pass.Lacks = append(r.pass.Lacks, sensor.LackEndedProcesses)
	}
}

// byGroup puts each process into its process group, and one without a group into its
// parent's part.
func byGroup(p *sensor.Process, parent *Part, _ bool) Identified {
	if p.Have&sensor.FieldGroup == 0 && parent != nil {
		return Identified{Identity: workload.Identity{Workload: parent.Workload(), Part: parent.Name(), Owner: parent.Owner()}}
	}
	return Identified{Identity: workload.Identity{
		Workload: workload.MakeID(workload.Group, fmt.Sprintf("n1/%d", p.PGID)), Owner: "alice",
	}}
}

const allFields = sensor.FieldWait | sensor.FieldSwitches | sensor.FieldFaults | sensor.FieldMemory |
	sensor.FieldIO | sensor.FieldGroup | sensor.FieldThreads | sensor.FieldParent | sensor.FieldCPUSplit

func proc(pid, pgid int32, start, cpu uint64) sensor.Process {
	return sensor.Process{
		PID: pid, PPID: 1, PGID: pgid, SID: pgid, Start: start, Have: allFields, State: 'S', Threads: 1,
		UserNanos: cpu, Comm: sensor.CommOf([]byte(fmt.Sprintf("cmd%d", pid%3))),
	}
}

// tick advances by a second in which the machine was busy for the given time.
func (r *rig) tick(busy uint64, live []sensor.Process, exited ...sensor.Process) {
	r.boot += second
	r.m.Boot = r.boot
	r.m.User += busy
	r.m.Idle += uint64(r.m.Cores)*second - busy
	r.pass.Boot, r.pass.Live, r.pass.Exited = r.boot, live, exited
	r.l.Tick(wall.Add(time.Duration(r.boot)), &r.pass, &r.m)
}

func (r *rig) export() {
	var b metric.Batch
	b.Reset(wall)
	r.l.Export(&b)
	r.values = map[string]float64{}
	infos := map[string]bool{}
	for _, s := range b.Samples {
		if s.Ended() {
			continue
		}
		if of := strings.Join(s.Series.Values[:min(3, len(s.Series.Values))], "|"); s.Series.Desc == info {
			if infos[of] && !r.users {
				r.t.Fatalf("two info series of %s in one export", of)
			}
			infos[of] = true
		}
		k := s.Series.Desc.Name
		for _, v := range s.Series.Values {
			k += "|" + v
		}
		if _, dup := r.values[k]; dup {
			r.t.Fatalf("series %s is twice in one export", k)
		}
		if s.Histogram != nil {
			r.values[k] = float64(s.Histogram.Count)
			continue
		}
		r.values[k] = s.Value
	}
}

func (r *rig) cpu(id, part, owner string) float64 {
	k := "|" + id + "|" + string(workload.ID(id).Kind()) + "|" + part + "|" + owner + "|"
	return r.values["reckon_workload_cpu_seconds_total"+k+"user"] + r.values["reckon_workload_cpu_seconds_total"+k+"system"]
}

func (r *rig) want(name string, got, want float64) {
	if math.Abs(got-want) > 1e-6*math.Max(1, want) {
		r.t.Fatalf("%s: got %v, want %v", name, got, want)
	}
}

func TestProcessIsChargedOnce(t *testing.T) {
	r := newRig(t, Config{})
	r.tick(0, []sensor.Process{proc(10, 10, 5*second, 7*second)})
	r.tick(second, []sensor.Process{proc(10, 10, 5*second, 8*second)})
	// It is seen alive and, in the same pass, as exited; then as a zombie.
	r.tick(second, []sensor.Process{proc(10, 10, 5*second, 85*second/10)}, proc(10, 10, 5*second+3, 9*second))
	z := proc(10, 10, 5*second, 9*second)
	z.State = 'Z'
	r.tick(0, []sensor.Process{z})
	r.export()
	r.want("group", r.cpu("group/n1/10", "", "alice"), 9)
	r.want("other", r.cpu("other/n1", "", "root"), 0)
}

func TestShortLivedChildOfShortLivedParent(t *testing.T) {
	r := newRig(t, Config{})
	shell := proc(10, 10, 5*second, 0)
	r.tick(0, []sensor.Process{shell})
	// Records of taskstats: no process group, the child's before the parent's.
	parent := proc(20, 0, r.boot+1, second/2)
	parent.PPID, parent.Have = 10, parent.Have&^sensor.FieldGroup
	child := proc(21, 0, r.boot+2, second/4)
	child.PPID, child.Have = 20, child.Have&^sensor.FieldGroup
	r.tick(second*3/4, []sensor.Process{shell}, child, parent)
	r.export()
	r.want("group", r.cpu("group/n1/10", "", "alice"), 0.75)
	r.want("other", r.cpu("other/n1", "", "root"), 0)
	r.want("started", r.values["reckon_workload_processes_started_total|group/n1/10|group||alice"], 3)
}

// A process that was only read alive between its fork and its setsid(2), or its move to a
// control group: its use until its end, and its start, belong to its own group.
func TestEndedElsewhere(t *testing.T) {
	inCgroup := func(p *sensor.Process, parent *Part, ended bool) Identified {
		if p.Cgroup == 2 {
			return Identified{Identity: workload.Identity{Workload: "unit/b.service", Owner: "root"}}
		}
		if p.Cgroup == 4 && p.UID == 0 { // slurmstepd before it becomes a task
			return Identified{Identity: workload.Identity{Workload: "unit/slurmd.service", Owner: "root"}}
		}
		if p.Cgroup >= 3 {
			return Identified{Identity: workload.Identity{Workload: "slurm/1", Owner: "bob"}}
		}
		return byGroup(p, parent, ended)
	}
	started := func(r *rig, id string) float64 {
		return r.values["reckon_workload_processes_started_total|"+id+"|"+string(workload.ID(id).Kind())+"||"+map[bool]string{true: "alice", false: "root"}[strings.HasPrefix(id, "group")]]
	}
	for what, c := range map[string]struct {
		joined      bool
		before, end func(*sensor.Process)
		export      bool // between the two
		want        string
		early       float64 // started in group 10
	}{
		"a new session":                             {true, nil, func(p *sensor.Process) { p.PGID, p.SID = 20, 20 }, false, "group/n1/20", 1},
		"exit records of another":                   {false, nil, func(p *sensor.Process) { p.PGID, p.SID = 20, 20 }, false, "group/n1/20", 1},
		"exported meanwhile":                        {true, nil, func(p *sensor.Process) { p.PGID, p.SID = 20, 20 }, true, "group/n1/20", 2},
		"a control group":                           {true, nil, func(p *sensor.Process) { p.Cgroup, p.Have = 2, p.Have|sensor.FieldCgroup }, false, "unit/b.service", 1},
		"numbers of another source":                 {false, nil, func(p *sensor.Process) { p.Cgroup, p.Have = 2, p.Have|sensor.FieldCgroup }, false, "group/n1/10", 2},
		"a record without its group":                {true, nil, func(p *sensor.Process) { p.PGID, p.SID, p.Have = 0, 0, p.Have&^sensor.FieldGroup }, false, "group/n1/10", 2},
		"a job by its environment":                  {true, func(p *sensor.Process) { p.Cgroup, p.Have = 3, p.Have|sensor.FieldCgroup }, func(p *sensor.Process) { p.PGID, p.SID = 20, 20 }, false, "slurm/1", 1},
		"another user, in a job by its environment": {true, func(p *sensor.Process) { p.Cgroup, p.Have = 3, p.Have|sensor.FieldCgroup }, func(p *sensor.Process) { p.UID, p.Cgroup = 5, 0 }, false, "slurm/1", 1},
		"another user, of a unit":                   {true, func(p *sensor.Process) { p.UID, p.Cgroup, p.Have = 0, 4, p.Have|sensor.FieldCgroup }, func(p *sensor.Process) { p.UID = 1000 }, false, "slurm/1", 1},
		"nothing moved":                             {true, nil, func(*sensor.Process) {}, false, "group/n1/10", 2},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, Config{Identify: inCgroup})
			shell := proc(10, 10, 5*second, 0)
			r.tick(0, []sensor.Process{shell})
			p := proc(20, 10, r.boot+1, 0)
			p.PPID = 10
			if c.before != nil {
				c.before(&p)
			}
			r.tick(0, []sensor.Process{shell, p})
			if c.export {
				r.export()
			}
			p.UserNanos = 2 * second
			c.end(&p)
			r.pass.Joined = c.joined
			r.tick(2*second, []sensor.Process{shell}, p)
			r.export()
			owner := "alice"
			switch {
			case strings.HasPrefix(c.want, "unit"):
				owner = "root"
			case strings.HasPrefix(c.want, "slurm"):
				owner = "bob"
			}
			r.want("CPU time of "+c.want, r.cpu(c.want, "", owner), 2)
			r.want("started in the shell's group", started(r, "group/n1/10"), c.early)
			if owner != "bob" && c.want != "group/n1/10" {
				r.want("started there", started(r, c.want), 2-c.early)
			}
		})
	}
}

// A group that the OOM killer ends is often gone before its counters are read.
func TestOOMKillIsSeenWithoutACgroup(t *testing.T) {
	cg := &fakeCgroup{c: sensor.Cgroup{Have: sensor.CgroupCPU | sensor.CgroupEvents}}
	inCgroup := Config{Identify: func(p *sensor.Process, _ *Part, _ bool) Identified {
		return Identified{Identity: workload.Identity{Workload: "slurm/1", Part: "0", Owner: "bob"}, Handle: cg}
	}}
	for what, c := range map[string]struct {
		config Config
		group  uint64 // usage counted by the control group
		want   float64
	}{
		"no control group":         {Config{}, 0, 1},
		"gone before it was read":  {inCgroup, 0, 1},
		"counted there too":        {inCgroup, 1, 1},
		"more of them ended there": {inCgroup, 3, 3},
	} {
		cg.c.OOMKills = c.group
		r := newRig(t, c.config)
		p := proc(10, 10, 5*second, second)
		r.tick(second, []sensor.Process{p})
		p.OOMKilled = true
		r.tick(0, nil, p)
		r.export()
		got := 0.0
		for k, v := range r.values {
			if strings.HasPrefix(k, "reckon_workload_oom_kills_total") {
				got += v
			}
		}
		r.want(what, got, c.want)
	}
}

func TestReusedPID(t *testing.T) {
	r := newRig(t, Config{})
	r.tick(0, []sensor.Process{proc(10, 10, 5*second, second)})
	r.tick(second, []sensor.Process{proc(10, 10, 5*second, 2*second)})
	r.tick(second, []sensor.Process{proc(10, 11, r.boot+second/2, second)})
	r.export()
	r.want("old", r.cpu("group/n1/10", "", "alice"), 2)
	r.want("new", r.cpu("group/n1/11", "", "alice"), 1)
}

func TestShortWorkIsFolded(t *testing.T) {
	r := newRig(t, Config{Export: 15 * time.Second, Linger: time.Minute})
	r.tick(0, nil)
	for i := range int32(100) {
		r.tick(second/100, nil, proc(100+i, 100+i, r.boot, second/100))
		if i%15 == 14 {
			r.export()
			for k := range r.values {
				if strings.Contains(k, "|group/") {
					t.Fatalf("short work has a series of its own: %s", k)
				}
			}
		}
	}
	r.tick(0, nil)
	r.export()
	r.want("short", r.cpu("short/alice/n1", "", "alice"), 1)
	r.want("number", r.values["reckon_short_workloads_total|alice"], 100)
	r.want("other", r.cpu("other/n1", "", "root"), 0)
	if parts, _, _ := r.l.Counts(); parts > 2 {
		t.Fatalf("the ledger holds %d parts after short work, want short and other", parts)
	}
}

// TestTotalOfFoldedWork: folded work counts once, before and after the export that folds it, and after a restart.
func TestTotalOfFoldedWork(t *testing.T) {
	r := newRig(t, Config{})
	r.tick(0, nil)
	r.tick(second/100, nil, proc(100, 100, r.boot, second/100))
	r.tick(0, nil)
	before := r.l.Total()
	r.export()
	if got := r.l.Total(); got != before || got != second/100 {
		t.Errorf("%d ns were charged before the export and %d after it, want %d", before, got, second/100)
	}
	saved, err := r.saved("b")
	if err != nil {
		t.Fatal(err)
	}
	l := New(r.l.config)
	if err := l.Restore(saved, "b"); err != nil {
		t.Fatal(err)
	}
	if got := l.Total(); got != before {
		t.Errorf("%d ns are charged after a restart, want %d", got, before)
	}
}

func TestEndedGroupIsFlushedOnceAndForgotten(t *testing.T) {
	r := newRig(t, Config{Export: 5 * time.Second})
	r.tick(0, nil)
	p := proc(10, 10, r.boot+1, 0)
	for i := range uint64(10) {
		p.UserNanos = i * second
		r.tick(second, []sensor.Process{p})
	}
	r.export()
	r.tick(0, nil)
	r.tick(0, nil)
	r.export()
	r.want("flushed", r.cpu("group/n1/10", "", "alice"), 9)
	if _, ok := r.values["reckon_workload_end_time_seconds|group/n1/10|group||alice"]; !ok {
		t.Fatal("no end time")
	}
	r.tick(0, nil)
	r.export()
	if _, ok := r.values["reckon_workload_info|group/n1/10|group||alice||||cmd1"]; ok {
		t.Fatal("an ended workload is exported again")
	}
	r.tick(0, nil)
	if parts, procs, _ := r.l.Counts(); parts != 1 || procs != 0 {
		t.Fatalf("the ledger holds %d parts and %d processes, want only other", parts, procs)
	}
}

func TestExitRecordComesLate(t *testing.T) {
	r := newRig(t, Config{})
	p := proc(10, 10, 5*second, 7*second)
	r.tick(0, []sensor.Process{p})
	// It is reaped before this pass, and the kernel completes its record after it.
	r.tick(0, nil)
	p.UserNanos += second / 2
	r.tick(second/2, nil, p)
	r.export()
	r.want("group", r.cpu("group/n1/10", "", "alice"), 7.5)
	r.want("started", r.values["reckon_workload_processes_started_total|group/n1/10|group||alice"], 1)
}

// fakeCgroup is a control group with counters set by a test.
type fakeCgroup struct {
	c      sensor.Cgroup
	gone   bool
	closed int
}

func (f *fakeCgroup) Read(c *sensor.Cgroup) error {
	if f.gone {
		return fs.ErrNotExist
	}
	*c = f.c
	return nil
}

func (f *fakeCgroup) Close() error {
	f.closed++
	return nil
}

// TestClose: each control group is closed once.
func TestClose(t *testing.T) {
	var of, whole [2]fakeCgroup
	r := newRig(t, Config{Identify: func(p *sensor.Process, _ *Part, _ bool) Identified {
		i := p.PID - 1
		return Identified{Identity: workload.Identity{Workload: workload.ID(fmt.Sprintf("slurm/%d", p.PID)), Part: "0", Owner: "bob"}, Handle: &of[i], Whole: &whole[i]}
	}})
	live := []sensor.Process{proc(1, 1, second, 0), proc(2, 2, second, 0)}
	r.tick(0, live)
	r.tick(second, live)
	r.l.Close()
	r.l.Close()
	for i := range of {
		if of[i].closed != 1 || whole[i].closed != 1 {
			t.Errorf("workload %d: its part was closed %d times, its own control group %d times", i+1, of[i].closed, whole[i].closed)
		}
	}
}

func TestCgroupChargesWhatNobodySaw(t *testing.T) {
	cg := &fakeCgroup{c: sensor.Cgroup{Have: sensor.CgroupCPU | sensor.CgroupPeak}}
	r := newRig(t, Config{Identify: func(p *sensor.Process, _ *Part, _ bool) Identified {
		return Identified{Identity: workload.Identity{Workload: "slurm/1", Part: "0", Owner: "bob"}, Handle: cg}
	}})
	r.tick(0, nil)
	step := proc(10, 10, r.boot+1, second/10)
	cg.c.UsageNanos = 8 * second / 10
	cg.c.Peak = 12345
	r.tick(second, []sensor.Process{step})
	step.UserNanos = 5 * second / 10
	cg.c.UsageNanos = 15 * second / 10
	r.tick(second, []sensor.Process{step})
	cg.gone = true
	step.UserNanos = 6 * second / 10
	r.tick(second, nil, step)
	r.export()
	r.want("step", r.cpu("slurm/1", "0", "bob"), 1.5)
	r.want("peak", r.values["reckon_workload_memory_peak_bytes|slurm/1|slurm|0|bob"], 12345)
}

func TestCgroupOlderThanTheAccount(t *testing.T) {
	cg := &fakeCgroup{c: sensor.Cgroup{Have: sensor.CgroupCPU, UsageNanos: 500 * second}}
	r := newRig(t, Config{Identify: func(p *sensor.Process, _ *Part, _ bool) Identified {
		return Identified{Identity: workload.Identity{Workload: "unit/a.service", Owner: "root"}, Handle: cg}
	}})
	r.tick(0, nil)
	p := proc(10, 10, r.boot+1, second/10)
	r.tick(second, []sensor.Process{p})
	r.export()
	r.want("unit", r.cpu("unit/a.service", "", "root"), 0.1)
	cg.c.UsageNanos += second
	r.tick(second, []sensor.Process{p})
	r.export()
	r.want("unit", r.cpu("unit/a.service", "", "root"), 1.1)
}

// TestProgramThatDidTheWork: a part is named after the program that used most of its CPU
// time, which may not be the first one. The name changes a few times at most.
func TestProgramThatDidTheWork(t *testing.T) {
	r := newRig(t, Config{})
	comm := func(name string, cpu uint64) sensor.Process {
		p := proc(map[string]int32{"bash": 10, "solver": 12}[name], 10, second, cpu)
		p.Comm = sensor.CommOf([]byte(name))
		return p
	}
	r.tick(second, []sensor.Process{comm("bash", second)})
	r.export()
	said := map[string]bool{}
	for i := range uint64(400) {
		r.tick(2*second, []sensor.Process{comm("bash", second), comm("solver", (i+1)*second)})
		r.export()
		for k, v := range r.values {
			if strings.HasPrefix(k, "reckon_workload_info|group/n1/10|") && v == 1 {
				said[k] = true
			}
		}
	}
	now := "reckon_workload_info|group/n1/10|group||alice||||solver"
	if _, ok := r.values[now]; !ok || len(said) != 2 {
		t.Errorf("said: %v", said)
	}
}

// TestContainerIsNotNamedByItsRuntime: runc may use more CPU time before the container's
// program begins than that program itself.
func TestContainerIsNotNamedByItsRuntime(t *testing.T) {
	r := newRig(t, Config{Export: 5 * time.Second})
	p := proc(10, 10, 1000*second+1, second/10)
	r.tick(0, nil)
	p.Comm = sensor.CommOf([]byte("runc:[2:INIT]"))
	r.tick(second/10, []sensor.Process{p})
	r.export()
	if _, ok := r.values["reckon_workload_info|group/n1/10|group||alice||||runc:[2:INIT]"]; !ok {
		t.Error("not named while there is nothing else")
	}
	p.UserNanos, p.Comm = p.UserNanos+second/100, sensor.CommOf([]byte("sh"))
	r.tick(second/100, []sensor.Process{p})
	r.tick(0, nil, p)
	r.tick(0, nil)
	r.export()
	if _, ok := r.values["reckon_workload_info|group/n1/10|group||alice||||sh"]; !ok {
		t.Errorf("not named sh: %v", r.values)
	}
}

func TestCommandsAreBoundedCounters(t *testing.T) {
	r := newRig(t, Config{})
	r.tick(0, nil)
	last := map[string]float64{}
	for i := range int32(300) {
		e := proc(1000+i, 10, r.boot, second/10)
		e.Comm = sensor.CommOf([]byte(fmt.Sprintf("prog%d", i%97)))
		keep := proc(10, 10, 1000*second, 0)
		r.tick(second/10, []sensor.Process{keep}, e)
		if i%10 != 9 {
			continue
		}
		r.export()
		sum, n := 0.0, 0
		for k, v := range r.values {
			if len(k) > 33 && k[:33] == "reckon_command_cpu_seconds_total|" {
				if v < last[k] {
					t.Fatalf("%s fell from %v to %v", k, last[k], v)
				}
				last[k] = v
				sum += v
				n++
			}
		}
		if n > namedCommands+1 {
			t.Fatalf("%d series of commands", n)
		}
		if total := r.cpu("group/n1/10", "", "alice"); sum > total+1e-9 {
			t.Fatalf("commands sum to %v, more than the total %v", sum, total)
		}
	}
	r.tick(0, nil)
	r.tick(0, nil)
	r.export()
	sum := 0.0
	for k, v := range r.values {
		if len(k) > 33 && k[:33] == "reckon_command_cpu_seconds_total|" {
			sum += v
		}
	}
	r.want("sum of commands at the end", sum, r.cpu("group/n1/10", "", "alice"))
}

func TestHostileNamesMakeNoDuplicateSeries(t *testing.T) {
	r := newRig(t, Config{})
	a, b, c := proc(10, 10, second, 0), proc(11, 10, second, 0), proc(12, 10, second, 0)
	r.tick(0, []sensor.Process{a, b, c})
	a.Comm, b.Comm, c.Comm = sensor.CommOf([]byte("x\x01")), sensor.CommOf([]byte("x\x02")), sensor.CommOf([]byte("other"))
	a.UserNanos, b.UserNanos, c.UserNanos = second, second, second
	r.tick(3*second, []sensor.Process{a, b, c})
	r.export() // fails on a duplicate
	r.want("x?", r.values["reckon_command_cpu_seconds_total|group/n1/10|group||alice|x?"], 2)
}

// TestConservation runs random traces and compares the sum of all workloads and other
// with the busy time of the machine, on every tick.
func TestConservation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t, Config{Export: 5 * time.Second})
		type alive struct{ p sensor.Process }
		var live []alive
		next := int32(100)
		hidden := rapid.Bool().Draw(t, "exit records are missing")
		for range rapid.IntRange(0, 5).Draw(t, "processes before the ledger") {
			live = append(live, alive{proc(next, next%7, 10*second, uint64(rapid.IntRange(0, 100).Draw(t, "cpu"))*second)})
			next++
		}
		ps := func() (out []sensor.Process) {
			for _, a := range live {
				out = append(out, a.p)
			}
			return out
		}
		r.tick(0, ps())
		sum0 := total(r.l)
		var busy uint64
		for range rapid.IntRange(1, 40).Draw(t, "ticks") {
			var used uint64
			var exited []sensor.Process
			budget := 4 * second
			for i := range live {
				d := min(uint64(rapid.IntRange(0, 1_000_000_000).Draw(t, "use")), budget)
				live[i].p.UserNanos += d
				used, budget = used+d, budget-d
			}
			for len(live) > 0 && rapid.IntRange(0, 9).Draw(t, "exit") < 4 {
				if !hidden {
					exited = append(exited, live[0].p)
				}
				live = live[1:]
			}
			for range rapid.IntRange(0, 3).Draw(t, "short") {
				d := min(uint64(rapid.IntRange(0, 50_000_000).Draw(t, "use")), budget)
				used, budget = used+d, budget-d
				if !hidden {
					exited = append(exited, proc(next, next%7, r.boot+5, d))
				}
				next++
			}
			if rapid.Bool().Draw(t, "birth") {
				live = append(live, alive{proc(next, next%7, r.boot+7, 0)})
				next++
			}
			irq := min(uint64(rapid.IntRange(0, 100_000_000).Draw(t, "interrupts")), budget)
			r.tick(used+irq, ps(), exited...)
			busy += used + irq
			if got := total(r.l) - sum0; got != busy {
				t.Fatalf("workloads and other sum to %d ns, the machine was busy for %d ns", got, busy)
			}
			if rapid.IntRange(0, 4).Draw(t, "export") == 0 {
				r.export()
			}
		}
	})
}

// total is the charged time, less the time that other pays back.
func total(l *Ledger) uint64 { return uint64(int64(l.Total()) + l.node.balance) }

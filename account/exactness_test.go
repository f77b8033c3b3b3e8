package account

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/figure"
	"reckon/sensor"
	"reckon/workload"
)

// degrees returns the exactness of a kind in the last export, by figure and source.
func (r *rig) degrees(kind string) map[string]figure.Exactness {
	out := map[string]figure.Exactness{}
	for k, v := range r.values {
		f := strings.Split(k, "|")
		if f[0] == "reckon_figure_exactness" && f[2] == kind {
			out[f[1]+" "+f[3]] = figure.Exactness(v)
		}
	}
	return out
}

func TestExactnessOfProcesses(t *testing.T) {
	const all = sensor.FieldMemory | sensor.FieldPeak | sensor.FieldChildren
	for name, tt := range map[string]struct {
		have     sensor.Fields // of the source, besides the usual ones
		lack     sensor.Fields
		complete bool
		lost     uint64 // exit records in a tick
		unseen   uint64 // busy time that was not charged, in a tick; below zero for charges beyond busy time
		want     map[string]figure.Exactness
	}{
		"exit records": {all, 0, true, 0, 0, map[string]figure.Exactness{
			"cpu_seconds exit_records": figure.Exact, "processes exit_records": figure.Exact, "cpu_wait_seconds exit_records": figure.Exact, "memory_bytes rss": figure.Exact, "memory_peak_bytes rss": figure.Exact,
			"memory_needed_bytes rss": figure.Exact, "memory_needed_peak_bytes rss": figure.Exact, "io_read_bytes exit_records": figure.Exact, "io_write_bytes exit_records": figure.Exact}},
		"exit records were lost": {all, 0, true, 3, 0, map[string]figure.Exactness{
			"cpu_seconds child_times": figure.Exact, "processes readings": figure.AtLeast, "cpu_wait_seconds seen_processes": figure.Exact, "memory_bytes rss": figure.Exact, "memory_peak_bytes readings": figure.AtLeast,
			"memory_needed_bytes rss": figure.Exact, "memory_needed_peak_bytes readings": figure.AtLeast, "io_read_bytes readings": figure.AtLeast, "io_write_bytes readings": figure.AtLeast}},
		"child times": {all, sensor.FieldIO, false, 0, second / 100, map[string]figure.Exactness{
			"cpu_seconds child_times": figure.Exact, "processes readings": figure.AtLeast, "cpu_wait_seconds seen_processes": figure.Exact, "memory_bytes rss": figure.Exact, "memory_peak_bytes readings": figure.AtLeast,
			"memory_needed_bytes rss": figure.Exact, "memory_needed_peak_bytes readings": figure.AtLeast}},
		"orphans": {all, sensor.FieldIO | sensor.FieldMemory, false, 0, second / 10, map[string]figure.Exactness{
			"cpu_seconds child_times": figure.AtLeast, "processes readings": figure.AtLeast, "cpu_wait_seconds seen_processes": figure.Exact}},
		"neither": {0, sensor.FieldIO | sensor.FieldMemory, false, 0, 0, map[string]figure.Exactness{
			"cpu_seconds readings": figure.AtLeast, "processes readings": figure.AtLeast, "cpu_wait_seconds seen_processes": figure.Exact}},
		"little came late": {all, sensor.FieldIO | sensor.FieldMemory, false, 0, ^uint64(second/100) + 1, map[string]figure.Exactness{
			"cpu_seconds child_times": figure.Exact, "processes readings": figure.AtLeast, "cpu_wait_seconds seen_processes": figure.Exact}},
		"much came late": {all, sensor.FieldIO | sensor.FieldMemory, false, 0, ^uint64(second/10) + 1, map[string]figure.Exactness{
			"cpu_seconds child_times": figure.Estimated, "processes readings": figure.AtLeast, "cpu_wait_seconds seen_processes": figure.Exact}},
	} {
		r := newRig(t, Config{Export: 5 * time.Second})
		r.tick(0, nil)
		r.export()
		p := proc(10, 10, r.boot+1, 0)
		p.Have = p.Have&^tt.lack | tt.have&^tt.lack
		p.Anon, p.PeakBytes = mib, mib
		for range 5 {
			p.UserNanos += second / 2
			r.complete(tt.complete)
			r.pass.Lost = tt.lost
			r.tick(second/2+tt.unseen, []sensor.Process{p})
		}
		r.export()
		if got := r.degrees("group"); !maps.Equal(got, tt.want) {
			t.Errorf("%s:\n got %v\nwant %v", name, got, tt.want)
		}
	}
}

// TestExactnessOfTheFirstExport: the use of processes older than the agent is only partly known.
func TestExactnessOfTheFirstExport(t *testing.T) {
	r := newRig(t, Config{Export: 5 * time.Second})
	old := proc(10, 10, 5*second, second)
	for i, want := range []map[string]figure.Exactness{
		{"cpu_seconds agent_start": figure.AtLeast, "processes agent_start": figure.AtLeast},
		{"cpu_seconds exit_records": figure.Exact, "processes exit_records": figure.Exact},
	} {
		r.complete(true)
		r.tick(0, []sensor.Process{old})
		r.export()
		got := r.degrees("group")
		for k := range want {
			if v, ok := got[k]; !ok || v != want[k] {
				t.Errorf("export %d: %s is %v, %v; all: %v", i, k, v, ok, got)
			}
		}
	}
	if _, ok := r.degrees("group")["cpu_seconds agent_start"]; ok {
		t.Error("it is still told")
	}
}

func TestExactnessOfControlGroups(t *testing.T) {
	const memory = sensor.CgroupCPU | sensor.CgroupMemory | sensor.CgroupPeak
	for name, tt := range map[string]struct {
		cg   sensor.Cgroup
		want figure.Exactness
	}{
		"version 2":                          {sensor.Cgroup{Have: memory | sensor.CgroupShmem | sensor.CgroupKernel, Kernel: 50 * mib}, figure.Exact},
		"version 1, little kernel":           {sensor.Cgroup{Have: memory | sensor.CgroupShmem | sensor.CgroupKernel | sensor.CgroupKernelBound | sensor.CgroupMemoryMax, Kernel: 10 * mib, MemoryMax: 200 * mib}, figure.Exact},
		"version 1, much kernel":             {sensor.Cgroup{Have: memory | sensor.CgroupShmem | sensor.CgroupKernel | sensor.CgroupKernelBound | sensor.CgroupMemoryMax, Kernel: 10*mib + 1, MemoryMax: 200 * mib}, figure.Estimated},
		"version 1, no limit":                {sensor.Cgroup{Have: memory | sensor.CgroupShmem | sensor.CgroupKernel | sensor.CgroupKernelBound, Kernel: 40 * mib}, figure.Exact},
		"shared memory not reported":         {sensor.Cgroup{Have: memory | sensor.CgroupKernel}, figure.AtLeast},
		"kernel memory not reported, little": {sensor.Cgroup{Have: memory | sensor.CgroupShmem, Anon: 100 * mib, Current: 110 * mib}, figure.Exact},
		"kernel memory not reported, much":   {sensor.Cgroup{Have: memory | sensor.CgroupShmem | sensor.CgroupMemoryMax, Anon: 100 * mib, Current: 111 * mib, MemoryMax: 200 * mib}, figure.AtLeast},
	} {
		handle := &fakeCgroup{c: tt.cg}
		r := newRig(t, Config{Export: 5 * time.Second, Identify: func(*sensor.Process, *Part, bool) Identified {
			return Identified{Identity: workload.Identity{Workload: "slurm/1", Part: "0", Owner: "bob"}, Handle: handle}
		}})
		r.m.MemoryTotal, r.m.MemoryAvailable = 1<<30, 1<<29
		r.tick(0, nil)
		r.export()
		r.tick(0, []sensor.Process{proc(10, 10, r.boot+1, 0)})
		r.export()
		want := map[string]figure.Exactness{"cpu_seconds cgroup": figure.Exact, "memory_bytes cgroup": figure.Exact, "memory_peak_bytes cgroup": figure.Exact,
			"memory_needed_bytes cgroup": tt.want, "memory_needed_peak_bytes cgroup": tt.want}
		got := r.degrees("slurm")
		for k, v := range want {
			if g, ok := got[k]; !ok || g != v {
				t.Errorf("%s: %s is %v (%v), want %v", name, k, g, ok, v)
			}
		}
	}
}

// TestOneWorkloadDoesNotMarkItsKind: a group that cannot be measured leaves the others
// exact, and its mark ends with it.
func TestOneWorkloadDoesNotMarkItsKind(t *testing.T) {
	const kind, own = "reckon_figure_exactness|memory_bytes|group|rss||", "reckon_figure_exactness|memory_bytes|group|rss_sum|group/n1/100|alice"
	r := newRig(t, Config{Export: 5 * time.Second})
	live := forked(31, 100)
	p := proc(10, 10, 5*second, second)
	p.Have |= sensor.FieldMemory
	p.Anon = mib
	for range 3 {
		r.tick(0, append(live[:len(live):len(live)], p))
		r.share(func(Sharer) uint64 { return 0 })
	}
	r.export()
	r.tick(0, append(live[:len(live):len(live)], p))
	r.export()
	if k, ok := r.values[kind]; !ok || k != float64(figure.Exact) {
		t.Errorf("the kind is %v, %v, want exact", k, ok)
	}
	if o, ok := r.values[own]; !ok || o != float64(figure.AtMost) {
		t.Errorf("the group is %v, %v, want at most", o, ok)
	}
	for range 3 {
		r.tick(0, []sensor.Process{p})
		r.export()
	}
	if o, ok := r.values[own]; ok {
		t.Errorf("the group ended, and is %v", o)
	}
}

// TestLiveExactness: the live view has the exactness of the inexact figures in the last export.
func TestLiveExactness(t *testing.T) {
	for complete, want := range map[bool]figure.Exactness{true: figure.Exact, false: figure.AtLeast} {
		r := newRig(t, Config{Export: 5 * time.Second})
		r.complete(complete)
		r.tick(0, nil)
		p := proc(20, 20, r.boot+1, 0)
		r.export()
		for range 2 {
			r.tick(second/10, []sensor.Process{p})
			p.UserNanos += second / 10
		}
		r.export()
		i := slices.IndexFunc(r.l.Live(nil), func(x Live) bool { return x.Workload == "group/n1/20" })
		if i < 0 || r.l.Live(nil)[i].Exactness["cpu_seconds"] != want || complete && r.l.Live(nil)[i].Exactness != nil {
			t.Errorf("complete %v: %+v", complete, r.l.Live(nil))
		}
	}
}

// TestExactnessOfFastExports: the instants at which clocks are read differ, which is much of two seconds and little of
// fifteen; what stays uncharged is reported all the same, and no longer than for that time.
func TestExactnessOfFastExports(t *testing.T) {
	r := newRig(t, Config{Export: 2 * time.Second})
	p := proc(10, 10, r.boot+second+1, 0)
	p.Have |= sensor.FieldChildren
	worst := func(ticks int, busy func(i int) uint64) (worst figure.Exactness) {
		for i := range ticks {
			p.UserNanos += second / 2
			r.tick(busy(i), []sensor.Process{p})
			if i%2 == 1 {
				r.export()
				worst = max(worst, r.degrees("group")["cpu_seconds child_times"])
			}
		}
		return worst
	}
	r.tick(0, nil)
	r.export()
	worst(2, func(int) uint64 { return second / 2 }) // the first export is another matter
	if got := worst(60, func(i int) uint64 { return second/2 + second/10*uint64(i/2%2) }); got == figure.Exact {
		t.Error("a tenth of the time is charged to nobody, and it is exact")
	}
	worst(40, func(int) uint64 { return second / 2 })
	skew := second / 25
	if got := worst(60, func(i int) uint64 { return second/2 - skew*uint64(i/2%2) + skew*uint64(1-i/2%2) }); got != figure.Exact {
		t.Errorf("what differs by %d ms back and forth is %v", skew/1e6, got)
	}
	if got := worst(2, func(int) uint64 { return second }); got != figure.AtLeast {
		t.Errorf("a second that nobody is charged with is %v", got)
	}
	worst(40, func(int) uint64 { return second / 2 })
	if got := worst(2, func(int) uint64 { return second / 2 }); got != figure.Exact {
		t.Errorf("after 40 s it still is %v", got)
	}
}

// TestExactnessOfWhatIsHeld: time of children that waits for a tick, as a living child may explain it, is not lost when it comes
// to be held, and not charged twice when it is no more.
func TestExactnessOfWhatIsHeld(t *testing.T) {
	for name, every := range map[string]int{"fast exports": 1, "slow exports": 5} {
		r := newRig(t, Config{Export: 5 * time.Second})
		k := newKin(10 * second)
		k.next = 30000
		shell := k.fork(1, true, 20*second)
		k.next = 200
		k.fork(shell, false, r.boot) // lives, and is read before the shell
		for range 3 {
			r.step(k, 0)
			r.export()
		}
		ticks, held := 0, false
		for range 8 {
			for _, work := range []uint64{0, 1, 1, 1, 0} {
				if work > 0 {
					u := k.fork(shell, false, r.boot)
					k.run(u, second*9/10)
					k.end(u)
				}
				r.step(k, 0)
				held = held || r.l.table.line.held > 0
				if ticks++; ticks%every != 2%every {
					continue
				}
				r.export()
				if d := r.degrees("group")["cpu_seconds child_times"]; d != figure.Exact {
					t.Errorf("%s, tick %d: %v", name, ticks, d)
				}
			}
		}
		if !held {
			t.Errorf("%s: nothing was held", name)
		}
		r.step(k, 0)
		r.export()
		about(t, "shell", r.group(shell), 8*3*0.9)
	}
}

// TestExactnessOfSlowPasses: under load some time passes between the reading of the processes and the reading of the machine, and what
// is used in it is charged a tick later.
func TestExactnessOfSlowPasses(t *testing.T) {
	r := newRig(t, Config{Export: 15 * time.Second})
	r.tick(0, nil)
	r.export()
	p := proc(10, 10, r.boot+1, 0)
	p.Have |= sensor.FieldChildren
	for i := range 6 * 15 {
		slow := uint64(0)
		if i%30 == 14 { // the last tick of an export
			slow = second * 3 / 4
		}
		r.boot += second
		p.UserNanos += second
		r.m.User += r.boot + slow - r.m.Boot // one processor is busy all the time
		r.m.Idle += (r.boot + slow - r.m.Boot) * uint64(r.m.Cores-1)
		r.m.Boot = r.boot + slow
		r.pass.Boot, r.pass.Live, r.pass.Exited = r.boot, []sensor.Process{p}, nil
		r.l.Tick(wall.Add(time.Duration(r.boot)), &r.pass, &r.m)
		if i%15 == 14 {
			r.export()
			if d := r.degrees("group")["cpu_seconds child_times"]; d != figure.Exact {
				t.Errorf("export %d: %v", i/15, d)
			}
		}
	}
}

// TestExactnessOfWait: children that no reading saw waited for processors, too, and nobody counted it.
func TestExactnessOfWait(t *testing.T) {
	for name, tt := range map[string]struct {
		unseen uint64 // child time in a tick
		want   figure.Exactness
	}{"few children": {second / 500, figure.Exact}, "many children": {second / 4, figure.AtLeast}} {
		r := newRig(t, Config{Export: 5 * time.Second})
		r.tick(0, nil)
		r.export()
		p := proc(10, 10, r.boot+1, 0)
		p.Have |= sensor.FieldWait | sensor.FieldChildren
		for range 10 {
			p.UserNanos += second / 2
			p.WaitNanos += second / 8
			p.ChildUserNanos += tt.unseen
			r.complete(false)
			r.tick(second/2+tt.unseen, []sensor.Process{p})
		}
		r.export()
		r.want(name+" CPU", r.cpu("group/n1/10", "", "alice"), 5+10*float64(tt.unseen)/1e9)
		worst := figure.Exact
		for figureAndSource, e := range r.degrees("group") {
			if strings.HasPrefix(figureAndSource, "cpu_wait_seconds ") {
				worst = max(worst, e)
			}
		}
		if worst != tt.want {
			t.Errorf("%s: wait is %v, want %v: %v", name, worst, tt.want, r.degrees("group"))
		}
		// It outlives a restart.
		r.restart()
		p.UserNanos += second / 2
		r.complete(false)
		r.tick(second/2, []sensor.Process{p})
		r.export()
		if got := r.degrees("group")["cpu_wait_seconds seen_processes"]; got != tt.want {
			t.Errorf("%s: after a restart wait is %v, want %v", name, got, tt.want)
		}
	}
}

// worst returns the exactness of a figure of a workload of alice, from the series of its kind and of itself.
func (r *rig) worst(name, id string) (worst figure.Exactness) {
	for k, v := range r.values {
		if f := strings.Split(k, "|"); f[0] == "reckon_figure_exactness" && f[1] == name && (f[4] == "" || f[4] == id) {
			worst = worst.Worse(figure.Exactness(v))
		}
	}
	return worst
}

// TestEndedThreads: where a source does not know what ended threads of a process did, the figures of its workload are at least that while it
// lives, and for good if its record does not have it; no other workload is marked. It is kept over a restart, after which counters go on.
func TestEndedThreads(t *testing.T) {
	const both = sensor.FieldWait | sensor.FieldIO
	for name, c := range map[string]struct {
		partial, record sensor.Fields // of the living process, and of the record of its end
		recorded        bool
		wait, io        [2]figure.Exactness // while it lives, and afterwards
	}{
		"counted":                  {0, 0, true, [2]figure.Exactness{}, [2]figure.Exactness{}},
		"begun before":             {both, both, true, [2]figure.Exactness{1, 1}, [2]figure.Exactness{1, 1}},
		"the record has it":        {both, 0, true, [2]figure.Exactness{1, 0}, [2]figure.Exactness{1, 0}},
		"no record":                {sensor.FieldWait, 0, false, [2]figure.Exactness{1, 1}, [2]figure.Exactness{}},
		"of reads and writes only": {sensor.FieldIO, sensor.FieldIO, true, [2]figure.Exactness{}, [2]figure.Exactness{1, 1}},
	} {
		for _, restart := range []bool{false, true} {
			r := newRig(t, Config{Linger: time.Hour})
			look := func(live []sensor.Process, ended ...sensor.Process) {
				r.complete(true)
				r.tick(0, live, ended...)
			}
			check := func(when string, wait, io figure.Exactness) {
				t.Helper()
				r.export()
				for figureName, want := range map[string]figure.Exactness{"cpu_wait_seconds": wait, "io_write_bytes": io} {
					if got := r.worst(figureName, "group/n1/10"); got != want {
						t.Errorf("%s, %s (restart %v): %s is %v, want %v", name, when, restart, figureName, got, want)
					}
					if got := r.worst(figureName, "group/n1/20"); got != figure.Exact {
						t.Errorf("%s, %s (restart %v): %s of another workload is %v", name, when, restart, figureName, got)
					}
				}
			}
			look(nil)
			r.export()
			a, b := proc(10, 10, r.boot+1, 9*second), proc(20, 20, r.boot+1, 9*second)
			a.Partial, a.WaitNanos, a.WriteBytes = c.partial, 8*second, 1<<30
			look([]sensor.Process{a, b})
			check("alive", c.wait[0], c.io[0])
			of := "|group/n1/10|group||alice"
			waited, wrote := r.values["reckon_workload_cpu_wait_seconds_total"+of], r.values["reckon_workload_io_bytes_total"+of+"|write"]
			if restart {
				r.restart()
				if c.partial == both { // the source began again, too, and knows nothing of what had ended
					a.WaitNanos, a.WriteBytes = second, 1<<20
				}
				look([]sensor.Process{a, b})
				r.export() // of the gap
				a.WaitNanos, a.WriteBytes = a.WaitNanos+2*second, a.WriteBytes+2<<20
				look([]sensor.Process{a, b})
				check("after a restart", c.wait[0], c.io[0])
				r.want(name+": wait", r.values["reckon_workload_cpu_wait_seconds_total"+of]-waited, 2)
				r.want(name+": written", r.values["reckon_workload_io_bytes_total"+of+"|write"]-wrote, 2<<20)
				c.wait[1], c.io[1] = c.wait[0], c.io[0]
			}
			a.Partial = c.record
			var ended []sensor.Process
			if c.recorded {
				ended = append(ended, a)
			}
			for range lateTicks + 2 {
				look([]sensor.Process{b}, ended...)
				ended = nil
			}
			check("ended", c.wait[1], c.io[1])
		}
	}
}

// TestDeleted: what was deleted before it reached storage is a counter of who deleted it, and makes what the owner's workloads wrote at most.
func TestDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		wrote, deleted, other uint64 // of the workload, and deleted by another that wrote nothing
		uid                   uint32 // of that
		want                  figure.Exactness
	}{
		"nothing":          {1 << 30, 0, 0, 1000, figure.Exact},
		"hardly anything":  {1 << 30, 5 << 20, 0, 1000, figure.Exact},
		"its own":          {1 << 30, 1 << 29, 0, 1000, figure.AtMost},
		"by another":       {1 << 30, 0, 1 << 29, 1000, figure.AtMost},
		"by root":          {1 << 30, 0, 1 << 29, 0, figure.AtMost},
		"by somebody else": {1 << 30, 0, 1 << 29, 1001, figure.Exact},
	} {
		r := newRig(t, Config{Identify: identifySimulated})
		look := func(live ...sensor.Process) {
			r.complete(true)
			r.tick(0, live)
		}
		look()
		r.export()
		a, b := proc(10, 10, r.boot+1, 9*second), proc(20, 20, r.boot+1, 9*second)
		a.UID, a.WriteBytes, a.CancelledBytes, b.CancelledBytes, b.UID = 1000, c.wrote, c.deleted, c.other, c.uid
		for _, when := range []string{"at first", "after a restart"} {
			look(a, b)
			r.export()
			look(a, b)
			r.export()
			r.want(name+" written", r.values["reckon_workload_io_bytes_total|group/n1/10|group||alice|write"], float64(c.wrote))
			r.want(name+" deleted", r.values["reckon_workload_io_cancelled_bytes_total|group/n1/10|group||alice"], float64(c.deleted))
			if d := r.worst("io_write_bytes", "group/n1/10"); d != c.want {
				t.Errorf("%s, %s: %v, want %v", name, when, d, c.want)
			}
			r.restart()
		}
	}
}

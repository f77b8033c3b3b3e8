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
			"cpu_seconds exit_records": figure.Exact, "processes exit_records": figure.Exact, "memory_bytes rss": figure.Exact, "memory_peak_bytes rss": figure.Exact,
			"memory_needed_bytes rss": figure.Exact, "memory_needed_peak_bytes rss": figure.Exact, "io_read_bytes exit_records": figure.Exact, "io_write_bytes exit_records": figure.Exact}},
		"exit records were lost": {all, 0, true, 3, 0, map[string]figure.Exactness{
			"cpu_seconds child_times": figure.Exact, "processes readings": figure.AtLeast, "memory_bytes rss": figure.Exact, "memory_peak_bytes readings": figure.AtLeast,
			"memory_needed_bytes rss": figure.Exact, "memory_needed_peak_bytes readings": figure.AtLeast, "io_read_bytes readings": figure.AtLeast, "io_write_bytes readings": figure.AtLeast}},
		"child times": {all, sensor.FieldIO, false, 0, second / 100, map[string]figure.Exactness{
			"cpu_seconds child_times": figure.Exact, "processes readings": figure.AtLeast, "memory_bytes rss": figure.Exact, "memory_peak_bytes readings": figure.AtLeast,
			"memory_needed_bytes rss": figure.Exact, "memory_needed_peak_bytes readings": figure.AtLeast}},
		"orphans": {all, sensor.FieldIO | sensor.FieldMemory, false, 0, second / 10, map[string]figure.Exactness{
			"cpu_seconds child_times": figure.AtLeast, "processes readings": figure.AtLeast}},
		"neither": {0, sensor.FieldIO | sensor.FieldMemory, false, 0, 0, map[string]figure.Exactness{
			"cpu_seconds readings": figure.AtLeast, "processes readings": figure.AtLeast}},
		"little came late": {all, sensor.FieldIO | sensor.FieldMemory, false, 0, ^uint64(second/100) + 1, map[string]figure.Exactness{
			"cpu_seconds child_times": figure.Exact, "processes readings": figure.AtLeast}},
		"much came late": {all, sensor.FieldIO | sensor.FieldMemory, false, 0, ^uint64(second/10) + 1, map[string]figure.Exactness{
			"cpu_seconds child_times": figure.Estimated, "processes readings": figure.AtLeast}},
	} {
		r := newRig(t, Config{Export: 5 * time.Second})
		r.tick(0, nil)
		r.export()
		p := proc(10, 10, r.boot+1, 0)
		p.Have = p.Have&^tt.lack | tt.have&^tt.lack
		p.Anon, p.PeakBytes = mib, mib
		for range 5 {
			p.UserNanos += second / 2
			r.pass.Complete, r.pass.Lost = tt.complete, tt.lost
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
		r.pass.Complete = true
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
	if o, ok := r.values[own]; !ok || o != float64(figure.Estimated) {
		t.Errorf("the group is %v, %v, want estimated", o, ok)
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
		r.pass.Complete = complete
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

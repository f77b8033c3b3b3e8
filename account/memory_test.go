package account

import (
	"strings"
	"testing"

	"reckon/figure"
	"reckon/sensor"
	"reckon/workload"
)

const mib = uint64(1 << 20)

// inJob puts every process into step 0 of a job with control groups.
func inJob(step, job sensor.CgroupHandle) func(*sensor.Process, *Part, bool) Identified {
	return func(p *sensor.Process, _ *Part, _ bool) Identified {
		return Identified{Identity: workload.Identity{Workload: "slurm/1", Part: "0", Owner: "bob"}, Handle: step, Whole: job}
	}
}

// TestPageCacheIsNotNeeded: a job with little memory of its own that reads a large file.
func TestPageCacheIsNotNeeded(t *testing.T) {
	cg := &fakeCgroup{c: sensor.Cgroup{
		Have: sensor.CgroupCPU | sensor.CgroupMemory | sensor.CgroupPeak | sensor.CgroupShmem | sensor.CgroupKernel |
			sensor.CgroupRefaults | sensor.CgroupMemoryEvents | sensor.CgroupFaults | sensor.CgroupHuge | sensor.CgroupNodes,
		Peak: 200 * mib, Current: 200 * mib, Anon: mib, File: 197 * mib, Shmem: mib / 2, Kernel: mib / 4,
		Faults: 1000, MajorFaults: 40, HugeBytes: 4 * mib, NodeBytes: &[sensor.MaxNodes]uint64{1: 150 * mib, 3: 50 * mib}, RefaultFile: 600 * mib, RefaultAnon: 3 * mib, MaxEvents: 730, OOMEvents: 2,
	}}
	r := newRig(t, Config{Identify: inJob(cg, nil)})
	p := proc(10, 10, r.boot+1, 2*second)
	r.tick(0, []sensor.Process{p})
	cg.c.Anon = 5 * mib // for one tick
	r.tick(0, []sensor.Process{p})
	cg.c.Anon = mib
	r.tick(0, []sensor.Process{p})
	r.export()
	const of = "|slurm/1|slurm|0|bob"
	for name, want := range map[string]float64{
		"memory_peak_bytes" + of:                    float64(200 * mib),
		"memory_needed_bytes" + of:                  1.75 * float64(mib),
		"memory_needed_peak_bytes" + of:             5.75 * float64(mib),
		"memory_refault_bytes_total" + of + "|file": 600 * float64(mib),
		"memory_refault_bytes_total" + of + "|anon": 3 * float64(mib),
		"page_faults_total" + of + "|minor":         960,
		"page_faults_total" + of + "|major":         40,
		"memory_numa_bytes" + of + "|1":             150 * float64(mib),
		"memory_numa_bytes" + of + "|3":             50 * float64(mib),
		"memory_huge_bytes" + of:                    4 * float64(mib),
		"memory_events_total" + of + "|max":         730,
		"memory_events_total" + of + "|oom":         2,
	} {
		r.want(name, r.values["reckon_workload_"+name], want)
	}
	// The group is removed; its peak remains.
	cg.gone = true
	r.tick(0, nil, p)
	r.export()
	r.want("at the end", r.values["reckon_workload_memory_needed_peak_bytes"+of], 5.75*float64(mib))
}

// TestNeededPeakOfProcesses: without a control group the maximum over the ticks, and the
// high-water marks of single processes between them, less their files.
func TestNeededPeakOfProcesses(t *testing.T) {
	with := func(p sensor.Process, anon, file, shmem, peak uint64) sensor.Process {
		p.Anon, p.File, p.Shmem, p.PeakBytes = anon*mib, file*mib, shmem*mib, peak*mib
		p.Have |= sensor.FieldMemory | sensor.FieldPeak
		return p
	}
	a, b := proc(10, 10, 5*second, 2*second), proc(11, 10, 5*second, 2*second)
	unseen := proc(12, 10, 1001*second+1, second/10)
	unseen.Have &^= sensor.FieldMemory
	unseen.Have |= sensor.FieldPeak
	unseen.PeakBytes = 600 * mib
	for name, tt := range map[string]struct {
		ticks  [][]sensor.Process
		exited []sensor.Process
		needed uint64
		peak   uint64
	}{
		"both at once":          {[][]sensor.Process{{with(a, 30, 5, 1, 36), with(b, 40, 5, 2, 47)}}, nil, 73, 83},
		"one after the other":   {[][]sensor.Process{{with(a, 30, 5, 0, 35)}, {with(a, 1, 5, 0, 35), with(b, 20, 5, 0, 25)}}, nil, 30, 35},
		"high between ticks":    {[][]sensor.Process{{with(a, 30, 5, 0, 35)}, {with(a, 30, 5, 0, 205)}}, nil, 200, 205},
		"files that were there": {[][]sensor.Process{{with(a, 30, 500, 0, 530)}, {with(a, 30, 5, 0, 530)}}, nil, 30, 530},
		"lived between ticks":   {[][]sensor.Process{{with(a, 30, 5, 0, 35)}}, []sensor.Process{unseen}, 600, 600},
	} {
		r := newRig(t, Config{})
		for _, live := range tt.ticks {
			r.tick(0, live)
			r.tick(0, live)
			r.share(func(s Sharer) uint64 { return s.RSS })
			r.tick(0, live)
		}
		r.tick(0, tt.ticks[0][:1], tt.exited...)
		r.export()
		const of = "|group/n1/10|group||alice"
		r.want(name+": needed", r.values["reckon_workload_memory_needed_peak_bytes"+of], float64(tt.needed*mib))
		r.want(name+": peak", r.values["reckon_workload_memory_peak_bytes"+of], float64(tt.peak*mib))
	}
}

// share gives the ledger the unshared memory of each process; 0 is denied.
func (r *rig) share(of func(Sharer) uint64) (asked int) {
	for _, s := range r.l.AppendSharers(nil) {
		v := of(s)
		r.l.RecordSharing(s, sensor.SharedMemory{Resident: s.RSS, Proportional: v}, v != 0)
		asked++
	}
	return asked
}

// TestWholeJobHasItsOwnPeak: the control group above the steps shows their combined
// memory, also when the ledger was restored and the group is gone.
func TestWholeJobHasItsOwnPeak(t *testing.T) {
	memory := sensor.CgroupMemory | sensor.CgroupPeak | sensor.CgroupShmem
	step := &fakeCgroup{c: sensor.Cgroup{Have: sensor.CgroupCPU | memory, Anon: 40 * mib, Peak: 50 * mib}}
	job := &fakeCgroup{c: sensor.Cgroup{Have: memory, Anon: 60 * mib, File: 100 * mib, Peak: 170 * mib}}
	r := newRig(t, Config{Identify: inJob(step, job)})
	p := proc(10, 10, r.boot+1, 2*second)
	r.tick(0, []sensor.Process{p})
	job.c.Anon = 10 * mib
	check := func(what string) {
		t.Helper()
		r.tick(0, []sensor.Process{p})
		r.export()
		for labels, want := range map[string][2]uint64{"0": {50, 40}, "": {170, 60}} {
			of := "|slurm/1|slurm|" + labels + "|bob"
			r.want(what+" peak "+labels, r.values["reckon_workload_memory_peak_bytes"+of], float64(want[0]*mib))
			r.want(what+" needed "+labels, r.values["reckon_workload_memory_needed_peak_bytes"+of], float64(want[1]*mib))
		}
	}
	check("running")
	r.restart()
	job.gone = true
	check("restored")
}

// TestShortMemory: a part that began in a tick held its memory for the rest of it, so that its mean is no more than its peak.
func TestShortMemory(t *testing.T) {
	cg := &fakeCgroup{c: sensor.Cgroup{Have: sensor.CgroupCPU | sensor.CgroupMemory, Current: 400, Anon: 400}}
	r := newRig(t, Config{Identify: inJob(cg, nil)})
	r.tick(0, nil)
	p := proc(10, 10, r.boot+3*second/4, 0)
	r.tick(0, []sensor.Process{p})
	r.export()
	r.want("byte-seconds of a quarter of a second", r.values["reckon_workload_memory_byte_seconds_total|slurm/1|slurm|0|bob"], 100)
	r.tick(0, []sensor.Process{p})
	r.export()
	r.want("and of a second", r.values["reckon_workload_memory_byte_seconds_total|slurm/1|slurm|0|bob"], 500)
}

// TestExplicitHugePages: they are memory that the kernel does not count as resident; of several processes they may be the same, and a control
// group counts them apart.
func TestExplicitHugePages(t *testing.T) {
	for name, c := range map[string]struct {
		processes int
		group     bool
		bytes     float64
		want      figure.Exactness
	}{
		"of one process":     {1, false, float64(65 * mib), figure.Exact},
		"of two processes":   {2, false, float64(2 * 65 * mib), figure.AtMost},
		"in a control group": {1, true, float64(7 * mib), figure.AtLeast},
	} {
		config, id := Config{}, "group/n1/10|group||alice"
		if c.group {
			config.Identify = inJob(&fakeCgroup{c: sensor.Cgroup{Have: sensor.CgroupCPU | sensor.CgroupMemory | sensor.CgroupPeak | sensor.CgroupShmem | sensor.CgroupKernel, Peak: 7 * mib, Anon: 7 * mib}}, nil)
			id = "slurm/1|slurm|0|bob"
		}
		r := newRig(t, config)
		r.complete(true)
		r.tick(0, nil)
		r.export()
		var live []sensor.Process
		for i := range c.processes {
			p := proc(int32(10+i), 10, r.boot+1, 2*second)
			p.Have |= sensor.FieldPeak
			p.Anon, p.Huge, p.PeakBytes = mib, 64*mib, mib
			live = append(live, p)
		}
		for range 2 {
			r.complete(true)
			r.tick(0, live)
		}
		r.export()
		r.want(name, r.values["reckon_workload_memory_bytes|"+id+"|anon"], c.bytes)
		r.want(name+", peak", r.values["reckon_workload_memory_peak_bytes|"+id], c.bytes)
		if got := r.worst("memory_bytes", strings.Split(id, "|")[0]); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

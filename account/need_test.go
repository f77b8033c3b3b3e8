package account

import (
	"testing"

	"reckon/sensor"
)

// needRig is a job of one process in a control group; both report about memory what the test sets.
type needRig struct {
	*rig
	cg, job fakeCgroup
	p       sensor.Process
}

func newNeedRig(t *testing.T, have sensor.CgroupFields) *needRig {
	n := &needRig{}
	n.cg.c.Have = sensor.CgroupCPU | sensor.CgroupMemory | sensor.CgroupPeak | sensor.CgroupShmem | sensor.CgroupKernel | have
	n.cg.c.Current = 50 * mib
	n.cg.c.Peak, n.cg.c.Anon, n.cg.c.Filled = 50*mib, 50*mib, 50*mib
	n.rig = newRig(t, Config{Identify: inJob(&n.cg, restsFor{&n.job})})
	n.complete(true)
	n.rig.tick(0, nil)
	n.p = proc(10, 10, n.boot+1, 0)
	n.p.Have |= sensor.FieldMemory | sensor.FieldPeak
	n.p.Anon, n.p.File, n.p.PeakBytes = 50*mib, 4*mib, 54*mib
	return n
}

// restsFor is a control group that need not be read while nothing runs in it.
type restsFor struct{ *fakeCgroup }

func (restsFor) Rest() bool { return true }

// turn takes a tick in which something ran.
func (n *needRig) turn(exited ...sensor.Process) {
	n.cg.c.UsageNanos += second / 2
	n.job.c = n.cg.c
	n.p.UserNanos += second / 2
	n.complete(true)
	if n.p.PID != 0 {
		n.rig.tick(0, []sensor.Process{n.p}, exited...)
	} else {
		n.rig.tick(0, nil, exited...)
	}
}

// ends returns the exported values for the part and for the whole, in MiB: the least and the most that was needed, and the peak.
func (n *needRig) ends() (step, job [3]float64) {
	n.export()
	for i, name := range []string{"memory_needed_peak_bytes", "memory_needed_most_bytes", "memory_peak_bytes"} {
		step[i] = n.values["reckon_workload_"+name+"|slurm/1|slurm|0|bob"] / float64(mib)
		job[i] = n.values["reckon_workload_"+name+"|slurm/1|slurm||bob"] / float64(mib)
	}
	return step, job
}

// TestNeedHasTwoEnds: what came and went between two readings is between the ends, in the step and in the job.
func TestNeedHasTwoEnds(t *testing.T) {
	filled := sensor.CgroupFilled
	for name, c := range map[string]struct {
		have          sensor.CgroupFields
		act           func(n *needRig)
		low, most, at float64 // MiB, the last the peak
	}{
		"memory of its own, which no page counts": {0, func(n *needRig) {
			n.p.PeakBytes, n.cg.c.Peak = 1004*mib, 1004*mib // 950 MiB for a tenth of a second
		}, 1000, 1004, 1004},
		"pages that were read and dropped": {filled, func(n *needRig) { n.cg.c.Peak = 1004 * mib }, 50, 50.09765625, 1004},
		"a process that nobody saw alive": {filled, func(n *needRig) {
			n.cg.c.Peak, n.cg.c.Filled = 700*mib, 650*mib
			q := proc(11, 10, n.boot+1, second/10)
			q.Have = q.Have&^sensor.FieldMemory | sensor.FieldPeak
			q.PeakBytes = 600 * mib
			n.turn(q)
		}, 50, 651.171875, 700}, // how much of the 600 were files is not known
		"of several processes the largest": {filled, func(n *needRig) { n.cg.c.Filled, n.cg.c.Peak, n.p.PeakBytes = 5000*mib, 1000*mib, 304*mib }, 300, 304, 1000},
		"it rests for a while": {0, func(n *needRig) {
			n.turn()
			for range 4 {
				n.complete(true)
				n.rig.tick(0, []sensor.Process{n.p})
			}
			n.cg.c.Peak = 1004 * mib
		}, 50, 54, 1004},
		"files in memory that stay": {filled, func(n *needRig) {
			n.cg.c.Shmem, n.cg.c.Peak, n.cg.c.Current = 400*mib, 460*mib, 450*mib
		}, 450, 450, 460},
		"a source without high-water marks": {0, func(n *needRig) {
			n.p.Have &^= sensor.FieldPeak
			n.cg.c.Peak = 1004 * mib
		}, 50, 1004, 1004},
	} {
		n := newNeedRig(t, c.have)
		n.turn()
		c.act(n)
		n.turn()
		for i, got := range [...][3]float64{first(n.ends()), second_(n.ends())} {
			if got != [3]float64{c.low, c.most, c.at} {
				t.Errorf("%s, %s: needed %g to %g MiB of a peak of %g, want %g to %g of %g",
					name, [...]string{"step", "job"}[i], got[0], got[1], got[2], c.low, c.most, c.at)
			}
		}
		n.restart()
		n.turn()
		if _, job := n.ends(); job[0] != c.low || job[1] > c.at || job[1] < c.most {
			t.Errorf("%s, after a restart: %v", name, job)
		}
	}
}

func first[T any](a, _ T) T   { return a }
func second_[T any](_, b T) T { return b }

// TestLimitThatKilled: a group with a process killed by its own limit needed all of it, and no other does.
func TestLimitThatKilled(t *testing.T) {
	for name, c := range map[string]struct {
		have sensor.CgroupFields
		act  func(n *needRig, q *sensor.Process)
		low  float64
	}{
		"the limit": {0, func(*needRig, *sensor.Process) {}, 200},
		"the limit, the group gone at once": {0, func(n *needRig, _ *sensor.Process) {
			n.cg.c.Peak = 60 * mib
			n.cg.gone, n.job.gone = true, true
		}, 200},
		"the machine lacked memory, and files filled the group": {0, func(_ *needRig, q *sensor.Process) { q.PeakBytes = 40 * mib }, 50},
		"a group above, by version 2":                           {sensor.CgroupMemoryEvents, func(*needRig, *sensor.Process) {}, 50},
		"the limit, by version 2":                               {sensor.CgroupMemoryEvents, func(n *needRig, _ *sensor.Process) { n.cg.c.OOMEvents = 1 }, 200},
		"the group never came to it":                            {0, func(n *needRig, _ *sensor.Process) { n.cg.c.Peak = 120 * mib }, 50},
	} {
		n := newNeedRig(t, sensor.CgroupMemoryMax|sensor.CgroupEvents|c.have)
		n.cg.c.MemoryMax = 200 * mib
		n.turn()
		q := proc(11, 10, n.boot+1, second/10)
		q.Have = q.Have&^sensor.FieldMemory | sensor.FieldPeak
		q.PeakBytes, q.OOMKilled = 150*mib, true
		n.cg.c.Peak = 200 * mib
		c.act(n, &q)
		n.turn(q)
		step, job := n.ends()
		if step[0] != c.low || job[0] != c.low || step[0] > step[2] || job[0] > job[1] || job[1] > job[2] {
			t.Errorf("%s: the step needed %v MiB, the job %v, want %g at least", name, step, job, c.low)
		}
	}
}

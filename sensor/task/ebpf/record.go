package ebpf

import (
	"math/bits"
	"unsafe"

	"reckon/sensor"
)

// The kinds of records, enum kind in task.bpf.c.
const (
	kindPass = 1 + iota
	kindProcess
	kindThread
	kindExit
	kindPath
	kindClaim
	kindSame
	kindOpen
)

// Flags of a record, enum flag in task.bpf.c.
const (
	haveWait = 1 << iota
	haveIO
	haveGroup
	haveMemory
	haveMM
	kernelThread
	unstable
	childIO
	oomVictim
	incomplete // The totals are a lower bound, so the last pass gives the minimum; see row.follow.
	partial
	sharedSpace
)

const (
	passSize    = int(unsafe.Sizeof(tasksPass{}))
	processSize = int(unsafe.Sizeof(tasksProcess{}))
	threadSize  = int(unsafe.Sizeof(tasksThread{}))
	sameSize    = int(unsafe.Sizeof(tasksSame{}))
)

// taskUsage is the sum of threads.
type taskUsage struct {
	runtime, utime, stime, wait   uint64
	nvcsw, nivcsw, minflt, majflt uint64
	readBytes, writeBytes         uint64
	cancelled                     uint64
}

// taskTotal is the additional data that is kept about a process between passes.
type taskTotal struct {
	use       taskUsage
	wait      uint64 // of this pass; only of live threads if ended ones are not harvested
	flags     uint32
	seq       uint32
	harvested uint32
	ended     bool       // its exit record has come
	carry     *taskUsage // I/O of threads that ended before we began, see row.follow; nil for none
}

func (u *taskUsage) add(v *taskUsage) {
	u.runtime += v.runtime
	u.utime += v.utime
	u.stime += v.stime
	u.wait += v.wait
	u.nvcsw += v.nvcsw
	u.nivcsw += v.nivcsw
	u.minflt += v.minflt
	u.majflt += v.majflt
	u.readBytes += v.readBytes
	u.writeBytes += v.writeBytes
	u.cancelled += v.cancelled
}

// raiseTo raises every counter in u to its value in v, the previous reading, because the table may lack a thread that
// ended while the table was read.
func (u *taskUsage) raiseTo(v *taskUsage) {
	u.runtime = max(u.runtime, v.runtime)
	u.utime = max(u.utime, v.utime)
	u.stime = max(u.stime, v.stime)
	u.wait = max(u.wait, v.wait)
	u.nvcsw = max(u.nvcsw, v.nvcsw)
	u.nivcsw = max(u.nivcsw, v.nivcsw)
	u.minflt = max(u.minflt, v.minflt)
	u.majflt = max(u.majflt, v.majflt)
	u.readBytes = max(u.readBytes, v.readBytes)
	u.writeBytes = max(u.writeBytes, v.writeBytes)
	u.cancelled = max(u.cancelled, v.cancelled)
}

// processUsage copies the counters of a record with the layout of usage.
func processUsage(r *tasksProcess) taskUsage {
	return taskUsage{
		runtime: r.Use.Runtime, utime: r.Use.Utime, stime: r.Use.Stime, wait: r.Use.Wait,
		nvcsw: r.Use.Nvcsw, nivcsw: r.Use.Nivcsw, minflt: r.Use.Minflt, majflt: r.Use.Majflt,
		readBytes: r.Use.ReadBytes, writeBytes: r.Use.WriteBytes, cancelled: r.Use.Cancelled,
	}
}

func threadUsage(r *tasksThread) taskUsage {
	return taskUsage{
		runtime: r.Use.Runtime, utime: r.Use.Utime, stime: r.Use.Stime, wait: r.Use.Wait,
		nvcsw: r.Use.Nvcsw, nivcsw: r.Use.Nivcsw, minflt: r.Use.Minflt, majflt: r.Use.Majflt,
		readBytes: r.Use.ReadBytes, writeBytes: r.Use.WriteBytes, cancelled: r.Use.Cancelled,
	}
}

// setIdentity sets the fields that are no counters.
func setIdentity(p *sensor.Process, r *tasksProcess) {
	p.PID, p.PPID, p.PGID, p.SID = r.Pid, r.Ppid, r.Pgid, r.Sid
	p.UID, p.Start, p.Cgroup = r.Uid, r.Start, r.Cgroup
	p.Threads = r.Threads
	p.State = stateLetter(r.State)
	p.Kernel = r.Flags&kernelThread != 0
	for i, c := range r.Comm[:15] {
		p.Comm[i] = byte(c)
		if c == 0 {
			break
		}
	}
	p.Have = sensor.FieldSwitches | sensor.FieldFaults | sensor.FieldCPUSplit | sensor.FieldThreads
	if r.Flags&haveGroup != 0 {
		p.Have |= sensor.FieldGroup | sensor.FieldParent
	}
	if r.Flags&haveWait != 0 {
		p.Have |= sensor.FieldWait
	}
	if r.Flags&haveIO != 0 {
		p.Have |= sensor.FieldIO
	}
	if r.Flags&partial != 0 {
		p.Partial = sensor.FieldWait
		if r.Flags&childIO != 0 {
			p.Partial |= sensor.FieldIO
		}
	}
	if r.Cgroup != 0 {
		p.Have |= sensor.FieldCgroup
	}
}

// setCounters sets the total counters of p from u. If known is set, p holds the values of the previous pass, and its
// UserNanos and SystemNanos do not decrease.
func setCounters(p *sensor.Process, u *taskUsage, known bool) {
	p.WaitNanos = u.wait
	p.Voluntary, p.Involuntary = u.nvcsw, u.nivcsw
	p.MinorFaults, p.MajorFaults = u.minflt, u.majflt
	p.ReadBytes, p.WriteBytes, p.CancelledBytes = u.readBytes, u.writeBytes, u.cancelled
	wasUser, wasSystem := p.UserNanos, p.SystemNanos
	p.UserNanos, p.SystemNanos = splitCPU(u.runtime, u.utime, u.stime, p.Kernel)
	if !known {
		return
	}
	// As cputime_adjust in kernel/sched/cputime.c: neither part ever falls.
	p.SystemNanos = max(p.SystemNanos, min(wasSystem, u.runtime))
	p.UserNanos = u.runtime - p.SystemNanos
	if p.UserNanos < wasUser && wasUser <= u.runtime {
		p.UserNanos = wasUser
		p.SystemNanos = u.runtime - p.UserNanos
	}
}

// splitCPU divides the precise CPU time in the ratio of the sampled ones.
func splitCPU(runtime, utime, stime uint64, kernel bool) (user, system uint64) {
	switch {
	case kernel || utime == 0 && stime != 0:
		return 0, runtime
	case stime == 0:
		return runtime, 0
	}
	hi, lo := bits.Mul64(runtime, stime)
	sum := utime + stime
	if hi >= sum {
		return 0, runtime // only numbers that no clock counts to
	}
	system, _ = bits.Div64(hi, lo, sum)
	system = min(system, runtime)
	return runtime - system, system
}

// setMemory fills in resident memory.
func setMemory(p *sensor.Process, r *tasksProcess, page uint64) {
	if r.Flags&haveMM == 0 {
		p.Have |= sensor.FieldMemory | sensor.FieldSwap // none, and that is known
		return
	}
	if r.Flags&haveMemory == 0 {
		return
	}
	var b [4]uint64
	for i := range b {
		b[i] = uint64(max(r.Pages[i]+r.Delta[i], 0)) * page
	}
	p.File, p.Anon, p.Swap, p.Shmem = b[0], b[1], b[2], b[3]
	p.Huge, p.Space = uint64(max(r.Huge, 0))*page, r.Mm
	p.PeakBytes = max(r.Peak*page, p.File+p.Anon+p.Shmem)
	p.Have |= sensor.FieldMemory | sensor.FieldSwap | sensor.FieldPeak
}

// stateLetter returns the state letter of /proc/PID/stat (fs/proc/array.c, include/linux/sched.h). The lower half of state
// holds the task state, and the upper half the exit state.
func stateLetter(state uint32) byte {
	const (
		interruptible   = 0x1
		uninterruptible = 0x2
		stopped         = 0x4
		traced          = 0x8
		dead            = 0x10
		zombie          = 0x20
		parked          = 0x40
		noLoad          = 0x400
		lockWait        = 0x1000
		frozen          = 0x8000
	)
	exit := state >> 16
	switch {
	case exit&dead != 0:
		return 'X'
	case exit&zombie != 0:
		return 'Z'
	case state&(uninterruptible|noLoad) == uninterruptible|noLoad:
		return 'I'
	case state&(uninterruptible|lockWait|frozen) != 0:
		return 'D'
	case state&interruptible != 0:
		return 'S'
	case state&stopped != 0:
		return 'T'
	case state&traced != 0:
		return 't'
	case state&parked != 0:
		return 'P'
	}
	return 'R'
}

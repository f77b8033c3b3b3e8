package run

import (
	"math"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// reapedUsage sums the results of wait4. Each rusage covers a process and the descendants that it reaped, so the sum
// covers every ended process.
type reapedUsage struct {
	user, system           uint64 // ns
	maxRSS                 uint64 // bytes
	minor, major           uint64
	voluntary, involuntary uint64
	read, write            uint64 // bytes of storage I/O
	calls                  IO     // bytes of read and write calls
	callsMissing           bool
}

func (r *reapedUsage) add(u *unix.Rusage) {
	r.user += uint64(u.Utime.Nano())
	r.system += uint64(u.Stime.Nano())
	r.maxRSS = max(r.maxRSS, uint64(u.Maxrss)<<10)
	r.minor += uint64(u.Minflt)
	r.major += uint64(u.Majflt)
	r.voluntary += uint64(u.Nvcsw)
	r.involuntary += uint64(u.Nivcsw)
	r.read += uint64(u.Inblock) * 512
	r.write += uint64(u.Oublock) * 512
}

// treeTotals are counters of the whole tree since the start.
type treeTotals struct {
	cpu, user, system uint64 // ns; user and system have the kernel's own share of cpu
	read, write       uint64 // bytes
	calls             IO
}

// meter measures the process tree of the command. Only the goroutine that reaps processes uses it, so that no process
// counts both as alive and as ended.
type meter struct {
	begin time.Time
	main  int // pid of the command
	group *privateGroup
	perf  *perfWatch
	exits *exitFeed
	gpus  *gpuMeter

	tree   *tree
	reaped reapedUsage
	last   treeTotals

	// Memory: the integral over time, the peak, and the group's charge beyond it.
	area, areaTime  float64 // byte-seconds, seconds
	lastAt, lastMem float64
	sampled, beyond uint64 // bytes
	peakProcs       int
	peakThreads     int
	cost, costStudy time.Duration // of the last look and study
	studied, shared float64       // when last done
	level           treeLevel
	profile         profile
	memoryByGroup   bool
	samples         int
	looks           int
	sharedProcs     int    // processes when shared pages were last measured
	restless        bool   // the last two looks saw different trees
	largest, floor  uint64 // bytes: of one process; below floor ru_maxrss shows nothing
}

// sharedMemory is the shared memory of the machine, bytes.
type sharedMemory struct {
	meminfo string // empty: it is not read
	before  uint64 // at the start, or less
	mapped  uint64 // maximum of shared memory and files that the tree mapped
	grew    bool   // more than the tree mapped, so that its memory is a lower bound
}

// threadClock returns the CPU time of the calling thread.
func threadClock() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts)
	return time.Duration(ts.Nano())
}

func (m *meter) secondsSinceStart() float64 { return time.Since(m.begin).Seconds() }

// sampleMemory takes the frequent, cheap sample: the living processes and their memory.
func (m *meter) sampleMemory() {
	runtime.LockOSThread() // the thread clock measures the cost
	defer runtime.UnlockOSThread()
	began := threadClock()
	at := m.secondsSinceStart()
	m.readEvents(at)
	held := m.machineShared()
	l := m.tree.findLive(at)
	m.gpus.readGPUs(m.tree, at, false)
	m.tree.foldReady(m.canFold(at))
	m.looks++
	largest := m.tree.largest()
	if l.resident == 0 && (l.procs > 0 || m.samples == 0) {
		m.cost = threadClock() - began
		return // forked, and not yet a program: or ended, and not yet reaped
	}
	m.largest = max(m.largest, largest)
	if g, ok := m.group.readMemory(); ok {
		m.memoryByGroup = true
		// Shared memory and files of tmpfs that no process maps (memfd_create(2)) can not be given back either.
		held := max(min(max(g.anon+g.shared, largest), l.resident), min(g.anon, l.resident)+g.shmem)
		l.anon, l.shared = min(g.anon, held), held-min(g.anon, held)
		l.resident = held
		if g.current > held {
			m.beyond = max(m.beyond, g.current-held)
		}
	} else {
		m.correctShared(at, &l, largest)
		// before and after
		m.tree.machine.grew = m.tree.machine.grew || m.mayHoldUnmapped(&l, held) && m.mayHoldUnmapped(&l, m.machineShared())
	}
	m.recordLevel(at, l)
	m.cost = threadClock() - began
}

// correctShared corrects the memory in l for pages that several processes share, such as forked workers and their parent.
// at is the time of the reading in seconds, and largest the size of the largest process. It measures the shared pages again
// after a second or when the number of processes changed, and less often if the measurement is slow.
func (m *meter) correctShared(at float64, l *treeLevel, largest uint64) {
	pause := max(1, 200*m.profile.shareCost)
	if l.procs != m.sharedProcs {
		pause = 50 * m.profile.shareCost
	}
	if l.procs > 1 && l.resident > largest+largest/16 && at-m.shared >= pause {
		began := threadClock()
		m.tree.measureSharing()
		m.shared, m.sharedProcs, m.profile.shareCost = at, l.procs, (threadClock() - began).Seconds()
	}
	if l.procs > 1 {
		l.scaleMemory(m.tree.share)
	}
	l.resident = max(l.resident, largest)
	l.bound = m.tree.alike && m.tree.share > maxSharedRatio
}

// mayHoldUnmapped reports whether the machine's shared memory grew by more than the tree maps. held is that memory in
// bytes. Unmapped files of tmpfs and memfd_create(2) are in no process reading and may belong to the tree.
func (m *meter) mayHoldUnmapped(l *treeLevel, held uint64) bool {
	m.tree.machine.mapped = max(m.tree.machine.mapped, l.shared) // an ending process unmaps its memory
	return held-min(held, m.tree.machine.before) > m.tree.machine.mapped+max(l.resident/20, 1<<20)
}

// machineShared returns the shared memory in use on the machine, or 0 if a control group reports the tree's.
func (m *meter) machineShared() uint64 {
	if m.tree.machine.meminfo == "" || m.memoryByGroup || m.tree.machine.grew {
		return 0
	}
	held := readKilobytes(m.tree.machine.meminfo, "Shmem:")
	m.tree.machine.before = min(m.tree.machine.before, held)
	return held
}

// maxSharedRatio is the proportion above which processes that look alike share no pages. Forked processes share more.
const maxSharedRatio = 0.9

// finish reads the tree for the last time. It counts the memory of the last reading up to end, in seconds since the
// start. It also reads the page cache in the group's memory, so that the peak can exclude it.
func (m *meter) finish(end float64) {
	at := m.secondsSinceStart()
	m.readEvents(at)
	m.tree.findLive(at)
	m.gpus.readGPUs(m.tree, at, true)
	if m.samples > 0 && end > m.lastAt {
		m.area += (end - m.lastAt) * m.lastMem
		m.areaTime += end - m.lastAt
		m.profile.addMemory(end, m.lastMem)
	}
	if g, ok := m.group.readMemory(); ok {
		held := g.anon + g.shared
		m.beyond = max(m.beyond, g.current-min(g.current, held))
	}
}

// readEvents records the events of the kernel up to now.
func (m *meter) readEvents(at float64) {
	if m.perf != nil {
		m.perf.applyRecords(m.tree, at)
	}
}

// canFold returns a function that reports whether a dead process can be merged into the totals. Its last perf records
// must have been read, and it must have been reaped if that is our task. The function waits longer if a more detailed
// exit record may still arrive.
func (m *meter) canFold(at float64) func(*treeProcess) bool {
	return func(p *treeProcess) bool {
		switch {
		case !m.tree.byEvents && (p.mark == m.tree.turn || !p.reaped && m.tree.isUnreapedZombie(p)):
			return false // still a zombie: forgotten, it would be found again
		case at > p.died+exitDelay:
			return true
		case m.exits != nil && p.exit == nil, p.reads < 0, p.isOurs() && !p.reaped:
			return false
		}
		return at > p.died
	}
}

func (m *meter) recordLevel(at float64, l treeLevel) {
	if m.samples > 0 {
		// Between two samples the memory is taken to change evenly.
		m.area += (at - m.lastAt) * (m.lastMem + float64(l.resident)) / 2
		m.areaTime += at - m.lastAt
	}
	m.samples++
	m.restless = l.procs != m.level.procs || math.Abs(float64(l.resident)-m.lastMem) > 0.02*m.lastMem+1<<20
	m.lastAt, m.lastMem, m.level = at, float64(l.resident), l
	if l.resident > m.sampled {
		m.sampled, m.tree.bound = l.resident, l.bound
	}
	m.peakProcs = max(m.peakProcs, l.procs)
	m.peakThreads = max(m.peakThreads, l.threads)
	m.profile.addMemory(at, float64(l.resident))
}

// sampleExpensive takes the rare, expensive sample: I/O, waiting, the split of CPU time, and exit records.
func (m *meter) sampleExpensive() {
	runtime.LockOSThread() // the thread clock measures the cost
	defer runtime.UnlockOSThread()
	began := threadClock()
	at := m.secondsSinceStart()
	m.readEvents(at)
	m.tree.readDetails()
	if m.exits != nil {
		m.exits.readRecords(m.tree, at)
	}
	m.updateTotals()
	m.studied = at
	m.costStudy = threadClock() - began
}

// updateTotals updates the totals. A process that ended between two readings is missing until it is reaped, so sum keeps the
// previous total if the new one is lower.
func (m *meter) updateTotals() {
	t := treeTotals{user: m.reaped.user, system: m.reaped.system, read: m.reaped.read, write: m.reaped.write, calls: m.reaped.calls}
	live := uint64(0)
	for _, p := range m.tree.order {
		if p.pid == 0 || p.dead {
			continue
		}
		t.user += p.stat.User + p.stat.ChildUser
		t.system += p.stat.System + p.stat.ChildSystem
		live += max(p.clock, p.stat.User+p.stat.System) + p.stat.ChildUser + p.stat.ChildSystem
		t.read += p.io.Read
		t.write += p.io.Write
		t.calls.Read += p.io.ReadCalls
		t.calls.Write += p.io.WriteCalls
	}
	t.cpu = m.reaped.user + m.reaped.system + live + m.tree.unwaited
	if total, _, _, ok := m.group.readCPU(); ok && isComplete(total, m.reaped.user+m.reaped.system) {
		t.cpu = total
	}
	m.last.cpu = max(m.last.cpu, t.cpu)
	m.last.user = max(m.last.user, t.user)
	m.last.system = max(m.last.system, t.system)
	m.last.read = max(m.last.read, t.read)
	m.last.write = max(m.last.write, t.write)
	m.last.calls.Read = max(m.last.calls.Read, t.calls.Read)
	m.last.calls.Write = max(m.last.calls.Write, t.calls.Write)
}

// isComplete reports whether the private control group counted all CPU time. group is its counter, and waited the CPU
// time that wait4 returned. If processes moved out of the group, waited is larger.
func isComplete(group, waited uint64) bool { return group >= waited-waited/50 }

// closeWindow ends a window of the profile and returns it.
func (m *meter) closeWindow(at float64) Row {
	return m.profile.closeWindow(at, m.last, m.tree.observed.wait, m.level)
}

// reap reaps the ended child pid. First, it reads from /proc what rusage lacks: the name and the waiting time of the
// first thread.
func (m *meter) reap(pid int) (unix.WaitStatus, error) {
	at := m.secondsSinceStart()
	m.readEvents(at)
	t := m.tree
	if t.foreign[int32(pid)] {
		if m.exits != nil {
			m.exits.readRecords(t, at) // its record has arrived, and must not be attributed to the tree
		}
		var status unix.WaitStatus
		_, err := unix.Wait4(pid, &status, unix.WNOHANG, nil)
		delete(t.foreign, int32(pid))
		return status, err
	}
	p := t.procs[int32(pid)]
	switch {
	case p == nil && t.byEvents: // folded already: its events came before us
		p = &treeProcess{pid: int32(pid), statm: -1}
	case p == nil:
		p = t.addProcess(int32(pid), t.self)
	}
	p.ppid = t.self
	if t.readStat(p) {
		p.threads = 1
		p.split = true
		if t.readProcessDetails(p) {
			m.reaped.calls.Read += p.io.ReadCalls
			m.reaped.calls.Write += p.io.WriteCalls
		} else {
			m.reaped.callsMissing = true // zombies show it to root only, on newer kernels
		}
	}
	var status unix.WaitStatus
	var usage unix.Rusage
	for {
		_, err := unix.Wait4(pid, &status, unix.WNOHANG, &usage)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, err
		}
		break
	}
	m.reaped.add(&usage)
	p.reaped = true
	p.io.Read, p.io.Write, p.haveIO = uint64(usage.Inblock)*512, uint64(usage.Oublock)*512, true
	// The peak is its own if it had no children. An orphan's peak includes the memory of its parent at the fork.
	if pid == m.main && !p.parent && t.byEvents && uint64(usage.Maxrss)<<10 > m.floor {
		p.peak = max(p.peak, uint64(usage.Maxrss)<<10)
	}
	t.markDead(p, at)
	return status, nil
}

// nextPause returns the time until the next reading, so that measuring takes about 1 % of a core. The first readings follow
// each other quickly, for short commands. Then there are 50 readings a second, and later 10 unless the tree changes.
func (m *meter) nextPause(at float64) time.Duration {
	if m.looks < 6 {
		return 500 * time.Microsecond << m.looks
	}
	calm := time.Duration(at * float64(time.Second) / 100)
	if m.restless {
		calm = 0
	}
	return min(max(100*m.cost, calm, 20*time.Millisecond), max(100*m.cost, 100*time.Millisecond), time.Second)
}

// largest returns the resident size of the largest process in bytes. It is a lower bound for any estimate of the tree's
// memory.
func (t *tree) largest() uint64 {
	var l uint64
	for _, p := range t.order {
		if p.pid != 0 && !p.dead && p.looks > 0 {
			l = max(l, p.rss)
		}
	}
	return l
}

package run

import (
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"reckon/sensor"
	"reckon/sensor/task/procfs"
)

// treeProcess is a process of the tree. It is alive, or dead and not yet added to its command.
type treeProcess struct {
	pid, ppid int32
	comm      sensor.Comm
	dead      bool
	died      float64 // when it was found dead, seconds since the start
	missed    int     // looks in a row at which it was not in /proc
	looks     int     // how often it was looked at: the name is read again after the exec
	seen      int     // the same, since its last exec
	loaded    bool    // since then it was seen with its program loaded

	threads  int    // alive, as last known
	alive    int    // threads by fork and exit events
	clock    uint64 // own CPU time when last read, ns
	credited uint64 // part of it credited to the name before an exec, ns
	events   uint64 // CPU time of ended threads by perf events, ns
	reads    int    // records of CPU time come less those due: 0 when all are in
	stat     procfs.Times
	split    bool // stat.User and stat.System are the final ones

	rss, shared, peak uint64         // bytes
	space             int32          // process that it shares its address space with, 0 for its own
	counted           bool           // its memory is another process's
	io                procfs.Traffic // waited-for children included
	haveIO, parent    bool           // parent: it had children, so io is not its own alone
	statm             int            // kept descriptor of /proc/PID/statm, -1 if none
	waits             map[int32]threadSchedstat
	mark              uint64
	waited            uint64          // CPU time of the ended children it waited for, and of theirs, ns
	heir              *treeProcess    // process of the tree that reaped it
	lost              bool            // not reaped: its parent ignores SIGCHLD
	reaped            bool            // by us
	ignores           bool            // it ignores SIGCHLD itself
	asked             uint64          // when that was last looked up, by the count of studies
	exit              *sensor.Process // its exit record
}

// threadSchedstat is the schedstat of a thread: nanoseconds running and waiting.
type threadSchedstat struct{ run, wait uint64 }

// cpu returns the best known CPU time of the process itself in ns.
func (p *treeProcess) cpu() uint64 {
	c := max(p.clock, p.stat.User+p.stat.System)
	if p.dead {
		c = max(c, p.events)
	}
	if p.exit != nil {
		c = max(c, p.exit.UserNanos+p.exit.SystemNanos)
	}
	return c
}

// maxOpenFiles is the maximum number of files that stay open.
const maxOpenFiles = 256

// tree is the table of the command's descendants. It is not safe for concurrent use.
type tree struct {
	self    int32
	foreign map[int32]bool // children we had before the command began
	files   *procfs.Files
	start   time.Time // of the command; zero in tests of recorded trees
	cpus    float64

	procs map[int32]*treeProcess
	order []*treeProcess // parents stand before their children
	turn  uint64

	commands     map[string]*commandTally
	unseen       map[string]uint64 // ns of unseen children, by the name of the process that reaped them
	started      uint64            // processes known to have been started
	foldedCPU    uint64            // of those, ns
	unwaited     uint64            // part that was never reaped, ns
	studies      uint64
	largestEnded uint64 // peak of the largest process by exit records, bytes
	glimpsed     bool   // a process ended before its memory was read some times, and no exit record has its peak
	byEvents     bool   // fork and exit events keep the table: nothing need be searched
	kept         int

	observed threadSchedstat        // all threads ever looked at
	share    float64                // proportional over resident memory: shared pages counted once
	spaces   map[int32]*treeProcess // process that has the memory of a shared address space in this reading
	alike    bool                   // processes may have one address space, and nothing shows it
	loaded   bool                   // a loaded process was read that is not in execve
	machine  sharedMemory           // part of it may be unmapped memory of the tree
	bound    bool                   // so that the highest memory is an upper bound
	same     func(a, b int32) (same, refused bool)

	ids  []int32
	list []int32
}

func newTree(self int, procRoot string) *tree {
	return &tree{cpus: float64(runtime.NumCPU()), self: int32(self), files: procfs.NewFiles(procRoot),
		procs: map[int32]*treeProcess{}, commands: map[string]*commandTally{}, unseen: map[string]uint64{}, share: 1,
		spaces: map[int32]*treeProcess{}, same: procfs.SameSpace}
}

// addProcess adds a process to the tree, as a child of ppid.
func (t *tree) addProcess(pid, ppid int32) *treeProcess {
	if old := t.procs[pid]; old != nil {
		t.foldDead(old) // the number is used again
	}
	p := &treeProcess{pid: pid, ppid: ppid, statm: -1, alive: 1, threads: 1, mark: t.turn}
	if up := t.procs[ppid]; up != nil {
		up.parent = true
		if !t.byEvents { // both may be gone at the next look
			t.checkSigchld(up)
		}
		p.comm = up.comm // until it executes its own program
	}
	t.procs[pid] = p
	t.order = append(t.order, p)
	t.started++
	return p
}

// isOurs reports whether this process has to reap a dead process.
func (p *treeProcess) isOurs() bool { return p.heir == nil && !p.lost }

// hasExiting reports whether a process has ended that this process will reap in a moment.
func (t *tree) hasExiting() bool {
	for _, p := range t.order {
		if p.pid == 0 || p.reaped {
			continue
		}
		if p.dead && p.isOurs() && (t.byEvents || p.exit != nil) || !p.dead && p.stat.State == 'Z' && p.stat.PPID == t.self {
			return true
		}
	}
	return false
}

// creditOldName credits the CPU time of a process to its old name when it executes another program without a fork.
func (t *tree) creditOldName(p *treeProcess) {
	if t.readClock(p); p.clock > p.credited+minSplitCPU {
		t.tallyOf(p.comm).cpu += p.clock - p.credited
		p.credited = p.clock
	}
}

// minSplitCPU is the CPU time in nanoseconds that a process must have used before an exec to be listed under its old name.
// Less than that is the cost of the fork.
const minSplitCPU = 2_000_000

// markDead marks a process as dead. foldDead follows when its last figures are known.
func (t *tree) markDead(p *treeProcess, now float64) {
	if !p.dead {
		t.findReaper(p)
		p.dead, p.died, p.rss, p.shared = true, now, 0, 0
		t.closeFile(p)
	}
}

// foldDead adds a process to its command and forgets it.
func (t *tree) foldDead(p *treeProcess) {
	children := max(p.waited, p.stat.ChildUser+p.stat.ChildSystem)
	if unseen := children - p.waited; unseen > 2*userTick {
		t.unseen[p.comm.String()] += unseen
	}
	if all := p.cpu() + children; p.lost {
		t.unwaited += all
	} else if p.heir != nil {
		p.heir.waited += all
	}
	t.tallyOf(p.comm).addProcess(p)
	t.glimpsed = t.glimpsed || (p.seen < minReadings || !p.loaded) && (p.exit == nil || p.exit.Have&sensor.FieldPeak == 0)
	t.foldedCPU += p.cpu()
	if p.exit != nil && p.exit.Have&sensor.FieldWait != 0 {
		t.setExactWait(p)
	}
	t.forget(p)
}

func (t *tree) forget(p *treeProcess) {
	t.closeFile(p)
	if t.procs[p.pid] == p {
		delete(t.procs, p.pid)
	}
	p.pid = 0 // removed from order at the next sweep
}

func (t *tree) closeFile(p *treeProcess) {
	if p.statm >= 0 {
		_ = unix.Close(p.statm)
		p.statm = -1
		t.kept--
	}
}

// foldReady folds processes that have been dead long enough and compacts the order.
func (t *tree) foldReady(ready func(*treeProcess) bool) {
	for _, p := range slices.Backward(t.order) { // children before their parents
		if p.pid != 0 && p.dead && ready(p) {
			t.foldDead(p)
		}
	}
	out := t.order[:0]
	for _, p := range t.order {
		if p.pid != 0 {
			out = append(out, p)
		}
	}
	clear(t.order[len(out):])
	t.order = out
}

// treeLevel sums the memory and the number of living processes at one moment.
type treeLevel struct {
	resident, anon, shared uint64 // bytes
	procs, threads         int
	bound                  bool // the memory is an upper bound: processes may have one address space
}

// scaleMemory scales the memory, so that shared pages count once.
func (l *treeLevel) scaleMemory(share float64) {
	l.resident = uint64(float64(l.resident) * share)
	l.shared = min(uint64(float64(l.shared)*share), l.resident)
	l.anon = l.resident - l.shared
}

// minReadings is the number of readings below which the memory of a process is not known, because it may still have been loading.
const minReadings = 3

// maxMissedReadings is the number of readings without a process after which it counts as ended without an exit event.
const maxMissedReadings = 3

// findLive finds the live descendants and reads their resident memory, and the names of new ones.
func (t *tree) findLive(now float64) treeLevel {
	if !t.byEvents {
		t.searchChildren(now)
	}
	var l treeLevel
	clear(t.spaces)
	t.alike = false
	for _, p := range t.order {
		if p.pid == 0 || p.dead {
			continue
		}
		resident, shared, ok := t.readStatm(p)
		if !ok {
			// With events, a process is buried when its exit is reported. One that stays missing
			// from /proc has ended as well; its record was lost.
			if p.missed++; !t.byEvents || p.missed > maxMissedReadings {
				t.markDead(p, now)
			}
			continue
		}
		p.missed = 0
		t.readClock(p)
		if p.looks < 2 || !p.loaded {
			t.readStat(p)
		}
		l.procs++
		l.threads += max(p.threads, 1)
		p.rss, p.shared = resident, shared
		p.seen++
		if p.looks++; p.looks <= 2 && t.showsParentMemory(p) {
			p.rss, p.shared = 0, 0
			continue
		}
		p.loaded = p.loaded || p.stat.State == 'S' || p.clock-p.credited >= maxLoadTime
		t.loaded = t.loaded || p.loaded
		p.peak = max(p.peak, resident)
		if p.counted = t.sharesSpace(p); p.counted {
			continue
		}
		l.resident += resident
		l.shared += shared
	}
	l.anon = l.resident - l.shared
	return l
}

// sharesSpace reports whether a process shares the address space of a process already counted in this reading. It
// compares the process with its parent or, if the parent ended, with the first of its siblings. Processes that clone(2)
// created with CLONE_VM share the address space until they run a program.
func (t *tree) sharesSpace(p *treeProcess) bool {
	if up := t.procs[p.ppid]; p.space == 0 && up != nil && !up.dead {
		alike := p.rss > 4<<20 && p.rss-p.rss/64 <= up.rss && up.rss-up.rss/64 <= p.rss
		if p.looks > 3 && !alike {
			return false
		}
		same, refused := t.same(p.pid, up.pid)
		t.alike = t.alike || refused && alike
		if !same {
			return false
		}
		if up.space == 0 {
			up.space, t.spaces[up.pid] = up.pid, up
		}
		p.space = up.space
	}
	if p.space == 0 {
		return false
	}
	first := t.spaces[p.space]
	if first == nil {
		t.spaces[p.space] = p
		return false
	}
	if same, _ := t.same(p.pid, first.pid); !same {
		p.space = 0
		return false
	}
	return true
}

// showsParentMemory reports whether a new process still shows the memory of its parent, between fork or vfork and exec.
func (t *tree) showsParentMemory(p *treeProcess) bool {
	up := t.procs[p.ppid]
	return up != nil && p.comm == up.comm && p.rss > 4<<20 && p.rss > up.rss/2
}

func (t *tree) readStatm(p *treeProcess) (resident, shared uint64, ok bool) {
	if p.statm < 0 && t.kept < maxOpenFiles {
		if fd, err := t.files.OpenMemory(p.pid); err == nil {
			p.statm = fd
			t.kept++
		}
	}
	var err error
	if p.statm >= 0 {
		resident, shared, err = t.files.MemoryOf(p.statm)
	} else {
		resident, shared, err = t.files.Memory(p.pid)
	}
	return resident, shared, err == nil
}

func (t *tree) readStat(p *treeProcess) bool {
	s, err := t.files.Times(p.pid)
	if err != nil || (p.stat.Start != 0 && s.Start != p.stat.Start) {
		return false
	}
	if !t.isPlausible(s.User + s.System) {
		s.User, s.System = p.stat.User, p.stat.System
	}
	p.stat, p.comm, p.threads = s, s.Comm, s.Threads
	if t.procs[s.PPID] != nil || s.PPID == t.self {
		p.ppid = s.PPID
	}
	return true
}

// readDetails reads all figures of every living process: times, I/O, and the CPU wait of threads.
func (t *tree) readDetails() {
	t.studies++
	for _, p := range t.order {
		if p.pid != 0 && !p.dead && t.readStat(p) {
			t.readProcessDetails(p)
		}
	}
}

// readProcessDetails reads the figures that even a zombie shows.
func (t *tree) readProcessDetails(p *treeProcess) (ioRead bool) {
	t.readClock(p)
	if f, err := t.files.Traffic(p.pid); err == nil {
		p.io, p.haveIO, ioRead = f, true, true
	}
	if p.threads <= 1 {
		t.readWait(p, p.pid)
		return ioRead
	}
	for _, tid := range t.listThreads(p.pid) {
		t.readWait(p, tid)
	}
	return ioRead
}

// readClock updates the CPU time of a live process. It ignores a value above the capacity of all processors since the
// start, because the clock of a process under creation can return the machine's uptime.
func (t *tree) readClock(p *treeProcess) {
	if c, ok := procfs.CPUClock(p.pid); ok && t.isPlausible(c) {
		p.clock = max(p.clock, c)
	}
}

func (t *tree) isPlausible(ns uint64) bool {
	return t.start.IsZero() || float64(ns) <= (time.Since(t.start).Seconds()+1)*t.cpus*1e9
}

func (t *tree) readWait(p *treeProcess, tid int32) {
	run, wait, err := t.files.SchedTimes(p.pid, tid)
	if err != nil {
		return
	}
	old := p.waits[tid]
	if run < old.run || wait < old.wait {
		old = threadSchedstat{} // the number is used again
	}
	if p.waits == nil {
		p.waits = map[int32]threadSchedstat{}
	}
	p.waits[tid] = threadSchedstat{run, wait}
	t.observed.run += run - old.run
	t.observed.wait += wait - old.wait
}

// listThreads returns the thread ids of a process. The slice is valid until the next call.
func (t *tree) listThreads(pid int32) []int32 {
	t.ids = t.files.Threads(pid, t.ids[:0])
	return t.ids
}

// measureSharing measures how much resident memory the processes of the tree share, by the proportional set size in
// smaps_rollup. With it, pages of forked workers count once.
func (t *tree) measureSharing() {
	var pss, rss uint64
	n := 0
	for _, p := range t.order {
		if p.pid == 0 || p.dead || p.rss == 0 || p.counted {
			continue
		}
		n++
		if m, err := t.files.SharedMemory(p.pid); err == nil {
			pss, rss = pss+m.Proportional, rss+m.Resident
		}
	}
	t.share = 1
	if n > 1 && rss > 0 && pss < rss {
		t.share = float64(pss) / float64(rss)
	}
}

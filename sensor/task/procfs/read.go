package procfs

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// Read fills p with the existing processes. It omits a process that ends during the reading. A process that cannot be
// read is omitted or keeps its last figures, and [Source.Notes] names it. Such a process does not affect the others.
func (s *Source) Read(p *sensor.Pass) error {
	p.Boot = bootTime()
	s.passes++
	s.firstErr = nil
	if s.mayHaveNew() {
		var err error
		if s.pids, err = s.list.read(s.pids[:0]); err != nil {
			return fmt.Errorf("list %s: %w", s.name, err)
		}
		s.mergeList(s.pids)
	}
	s.markOrphans()
	kept, first := s.entries[:0], len(p.Live)
	for _, e := range s.entries {
		if !s.updateProcess(e, p.Boot) {
			s.releaseEntry(e)
			continue
		}
		kept = append(kept, e)
		if e.known {
			p.Live = append(p.Live, e.p)
		}
	}
	if s.clock {
		s.shareSpaces(p.Live[first:])
	}
	clear(s.entries[len(kept):])
	s.entries = kept
	if s.passes%keptPasses == 0 {
		s.forgetCgroups()
	}
	if len(p.Live) == 0 {
		return fmt.Errorf("no process can be read: %w", cmp.Or(s.firstErr, errors.New(s.name+" is empty")))
	}
	return nil
}

// mayHaveNew reports whether there may be processes that are not in the table.
func (s *Source) mayHaveNew() bool {
	if s.loadavg < 0 {
		return true
	}
	b, err := s.readAll(s.loadavg)
	if err != nil {
		return true
	}
	last, ok := parseLastPID(b)
	same := ok && last == s.lastPID
	s.lastPID = last
	return !same || s.passes%8 == 1
}

// updateProcess reads the changed data of a process. It returns false if the process is gone.
func (s *Source) updateProcess(e *processEntry, boot uint64) bool {
	clock, asked := uint64(0), false
	if s.clock {
		clock, asked = cpuClock(e.p.PID)
		if asked && clock == e.clock && e.isUnchanged(boot) {
			if e.idle++; e.idle == idlePasses {
				s.closeFiles(e)
			}
			return true
		}
	}
	ran := !asked || !e.known || clock != e.clock
	text, err := s.readFile(e, statFile, e.known && ran)
	if err != nil {
		return s.handleStatError(e, err)
	}
	if !asked {
		finger := maphash.Bytes(s.seed, text)
		if finger == e.finger && e.isUnchanged(boot) {
			if e.idle++; e.idle == idlePasses {
				s.closeAllBut(e, statFile)
			}
			return true
		}
		ran = finger != e.finger
		e.finger = finger
	}
	st := &s.stat
	if err := parseStat(text, st); err != nil || st.pid != e.p.PID {
		return s.handleStatError(e, errMalformed)
	}
	start := st.start * (1e9 / s.hertz)
	fresh := !e.known || start != e.p.Start
	if fresh {
		s.beginEntry(e, start)
	}
	due := fresh || boot >= e.due
	s.setFromStat(e, st, clock, asked)
	if ran {
		e.idle = 0
	}
	e.orphan = false
	gone := false
	if due || e.mayHaveMemoryChanged(st) || ran && (e.since >= 8 || st.isLeaderEnded()) {
		gone = s.setFromStatus(e, st, ran && !fresh)
	}
	if !st.kernel && !gone {
		s.readRest(e, st, ran, due, fresh)
	}
	if st.kernel && (ran || fresh) {
		s.setWait(e, !fresh)
	}
	if due {
		e.due = nextRefresh(boot, e.p.PID, start)
	}
	e.known = true
	return !gone
}

// isUnchanged reports whether a process that has not run needs no reading.
func (e *processEntry) isUnchanged(boot uint64) bool { return e.known && boot < e.due && !e.orphan }

// beginEntry reuses the entry for another process, which is new or has the same id.
func (s *Source) beginEntry(e *processEntry, start uint64) {
	if e.known {
		s.gone = append(s.gone, e.p.PID)
	}
	finger := e.finger
	s.closeFiles(e)
	s.resetEntry(e, e.p.PID)
	e.p.Start, e.finger = start, finger
	s.young = append(s.young, spaceSharer{pid: e.p.PID, start: start})
}

// readRest reads the data that is neither in stat nor in status.
func (s *Source) readRest(e *processEntry, st *stat, ran, due, fresh bool) {
	if ran || fresh {
		e.since++
		s.sumThreads(e, st, !fresh)
		s.setIO(e, st, !fresh, due)
	}
	if !due || st.exiting && e.p.Have&sensor.FieldCgroup != 0 {
		return // version 1 shows the root groups of a process that is exiting, however long it takes
	}
	if text, err := s.readOnce(e.p.PID, "cgroup"); err == nil && len(text) > 0 {
		e.p.Cgroup = s.cgroupSetNumber(text)
		e.p.Have |= sensor.FieldCgroup
	}
}

// handleStatError handles an error of reading stat. It returns false if the process is gone.
func (s *Source) handleStatError(e *processEntry, err error) bool {
	switch err {
	case unix.ENOENT, unix.ESRCH:
		return false
	case unix.EACCES, unix.EPERM:
		e.known = false
		return true
	}
	if s.firstErr == nil {
		s.firstErr = fmt.Errorf("read %s/%d/stat: %w", s.name, e.p.PID, err)
	}
	return true // its last figures stand
}

// setFromStat sets the content of stat.
func (s *Source) setFromStat(e *processEntry, st *stat, clock uint64, asked bool) {
	p := &e.p
	p.PPID, p.PGID, p.SID = st.ppid, st.pgid, st.sid
	p.State, p.Comm, p.Kernel, p.Threads = st.state, st.comm, st.kernel, st.threads
	p.MinorFaults, p.MajorFaults = st.minflt, st.majflt
	p.Have |= sensor.FieldFaults | sensor.FieldGroup | sensor.FieldThreads | sensor.FieldParent |
		sensor.FieldCPUSplit
	tick := 1e9 / s.hertz
	p.ChildUserNanos, p.ChildSystemNanos = max(p.ChildUserNanos, st.cutime*tick), max(p.ChildSystemNanos, st.cstime*tick)
	p.Have |= sensor.FieldChildren
	user, system := st.utime*tick, st.stime*tick
	if !asked {
		p.UserNanos, p.SystemNanos = max(p.UserNanos, user), max(p.SystemNanos, system)
		return
	}
	if !e.known {
		p.UserNanos, p.SystemNanos = splitClock(clock, user, system)
	} else if clock > e.clock {
		grown := clock - e.clock
		sys := min(grown, max(system, p.SystemNanos)-p.SystemNanos)
		p.SystemNanos += sys
		p.UserNanos += grown - sys
	}
	e.clock = max(e.clock, clock)
}

// splitClock divides the CPU clock of a new process in proportion to its user and system ticks in stat.
func splitClock(clock, user, system uint64) (u, sys uint64) {
	if user+system == 0 {
		return clock, 0
	}
	sys = min(clock, uint64(float64(clock)*(float64(system)/float64(user+system))))
	return clock - sys, sys
}

// mayHaveMemoryChanged reports whether the memory may differ from the last reading of status.
func (e *processEntry) mayHaveMemoryChanged(st *stat) bool {
	return !st.kernel && (st.rss != e.rss || st.minflt+st.majflt != e.faults)
}

// setFromStatus reads user, memory and context switches. It reports whether the process is gone.
func (s *Source) setFromStatus(e *processEntry, st *stat, keep bool) (gone bool) {
	text, err := s.readFile(e, statusFile, keep)
	if err != nil { // it ended meanwhile; its owner must be known, or it is not reported
		return !s.setOwner(e) && !e.known
	}
	if st.isLeaderEnded() {
		if text = s.threadStatus(e); text == nil {
			text, err = s.readFile(e, statusFile, false)
		}
	}
	if err != nil {
		return !e.known
	}
	u := &s.status
	parseStatus(text, u)
	p := &e.p
	if p.UID = u.uid; !u.haveUID && !s.setOwner(e) {
		return true
	}
	e.since, e.rss, e.faults = 0, st.rss, st.minflt+st.majflt
	if !u.haveTypes && u.haveRSS {
		s.setOldMemory(e, u)
	}
	p.Anon, p.File, p.Shmem, p.Swap, p.Huge = u.anon, u.file, u.shmem, u.swap, u.huge
	// A zombie and a kernel thread have no memory of their own: here zero is a figure.
	none := !u.haveMemory && (st.kernel || st.state == 'Z' || st.state == 'X' || st.vsize == 0)
	if u.haveTypes || none {
		p.Have |= sensor.FieldMemory
	}
	if u.haveSwap || none {
		p.Have |= sensor.FieldSwap
	}
	if u.haveHWM {
		p.PeakBytes = max(p.PeakBytes, u.hwm)
		p.Have |= sensor.FieldPeak
	}
	p.Have &^= sensor.FieldSwitches
	if u.haveSwitches && st.threads == 1 && !e.threads.many {
		p.Voluntary, p.Involuntary = u.voluntary, u.involuntary
		p.Have |= sensor.FieldSwitches
	}
	return false
}

// setOldMemory sets the memory by type on kernels before 4.5. These report only the sum of mapped files and shared
// memory, which setOldMemory counts as files.
func (s *Source) setOldMemory(e *processEntry, u *status) {
	text, err := s.readOnce(e.p.PID, "statm")
	if err != nil {
		return
	}
	if resident, shared, err := parseStatm(text); err == nil {
		u.anon, u.file, u.haveTypes = (resident-shared)*s.page, shared*s.page, true
	}
}

// setOwner sets the user of a process from the owner of its files in /proc, if its status does not show the user. The
// owner is the effective user, or root for a process that may not be dumped.
func (s *Source) setOwner(e *processEntry) bool {
	f, err := s.openPID(e.p.PID, "stat")
	if err != nil {
		return false
	}
	defer f.close()
	err = unix.Fstat(int(f), &s.inode)
	if err == nil {
		e.p.UID = s.inode.Uid
	}
	return err == nil
}

package procfs

import (
	"slices"

	"reckon/sensor"
)

// entry is the record of a process between passes.
type entry struct {
	p     sensor.Process // state of the last report
	known bool           // p is filled in
	files [kinds]file
	idle  uint16 // passes since the process last ran
	since uint16 // readings since status was read

	clock  uint64 // CPU clock at the last reading
	finger uint64 // hash of stat, if there is no clock
	rss    uint64 // pages, and
	faults uint64 // page faults when status was read
	due    uint64 // when all is read again, nanoseconds since boot
	orphan bool   // the parent ended: read again

	ioDenied bool // io may not be read

	io      ownIO
	threads threads
}

// refreshCap is the longest time that a process which does not run is not looked at.
const refreshCap = 60_000_000_000

// keepIdle is the number of passes that the descriptors of an idle process are kept.
const keepIdle = 30

// nextRefresh returns the time at which a process that does not run is read again. The interval doubles with the age of
// the process up to [refreshCap]. Processes that were found together at the start are spread by their ids.
func nextRefresh(boot uint64, pid int32, start uint64) uint64 {
	age := uint64(0)
	if boot > start {
		age = boot - start
	}
	switch {
	case age < 1e9:
		return start + 1e9
	case age < refreshCap:
		step := uint64(2e9)
		for step <= age {
			step *= 2
		}
		return start + step
	}
	// Each process has its own second of the minute: the pid times a large odd number separates neighbours.
	phase := uint64(uint32(pid)*2654435761) * (refreshCap >> 8) >> 24
	next := boot - boot%refreshCap + phase
	if next <= boot {
		next += refreshCap
	}
	return next
}

// newEntry returns an entry for a new process.
func (s *Source) newEntry(pid int32) *entry {
	var e *entry
	if n := len(s.free); n > 0 {
		e, s.free = s.free[n-1], s.free[:n-1]
	} else {
		e = &entry{}
		for k := range e.files {
			e.files[k] = closed
		}
	}
	s.reset(e, pid)
	return e
}

// reset makes e the entry of another process.
func (s *Source) reset(e *entry, pid int32) {
	files, list := e.files, e.threads.list[:0]
	*e = entry{files: files, p: sensor.Process{PID: pid}}
	e.threads.list = list
}

// drop closes the descriptors of a process.
func (s *Source) drop(e *entry) { s.dropAllBut(e, kinds) }

// dropAllBut closes all descriptors of a process except one.
func (s *Source) dropAllBut(e *entry, keep kind) {
	for k := range kinds {
		if k != keep {
			s.forget(e, k)
		}
	}
	for i := range e.threads.list {
		s.dropThread(&e.threads.list[i])
	}
}

// forget closes one descriptor of a process.
func (s *Source) forget(e *entry, k kind) {
	if e.files[k] >= 0 {
		e.files[k].close()
		s.files.used--
	}
}

// release forgets a process that is gone.
func (s *Source) release(e *entry) {
	s.drop(e)
	e.threads.list = e.threads.list[:0]
	s.gone = append(s.gone, e.p.PID)
	s.free = append(s.free, e)
}

// merge makes the table follow a list of process ids in ascending order.
func (s *Source) merge(pids []int32) {
	out, old := s.spare[:0], s.entries
	for _, pid := range pids {
		for len(old) > 0 && old[0].p.PID < pid {
			s.release(old[0])
			old = old[1:]
		}
		if len(old) > 0 && old[0].p.PID == pid {
			out = append(out, old[0])
			old = old[1:]
			continue
		}
		out = append(out, s.newEntry(pid))
	}
	for _, e := range old {
		s.release(e)
	}
	s.entries, s.spare = out, s.entries
}

// markOrphans marks the children of ended processes to be read again, because they have a new parent.
func (s *Source) markOrphans() {
	if len(s.gone) == 0 {
		return
	}
	slices.Sort(s.gone)
	for _, e := range s.entries {
		if _, found := slices.BinarySearch(s.gone, e.p.PPID); found {
			e.orphan = true
		}
	}
	s.gone = s.gone[:0]
}

package procfs

import (
	"slices"

	"reckon/sensor"
)

// processEntry is the state of a process between passes.
type processEntry struct {
	p     sensor.Process // state of the last report
	known bool           // p is filled in
	files [processFiles]file
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
	threads threadTable
}

// maxRefresh is the longest time in nanoseconds for which a process that does not run is not read.
const maxRefresh = 60_000_000_000

// idlePasses is the number of passes for which the files of an idle process stay open.
const idlePasses = 30

// nextRefresh returns the time at which a process that does not run is read again. The interval doubles with the age of
// the process up to [maxRefresh]. Processes that were found together at the start are spread by their ids.
func nextRefresh(boot uint64, pid int32, start uint64) uint64 {
	age := uint64(0)
	if boot > start {
		age = boot - start
	}
	switch {
	case age < 1e9:
		return start + 1e9
	case age < maxRefresh:
		step := uint64(2e9)
		for step <= age {
			step *= 2
		}
		return start + step
	}
	// Each process has its own second of the minute: the pid times a large odd number separates neighbours.
	phase := uint64(uint32(pid)*2654435761) * (maxRefresh >> 8) >> 24
	next := boot - boot%maxRefresh + phase
	if next <= boot {
		next += maxRefresh
	}
	return next
}

// newEntry returns an entry for a new process.
func (s *Source) newEntry(pid int32) *processEntry {
	var e *processEntry
	if n := len(s.free); n > 0 {
		e, s.free = s.free[n-1], s.free[:n-1]
	} else {
		e = &processEntry{}
		for k := range e.files {
			e.files[k] = fileClosed
		}
	}
	s.resetEntry(e, pid)
	return e
}

// resetEntry makes e the entry of another process.
func (s *Source) resetEntry(e *processEntry, pid int32) {
	files, list := e.files, e.threads.list[:0]
	*e = processEntry{files: files, p: sensor.Process{PID: pid}}
	e.threads.list = list
}

// closeFiles closes the descriptors of a process.
func (s *Source) closeFiles(e *processEntry) { s.closeAllBut(e, processFiles) }

// closeAllBut closes all descriptors of a process except one.
func (s *Source) closeAllBut(e *processEntry, keep processFile) {
	for k := range processFiles {
		if k != keep {
			s.closeFile(e, k)
		}
	}
	for i := range e.threads.list {
		s.dropThread(&e.threads.list[i])
	}
}

// closeFile closes one descriptor of a process.
func (s *Source) closeFile(e *processEntry, k processFile) {
	if e.files[k] >= 0 {
		e.files[k].close()
		s.files.used--
	}
}

// releaseEntry forgets a process that is gone.
func (s *Source) releaseEntry(e *processEntry) {
	s.closeFiles(e)
	e.threads.list = e.threads.list[:0]
	s.gone = append(s.gone, e.p.PID)
	s.free = append(s.free, e)
}

// mergeList updates the table to a list of process ids in ascending order.
func (s *Source) mergeList(pids []int32) {
	out, old := s.spare[:0], s.entries
	for _, pid := range pids {
		for len(old) > 0 && old[0].p.PID < pid {
			s.releaseEntry(old[0])
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
		s.releaseEntry(e)
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

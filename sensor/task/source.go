package task

import (
	"errors"
	"slices"

	"reckon/sensor"
	"reckon/sensor/task/ebpf"
)

// Source reads the process table and the records of ended processes.
type Source struct {
	live  sensor.TaskSource
	exits sensor.ExitSource // nil if there is none, or live reports them itself
	bpf   *ebpf.Source      // live, if it is that
	own   bool              // live reports exits itself

	waiting []sensor.Process // exit records of processes that are still in the table
	orphans []sensor.Process // processes with parents that are not known yet
	ended   map[int32]int32  // parents of the processes that ended, while records are sorted
}

// Name returns the word for the source of live processes.
func (s *Source) Name() string { return s.live.Name() }

// Live returns "ebpf" or "procfs".
func (s *Source) Live() string { return s.live.Name() }

// Exits returns "ebpf" or "taskstats", or "" if processes that ended are not reported.
func (s *Source) Exits() string {
	switch {
	case s.own:
		return s.live.Name()
	case s.exits != nil:
		return s.exits.Name()
	}
	return ""
}

// Read fills p. If live and ended processes come from two sources, it reads the process table first, so that every process that is
// missing from the table has already sent its record. The record of a process that is still in the table waits until the process has left
// it. A process is therefore never reported alive after its end.
//
// A record without a process group also waits for the next reading if its parent is neither in the table nor ended, and so does a record
// of a process that began during the reading. Its parent began during the reading as well. Without the parent the owner is unknown, and
// the parent's child times would charge the process again. Start times do not help, because they are exact only to a second. A record
// with a parent in the table does not wait, because the parent's child times may already include it.
func (s *Source) Read(p *sensor.Pass) error {
	if err := s.live.Read(p); err != nil {
		return err
	}
	if s.exits == nil {
		return nil
	}
	from := len(p.Exited)
	p.Joined = false
	p.Exited = append(p.Exited, s.waiting...)
	p.Exited = append(p.Exited, s.orphans...)
	old := len(s.waiting) + len(s.orphans) // had their reading to wait for
	s.waiting, s.orphans = s.waiting[:0], s.orphans[:0]
	err := s.exits.Drain(p)
	s.recordParents(p.Exited[from:])
	kept := p.Exited[:from]
	for i := range p.Exited[from:] {
		e := &p.Exited[from+i]
		switch q := findLiving(p.Live, e.PID); {
		case q != nil && sensor.SameStart(q.Start, e.Start):
			s.waiting = append(s.waiting, *e)
		case (e.Start > p.Boot || i >= old && needsParent(e)) && !s.hasListedAncestor(e, p.Live):
			s.orphans = append(s.orphans, *e)
		default:
			kept = append(kept, *e)
		}
	}
	p.Exited = kept
	return err
}

// needsParent reports whether the parent is needed to identify the workload of a process.
func needsParent(e *sensor.Process) bool {
	return e.Have&(sensor.FieldParent|sensor.FieldGroup) == sensor.FieldParent && e.PPID > 0
}

// recordParents records the parent of each ended process.
func (s *Source) recordParents(ended []sensor.Process) {
	clear(s.ended)
	for i := range ended {
		if s.ended == nil {
			s.ended = make(map[int32]int32)
		}
		if e := &ended[i]; e.Have&sensor.FieldParent != 0 {
			s.ended[e.PID] = e.PPID
		}
	}
}

// hasListedAncestor reports whether the nearest ancestor of a process that has not ended is in the table.
func (s *Source) hasListedAncestor(e *sensor.Process, live []sensor.Process) bool {
	if e.Have&sensor.FieldParent == 0 {
		return false
	}
	at := e.PPID
	for range 64 { // more than trees of processes of a second are deep
		if findLiving(live, at) != nil {
			return true
		}
		parent, ok := s.ended[at]
		if !ok {
			return false
		}
		at = parent
	}
	return false
}

// findLiving looks for a process in a table that is in order of ids.
func findLiving(live []sensor.Process, pid int32) *sensor.Process {
	i, ok := slices.BinarySearchFunc(live, pid, func(p sensor.Process, pid int32) int { return int(p.PID) - int(pid) })
	if !ok {
		return nil
	}
	return &live[i]
}

// CgroupPaths returns the cgroups of number n, or false when they are not known.
func (s *Source) CgroupPaths(n uint64) (paths []sensor.CgroupPath, ok bool) {
	if namer, ok := s.live.(sensor.CgroupNamer); ok {
		if paths, ok := namer.CgroupPaths(n); ok {
			return paths, true
		}
	}
	if namer, ok := s.exits.(sensor.CgroupNamer); ok {
		return namer.CgroupPaths(n)
	}
	return nil, false
}

// SeesOpens reports whether the kernel shows opens of GPUs.
func (s *Source) SeesOpens() bool { return s.bpf != nil && s.bpf.Opens() }

// Missed returns the number of ends of processes that the programs in the kernel missed; 0 without such programs.
func (s *Source) Missed() uint64 {
	if s.bpf == nil {
		return 0
	}
	return s.bpf.Missed()
}

// Close closes both sources.
func (s *Source) Close() error {
	var errs []error
	if s.exits != nil {
		errs = append(errs, s.exits.Close())
	}
	return errors.Join(append(errs, s.live.Close())...)
}

var _ interface {
	sensor.TaskSource
	sensor.CgroupNamer
} = (*Source)(nil)

package task

import (
	"errors"
	"slices"

	"reckon/sensor"
	"reckon/sensor/task/ebpf"
)

// Source is the task table with the records of processes that ended.
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

// Read fills p. With two sources the table is read first: the record of a process that is not in
// it any more was sent before. The record of one that is in it, as a zombie or in
// its last moments, waits until it has left, so that nobody is reported alive after the end. Where the record does not name the
// process group, or reports one that began after the reading began, it waits for the next reading, too, if its parent is one that
// the table does not have and that has not ended: the parent began while the table was read, nobody would know where the child
// belongs, and what is charged for it would be charged again by the child times of the parent. When it began does not show that, as it is
// known to a second or less. It does not wait if its parent is in the table: that may have waited for it before it was read itself,
// and its child times have what the record reports.
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
	s.noteParents(p.Exited[from:])
	kept := p.Exited[:from]
	for i := range p.Exited[from:] {
		e := &p.Exited[from+i]
		switch q := find(p.Live, e.PID); {
		case q != nil && sensor.SameStart(q.Start, e.Start):
			s.waiting = append(s.waiting, *e)
		case (e.Start > p.Boot || i >= old && needsParent(e)) && !s.placed(e, p.Live):
			s.orphans = append(s.orphans, *e)
		default:
			kept = append(kept, *e)
		}
	}
	p.Exited = kept
	return err
}

// needsParent reports whether only its parent shows where a process belonged.
func needsParent(e *sensor.Process) bool {
	return e.Have&(sensor.FieldParent|sensor.FieldGroup) == sensor.FieldParent && e.PPID > 0
}

// noteParents notes the parents of processes that ended.
func (s *Source) noteParents(ended []sensor.Process) {
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

// placed reports whether the nearest ancestor of a process that has not ended is in the table.
func (s *Source) placed(e *sensor.Process, live []sensor.Process) bool {
	if e.Have&sensor.FieldParent == 0 {
		return false
	}
	at := e.PPID
	for range 64 { // more than trees of processes of a second are deep
		if find(live, at) != nil {
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

// find looks for a process in a table that is in order of ids.
func find(live []sensor.Process, pid int32) *sensor.Process {
	i, ok := slices.BinarySearchFunc(live, pid, func(p sensor.Process, pid int32) int { return int(p.PID) - int(pid) })
	if !ok {
		return nil
	}
	return &live[i]
}

// CgroupPaths returns the cgroups of number n, or false when they are not known.
func (s *Source) CgroupPaths(n uint64) ([]sensor.CgroupPath, bool) {
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

// SeesOpens reports whether the kernel shows who opens GPUs.
func (s *Source) SeesOpens() bool { return s.bpf != nil && s.bpf.Opens() }

// Missed is the number of ends of processes that the programs in the kernel missed; 0 without such programs.
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

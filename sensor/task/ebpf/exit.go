package ebpf

import (
	"unsafe"

	"reckon/sensor"
)

// drainRing reads the kernel's records from the ring.
func (s *Source) drainRing() {
	s.ring.drain(s.onEvent)
	if s.opens != nil {
		s.opens.drain(s.onOpen)
	}
}

// recordOpen handles the record that a process opened a GPU.
func (s *Source) recordOpen(b []byte) {
	if recordKind(b) == kindOpen && len(b) >= int(unsafe.Sizeof(tasksOpen{})) {
		r := (*tasksOpen)(unsafe.Pointer(&b[0]))
		s.opened = append(s.opened, sensor.Open{PID: r.Pid, Node: r.Node})
		s.shut = uint64(r.Lost)
	}
}

func (s *Source) handleRecord(b []byte) {
	switch recordKind(b) {
	case kindExit:
		if len(b) < processSize {
			return
		}
		r := *(*tasksProcess)(unsafe.Pointer(&b[0])) // a copy: the ring is read-only
		s.adjustStart(&r)
		if c, ok := s.claimed[r.Pid]; ok && c.start == r.Start {
			delete(s.claimed, r.Pid)
			return
		}
		s.addExit(&r)
	case kindPath:
		s.addPath(b)
	}
}

// claimedProcess is a process that was reported as reaped. The kernel reports it again when it is released.
type claimedProcess struct{ start, pass uint64 }

// addClaim handles the record of a process that was waited for and not freed yet. It does so only once.
func (s *Source) addClaim(r *tasksProcess) {
	c, ok := s.claimed[r.Pid]
	s.claimed[r.Pid] = claimedProcess{r.Start, s.pass}
	if !ok || c.start != r.Start {
		s.addExit(r)
	}
}

// tidyClaimed deletes claimed processes that got no second record for 64 passes. There was no room for that record, or
// the kernel skipped the tracepoint.
func (s *Source) tidyClaimed() {
	for pid, c := range s.claimed {
		if c.pass+64 < s.pass {
			delete(s.claimed, pid)
		}
	}
}

// addExit handles the final totals of a process.
func (s *Source) addExit(r *tasksProcess) {
	s.done = append(s.done, sensor.Process{})
	p := &s.done[len(s.done)-1]
	setIdentity(p, r)
	p.Threads = 0 // it has none left
	p.Have &^= sensor.FieldThreads
	p.Life = uint64(max(r.Delta[0], 0))
	p.OOMKilled = r.Flags&oomVictim != 0
	u := processUsage(r)
	was, t := s.lastRecord(r.Pid, r.Start)
	if t != nil {
		if t.ended {
			s.done = s.done[:len(s.done)-1] // reported already
			return
		}
		t.ended = true
		if t.carry != nil {
			u.add(t.carry)
		}
		u.raiseTo(&t.use)
		if r.Flags&haveGroup == 0 {
			p.PPID, p.PGID, p.SID = was.PPID, was.PGID, was.SID
			p.Have |= was.Have & (sensor.FieldGroup | sensor.FieldParent)
		}
		p.PeakBytes = was.PeakBytes
		p.Have |= was.Have & sensor.FieldPeak
	}
	if was != nil {
		p.UserNanos, p.SystemNanos = was.UserNanos, was.SystemNanos
	}
	setCounters(p, &u, was != nil)
	if r.Peak != 0 {
		p.PeakBytes = max(p.PeakBytes, r.Peak*s.page)
		p.Have |= sensor.FieldPeak
	}
}

// lastRecord returns the last pass's record of a process, nil if it has none.
func (s *Source) lastRecord(pid int32, start uint64) (process *sensor.Process, total *taskTotal) {
	if w := s.table.find(pid); w != nil && w.process.Start == start {
		return &w.process, &w.total
	}
	for i := range s.held {
		if h := &s.held[i]; h.process.PID == pid && h.process.Start == start {
			return &h.process, &h.total
		}
	}
	return nil, nil
}

package ebpf

import (
	"unsafe"

	"reckon/sensor"
)

// drain takes what the kernel has put into the ring.
func (s *Source) drain() {
	s.ring.drain(s.onEvent)
}

func (s *Source) event(b []byte) {
	switch kindOf(b) {
	case kindExit:
		if len(b) >= processSize {
			s.addExit((*tasksProcess)(unsafe.Pointer(&b[0])))
		}
	case kindPath:
		s.addPath(b)
	}
}

// addExit takes the final totals of a process.
func (s *Source) addExit(r *tasksProcess) {
	s.done = append(s.done, sensor.Process{})
	p := &s.done[len(s.done)-1]
	identity(p, r)
	p.Threads = 0 // it has none left
	p.Have &^= sensor.FieldThreads
	p.OOMKilled = r.Flags&oomVictim != 0
	u := usageOf(r)
	was, t := s.known(r.Pid, r.Start)
	u.wait = r.Wait
	if t != nil {
		if t.ended {
			s.done = s.done[:len(s.done)-1] // told already
			return
		}
		t.ended = true
		u.wait = t.use.wait + max(r.Wait, t.wait) - t.wait
		u.atLeast(&t.use)
		if r.Flags&haveGroup == 0 {
			p.PPID, p.PGID, p.SID = was.PPID, was.PGID, was.SID
			p.Have |= was.Have & (sensor.FieldGroup | sensor.FieldParent)
		}
		p.PeakBytes = was.PeakBytes
		p.Have |= was.Have & sensor.FieldPeak
	}
	counters(p, &u, was)
	if r.Peak != 0 {
		p.PeakBytes = max(p.PeakBytes, r.Peak*s.page)
		p.Have |= sensor.FieldPeak
	}
}

// known returns what the last pass told of a process, nil if it did not know it.
func (s *Source) known(pid int32, start uint64) (*sensor.Process, *total) {
	if j := find(s.last, pid); j >= 0 && s.last[j].Start == start {
		return &s.last[j], &s.was[j]
	}
	for i := range s.held {
		if h := &s.held[i]; h.process.PID == pid && h.process.Start == start {
			return &h.process, &h.total
		}
	}
	return nil, nil
}

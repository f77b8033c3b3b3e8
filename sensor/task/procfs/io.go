package procfs

import (
	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// ownIO separates the I/O of a process itself from the I/O of its reaped children.
type ownIO struct {
	perThread bool // the files of the threads are read
	skip      uint32
	last      ioTotals // sum over the threads
}

// ioTotals are the bytes that went between a process, or a thread, and storage, and those that it deleted before.
type ioTotals struct{ read, write, cancelled uint64 }

func (t *ioTotals) add(o ioTotals) {
	t.read, t.write, t.cancelled = t.read+o.read, t.write+o.write, t.cancelled+o.cancelled
}

// raiseTo raises the figures of a process to at least t.
func (t *ioTotals) raiseTo(p *sensor.Process) {
	p.ReadBytes, p.WriteBytes, p.CancelledBytes = max(p.ReadBytes, t.read), max(p.WriteBytes, t.write), max(p.CancelledBytes, t.cancelled)
}

// setIO sets the bytes that a process read from and wrote to storage.
//
// Until the process reaps a child, /proc/PID/io has exactly its own I/O, including ended threads. From then on
// it includes the I/O of children, so setIO sums the increases of the live threads.
func (s *Source) setIO(e *processEntry, st *stat, keep, due bool) {
	if e.ioDenied && !due {
		return
	}
	e.ioDenied = false
	if st.state == 'Z' && !st.isLeaderEnded() {
		return // its last figures stand
	}
	if st.reaped || e.io.perThread {
		s.addThreadsIO(e, st)
		return
	}
	text, err := s.readFile(e, ioFile, keep)
	if err != nil {
		markIODenied(e, err)
		return
	}
	whole, err := parseIO(text)
	if err != nil {
		return // a kernel without CONFIG_TASK_IO_ACCOUNTING
	}
	whole.raiseTo(&e.p)
	e.p.Have |= sensor.FieldIO
}

func markIODenied(e *processEntry, err error) {
	if err == unix.EACCES || err == unix.EPERM {
		e.ioDenied = true
		e.p.Have &^= sensor.FieldIO
	}
}

// addThreadsIO adds the I/O of the live threads of a process since the last reading.
func (s *Source) addThreadsIO(e *processEntry, st *stat) {
	io := &e.io
	if io.skip > 0 {
		io.skip--
		return
	}
	io.skip = min(st.threads/threadBatch, 15)
	var now ioTotals
	if !e.threads.many {
		own, err := s.readThreadIO(e, e.p.PID)
		if err != nil {
			markIODenied(e, err)
			return
		}
		now = own
	}
	for i := range e.threads.list {
		if own, err := s.readThreadIO(e, e.threads.list[i].tid); err == nil {
			now.add(own)
		}
	}
	if !io.perThread {
		io.perThread = true
		s.closeFile(e, ioFile)
		now.raiseTo(&e.p)
		io.last = now
	}
	if e.threads.ended {
		e.p.Partial |= sensor.FieldIO
	}
	e.p.ReadBytes += counterGrowth(&io.last.read, now.read)
	e.p.WriteBytes += counterGrowth(&io.last.write, now.write)
	e.p.CancelledBytes += counterGrowth(&io.last.cancelled, now.cancelled)
	e.p.Have |= sensor.FieldIO
}

func (s *Source) readThreadIO(e *processEntry, tid int32) (ioTotals, error) {
	f, err := s.openTask(e.p.PID, tid, processFileNames[ioFile])
	if err != nil {
		return ioTotals{}, err
	}
	text, err := s.readAll(f)
	f.close()
	if err != nil {
		return ioTotals{}, err
	}
	return parseIO(text)
}

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

// raise makes the figures of a process at least t.
func (t *ioTotals) raise(p *sensor.Process) {
	p.ReadBytes, p.WriteBytes, p.CancelledBytes = max(p.ReadBytes, t.read), max(p.WriteBytes, t.write), max(p.CancelledBytes, t.cancelled)
}

// fromIO sets the bytes that a process read from and wrote to storage.
//
// Until the process reaps a child, /proc/PID/io has exactly its own I/O, including ended threads. From then on
// it includes the I/O of children, so fromIO sums the increases of the live threads.
func (s *Source) fromIO(e *entry, st *stat, keep, due bool) {
	if e.ioDenied && !due {
		return
	}
	e.ioDenied = false
	if st.state == 'Z' && !st.isLeaderEnded() {
		return // its last figures stand
	}
	if st.reaped || e.io.perThread {
		s.threadsIO(e, st)
		return
	}
	text, err := s.read(e, ioFile, keep)
	if err != nil {
		ioFailed(e, err)
		return
	}
	whole, err := parseIO(text)
	if err != nil {
		return // a kernel without CONFIG_TASK_IO_ACCOUNTING
	}
	whole.raise(&e.p)
	e.p.Have |= sensor.FieldIO
}

func ioFailed(e *entry, err error) {
	if err == unix.EACCES || err == unix.EPERM {
		e.ioDenied = true
		e.p.Have &^= sensor.FieldIO
	}
}

// threadsIO adds the I/O of the live threads of a process since the last reading.
func (s *Source) threadsIO(e *entry, st *stat) {
	io := &e.io
	if io.skip > 0 {
		io.skip--
		return
	}
	io.skip = min(st.threads/threadBatch, 15)
	var now ioTotals
	if !e.threads.many {
		own, err := s.threadIO(e, e.p.PID)
		if err != nil {
			ioFailed(e, err)
			return
		}
		now = own
	}
	for i := range e.threads.list {
		if own, err := s.threadIO(e, e.threads.list[i].tid); err == nil {
			now.add(own)
		}
	}
	if !io.perThread {
		io.perThread = true
		s.forget(e, ioFile)
		now.raise(&e.p)
		io.last = now
	}
	if e.threads.ended {
		e.p.Partial |= sensor.FieldIO
	}
	e.p.ReadBytes += growthOf(&io.last.read, now.read)
	e.p.WriteBytes += growthOf(&io.last.write, now.write)
	e.p.CancelledBytes += growthOf(&io.last.cancelled, now.cancelled)
	e.p.Have |= sensor.FieldIO
}

func (s *Source) threadIO(e *entry, tid int32) (ioTotals, error) {
	f, err := s.openTask(e.p.PID, tid, kindNames[ioFile])
	if err != nil {
		return ioTotals{}, err
	}
	text, err := s.content(f)
	f.close()
	if err != nil {
		return ioTotals{}, err
	}
	return parseIO(text)
}

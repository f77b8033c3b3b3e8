package procfs

import (
	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// ownIO keeps what a process read and wrote itself apart from what the children did
// that it waited for.
type ownIO struct {
	perThread bool // the files of the threads are read
	skip      uint32
	read      uint64 // last sum over the threads
	write     uint64
}

// fromIO takes the bytes read from and written to storage.
//
// As long as a process has not waited for a child, /proc/PID/io holds its own I/O, that
// of ended threads too. From then on what its live threads did since the last reading
// is added up.
func (s *Source) fromIO(e *entry, st *stat, keep, due bool) {
	if e.ioDenied && !due {
		return
	}
	e.ioDenied = false
	if st.state == 'Z' {
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
	read, write, err := parseIO(text)
	if err != nil {
		return // a kernel without CONFIG_TASK_IO_ACCOUNTING
	}
	e.p.ReadBytes, e.p.WriteBytes = max(e.p.ReadBytes, read), max(e.p.WriteBytes, write)
	e.p.Have |= sensor.FieldIO
}

func ioFailed(e *entry, err error) {
	if err == unix.EACCES || err == unix.EPERM {
		e.ioDenied = true
		e.p.Have &^= sensor.FieldIO
	}
}

// threadsIO adds what the live threads of a process read and wrote since last time.
func (s *Source) threadsIO(e *entry, st *stat) {
	io := &e.io
	if io.skip > 0 {
		io.skip--
		return
	}
	io.skip = min(st.threads/threadBatch, 15)
	var read, write uint64
	if !e.threads.many {
		r, w, err := s.threadIO(e, e.p.PID)
		if err != nil {
			ioFailed(e, err)
			return
		}
		read, write = r, w
	}
	for i := range e.threads.list {
		if r, w, err := s.threadIO(e, e.threads.list[i].tid); err == nil {
			read, write = read+r, write+w
		}
	}
	if !io.perThread {
		io.perThread = true
		s.forget(e, ioFile)
		e.p.ReadBytes, e.p.WriteBytes = max(e.p.ReadBytes, read), max(e.p.WriteBytes, write)
		io.read, io.write = read, write
	}
	e.p.ReadBytes += grown(&io.read, read)
	e.p.WriteBytes += grown(&io.write, write)
	e.p.Have |= sensor.FieldIO
}

func (s *Source) threadIO(e *entry, tid int32) (read, write uint64, err error) {
	f, err := s.openTask(e.p.PID, tid, kindNames[ioFile])
	if err != nil {
		return 0, 0, err
	}
	text, err := s.content(f)
	f.close()
	if err != nil {
		return 0, 0, err
	}
	return parseIO(text)
}

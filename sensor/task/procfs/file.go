package procfs

import (
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// file is a descriptor, or closed.
type file int32

const fileClosed file = -1

func (f *file) close() {
	if *f >= 0 {
		_ = unix.Close(int(*f))
		*f = fileClosed
	}
}

// fileBudget limits the number of files that stay open between passes.
type fileBudget struct{ limit, used int }

func newBudget(limit int) fileBudget {
	if limit <= 0 {
		limit = 256
		var r unix.Rlimit
		if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) == nil {
			limit = int(min(r.Cur/4, 8192))
		}
	}
	return fileBudget{limit: limit}
}

// open opens the file name below /proc. It builds the path in place and calls the kernel directly, because package os
// would allocate.
func (s *Source) open(name string) (file, error) {
	s.path = append(append(s.path[:0], name...), 0)
	return s.openPath()
}

// openPID opens /proc/PID/name.
func (s *Source) openPID(pid int32, name string) (file, error) {
	s.path = append(strconv.AppendInt(s.path[:0], int64(pid), 10), '/')
	s.path = append(append(s.path, name...), 0)
	return s.openPath()
}

// openTask opens /proc/PID/task/TID/name.
func (s *Source) openTask(pid, tid int32, name string) (file, error) {
	s.path = append(strconv.AppendInt(s.path[:0], int64(pid), 10), "/task/"...)
	s.path = append(strconv.AppendInt(s.path, int64(tid), 10), '/')
	s.path = append(append(s.path, name...), 0)
	return s.openPath()
}

func (s *Source) openPath() (file, error) {
	f, err := s.openAt()
	if err == unix.EMFILE || err == unix.ENFILE {
		s.closeKept()
		f, err = s.openAt()
	}
	return f, err
}

func (s *Source) openAt() (file, error) {
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(s.dir),
			uintptr(unsafe.Pointer(&s.path[0])), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0, 0, 0)
		switch errno {
		case 0:
			return file(fd), nil
		case unix.EINTR:
		default:
			return fileClosed, errno
		}
	}
}

// closeKept closes all kept descriptors and lowers their limit, because the process ran out.
func (s *Source) closeKept() {
	s.files.limit = s.files.used / 2
	for _, e := range s.entries {
		s.closeFiles(e)
	}
}

// readAll reads a file from its beginning; the bytes are valid until the next call.
func (s *Source) readAll(f file) ([]byte, error) {
	n := 0
	for {
		m, err := unix.Pread(int(f), s.buf[n:], int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		n += m
		// A seq_file returns everything in one read unless it is larger than a page.
		if m == 0 || (n < 4000 && n < len(s.buf)) {
			return s.buf[:n], nil
		}
		if n == len(s.buf) {
			s.buf = append(s.buf, make([]byte, len(s.buf))...)
		}
	}
}

// processFile is a file of a process.
type processFile uint8

const (
	statFile processFile = iota
	statusFile
	schedstatFile
	ioFile
	processFiles
)

var processFileNames = [processFiles]string{"stat", "status", "schedstat", "io"}

// readFile reads a file of a process. It keeps the descriptor open if keep is set and the budget allows.
func (s *Source) readFile(e *processEntry, k processFile, keep bool) ([]byte, error) {
	if f := e.files[k]; f >= 0 {
		b, err := s.readAll(f)
		if err == nil || err == unix.EACCES {
			return b, err
		}
		// The process of this descriptor is gone; its number may have a new one.
		s.closeFile(e, k)
	}
	f, err := s.openPID(e.p.PID, processFileNames[k])
	if err != nil {
		return nil, err
	}
	b, err := s.readAll(f)
	if err != nil || !keep || s.files.used >= s.files.limit {
		f.close()
		return b, err
	}
	e.files[k] = f
	s.files.used++
	return b, nil
}

// readOnce reads another file of a process.
func (s *Source) readOnce(pid int32, name string) ([]byte, error) {
	f, err := s.openPID(pid, name)
	if err != nil {
		return nil, err
	}
	b, err := s.readAll(f)
	f.close()
	return b, err
}

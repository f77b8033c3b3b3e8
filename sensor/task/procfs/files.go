package procfs

import (
	"math"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"reckon/internal/sysfs"
	"reckon/sensor"
)

// Files reads single files of processes on demand. It is for callers that watch a few processes more closely than a
// [Source] does, such as `reckon run`. After warm-up only Threads allocates. It is not safe for concurrent use.
type Files struct {
	proc string // path of /proc
	path []byte
	buf  []byte
	stat stat
	tick uint64 // nanoseconds
	page uint64 // bytes
}

// NewFiles reads below the given path of /proc.
func NewFiles(proc string) *Files {
	return &Files{proc: proc, path: make([]byte, 0, 64), buf: make([]byte, 8<<10), tick: 1e9 / ticksPerSecond(),
		page: uint64(os.Getpagesize())}
}

// Times is the content of /proc/PID/stat about times of a process. Times are in nanoseconds, to the clock tick.
type Times struct {
	PID, PPID              int32
	Comm                   sensor.Comm
	State                  byte
	User, System           uint64 // its own, all threads, ended ones included
	ChildUser, ChildSystem uint64 // of children that it waited for, and of theirs
	Threads                int
	Start                  uint64 // since boot
}

// Times reads /proc/PID/stat.
func (f *Files) Times(pid int32) (t Times, err error) {
	b, err := f.readFile(pid, "stat")
	if err != nil {
		return t, err
	}
	s := &f.stat
	if err := parseStat(b, s); err != nil {
		return t, err
	}
	return Times{
		PID: s.pid, PPID: s.ppid, Comm: s.comm, State: s.state, Threads: int(s.threads), Start: s.start * f.tick,
		User: s.utime * f.tick, System: s.stime * f.tick, ChildUser: s.cutime * f.tick, ChildSystem: s.cstime * f.tick,
	}, nil
}

// OpenMemory opens /proc/PID/statm, for MemoryOf. The caller closes it.
func (f *Files) OpenMemory(pid int32) (fd int, err error) {
	f.setPath(pid, "statm")
	return unix.Open(string(f.path), unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

// MemoryOf returns the resident memory of a process in bytes, and the part of it that is mapped files or shared memory.
// fd is the open file /proc/PID/statm of the process.
func (f *Files) MemoryOf(fd int) (resident, shared uint64, err error) {
	n, err := unix.Pread(fd, f.buf, 0)
	if err != nil {
		return 0, 0, err
	}
	return f.parseMemory(f.buf[:n])
}

// Memory does the same for a process id.
func (f *Files) Memory(pid int32) (resident, shared uint64, err error) {
	b, err := f.readFile(pid, "statm")
	if err != nil {
		return 0, 0, err
	}
	return f.parseMemory(b)
}

func (f *Files) parseMemory(b []byte) (resident, shared uint64, err error) {
	resident, shared, err = parseStatm(b)
	return resident * f.page, shared * f.page, err
}

// Traffic is the content of /proc/PID/io. Read and Write are the bytes passed by read and write calls and those fetched
// from and sent to storage. The kernel adds the I/O of children that the process has reaped.
type Traffic struct{ ReadCalls, WriteCalls, Read, Write uint64 }

// Traffic reads /proc/PID/io.
func (f *Files) Traffic(pid int32) (t Traffic, err error) {
	b, err := f.readFile(pid, "io")
	if err != nil {
		return t, err
	}
	return parseTraffic(b)
}

func parseTraffic(b []byte) (t Traffic, err error) {
	io, err := parseIO(b)
	if err != nil {
		return t, err
	}
	t.Read, t.Write = io.read, io.write
	found := 0
	for len(b) > 0 {
		var l []byte
		l, b = sysfs.Line(b)
		if v, ok := lineNumber(l, "rchar:"); ok {
			t.ReadCalls, found = v, found|1
		} else if v, ok := lineNumber(l, "wchar:"); ok {
			t.WriteCalls, found = v, found|2
		}
	}
	if found != 3 {
		return t, errMalformed
	}
	return t, nil
}

// SchedTimes returns the time in nanoseconds that a thread was on a processor, and the time that it waited for one.
func (f *Files) SchedTimes(pid, tid int32) (run, wait uint64, err error) {
	b, err := f.readTaskFile(pid, tid, "schedstat")
	if err != nil {
		return 0, 0, err
	}
	run, wait, _, err = parseSchedstat(b)
	return run, wait, err
}

// SharedMemory is [Proc.SharedMemory].
func (f *Files) SharedMemory(pid int32) (sensor.SharedMemory, error) {
	b, err := f.readFile(pid, "smaps_rollup")
	if err != nil {
		return sensor.SharedMemory{}, err
	}
	m, ok := parseSmapsRollup(b)
	if !ok {
		return m, errMalformed
	}
	return m, nil
}

// PeakResident returns the most memory that a process had resident, bytes; 0 if unknown.
func (f *Files) PeakResident(pid int32) uint64 {
	b, err := f.readFile(pid, "status")
	if err != nil {
		return 0
	}
	var s status
	parseStatus(b, &s)
	return s.hwm
}

// IgnoresChildren reports whether a process ignores SIGCHLD. If so, the kernel reaps the children of the process itself
// and discards their CPU time.
func (f *Files) IgnoresChildren(pid int32) bool {
	b, err := f.readFile(pid, "status")
	return err == nil && ignoresChildren(b)
}

func ignoresChildren(status []byte) bool {
	const key = "SigIgn:"
	for len(status) > 0 {
		var l []byte
		l, status = sysfs.Line(status)
		if len(l) > len(key) && string(l[:len(key)]) == key {
			w, _ := sysfs.Field(l[len(key):])
			mask, err := strconv.ParseUint(string(w), 16, 64)
			return err == nil && mask&(1<<(uint(unix.SIGCHLD)-1)) != 0
		}
	}
	return false
}

// Children appends the ids of the children of a thread to the list to. It includes those that the thread adopted as a
// subreaper. It appends none if the kernel does not list children (CONFIG_PROC_CHILDREN).
func (f *Files) Children(pid, tid int32, to []int32) []int32 {
	b, err := f.readTaskFile(pid, tid, "children")
	if err != nil {
		return to
	}
	for len(b) > 0 {
		var w []byte
		if w, b = sysfs.Field(b); len(w) == 0 {
			return to
		}
		if n, ok := sysfs.Unsigned(w); ok && n > 0 && n <= math.MaxInt32 {
			to = append(to, int32(n))
		}
	}
	return to
}

// Threads appends the threads of a process.
func (f *Files) Threads(pid int32, to []int32) []int32 {
	d, err := os.Open(filepath.Join(f.proc, strconv.Itoa(int(pid)), "task"))
	if err != nil {
		return to
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, n := range names {
		if v, err := strconv.ParseInt(n, 10, 32); err == nil {
			to = append(to, int32(v))
		}
	}
	return to
}

// CPUClock returns the CPU time of a process with all its threads, in nanoseconds (clock_getcpuclockid(3)). It returns
// false if the process is gone. pid is an id in our own namespace.
func CPUClock(pid int32) (uint64, bool) { return cpuClock(pid) }

func (f *Files) setPath(pid int32, file string) {
	f.path = append(append(f.path[:0], f.proc...), '/')
	f.path = append(strconv.AppendInt(f.path, int64(pid), 10), '/')
	f.path = append(f.path, file...)
}

// readFile reads a file of a process; the bytes are valid until the next call.
func (f *Files) readFile(pid int32, file string) ([]byte, error) {
	f.setPath(pid, file)
	return f.readPath()
}

func (f *Files) readTaskFile(pid, tid int32, file string) ([]byte, error) {
	f.setPath(pid, "task/")
	f.path = append(strconv.AppendInt(f.path, int64(tid), 10), '/')
	f.path = append(f.path, file...)
	return f.readPath()
}

func (f *Files) readPath() ([]byte, error) {
	fd, err := unix.Open(string(f.path), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n := 0
	for {
		m, err := unix.Read(fd, f.buf[n:])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, err
		case m == 0:
			return f.buf[:n], nil
		}
		if n += m; n == len(f.buf) {
			f.buf = append(f.buf, make([]byte, len(f.buf))...)
		}
	}
}

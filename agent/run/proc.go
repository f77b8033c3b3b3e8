package run

import (
	"bytes"
	"errors"
	"strconv"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// errMalformed is what a parser returns for text that is not what the kernel writes.
var errMalformed = errors.New("malformed")

// userHZ is the unit of times in /proc/PID/stat, fixed by the kernel's ABI at 100 per second
// on every architecture that Go runs on.
const userHZ = 100

const tick = 1e9 / userHZ // nanoseconds

// stat holds the fields of /proc/PID/stat that are used here; times in nanoseconds.
type stat struct {
	pid, ppid     int32
	comm          sensor.Comm
	state         byte
	user, system  uint64 // own, all threads, dead ones included
	cuser, csys   uint64 // of waited-for children
	threads       int
	start         uint64 // since boot
	residentPages uint64
}

// parseStat reads /proc/PID/stat (proc_pid_stat(5)). The name may hold spaces,
// parentheses and newlines, so it ends at the last parenthesis.
func parseStat(b []byte, s *stat) error {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 2 || end < open || end+2 >= len(b) {
		return errMalformed
	}
	pid, ok := number(b[:open-1])
	if !ok {
		return errMalformed
	}
	s.pid, s.comm = int32(pid), sensor.CommOf(b[open+1:end])
	rest := b[end+2:]
	s.state = rest[0]
	var f [25]uint64
	n := 0
	for n < 25 {
		word, tail, more := bytes.Cut(rest, []byte{' '})
		f[n], _ = number(word) // state, and negative numbers that are not used, stay 0
		n++
		if !more {
			break
		}
		rest = tail
	}
	if n < 22 {
		return errMalformed
	}
	s.ppid = int32(f[1])
	s.user, s.system = f[11]*tick, f[12]*tick
	s.cuser, s.csys = f[13]*tick, f[14]*tick
	s.threads, s.start, s.residentPages = int(f[17]), f[19]*tick, f[21]
	return nil
}

// parseStatm reads /proc/PID/statm: pages resident, and those of them that are mapped
// files or shared memory.
func parseStatm(b []byte) (resident, shared uint64, err error) {
	var f [3]uint64
	for i := range f {
		word, tail, _ := bytes.Cut(b, []byte{' '})
		v, ok := number(word)
		if !ok {
			return 0, 0, errMalformed
		}
		f[i], b = v, tail
	}
	return f[1], min(f[2], f[1]), nil
}

// ioFile is /proc/PID/io. The kernel adds to it what waited-for children did.
type ioFile struct{ rchar, wchar, read, write uint64 }

// parseIO reads /proc/PID/io (Documentation/filesystems/proc.rst, 3.3).
func parseIO(b []byte, f *ioFile) error {
	found := 0
	for line := range bytes.Lines(b) {
		key, val, ok := bytes.Cut(bytes.TrimSuffix(line, []byte{'\n'}), []byte(": "))
		if !ok {
			continue
		}
		v, ok := number(val)
		if !ok {
			continue
		}
		found++
		switch string(key) {
		case "rchar":
			f.rchar = v
		case "wchar":
			f.wchar = v
		case "read_bytes":
			f.read = v
		case "write_bytes":
			f.write = v
		default:
			found--
		}
	}
	if found != 4 {
		return errMalformed
	}
	return nil
}

// parseSchedstat reads /proc/PID/task/TID/schedstat: nanoseconds on a processor and
// nanoseconds waiting for one (Documentation/scheduler/sched-stats.rst).
func parseSchedstat(b []byte) (run, wait uint64, err error) {
	first, tail, _ := bytes.Cut(b, []byte{' '})
	second, _, _ := bytes.Cut(tail, []byte{' '})
	run, ok1 := number(first)
	wait, ok2 := number(second)
	if !ok1 || !ok2 {
		return 0, 0, errMalformed
	}
	return run, wait, nil
}

// parsePSS finds the Pss and Rss lines of /proc/PID/smaps_rollup, in bytes.
func parsePSS(b []byte) (pss, rss uint64, err error) {
	found := 0
	for line := range bytes.Lines(b) {
		key, val, ok := bytes.Cut(line, []byte{':'})
		if !ok || (string(key) != "Pss" && string(key) != "Rss") {
			continue
		}
		val = bytes.TrimSuffix(bytes.TrimSpace(val), []byte(" kB"))
		v, ok := number(val)
		if !ok || v > 1<<53 {
			return 0, 0, errMalformed
		}
		if key[0] == 'P' {
			pss = v << 10
		} else {
			rss = v << 10
		}
		found++
	}
	if found != 2 {
		return 0, 0, errMalformed
	}
	return pss, rss, nil
}

// ignoresChildren reads from /proc/PID/status whether the process ignores SIGCHLD, so
// that the kernel reaps its children without adding their usage to anybody.
func ignoresChildren(b []byte) bool {
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte("SigIgn:\t")); ok {
			mask, err := strconv.ParseUint(string(bytes.TrimSpace(rest)), 16, 64)
			return err == nil && mask&(1<<(uint(unix.SIGCHLD)-1)) != 0
		}
	}
	return false
}

// number parses an unsigned decimal number of up to 64 bits.
func number(b []byte) (uint64, bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	var v uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		next := v*10 + uint64(c-'0')
		if v > (1<<64-1)/10 || next < v*10 {
			return 0, false
		}
		v = next
	}
	return v, true
}

// procReader reads files of /proc into one buffer.
type procReader struct {
	root string // "/proc"
	path []byte
	buf  []byte
}

func newProcReader(root string) *procReader {
	return &procReader{root: root, path: make([]byte, 0, 64), buf: make([]byte, 8192)}
}

// pid reads /proc/PID/name; the bytes are valid until the next call.
func (r *procReader) pid(pid int32, name string) ([]byte, error) {
	r.path = strconv.AppendInt(append(append(r.path[:0], r.root...), '/'), int64(pid), 10)
	r.path = append(append(r.path, '/'), name...)
	return r.read()
}

// task reads /proc/PID/task/TID/name.
func (r *procReader) task(pid, tid int32, name string) ([]byte, error) {
	r.path = strconv.AppendInt(append(append(r.path[:0], r.root...), '/'), int64(pid), 10)
	r.path = strconv.AppendInt(append(r.path, "/task/"...), int64(tid), 10)
	r.path = append(append(r.path, '/'), name...)
	return r.read()
}

func (r *procReader) read() ([]byte, error) {
	fd, err := unix.Open(string(r.path), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n := 0
	for {
		m, err := unix.Read(fd, r.buf[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if m == 0 {
			return r.buf[:n], nil
		}
		if n += m; n == len(r.buf) {
			r.buf = append(r.buf, make([]byte, len(r.buf))...)
		}
	}
}

// cpuClock returns the CPU time of a live process in nanoseconds, all its threads
// included, by its CPU clock (clock_getcpuclockid(3)); false once it is gone.
func cpuClock(pid int32) (uint64, bool) {
	const schedProcess = 2 // CPUCLOCK_SCHED of include/linux/posix-timers.h
	var ts unix.Timespec
	if unix.ClockGettime(^pid<<3|schedProcess, &ts) != nil {
		return 0, false
	}
	return uint64(ts.Nano()), true
}

package procfs

import (
	"bytes"

	"reckon/internal/sysfs"
	"reckon/sensor"
)

// Flags of a task, PF_KTHREAD and PF_EXITING of include/linux/sched.h.
const (
	kernelThread = 0x00200000
	exitingTask  = 0x00000004
)

// stat is the content of /proc/PID/stat (proc_pid_stat(5)). Times are in clock ticks, memory in pages.
//
//	1234 (a) b) S 1 1234 1234 0 -1 4194560 142 0 0 0 7 3 0 0 20 0 1 0 88231 ...
type stat struct {
	pid              int32
	comm             sensor.Comm
	state            byte
	ppid, pgid, sid  int32
	kernel           bool
	exiting          bool // the leader, also as a zombie
	minflt, majflt   uint64
	reaped           bool // has waited for children
	utime, stime     uint64
	threads          uint32
	start            uint64
	vsize, rss       uint64
	cminflt, cmajflt uint64
	cutime, cstime   uint64
}

// startTicks returns the start of a process in ticks since boot. If a time namespace is behind the machine's clock, a
// process from before its zero has a negative start, which reads as a large unsigned number. startTicks returns 0 for it.
func startTicks(ticks uint64) uint64 {
	const most = 1 << 63 / 10_000_000 // of ticks with positive nanoseconds
	if ticks >= most {
		return 0
	}
	return ticks
}

// isLeaderEnded reports whether the first thread has ended while others live.
func (s *stat) isLeaderEnded() bool { return s.state == 'Z' && s.threads > 1 }

// parseStat parses b, the text of /proc/PID/stat, into s. The name may contain any byte, including parentheses and
// newlines, so it ends at the last closing parenthesis. Fields after the resident size are ignored.
func parseStat(b []byte, s *stat) error {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 2 || end < open || b[open-1] != ' ' || len(b) < end+3 || b[end+1] != ' ' {
		return errMalformed
	}
	pid, ok := parseSigned(b[:open-1])
	if !ok || pid <= 0 {
		return errMalformed
	}
	*s = stat{pid: pid, comm: sensor.CommOf(b[open+1 : end]), state: b[end+2]}
	rest := b[end+3:]
	var f [25]uint64 // by their number in the manual; 4 to 24
	for i := 4; i <= 24; i++ {
		var w []byte
		if w, rest = sysfs.Field(rest); len(w) == 0 {
			return errMalformed
		}
		if i <= 8 || w[0] == '-' {
			v, ok := parseSigned(w)
			if !ok {
				return errMalformed
			}
			f[i] = uint64(int64(v))
			continue
		}
		if f[i], ok = sysfs.Unsigned(w); !ok {
			return errMalformed
		}
	}
	s.ppid, s.pgid, s.sid = int32(f[4]), int32(f[5]), int32(f[6])
	s.kernel, s.exiting = f[9]&kernelThread != 0, f[9]&exitingTask != 0
	s.minflt, s.cminflt, s.majflt, s.cmajflt = f[10], f[11], f[12], f[13]
	s.utime, s.stime, s.cutime, s.cstime = f[14], f[15], f[16], f[17]
	s.reaped = f[11]|f[13]|f[16]|f[17] != 0
	s.threads, s.start, s.vsize, s.rss = uint32(f[20]), startTicks(f[22]), f[23], f[24]
	return nil
}

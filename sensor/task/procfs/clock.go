package procfs

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"

	"reckon/internal/sysfs"

	"golang.org/x/sys/unix"
)

// bootTime returns the time since boot in nanoseconds (CLOCK_BOOTTIME).
func bootTime() uint64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return uint64(ts.Nano())
}

// cpuClock returns the CPU time of a process in nanoseconds, including ended threads. It reads the clock of
// clock_getcpuclockid(3), which works for zombies and for processes of other users.
func cpuClock(pid int32) (nanos uint64, ok bool) {
	const scheduler = 2 // CPUCLOCK_SCHED of include/linux/posix-timers_types.h
	var ts unix.Timespec
	if unix.ClockGettime(^pid<<3|scheduler, &ts) != nil {
		return 0, false
	}
	return uint64(ts.Nano()), true
}

// sameNamespace reports whether the process ids in this /proc belong to our own pid namespace and can be used in
// system calls. The line NStgid of our status lists our ids from the namespace of /proc to our own. A single id means
// that both are the same.
func (s *Source) sameNamespace() bool {
	text, err := os.ReadFile(filepath.Join(s.name, "self/status"))
	if err != nil {
		return false
	}
	for len(text) > 0 {
		var l []byte
		l, text = sysfs.Line(text)
		if ids, ok := bytes.CutPrefix(l, []byte("NStgid:")); ok {
			first, rest := sysfs.Field(ids)
			second, _ := sysfs.Field(rest)
			pid, ok := sysfs.Unsigned(first)
			if !ok || len(second) != 0 || pid != uint64(os.Getpid()) {
				return false
			}
			// A recorded tree may have a process of our number: the live one knows our name.
			own, err := os.ReadFile(filepath.Join(s.name, strconv.Itoa(os.Getpid()), "stat"))
			var st stat
			_, ok = cpuClock(int32(os.Getpid()))
			return err == nil && ok && parseStat(own, &st) == nil && isProc(s.dir)
		}
	}
	return false
}

// isProc reports whether a directory is part of a mounted procfs.
func isProc(dir int) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(dir, &fs) == nil && fs.Type == unix.PROC_SUPER_MAGIC
}

// ticksPerSecond returns the unit of times in /proc/PID/stat, in ticks per second. It is AT_CLKTCK of getauxval(3),
// which equals sysconf(_SC_CLK_TCK).
func ticksPerSecond() uint64 {
	aux, _ := os.ReadFile("/proc/self/auxv")
	return auxTicks(aux)
}

// auxTicks finds AT_CLKTCK in an auxiliary vector, and returns 100 without it.
func auxTicks(aux []byte) uint64 {
	const clockTick, size = 17, strconv.IntSize / 8
	get := func(b []byte) uint64 {
		if size == 4 {
			return uint64(binary.NativeEndian.Uint32(b))
		}
		return binary.NativeEndian.Uint64(b)
	}
	for len(aux) >= 2*size {
		if v := get(aux[size:]); get(aux) == clockTick && v > 0 && v <= 1e6 {
			return v
		}
		aux = aux[2*size:]
	}
	return 100
}

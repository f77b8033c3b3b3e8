package bpf

import (
	"os"
	"strconv"
	"strings"
)

// Clock converts times since boot from the clock of BPF programs to that of this process's time namespace, which /proc
// and clock_gettime use (time_namespaces(7)). The zero Clock leaves times unchanged.
type Clock struct{ offset int64 }

// OwnClock returns the clock of this process's time namespace.
func OwnClock() Clock {
	text, _ := os.ReadFile("/proc/self/timens_offsets") // absent before Linux 5.6: there are none
	return Clock{offset: bootOffset(string(text))}
}

// bootOffset returns the nanoseconds by which CLOCK_BOOTTIME of the time namespace is ahead of the machine's. text has
// a line "boottime SECONDS NANOSECONDS".
func bootOffset(text string) int64 {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 3 || f[0] != "boottime" {
			continue
		}
		seconds, err := strconv.ParseInt(f[1], 10, 64)
		nanos, err2 := strconv.ParseInt(f[2], 10, 64)
		if err == nil && err2 == nil {
			return seconds*1e9 + nanos
		}
	}
	return 0
}

// Here converts nanoseconds since boot to this clock. Times before its zero become 0.
func (c Clock) Here(machine uint64) uint64 {
	if c.offset == 0 {
		return machine
	}
	return uint64(max(0, int64(machine)+c.offset))
}

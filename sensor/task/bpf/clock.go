package bpf

import (
	"os"
	"strconv"
	"strings"
)

// Clock converts boot times from the clock of kernel programs to the time namespace of this
// process, which /proc and clock_gettime use (time_namespaces(7)). The zero Clock converts nothing.
type Clock struct{ offset int64 }

// OwnClock returns the clock of this process's time namespace.
func OwnClock() Clock {
	text, _ := os.ReadFile("/proc/self/timens_offsets") // absent before Linux 5.6: there are none
	return Clock{offset: bootOffset(string(text))}
}

// bootOffset returns how many nanoseconds the namespace's CLOCK_BOOTTIME is ahead of the machine's.
// It parses the line "boottime SECONDS NANOSECONDS".
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

package resident

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"

	"reckon/internal/cgpath"
)

// LimitMemory sets the soft memory limit of the garbage collector to nine tenths of the lowest limit of the control
// group and its ancestors. The collector then works harder before the group's memory is exhausted. It changes nothing
// if GOMEMLIMIT is set or there is no limit.
func LimitMemory() {
	if os.Getenv("GOMEMLIMIT") != "" { //nolint:forbidigo // the runtime's own variable, which it has read already
		return
	}
	mounts, err := cgpath.ReadMounts("/")
	if err != nil {
		return
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return
	}
	if n := groupLimit(mounts, own); n > 0 {
		debug.SetMemoryLimit(n - n/10)
	}
}

// groupLimit returns the lowest memory limit in bytes of the control groups in own, the text of /proc/PID/cgroup, and
// their ancestors. It returns 0 if there is no limit.
func groupLimit(mounts []cgpath.Mount, own []byte) int64 {
	lowest := int64(math.MaxInt64)
	for line := range bytes.Lines(own) {
		f := strings.SplitN(strings.TrimSpace(string(line)), ":", 3)
		if len(f) < 3 {
			continue
		}
		for i := range mounts {
			m := &mounts[i]
			name := "memory.max"
			if !m.V2 {
				name = "memory.limit_in_bytes"
			}
			if !m.Serves(f[1]) || !m.V2 && !m.Serves("memory") {
				continue
			}
			below, inside := strings.CutPrefix(f[2], strings.TrimSuffix(m.Root, "/"))
			if !inside {
				below = ""
			}
			for {
				if n := readLimit(filepath.Join(m.Point, below, name)); n > 0 {
					lowest = min(lowest, n)
				}
				if below == "" || below == "/" {
					break
				}
				below = filepath.Dir(below)
			}
		}
	}
	if lowest >= noGroupLimit {
		return 0
	}
	return lowest
}

// noGroupLimit is the value of version 1 for a group without a limit, or up to one page less.
const noGroupLimit = math.MaxInt64 - 1<<16

// readLimit reads a limit in bytes; 0 for none, which version 2 writes as "max".
func readLimit(file string) int64 {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

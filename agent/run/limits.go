package run

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// availableResources returns the resources available to the command: processors by affinity and cgroup quotas
// up to the root, and memory by cgroup limits or else the machine's.
func availableResources(procRoot string, ownCgroups []hierarchy) Machine {
	m := Machine{MemoryBytes: readMemTotal(procRoot + "/meminfo")}
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) == nil {
		m.Cores = float64(set.Count())
	}
	for _, h := range ownCgroups {
		for dir := h.dir; ; dir = filepath.Dir(dir) {
			if quota := cpuQuota(dir, h.controllers); quota > 0 && (m.Cores == 0 || quota < m.Cores) {
				m.Cores = quota
			}
			if limit := memoryLimit(dir, h.controllers); limit > 0 && limit < m.MemoryBytes {
				m.MemoryBytes, m.MemoryLimited = limit, true
			}
			if dir == h.mount || len(dir) <= len(h.mount) {
				break
			}
		}
	}
	return m
}

// cpuQuota returns the limit of one group in cores, 0 for none.
func cpuQuota(dir string, controllers []string) float64 {
	var quota, period string
	switch {
	case len(controllers) == 0:
		quota, period, _ = strings.Cut(readTrimmed(dir+"/cpu.max"), " ")
	case slices.Contains(controllers, "cpu"):
		quota, period = readTrimmed(dir+"/cpu.cfs_quota_us"), readTrimmed(dir+"/cpu.cfs_period_us")
	}
	q, err1 := strconv.ParseFloat(quota, 64)
	p, err2 := strconv.ParseFloat(period, 64)
	if err1 != nil || err2 != nil || q <= 0 || p <= 0 {
		return 0
	}
	return q / p
}

// memoryLimit returns the limit of one group in bytes, 0 for none.
func memoryLimit(dir string, controllers []string) uint64 {
	var word string
	switch {
	case len(controllers) == 0:
		word = readTrimmed(dir + "/memory.max")
	case slices.Contains(controllers, "memory"):
		word = readTrimmed(dir + "/memory.limit_in_bytes")
	}
	v, _ := strconv.ParseUint(word, 10, 64)
	return v
}

func readMemTotal(path string) uint64 { return readKilobytes(path, "MemTotal:") }

// readKilobytes returns the value of one line of a file such as /proc/meminfo in bytes, or 0 if the line is missing.
func readKilobytes(path, key string) uint64 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	for in.Scan() {
		if rest, ok := strings.CutPrefix(in.Text(), key); ok {
			kb, _ := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 54)
			return kb << 10
		}
	}
	return 0
}

package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cpuOf returns the CPU time of a process, of its ended threads too. The number of
// its clock is made as in the kernel's include/linux/posix-timers_types.h.
func cpuOf(pid int) time.Duration {
	const cpuClockSched = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|cpuClockSched), &ts); err != nil {
		return 0 // it has ended, which the caller sees otherwise
	}
	return time.Duration(ts.Nano())
}

// rssOf returns the resident memory of a process in bytes (proc(5), status, VmRSS).
func rssOf(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	v, ok := field(string(data), "VmRSS:")
	kib, err := strconv.ParseInt(strings.TrimSuffix(v, " kB"), 10, 64)
	if !ok || err != nil {
		return 0, fmt.Errorf("VmRSS of process %d: %q", pid, v)
	}
	return kib << 10, nil
}

func field(text, name string) (string, bool) {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(v), true
		}
	}
	return "", false
}

// machine describes where the figures come from, without naming it.
func machine() string {
	model := runtime.GOARCH
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if v, ok := field(string(data), "model name"); ok {
			model = strings.TrimSpace(strings.TrimPrefix(v, ":"))
		}
	}
	kernel := "?"
	if data, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel, _, _ = strings.Cut(strings.TrimSpace(string(data)), "-")
	}
	system := "Linux"
	if f, err := os.Open("/etc/os-release"); err == nil {
		for s := bufio.NewScanner(f); s.Scan(); {
			if v, ok := strings.CutPrefix(s.Text(), "PRETTY_NAME="); ok {
				system = strings.Trim(v, `"`)
			}
		}
		f.Close()
	}
	return fmt.Sprintf("%d cores of %s, kernel %s, %s", runtime.NumCPU(), model, kernel, system)
}

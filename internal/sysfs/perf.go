package sysfs

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Numbers parses a list of processors or nodes in the kernel's notation, such as "0-3,8"
// (Documentation/admin-guide/cputopology.rst). It returns nil for invalid text and for a list of more than 65536
// numbers.
func Numbers(list string) (out []int) {
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		first, last, ranged := strings.Cut(part, "-")
		from, err := strconv.ParseUint(first, 10, 16)
		to := from
		if ranged && err == nil {
			to, err = strconv.ParseUint(last, 10, 16)
		}
		if err != nil || to < from || len(out) > 1<<16 {
			return nil
		}
		for n := from; n <= to; n++ {
			out = append(out, int(n))
		}
	}
	return out
}

// CPUFlag reports whether the first processor of the machine at root has an x86 feature in /proc/cpuinfo, such as
// "hypervisor" or "cqm_llc" (arch/x86/include/asm/cpufeatures.h of the kernel). Other architectures have other names.
func CPUFlag(root, name string) bool {
	f, err := os.Open(Path(root, "proc/cpuinfo"))
	if err != nil {
		return false
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	for in.Scan() { // the kernel writes processors one after the other as they are read: those after the first cost nothing
		if key, flags, ok := strings.Cut(in.Text(), ":"); ok && strings.TrimSpace(key) == "flags" {
			return slices.Contains(strings.Fields(flags), name)
		}
	}
	return false
}

// PerfRefusal explains an error of perf_event_open(2). It returns the reason and a remedy for the user. root is the
// mount point of the machine's file tree, and what names the events to be counted.
func PerfRefusal(err error, root, what string) (reason, fix string) {
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		if strings.Contains(ReadWord(Path(root, "sys/kernel/security/lockdown")), "[confidentiality]") {
			return "kernel lockdown (confidentiality) forbids performance counters", "boot with lockdown=integrity or less"
		}
		paranoid := ReadWord(filepath.Join(Path(root), "proc/sys/kernel/perf_event_paranoid"))
		return fmt.Sprintf("no permission to count on whole processors (kernel.perf_event_paranoid is %s)", paranoid),
			"run as root or grant CAP_PERFMON"
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.EOPNOTSUPP):
		return "the machine has no " + what, "in a virtual machine the host must pass the performance counters (vPMU) on"
	case errors.Is(err, unix.ENOSYS):
		return "the kernel has no performance counters, or a seccomp filter hides them",
			"use a kernel with CONFIG_PERF_EVENTS, and a container profile that allows perf_event_open"
	case errors.Is(err, unix.EBUSY):
		return "another program has the " + what + " for itself", "end it"
	}
	return "the " + what + " can not be opened", ""
}

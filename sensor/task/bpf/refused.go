package bpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"reckon/sensor"
)

const grantRemedy = "run as root or grant CAP_BPF and CAP_PERFMON (CAP_SYS_ADMIN before Linux 5.8)"

// Explain converts an error from loading programs to one line that says what to do. If the cause is unknown, it uses
// otherwise as the reason and fix as the remedy.
func Explain(err error, root, otherwise, fix string) error {
	var log *ebpf.VerifierError
	rejected := errors.As(err, &log) && len(log.Log) > 0
	switch {
	case errors.Is(err, sensor.ErrUnavailable):
		return err
	case !rejected && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)):
		return explainEPERM(Cause(err))
	case isLockedDown(root):
		return sensor.Unavailable("kernel lockdown (confidentiality) forbids reading kernel memory",
			"boot with lockdown=integrity or less", Cause(err))
	case errors.Is(err, unix.ENOSYS):
		status, _ := os.ReadFile("/proc/self/status") // unreadable: nothing more is known
		return explainMissing(Cause(err), string(status))
	case rejected:
		return sensor.RefusedError("the verifier of this kernel rejects the BPF programs",
			"report it with the output of uname -r", Cause(err))
	}
	return sensor.RefusedError(otherwise, fix, Cause(err))
}

// Cause shortens an error from loading programs to one line. The kernel's verifier may write thousands of lines, and
// Cause keeps the line with the reason.
func Cause(err error) error {
	var log *ebpf.VerifierError
	if errors.As(err, &log) {
		if why := verifierReason(log.Log); why != "" {
			program, _, _ := strings.Cut(err.Error(), ": load program")
			return fmt.Errorf("%s: %s (%w)", program, why, log.Cause)
		}
	}
	text := firstLine(err.Error(), chargesLockedMemory())
	if text == err.Error() {
		return err
	}
	return oneLineError{text, err}
}

// memlockHint is the text that the library adds to each EPERM.
const memlockHint = " (MEMLOCK may be too low, consider rlimit.RemoveMemlock)"

// firstLine returns the first line of a loading error, without the library's guess about locked memory on kernels that do not use it.
func firstLine(text string, chargesLocked bool) string {
	text, _, _ = strings.Cut(text, "\n")
	if !chargesLocked {
		text = strings.ReplaceAll(text, memlockHint, "")
	}
	return text
}

// oneLineError is an error with its text shortened to one line.
type oneLineError struct {
	text string
	err  error
}

func (s oneLineError) Error() string { return s.text }

func (s oneLineError) Unwrap() error { return s.err }

// verifierReason returns the reason for a rejection from the verifier's log. It is the last line before the statistics
// (print_verification_stats in kernel/bpf/verifier.c).
func verifierReason(log []string) string {
	for i := len(log) - 1; i >= 0; i-- {
		line := strings.TrimSpace(log[i])
		switch first, _, _ := strings.Cut(line, " "); first {
		case "", "processed", "verification", "stack":
			continue
		}
		return line
	}
	return ""
}

// explainMissing explains the absence of bpf(2). The filters of some container engines give the same error.
func explainMissing(err error, status string) error {
	if statusField(status, "Seccomp") == "2" {
		return sensor.Unavailable("bpf(2) is missing: a seccomp filter hides it, or the kernel has no BPF",
			"run the container with --security-opt seccomp=unconfined, or with a profile that allows bpf and perf_event_open", err)
	}
	return sensor.Unavailable("the kernel has no BPF", "use a kernel built with CONFIG_BPF_SYSCALL", err)
}

// isLockedDown reports whether the kernel is locked down (Documentation/security/lockdown: "none integrity [confidentiality]").
func isLockedDown(root string) bool {
	text, err := os.ReadFile(filepath.Join(root, "/sys/kernel/security/lockdown"))
	return err == nil && strings.Contains(string(text), "[confidentiality]")
}

// explainEPERM explains why the kernel returned EPERM. If the process already has the required capabilities, it names
// the actual obstacle instead of advising to grant them.
func explainEPERM(err error) error {
	status, _ := os.ReadFile("/proc/self/status") // unreadable: nothing more is known
	uidMap, _ := os.ReadFile("/proc/self/uid_map")
	var locked unix.Rlimit
	limited := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &locked) == nil && locked.Cur != unix.RLIM_INFINITY && chargesLockedMemory()
	return explainRefusal(err, string(status), string(uidMap), limited, filteredCall())
}

// filteredCall returns the name of a system call that a seccomp filter rejects, or "" if there is none. It tests bpf(2) and
// perf_event_open(2) with invalid arguments. If this process has the capabilities for a call, only a filter can reject
// it with EPERM or EACCES. A filter that inspects arguments is not detected.
func filteredCall() string {
	if _, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(^uint32(0)), 0, 0); errno == unix.EPERM || errno == unix.EACCES {
		return "bpf(2)"
	}
	if _, _, errno := unix.Syscall6(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0, 0, 0); errno == unix.EPERM || errno == unix.EACCES {
		return "perf_event_open(2)"
	}
	return ""
}

// checkRelease returns an error for a kernel release on which a test machine locked up while the programs ran. One of five
// runs of Debian's 5.10 under QEMU ended in a soft lockup. The emulator was probably the cause, as with 6.1
// (test/kernels/emulate.go). However, 5.10 was not tested again without it.
func checkRelease(major, minor int) error {
	if major != 5 || minor != 10 {
		return nil
	}
	return sensor.Unavailable("eBPF is not used on Linux 5.10, on which a test machine locked up with it",
		"use Linux 6.1 or later; without it processes are read from /proc", nil)
}

// kernelRelease returns the release of the kernel, such as 6 and 1, or zeros if unknown.
func kernelRelease() (major, minor int) {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return 0, 0
	}
	if n, _ := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); n != 2 {
		return 0, 0
	}
	return major, minor
}

// chargesLockedMemory reports whether BPF memory counts as locked memory: before Linux 5.11.
func chargesLockedMemory() bool {
	major, minor := kernelRelease()
	return major != 0 && (major < 5 || major == 5 && minor < 11)
}

// explainRefusal returns the reason and the remedy for the EPERM in err. status and uidMap are the texts of /proc/PID/status
// and /proc/PID/uid_map (proc(5), user_namespaces(7)). limited reports that BPF memory counts as locked memory, which
// may be scarce. filtered is a system call that is always rejected, or "".
func explainRefusal(err error, status, uidMap string, limited bool, filtered string) error {
	switch {
	case !hasCapability(status, unix.CAP_SYS_ADMIN) && !(hasCapability(status, unix.CAP_BPF) && hasCapability(status, unix.CAP_PERFMON)):
		return sensor.Unavailable("no permission to load BPF programs", grantRemedy, unix.EPERM)
	case uidMap != "" && strings.Join(strings.Fields(uidMap), " ") != "0 0 4294967295":
		return sensor.Unavailable("no permission to load BPF programs from within a user namespace",
			"run the container without a user namespace (as root of the host, not rootless)", unix.EPERM)
	case statusField(status, "Seccomp") == "2" && filtered != "":
		return sensor.Unavailable("a seccomp filter forbids "+filtered+", although the capabilities are there",
			"run the container with --security-opt seccomp=unconfined, or with a profile that allows bpf and perf_event_open", unix.EPERM)
	case limited:
		return sensor.Unavailable("BPF programs need more locked memory than the limit allows",
			"raise it: ulimit -l unlimited, LimitMEMLOCK=infinity of systemd; Linux 5.11 and later do not count it", unix.EPERM)
	}
	return sensor.RefusedError("no permission to load BPF programs, although the capabilities are there",
		"look in the kernel's log for the security module that forbids it", err)
}

// hasCapability reports whether a capability is effective.
func hasCapability(status string, capability uint) bool {
	set, err := strconv.ParseUint(statusField(status, "CapEff"), 16, 64)
	return err == nil && set>>capability&1 == 1
}

// statusField returns the value of a line of /proc/PID/status.
func statusField(status, name string) string {
	for line := range strings.Lines(status) {
		if k, v, ok := strings.Cut(line, ":"); ok && k == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

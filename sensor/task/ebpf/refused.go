package ebpf

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

const grant = "run as root or grant CAP_BPF and CAP_PERFMON (CAP_SYS_ADMIN before Linux 5.8)"

// refused says why the kernel answers EPERM. Who holds the capabilities and is refused
// all the same is told what else stands in the way, not to grant what he has granted.
func refused() error {
	status, _ := os.ReadFile("/proc/self/status") // unreadable: nothing more is known
	uidMap, _ := os.ReadFile("/proc/self/uid_map")
	return refusal(string(status), string(uidMap))
}

// refusal reads /proc/PID/status and /proc/PID/uid_map (proc(5), user_namespaces(7)).
func refusal(status, uidMap string) error {
	switch {
	case !holds(status, unix.CAP_SYS_ADMIN) && !(holds(status, unix.CAP_BPF) && holds(status, unix.CAP_PERFMON)):
		return sensor.Unavailable("no permission to load BPF programs", grant, unix.EPERM)
	case uidMap != "" && strings.Join(strings.Fields(uidMap), " ") != "0 0 4294967295":
		return sensor.Unavailable("no permission to load BPF programs from within a user namespace",
			"run the container without a user namespace (as root of the host, not rootless)", unix.EPERM)
	case field(status, "Seccomp") == "2":
		return sensor.Unavailable("a seccomp filter forbids bpf(2), although the capabilities are there",
			"run the container with --security-opt seccomp=unconfined, or with a profile that allows bpf and perf_event_open", unix.EPERM)
	}
	return sensor.Unavailable("no permission to load BPF programs, although the capabilities are there",
		"look in the kernel's log for the security module that forbids it", unix.EPERM)
}

// holds reports whether a capability is effective.
func holds(status string, capability uint) bool {
	set, err := strconv.ParseUint(field(status, "CapEff"), 16, 64)
	return err == nil && set>>capability&1 == 1
}

// field is the value of a line of /proc/PID/status.
func field(status, name string) string {
	for line := range strings.Lines(status) {
		if k, v, ok := strings.Cut(line, ":"); ok && k == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

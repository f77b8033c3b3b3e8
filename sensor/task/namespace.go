package task

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"reckon/sensor"
)

// PIDNamespace is the name of the [Note] about processes that cannot be seen.
const PIDNamespace = "pid-namespace"

// OtherUsers is the name of the [Note] about processes of other users that /proc does not show.
const OtherUsers = "other-users"

// remedy describes the way to run a container in the pid namespace of the machine.
const remedy = "run in that of the machine: hostPID: true in Kubernetes, --pid=host in Docker and Podman"

// firstPIDNamespace is the inode number of the machine's initial pid namespace (PROC_PID_INIT_INO
// in include/linux/proc_ns.h).
const firstPIDNamespace = 0xEFFFFFFC

// isNested reports whether we are in a pid namespace below the first one (pid_namespaces(7)).
func isNested() bool {
	var st syscall.Stat_t
	return syscall.Stat("/proc/self/ns/pid", &st) == nil && st.Ino != firstPIDNamespace
}

// hasForeignIDs reports whether process ids in /proc below root are of another pid namespace than ours. The link proc/self
// then shows another id for this process, or is invalid.
func hasForeignIDs(root string) bool {
	us, err := os.Readlink(filepath.Join(root, "proc/self"))
	return err != nil || us != strconv.Itoa(os.Getpid())
}

// checkNamespaces checks that the agent can read the intended processes. It returns an error if automatically chosen sources
// would show only the agent itself, or would mix process ids of two namespaces. note reports that processes outside our
// namespace are invisible.
func checkNamespaces(o Options) (note, err error) {
	if sameMachine(o.Root) != nil {
		return nil, nil // a recorded tree
	}
	if hasForeignIDs(o.Root) && o.Source != Procfs {
		return nil, foreignError(o.Root, "; or --source procfs, which misses processes that live for less than a tick")
	}
	if hasForeignIDs(o.Root) || !isNested() {
		return nil, nil
	}
	if os.Getpid() == 1 && o.Source == Auto {
		return nil, sensor.Unavailable("there is nothing to measure: this process is the first of a pid namespace of its own", remedy, nil)
	}
	return sensor.Unavailable("processes outside our pid namespace are not seen; what they use counts as that of other", remedy, nil), nil
}

func foreignError(root, otherwise string) error {
	return sensor.Unavailable("the process ids in "+filepath.Join(root, "proc")+" are not those of our own pid namespace",
		remedy+otherwise, nil)
}

// Package process makes each process group a workload: a pipeline or a script that a shell started,
// or a daemon and its children. It claims every process that does not belong to the kernel, so it
// is queried last.
//
// The name is group/NODE/PGID-START, where START is when the leader of the group began, in seconds
// since the Unix epoch (UTC), so that a reused number names another group.
//
// Monitors of containers, one for each pod, are one workload of a node, group/NODE/PROGRAM, as they
// are one with their engine where systemd started it.
package process

import (
	"strconv"
	"strings"

	"reckon/internal/cgpath"
	"reckon/workload"
)

// Resolver implements [workload.Resolver].
type Resolver struct{}

var _ workload.Resolver = (*Resolver)(nil)

// New returns a resolver.
func New() *Resolver { return &Resolver{} }

// Name implements [workload.Resolver].
func (*Resolver) Name() string { return "process" }

// Resolve implements [workload.Resolver].
func (*Resolver) Resolve(h *workload.Hint) (workload.Identity, bool) {
	if h.Kernel {
		return workload.Identity{}, false
	}
	pgid, start, comm := h.PGID, h.GroupStart, h.GroupComm
	if pgid <= 0 { // its leader is outside of our process namespace, or not known
		pgid, start, comm = h.PID, h.Start, h.Comm
	}
	if start == 0 {
		start = h.Start
	}
	if comm == "" {
		comm = h.Comm
	}
	comm = cgpath.Clean(comm)
	name := strconv.Itoa(int(pgid)) + "-" + strconv.FormatInt(start, 10)
	if comm == "containerd-shim" || comm == "conmon" { // of containerd, of CRI-O and podman
		name = comm
	}
	return workload.Identity{
		Workload: workload.MakeID(workload.Group, cgpath.Clean(h.Node)+"/"+name),
		Facts:    workload.Facts{Name: comm, Command: comm},
	}, true
}

// Leader parses the workload id of a process group. It returns the number of the group and the start of its leader in
// seconds since the Unix epoch. ok is false if the id has no leader.
func Leader(id workload.ID) (pgid int32, start int64, ok bool) {
	if id.Kind() != workload.Group {
		return 0, 0, false
	}
	name := id.Name()
	number, began, cut := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], "-")
	n, err := strconv.ParseInt(number, 10, 32)
	start, startErr := strconv.ParseInt(began, 10, 64)
	return int32(n), start, cut && err == nil && startErr == nil && n > 0
}

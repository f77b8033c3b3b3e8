// Package workload defines workloads, the pieces of work that people recognise: a batch job, a pod,
// a service, a login session, or a group of processes.
//
// A [Resolver] identifies the workload of a process from its cgroups, its environment and its place
// among other processes ([Hint]). Resolvers read no usage and run no program. Each lives in a
// folder of its own below this one; workload/all lists them in the order in which they are asked.
package workload

import (
	"strconv"
	"strings"
)

// ID is kind/name, as in the label "workload".
type ID string

// MakeID joins a kind and a name.
func MakeID(k Kind, name string) ID { return ID(string(k) + "/" + name) }

// Kind returns the first word of the id.
func (id ID) Kind() Kind {
	k, _, _ := strings.Cut(string(id), "/")
	return Kind(k)
}

// Name returns the part of the id after the kind.
func (id ID) Name() string {
	_, n, _ := strings.Cut(string(id), "/")
	return n
}

// Identity is the result of a resolver about a process.
type Identity struct {
	Workload ID
	// Part is the part of the workload on this node: a job step, or pod and container; empty for
	// other kinds. It is never a process id.
	Part string
	// Task distinguishes tasks of a part when a batch system starts several of them on a node; empty if unknown.
	Task string
	// Owner is the owner of the workload: a Unix user, or the namespace of a pod. Empty means the
	// user of the process.
	Owner string
	// Cgroup is the path of the control group that holds exactly this part, as in Hint.Cgroups, or
	// empty. Its counters are then used to charge use that no reading of processes saw.
	Cgroup string
	// Whole is the path of the control group that holds exactly all parts of the workload on this
	// node, as in Hint.Cgroups, or empty. It reports how much memory the parts held at once.
	Whole string
	// Facts go to reckon_workload_info: name, account, partition and the like.
	Facts Facts

	// Place distinguishes the part from all others regardless of its name, if its names come from another source: the
	// UID of a pod and the id of a container. It is empty if the names are final.
	Place string
	// Run distinguishes parts that have one name after each other: the UID of a pod.
	Run string
	// Naming reports how good the names are.
	Naming Naming
}

// Naming reports whether the names of a part are final.
type Naming uint8

// The namings.
const (
	Named     Naming = iota
	HalfNamed        // the workload has its name, the part a provisional one
	Unnamed          // the names are provisional until a better source answers
)

// Facts describe a workload besides its usage. Unknown is empty or 0.
type Facts struct {
	Name      string // name given by the owner: job name or command of the group leader
	Account   string // project or account it is charged to
	Partition string // partition, queue or slice
	Command   string // program of its first process
	// Run names the run of the part if an id has several: the UID of a Job.
	Run string

	RequestCores       float64
	RequestMemoryBytes float64
	RequestGPUs        float64
	RequestSeconds     float64
}

// Hint is what a resolver may examine about a process.
type Hint struct {
	Node string // name of this node

	PID, PPID, PGID, SID int32
	UID                  uint32
	User                 string // name of UID, or the number when it has none
	Comm                 string
	Kernel               bool // a kernel thread
	// Start is the time when the process began, in seconds since the Unix epoch.
	Start int64
	// GroupStart is the time when the leader of its process group began, in seconds since the
	// Unix epoch; Start when that is not known.
	GroupStart int64
	// GroupComm is the name of the group's leader, or Comm.
	GroupComm string

	// Cgroups are the lines of /proc/PID/cgroup; nil when they could not be read.
	Cgroups []Path
	// Env returns a variable of the environment the process was started with. It is
	// read on demand (it may be denied), so resolvers ask for it last.
	Env func(key string) (string, bool)
	// Args returns the arguments that the process was started with, the program's name first. It is read on demand
	// and may be denied. Args is nil if they are unavailable.
	Args func() []string
	// LoginSession returns the kernel's audit session id of the process
	// (/proc/PID/sessionid), or false when it has none.
	LoginSession func() (uint32, bool)
	// InJob reports whether the process may belong to a job that only its environment names. It also returns the
	// owner of that job, or "" while only root has run something in it. nil lets every process in.
	InJob func(job ID) (owner string, ok bool)
	// Was is the workload that the process was in before, or else its parent is in; "" if unknown.
	Was ID
	// LookupUser returns the name of a uid, or the number in decimal.
	LookupUser func(uid uint32) string
}

// Path is one line of /proc/PID/cgroup. Controllers is empty for the unified hierarchy.
type Path struct{ Controllers, Path string }

// Claim completes the identity of a process that names its job in an environment variable. It returns false if the
// process cannot belong to that job, because any user can set such a variable.
func (h *Hint) Claim(id Identity) (claimed Identity, ok bool) {
	if h.InJob == nil {
		return id, true
	}
	owner, ok := h.InJob(id.Workload)
	if !ok {
		return Identity{}, false
	}
	if id.Owner = owner; owner == "" && h.UID == 0 {
		id.Owner, id.Naming = h.User, HalfNamed
	}
	return id, true
}

// Getenv is Env, or returns false if Env is nil.
func (h *Hint) Getenv(key string) (value string, ok bool) {
	if h.Env == nil {
		return "", false
	}
	return h.Env(key)
}

// Arguments is Args, or returns nil if Args is nil.
func (h *Hint) Arguments() []string {
	if h.Args == nil {
		return nil
	}
	return h.Args()
}

// UserOf returns the name of a user, or the number in decimal when none is known.
func (h *Hint) UserOf(uid uint32) string {
	if h.LookupUser != nil {
		if name := h.LookupUser(uid); name != "" {
			return name
		}
	}
	return strconv.FormatUint(uint64(uid), 10)
}

// Resolver recognizes one kind of workload.
type Resolver interface {
	// Name is the word for the resolver in flags and reports.
	Name() string
	// Resolve identifies the workload of a process. It returns false if this resolver does not recognise it. It is
	// called once for a process, from one goroutine, and must give the same answer for the same hint.
	Resolve(*Hint) (Identity, bool)
}

// Chain queries resolvers in order. The first that recognizes a process decides.
type Chain []Resolver

// Resolve returns the first answer of the chain. A process that no resolver claims belongs to other/NODE.
func (c Chain) Resolve(h *Hint) Identity {
	for _, r := range c {
		if id, ok := r.Resolve(h); ok {
			if id.Owner == "" {
				id.Owner = h.User
			}
			return id
		}
	}
	return Identity{Workload: MakeID(Other, h.Node), Owner: "root"}
}

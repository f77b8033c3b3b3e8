package scheduler

import (
	"fmt"
	"time"

	"reckon/interop/slurmtext"
)

// Job is one run of a job, or the waiting part of an array. Unknown fields are zero or empty.
type Job struct {
	// ID is the id used by the agents: 4711, 4711_3, 4711+1, and 4711 for the waiting tasks of an array.
	ID string
	// Number is the job's number in its batch system, unique at one time.
	Number uint64
	// Tasks is the number of array tasks that this record represents; 0 for one job.
	Tasks int

	User, UID, Account, Partition, QOS, Name string

	// State is the state in Slurm's words, in lower case, Reason why it waits or ended in that state.
	State, Reason string
	Ended         bool // State is final
	// EndedBy is one of slurmtext's constants. EndedByUser is the name or number of the user who cancelled the job.
	EndedBy, EndedByUser string

	// Start is zero while it waits, End until it has ended: expected times are left out.
	Submit, Eligible, Start, End time.Time

	// Its request, over all its nodes.
	Cores, MemoryBytes, GPUs, Nodes, Seconds, TaskCount float64
	// Allocated is its current or last allocation.
	Allocated Allocation
	// Earlier are its allocations before changes, the first one first.
	Earlier []Allocation
	// Suspended is the time that it was suspended, in seconds, without the current suspension, which started at SuspendedSince.
	Suspended      float64
	SuspendedSince time.Time

	NodeList string // as Slurm writes it: n[1-3,7]
	Exit     *int   // as in a shell: 128 and above is a signal
	// ExitReduced reports that Exit is from accounting, which may have taken 128 off it.
	ExitReduced bool

	Steps     []Step
	StepCount int // including those that were left out
}

// Allocation is the allocation of a job over all its nodes, from Since on; zero means its start.
type Allocation struct {
	Since                           time.Time
	Cores, MemoryBytes, GPUs, Nodes float64
}

// Step is a step of a job.
type Step struct {
	ID, Name, State, NodeList string
	Start, End                time.Time
	Exit                      *int
	CPUSeconds, MemoryPeak    *float64 // from accounting
	Cores                     float64  // allocated
}

// weight determines which steps are kept.
func (s *Step) weight() float64 {
	return slurmtext.StepWeight(s.ID, s.State, s.Exit, s.CPUSeconds, s.Start, s.End)
}

// KeepStep appends a step, and drops the least important one if there are too many.
func KeepStep(list []Step, s Step) []Step { return slurmtext.KeepStep(list, s, (*Step).weight) }

// Node is the controller's state of a node. Unknown fields are zero or empty.
type Node struct {
	Name, Features, Reason string
	State                  string   // base state in lower case: idle, mixed, allocated, down, ...
	Flags                  []string // drain, reserved, maintenance, not_responding, ...
	Partitions             []string

	Cores, AllocatedCores        float64
	MemoryBytes, AllocatedMemory float64
	GPUs                         float64
	AllocatedGPUs                *float64 // nil if unknown, as in Slurm's text output
}

// Partition is the controller's state of a partition.
type Partition struct {
	Name    string
	State   string // up, down, drain, inactive
	Default bool
	Seconds float64 // maximum time of a job; 0 for no limit
}

// Open reports whether the node accepts jobs.
func (n *Node) Open() bool { return slurmtext.NodeOpen(n.State, n.Flags) }

// Read is the outcome of one query.
type Read struct {
	Records  int
	Bad      int    // records that cannot be parsed
	FirstBad string // error of the first bad record
}

// Reject counts a record that cannot be parsed.
func (r *Read) Reject(format string, args ...any) {
	if r.Bad++; r.FirstBad == "" {
		r.FirstBad = fmt.Sprintf(format, args...)
	}
}

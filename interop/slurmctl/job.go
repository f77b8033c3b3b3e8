package slurmctl

import (
	"strconv"
	"strings"
	"time"

	"reckon/interop/slurmtext"
)

// Job is one run of a job, or the waiting part of an array. Unknown fields are zero or empty.
type Job struct {
	// ID is the id used by the agents: 4711, 4711_3, 4711+1, and 4711 for the waiting tasks of an array.
	ID string
	// Raw is Slurm's number of the job.
	Raw uint32
	// Tasks is the number of array tasks that this record represents; 0 for one job.
	Tasks int

	User, UID, Account, Partition, QOS, Name string

	// State is Slurm's state in lower case, Reason why it waits or ended in that state.
	State, Reason string
	Ended         bool // State is final
	// EndedBy is one of slurmtext's constants, EndedByUser who cancelled it: a name, or a number.
	EndedBy, EndedByUser string

	// Start is zero while it waits, End until it has ended: expected times are left out.
	Submit, Eligible, Start, End time.Time

	// Its request, over all its nodes.
	Cores, MemoryBytes, GPUs, Nodes, Seconds float64
	// Allocated is its current or last allocation.
	Allocated Allocation
	// Earlier are its allocations before changes, the first one first.
	Earlier []Allocation
	// Suspended is how long it was suspended, in seconds, without the current suspension,
	// which started at SuspendedSince.
	Suspended      float64
	SuspendedSince time.Time

	NodeList string // in Slurm's format
	Exit     *int   // as in a shell: 128 and above is a signal

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

// state parses a state: one word with a suffix ("CANCELLED by 1001"), or
// a base state and flags, of which the base comes first in all releases.
func state(list words) string {
	if len(list) == 0 {
		return ""
	}
	s, _ := slurmtext.State(list[0])
	if s == "completed" || s == "running" || s == "pending" {
		for _, flag := range list[1:] {
			switch f := strings.ToLower(flag); f {
			case "completing", "configuring", "requeued", "requeue_hold", "special_exit", "suspended", "stopped":
				return f
			}
		}
	}
	return s
}

// name sets the id as used by the agents.
func (j *Job) name(array, task, hetero, offset number, rest string) {
	j.ID = strconv.FormatUint(uint64(j.Raw), 10)
	switch {
	case array.ok && array.v > 0 && rest != "":
		j.ID, j.Tasks = plain(array.v), slurmtext.CountTasks(rest)
	case array.ok && array.v > 0 && task.ok:
		j.ID = plain(array.v) + "_" + plain(task.v)
	case hetero.ok && hetero.v > 0 && offset.ok:
		j.ID = plain(hetero.v) + "+" + plain(offset.v)
	}
}

// past is times for accounting, where a requeued run has ended.
func (j *Job) past() {
	if started := j.Start; !started.IsZero() && j.Submit.Sub(started) > time.Second {
		defer func() { j.Start = started }() // the record after a change of the allocation: see JobTracker
	}
	if j.State == "requeued" {
		defer func(start, end time.Time, a Allocation) {
			j.State, j.Ended, j.Start, j.End, j.Allocated = "requeued", true, start, end, a
		}(j.Start, j.End, j.Allocated)
	}
	j.times()
}

// times removes times that have not come yet.
func (j *Job) times() {
	j.Ended = slurmtext.Over(j.State)
	if slurmtext.Waits(j.State) {
		j.Start, j.Exit, j.Allocated = time.Time{}, nil, Allocation{}
		if j.State == "requeued" {
			j.State = "pending"
		}
	}
	if !j.Ended {
		j.End, j.Exit = time.Time{}, nil
	}
	if j.Exit != nil && *j.Exit == 0 && (j.State != "completed" || j.Start.IsZero()) {
		j.Exit = nil // Slurm also writes 0 for jobs that did not end by themselves
	}
	if !j.Start.IsZero() && !j.End.IsZero() && j.End.Before(j.Start) {
		j.Start = j.End // cancelled before it could start
	}
	if !j.Submit.IsZero() && !j.Start.IsZero() && j.Start.Before(j.Submit) {
		j.Start = j.Submit // a clock was set between the two
	}
}

func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// jobID parses an id as shown by the commands: 4711, 4711_3, 4711_[0-9%2], 4711+1.
func (j *Job) jobID(shown, raw string) bool {
	n, err := strconv.ParseUint(raw, 10, 32)
	if err != nil || n == 0 {
		return false
	}
	id, err := slurmtext.ReadID(shown)
	j.Raw, j.ID, j.Tasks = uint32(n), id.Job, id.Tasks
	return err == nil && id.Step == ""
}

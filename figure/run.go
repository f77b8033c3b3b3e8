package figure

import (
	"maps"
	"slices"
	"time"
)

// Run is the record of one run of a workload over all nodes and parts: identity, facts, the time it was measured, and
// figures with their exactness. Stores save it, analyses read it, and the types of the API contain its fields.
type Run struct {
	Site  string
	ID    string // kind/name
	Kind  string
	Name  string // facts: the name given by the owner; else the name in the id
	Owner string

	Account, Partition, Command string

	// State is the batch system's term in lower case: pending, running, completed, failed,
	// cancelled, timeout, out_of_memory, node_fail, preempted and the like, or empty. Reason
	// explains a waiting state or an end.
	State, Reason string
	// EndedBy is the cause of the end other than the run itself: user, time_limit, deadline,
	// out_of_memory, node_failure, preempted or scheduler. EndedByUser is the user who cancelled
	// it. QOS is the quality of service. All are empty if not reported.
	EndedBy, EndedByUser, QOS string

	Nodes []string
	// Submit is the submit time; zero when unknown.
	Submit time.Time
	// Start is the first time that the workload was observed, and Seen the time of its last sample.
	// End is zero while it runs. For a waiting workload ([Run.Waits]) Start is the submit time.
	Start, Seen, End time.Time
	// Lost means that the scheduler stopped reporting the run before it ended, and that no node
	// observed its end. End is then the time of the last report.
	Lost bool
	// PreviousStarts are other starts under which the row was written before. An upsert deletes those rows first.
	// Start is among them if the stored row belongs to another run, or has steps of another one, so that nothing of
	// it remains. They are not read back.
	PreviousStarts []time.Time
	ExitCode       *int
	// Steps are the steps in the batch system's accounting. An upsert with any step replaces all
	// stored steps of the run. They are not read back.
	Steps []Step
	// Shares is the use of each user in a process group of several users; nil for all other runs. After [Run.Of] it has
	// the users that the row includes, and Partial reports that others are missing.
	Shares  map[string]Share
	Partial bool

	Row
}

// Share is one user's part of a process group with several users: totals by figure key, and the
// program with the most CPU time.
type Share struct {
	Command string             `json:"command,omitempty"`
	Amounts map[string]float64 `json:"amounts"`
}

// Of reduces a process group of several users to the use of the given owners. It replaces totals by the owners' totals,
// and means in proportion. Peaks, distributions and current values remain the group's. It does not change other
// runs, or a run in which the owners have no share.
func (r *Run) Of(owners []string) {
	shares := maps.Clone(r.Shares)
	maps.DeleteFunc(shares, func(o string, _ Share) bool { return !slices.Contains(owners, o) })
	if len(shares) == 0 || len(shares) == len(r.Shares) {
		return
	}
	scale := func(mean, part, whole *float64) *float64 {
		if mean == nil || part == nil || whole == nil || *whole <= 0 {
			return nil
		}
		v := *mean * min(*part / *whole, 1)
		return &v
	}
	whole := r.Row
	for i := range figuresOfRuns {
		if f := &figuresOfRuns[i]; f.How.Value == Total {
			*r.At(i) = nil
			for _, s := range shares {
				if v, ok := s.Amounts[f.Key]; ok {
					if have := *r.At(i); have != nil {
						v += *have
					}
					*r.At(i) = &v
				}
			}
		}
	}
	r.CoresMean = scale(r.CoresMean, r.CPUSeconds, whole.CPUSeconds)
	r.MemoryMeanBytes = scale(r.MemoryMeanBytes, r.MemoryByteSeconds, whole.MemoryByteSeconds)
	if _, ok := shares[r.Owner]; !ok {
		r.Owner = slices.Min(slices.Collect(maps.Keys(shares)))
	}
	r.Command, r.Shares, r.Partial = shares[r.Owner].Command, shares, true
}

// Waits reports whether the run is pending: the batch system reports it, but it is on no node yet.
func (r *Run) Waits() bool {
	if !r.End.IsZero() || r.Submit.IsZero() || !r.Start.Equal(r.Submit) {
		return false
	}
	switch r.State {
	case "pending", "requeue_hold", "requeue_fed", "special_exit", "resv_del_hold":
		return true
	}
	return false
}

// Began reports whether the run has begun. A run has not begun if it is waiting, if it was cancelled while waiting, or
// if it is the remaining record of an array with tasks of its own.
func (r *Run) Began() bool {
	never := r.State == "cancelled" && r.CPUSeconds == nil && r.Start.Equal(r.End)
	return !never && !r.Waits() && r.State != "pending" && r.State != "started"
}

// Step is one step of a run, as the batch system accounts for it.
type Step struct {
	ID    string // its name in the run, which is the part of its series: 0, batch, extern
	Name  string // as its owner named it, or the program
	State string // in the batch system's terms, lower case
	Nodes string // in the batch system's notation for lists of nodes

	Start, End time.Time // zero when not reported
	ExitCode   *int      // 128 plus the signal number if a signal ended it

	CPUSeconds, MemoryPeakBytes *float64 // the peak is one task's, as polled by the batch system
	Cores                       *float64 // allocated
}

// Figure returns a figure of the run by its key. It returns nil if the figure is unknown or not a figure of runs.
func (r *Row) Figure(key string) *float64 {
	if i := Index(Runs, key); i >= 0 {
		return *r.At(i)
	}
	return nil
}

// NeededMost returns an upper bound in bytes of the memory that the run needed. Without a bound, it returns the needed
// memory, or nil if that is unknown. The result is never below the needed memory, although figures from different nodes
// or times may contradict each other.
func (r *Row) NeededMost() *float64 {
	need, most := r.MemoryNeededPeakBytes, r.MemoryNeededMostBytes
	if need == nil || most == nil || *most < *need {
		return need
	}
	return most
}

// Apart is the relative difference above which both ends of a range are shown.
const Apart = 0.05

package client

import "time"

// ProbePage is the response of a probe beside an application: samples after a sequence number, in order. A
// probe keeps a sample until samples after it are requested.
type ProbePage struct {
	Pod    string `json:"pod,omitempty"`
	PodUID string `json:"pod_uid,omitempty"`
	// Start is the time of the first reading, the baseline of sample 1.
	Start time.Time `json:"start"`
	// Kernel is the kernel release, and Boot the boot id of the node.
	Kernel string `json:"kernel,omitempty"`
	Boot   string `json:"boot,omitempty"`
	// RateSeconds is the requested time between two readings, Wanted the requested number of samples, 0 for
	// no limit until the application ends.
	RateSeconds float64 `json:"rate_seconds"`
	Wanted      int64   `json:"wanted"`
	// Ended is true if no more samples follow, and Reason is why: completions, application, stopped.
	Ended  bool   `json:"ended"`
	Reason string `json:"reason,omitempty"`
	// Samples follow the requested sequence number without a gap; Last is the number of the latest sample.
	Samples []ProbeSample `json:"samples"`
	Last    int64         `json:"last"`
	// Absent are figures that could not be read, with the reason.
	Absent map[string]string `json:"absent,omitempty"`
	// Total and To are set only in the final summary: the sum of all samples, and the end of the last one.
	Total ProbeUse  `json:"total,omitzero"`
	To    time.Time `json:"to,omitzero"`
	// Result is set by a program that measures by itself: storage or network.
	Result *ProbeResult `json:"result,omitempty"`
}

// ProbeSample is the use of the processes of a pod between two readings. Cumulative figures are
// differences of counters; the others are values at the end.
type ProbeSample struct {
	// Seq counts from 1.
	Seq int64 `json:"seq"`
	// From and To are when the counters were read.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Total covers the whole pod without the probe, including processes that ended in between, if their parent
	// waited for them.
	Total ProbeUse `json:"total"`
	// Ended is the part of Total that is in no row: processes that have ended.
	Ended ProbeUse `json:"ended"`
	// Commands, Processes and Threads are the requested tables; Dropped is true if they were
	// discarded because they were not fetched.
	Commands  []ProbeRow `json:"commands,omitempty"`
	Processes []ProbeRow `json:"processes,omitempty"`
	Threads   []ProbeRow `json:"threads,omitempty"`
	Dropped   bool       `json:"dropped,omitempty"`
}

// ProbeUse is the use in an interval, in SI units. Nil figures could not be read.
type ProbeUse struct {
	UserSeconds   *float64 `json:"user_seconds,omitempty"`
	SystemSeconds *float64 `json:"system_seconds,omitempty"`
	CPUSeconds    *float64 `json:"cpu_seconds,omitempty"`
	GuestSeconds  *float64 `json:"guest_seconds,omitempty"`
	// WaitSeconds is the time runnable but not running, IOWaitSeconds the time waiting for storage.
	WaitSeconds     *float64 `json:"wait_seconds,omitempty"`
	IOWaitSeconds   *float64 `json:"io_wait_seconds,omitempty"`
	ReadBytes       *float64 `json:"read_bytes,omitempty"`
	WriteBytes      *float64 `json:"write_bytes,omitempty"`
	CancelledBytes  *float64 `json:"cancelled_write_bytes,omitempty"`
	MinorFaults     *float64 `json:"minor_faults,omitempty"`
	MajorFaults     *float64 `json:"major_faults,omitempty"`
	Voluntary       *float64 `json:"voluntary_switches,omitempty"`
	Involuntary     *float64 `json:"involuntary_switches,omitempty"`
	ChildCPUSeconds *float64 `json:"child_cpu_seconds,omitempty"`
	// At the end of the interval:
	ResidentBytes *float64 `json:"resident_bytes,omitempty"`
	VirtualBytes  *float64 `json:"virtual_bytes,omitempty"`
	StackBytes    *float64 `json:"stack_bytes,omitempty"`
	Threads       *float64 `json:"threads,omitempty"`
	Files         *float64 `json:"files,omitempty"`
}

// ProbeRow is one row of a table: a process, a thread, or all processes of one command.
type ProbeRow struct {
	PID     int32  `json:"pid,omitempty"`
	TID     int32  `json:"tid,omitempty"`
	Parent  int32  `json:"parent,omitempty"`
	Command string `json:"command"`
	// Count is the number of processes in the row.
	Count int `json:"count,omitempty"`
	// Container is the container id.
	Container string    `json:"container,omitempty"`
	Started   time.Time `json:"started,omitzero"`
	Policy    string    `json:"policy,omitempty"`
	Priority  *int      `json:"priority,omitempty"`
	Processor *int      `json:"processor,omitempty"`
	ProbeUse
}

// ProbeResult is the result of one of our measuring programs: named figures, and one row for each pair of pods.
type ProbeResult struct {
	Metric  string             `json:"metric"` // io-probe or network-probe
	From    time.Time          `json:"from"`
	To      time.Time          `json:"to"`
	Figures map[string]float64 `json:"figures,omitempty"`
	Pairs   []ProbePair        `json:"pairs,omitempty"`
}

// ProbePair is the network performance from one pod to another.
type ProbePair struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Round-trip times of one message, seconds.
	MinSeconds    float64 `json:"min_seconds,omitempty"`
	MedianSeconds float64 `json:"median_seconds,omitempty"`
	P99Seconds    float64 `json:"p99_seconds,omitempty"`
	MaxSeconds    float64 `json:"max_seconds,omitempty"`
	Trials        int     `json:"trials,omitempty"`
	// BytesPerSecond is the throughput of one stream.
	BytesPerSecond float64 `json:"bytes_per_second,omitempty"`
	// Error is why the pair has no figures.
	Error string `json:"error,omitempty"`
}

// Plus adds the use of the following interval, o. A sum with an unknown term is
// unknown; values at the end are those of o.
func (u ProbeUse) Plus(o ProbeUse) ProbeUse {
	out := o
	for _, f := range []struct{ sum, a, b **float64 }{
		{&out.UserSeconds, &u.UserSeconds, &o.UserSeconds}, {&out.SystemSeconds, &u.SystemSeconds, &o.SystemSeconds}, {&out.CPUSeconds, &u.CPUSeconds, &o.CPUSeconds},
		{&out.GuestSeconds, &u.GuestSeconds, &o.GuestSeconds}, {&out.WaitSeconds, &u.WaitSeconds, &o.WaitSeconds}, {&out.IOWaitSeconds, &u.IOWaitSeconds, &o.IOWaitSeconds},
		{&out.ReadBytes, &u.ReadBytes, &o.ReadBytes}, {&out.WriteBytes, &u.WriteBytes, &o.WriteBytes}, {&out.CancelledBytes, &u.CancelledBytes, &o.CancelledBytes},
		{&out.MinorFaults, &u.MinorFaults, &o.MinorFaults}, {&out.MajorFaults, &u.MajorFaults, &o.MajorFaults}, {&out.Voluntary, &u.Voluntary, &o.Voluntary},
		{&out.Involuntary, &u.Involuntary, &o.Involuntary}, {&out.ChildCPUSeconds, &u.ChildCPUSeconds, &o.ChildCPUSeconds},
	} {
		*f.sum = nil
		if *f.a != nil && *f.b != nil {
			v := **f.a + **f.b
			*f.sum = &v
		}
	}
	return out
}

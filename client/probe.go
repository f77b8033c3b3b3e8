package client

import "time"

// ProbePage is what a probe beside an application serves: samples after a sequence number, in order. A
// probe keeps a sample until it is asked for what comes after it.
type ProbePage struct {
	Pod    string `json:"pod,omitempty"`
	PodUID string `json:"pod_uid,omitempty"`
	// Start is the time of the first reading, the baseline of sample 1.
	Start time.Time `json:"start"`
	// Kernel is its release, and Boot the boot id of the node.
	Kernel string `json:"kernel,omitempty"`
	Boot   string `json:"boot,omitempty"`
	// RateSeconds is the wished time between two readings, Wanted the wished number of samples, 0 for as
	// many as come until the application ends.
	RateSeconds float64 `json:"rate_seconds"`
	Wanted      int64   `json:"wanted"`
	// Ended says that no sample will follow, and Reason why: completions, application, stopped.
	Ended  bool   `json:"ended"`
	Reason string `json:"reason,omitempty"`
	// Samples follow the wished number without a gap; Last is the number of the last there is.
	Samples []ProbeSample `json:"samples"`
	Last    int64         `json:"last"`
	// Absent are figures that could not be read, with the reason.
	Absent map[string]string `json:"absent,omitempty"`
	// Total and To stand in the summary at the end only: what all samples used, and when the last ended.
	Total ProbeUse  `json:"total,omitzero"`
	To    time.Time `json:"to,omitzero"`
	// Result is of a program that measures by itself: storage or network.
	Result *ProbeResult `json:"result,omitempty"`
}

// ProbeSample is what the processes of a pod used between two readings. Every figure that adds up is the
// difference of a counter; the others are of the end.
type ProbeSample struct {
	// Seq counts from 1.
	Seq int64 `json:"seq"`
	// From and To are when the counters were read.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Total is of the whole pod without the probe: what ended in between is in it, as far as a process
	// waited for it.
	Total ProbeUse `json:"total"`
	// Ended is the part of Total that is in no row: processes that are gone.
	Ended ProbeUse `json:"ended"`
	// Commands, Processes and Threads are the tables that were asked for; Dropped says that they had to be
	// left out because nobody fetched them.
	Commands  []ProbeRow `json:"commands,omitempty"`
	Processes []ProbeRow `json:"processes,omitempty"`
	Threads   []ProbeRow `json:"threads,omitempty"`
	Dropped   bool       `json:"dropped,omitempty"`
}

// ProbeUse is what was used in an interval, in SI units. Nil is what could not be read.
type ProbeUse struct {
	UserSeconds   *float64 `json:"user_seconds,omitempty"`
	SystemSeconds *float64 `json:"system_seconds,omitempty"`
	CPUSeconds    *float64 `json:"cpu_seconds,omitempty"`
	GuestSeconds  *float64 `json:"guest_seconds,omitempty"`
	// WaitSeconds is the time in which it could have run, IOWaitSeconds that in which it waited for storage.
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

// ProbeRow is one line of a table: a process, a thread, or all processes of one command.
type ProbeRow struct {
	PID     int32  `json:"pid,omitempty"`
	TID     int32  `json:"tid,omitempty"`
	Parent  int32  `json:"parent,omitempty"`
	Command string `json:"command"`
	// Count is how many processes the row adds up.
	Count int `json:"count,omitempty"`
	// Container is the id of its container.
	Container string    `json:"container,omitempty"`
	Started   time.Time `json:"started,omitzero"`
	Policy    string    `json:"policy,omitempty"`
	Priority  *int      `json:"priority,omitempty"`
	Processor *int      `json:"processor,omitempty"`
	ProbeUse
}

// ProbeResult is what a program of ours measured: named figures, and one row for each pair of pods.
type ProbeResult struct {
	Metric  string             `json:"metric"` // io-probe or network-probe
	From    time.Time          `json:"from"`
	To      time.Time          `json:"to"`
	Figures map[string]float64 `json:"figures,omitempty"`
	Pairs   []ProbePair        `json:"pairs,omitempty"`
}

// ProbePair is the network from one pod to another.
type ProbePair struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Round trips of one message, seconds.
	MinSeconds    float64 `json:"min_seconds,omitempty"`
	MedianSeconds float64 `json:"median_seconds,omitempty"`
	P99Seconds    float64 `json:"p99_seconds,omitempty"`
	MaxSeconds    float64 `json:"max_seconds,omitempty"`
	Trials        int     `json:"trials,omitempty"`
	// BytesPerSecond is the throughput of one stream.
	BytesPerSecond float64 `json:"bytes_per_second,omitempty"`
	// Error says why the pair has no figures.
	Error string `json:"error,omitempty"`
}

// Plus is what was used in this interval and in the next one, o. A sum of which a part is unknown is
// unknown; figures of the end are those of o.
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

package wire

import "time"

// ProbePage is the response of a probe beside an application: samples after a sequence number, in
// order. The probe keeps a sample until later samples are requested.
type ProbePage struct {
	Pod    string `json:"pod,omitempty"`
	PodUID string `json:"pod_uid,omitempty"`
	// Start is the time of the first reading, the baseline of sample 1.
	Start time.Time `json:"start"`
	// Kernel is the kernel release, and Boot the boot id of the node.
	Kernel string `json:"kernel,omitempty"`
	Boot   string `json:"boot,omitempty"`
	// RateSeconds is the requested time between two readings, and Wanted the requested number of
	// samples, 0 for no limit until the application ends.
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

// ProbeSample is the use of a pod's processes between two readings. Cumulative figures are
// differences of counters; the others are values at the end.
type ProbeSample struct {
	Seq  int64     `json:"seq"`  // Number of the sample, from 1.
	From time.Time `json:"from"` // Time of the first reading of the counters.
	To   time.Time `json:"to"`   // Time of the second reading.
	// Use of the whole pod without the probe, including processes that ended in between if their
	// parent reaped them.
	Total     ProbeUse   `json:"total"`
	Ended     ProbeUse   `json:"ended"`               // The part of total that is in no row: processes that have ended.
	Commands  []ProbeRow `json:"commands,omitempty"`  // Use by the processes of each command.
	Processes []ProbeRow `json:"processes,omitempty"` // Use of each process, if requested.
	Threads   []ProbeRow `json:"threads,omitempty"`   // Use of each thread, if requested.
	Dropped   bool       `json:"dropped,omitempty"`   // Whether tables were left out.
}

// ProbeUse is the use in an interval, in SI units. Figures that could not be read are null.
type ProbeUse struct {
	UserSeconds     *float64 `json:"user_seconds,omitempty"`          // Processor time in user mode, seconds.
	SystemSeconds   *float64 `json:"system_seconds,omitempty"`        // Processor time in the kernel, seconds.
	CPUSeconds      *float64 `json:"cpu_seconds,omitempty"`           // Processor time, seconds.
	GuestSeconds    *float64 `json:"guest_seconds,omitempty"`         // Part for virtual machines, seconds.
	WaitSeconds     *float64 `json:"wait_seconds,omitempty"`          // Time runnable without a processor, seconds.
	IOWaitSeconds   *float64 `json:"io_wait_seconds,omitempty"`       // Time waiting for storage, seconds.
	ReadBytes       *float64 `json:"read_bytes,omitempty"`            // Read from storage, bytes.
	WriteBytes      *float64 `json:"write_bytes,omitempty"`           // Written to storage, bytes.
	CancelledBytes  *float64 `json:"cancelled_write_bytes,omitempty"` // Written and dropped before it reached storage, bytes.
	MinorFaults     *float64 `json:"minor_faults,omitempty"`          // Page faults without storage.
	MajorFaults     *float64 `json:"major_faults,omitempty"`          // Page faults that waited for storage.
	Voluntary       *float64 `json:"voluntary_switches,omitempty"`    // Number of times that it yielded the processor.
	Involuntary     *float64 `json:"involuntary_switches,omitempty"`  // Number of times that it was preempted.
	ChildCPUSeconds *float64 `json:"child_cpu_seconds,omitempty"`     // CPU time of reaped children, seconds.
	ResidentBytes   *float64 `json:"resident_bytes,omitempty"`        // Resident memory at the end, bytes.
	VirtualBytes    *float64 `json:"virtual_bytes,omitempty"`         // Virtual memory at the end, bytes.
	StackBytes      *float64 `json:"stack_bytes,omitempty"`           // Stack at the end, bytes.
	Threads         *float64 `json:"threads,omitempty"`               // Threads at the end.
	Files           *float64 `json:"files,omitempty"`                 // Open files at the end.
}

// ProbeRow is one row of a table: a process, a thread, or all processes of one command.
type ProbeRow struct {
	PID       int32     `json:"pid,omitempty"`       // Process id in the pod.
	TID       int32     `json:"tid,omitempty"`       // Thread id in the pod.
	Parent    int32     `json:"parent,omitempty"`    // Process id of its parent.
	Command   string    `json:"command"`             // Name of the program.
	Count     int       `json:"count,omitempty"`     // Number of processes in the row.
	Container string    `json:"container,omitempty"` // Id of its container.
	Started   time.Time `json:"started,omitzero"`    // Start time.
	Policy    string    `json:"policy,omitempty"`    // Scheduling policy.
	Priority  *int      `json:"priority,omitempty"`  // Priority.
	Processor *int      `json:"processor,omitempty"` // Processor of its last run.
	ProbeUse
}

// ProbeResult is the result of one of our measuring programs: named figures, and one row for each pair of pods.
type ProbeResult struct {
	Metric  string             `json:"metric"`            // io-probe or network-probe.
	From    time.Time          `json:"from"`              // Start time.
	To      time.Time          `json:"to"`                // End time.
	Figures map[string]float64 `json:"figures,omitempty"` // Figures by name.
	Pairs   []ProbePair        `json:"pairs,omitempty"`   // The network between each two pods.
}

// ProbePair is the network performance from one pod to another.
type ProbePair struct {
	From           string  `json:"from"`                       // Pod that asked.
	To             string  `json:"to"`                         // Pod that answered.
	MinSeconds     float64 `json:"min_seconds,omitempty"`      // Shortest round trip, seconds.
	MedianSeconds  float64 `json:"median_seconds,omitempty"`   // Median round trip, seconds.
	P99Seconds     float64 `json:"p99_seconds,omitempty"`      // 99th percentile of round trips, seconds.
	MaxSeconds     float64 `json:"max_seconds,omitempty"`      // Longest round trip, seconds.
	Trials         int     `json:"trials,omitempty"`           // Number of round trips.
	BytesPerSecond float64 `json:"bytes_per_second,omitempty"` // Throughput of one stream, bytes per second.
	Error          string  `json:"error,omitempty"`            // Reason why the pair has no figures.
}

// Plus adds the use o of the following interval. A sum with an unknown term is unknown. Values at
// the end are taken from o.
func (u ProbeUse) Plus(o ProbeUse) ProbeUse {
	out := o
	for _, f := range []struct{ sum, a, b **float64 }{
		{&out.UserSeconds, &u.UserSeconds, &o.UserSeconds}, {&out.SystemSeconds, &u.SystemSeconds, &o.SystemSeconds},
		{&out.CPUSeconds, &u.CPUSeconds, &o.CPUSeconds},
		{&out.GuestSeconds, &u.GuestSeconds, &o.GuestSeconds}, {&out.WaitSeconds, &u.WaitSeconds, &o.WaitSeconds},
		{&out.IOWaitSeconds, &u.IOWaitSeconds, &o.IOWaitSeconds},
		{&out.ReadBytes, &u.ReadBytes, &o.ReadBytes}, {&out.WriteBytes, &u.WriteBytes, &o.WriteBytes},
		{&out.CancelledBytes, &u.CancelledBytes, &o.CancelledBytes},
		{&out.MinorFaults, &u.MinorFaults, &o.MinorFaults}, {&out.MajorFaults, &u.MajorFaults, &o.MajorFaults},
		{&out.Voluntary, &u.Voluntary, &o.Voluntary},
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

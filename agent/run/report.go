package run

import "time"

// MemoryBounds are the bounds of memory.
type MemoryBounds struct {
	// MemoryCgroupPeakBytes holds page cache and kernel memory as well, as a limit would count.
	MemoryCgroupPeakBytes *uint64 `json:"memory_cgroup_peak_bytes,omitempty"`
	// MemoryAtMost reports that peak and mean are upper bounds, because processes seem to share an
	// address space and no source confirms it.
	MemoryAtMost bool `json:"memory_at_most,omitempty"`
	// MemoryAtLeast reports that they are lower bounds: MemoryUnseen is set, or the machine holds
	// more shared memory than the tree maps, by an unknown owner.
	MemoryAtLeast bool `json:"memory_at_least,omitempty"`
	// MemoryUnseen reports that some processes ended too soon to be measured. Each held less than reckon itself, some 20 MiB.
	MemoryUnseen bool `json:"memory_unseen,omitempty"`
}

// Report is the use of a command from start to end, as printed by `reckon run --json`. Pointers are
// nil for figures that could not be measured.
type Report struct {
	Command     []string  `json:"command"`
	Start       time.Time `json:"start"`
	WallSeconds float64   `json:"wall_seconds"`
	ExitCode    int       `json:"exit_code"`
	Signal      string    `json:"signal,omitempty"` // the signal that ended the command

	CPU   CPU   `json:"cpu_seconds"`
	Cores Cores `json:"cores"`
	// CPUWaitSeconds is the time threads were ready to run and had no processor.
	CPUWaitSeconds *float64 `json:"cpu_wait_seconds"`

	// MemoryPeakBytes and MemoryMeanBytes are the resident memory of the whole tree: anonymous,
	// shared and mapped files. They exclude page cache that no process maps.
	MemoryPeakBytes *uint64 `json:"memory_peak_bytes"`
	MemoryMeanBytes *uint64 `json:"memory_mean_bytes"`
	// MemoryLargestBytes is the peak of the largest single process.
	MemoryLargestBytes *uint64 `json:"memory_largest_process_bytes"`
	MemoryBounds

	IO IO `json:"io_bytes"`
	// IOCalls counts bytes passed by read and write calls: caches, pipes and terminals too.
	IOCalls *IO `json:"io_call_bytes,omitempty"`

	// GPU is the GPU use of the tree; null if it had none open.
	GPU *GPU `json:"gpu,omitempty"`

	Switches Switches `json:"context_switches"`
	Faults   Faults   `json:"page_faults"`

	// Processes is the number of started processes including the command. If ProcessesExact is
	// false, short ones may be missing and it is a minimum.
	Processes      uint64 `json:"processes"`
	ProcessesExact bool   `json:"processes_exact"`
	ProcessesPeak  int    `json:"processes_peak"`
	ThreadsPeak    int    `json:"threads_peak"`

	// Commands sums the tree by program name, in descending order of CPU time. The last element,
	// named "other", holds the rest.
	Commands []Command `json:"commands"`
	// Survivors still ran when the command ended. They were left alone.
	Survivors []Survivor `json:"still_running,omitempty"`

	Machine   Machine   `json:"machine"`
	Judgement []Verdict `json:"judgement"`
	// Source is a short word for the sources of the figures ("cgroup+perf+wait4"); Sources has the
	// source of each figure.
	Source  string            `json:"source"`
	Sources map[string]string `json:"sources"`
	// Notes name unmeasured figures with the reason and the remedy.
	Notes []string `json:"notes,omitempty"`
	// OverheadCPUSeconds is the cost of watching: CPU time of the watcher itself.
	OverheadCPUSeconds float64 `json:"overhead_cpu_seconds"`

	// Rows is the profile for a plot: at most a few thousand windows of 1 s, which are merged in
	// pairs as the run gets longer.
	Rows []Row `json:"-"`
}

// CPU is CPU time by mode, seconds.
type CPU struct {
	User   float64 `json:"user"`
	System float64 `json:"system"`
	Total  float64 `json:"total"`
}

// Cores is CPU time per second: the mean of the run, and quantiles over windows of 1 s.
type Cores struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	Max  float64 `json:"max"`
}

// IO is bytes by direction.
type IO struct {
	Read  uint64 `json:"read"`
	Write uint64 `json:"write"`
}

// Switches counts context switches. In a voluntary one the thread began to wait; in an
// involuntary one it lost the processor.
type Switches struct {
	Voluntary   uint64 `json:"voluntary"`
	Involuntary uint64 `json:"involuntary"`
}

// Faults counts page faults. A major fault had to read the page from storage.
type Faults struct {
	Minor uint64 `json:"minor"`
	Major uint64 `json:"major"`
}

// Command is one program name of the tree.
type Command struct {
	Name      string `json:"command"`
	Processes uint64 `json:"processes"`
	// CPUSeconds is all CPU time; User and System are its parts if the source distinguishes them.
	CPUSeconds float64  `json:"cpu_seconds"`
	User       *float64 `json:"cpu_user_seconds,omitempty"`
	System     *float64 `json:"cpu_system_seconds,omitempty"`
	// MemoryPeakBytes is the largest resident size seen of one process of that name.
	MemoryPeakBytes *uint64 `json:"memory_peak_bytes,omitempty"`
	IO              *IO     `json:"io_bytes,omitempty"`
}

// Survivor is a process that outlived the command.
type Survivor struct {
	PID         int     `json:"pid"`
	Name        string  `json:"command"`
	CPUSeconds  float64 `json:"cpu_seconds"` // so far, its waited-for children included
	MemoryBytes uint64  `json:"memory_bytes"`
}

// Machine is the machine that the command had to itself.
type Machine struct {
	Cores       float64 `json:"cores"`        // by affinity and cgroup quota
	MemoryBytes uint64  `json:"memory_bytes"` // by cgroup limits, else of the machine
	// MemoryLimited means that MemoryBytes is a limit of a cgroup.
	MemoryLimited bool `json:"memory_limited"`
}

// Verdict is one sentence about one resource.
type Verdict struct {
	Resource string `json:"resource"` // cpu, wait, memory, io, processes
	Level    string `json:"level"`    // ok, notice, warning
	Text     string `json:"text"`
}

// Row is one window of the profile: rates and levels at its end. A NaN is a gap.
type Row struct {
	Start, Seconds     float64 // since the command started; width
	Cores              float64
	User, System, Wait float64 // CPU seconds per second
	Memory             float64 // bytes, mean over the window
	MemoryPeak         float64 // bytes, highest sample in the window
	Anon, File         float64 // bytes at the end; File is mapped files and shared memory
	Read, Write        float64 // bytes per second
	Processes, Threads float64
}

// Package efficiency judges one workload from its totals. Its plain sentences, each with a number,
// describe the used part of the allocation, the causes of delays, and the end of the workload.
//
// It is pure and safe for concurrent use. Figures are in SI base units (seconds, bytes, cores). A
// nil figure was not measured and is not judged. There are no errors, because anything that cannot
// be judged is left out. The rules follow the common questions of help desks (Slurm's seff,
// Princeton's jobstats). They use the sustained use (p95, mean), never a single peak, except for
// memory, where the request must cover the peak. A figure that is a lower bound, an estimate or
// modelled is reported as such, and not judged. Recommended requests come only from package
// rightsize.
package efficiency

import (
	"cmp"
	_ "embed"
	"slices"

	"reckon/figure"
	"reckon/internal/phrase"
)

//go:embed texts.txt
var textFile string

var texts = phrase.MustParse(textFile)

// Severity ranks verdicts by how urgently they need attention.
type Severity string

// Severities in descending order.
const (
	Critical Severity = "critical" // it failed, or was harmed
	Warning  Severity = "warning"  // it wastes or waits, and there is a remedy
	Good     Severity = "good"     // as it should be
	Info     Severity = "info"     // context for the others
)

// Verdict is one sentence and the number behind it.
type Verdict struct {
	Kind     string // oom, exit, cores, memory, ...
	Severity Severity
	Text     string // the sentence as it is shown
	Sentence phrase.Sentence
	Value    float64
	Unit     string // ratio, bytes, seconds, count, code
}

// Node is the part of a workload on one node.
type Node struct {
	Name                           string
	CPUSeconds, Memory, GPUSeconds *float64
}

// TaskUse is the balance of CPU use over the tasks of a step on a node.
type TaskUse struct {
	Node, Step string
	Tasks      float64
	// CPUSeconds is the CPU time of all tasks, Busiest the CPU time of the busiest one.
	CPUSeconds, Busiest float64
}

// Step is a job step as reported by the batch system.
type Step struct {
	ID, Name    string
	State       string // lower case
	ExitCode    *int
	WallSeconds float64
	Early       bool // it ended well before the job did
}

// Earlier is an earlier run of the same job.
type Earlier struct {
	State       string
	WallSeconds float64
}

// Neighbour is another owner's use of the nodes of a workload while it ran.
type Neighbour struct {
	Owner string
	Cores float64 // on average
}

// Usage is a run with facts beyond its record. The exactness of its figures is in the record.
type Usage struct {
	figure.Run
	Running     bool
	Batch       bool    // resources were allocated by a batch system; otherwise they are requests
	WallSeconds float64 // the time it ran
	Waited      float64
	JobSteps    []Step
	Before      *Earlier // the run after which it was queued again; nil if there is none
	MostThreads *float64 // maximum at a time
	// EmptySeconds is the time that no process was seen although the batch system reports the job as
	// running and its nodes are monitored. It is nil if there is a process or if that is unknown.
	EmptySeconds *float64
	// RestSeconds is the time up to its end, or now, in which it did nothing, at least; nil if that is unknown.
	RestSeconds *float64

	MemoryStalledSeconds, RefaultBytes *float64
	// MemorySampled is true if the peak is the maximum of the samples taken by accounting.
	MemorySampled bool
	// MemoryOfTask is true if the peak may be the largest task's alone, while others ran on other nodes.
	MemoryOfTask          bool
	StorageStalledSeconds *float64

	DiskLimit *DiskLimit // nil if it reached no limit of a control group on a disk

	Congestion *Congestion // nil if no network device of its nodes was full
	// Resent is the number of retransmitted TCP segments, Sent the payload bytes sent over TCP, and
	// SentCalls the number of send calls.
	Resent, Sent, SentCalls *float64

	GPUEngines *GPUEngines // nil if no GPU counts its engines

	Cores, Memory, GPUs *float64 // allocated, or requested
	// MemoryRequested means that Memory is the request, because the allocation is known for cores
	// but not for memory.
	MemoryRequested bool
	// Resized is true if its allocation was changed while it ran: Cores, Memory and GPUs are the final values.
	Resized bool
	// CoresImplied is true if no cores were requested: Cores are the nodes'.
	CoresImplied bool
	PerNode      []Node
	Tasks        []TaskUse   // of steps with several tasks on a node
	Neighbours   []Neighbour // in descending order of use
}

// memoryExact returns the exactness of the peak of needed memory or, if that is unknown, of all memory.
func (u *Usage) memoryExact() figure.Exactness {
	if u.MemoryNeededPeakBytes != nil {
		return u.Exactness["memory_needed_peak_bytes"]
	}
	return u.Exactness["memory_peak_bytes"]
}

// Thresholds. Below settled, efficiency is not judged: start-up and exit dominate.
const (
	settled   = 30.0 // seconds
	worth     = 10.0 // seconds of waiting worth mentioning
	low       = 0.5  // share of an allocation below which a smaller one is worthwhile
	well      = 0.8  // share of an allocation that is good use
	above     = 1.05 // share of an allocation that exceeds it beyond clock ticks and sampling
	waiting   = 0.1  // share of the runnable time of its threads, or of the wall time
	throttled = 0.05 // of the wall time
	uneven    = 0.5  // of the mean node's work
	idleGPU   = 0.15 // of the GPUs allocated
	busyGPU   = 0.7
	none      = 0.05 // cores in use that count as none
	bursts    = 0.01 // cores in use below which a burst makes no difference
	empty     = 600  // seconds without a process worth mentioning
	near      = 0.95 // share of its memory that is nearly all
	advised   = 1.2  // times its need is asked for the next time, see package rightsize
)

// Sampled is the length in seconds from which the samples of accounting show the memory of a run. By default, Slurm
// samples every 30 s.
const Sampled = 600.0

// Judge returns the verdicts, the most severe first. The end of the workload precedes waste.
func Judge(u Usage) []Verdict {
	j := &judge{u: u}
	if j.reportNotStarted() {
		j.reportRequeue()
		return j.out
	}
	j.reportEnding()
	j.reportRequeue()
	j.reportRestarts()
	if !u.Running && slices.Contains([]string{"node_fail", "boot_fail", "launch_failed", "reconfig_fail"}, u.State) {
		return j.out // the use of a failed run is not judged
	}
	j.reportMemory()
	if cpu, _ := figure.Known(u.CPUSeconds); u.WallSeconds == 0 && cpu >= 1 && !u.Batch {
		j.addVerdict("short", Info, 0, "seconds", "short.glimpse", nil)
	} else if u.WallSeconds < settled {
		key := "short"
		if u.CoresImplied && !u.Batch && u.Memory == nil { // it asked for nothing
			key = "short.free"
		}
		j.addVerdict("short", Info, u.WallSeconds, "seconds", key,
			phrase.Words{"ran": runTimeStart(u.Running), "wall": durationText(u.WallSeconds), "was": j.allocationVerb()})
		j.reportWaits() // seconds that it lost, whatever it used
	} else {
		if u.CPUSeconds == nil && u.MemoryNeededPeakBytes == nil && u.MemoryPeakBytes == nil && !u.Running && u.Batch {
			j.addVerdict("unmeasured", Info, 0, "seconds", "unmeasured", nil)
		}
		if !j.reportEmpty() && !j.reportHardlyRan() {
			j.reportCores()
			j.reportGPUs()
			j.gpuHost()
			j.gpuKind()
			j.counters()
		}
		j.reportIdleEnd()
		j.reportWaits()
		j.reportStorage()
		j.diskLimit()
		j.reportNetwork()
		j.reportBalance()
		j.reportTimeLimit()
	}
	slices.SortStableFunc(j.out, func(a, b Verdict) int { return cmp.Compare(a.rank(), b.rank()) })
	return j.out
}

// ranToEnd reports whether the run is running, completed or timed out. A run that ended early for another reason
// might have needed more later.
func (j *judge) ranToEnd() bool {
	return j.u.Running || slices.Contains([]string{"", "completed", "timeout"}, j.u.State)
}

// rank returns the position of a verdict in the order by severity; lower comes first. The deliberate end of a workload
// precedes verdicts on its use, because it explains them.
func (v *Verdict) rank() int {
	if v.Severity != Critical && slices.Contains([]string{"cancelled", "preempted", "lost", "exit"}, v.Kind) {
		return 1
	}
	return 2 * slices.Index([]Severity{Critical, Warning, Good, Info}, v.Severity)
}

type judge struct {
	u   Usage
	out []Verdict
}

func (j *judge) addVerdict(kind string, s Severity, value float64, unit, key string, words phrase.Words) {
	of := texts.Sentence(key, words)
	j.out = append(j.out, Verdict{Kind: kind, Severity: s, Sentence: of, Text: of.String(), Value: value, Unit: unit})
}

// allocationVerb returns the verb for the way in which the workload got its resources.
func (j *judge) allocationVerb() string {
	if j.u.Batch {
		return "was allocated"
	}
	return "asked for"
}

// reportTimeLimit reports a time limit far above the run time.
func (j *judge) reportTimeLimit() {
	asked, ok := figure.Known(j.u.RequestSeconds)
	well := j.u.State == "completed" || j.u.State == "" && (j.u.ExitCode == nil || *j.u.ExitCode == 0)
	if !ok || asked <= 0 || j.u.Running || !well {
		return
	}
	share := j.u.WallSeconds / asked
	if share < 0.25 && asked-j.u.WallSeconds >= 3600 {
		j.addVerdict("time", Info, share, "ratio", "time",
			phrase.Words{"wall": phrase.Time(j.u.WallSeconds), "asked": phrase.Time(asked), "share": phrase.Percent(share)})
	}
}

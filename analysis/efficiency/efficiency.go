// Package efficiency judges one workload from its totals, in plain words with the
// number behind each: what it used of what it was allocated, what held it up, and how it ended.
//
// It is pure: no file, no network, no clock, and safe for concurrent use. Figures are
// in SI base units (seconds, bytes, cores); a nil figure was not measured, and nothing
// is said about it. There are no errors: what can not be judged is left out. The rules
// follow what help desks ask people about (Slurm's seff, Princeton's jobstats); the
// sustained use (p95, mean) decides, never a single peak, but for memory, of which the
// peak is what a request must hold. A figure that is a lower bound, an estimate or a model is
// said to be one, and not judged. What to ask for next time is said by package rightsize, once.
package efficiency

import (
	"cmp"
	_ "embed"
	"slices"

	"reckon/figure"
	"reckon/figure/format"
	"reckon/internal/phrase"
)

//go:embed texts.txt
var textFile string

var texts = phrase.MustParse(textFile)

// Severity orders verdicts by how much they ask of the reader.
type Severity string

// The severities, the gravest first.
const (
	Critical Severity = "critical" // it failed, or was harmed
	Warning  Severity = "warning"  // it wastes or waits, and something can be done
	Good     Severity = "good"     // as it should be
	Info     Severity = "info"     // a fact to read the others by
)

// Verdict is one sentence and the number behind it.
type Verdict struct {
	Kind     string // oom, exit, cores, memory, ...
	Severity Severity
	Text     string
	Value    float64
	Unit     string // ratio, bytes, seconds, count, code
}

// Node is the piece of a workload on one node.
type Node struct {
	Name                           string
	CPUSeconds, Memory, GPUSeconds *float64
}

// TaskUse is how evenly the tasks of a step worked on a node.
type TaskUse struct {
	Node, Step string
	Tasks      float64
	// CPUSeconds is of all tasks together, Busiest of the one that used most.
	CPUSeconds, Busiest float64
}

// Step is a step of a job, by the batch system.
type Step struct {
	ID, Name    string
	State       string // lower case
	ExitCode    *int
	WallSeconds float64
}

// Neighbour is another owner's use of the nodes of a workload in its time.
type Neighbour struct {
	Owner string
	Cores float64 // on average
}

// Usage is what is known of a workload.
type Usage struct {
	Running  bool
	State    string // of the batch system, lower case, or empty
	Reason   string // of the batch system, why it waits
	EndedBy  string // the name of the user who cancelled it, or empty
	Batch    bool   // a batch system allocated what it holds; else it is a request
	Waited   float64
	ExitCode *int

	WallSeconds float64
	Steps       []Step

	CPUSeconds, CPUWaitSeconds, CoresP95, ThrottledSeconds *float64
	Threads                                                *float64 // the most at a time
	// EmptySeconds is for how long no process of it was seen, though it runs by the batch system
	// and its nodes are watched; nil where one was, or nobody looked.
	EmptySeconds *float64
	CPUExact     figure.Exactness

	MemoryNeeded, MemoryPeak, SwapPeak, OOMKills *float64
	MemoryStalledSeconds, RefaultBytes           *float64
	MemoryExact                                  figure.Exactness
	// MemorySampled says that the peak is the highest of the samples that accounting takes.
	MemorySampled bool
	// MemoryOfTask says that it may be that of the largest task alone, while others ran on other nodes.
	MemoryOfTask bool

	// IOWaitSeconds is what its threads slept until storage had answered, added up.
	IOWaitSeconds                                *float64
	StorageStalledSeconds, ReadBytes, WriteBytes *float64

	Counted Counted // of its processors

	GPUSeconds *float64
	GPUExact   figure.Exactness
	GPUEngines *GPUEngines // nil where no GPU counts them

	Cores, Memory, GPUs, TimeLimit *float64 // allocated, or asked for
	// MemoryRequested says that no allocation of memory is known beside that of cores: Memory is
	// what it asked for.
	MemoryRequested bool
	// Resized says that its allocation was changed while it ran: Cores, Memory and GPUs are what it had last.
	Resized bool
	// CoresImplied says that nobody asked for cores: Cores are those of the nodes.
	CoresImplied bool
	Nodes        []Node
	Tasks        []TaskUse   // of the steps that have several tasks on a node
	Neighbours   []Neighbour // the one who used most first
}

// Thresholds. Below settled nothing is said about efficiency: start and end weigh too much.
const (
	settled   = 30.0 // seconds
	worth     = 10.0 // seconds of waiting that are worth a word
	low       = 0.5  // share of an allocation that is worth a smaller one
	well      = 0.8  // share of an allocation that is used well
	above     = 1.05 // share of an allocation that is more than it: beyond clock ticks and sampling
	waiting   = 0.1  // share of the time that its threads wanted to run, or of the wall time
	throttled = 0.05 // of the wall time
	uneven    = 0.5  // of the mean node's work
	idleGPU   = 0.15 // of the GPUs allocated
	busyGPU   = 0.7
	none      = 0.05 // cores in use that are none
	empty     = 600  // seconds without a process that are worth a word
	near      = 0.95 // share of its memory that is nearly all
)

// Sampled is how long a run must be for the samples of accounting to show its memory: Slurm takes one every 30 s by default.
const Sampled = 600.0

// Judge says what is worth saying, the gravest first, and before waste how the workload ended.
func Judge(u Usage) []Verdict {
	j := &judge{u: u}
	if j.neverRan() {
		return j.out
	}
	j.ending()
	if !u.Running && slices.Contains([]string{"node_fail", "boot_fail", "launch_failed", "reconfig_fail"}, u.State) {
		return j.out // what it used of what failed is not known
	}
	j.memory()
	if cpu, _ := known(u.CPUSeconds); u.WallSeconds == 0 && cpu >= 1 && !u.Batch {
		j.say("short", Info, 0, "seconds", "short.glimpse", nil)
	} else if u.WallSeconds < settled {
		j.say("short", Info, u.WallSeconds, "seconds", "short", phrase.Words{"ran": ran(u.Running), "wall": lasted(u.WallSeconds), "was": j.was()})
	} else {
		if u.CPUSeconds == nil && u.MemoryNeeded == nil && u.MemoryPeak == nil && !u.Running && u.Batch {
			j.say("unmeasured", Info, 0, "seconds", "unmeasured", nil)
		}
		if !j.empty() && !j.idle() {
			j.cores()
			j.gpus()
			j.gpuHost()
			j.gpuKind()
			j.counters()
		}
		j.waits()
		j.storage()
		j.balance()
		j.time()
	}
	slices.SortStableFunc(j.out, func(a, b Verdict) int { return cmp.Compare(a.rank(), b.rank()) })
	return j.out
}

// ranThrough reports whether it runs, or came to an end of its own or of its time: what was stopped before may have needed more
// later.
func (j *judge) ranThrough() bool {
	return j.u.Running || slices.Contains([]string{"", "completed", "timeout"}, j.u.State)
}

// rank orders verdicts by severity; that somebody meant to end the workload comes before what is
// said of its use, since it explains that.
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

func (j *judge) say(kind string, s Severity, value float64, unit, key string, words phrase.Words) {
	j.out = append(j.out, Verdict{Kind: kind, Severity: s, Text: texts.Say(key, words), Value: value, Unit: unit})
}

// was is how the workload came by what it holds.
func (j *judge) was() string {
	if j.u.Batch {
		return "was allocated"
	}
	return "asked for"
}

// time says when it asked for much more time than it took.
func (j *judge) time() {
	asked, ok := known(j.u.TimeLimit)
	well := j.u.State == "completed" || j.u.State == "" && (j.u.ExitCode == nil || *j.u.ExitCode == 0)
	if !ok || asked <= 0 || j.u.Running || !well {
		return
	}
	share := j.u.WallSeconds / asked
	if share < 0.25 && asked-j.u.WallSeconds >= 3600 {
		j.say("time", Info, share, "ratio", "time", phrase.Words{"wall": format.Time(j.u.WallSeconds), "asked": format.Time(asked), "share": format.Percent(share)})
	}
}

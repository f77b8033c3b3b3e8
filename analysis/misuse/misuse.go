// Package misuse finds work that holds what it does not use, harms itself, or can never
// begin: GPUs that nobody computes on, far too large a request, an allocation without a
// process, many small jobs that together weigh, thrashing, work that is not spread.
//
// Each rule looks at sustained figures (means, p95, totals over time), never at a single
// peak, except for memory, of which the peak is what a request must hold. What was not
// measured is nil, and makes no finding; nor does a figure that is only a lower bound, an
// estimate or a model. Figures are SI base units. The package is pure: no file, no network,
// no clock; all functions are safe for concurrent use. Its sentences stand in texts.txt.
package misuse

import (
	"cmp"
	"math"
	"slices"
	"time"

	"reckon/internal/phrase"
)

// Severity says how much a finding asks of its reader.
type Severity string

// The severities, the gravest first.
const (
	High   Severity = "high"
	Medium Severity = "medium"
	Low    Severity = "low"
)

// Evidence is one figure behind a finding, and the limit that it is held against.
type Evidence struct {
	Text  string   `json:"text"`
	Value float64  `json:"value"`
	Unit  string   `json:"unit"` // ratio, seconds, count, cores, 1/s, core-seconds, gpu-seconds or byte-seconds
	Limit *float64 `json:"limit,omitempty"`
	// Wasted says that the figure is what was allocated and not used.
	Wasted bool `json:"wasted,omitempty"`
}

// Finding is what a rule found.
type Finding struct {
	Rule     string
	Severity Severity
	Site     string
	Owner    string
	Workload string // empty when it is about an owner
	Node     string // empty when it is not about one node
	Part     string // what distinguishes findings of one rule and subject: cpu, memory, gpu
	Text     string // one sentence, without the owner's name
	First    time.Time
	Last     time.Time
	Evidence []Evidence
}

// Workload is what is known of one workload.
type Workload struct {
	Site, ID, Kind, Owner, Partition, State string

	Nodes       []string
	Start, Last time.Time // Last is the end, or the latest sample
	Running     bool
	// Stuck is why it can never start, as a sentence; empty of what runs, ended or will start.
	// Waited is for how long it has waited, in seconds.
	Stuck  string
	Waited float64

	CPUSeconds, CoresMean, CoresP95       *float64
	MemoryNeeded, MemoryPeak              *float64 // the peak includes page cache; it stands for the need where that is not known
	SwapPeak, MajorFaults, Throttled      *float64
	GPUSeconds, GPUMemoryPeak             *float64 // 0 GPU seconds: all its nodes measure GPUs, and it used none
	Cores, Memory, GPUs, RequestSeconds   *float64 // allocated, or requested where nobody allocates
	Suspended                             *float64 // seconds of its time
	CPUInexact, MemoryInexact, GPUInexact bool     // the figures are bounds, estimates or models: not judged
	// Squeezed says that its memory was full, page cache included, and that it was held up for it.
	Squeezed bool

	// NodeCores is how many cores its nodes have together, and GPUNodes how many of its
	// nodes have GPUs whose use is measured.
	NodeCores *float64
	GPUNodes  int
	// IdleGPU is for how long it has held memory of a GPU and not used it, up to Last.
	IdleGPU *float64
	// Reports is whether all its nodes reported in its time: only then does silence say
	// that there was no process. Empty is for how long none was seen of it, up to Last; nil
	// when one was, or nobody looked.
	Reports bool
	Empty   *float64
	// Faults are its major faults per second, Swapped the share of its memory that was
	// swapped out, Throttles the share of time in which its quota held it back, over time;
	// nil where only the totals are known.
	Faults, Swapped, Throttles *Line
	// Connections are the TCP connections that it tried to open, Connects those a second over time; nil where they are
	// not measured, or only in total.
	Connections *float64
	Connects    *Line
	// Metadata are requests to FUSE file systems that neither read nor write, MetadataRates those a second over time; nil as
	// above. Read is what it read from storage, Refaulted what of its page cache was dropped and soon needed again, in bytes.
	// PerNodeWritten is what it wrote, by node.
	Metadata        *float64
	MetadataRates   *Line
	Read, Refaulted *float64
	PerNodeWritten  map[string]float64
	// PerNode is its CPU time by node, PerGPU the busy time by device, in seconds.
	PerNode, PerGPU map[string]float64
	// Tasks are the steps that have several tasks on a node.
	Tasks []StepTasks
}

// Wall is how long it lasted, in seconds, without the time for which it was suspended: it held nothing then.
func (w *Workload) Wall() float64 {
	wall := w.Last.Sub(w.Start).Seconds()
	if known(w.Suspended) {
		wall -= *w.Suspended
	}
	return math.Max(0, wall)
}

func (w *Workload) finding(rule string, s Severity, part, key string, words phrase.Words, e ...Evidence) Finding {
	return Finding{Rule: rule, Severity: s, Site: w.Site, Owner: w.Owner, Workload: w.ID, Part: part, Text: texts.Say(key, words), First: w.Start, Last: w.Last, Evidence: e}
}

// Judge applies the rules that look at one workload at a time, then those that look at
// all of an owner's together. policy gives the policy for a workload.
func Judge(list []Workload, policy func(*Workload) *Policy) []Finding {
	var out []Finding
	small := map[[2]string]*heap{}
	for i := range list {
		w := &list[i]
		p := policy(w)
		if w.Stuck != "" {
			out = append(out, cannotStart(w, p)...)
			continue
		}
		requested := overRequested(w, p)
		out = append(out, once(slices.Concat(gpuUnused(w, p), requested, idleAllocation(w, p), thrashing(w, p), imbalance(w, p), manyConnections(w, p), storagePattern(w, p)))...)
		if len(requested) == 0 {
			gather(small, w, p)
		}
	}
	out = append(out, smallJobs(small)...)
	slices.SortStableFunc(out, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(rank(a.Severity), rank(b.Severity)), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Workload, b.Workload))
	})
	return out
}

// Graver reports whether a severity asks for more than another one.
func Graver(a, b string) bool { return rank(Severity(a)) < rank(Severity(b)) }

func rank(s Severity) int { return slices.Index([]Severity{High, Medium, Low}, s) }

func known(v *float64) bool { return v != nil && !math.IsNaN(*v) }

func limit(v float64) *float64 { return &v }

// grave is a severity, or High.
func grave(s Severity, yes bool) Severity {
	if yes {
		return High
	}
	return s
}

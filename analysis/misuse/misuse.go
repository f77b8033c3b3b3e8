// Package misuse finds work that does not use its allocation, harms itself, or can never
// start: unused GPUs, far too large a request, an allocation without a
// process, many small jobs with a large sum, thrashing, uneven work.
//
// Each rule looks at sustained figures (means, p95, totals over time), never at a single
// peak, except for memory, where the request must cover the peak. A figure that was not
// measured is nil and causes no finding; nor does a lower bound, an
// estimate or a modelled figure. Figures are SI base units. The package is pure: no file, no network,
// no clock; all functions are safe for concurrent use. Its sentences are in the folder rules.
package misuse

import (
	"cmp"
	"math"
	"slices"
	"time"

	"reckon/figure"
	"reckon/internal/phrase"
)

// Severity is the urgency of a finding.
type Severity string

// Severities in descending order.
const (
	High   Severity = "high"
	Medium Severity = "medium"
	Low    Severity = "low"
)

// Evidence is one figure behind a finding, and the limit it is compared with.
type Evidence struct {
	Text  string   `json:"text"`
	Value float64  `json:"value"`
	Unit  string   `json:"unit"` // ratio, seconds, count, cores, 1/s, core-seconds, gpu-seconds or byte-seconds
	Limit *float64 `json:"limit,omitempty"`
	// Wasted is true if the figure is an unused allocation.
	Wasted bool `json:"wasted,omitempty"`
}

// Finding is the result of a rule.
type Finding struct {
	Rule     string
	Severity Severity
	Site     string
	Owner    string
	Workload string // empty if it is about an owner
	Node     string // empty if it is not about one node
	Part     string // distinguishes findings of one rule and subject: cpu, memory, gpu
	Text     string // one sentence, without the owner's name
	First    time.Time
	Last     time.Time
	Evidence []Evidence
	Values   []phrase.Value // the figures and names in Text, in order
}

// SetText sets the text and its figures.
func (f *Finding) SetText(s phrase.Sentence) { f.Text, f.Values = s.String(), s.Values }

// Wasted returns the unused allocation of the finding and its unit. The unit is empty if the finding is about another
// problem.
func (f *Finding) Wasted() (amount float64, unit string) {
	for _, e := range f.Evidence {
		if e.Wasted {
			return e.Value, e.Unit
		}
	}
	return 0, ""
}

// Workload is a run with facts beyond its record.
type Workload struct {
	figure.Run

	Last    time.Time // the end, or the latest sample
	Running bool
	// Stuck explains why the work can never start or, for running pods, why a container cannot. It is empty for all
	// other work. Waited is the waiting time in seconds.
	Stuck  phrase.Text
	Waited float64

	Cores, Memory, GPUs                   *float64 // allocated, or requested if there is no allocation
	CPUInexact, MemoryInexact, GPUInexact bool     // the figures are bounds, estimates or modelled: not judged
	// Squeezed is true if its memory was full, page cache included, and it was slowed down by that.
	Squeezed bool

	// NodeCores is the sum of the cores of its nodes, and GPUNodes the number of its
	// nodes with GPUs of measured use.
	NodeCores *float64
	GPUNodes  int
	// IdleGPU is the time that it has held memory of a GPU without using the GPU, in seconds, up to Last.
	IdleGPU *float64
	// Reports is true if all its nodes reported during the run. Only then do missing samples prove
	// that there was no process. Empty is the time in seconds that it has had no process, up to Last; nil
	// if it has one or that is unknown.
	Reports bool
	Empty   *float64
	// Lines are figures over time by key: counters per second, and a memory peak as a share of its
	// memory. Figures without a time series are missing. See [Lines].
	Lines map[string]*Line
	// Refaulted is the page cache that was dropped and soon needed again, in bytes.
	Refaulted *float64
	// PerNodeWritten is the data written, by node, in bytes.
	PerNodeWritten map[string]float64
	// PerNode is its CPU time by node, PerGPU the busy time by device, in seconds.
	PerNode, PerGPU map[string]float64
	// Tasks are the steps with several tasks on a node.
	Tasks []StepTasks
}

// Wall returns the run time in seconds, without the time it was suspended and held nothing.
func (w *Workload) Wall() float64 {
	wall := w.Last.Sub(w.Start).Seconds()
	if isKnown(w.SuspendedSeconds) {
		wall -= *w.SuspendedSeconds
	}
	return math.Max(0, wall)
}

func (w *Workload) newFinding(rule string, s Severity, part, key string, words phrase.Words, e ...Evidence) Finding {
	f := Finding{Rule: rule, Severity: s, Site: w.Site, Owner: w.Owner, Workload: w.ID, Part: part, First: w.Start, Last: w.Last,
		Evidence: e}
	f.SetText(ruleSentence(key, words))
	return f
}

// EndedGroups are workloads of an owner without an allocation that ended too soon for any rule about single workloads, summed up.
type EndedGroups struct {
	Site, Owner string
	Nodes       []string
	Count       int
	CPUSeconds  float64
	WallSeconds float64   // added up
	First, Last time.Time // the first start and the last end
}

// Judge applies the rules about single workloads, then those about all workloads of an owner,
// including passed. policy returns the policy for work on nodes of a partition, which may be empty.
func Judge(list []Workload, passed []EndedGroups, policy func(partition string, nodes []string) *Policy) []Finding {
	var out []Finding
	small := map[[2]string]*smallWork{}
	for i := range list {
		w := &list[i]
		p := policy(w.Partition, w.Nodes)
		var found []Finding
		p.eachRule(func(j runRule, n Needs) {
			if n.matches(w) {
				found = append(found, j.judge(w, p)...)
			}
		})
		out = append(out, dropCovered(slices.Clone(found))...)
		if len(w.Stuck) == 0 && !slices.ContainsFunc(found, func(f Finding) bool { return f.Rule == OverRequested }) {
			addSmallWork(small, w, p)
		}
	}
	for i := range passed {
		gatherPassed(small, &passed[i], policy("", passed[i].Nodes))
	}
	out = append(out, smallJobs(small)...)
	slices.SortStableFunc(out, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(severityRank(a.Severity), severityRank(b.Severity)), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Owner,
			b.Owner),
			cmp.Compare(a.Workload, b.Workload))
	})
	return out
}

// MoreSevere reports whether severity a is higher than b.
func MoreSevere(a, b string) bool { return severityRank(Severity(a)) < severityRank(Severity(b)) }

func severityRank(s Severity) int { return slices.Index([]Severity{High, Medium, Low}, s) }

func isKnown(v *float64) bool { return v != nil && !math.IsNaN(*v) }

func limit(v float64) *float64 { return &v }

// highIf returns s, or High if yes is true.
func highIf(s Severity, yes bool) Severity {
	if yes {
		return High
	}
	return s
}

// Package invariant holds figures against what bounds them, before anything is said of them:
// a peak against the machine, CPU time against wall time by cores, a share against the whole.
//
// A figure that breaks a rule is held back, never cut to its bound: it becomes unknown in the
// answer, is counted once for each subject, and an example of each figure and rule is kept,
// so that whoever runs the server sees what to mend. A bound that is unknown bounds nothing.
//
// The tolerance is 1 % and the slack of the rule: a clock tick by cores where time is
// compared, the batching of the kernel's memory accounting for a peak.
package invariant

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"reckon/figure"
	"reckon/metric"
)

// The rules, as the label rule names them.
const (
	PeakWithinLimit          = figure.PeakWithinLimit
	PeakWithinMachine        = figure.PeakWithinMachine
	UseWithinAllocation      = figure.UseWithinAllocation
	CPUWithinWall            = figure.CPUWithinWall
	SpeedupWithinConcurrency = figure.SpeedupWithinConcurrency
	ShareWithinWhole         = figure.ShareWithinWhole
	SumWithinWhole           = figure.SumWithinWhole
)

const (
	// Tolerance is by how much a figure may pass its bound, as a share of the bound.
	Tolerance = 0.01
	// Tick is the length of a clock tick (USER_HZ), to which start times are rounded.
	Tick = 10 * time.Millisecond
	// Batch is by how much a peak may pass a limit: the kernel charges a control group in
	// batches of 64 pages for each processor.
	Batch = 64 * 4096
)

// Check is one figure of an answer against one bound.
type Check struct {
	Figure string    // as in the API, such as cpu_seconds
	Rule   string    // one of the rules
	Value  **float64 // the figure in the answer, which is held back; nil inside is unknown
	Bound  *float64  // nil is unknown
	Slack  float64   // in the unit of the figure, besides the tolerance
	Of     string    // what the bound is, for people: "wall time by the cores of its nodes"
}

// Holds reports whether the figure keeps to its bound, or one of them is unknown.
func (c *Check) Holds() bool {
	if *c.Value == nil || c.Bound == nil {
		return true
	}
	v := **c.Value
	return !math.IsNaN(v) && v <= *c.Bound+math.Abs(*c.Bound)*Tolerance+c.Slack
}

// Broken is a figure and rule that was broken, with how often and one example.
type Broken struct {
	Figure, Rule string
	Count        int // subjects
	Subject      string
	Value, Bound float64
	Of           string
	At           time.Time // of the example
}

// Ledger counts what was broken. The zero value is ready, a nil one holds back without
// counting. It is safe for concurrent use.
type Ledger struct {
	mu    sync.Mutex
	rules map[[2]string]*Broken
	seen  map[[3]string]bool
}

// maxSeen bounds the subjects that are remembered as counted; beyond it one may be counted
// again.
const maxSeen = 100_000

// Hold holds the figures of a subject against their bounds, all of them as they are before
// anything is held back, and returns how many it held back.
func (l *Ledger) Hold(subject string, at time.Time, checks ...Check) int {
	var broken []*Check
	for i := range checks {
		if !checks[i].Holds() {
			broken = append(broken, &checks[i])
		}
	}
	for _, c := range broken {
		if *c.Value != nil { // another rule may have held it back
			l.note(subject, at, c, **c.Value)
		}
	}
	n := 0
	for _, c := range broken {
		if *c.Value != nil {
			*c.Value = nil
			n++
		}
	}
	return n
}

func (l *Ledger) note(subject string, at time.Time, c *Check, v float64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	once := [3]string{subject, c.Figure, c.Rule}
	if l.seen[once] {
		return
	}
	if l.seen == nil || len(l.seen) >= maxSeen {
		l.seen = map[[3]string]bool{}
	}
	l.seen[once] = true
	if l.rules == nil {
		l.rules = map[[2]string]*Broken{}
	}
	k := [2]string{c.Figure, c.Rule}
	b := l.rules[k]
	if b == nil {
		b = &Broken{Figure: c.Figure, Rule: c.Rule}
		l.rules[k] = b
	}
	b.Count++
	b.Subject, b.Value, b.Bound, b.Of, b.At = subject, v, *c.Bound, c.Of, at
}

// Broken lists what was broken since the start, by figure and rule, with the latest example.
func (l *Ledger) Broken() []Broken {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Broken, 0, len(l.rules))
	for _, b := range l.rules {
		out = append(out, *b)
	}
	slices.SortFunc(out, func(a, b Broken) int {
		return cmp.Or(strings.Compare(a.Figure, b.Figure), strings.Compare(a.Rule, b.Rule))
	})
	return out
}

var inconsistent = &metric.Desc{Name: "reckon_inconsistent_figures_total", Kind: metric.Counter, Labels: []string{"figure", "rule"},
	Help: "Figures that passed what bounds them and were held back from answers, once for each workload, node or group that they are of."}

// Descs describes what a ledger counts.
func Descs() []*metric.Desc { return []*metric.Desc{inconsistent} }

// Gather adds the counters.
func (l *Ledger) Gather(b *metric.Batch) {
	for _, x := range l.Broken() {
		b.Add(metric.NewSeries(inconsistent, x.Figure, x.Rule), float64(x.Count))
	}
}

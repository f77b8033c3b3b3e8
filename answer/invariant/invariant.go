// Package invariant checks figures against their upper bounds before they are reported:
// a peak against the machine, CPU time against wall time times cores, a share against 1.
//
// A figure that breaks a rule is withheld, never clipped to its bound: it becomes unknown in the
// answer and is counted once per subject, and an example of each figure and rule is kept,
// so that the operator of the server sees what to fix. An unknown bound is not checked.
//
// The tolerance is 1 % plus the slack of the rule: a clock tick times cores where time is
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

// Rules, as values of the label rule.
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
	// Tolerance is the relative amount by which a figure may exceed a bound.
	Tolerance = 0.01
	// Tick is the length of a clock tick (USER_HZ), to which start times are rounded.
	Tick = 10 * time.Millisecond
	// Batch is the number of bytes per processor by which a memory peak may exceed a limit. The kernel charges control
	// groups in batches of 64 pages per processor.
	Batch = 64 * 4096
)

// Check compares one figure of an answer with one bound.
type Check struct {
	Figure string    // as in the API, such as cpu_seconds
	Rule   string    // one of the rules
	Value  **float64 // the figure in the answer, which may be withheld; nil inside is unknown
	Bound  *float64  // nil is unknown
	Slack  float64   // in the unit of the figure, in addition to the tolerance
	Of     string    // description of the bound: "wall time by the cores of its nodes"
}

// Holds reports whether the figure respects its bound. It returns true if one of them is unknown.
func (c *Check) Holds() bool {
	if *c.Value == nil || c.Bound == nil {
		return true
	}
	v := **c.Value
	return !math.IsNaN(v) && v <= *c.Bound+math.Abs(*c.Bound)*Tolerance+c.Slack
}

// Broken is a figure and rule that was broken, with a count and one example.
type Broken struct {
	Figure, Rule string
	Count        int // number of subjects
	Subject      string
	Value, Bound float64
	Of           string
	At           time.Time // of the example
}

// Ledger counts the figures that exceeded their bounds, by rule. Its zero value is ready for use. A nil Ledger counts
// nothing, but figures are still withheld. It is safe for concurrent use.
type Ledger struct {
	mu    sync.Mutex
	rules map[[2]string]*Broken
	seen  map[[3]string]bool
}

// maxSeen limits the number of counted subjects that are remembered. Beyond it a subject may be counted again.
const maxSeen = 100_000

// Hold checks the figures of a subject against their bounds, withholds those that exceed them, and returns their
// number. It checks all before it withholds any, because a figure may be the bound of another.
func (l *Ledger) Hold(subject string, at time.Time, checks ...Check) int {
	var broken []*Check
	for i := range checks {
		if !checks[i].Holds() {
			broken = append(broken, &checks[i])
		}
	}
	for _, c := range broken {
		if *c.Value != nil { // another rule may have withheld it
			l.recordBroken(subject, at, c, **c.Value)
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

func (l *Ledger) recordBroken(subject string, at time.Time, c *Check, v float64) {
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

// Broken lists the rules broken since the start, by figure and rule, with the latest example.
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

var inconsistentDesc = &metric.Desc{Name: "reckon_inconsistent_figures_total", Kind: metric.Counter, Labels: []string{"figure", "rule"},
	Help: "Figures that violated a bound and were withheld from answers, once per workload, node or group."}

// Descs describes the counters of a ledger.
func Descs() []*metric.Desc { return []*metric.Desc{inconsistentDesc} }

// Gather adds the counters.
func (l *Ledger) Gather(b *metric.Batch) {
	for _, x := range l.Broken() {
		b.Add(metric.NewSeries(inconsistentDesc, x.Figure, x.Rule), float64(x.Count))
	}
}

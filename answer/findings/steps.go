package findings

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"reckon/analysis/fairshare"
	"reckon/analysis/misuse"
	"reckon/store"
)

// ErrNoSteps is wrapped by the error for a finding that is not a sum over time steps.
var ErrNoSteps = errors.New("only the score of over-share is added up from steps of time")

// Step is a period on a node that contributes to a score. Consecutive steps of the same kind are
// merged, up to an hour. Its figures are means over the period.
type Step struct {
	Node                        string
	Start, End                  time.Time
	Use, Fair, Capacity, Owners float64
	Why                         string
	Seconds                     float64
}

// maxStepLength is the maximum length of merged steps.
const maxStepLength = time.Hour

// Steps recomputes the score of an owner over the window that confirmed the finding.
func (k *Keeper) Steps(ctx context.Context, id string) (f store.Finding, steps []Step, err error) {
	list, _, err := k.Store.Findings(ctx, store.FindingFilter{ID: id})
	if err != nil {
		return f, nil, err
	}
	if len(list) == 0 {
		return f, nil, fmt.Errorf("%s: %w", id, ErrUnknown)
	}
	f = list[0]
	if f.Rule != misuse.OverShare {
		return f, nil, ErrNoSteps
	}
	policy, err := ReadPolicy(k.Policy)
	if err != nil {
		return f, nil, err
	}
	steps, err = k.Evaluator.scoreSteps(ctx, policy, f.Seen.Add(-k.evaluationWindow()), f.Seen, f.Site, f.Owner, f.Part)
	if err == nil && !sumsToScore(&f, steps) {
		return f, nil, fmt.Errorf("%s: %w", id, ErrChanged)
	}
	return f, steps, err
}

// ErrChanged means that the recomputed score of a finding differs, because the rule, the policy or the data changed. It
// is returned wrapped.
var ErrChanged = errors.New("the recomputed score differs: the rule, the policy or the data has changed")

// Largest differences between a score and the sum of its steps, as a share of the score and in seconds. They allow for
// late samples.
const (
	changedShare   = 0.02
	changedSeconds = 1
)

// sumsToScore reports whether the steps add up to the stored score of the finding.
func sumsToScore(f *store.Finding, steps []Step) bool {
	evidence, _, err := Figures(f)
	if err != nil || len(evidence) == 0 || len(steps) == 0 {
		return true // nothing to compare with, or no longer stored
	}
	sum, score := 0.0, evidence[0].Value
	for _, s := range steps {
		sum += s.Seconds
	}
	return math.Abs(sum-score) <= changedShare*score+changedSeconds
}

func (e *Evaluator) scoreSteps(ctx context.Context, p *Policy, from, to time.Time, site, owner, part string) ([]Step, error) {
	rows, err := e.Facts.Lasting(ctx, from, to, to, store.GroupMinimum{Ran: time.Minute}) // of allocations
	if err != nil {
		return nil, fmt.Errorf("read the workloads: %w", err)
	}
	all, err := listNodes(ctx, e.Series, from, to)
	if err != nil {
		return nil, err
	}
	mine, err := listNodes(ctx, e.Series, from, to, labels.MustNewMatcher(labels.MatchEqual, "owner", owner))
	if err != nil {
		return nil, err
	}
	r := &rangeReading{from: from, to: to, step: traceStep(to.Sub(from), len(all))}
	if r.stepCount() < 1 {
		return nil, nil
	}
	wait, given := collectWaiting(r, rows), rowAllocations(r, rows)
	var out []Step
	var mu sync.Mutex
	err = e.readMachines(ctx, r, mine, nil, func(m *machine) {
		if m.site != site {
			return
		}
		m.addAllocations(given[m.nodeKey], r.stepCount())
		traces := m.resourceTraces(r, wait.waitersFor(m))
		mu.Lock()
		defer mu.Unlock()
		rule := &p.For("", []string{m.node}).OverShare
		for i := range traces {
			if t := &traces[i]; t.part == part && rule.On {
				out = append(out, mergeSteps(r, t, fairshare.Steps(t.trace, toLimits(rule), owner))...)
			}
		}
	})
	slices.SortFunc(out, func(a, b Step) int {
		if c := strings.Compare(a.Node, b.Node); c != 0 {
			return c
		}
		return a.Start.Compare(b.Start)
	})
	return out, err
}

// mergeSteps merges consecutive steps with the same reason.
func mergeSteps(r *rangeReading, t *nodeTrace, steps []fairshare.Step) (out []Step) {
	n := 0.0 // steps in the last one
	mean := func(old, v float64) float64 { return old + (v-old)/n }
	for _, s := range steps {
		start := r.from.Add(time.Duration(s.I) * r.step)
		if k := len(out) - 1; k >= 0 && out[k].End.Equal(start) && out[k].Why == s.Why && start.Sub(out[k].Start) < maxStepLength {
			n++
			o := &out[k]
			o.Use, o.Fair, o.Owners = mean(o.Use, s.Use), mean(o.Fair, s.Fair), mean(o.Owners, float64(s.Owners))
			o.End, o.Seconds = start.Add(r.step), o.Seconds+s.Seconds
			continue
		}
		n = 1
		out = append(out, Step{
			Node: t.node, Start: start, End: start.Add(r.step), Use: s.Use, Fair: s.Fair, Capacity: t.trace.Capacity,
			Owners: float64(s.Owners), Why: s.Why, Seconds: s.Seconds,
		})
	}
	return out
}

package client

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// OwnerReport is the use of one owner in a time range, the waste, and the recommended next steps.
// It is assembled from several API responses with the rights of the caller.
type OwnerReport struct {
	Owner  string    `json:"owner"`
	Server string    `json:"server,omitempty"` // address of the pages, for links
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
	// Used covers that time, Before the period of the same length before it.
	Used   Usage `json:"used"`
	Before Usage `json:"before"`
	// Days are the days of that time, in UTC; the first and the last may be a part of one. Empty without a history of usage.
	Days []Usage `json:"days,omitempty"`

	Running      []Workload `json:"running"` // in descending order of CPU time, at most ten
	RunningTotal int        `json:"running_total"`
	Waiting      []Workload `json:"waiting"` // the longest first, at most ten
	WaitingTotal int        `json:"waiting_total"`
	Failed       []Workload `json:"failed"` // failed, out of memory or timed out; the latest first, at most ten
	FailedTotal  int        `json:"failed_total"`
	Lost         []Lost     `json:"lost"` // by name, in descending order of loss, at most five
	Findings     []Finding  `json:"findings"`
	Missing      []string   `json:"missing,omitempty"`
}

// Page returns the address of the owner's page; empty if the server has no address.
func (r *OwnerReport) Page() string {
	if r.Server == "" {
		return ""
	}
	return r.Server + "/owner?" + url.Values{"name": {r.Owner}}.Encode()
}

// Lost is work of one name that did not use its whole allocation.
type Lost struct {
	Name  string   `json:"name"`
	Runs  int      `json:"runs"`
	Worst Workload `json:"worst"`
	// CoreSeconds and GPUSeconds are allocated but unused, over all runs; null without an allocation.
	CoreSeconds *float64 `json:"core_seconds"`
	GPUSeconds  *float64 `json:"gpu_seconds"`
	// Advice is the recommended request for the next run; null if there is none.
	Advice *Advice `json:"advice,omitempty"`
}

// UnusedCoreSeconds returns the unused allocation; nil if no allocation is known.
func UnusedCoreSeconds(u *Usage) *float64 { return subtractUsed(u.HeldCoreSeconds, u.CPUSeconds) }

// UnusedGPUSeconds returns the same for GPUs.
func UnusedGPUSeconds(u *Usage) *float64 { return subtractUsed(u.HeldGPUSeconds, u.GPUSeconds) }

func subtractUsed(held, used *float64) *float64 {
	if held == nil || used == nil {
		return nil
	}
	v := math.Max(0, *held-*used)
	return &v
}

const (
	ownerShown  = 10
	ownerAdvice = 5
	ownerRuns   = 5000 // runs searched for the largest losses
)

// OwnerReport requests everything in a report on one owner.
func (c *Client) OwnerReport(ctx context.Context, owner string, since, until time.Time) (OwnerReport, error) {
	r := OwnerReport{Owner: owner, Since: since, Until: until}
	own := Filter{Owners: []string{owner}, Since: since, Until: until}
	sum := func(from, to time.Time, span string) (UsageList, error) {
		usage, err := c.Usage(ctx, UsageQuery{Owners: own.Owners, Since: from, Until: to, Span: span, By: []string{"owner"}})
		if isMissing(err) {
			usage.Missing, err = []string{"this server keeps no history of usage"}, nil
		}
		for _, m := range usage.Missing {
			if !slices.Contains(r.Missing, m) {
				r.Missing = append(r.Missing, m)
			}
		}
		return usage, err
	}
	used, err0 := sum(since, until, "whole")
	before, err := sum(since.Add(since.Sub(until)), since, "whole")
	days, err1 := sum(since, until, "day")
	if err := errors.Join(err0, err, err1); err != nil {
		return r, err
	}
	r.Used, r.Before, r.Days = used.Total, before.Total, days.Rows
	list := func(change func(*Filter)) (WorkloadList, error) {
		f := own
		f.Limit = ownerShown
		change(&f)
		l, err := c.Workloads(ctx, f)
		if l.Workloads == nil {
			l.Workloads = []Workload{}
		}
		return l, err
	}
	yes := true
	running, err1 := list(func(f *Filter) { f.Running, f.Sort = &yes, "-cpu_seconds" })
	waiting, err2 := list(func(f *Filter) { f.States, f.Since, f.Sort = []string{"pending"}, time.Time{}, "submit" })
	failed, err3 := list(func(f *Filter) { f.States, f.Sort = []string{"failed", "out_of_memory", "timeout"}, "-end" })
	all, err4 := list(func(f *Filter) { f.Limit, f.Sort = ownerRuns, "-start" })
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return r, err
	}
	r.Running, r.RunningTotal = running.Workloads, running.Total
	r.Waiting, r.WaitingTotal = waiting.Workloads, waiting.Total
	r.Failed, r.FailedTotal = failed.Workloads, failed.Total
	if r.Lost, err = c.fetchAdvice(ctx, groupLost(all.Workloads)); err != nil {
		return r, err
	}
	found, err := c.Findings(ctx, FindingFilter{Owners: own.Owners})
	if isMissing(err) { // it does not evaluate misuse
		err = nil
	}
	r.Findings = found.Findings
	return r, err
}

// isMissing reports whether an error means that the server does not have the resource.
func isMissing(err error) bool {
	var refused *APIError
	return errors.As(err, &refused) && refused.Status == http.StatusNotFound
}

// groupLost groups runs by name and returns those with the largest loss.
func groupLost(list []Workload) []Lost {
	by := map[string]*Lost{}
	worst := map[string]float64{}
	for i := range list {
		w := &list[i]
		cores, _ := w.GivenCores()
		gpus, _ := w.GivenGPUs()
		core, gpu := subtractUsed(multiply(cores, w.WallSeconds), w.CPUSeconds), subtractUsed(multiply(gpus, w.WallSeconds), w.GPUSeconds)
		if core == nil && gpu == nil {
			continue
		}
		name := cmp.Or(w.Name, w.ID)
		l := by[name]
		if l == nil {
			l = &Lost{Name: name}
			by[name] = l
		}
		l.Runs++
		l.CoreSeconds, l.GPUSeconds = sumKnown(l.CoreSeconds, core), sumKnown(l.GPUSeconds, gpu)
		if cost := loss(core, gpu); l.Runs == 1 || cost > worst[name] {
			l.Worst, worst[name] = *w, cost
		}
	}
	out := []Lost{}
	for _, l := range by {
		if loss(l.CoreSeconds, l.GPUSeconds) >= 3600 {
			out = append(out, *l)
		}
	}
	slices.SortFunc(out, func(a, b Lost) int {
		return cmp.Or(cmp.Compare(loss(b.CoreSeconds, b.GPUSeconds), loss(a.CoreSeconds, a.GPUSeconds)), cmp.Compare(a.Name,
			b.Name))
	})
	return out[:min(len(out), ownerAdvice)]
}

// loss returns the sort key of a loss in core seconds; a GPU counts as 16 cores.
func loss(core, gpu *float64) (v float64) {
	if core != nil {
		v = *core
	}
	if gpu != nil {
		v += 16 * *gpu
	}
	return v
}

func multiply(v *float64, by float64) *float64 {
	if v == nil {
		return nil
	}
	x := *v * by
	return &x
}

func sumKnown(a, b *float64) *float64 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	v := *a + *b
	return &v
}

// fetchAdvice fetches the recommended request for the next run of each.
func (c *Client) fetchAdvice(ctx context.Context, list []Lost) ([]Lost, error) {
	for i := range list {
		w := &list[i].Worst
		d, err := c.Workload(ctx, w.ID, Range{Start: w.Start, Site: w.Site})
		if isMissing(err) {
			continue // its series have expired
		}
		if err != nil {
			return nil, err
		}
		list[i].Advice = d.Advice
	}
	return list, nil
}

// Me returns the identity that the server assigns to the client.
func (c *Client) Me(ctx context.Context) (me Me, err error) {
	err = c.get(ctx, "/auth/me", nil, &me)
	return me, err
}

package misuse

import (
	"time"

	"reckon/internal/phrase"
)

// smallWork sums up the small workloads of an owner.
type smallWork struct {
	policy           *Policy
	owner, site      string
	coreSeconds, cpu float64
	first, last      time.Time
	wasted, short    int
	shortWall        float64
}

// addSmallWork adds a workload that breaks no rule by itself to its owner's.
func addSmallWork(all map[[2]string]*smallWork, w *Workload, p *Policy) {
	v := p.ManySmallJobs
	if !v.On || w.Owner == "" || w.Running || w.State == "pending" || isExempt(v.Exempt, w.Owner) {
		return
	}
	h := findSmallWork(all, w.Site, w.Owner, p, w.Start, w.Last)
	// Requests too small to matter individually add up.
	if share, wasted := unusedShare(w.Cores, w.CoresP95, 0, w.Wall(), w.CPUInexact); share < p.OverRequested.Share {
		h.wasted++
		h.coreSeconds += wasted
	}
	if w.Wall() < v.Short.Seconds() {
		h.short++
		if isKnown(w.CPUSeconds) {
			h.cpu += *w.CPUSeconds
		}
		h.shortWall += w.Wall()
	}
}

// gatherPassed adds short-lived workloads, all of them short, to their owner's.
func gatherPassed(all map[[2]string]*smallWork, s *EndedGroups, p *Policy) {
	if !p.ManySmallJobs.On || s.Owner == "" || isExempt(p.ManySmallJobs.Exempt, s.Owner) {
		return
	}
	h := findSmallWork(all, s.Site, s.Owner, p, s.First, s.Last)
	h.short += s.Count
	h.cpu += s.CPUSeconds
	h.shortWall += s.WallSeconds
}

// findSmallWork returns the sums of an owner over a time range, creating them if necessary.
func findSmallWork(all map[[2]string]*smallWork, site, owner string, p *Policy, first, last time.Time) *smallWork {
	k := [2]string{site, owner}
	h := all[k]
	if h == nil {
		h = &smallWork{policy: p, owner: owner, site: site, first: first}
		all[k] = h
	}
	if first.Before(h.first) {
		h.first = first
	}
	if last.After(h.last) {
		h.last = last
	}
	return h
}

// smallJobs finds many small jobs that together break a rule that none breaks alone.
func smallJobs(all map[[2]string]*smallWork) (out []Finding) {
	for _, h := range all {
		v := h.policy.ManySmallJobs
		f := Finding{Rule: ManySmallJobs, Severity: Medium, Site: h.site, Owner: h.owner, First: h.first, Last: h.last}
		if need := h.policy.OverRequested.CoreHours * 3600; h.wasted >= v.Count && h.coreSeconds >= need {
			f.Part = "cpu"
			f.SetText(ruleSentence("many-small-jobs.cpu",
				phrase.Words{"jobs": quantity(float64(h.wasted), "job"), "wasted": quantity(h.coreSeconds/3600, "core-hour")}))
			f.Evidence = []Evidence{{Text: "jobs", Value: float64(h.wasted), Unit: "count", Limit: limit(float64(v.Count))},
				{Text: "allocated and not used", Value: h.coreSeconds, Unit: "core-seconds", Limit: limit(need), Wasted: true}}
			out = append(out, f)
		}
		if h.short >= v.ShortCount {
			mean := h.shortWall / float64(h.short)
			f.Part = "short"
			f.SetText(ruleSentence("many-small-jobs.short",
				phrase.Words{"jobs": quantity(float64(h.short), "job"), "limit": phrase.Number(v.Short.Seconds(), "seconds",
					v.Short.format()),
					"mean": phrase.Number(mean, "seconds", Duration(mean*1e9).format())}))
			f.Evidence = []Evidence{{Text: "short jobs", Value: float64(h.short), Unit: "count", Limit: limit(float64(v.ShortCount))},
				{Text: "length of one, on average", Value: mean, Unit: "seconds", Limit: limit(v.Short.Seconds())},
				{Text: "CPU time of all of them", Value: h.cpu, Unit: "seconds"}}
			f.Severity = Low
			out = append(out, f)
		}
	}
	return out
}

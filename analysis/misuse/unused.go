package misuse

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"reckon/internal/phrase"
)

// UnusedOverTimeRule finds owners who do not use their allocations for days.
type UnusedOverTimeRule struct {
	On        bool    `yaml:"on"`
	CoreHours float64 `yaml:"core_hours" limit:"above 0"`
	GPUHours  float64 `yaml:"gpu_hours" limit:"above 0"`
	GiBHours  float64 `yaml:"gib_hours"` // 0: the memory of CoreHours, if Holding.PerCore is set; below 0: never
	Share     float64 `yaml:"share" limit:"share"`
	// Exempt are owners without findings, as in [OverShareRule].
	Exempt []string `yaml:"exempt"`
}

// Resources of a [AllocationSum].
const (
	HeldCores = iota
	HeldGPUs
	HeldMemory
	resources
)

// AllocationSum sums an owner's runs of one name in one partition during a period. Held and Unused are the allocated and the
// unused core, GPU and byte seconds. It excludes runs without an exactly known use.
type AllocationSum struct {
	Site, Owner, Name, Partition string
	Runs, Running                int
	Held, Unused                 [resources]float64
	// Whole is the unused allocation because the partition gives whole nodes: beyond the request,
	// or with the node's memory in use. Unused excludes it.
	Whole float64
	// PerCore is the memory of the nodes of the partition for each core, bytes, if it runs out before the cores do; else 0.
	PerCore     float64
	First, Last time.Time
}

// Add adds the allocations of other runs.
func (h *AllocationSum) Add(o *AllocationSum) {
	h.Runs, h.Running, h.Whole, h.PerCore = h.Runs+o.Runs, h.Running+o.Running, h.Whole+o.Whole, max(h.PerCore, o.PerCore)
	for i := range h.Held {
		h.Held[i], h.Unused[i] = h.Held[i]+o.Held[i], h.Unused[i]+o.Unused[i]
	}
	if h.First.IsZero() || o.First.Before(h.First) {
		h.First = o.First
	}
	if o.Last.After(h.Last) {
		h.Last = o.Last
	}
}

// resourceUnit returns the unit of a resource in evidence, and its hours.
func resourceUnit(resource int) (unit string, hour float64) {
	return [...]string{"core-seconds", "gpu-seconds", "byte-seconds"}[resource], [...]float64{3600, 3600, 3600 << 30}[resource]
}

// minHours returns the hours of cores, GPUs and GiB from which on they count.
func (u *UnusedOverTimeRule) minHours(h *AllocationSum) [resources]float64 {
	return [...]float64{u.CoreHours, u.GPUHours, cmp.Or(u.GiBHours, u.CoreHours*h.PerCore/(1<<30))}
}

// brokenResources returns the resources with more waste than the rule allows. pace scales the allowed amount, for a period of another
// length.
func (u *UnusedOverTimeRule) brokenResources(h *AllocationSum, pace float64) (out []int) {
	for i, least := range u.minHours(h) {
		if _, hour := resourceUnit(i); least > 0 && h.Unused[i] >= least*hour*pace && h.Unused[i] >= u.Share*h.Held[i] {
			out = append(out, i)
		}
	}
	return out
}

// Period is a time range and the allocations in it.
type Period struct {
	From, To time.Time
	Holdings []AllocationSum
	// Report: it is the past, which the finding names by its dates.
	Report bool
}

// workKey is an owner, or one name of an owner, under one policy.
type workKey struct {
	rule              *UnusedOverTimeRule
	site, owner, name string
}

// sumByOwner adds up holdings by owner and by owner and name.
func sumByOwner(p *Period, policy func(partition string) *Policy) map[workKey]*AllocationSum {
	sums := map[workKey]*AllocationSum{}
	for k := range p.Holdings {
		h := &p.Holdings[k]
		rule := &policy(h.Partition).UnusedOverTime
		if !rule.On || h.Owner == "" || isExempt(rule.Exempt, h.Owner) {
			continue
		}
		of := []workKey{{rule, h.Site, h.Owner, ""}, {rule, h.Site, h.Owner, h.Name}}
		for _, u := range slices.Compact(of) {
			if sums[u] == nil {
				sums[u] = &AllocationSum{Site: h.Site, Owner: h.Owner, Name: u.name}
			}
			one := *h
			if rule.GiBHours == 0 && h.PerCore == 0 {
				one.Held[HeldMemory], one.Unused[HeldMemory] = 0, 0
			}
			sums[u].Add(&one)
		}
	}
	return sums
}

// FindUnusedOverTime finds owners who did not use their allocations over the first period. It also judges a longer period if the
// first has the same pace. For owners who use enough in total, it finds the names of runs that do not. Owners with
// running work come first; then the order is by waste.
func FindUnusedOverTime(periods []Period, policy func(partition string) *Policy) []Finding {
	sums := make([]map[workKey]*AllocationSum, len(periods))
	for i := range periods {
		sums[i] = sumByOwner(&periods[i], policy)
	}
	found := map[workKey]bool{}
	var list []Finding
	order := map[string][2]float64{}                                       // whether something runs, and the cost
	keys := slices.SortedFunc(maps.Keys(sums[0]), func(a, b workKey) int { // owners before names
		return cmp.Or(cmp.Compare(a.site, b.site), cmp.Compare(a.owner, b.owner), cmp.Compare(a.name, b.name))
	})
	for _, of := range keys {
		if found[workKey{of.rule, of.site, of.owner, ""}] {
			continue // all work of the owner is found
		}
		week := sums[0][of]
		broken, at := of.rule.brokenResources(week, 1), 0
		for i := 1; i < len(periods) && len(broken) == 0; i++ {
			pace := periods[0].To.Sub(periods[0].From).Seconds() / periods[i].To.Sub(periods[i].From).Seconds()
			if h := sums[i][of]; h != nil && len(of.rule.brokenResources(week, pace)) > 0 {
				broken, at = of.rule.brokenResources(h, 1), i
			}
		}
		if len(broken) == 0 {
			continue
		}
		found[of] = true
		h := sums[at][of]
		f := Finding{Rule: UnusedOverTime, Severity: Medium, Site: of.site, Owner: of.owner, Part: cmp.Or(of.name, AllOfOwner),
			First: h.First, Last: h.Last}
		cost := 0.0
		var amounts phrase.Text
		for _, r := range broken {
			name, hour := resourceUnit(r)
			least := of.rule.minHours(h)[r]
			f.Severity = highIf(f.Severity, h.Unused[r] >= 10*least*hour)
			amounts = phrase.Join(amounts, map[bool]string{true: " and "}[len(amounts) > 0], phrase.Count(math.Round(h.Unused[r]/hour)),
				" of the ",
				quantity(math.Round(h.Held[r]/hour), hourNames[r]))
			f.Evidence = append(f.Evidence,
				Evidence{Text: "allocated and not used " + periodText(&periods[at]), Value: h.Unused[r], Unit: name,
					Limit:  limit(least * hour),
					Wasted: true},
				Evidence{Text: "unused share of the allocation", Value: min(h.Unused[r]/h.Held[r], 1), Unit: "ratio",
					Limit: limit(of.rule.Share)})
			for i := range periods {
				if o := sums[i][of]; i != at && o != nil {
					f.Evidence = append(f.Evidence,
						Evidence{Text: "allocated and not used " + periodText(&periods[i]), Value: o.Unused[r], Unit: name})
				}
			}
			cost += h.Unused[r] / (least * hour)
		}
		f.Evidence = append(f.Evidence, Evidence{Text: "runs", Value: float64(h.Runs), Unit: "count"},
			Evidence{Text: "of these, still running", Value: float64(h.Running), Unit: "count"})
		if h.Whole > 0 {
			f.Evidence = append(f.Evidence, Evidence{Text: "in addition, not used because the partition gives whole nodes", Value: h.Whole,
				Unit: "core-seconds"})
		}
		if h.PerCore > 0 && slices.Contains(broken, HeldMemory) {
			f.Evidence = append(f.Evidence, Evidence{Text: "memory of the nodes for each core; jobs hold more of it than of the cores",
				Value: h.PerCore, Unit: "bytes"})
		}
		words := phrase.Words{"unused": amounts, "runs": quantity(float64(h.Runs), "run"), "names": "",
			"days": phrase.Count(math.Round(periods[at].To.Sub(periods[at].From).Hours() / 24)),
			"from": phrase.Moment(h.First, time.DateOnly), "to": phrase.Moment(h.Last, time.DateOnly)}
		if of.name != "" {
			words["names"] = " of " + of.name
		} else {
			more, most := evidenceByName(sums[at], of, broken[0])
			f.Evidence = append(f.Evidence, more...)
			if len(more) > 1 {
				_, hour := resourceUnit(broken[0])
				amount := quantity(math.Round(most.Unused[broken[0]]/hour), hourNames[broken[0]])
				words["names"] = phrase.Join(", the largest part (", amount, ") in "+most.Name)
			}
		}
		f.SetText(ruleSentence(map[bool]string{false: "unused-over-time", true: "unused-over-time.report"}[periods[at].Report], words))
		list = append(list, f)
		order[f.Site+"\n"+f.Owner+"\n"+f.Part] = [2]float64{float64(min(h.Running, 1)), cost}
	}
	slices.SortStableFunc(list, func(a, b Finding) int {
		x, y := order[a.Site+"\n"+a.Owner+"\n"+a.Part], order[b.Site+"\n"+b.Owner+"\n"+b.Part]
		return cmp.Or(cmp.Compare(y[0], x[0]), cmp.Compare(y[1], x[1]))
	})
	return list
}

// hourNames names an hour of each resource that is held.
var hourNames = [...]string{"core-hour", "GPU-hour", "GiB-hour"}

// AllOfOwner is the part of a finding of [UnusedOverTime] about all work of an owner. For runs of one name, the part is that name.
const AllOfOwner = "all"

func periodText(p *Period) string {
	if p.Report {
		return "in imported time"
	}
	return fmt.Sprintf("in %s", quantity(math.Round(p.To.Sub(p.From).Hours()/24), "day"))
}

// maxNames is the number of names of runs that a finding lists.
const maxNames = 5

// evidenceByName lists the runs by which an owner left most of a resource unused, summed by name, with running ones first. most
// is the name with the largest unused amount.
func evidenceByName(sums map[workKey]*AllocationSum, of workKey, resource int) (out []Evidence, most *AllocationSum) {
	var list []*AllocationSum
	for u, h := range sums {
		if u.name != "" && h.Unused[resource] > 0 && (u == workKey{of.rule, of.site, of.owner, u.name}) {
			list = append(list, h)
		}
	}
	slices.SortFunc(list, func(a, b *AllocationSum) int {
		return cmp.Or(cmp.Compare(b.Unused[resource], a.Unused[resource]), cmp.Compare(a.Name, b.Name))
	})
	if len(list) > 0 {
		most = list[0]
	}
	list = list[:min(len(list), maxNames)]
	slices.SortStableFunc(list, func(a, b *AllocationSum) int { return min(b.Running, 1) - min(a.Running, 1) })
	name, _ := resourceUnit(resource)
	for _, h := range list {
		out = append(out, Evidence{Text: "runs of " + h.Name, Value: h.Unused[resource], Unit: name})
	}
	return out, most
}

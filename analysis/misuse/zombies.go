package misuse

import (
	"time"

	"reckon/internal/phrase"
)

// Zombies is the number of ended but unreaped processes of an owner on a node over time. Times are
// milliseconds since the Unix epoch.
type Zombies struct {
	Site, Node, Owner string

	Times  []int64
	Counts []float64
	Now    time.Time
}

// freshness is the maximum age of the last sample for zombies to count as still there.
const freshness = 10 * time.Minute

// DeadProcesses applies the rule idle-allocation to zombies. A zombie uses only an entry of the process table, but the
// size of that table is limited, and the program that started it has a bug. Only the latest uninterrupted period
// counts.
func DeadProcesses(z Zombies, p *Policy) (Finding, bool) {
	d := &p.IdleAllocation
	n := len(z.Times)
	if !d.On || !(d.Zombies > 0) || n == 0 || n != len(z.Counts) || z.Now.Sub(time.UnixMilli(z.Times[n-1])) > freshness {
		return Finding{}, false
	}
	first, least := n, z.Counts[n-1]
	for first > 0 && z.Counts[first-1] >= d.Zombies && (first == n || z.Times[first]-z.Times[first-1] <= freshness.Milliseconds()) {
		first--
		least = min(least, z.Counts[first])
	}
	if first == n {
		return Finding{}, false
	}
	begin, end := time.UnixMilli(z.Times[first]).UTC(), time.UnixMilli(z.Times[n-1]).UTC()
	span := end.Sub(begin).Seconds()
	if span < d.ZombiesFor.Seconds() {
		return Finding{}, false
	}
	s := Low
	if least >= 10*d.Zombies {
		s = Medium
	}
	f := Finding{
		Rule: IdleAllocation, Severity: s, Site: z.Site, Node: z.Node, Owner: z.Owner, Part: "zombies", First: begin, Last: end,
		Evidence: []Evidence{
			{Text: "zombies, at least", Value: least, Unit: "count", Limit: limit(d.Zombies)},
			{Text: "zombies now", Value: z.Counts[n-1], Unit: "count"},
			{Text: "for", Value: span, Unit: "seconds", Limit: limit(d.ZombiesFor.Seconds())},
		},
	}
	f.SetText(ruleSentence("idle-allocation.zombies", phrase.Words{"zombies": quantity(least, "zombie")}))
	return f, true
}

package misuse

import (
	"time"

	"reckon/internal/phrase"
)

// Zombies is how many processes of an owner on a node had ended and were not waited for,
// over time; times are milliseconds since the Unix epoch.
type Zombies struct {
	Site, Node, Owner string

	Times  []int64
	Counts []float64
	Now    time.Time
}

// freshness is how old the last figure may be for zombies to be there still.
const freshness = 10 * time.Minute

// DeadProcesses is the rule idle-allocation for zombies. They use nothing but an entry of the
// table of processes, of which a machine has a limited number; the program that started
// them has a fault. Only the last stretch of time without a pause counts.
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
	return Finding{
		Rule: IdleAllocation, Severity: s, Site: z.Site, Node: z.Node, Owner: z.Owner, Part: "zombies", First: begin, Last: end,
		Text: texts.Say("idle-allocation.zombies", phrase.Words{"zombies": counted(least, "zombie")}),
		Evidence: []Evidence{
			{Text: "zombies, at least", Value: least, Unit: "count", Limit: limit(d.Zombies)}, {Text: "zombies now", Value: z.Counts[n-1], Unit: "count"},
			{Text: "for", Value: span, Unit: "seconds", Limit: limit(d.ZombiesFor.Seconds())},
		},
	}, true
}

package misuse

import (
	"fmt"
	"time"
)

// Zombies is how many processes of an owner on a node had ended and were not waited for,
// over time; times are milliseconds since the Unix epoch.
type Zombies struct {
	Site, Node, Owner string

	Times  []int64
	Counts []float64
	Now    time.Time
}

// told is how old the last figure may be for zombies to be there still.
const told = 10 * time.Minute

// DeadProcesses is the rule deadweight for zombies. They use nothing but an entry of the
// table of processes, of which a machine has a limited number; the program that started
// them has a fault. Only the last stretch of time without a pause counts.
func DeadProcesses(z Zombies, p *Policy) (Finding, bool) {
	d := &p.Deadweight
	n := len(z.Times)
	if !d.On || !(d.Zombies > 0) || n == 0 || n != len(z.Counts) || z.Now.Sub(time.UnixMilli(z.Times[n-1])) > told {
		return Finding{}, false
	}
	first, least := n, z.Counts[n-1]
	for first > 0 && z.Counts[first-1] >= d.Zombies && (first == n || z.Times[first]-z.Times[first-1] <= told.Milliseconds()) {
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
		Rule: Deadweight, Severity: s, Site: z.Site, Node: z.Node, Owner: z.Owner, Part: "zombies", First: begin, Last: end,
		Text: fmt.Sprintf("leaves %.0f zombies behind: processes that ended and whose parent does not wait for them", least),
		Evidence: []Evidence{
			{Text: "zombies, at least", Value: least, Unit: "count", Limit: limit(d.Zombies)}, {Text: "zombies now", Value: z.Counts[n-1], Unit: "count"},
			{Text: "for", Value: span, Unit: "seconds", Limit: limit(d.ZombiesFor.Seconds())},
		},
	}, true
}

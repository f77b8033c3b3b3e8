package misuse

import (
	"reckon/internal/phrase"
	"reckon/workload"
)

func (c *CannotStartRule) needs() (Needs, bool) { return Needs{Waiting: true}, c.On }

// judge finds jobs that wait for a condition that can never be met, because users easily overlook them in a queue. It
// also finds pods with a container that does not start.
func (c *CannotStartRule) judge(w *Workload, _ *Policy) []Finding {
	if wall := w.Wall(); w.Running && wall >= c.Minimum.Seconds() {
		return []Finding{w.newFinding(CannotStart, Medium, "container", "cannot-start.container", phrase.Words{"why": w.Stuck},
			Evidence{Text: "since its start", Value: wall, Unit: "seconds", Limit: limit(c.Minimum.Seconds())})}
	}
	if w.Waited < c.Minimum.Seconds() {
		return nil
	}
	part, key := "queue", "cannot-start"
	if workload.ID(w.ID).Kind().Pod() { // another node may come, or room on one
		part, key = "pod", "cannot-start.pod"
	}
	return []Finding{w.newFinding(CannotStart, Medium, part, key, phrase.Words{"span": Span(w.Waited), "why": w.Stuck},
		Evidence{Text: "waiting for", Value: w.Waited, Unit: "seconds", Limit: limit(c.Minimum.Seconds())})}
}

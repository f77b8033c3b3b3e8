package misuse

import "reckon/internal/phrase"

func (c *CannotStartRule) needs() (Needs, bool) { return Needs{Waiting: true}, c.On }

// judge finds jobs that wait for a condition that can never be met, which is easily overlooked in a queue, and pods of which a container
// does not start.
func (c *CannotStartRule) judge(w *Workload, _ *Policy) []Finding {
	if wall := w.Wall(); w.Running && wall >= c.Minimum.Seconds() {
		return []Finding{w.finding(CannotStart, Medium, "container", "cannot-start.container", phrase.Words{"why": w.Stuck},
			Evidence{Text: "since its start", Value: wall, Unit: "seconds", Limit: limit(c.Minimum.Seconds())})}
	}
	if w.Waited < c.Minimum.Seconds() {
		return nil
	}
	return []Finding{w.finding(CannotStart, Medium, "queue", "cannot-start", phrase.Words{"span": Span(w.Waited), "why": w.Stuck},
		Evidence{Text: "waiting for", Value: w.Waited, Unit: "seconds", Limit: limit(c.Minimum.Seconds())})}
}

package misuse

import "reckon/internal/phrase"

// cannotStart: a job that waits for what will never come, which nobody notices in a queue.
func cannotStart(w *Workload, p *Policy) []Finding {
	c := p.CannotStart
	if !c.On || w.Waited < c.Minimum.Seconds() {
		return nil
	}
	return []Finding{w.finding(CannotStart, Medium, "queue", "cannot-start", phrase.Words{"span": Span(w.Waited), "why": w.Stuck},
		Evidence{Text: "waiting for", Value: w.Waited, Unit: "seconds", Limit: limit(c.Minimum.Seconds())})}
}

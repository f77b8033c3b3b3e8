package misuse

import (
	"math"
	"time"

	"reckon/figure/format"
	"reckon/internal/phrase"
	"reckon/workload"
)

func (c *ManyConnectionsRule) needs() (Needs, bool) { return Needs{Ran: c.Minimum}, c.On }

func (c *ManyConnectionsRule) lines() (least map[string]float64, folded bool) {
	return map[string]float64{"network_connections": 600}, true
}

// judge finds work that opens TCP connections at a rate that burdens servers such as a batch controller, a licence
// server or a metadata server. It ignores services, because many connections are normal for them. If only the total is
// known, it takes the mean rate over the whole run.
func (c *ManyConnectionsRule) judge(w *Workload, _ *Policy) []Finding {
	if !workload.Kind(w.Kind).Person() || isExempt(c.Exempt, w.Owner) {
		return nil
	}
	return sustainedRule{rule: ManyConnections, part: "tcp", key: "many-connections",
		what:   "TCP connections that it tried to open in that time",
		figure: "network_connections", rate: c.Rate, high: c.HighRate, minimum: c.Minimum}.findings(w)
}

// sustainedRule is a rule about a rate that is sustained for a minimum time.
type sustainedRule struct {
	rule, part, key, what string
	figure                string // key of the total; the rate over time is among the lines of the workload
	rate, high            float64
	minimum               Duration
}

// findings judges the rate over the longest stretch above it or, if only the total is known, over the whole run.
func (r sustainedRule) findings(w *Workload) []Finding {
	s := interval{first: w.Start, last: w.Last, seconds: w.Wall(), mean: perSecond(w.Figure(r.figure), w.Wall())}
	found := s.mean >= r.rate && !workload.Kind(w.Kind).Folded() // short work is a sum without a run of its own
	if rates := w.Lines[r.figure]; rates != nil {
		s, found = rates.stretchAbove(r.rate, time.Duration(r.minimum))
	}
	if !found {
		return nil
	}
	return []Finding{w.newFinding(r.rule, highIf(Medium, s.mean >= r.high), r.part, r.key,
		phrase.Words{"rate": phrase.Number(s.mean, "1/s", format.Count(math.Round(s.mean))), "when": s.formatPeriod()},
		Evidence{Text: r.what, Value: s.mean, Unit: "1/s", Limit: limit(r.rate)},
		Evidence{Text: "for", Value: s.seconds, Unit: "seconds", Limit: limit(r.minimum.Seconds())})}
}

package misuse

import (
	"math"
	"time"

	"reckon/figure/format"
	"reckon/internal/phrase"
	"reckon/workload"
)

// manyConnections finds work that opens TCP connections at a rate that burdens the servers: the controller of
// a batch system, a licence server, a metadata server. For services, many connections are normal. If only the total is known, the rate is over the whole run.
func manyConnections(w *Workload, p *Policy) []Finding {
	c := p.ManyConnections
	if !c.On || w.Wall() < c.Minimum.Seconds() || !workload.Kind(w.Kind).Person() || exempt(c.Exempt, w.Owner) {
		return nil
	}
	return steady{rule: ManyConnections, part: "tcp", key: "many-connections", what: "TCP connections that it tried to open in that time",
		total: w.Connections, rates: w.Connects, rate: c.Rate, high: c.HighRate, minimum: time.Duration(c.Minimum)}.findings(w)
}

// steady is a rule about a rate that is sustained for a minimum time.
type steady struct {
	rule, part, key, what string
	total                 *float64
	rates                 *Line // per second over time; nil if only the total is known
	rate, high            float64
	minimum               time.Duration
}

// findings judges the rate over the longest stretch above it or, if only the total is known, over the whole run.
func (r steady) findings(w *Workload) []Finding {
	s := stretch{first: w.Start, last: w.Last, seconds: w.Wall(), mean: per(r.total, w.Wall())}
	found := s.mean >= r.rate && !workload.Kind(w.Kind).Folded() // short work is aggregated and has no run of its own
	if r.rates != nil {
		s, found = r.rates.above(r.rate, r.minimum)
	}
	if !found {
		return nil
	}
	return []Finding{w.finding(r.rule, grave(Medium, s.mean >= r.high), r.part, r.key,
		phrase.Words{"rate": format.Count(math.Round(s.mean)), "when": s.when()},
		Evidence{Text: r.what, Value: s.mean, Unit: "1/s", Limit: limit(r.rate)},
		Evidence{Text: "for", Value: s.seconds, Unit: "seconds", Limit: limit(r.minimum.Seconds())})}
}

package misuse

import (
	"math"
	"slices"
	"time"

	"reckon/figure/format"
	"reckon/internal/phrase"
)

// ofPeople are the kinds of work that people start. Services open connections for a living.
var ofPeople = []string{"slurm", "job", "session", "group", "short"}

// manyConnections: opens TCP connections, one after the other, at a rate that is felt by whoever answers them: the controller of
// a batch system, a licence server, a server of metadata. Where only the total is known, over its whole life.
func manyConnections(w *Workload, p *Policy) []Finding {
	c := p.ManyConnections
	wall := w.Wall()
	if !c.On || wall < c.Minimum.Seconds() || !slices.Contains(ofPeople, w.Kind) || exempt(c.Exempt, w.Owner) {
		return nil
	}
	s := stretch{first: w.Start, last: w.Last, seconds: wall, mean: per(w.Connections, wall)}
	found := s.mean >= c.Rate && w.Kind != "short" // what is short has no life of its own
	if w.Connects != nil {
		s, found = w.Connects.above(c.Rate, time.Duration(c.Minimum))
	}
	if !found {
		return nil
	}
	return []Finding{w.finding(ManyConnections, grave(Medium, s.mean >= c.HighRate), "tcp", "many-connections",
		phrase.Words{"rate": format.Count(math.Round(s.mean)), "when": s.when()},
		Evidence{Text: "TCP connections that it tried to open in that time", Value: s.mean, Unit: "1/s", Limit: limit(c.Rate)},
		Evidence{Text: "for", Value: s.seconds, Unit: "seconds", Limit: limit(c.Minimum.Seconds())})}
}

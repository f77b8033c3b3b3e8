package forecast

import (
	"context"
	"fmt"
	"time"

	"reckon/analysis/anomaly"
	"reckon/analysis/misuse"
)

const (
	// odd is the minimum score of an event in hourly means for a finding: work on shared machines varies more than that of servers.
	odd = 1.5
	// oddFor is how long after its last hour an event is a finding.
	oddFor = 24 * time.Hour
	// fullWithin is the maximum time until memory reaches its limit, hours, for a rise to be a finding.
	fullWithin = 72
	// peerHours is the number of hours over which a node is compared with the others of its site.
	peerHours = 72
)

// Anomalies returns the anomalies of sites, nodes and owners in the last day: hours that deviate from the pattern of the past, level
// shifts, memory that rises towards its limit, and nodes with unusual power for their site. They are evaluated once an hour.
func (k *Keeper) Anomalies(ctx context.Context) ([]misuse.Finding, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	end, err := k.end(ctx)
	if err != nil || end.IsZero() || end.Equal(k.oddAt) {
		return k.odd, err
	}
	var found []misuse.Finding
	peers := map[string][]series{} // by site
	take := func(list []series) error {
		for i := range list {
			s := &list[i]
			found = append(found, s.events(end)...)
			if f, ok := s.climb(end); ok {
				found = append(found, f)
			}
			if s.subject == Node && s.figure == "watts" {
				peers[s.site] = append(peers[s.site], *s)
			}
		}
		return ctx.Err()
	}
	for _, of := range []func(context.Context, time.Time, func([]series) error) error{k.sites, k.nodes, k.owners} {
		if err := of(ctx, end, take); err != nil {
			return nil, fmt.Errorf("detect anomalies: %w", err)
		}
	}
	for _, group := range peers {
		found = append(found, unlike(group, end)...)
	}
	k.odd, k.oddAt = found, end
	return found, nil
}

// finding returns a finding about the subject of the series.
func (s *series) finding(part string, end time.Time, first time.Time) misuse.Finding {
	f := misuse.Finding{Rule: misuse.Anomaly, Severity: misuse.Low, Site: s.site, Owner: s.owner, Part: part, First: first, Last: end}
	if s.subject == Node {
		f.Node = s.name
	}
	return f
}

// events returns the events of the last day; each is one finding.
func (s *series) events(end time.Time) []misuse.Finding {
	var out []misuse.Finding
	for _, e := range anomaly.Detect(s.values, anomaly.Config{Day: 24, Threshold: odd}) {
		at := func(i int) time.Time { return end.Add(-time.Duration(len(s.values)-i) * time.Hour) }
		if end.Sub(at(e.Last+1)) >= oddFor {
			continue
		}
		f := s.finding(s.figure, at(e.Last+1), at(e.First))
		f.Text = misuse.AnomalyText(string(e.Kind), s.figure, e.Value, e.Expected)
		f.Evidence = []misuse.Evidence{
			{Text: "value", Value: e.Value, Unit: unit(s.figure)},
			{Text: "expected from the days before", Value: e.Expected, Unit: unit(s.figure)},
			{Text: "how far outside, in thresholds", Value: e.Score, Unit: "count"},
		}
		out = append(out, f)
	}
	return out
}

// climb returns a finding if the memory of a node will reach its capacity.
func (s *series) climb(end time.Time) (misuse.Finding, bool) {
	if s.subject != Node || s.figure != "memory_bytes" {
		return misuse.Finding{}, false
	}
	c, ok := anomaly.Climbing(s.values, s.capacity, fullWithin)
	if !ok {
		return misuse.Finding{}, false
	}
	f := s.finding("memory-climbs", end, end.Add(-24*time.Hour))
	f.Severity = misuse.Medium
	f.Text = misuse.ClimbText(c.Steps*3600, c.PerStep)
	limit := s.capacity
	f.Evidence = []misuse.Evidence{
		{Text: "memory in use", Value: s.values[len(s.values)-1], Unit: "bytes", Limit: &limit},
		{Text: "until it is full at this rate", Value: c.Steps * 3600, Unit: "seconds"},
	}
	return f, true
}

// unlike returns the nodes with unusual power for their site.
func unlike(group []series, end time.Time) []misuse.Finding {
	var lines [][]float64
	for i := range group {
		v := group[i].values
		lines = append(lines, v[len(v)-peerHours:])
	}
	var out []misuse.Finding
	for _, u := range anomaly.Peers(lines) {
		f := group[u.Index].finding("unlike-peers", end, end.Add(-peerHours*time.Hour))
		f.Text = misuse.PeersText(u.Value, u.Peers)
		f.Evidence = []misuse.Evidence{{Text: "power, median of three days", Value: u.Value, Unit: "watts"},
			{Text: "of the other nodes of the site", Value: u.Peers, Unit: "watts"}}
		out = append(out, f)
	}
	return out
}

// unit returns the unit of a figure in evidence.
func unit(figure string) string {
	switch figure {
	case "memory_bytes":
		return "bytes"
	case "disk_bytes_per_second", "network_bytes_per_second":
		return "bytes/s"
	case "gpus":
		return "count"
	}
	return figure
}

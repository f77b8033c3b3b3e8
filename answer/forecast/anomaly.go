package forecast

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"reckon/analysis/anomaly"
	"reckon/analysis/misuse"
	"reckon/internal/quantiles"
	"reckon/store"
)

const (
	// odd is the minimum score of an event in hourly means for a finding: work on shared machines varies more than work of servers.
	odd = 1.3
	// oddFor is the time after its last hour for which an event is reported as a finding.
	oddFor = 24 * time.Hour
	// together is the longest time between events of two figures of a subject at which they count as one event.
	together = 3 * time.Hour
	// fullWithin is the time in hours within which rising memory must reach its limit to be a finding. Within soonFull
	// hours, the finding is more severe.
	fullWithin, soonFull = 14 * 24, 72
	// peerHours is the number of hours over which a node is compared with those like it.
	peerHours = 72
)

// Anomalies returns the anomalies of the last day for sites, nodes, running services and their owners. These are hours
// that deviate from the past pattern, level shifts, memory that rises towards its limit, and nodes with unusual power
// among equal ones. Deviations of several figures of a subject at one time are one anomaly. Owners of only batch work
// are skipped, because their use has no pattern. It recomputes once an hour.
func (k *Keeper) Anomalies(ctx context.Context) ([]misuse.Finding, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	end, err := k.completeUntil(ctx)
	if err != nil || end.IsZero() || end.Equal(k.oddAt) {
		return k.odd, err
	}
	l, err := k.readLimits(ctx, end)
	if err != nil {
		return nil, fmt.Errorf("detect anomalies: %w", err)
	}
	x := anomalySearch{end: end, limits: l, subjects: map[subject][]figureEvent{}, peers: map[string][]series{}, owners: map[string]bool{},
		climbs: map[subject]misuse.Finding{}}
	if err := k.eachService(ctx, end, func(w *store.Workload) error {
		x.owners[w.Owner] = true
		return k.readRecent(ctx, end, w, x.scanSeries)
	}); err != nil {
		return nil, fmt.Errorf("detect anomalies: %w", err)
	}
	for _, of := range []func(context.Context, time.Time, func([]series) error) error{k.readSites, k.readNodes, k.readOwners} {
		if err := of(ctx, end, x.scanSeries); err != nil {
			return nil, fmt.Errorf("detect anomalies: %w", err)
		}
	}
	k.odd, k.oddAt = x.buildFindings(), end
	return k.odd, nil
}

// subject is the site, node, service or owner that an anomaly is about.
type subject struct{ subject, site, owner, name string }

// figureEvent is an event in one figure of a subject.
type figureEvent struct {
	figure      string
	event       anomaly.Event
	first, last time.Time // hours that it began and ended
}

// anomalySearch looks for the anomalies of one hour.
type anomalySearch struct {
	end      time.Time
	limits   *machineLimits
	subjects map[subject][]figureEvent
	peers    map[string][]series // by hardware
	owners   map[string]bool     // of services
	climbs   map[subject]misuse.Finding
}

// scanSeries examines series.
func (x *anomalySearch) scanSeries(list []series) error {
	for i := range list {
		s := &list[i]
		if s.subject == Owner && !x.owners[s.owner] {
			continue
		}
		// The power of a service depends on its share of the machine's idle power, and thus on others.
		if s.figure != "watts" || s.subject == Site || s.subject == Node {
			x.addEvents(s)
		}
		x.addClimb(s)
		if s.subject == Node && s.figure == "watts" {
			like := s.site + ": " + x.limits.describeHardware(s)
			x.peers[like] = append(x.peers[like], *s)
		}
	}
	return nil
}

// addEvents records the events of the last day.
func (x *anomalySearch) addEvents(s *series) {
	at := func(i int) time.Time { return x.end.Add(-time.Duration(len(s.values)-i) * time.Hour) }
	of := subject{s.subject, s.site, s.owner, s.name}
	for _, e := range anomaly.Detect(s.values, anomaly.Config{Day: 24, Threshold: odd}) {
		h := figureEvent{s.figure, e, at(e.First), at(e.Last + 1)}
		if x.end.Sub(h.last) < oddFor && s.isLargeEnough(&e) {
			x.subjects[of] = append(x.subjects[of], h)
		}
	}
}

// minDeviation is the smallest relevant deviation of each figure.
var minDeviation = map[string]float64{"cores": 0.15, "memory_bytes": 256 << 20, "watts": 20, "gpus": 0.2, "disk_bytes_per_second": 4e6,
	"network_bytes_per_second": 4e6}

// nearlyNothing is the share of the expected value below which a figure counts as nearly nothing.
const nearlyNothing = 0.2

// isLargeEnough reports whether an event is large enough for a finding. Its deviation must reach the minimum for the figure.
// It must also reach half of the previous range, or the value must have dropped to nearly nothing.
func (s *series) isLargeEnough(e *anomaly.Event) bool {
	before := slices.DeleteFunc(slices.Clone(s.values[:e.First]), math.IsNaN)
	slices.Sort(before)
	usual := quantiles.Linear(before, 0.99) - quantiles.Linear(before, 0.01)
	far := math.Abs(e.Value - e.Expected)
	return far >= minDeviation[s.figure] && (far >= usual/2 || e.Value < nearlyNothing*e.Expected)
}

// addClimb records that memory will reach its limit.
func (x *anomalySearch) addClimb(s *series) {
	limit := s.capacity
	if s.subject == Workload {
		limit = s.limit
	}
	if s.figure != "memory_bytes" || s.subject != Node && s.subject != Workload || limit == 0 {
		return
	}
	c, ok := anomaly.DetectClimb(s.values, limit, fullWithin)
	if !ok {
		return
	}
	of := subject{s.subject, s.site, s.owner, s.name}
	f := of.newFinding(memoryRises, x.end.Add(-time.Duration(c.Rising)*time.Hour), x.end)
	if c.Steps <= soonFull {
		f.Severity = misuse.Medium
	}
	f.SetText(misuse.ClimbText(c.Steps*3600, c.PerStep, limit))
	f.Evidence = []misuse.Evidence{
		{Text: "memory in use", Value: s.values[len(s.values)-1], Unit: "bytes", Limit: &limit},
		{Text: untilLimit, Value: c.Steps * 3600, Unit: "seconds"},
	}
	x.climbs[of] = f
}

const untilLimit = "until its limit at this rate"

// MemoryPerHour returns the bytes an hour by which memory rises towards its limit, from the evidence of a finding; 0 for another one.
func MemoryPerHour(list []misuse.Evidence) float64 {
	if len(list) < 2 || list[1].Text != untilLimit || list[0].Limit == nil || list[1].Value <= 0 {
		return 0
	}
	return (*list[0].Limit - list[0].Value) / list[1].Value * 3600
}

// memoryRises is the part of the finding about rising memory. It is the same before and after the limit is near, so
// that both are one finding.
const memoryRises = "memory-climbs"

// buildFindings returns a finding for each event of a subject, whichever of its figures shows it.
func (x *anomalySearch) buildFindings() (out []misuse.Finding) {
	for of, list := range x.subjects {
		slices.SortFunc(list, func(a, b figureEvent) int { return cmp.Or(a.first.Compare(b.first), cmp.Compare(a.figure, b.figure)) })
		for len(list) > 0 {
			n, last := 1, list[0].last
			for n < len(list) && !list[n].first.After(last.Add(together)) {
				last = store.Later(last, list[n].last)
				n++
			}
			f := of.eventFinding(list[:n], last)
			if c, ok := x.climbs[of]; ok && f.Part == memoryRises {
				c.First = store.Earlier(c.First, f.First)
				c.Evidence = append(c.Evidence, f.Evidence...)
				x.climbs[of] = c
			} else {
				out = append(out, f)
			}
			list = list[n:]
		}
	}
	out = slices.AppendSeq(out, maps.Values(x.climbs))
	for like, group := range x.peers {
		_, like, _ = strings.Cut(like, ": ")
		out = append(out, findUnusualPower(group, like, x.end)...)
	}
	return out
}

// eventFinding returns the finding of one event that ended at a time. The figure with the largest deviation represents all.
func (of subject) eventFinding(list []figureEvent, last time.Time) misuse.Finding {
	list = slices.Clone(list)
	f := of.newFinding("odd since "+list[0].first.Format("2006-01-02 15:04"), list[0].first, last)
	slices.SortStableFunc(list, func(a, b figureEvent) int { return cmp.Compare(b.event.Score, a.event.Score) })
	f.First = list[0].first
	if e := list[0].event; list[0].figure == "memory_bytes" && e.Value > e.Expected {
		f.Part = memoryRises
	}
	f.SetText(misuse.AnomalyText(string(list[0].event.Kind), list[0].figure, list[0].event.Value, list[0].event.Expected))
	for _, h := range list {
		u := figureUnit(h.figure)
		f.Evidence = append(f.Evidence, misuse.Evidence{Text: h.figure, Value: h.event.Value, Unit: u},
			misuse.Evidence{Text: h.figure + " expected from the days before", Value: h.event.Expected, Unit: u},
			misuse.Evidence{Text: "how far outside " + h.figure + " was, in thresholds", Value: h.event.Score, Unit: "count"})
	}
	return f
}

// newFinding returns a finding about the subject.
func (of subject) newFinding(part string, first, last time.Time) misuse.Finding {
	f := misuse.Finding{Rule: misuse.Anomaly, Severity: misuse.Low, Site: of.site, Owner: of.owner, Part: part, First: first, Last: last}
	switch of.subject {
	case Node:
		f.Node = of.name
	case Workload:
		f.Workload = of.name
	}
	return f
}

// findUnusualPower returns the nodes with unusual power among nodes of the same kind.
func findUnusualPower(group []series, like string, end time.Time) []misuse.Finding {
	var lines [][]float64
	for i := range group {
		v := group[i].values
		lines = append(lines, v[len(v)-peerHours:])
	}
	var out []misuse.Finding
	for _, u := range anomaly.FindOutliers(lines) {
		s := &group[u.Index]
		f := subject{s.subject, s.site, s.owner, s.name}.newFinding("unlike-peers", end.Add(-peerHours*time.Hour), end)
		f.SetText(misuse.PeersText(u.Value, u.Peers, len(group)-1, like))
		f.Evidence = []misuse.Evidence{{Text: "power, median of three days", Value: u.Value, Unit: "watts"},
			{Text: "median of the nodes like it", Value: u.Peers, Unit: "watts"}}
		out = append(out, f)
	}
	return out
}

// figureUnit returns the unit of a figure in evidence.
func figureUnit(figure string) string {
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

package query

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/figure"
	"reckon/figure/wire"
	"reckon/internal/series"
)

const pressureMetric = "reckon_workload_pressure_seconds_total"

// maxEvents is the maximum number of events of one workload; the most severe are kept.
const maxEvents = 200

// minThrottled is the share of time for which a workload must be throttled to cause an event.
const minThrottled = 0.01

// Events returns the OOM kills and the CPU throttling of the workload in order of time. Each event has a start and an
// end, because a sample only shows that something happened since the previous sample.
func (v *Views) Events(ctx context.Context, s Selection) ([]wire.Event, error) {
	var out []wire.Event
	var n series.Labels
	err := v.eachSeries(ctx, s, s.From, s.To, []string{figure.OOMKills, figure.Throttled}, func(l labels.Labels,
		it chunkenc.Iterator) error {
		n.Read(l)
		out = append(out, counterEvents(&n, it, s.From.UnixMilli())...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(out) > maxEvents {
		slices.SortFunc(out, func(a, b wire.Event) int {
			return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.Value, a.Value)) // oom_kill comes first
		})
		out = out[:maxEvents]
	}
	slices.SortFunc(out, func(a, b wire.Event) int {
		return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Node, b.Node),
			cmp.Compare(a.Part, b.Part))
	})
	return out, nil
}

// counterEvents returns the events that one counter shows. The counter was zero at begin, in milliseconds since the Unix
// epoch. Throttling in consecutive samples is merged into one event, while each sample with kills is a separate event.
func counterEvents(n *series.Labels, it chunkenc.Iterator, begin int64) []wire.Event {
	var out []wire.Event
	t0, v0 := begin, 0.0
	for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
		if vt != chunkenc.ValFloat {
			continue
		}
		t, v := it.At()
		if value.IsStaleNaN(v) || math.IsNaN(v) || t <= t0 {
			continue
		}
		inc := v - v0
		if inc < 0 {
			inc = v // counter reset
		}
		e := wire.Event{Kind: "oom_kill", Unit: "count", Node: n.Node, Part: n.Part, From: time.UnixMilli(t0).UTC(),
			To: time.UnixMilli(t).UTC(), Value: inc}
		switch {
		case inc <= 0:
		case n.Metric == figure.OOMKills:
			out = append(out, e)
		case inc < minThrottled*float64(t-t0)/1000:
		default:
			e.Kind, e.Unit = "throttled", "seconds"
			if k := len(out) - 1; k >= 0 && out[k].To.Equal(e.From) {
				out[k].To, out[k].Value = e.To, out[k].Value+inc
				break
			}
			out = append(out, e)
		}
		t0, v0 = t, v
	}
	return out
}

// EnergyMethod returns how the energy of a workload was determined: "measured", "modelled" or a combination of both. It
// returns "" if the workload has no energy.
func (v *Views) EnergyMethod(ctx context.Context, s Selection) (string, error) {
	method := ""
	var n series.Labels
	err := v.eachSeries(ctx, s, s.From, s.To, []string{figure.Energy}, func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l, "method")
		if _, x, _, ok := series.Last(it); !ok || !(x > 0) {
			return nil
		}
		one := "modelled"
		if strings.HasPrefix(n.Rest["method"], "measured") {
			one = "measured"
		}
		if method != "" && method != one {
			one = "both"
		}
		method = one
		return nil
	})
	return method, err
}

// NodeCores returns the number of online processors of a site's nodes at a time. Nodes without samples are omitted.
func (v *Views) NodeCores(ctx context.Context, site string, nodes []string, at time.Time) (map[string]float64, error) {
	out := map[string]float64{}
	if len(nodes) == 0 {
		return out, nil
	}
	ms := []*labels.Matcher{series.Equal("__name__", figure.NodeCPU), series.Equal("mode", "idle"), series.OneOf("node", nodes)}
	if site != "" {
		ms = append(ms, series.Equal("site", site))
	}
	var n series.Labels
	err := series.ForEach(ctx, v.q, at.Add(-v.gone), at, func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l)
		if _, _, ended, ok := series.Last(it); ok && !ended {
			out[n.Node]++
		}
		return nil
	}, ms...)
	return out, err
}

// Renamed is a node that reported under another name before.
type Renamed struct {
	From, To string
	At       time.Time // the first sample under the new name
}

// Renames returns pairs of nodes of a workload that are the same machine under two names. Two nodes are the same
// machine if they report the same boot time to the second and one stopped reporting before the other began.
func (v *Views) Renames(ctx context.Context, s Selection, nodes []string) ([]Renamed, error) {
	if len(nodes) < 2 {
		return nil, nil
	}
	type seen struct {
		node        string
		first, last int64
		boot        float64
	}
	var all []seen
	ms := []*labels.Matcher{series.Equal("__name__", figure.NodeBoot), series.OneOf("node", nodes)}
	if s.Site != "" {
		ms = append(ms, series.Equal("site", s.Site))
	}
	var n series.Labels
	err := series.ForEach(ctx, v.q, s.From, s.To, func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l)
		one := seen{node: n.Node}
		for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
			if vt != chunkenc.ValFloat {
				continue
			}
			if t, x := it.At(); !math.IsNaN(x) {
				if one.first == 0 {
					one.first = t
				}
				one.last, one.boot = t, x
			}
		}
		if one.first != 0 {
			all = append(all, one)
		}
		return nil
	}, ms...)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b seen) int { return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.node, b.node)) })
	var out []Renamed
	for i, b := range all {
		for _, a := range all[:i] {
			if math.Abs(a.boot-b.boot) < 1 && a.last < b.first && a.node != b.node {
				out = append(out, Renamed{From: a.node, To: b.node, At: time.UnixMilli(b.first).UTC()})
			}
		}
	}
	return out, nil
}

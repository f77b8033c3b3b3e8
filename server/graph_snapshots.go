package server

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/prometheus/storage"

	"reckon/graph"
	"reckon/graph/feed"
	"reckon/graph/glaciation"
	"reckon/graph/object"
	"reckon/query"
	"reckon/store"
	"reckon/web/client"
	"reckon/workload"
)

// snapshots builds the timestamp: graphs for clients of GLACIATION, one per minute over six hours, from the series of that time.
type snapshots struct {
	catalogue store.Catalogue
	nodes     interface {
		Nodes(ctx context.Context, now time.Time) ([]client.Node, error)
	}
	engine *query.Engine
	series storage.Queryable
	now    func() time.Time
}

// Times implements embedded.Snapshots.
func (s *snapshots) Times(context.Context) ([]int64, error) {
	last := s.now().Truncate(time.Minute)
	var out []int64
	for at := last.Add(-timestampRetention + time.Minute); !at.After(last); at = at.Add(time.Minute) {
		out = append(out, at.UnixMilli())
	}
	return out, nil
}

// seriesQueries returns the PromQL expression for each figure of a workload that is read from the series.
func seriesQueries() map[object.Query]string {
	of := func(what, source, unit string) object.Query {
		return object.Query{Measurement: "Usage", Subresource: what, Source: source, Unit: unit, Property: what + ".Usage",
			Aggregation: "average", Period: 5 * time.Minute}
	}
	energy := of("", "Kepler", "milliwatt")
	energy.Measurement, energy.Property = "Energy.Usage", "Energy.Usage"
	return map[object.Query]string{
		of("CPU", "cAdvisor", "Core"):      `sum by (workload) (rate(reckon_workload_cpu_seconds_total[5m]))`,
		of("RAM", "cAdvisor", "bytes"):     `sum by (workload) (reckon_workload_memory_bytes)`,
		of("Network", "cAdvisor", "bytes"): `sum by (workload) (rate(reckon_workload_network_bytes_total[5m]))`,
		energy:                             `1000 * sum by (workload) (rate(reckon_workload_energy_joules_total[5m]))`,
	}
}

// At implements embedded.Snapshots.
func (s *snapshots) At(ctx context.Context, ms int64, visible func(graph.Info) bool) ([]graph.Quad, error) {
	at := time.UnixMilli(ms).UTC()
	d := glaciation.New("").Document()
	nodes, err := s.nodes.Nodes(ctx, at)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, n := range nodes {
		names = append(names, n.Node)
	}
	d.Cluster("", names)
	for i := range nodes {
		addNode(d, &nodes[i], ms)
	}
	list, _, err := s.catalogue.Workloads(ctx, store.Filter{Since: at, Until: at.Add(time.Millisecond)})
	if err != nil {
		return nil, err
	}
	pods := map[string]string{} // of workloads
	for i := range list {
		w := &list[i]
		if workload.Kind(w.Kind).Sum() || visible != nil && !visible(graph.Info{Owner: w.Owner}) {
			continue
		}
		pods[w.ID] = addWorkload(d, w, at)
	}
	for q, text := range seriesQueries() {
		values, err := s.queryByWorkload(ctx, text, at)
		if err != nil {
			return nil, err
		}
		for id, v := range values {
			if pod, ok := pods[id]; ok {
				d.PodMeasurement(object.Measurement{Query: q, Resource: pod, Time: ms, Value: v}, ms)
			}
		}
	}
	return d.Quads(), nil
}

func addNode(d *glaciation.Document, n *client.Node, ms int64) {
	o := object.Node{Name: n.Node, Status: "NotReady", Allocatable: object.Amounts{}}
	if n.Up {
		o.Status = "Ready"
	}
	if n.Boot != nil {
		o.Since = *n.Boot
	}
	var free []object.Measurement
	say := func(what, unit string, total, used *float64) {
		r := object.Resource(what)
		if total == nil {
			return
		}
		o.Allocatable[r] = *total
		if used != nil {
			q := object.Query{Measurement: "Available", Subresource: what, Source: "NodeExporter", Unit: unit,
				Property: what + ".Available", Aggregation: "average", Period: 5 * time.Minute}
			free = append(free, object.Measurement{Query: q, Resource: n.Node, Time: ms, Value: max(0, *total-*used)})
		}
	}
	say("CPU", "Core", n.Cores, n.CoresUsed)
	say("RAM", "bytes", n.MemoryBytes, n.MemoryUsed)
	d.Node(o, ms)
	for _, m := range free {
		d.NodeMeasurement(m, ms)
	}
}

// addWorkload describes a workload as a task with one pod on each of its nodes, and returns the name of the first pod.
func addWorkload(d *glaciation.Document, w *store.Workload, at time.Time) string {
	rest := strings.TrimPrefix(w.ID, w.Kind+"/")
	namespace, name := w.Owner, strings.ReplaceAll(rest, "/", ".")
	if before, after, ok := strings.Cut(rest, "/"); ok {
		namespace, name = before, strings.ReplaceAll(after, "/", ".")
	}
	task := object.Workload{Kind: w.Kind, Namespace: namespace, Name: name, Containers: []object.Requirements{{
		Requests: feed.Amounts(w.RequestCores, w.RequestMemoryBytes, w.RequestGPUs),
		Limits:   feed.Amounts(w.LimitCores, w.LimitMemoryBytes, nil),
	}}}
	d.Workload(task)
	first := ""
	for i, node := range w.Nodes {
		p := object.Pod{Namespace: namespace, Name: name, Node: node, Phase: "Running", Start: w.Start,
			Owners: []object.Ref{{Kind: w.Kind, Name: name}}}
		if i > 0 {
			p.Name = fmt.Sprintf("%s-%d", name, i)
		}
		if !w.End.IsZero() && !w.End.After(at) {
			p.Phase, p.End = "Succeeded", w.End
		}
		d.Pod(p)
		first = cmp.Or(first, p.Namespace+"."+p.Name)
	}
	return first
}

func (s *snapshots) queryByWorkload(ctx context.Context, text string, at time.Time) (map[string]float64, error) {
	v, err := vectorOf(ctx, s.engine, s.series, text, at)
	if err != nil {
		return nil, err
	}
	out := make(map[string]float64, len(v))
	for _, sample := range v {
		out[sample.Metric.Get("workload")] = sample.F
	}
	return out, nil
}

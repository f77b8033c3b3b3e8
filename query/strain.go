package query

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/figure"
	"reckon/internal/series"
	"reckon/workload"
)

// Strain holds indicators of resource shortage in a workload. Unmeasured ones are nil.
type Strain struct {
	// MemoryStalled and StorageStalled are the seconds that some task waited for memory or storage:
	// the maximum over the parts, because they stall at the same time.
	MemoryStalled, StorageStalled *float64
	// Refaults is memory that was reclaimed and soon needed again, bytes.
	Refaults *float64
	// Threads is the maximum number of threads at a time on a node.
	Threads *float64
	// Tasks are the parts on each node that the batch system started as several tasks, in no order.
	Tasks []TaskUse
	// Resent is the number of retransmitted TCP segments. Sent is the payload sent over TCP in bytes, and SentCalls the number of calls.
	Resent, Sent, SentCalls *float64
	// LastProcess is the last time a process of the workload was observed; zero if none was.
	LastProcess time.Time
}

// TaskUse is the balance of CPU use over the tasks of a part on a node.
type TaskUse struct {
	Node, Part string
	Tasks      float64
	Busiest    float64 // CPU seconds of the busiest task, a lower bound
}

const (
	tasksMetric   = "reckon_workload_tasks"
	busiestMetric = "reckon_workload_busiest_task_cpu_seconds_total"
	refaultMetric = "reckon_workload_memory_refault_bytes_total"
	threadsMetric = "reckon_workload_threads"
	processMetric = "reckon_workload_processes"
	resentMetric  = "reckon_workload_network_retransmits_total"
	callsMetric   = "reckon_workload_network_messages_total"
)

// Strain returns the shortages of a workload.
func (v *Views) Strain(ctx context.Context, s Selection) (Strain, error) {
	var out Strain
	threads := map[string]map[int64]float64{} // by node and time
	tasks := map[partKey]*TaskUse{}
	last := int64(0)
	var n series.Labels
	names := []string{refaultMetric, threadsMetric, processMetric, pressureMetric, tasksMetric, busiestMetric, resentMetric, callsMetric,
		figure.Network, figure.Loopback}
	err := v.eachSeries(ctx, s, s.From, s.To, names, func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l, "resource", "direction", "protocol")
		switch n.Metric {
		case resentMetric, callsMetric, figure.Network, figure.Loopback:
			out.addTransport(&n, it)
		case threadsMetric:
			by := threads[n.Node]
			if by == nil {
				by = map[int64]float64{}
				threads[n.Node] = by
			}
			eachValue(it, func(t int64, x float64) { by[t] += x })
		case processMetric:
			eachValue(it, func(t int64, x float64) {
				if x > 0 {
					last = max(last, t)
				}
			})
		case tasksMetric, busiestMetric:
			at := partKey{n.Node, n.Part}
			if tasks[at] == nil {
				tasks[at] = &TaskUse{Node: n.Node, Part: n.Part}
			}
			if n.Metric == tasksMetric {
				eachValue(it, func(_ int64, x float64) { tasks[at].Tasks = max(tasks[at].Tasks, x) })
			} else if total, ok := series.Total(it); ok {
				tasks[at].Busiest += total
			}
		case refaultMetric:
			addTotal(&out.Refaults, it)
		default:
			total, ok := series.Total(it)
			switch {
			case !ok:
			case n.Rest["resource"] == "memory":
				raiseTo(&out.MemoryStalled, total)
			case n.Rest["resource"] == "io":
				raiseTo(&out.StorageStalled, total)
			}
		}
		return nil
	})
	if err != nil {
		return Strain{}, err
	}
	if last != 0 {
		out.LastProcess = time.UnixMilli(last)
	}
	for _, use := range tasks {
		out.Tasks = append(out.Tasks, *use)
	}
	for _, by := range threads {
		for _, x := range by {
			raiseTo(&out.Threads, x)
		}
	}
	return out, nil
}

// addTransport adds a series of network traffic if it counts data sent over TCP.
func (s *Strain) addTransport(n *series.Labels, it chunkenc.Iterator) {
	switch {
	case n.Metric == resentMetric:
		addTotal(&s.Resent, it)
	case n.Rest["direction"] != "transmit" || n.Rest["protocol"] != "tcp":
	case n.Metric == callsMetric:
		addTotal(&s.SentCalls, it)
	default:
		addTotal(&s.Sent, it)
	}
}

// addTotal adds the count of a counter since it began.
func addTotal(to **float64, it chunkenc.Iterator) {
	if total, ok := series.Total(it); ok {
		figure.Plus(to, &total)
	}
}

func eachValue(it chunkenc.Iterator, take func(t int64, v float64)) {
	for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
		if t, x := it.At(); vt == chunkenc.ValFloat && !math.IsNaN(x) {
			take(t, x)
		}
	}
}

// raiseTo raises the value at p to v if that is larger.
func raiseTo(p **float64, v float64) {
	if *p == nil || v > **p {
		*p = &v
	}
}

// maxSampleAge is the maximum age of the last sample of a node that counts as observed.
const maxSampleAge = 5 * time.Minute

// Resized reports whether the batch system changed the allocation of the workload during its run. If so, the current
// allocation does not apply to the whole run.
func (v *Views) Resized(ctx context.Context, s Selection) (changed bool, err error) {
	err = v.eachSeries(ctx, s, s.From, s.To, []string{"reckon_workload_allocation_time_seconds"},
		func(_ labels.Labels, it chunkenc.Iterator) error {
			_, since, _, ok := series.Last(it)
			changed = changed || ok && since*1000 > float64(s.From.UnixMilli())
			return nil
		})
	return changed, err
}

// Watched reports whether an agent reported from each of the nodes shortly before a time.
func (v *Views) Watched(ctx context.Context, site string, nodes []string, at time.Time) (bool, error) {
	ms := []*labels.Matcher{series.Equal("__name__", figure.NodeBoot), series.OneOf("node", nodes)}
	if site != "" {
		ms = append(ms, series.Equal("site", site))
	}
	seen := map[string]bool{}
	var n series.Labels
	err := series.ForEach(ctx, v.q, at.Add(-maxSampleAge), at, func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l)
		eachValue(it, func(int64, float64) { seen[n.Node] = true })
		return nil
	}, ms...)
	return len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n string) bool { return !seen[n] }), err
}

// Neighbour is one owner's use of the nodes of a workload by other workloads, while it ran.
type Neighbour struct {
	Owner string
	Cores float64 // on average
}

// neighbourSpan is the last part of the run in which neighbours are searched.
const neighbourSpan = 24 * time.Hour

// Neighbours returns how much other workloads used the workload's nodes during its run, largest first. It includes
// workloads of the same owner.
func (v *Views) Neighbours(ctx context.Context, s Selection, nodes []string) ([]Neighbour, error) {
	from := s.From
	if s.To.Sub(from) > neighbourSpan {
		from = s.To.Add(-neighbourSpan)
	}
	seconds := s.To.Sub(from).Seconds()
	if len(nodes) == 0 || seconds <= 0 {
		return nil, nil
	}
	ms := []*labels.Matcher{series.Equal("__name__", figure.CPU), series.OneOf("node", nodes),
		labels.MustNewMatcher(labels.MatchNotEqual, "kind", string(workload.Other))}
	if s.Site != "" {
		ms = append(ms, series.Equal("site", s.Site))
	}
	used, own := map[string]float64{}, s.allIDs()
	var n series.Labels
	err := series.ForEach(ctx, v.q, from, s.To, func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l)
		if slices.Contains(own, n.Workload) {
			return nil
		}
		last := math.NaN()
		eachValue(it, func(_ int64, x float64) {
			switch {
			case x < last:
				used[n.Owner] += x
			case x > last:
				used[n.Owner] += x - last
			}
			last = x
		})
		return nil
	}, ms...)
	if err != nil {
		return nil, err
	}
	var out []Neighbour
	for owner, v := range used {
		if v > 0 {
			out = append(out, Neighbour{owner, v / seconds})
		}
	}
	slices.SortFunc(out, func(a, b Neighbour) int { return cmp.Or(cmp.Compare(b.Cores, a.Cores), cmp.Compare(a.Owner, b.Owner)) })
	return out, nil
}

// Exactness returns the worst exactness that was reported for each figure, for a kind of workload on the given nodes
// during the selection. Values are 0 exact, 1 at least, 2 estimated, 3 modelled and 4 at most. Figures without a report
// are omitted.
func (v *Views) Exactness(ctx context.Context, s Selection, kind string, nodes []string) (map[string]int, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	ms := []*labels.Matcher{series.Equal("__name__", figure.ExactnessOf), series.OneOf("node", nodes), series.Equal("kind", kind),
		series.OneOf("workload", append(s.allIDs(), ""))}
	if s.Site != "" {
		ms = append(ms, series.Equal("site", s.Site))
	}
	out, worst := map[string]int{}, figure.Degrees{}
	var n series.Labels
	err := series.ForEach(ctx, v.q, s.From, s.To, func(l labels.Labels, it chunkenc.Iterator) error {
		n.Read(l, "figure")
		of := n.Rest["figure"]
		eachValue(it, func(_ int64, x float64) {
			worst[of] = worst.With(of, figure.Exactness(x))
			out[of] = int(worst[of])
		})
		return nil
	}, ms...)
	return out, err
}

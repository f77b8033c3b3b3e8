package scheduler

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"reckon/metric"
)

// table keeps series with changing members, and ends those that a round does not include.
type table struct {
	series map[string]*tableEntry
	round  uint64
}

type tableEntry struct {
	series *metric.Series
	round  uint64
}

// beginRound starts a round.
func (t *table) beginRound() { t.round++ }

func (t *table) addSample(b *metric.Batch, d *metric.Desc, v float64, values ...string) {
	k := d.Name + "\x00" + strings.Join(values, "\x00")
	e := t.series[k]
	if e == nil {
		if t.series == nil {
			t.series = map[string]*tableEntry{}
		}
		e = &tableEntry{series: metric.NewSeries(d, values...)}
		t.series[k] = e
	}
	if e.round != t.round { // otherwise it is a duplicate in this round
		e.round = t.round
		b.Add(e.series, v)
	}
}

// endRound ends the series that the round did not include.
func (t *table) endRound(b *metric.Batch) {
	for _, k := range slices.Sorted(maps.Keys(t.series)) {
		if e := t.series[k]; e.round != t.round {
			b.Samples = append(b.Samples, metric.Sample{Series: e.series, Value: staleMarker, Last: true})
			delete(t.series, k)
		}
	}
}

// addNodes writes the state of nodes and partitions.
func (t *table) addNodes(b *metric.Batch, nodes []Node, parts []Partition) {
	t.beginRound()
	for i := range nodes {
		n := &nodes[i]
		name := validLabel(n.Name)
		open := 0.0
		if n.Open() {
			open = 1
		}
		t.addSample(b, nodeState, open, name, validLabel(n.State), validLabel(strings.Join(n.Flags, ",")), validLabel(n.Reason))
		t.addSample(b, nodeInfo, 1, name, validLabel(n.Features))
		if n.Cores > 0 {
			t.addSample(b, nodeCores, n.Cores, name)
			t.addSample(b, nodeAllocatedCores, n.AllocatedCores, name)
		}
		if n.MemoryBytes > 0 {
			t.addSample(b, nodeMemory, n.MemoryBytes, name)
		}
		if n.AllocatedGPUs != nil && n.MemoryBytes > 0 {
			t.addSample(b, nodeAllocatedMemory, n.AllocatedMemory, name)
		}
		t.addSample(b, nodeGPUs, n.GPUs, name)
		if n.AllocatedGPUs != nil {
			t.addSample(b, nodeAllocatedGPUs, *n.AllocatedGPUs, name)
		}
		for _, p := range n.Partitions {
			t.addSample(b, partitionNode, 1, validLabel(p), name)
		}
	}
	for i := range parts {
		p := &parts[i]
		t.addSample(b, partitionInfo, 1, validLabel(p.Name), validLabel(p.State), strconv.FormatBool(p.Default))
		if p.Seconds > 0 {
			t.addSample(b, partitionLimit, p.Seconds, validLabel(p.Name))
		}
	}
	t.endRound(b)
}

// addJobs writes the number of jobs per partition and state.
func (t *table) addJobs(b *metric.Batch, jobs []Job) {
	type group struct{ partition, state string }
	count, cores := map[group]float64{}, map[group]float64{}
	for i := range jobs {
		j := &jobs[i]
		if j.Ended {
			continue
		}
		g := group{validLabel(j.Partition), j.State}
		many := float64(max(j.Tasks, 1))
		count[g] += many
		cores[g] += many * j.Cores
	}
	t.beginRound()
	for _, g := range slices.SortedFunc(maps.Keys(count), func(x, y group) int {
		return cmp.Or(cmp.Compare(x.partition, y.partition), cmp.Compare(x.state, y.state))
	}) {
		n := count[g]
		t.addSample(b, partitionJobs, n, g.partition, g.state)
		t.addSample(b, partitionCores, cores[g], g.partition, g.state)
	}
	t.endRound(b)
}

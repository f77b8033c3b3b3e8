package catalogue

import (
	"cmp"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/internal/series"
)

// sameBoot is the largest difference in milliseconds between two reports of the same boot time. They are rounded to
// whole seconds.
const sameBoot = 2000

// counterBegin is the time when a counter was zero, and the first sample after it.
type counterBegin struct{ at, first int64 }

// bootRun is a period in which a series reported the same boot time. Times are in milliseconds.
type bootRun struct{ at, first, last int64 }

// nodeBoots holds the boots of a node from the series with the latest boot.
type nodeBoots struct {
	series uint64 // hash of its labels
	runs   []bootRun
}

// bootRuns splits a series of boot times (seconds) into runs.
func bootRuns(it chunkenc.Iterator) (out []bootRun) {
	for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
		if vt != chunkenc.ValFloat {
			continue
		}
		t, v := it.At()
		if value.IsStaleNaN(v) || math.IsNaN(v) {
			continue
		}
		out = joinBoots(out, bootRun{int64(v * 1000), t, t})
	}
	return out
}

// joinBoots appends a run to those before it.
func joinBoots(list []bootRun, r bootRun) []bootRun {
	if n := len(list); n > 0 && max(list[n-1].at-r.at, r.at-list[n-1].at) <= sameBoot {
		list[n-1].last = r.last
		return list
	}
	return append(list, r)
}

// recordBoot records a series of boot times of a node, or an earlier part of it.
func (p *pass) recordBoot(n nodeKey, l labels.Labels, it chunkenc.Iterator) {
	runs := bootRuns(it)
	if len(runs) == 0 {
		return
	}
	if had, ok := p.watched[n]; !ok || runs[0].first < had {
		p.watched[n] = runs[0].first
	}
	hash, old := l.Hash(), p.boots[n]
	switch {
	case old.series == hash:
		runs = append(runs, old.runs...)
		slices.SortFunc(runs, func(a, b bootRun) int { return cmp.Compare(a.first, b.first) })
		var joined []bootRun
		for _, r := range runs {
			joined = joinBoots(joined, r)
		}
		p.boots[n] = nodeBoots{hash, joined}
	case len(old.runs) == 0 || runs[len(runs)-1].at > old.runs[len(old.runs)-1].at:
		p.boots[n] = nodeBoots{hash, runs}
	}
}

// replacedAt returns the time since which another machine has had the name of a node, the latest before t. It is 0 if
// there was no other machine. A machine is another one if it booted while the previous one still reported its own boot
// time.
func (b nodeBoots) replacedAt(t int64) (at int64) {
	for i := 1; i < len(b.runs); i++ {
		if r := b.runs[i]; r.first <= t && r.at <= b.runs[i-1].last {
			at = r.first
		}
	}
	return at
}

// bootAt returns the boot time of the machine that had the name at a time, or 0 if unknown.
func (b nodeBoots) bootAt(t int64) (at int64) {
	for i, r := range b.runs {
		if i == 0 || r.first <= t {
			at = r.at
		}
	}
	return at
}

// origin is the time from which the counters of a series count.
type origin struct {
	ofNode  bool
	boots   nodeBoots
	watched int64          // the first sample of the node; 0 if unknown
	starts  []counterBegin // of its part of the workload
	strict  bool           // machines replaced each other: a start belongs to the one that reports it
}

// findOrigin finds the origin of a series.
func (p *pass) findOrigin(n *series.Labels, s slot) origin {
	at := nodeKey{n.Site, n.Node}
	o := origin{ofNode: isNodeSlot(s), boots: p.boots[at], watched: p.watched[at]}
	if o.ofNode {
		return o
	}
	part := partKey{workloadKey{n.Site, n.Workload}, seriesPlace(n)}
	var ok bool
	if o.starts, ok = p.starts[part]; !ok {
		part.Owner = ""
		o.starts = p.starts[part]
	}
	o.strict = o.boots.replacedAt(math.MaxInt64) != 0
	return o
}

// watchedSince returns the time of the node's first sample, or of the first sample of a machine that replaced it before
// t. It is 0 if unknown.
func (o *origin) watchedSince(t int64) int64 { return max(o.watched, o.boots.replacedAt(t)) }

// counterStart returns the last time up to t at which the counter began at zero, or 0. A counter begins with its part of the
// workload, or with the boot of the node.
func (o *origin) counterStart(t int64) (at int64) {
	if o.ofNode {
		if at = o.boots.bootAt(t); at > t {
			return 0
		}
		return at
	}
	for _, b := range o.starts {
		if b.at <= t && (!o.strict || b.first <= t) {
			at = max(at, b.at)
		}
	}
	return at
}

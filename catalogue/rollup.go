package catalogue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/figure"
	"reckon/internal/series"
	"reckon/store"
	"reckon/workload"
)

const (
	// lookAround is the time before and after an hour for which samples are also read. With them, an increase across
	// the end of an hour is split between two hours.
	lookAround = 5 * time.Minute
	// settled is the time after which a finished hour is computed for the last time.
	settled = 2 * lookAround
	// lookBack is the time over which the sample before a gap is looked for.
	lookBack = 7 * 24 * time.Hour
	// beforeWatch is the largest age of a workload at its first sample for which the earlier use is spread over its
	// life. The use of an older workload is counted from its first sample on.
	beforeWatch = 24 * time.Hour
	rollSlice   = 6 * time.Hour
	// fewGaps is the number of series up to which samples before the last minutes are searched one by one.
	fewGaps = 64
	rollKey = "rollups"
)

// roller computes roll-ups of whole hours. An hour depends only on the series and the catalogue's
// rows, so recomputing it changes nothing. An increase between two samples is spread evenly over
// the time between them, so that the hours of a workload sum to its counters even after a gap.
type roller struct {
	q      storage.Queryable
	cat    store.Catalogue
	out    store.Rollups
	done   time.Time    // hours before are settled
	next   time.Time    // when the hour under way is made again
	soon   time.Time    // the same for a request for current usage
	rolled bool         // it has made some row
	late   time.Time    // rows changed this far back; zero when none did
	kept   [2]time.Time // done and late as they were saved

	reports bool // the store knows the oldest sample that was appended since the last round
	now     currentHours
	fresh   time.Time // samples from here on were appended since the hours under way were made; zero if unknown
	made    time.Time // when the hours under way were made last
	// apart is for how long samples of a series lie apart, and how late they come, as was seen of late.
	apart time.Duration

	groupsInPart int64 // the constant; tests set less
}

func (b *Builder) newRoller() *roller {
	out, ok := b.cat.(store.Rollups)
	if !ok {
		return nil
	}
	_, reports := b.q.(appendReporter)
	return &roller{q: b.q, cat: b.cat, out: out, reports: reports, groupsInPart: groupsInPart}
}

// noteLate records that rows changed from the time t on.
func (r *roller) noteLate(t time.Time) {
	if r != nil && (r.late.IsZero() || t.Before(r.late)) {
		r.late = t
	}
}

// markChanged marks hours to be computed again if the allocation of a batch run in them changed. That is so if the run is
// new, its end became known, or its start or owner changed.
func (r *roller) markChanged(a *account, w *store.Workload) {
	if r == nil || !workload.Kind(w.Kind).Scheduled() || r.done.IsZero() {
		return
	}
	// A run with another assumed start, because samples of another run were attributed to it.
	for _, was := range w.PreviousStarts {
		if !was.Equal(w.Submit) && was.Before(r.done) {
			r.noteLate(was)
		}
	}
	at := w.End
	switch {
	// its hours have another name, or lack its allocation
	case a.Wrote != (writtenState{}) && a.Wrote != writtenState{w.Owner, a.isReported()}:
		at = w.Start
	case !a.Fixed || len(w.PreviousStarts) > 0 && (at.IsZero() || w.Start.Before(at)):
		at = w.Start
	case at.IsZero():
		return
	case a.Ended:
		if a.Over == 0 || a.Over == at.UnixMilli() {
			return
		}
		at = store.Earlier(at, time.UnixMilli(a.Over)) // it was taken to have ended when it was reported last
	}
	r.dropKept(at) // also in the current hours, in which only the last minutes are reread
	if at.Before(r.done) {
		r.noteLate(at)
	}
}

// computeHours computes the hours from from to to, and earlier hours if a gap extends into them. It also reads samples
// for the time ahead after to, because the next sample of a counter includes the use of these hours. It returns the
// time of the newest sample in milliseconds.
func (r *roller) computeHours(ctx context.Context, from, to, oldest time.Time, ahead time.Duration) (newest int64, err error) {
	p, from, err := r.readPass(ctx, from, to, oldest, ahead)
	if err != nil {
		return 0, err
	}
	use, nodes := p.toRows()
	r.rolled = r.rolled || len(use) > 0
	r.dropKept(from)
	return p.newest, r.out.ReplaceHours(ctx, from, to, use, nodes)
}

// readPass reads the hours of a time range. If a gap in the samples extends into earlier hours, it reads those as well.
func (r *roller) readPass(ctx context.Context, from, to, oldest time.Time, ahead time.Duration) (*pass, time.Time, error) {
	for {
		p := newPass(from, to)
		step, err := r.partLength(ctx, p.from, p.to)
		if err == nil {
			p, err = r.readInParts(ctx, p, step, oldest, ahead)
		}
		if err != nil {
			return nil, from, fmt.Errorf("roll up %s: %w", from.UTC().Format(time.RFC3339), err)
		}
		back := time.UnixMilli(p.back).Truncate(time.Hour)
		if !back.Before(from) || oldest.Truncate(time.Hour).After(back) {
			return p, from, nil
		}
		from = back
	}
}

// readInParts reads the time of a pass in parts of step milliseconds. Time with batch runs is read in one part, because
// allocations of parts do not add up.
func (r *roller) readInParts(ctx context.Context, p *pass, step int64, oldest time.Time, ahead time.Duration) (*pass, error) {
	from, to, before, known := p.from, p.to, p.stretchIndex(p.from), p.known
	for at := from; at < to; at += step {
		end := min(at+step, to)
		if p.ahead = 0; end == to {
			p.ahead = ahead
		}
		if step < to-from {
			p.limitTo(at, end)
		}
		if err := p.read(ctx, r.q, r.out, oldest); err != nil {
			return nil, err
		}
		if p.batch && step < to-from {
			whole := newPassAt(p.edges, before)
			whole.ahead, whole.known, whole.history = ahead, known, p.history
			return whole, whole.read(ctx, r.q, r.out, oldest)
		}
	}
	return p, nil
}

// groupsInPart is the maximum number of ended process groups in one part, at some kilobytes of memory each.
const groupsInPart = 10_000

// partLength returns the length in milliseconds of the parts that a time range is read in.
func (r *roller) partLength(ctx context.Context, from, to int64) (int64, error) {
	facts, ok := r.cat.(interface {
		Passed(ctx context.Context, since, until time.Time, group time.Duration) ([]store.EndedGroups, error)
	})
	if !ok {
		return to - from, nil
	}
	list, err := facts.Passed(ctx, time.UnixMilli(from), time.UnixMilli(to), time.Hour)
	if err != nil {
		return 0, err
	}
	groups := int64(0)
	for i := range list {
		groups += int64(list[i].Count)
	}
	const minute = int64(time.Minute / time.Millisecond)
	parts := 1 + groups/r.groupsInPart
	length := (to-from)/parts + minute - 1
	return max(length-length%minute, lookAround.Milliseconds()), nil
}

const (
	memoryTotal = "node_memory_MemTotal_bytes"
	memoryFree  = "node_memory_MemAvailable_bytes"
)

// rollSlot returns the slot of a counter that hours need.
func rollSlot(n *series.Labels) (slot, bool) {
	s, ok := hourSlots.findSlot(n)
	return s, ok && (s < firstHourFigure || n.Workload != "")
}

// isNodeSlot reports whether the series of a slot belong to a node instead of a workload.
func isNodeSlot(s slot) bool { return s == nodeCPUSlot || s == nodeEnergySlot }

// orphanSample is a sample without a usable previous sample. Either none is within reach, or this is the node's first sample, or
// the previous one is from another machine that had the node's name.
type orphanSample struct {
	labels labels.Labels
	t      int64
	v      float64
	before *point // nil if none is in reach
}

// readCounters reads all counters around the hours of the pass.
func (p *pass) readCounters(ctx context.Context, q storage.Queryable, oldest time.Time) error {
	ms := series.OneOf("__name__", hourSlots.metricNames())
	var gaps []*orphanSample
	reach := p.readStart()
	err := series.EachUnordered(ctx, q, reach, time.UnixMilli(p.to).Add(p.ahead), func(l labels.Labels, it chunkenc.Iterator) error {
		p.names.Read(l, hourLabels...)
		slot, ok := rollSlot(&p.names)
		if !ok {
			return nil
		}
		p.clear()
		origin := p.findOrigin(&p.names, slot)
		var t0 int64
		var v0 float64
		for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
			if vt != chunkenc.ValFloat {
				continue
			}
			t, v := it.At()
			if value.IsStaleNaN(v) || v != v {
				continue
			}
			begin, watched := origin.counterStart(t), origin.watchedSince(t)
			p.live = watched != 0
			switch {
			case t0 == 0 && t > p.from:
				// Its earlier count, if it began with its workload within reach.
				if !origin.ofNode && begin >= p.from-p.reach && begin >= watched {
					p.spreadIncrease(begin, t, v)
					p.recordSpan(begin, t, v)
				} else if len(gaps) >= fewGaps && p.startsLate(t, begin) {
					p.short = true
				} else {
					gaps = append(gaps, &orphanSample{l.Copy(), t, v, p.history.carriedSample(l, t)})
				}
			case t0 == 0:
			case t < p.from: // both count before
			case t0 < watched && t >= watched:
				gaps = append(gaps, &orphanSample{l.Copy(), t, v, &point{t0, v0}})
			case begin > t0:
				p.spreadIncrease(begin, t, v) // another run, or booted: until then it counted nothing
			case v >= v0:
				p.spreadIncrease(t0, t, v-v0)
				p.recordSpan(t0, t, v-v0)
			default:
				p.spreadIncrease(t0, t, v)
			}
			t0, v0 = t, v
		}
		if p.history != nil && t0 != 0 {
			p.history.last[labels.StableHash(l)] = point{t0, v0}
		}
		p.addSpread(&p.names, slot)
		return nil
	}, ms)
	if err != nil || p.short {
		return err
	}
	return p.spreadGaps(ctx, q, gaps, reach, oldest)
}

// recordSpan records the period that a sample counts, if a round can look back that far.
func (p *pass) recordSpan(t0, t int64, amount float64) {
	if amount > 0 && t >= p.from && t-t0 <= lookAround.Milliseconds() {
		p.apart = max(p.apart, t-t0)
	}
}

// spreadGaps finds the sample before each gap and spreads the increase over the time between. It does not spread use from
// before a node's first sample, because the time of that use and the capacity of the machine are unknown.
func (p *pass) spreadGaps(ctx context.Context, q storage.Queryable, gaps []*orphanSample, reach, oldest time.Time) error {
	back := store.Later(reach.Add(-lookBack), oldest)
	before := map[uint64]point{} // the last sample of each series
	unknown := slices.DeleteFunc(slices.Clone(gaps), func(g *orphanSample) bool { return g.before != nil })
	if len(unknown) > 0 && back.Before(reach) {
		for label, of := range map[string]func(labels.Labels) string{
			"workload": func(l labels.Labels) string { return l.Get("workload") },
			"node": func(l labels.Labels) string {
				if l.Get("workload") != "" {
					return ""
				}
				return l.Get("node")
			},
		} {
			if err := p.readLastBefore(ctx, q, back, reach, label, distinctLabels(unknown, of), before); err != nil {
				return err
			}
		}
	}
	if back.Before(reach) {
		nodes := distinctLabels(gaps, func(l labels.Labels) string { return l.Get("node") })
		if err := p.readFirstSamples(ctx, q, back, reach, nodes); err != nil {
			return err
		}
	}
	for _, g := range gaps {
		if last, ok := before[labels.StableHash(g.labels)]; ok && g.before == nil {
			g.before = &last
		}
		p.names.Read(g.labels, hourLabels...)
		slot, _ := rollSlot(&p.names)
		p.clear()
		origin := p.findOrigin(&p.names, slot)
		from, amount := g.countStart(&origin, slot)
		watched := origin.watchedSince(g.t)
		p.live = watched != 0
		if from == 0 || from < watched && g.t >= watched {
			from, amount = g.t-1, 0 // known from here on, and nothing before
		}
		if g.before != nil && g.before.v != 0 { // no zero with which the series began
			p.recordSpan(from, g.t, amount)
		}
		p.spreadIncrease(from, g.t, amount)
		p.addSpread(&p.names, slot)
	}
	return nil
}

// countStart returns the start and the amount counted by the sample of a gap, or 0 if unknown.
func (g *orphanSample) countStart(o *origin, s slot) (from int64, amount float64) {
	begin := o.counterStart(g.t)
	switch last := g.before; {
	case last != nil && begin > last.t:
		return begin, g.v
	case last != nil && g.v >= last.v:
		return last.t, g.v - last.v
	case last != nil:
		return last.t, g.v
	case !o.ofNode && begin != 0 && g.t-begin <= beforeWatch.Milliseconds():
		return begin, g.v
	case s == nodeCPUSlot && begin != 0 && begin < g.t && g.v > 0:
		// It was up since its boot; of that no more than of workloads.
		from := max(begin, g.t-beforeWatch.Milliseconds())
		return from, g.v * float64(g.t-from) / float64(g.t-begin)
	}
	return 0, 0
}

// readFirstSamples finds the first samples of nodes, and the machines behind them, in the time before the range that was read.
func (p *pass) readFirstSamples(ctx context.Context, q storage.Queryable, from, to time.Time, nodes []string) error {
	var n series.Labels
	for group := range slices.Chunk(nodes, rereadTogether) {
		err := series.ForEach(ctx, q, from, to.Add(-time.Millisecond), func(l labels.Labels, it chunkenc.Iterator) error {
			n.Read(l)
			p.recordBoot(nodeKey{n.Site, n.Node}, l, it)
			return nil
		}, series.Equal("__name__", figure.NodeBoot), series.OneOf("node", group))
		if err != nil {
			return err
		}
	}
	return nil
}

// readLastBefore reads the last sample of each series of the workloads or nodes.
func (p *pass) readLastBefore(ctx context.Context, q storage.Queryable, from, to time.Time, label string, values []string,
	into map[uint64]point) error {
	for group := range slices.Chunk(values, rereadTogether) {
		// Only series with a gap are read, and outages are mostly short: a day first.
		err := series.EachUnordered(ctx, q, from, to.Add(-time.Millisecond), func(l labels.Labels, it chunkenc.Iterator) error {
			if t, v, _, ok := series.Last(it); ok {
				into[labels.StableHash(l)] = point{t, v}
			}
			return nil
		}, series.OneOf("__name__", hourSlots.metricNames()), series.OneOf(label, group))
		if err != nil {
			return err
		}
	}
	return nil
}

func distinctLabels(gaps []*orphanSample, of func(labels.Labels) string) []string {
	var out []string
	for _, g := range gaps {
		if v := of(g.labels); v != "" {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

package catalogue

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/internal/series"
	"reckon/store"
	"reckon/workload"
)

const (
	// lookAround is how far beyond an hour samples are read, so that what was counted
	// between two samples on both sides of its end is split between the two hours.
	lookAround = 5 * time.Minute
	// settled is how long after its end an hour is made a last time.
	settled = 2 * lookAround
	// lookBack is how far back the sample before a gap is looked for.
	lookBack = 7 * 24 * time.Hour
	// beforeWatch is how much older than its first sample a workload may be for what it
	// had used by then to be spread over that time; of an older one, history begins with
	// the first sample, since nobody knows when it used what.
	beforeWatch = 24 * time.Hour
	rollSlice   = 6 * time.Hour
	rollKey     = "rollups"
)

// roller makes roll-ups of whole hours. An hour depends on nothing but the series and
// the catalogue's rows, so that making it again changes nothing: what a counter
// counted between two samples is spread evenly over the time between them, so that the
// hours of a workload sum up to its counters, whatever was lost in between.
type roller struct {
	q    storage.Queryable
	cat  store.Catalogue
	out  store.Rollups
	done time.Time // hours before are settled
	next time.Time // when the hour under way is made again
	late time.Time // samples came this late; zero when none did
}

func (b *Builder) newRoller() *roller {
	out, ok := b.cat.(store.Rollups)
	if !ok {
		return nil
	}
	return &roller{q: b.q, cat: b.cat, out: out}
}

// noteLate notes that samples of a time came late.
func (r *roller) noteLate(t time.Time) {
	if r != nil && (r.late.IsZero() || t.Before(r.late)) {
		r.late = t
	}
}

// changed has hours made again in which a run of a batch system held something otherwise than
// was known when they were made: one that is new, or of which only now is known when it ended.
func (r *roller) changed(a *account, w *store.Workload) {
	if r == nil || w.Kind != string(workload.Slurm) || r.done.IsZero() {
		return
	}
	at := w.End
	if !a.Fixed {
		at = w.Start
	} else if a.Ended || at.IsZero() {
		return
	}
	if at.Before(r.done) {
		r.noteLate(at)
	}
}

// load finds where to go on.
func (r *roller) load(ctx context.Context, oldest time.Time) error {
	if !r.done.IsZero() {
		return nil
	}
	r.done = oldest.Truncate(time.Hour)
	keeper, ok := r.cat.(StateKeeper)
	if !ok {
		return nil
	}
	raw, err := keeper.State(ctx, rollKey)
	if err == nil && len(raw) == 8 {
		r.done = time.UnixMilli(int64(binary.BigEndian.Uint64(raw)))
	}
	return err
}

// advance makes the hours that are not settled, the one under way included.
func (r *roller) advance(ctx context.Context, oldest time.Time, clock func() time.Time) error {
	if r == nil {
		return nil
	}
	now := clock()
	if now.Before(r.next) {
		return nil
	}
	if err := r.load(ctx, oldest); err != nil {
		return err
	}
	from := r.done
	if !r.late.IsZero() && r.late.Before(from) {
		from = r.late.Truncate(time.Hour)
	}
	if old := oldest.Truncate(time.Hour); from.Before(old) {
		from = old // what the store has forgotten stays as it was made
	}
	for from.Before(now) {
		to := earlier(from.Add(rollSlice), now.Truncate(time.Hour).Add(time.Hour))
		if err := r.make(ctx, from, to, oldest, lookAround); err != nil {
			return err
		}
		from = to
	}
	r.late = time.Time{}
	if done := now.Add(-settled).Truncate(time.Hour); done.After(r.done) {
		r.done = done
	}
	if keeper, ok := r.cat.(StateKeeper); ok {
		if err := keeper.SetState(ctx, rollKey, binary.BigEndian.AppendUint64(nil, uint64(r.done.UnixMilli()))); err != nil {
			return err
		}
	}
	// At most a fiftieth of the time goes into it.
	r.next = now.Add(max(time.Minute, 50*clock().Sub(now)))
	return nil
}

// make makes the hours from one time to another, and those before that a gap reaches
// back into. Samples are read as far ahead as the next one may be that counts what was used.
func (r *roller) make(ctx context.Context, from, to, oldest time.Time, ahead time.Duration) error {
	for {
		p := newPass(from, to)
		p.ahead = ahead
		if err := p.read(ctx, r.q, r.cat, oldest); err != nil {
			return fmt.Errorf("roll up %s: %w", from.UTC().Format(time.RFC3339), err)
		}
		if back := time.UnixMilli(p.back).Truncate(time.Hour); back.Before(from) && !oldest.Truncate(time.Hour).After(back) {
			from = back
			continue
		}
		use, nodes := p.rows()
		return r.out.ReplaceHours(ctx, from, to, use, nodes)
	}
}

const (
	memoryTotal = "node_memory_MemTotal_bytes"
	memoryFree  = "node_memory_MemAvailable_bytes"
)

// rollSlot is the slot of a counter that hours need.
func rollSlot(n *series.Labels) (slot, bool) {
	s, ok := hourSlots.of(n)
	return s, ok && (s < firstHourFigure || n.Workload != "")
}

// ofNode reports whether the series of a slot are of a node and not of a workload.
func ofNode(s slot) bool { return s == nodeCPUSlot || s == nodeEnergySlot }

// gap is a series whose first sample in reach has none before it in reach.
type gap struct {
	labels labels.Labels
	t      int64
	v      float64
}

// counters reads all counters around the hours of the pass.
func (p *pass) counters(ctx context.Context, q storage.Queryable, oldest time.Time) error {
	ms := series.OneOf("__name__", hourSlots.metrics())
	var gaps []gap
	reach := time.UnixMilli(p.from).Add(-lookAround)
	err := series.Each(ctx, q, reach, time.UnixMilli(p.to).Add(p.ahead), func(l labels.Labels, it chunkenc.Iterator) error {
		p.names.Read(l, hourLabels...)
		slot, ok := rollSlot(&p.names)
		if !ok {
			return nil
		}
		p.clear()
		begins := p.begins(&p.names, slot)
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
			switch {
			case t0 == 0 && t > p.from:
				// What it had counted by then, if it began with its workload in reach.
				if at := latest(begins, t); !ofNode(slot) && at >= p.from-lookAround.Milliseconds() {
					p.spread(at, t, v)
				} else {
					gaps = append(gaps, gap{l.Copy(), t, v})
				}
			case t0 == 0:
			case latest(begins, t) > t0:
				p.spread(latest(begins, t), t, v) // another run, or booted: until then it counted nothing
			case v >= v0:
				p.spread(t0, t, v-v0)
			default:
				p.spread(t0, t, v)
			}
			t0, v0 = t, v
		}
		p.keep(&p.names, slot)
		return nil
	}, ms)
	if err != nil {
		return err
	}
	return p.close(ctx, q, gaps, reach, oldest)
}

// begins are the times at which a counter began at zero: the starts of its part of the
// workload, or the boot of the node.
func (p *pass) begins(n *series.Labels, s slot) []int64 {
	if !ofNode(s) {
		return p.starts[partKey{key{n.Site, n.Workload}, place{n.Node, n.Part}}]
	}
	if at := p.boots[nodeKey{n.Site, n.Node}]; at != 0 {
		return []int64{at}
	}
	return nil
}

// latest is the last of the times that is not after t, or 0.
func latest(times []int64, t int64) (at int64) {
	for _, s := range times {
		if s <= t {
			at = max(at, s)
		}
	}
	return at
}

// close finds the sample before each gap and spreads what was counted in between.
func (p *pass) close(ctx context.Context, q storage.Queryable, gaps []gap, reach, oldest time.Time) error {
	back := reach.Add(-lookBack)
	if back.Before(oldest) {
		back = oldest
	}
	before := map[uint64][2]float64{} // time and value of the last sample
	if len(gaps) > 0 && back.Before(reach) {
		for label, of := range map[string]func(labels.Labels) string{
			"workload": func(l labels.Labels) string { return l.Get("workload") },
			"node": func(l labels.Labels) string {
				if l.Get("workload") != "" {
					return ""
				}
				return l.Get("node")
			},
		} {
			if err := p.lastBefore(ctx, q, back, reach, label, distinct(gaps, of), before); err != nil {
				return err
			}
		}
	}
	for _, g := range gaps {
		p.names.Read(g.labels, hourLabels...)
		slot, _ := rollSlot(&p.names)
		p.clear()
		had, known := before[labels.StableHash(g.labels)]
		begin := latest(p.begins(&p.names, slot), g.t)
		switch t0 := int64(had[0]); {
		case known && begin > t0:
			p.spread(begin, g.t, g.v)
		case known && g.v >= had[1]:
			p.spread(t0, g.t, g.v-had[1])
		case known:
			p.spread(t0, g.t, g.v)
		case !ofNode(slot) && begin != 0 && g.t-begin <= beforeWatch.Milliseconds():
			p.spread(begin, g.t, g.v)
		case slot == nodeCPUSlot && begin != 0 && begin < g.t && g.v > 0:
			// It was up since its boot; of that no more than of workloads.
			since := max(begin, g.t-beforeWatch.Milliseconds())
			p.spread(since, g.t, g.v*float64(g.t-since)/float64(g.t-begin))
		default:
			p.spread(g.t-1, g.t, 0) // known from here on, and nothing before
		}
		p.keep(&p.names, slot)
	}
	return nil
}

// lastBefore reads the last sample of each series of the workloads or nodes.
func (p *pass) lastBefore(ctx context.Context, q storage.Queryable, from, to time.Time, label string, values []string, into map[uint64][2]float64) error {
	for group := range slices.Chunk(values, rereadTogether) {
		// Only what has a gap is asked for, and as in any outage it is near: a day first.
		err := series.Each(ctx, q, from, to.Add(-time.Millisecond), func(l labels.Labels, it chunkenc.Iterator) error {
			if t, v, _, ok := series.Last(it); ok {
				into[labels.StableHash(l)] = [2]float64{float64(t), v}
			}
			return nil
		}, series.OneOf("__name__", hourSlots.metrics()), series.OneOf(label, group))
		if err != nil {
			return err
		}
	}
	return nil
}

func distinct(gaps []gap, of func(labels.Labels) string) []string {
	var out []string
	for _, g := range gaps {
		if v := of(g.labels); v != "" {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

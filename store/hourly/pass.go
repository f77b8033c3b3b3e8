package hourly

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"golang.org/x/sys/unix"

	"reckon/internal/dirty"
	"reckon/store"
)

// Pass computes the missing hours of all past days, and the hours that received samples since they were computed. It
// then compacts old blocks and removes expired ones.
func (s *Store) Pass(ctx context.Context) error {
	s.making.Lock()
	defer s.making.Unlock()
	if err := s.checkSpace(); err != nil {
		return err
	}
	if err := s.findPendingDays(); err != nil {
		return err
	}
	for {
		s.mu.RLock()
		pending := s.state.Pending
		s.mu.RUnlock()
		if len(pending) == 0 {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		done, err := s.buildFirstBlock(ctx, pending)
		if err != nil {
			return err
		}
		err = s.saveState(func(n *state) {
			n.Pending = slices.DeleteFunc(slices.Clone(n.Pending), func(d int64) bool { return slices.Contains(done, d) })
		})
		if err != nil {
			return err
		}
	}
	if err := s.compactRanges(ctx); err != nil {
		return err
	}
	if err := s.removeExpired(); err != nil {
		return err
	}
	return s.saveState(func(n *state) {
		if s.opts.Retention > 0 {
			limit := time.UnixMilli(n.Through).Add(-s.opts.Retention)
			n.Gaps = slices.DeleteFunc(slices.Clone(n.Gaps), func(g store.Gap) bool { return g.To.Before(limit) })
		}
	})
}

func (s *Store) checkSpace() error {
	var st unix.Statfs_t
	if s.opts.Reserve < 0 || unix.Statfs(s.opts.Dir, &st) != nil {
		return nil
	}
	if free := uint64(st.Bavail) * uint64(st.Bsize); free < uint64(s.opts.Reserve) {
		return fmt.Errorf("%w: %d MiB free on the disk of %s, %d MiB are kept free; free space, or lower the setting retention-hourly",
			store.ErrFull, free>>20, s.opts.Dir, s.opts.Reserve>>20)
	}
	return nil
}

// saveState saves the state and applies it if that succeeds.
func (s *Store) saveState(change func(*state)) error {
	s.mu.RLock()
	next := s.state
	s.mu.RUnlock()
	change(&next)
	marks, err := s.blocks.readMarks(next.Blocks)
	if err != nil {
		return err
	}
	next.Blocks = marks
	if err := errors.Join(next.save(s.opts.Dir), saveExtent(s.opts.Dir, marks)); err != nil {
		return err
	}
	s.mu.Lock()
	s.state = next
	s.mu.Unlock()
	return nil
}

// findPendingDays determines the days to be computed and saves them.
func (s *Store) findPendingDays() error {
	sealed, ok := s.raw.Sealed()
	if !ok {
		return nil
	}
	if now := s.opts.Clock(); sealed.After(now) {
		sealed = now // the clock jumped
	}
	limit := dayStart(sealed.UnixMilli())
	origins, err := s.raw.Origins()
	if err != nil {
		return err
	}
	s.mu.RLock()
	was := s.state
	s.mu.RUnlock()
	known := map[string]bool{}
	for _, id := range was.Known {
		known[id] = true
	}
	days := map[int64]bool{}
	for _, d := range was.Pending {
		days[d] = true
	}
	limit = max(limit, was.Through)
	ids := make([]string, len(origins))
	there := 0
	for i, o := range origins {
		ids[i] = o.ID
		if known[o.ID] {
			there++
		}
		from := dayStart(o.From.UnixMilli())
		if known[o.ID] {
			from = max(from, was.Through)
		}
		for d := from; d < min(o.To.UnixMilli(), limit); d += day {
			days[d] = true
		}
	}
	pending := slices.Sorted(maps.Keys(days))
	lost := was.Lost || there < len(known)
	if lost == was.Lost && limit == was.Through && slices.Equal(pending, was.Pending) && slices.Equal(ids, was.Known) {
		return nil
	}
	return s.saveState(func(n *state) { n.Through, n.Pending, n.Known, n.Lost = limit, pending, ids, lost })
}

// buildFirstBlock computes the first of the pending days, together with those in the same block.
func (s *Store) buildFirstBlock(ctx context.Context, pending []int64) (done []int64, err error) {
	at, old := s.firstBlockRange(pending)
	var anew []timeRange
	for _, d := range pending {
		switch {
		case !at.contains(d):
			continue
		case len(anew) > 0 && anew[len(anew)-1].to == d:
			anew[len(anew)-1].to += day
		default:
			anew = append(anew, timeRange{d, d + day})
		}
		done = append(done, d)
	}
	return done, s.replaceBlocks(ctx, at, old, anew)
}

// firstBlockRange returns the time range of the block that contains the first of the days, and the existing blocks in
// that range. Without existing blocks, the range is a new block's: one day, or several days if they ended long
// ago.
func (s *Store) firstBlockRange(days []int64) (within timeRange, existing []*tsdb.Block) {
	first := timeRange{days[0], days[0] + day}
	stretch := timeRange{dirty.Floor(first.from, s.shortestBlock()), dirty.Floor(first.from, s.shortestBlock()) + s.shortestBlock()}
	s.mu.RLock()
	free := stretch.to <= s.state.Through-s.settled
	s.mu.RUnlock()
	for _, b := range s.blocks.all() {
		switch m := blockRange(b.Meta()); {
		case m.contains(first.from):
			return m, []*tsdb.Block{b}
		case m.overlaps(stretch):
			free = false
		}
	}
	if !free {
		return first, nil
	}
	last := first
	for _, d := range days {
		if stretch.contains(d) {
			last = timeRange{d, d + day}
		}
	}
	return enclosingRange(first, last), nil
}

// replaceBlocks replaces the old blocks by one block for the given time range. The new block has the contents of the
// old ones. For the ranges in recompute, it has hours that are computed again from the sample store.
func (s *Store) replaceBlocks(ctx context.Context, within timeRange, old []*tsdb.Block, recompute []timeRange) (err error) {
	var open []storage.Querier
	defer func() {
		for _, q := range open {
			err = errors.Join(err, q.Close())
		}
	}()
	var sets []storage.SeriesSet
	all := labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, ".+")
	hints := func(at timeRange) *storage.SelectHints { return &storage.SelectHints{Start: at.from, End: at.to - 1} }
	kinds := newKinds(s.raw.Metadata())
	for _, part := range recompute {
		wide := timeRange{part.from - hour, part.to} // to see whether a run continues
		q, err := s.raw.Querier(wide.from, wide.to-1)
		if err != nil {
			return err
		}
		open = append(open, q)
		sets = append(sets, &reducedSet{SeriesSet: q.Select(ctx, true, hints(wide), all), kinds: kinds, at: part})
	}
	replaces := make([]tsdb.BlockDesc, 0, len(old))
	for _, b := range old {
		m := b.Meta()
		replaces = append(replaces, tsdb.BlockDesc{ULID: m.ULID, MinTime: m.MinTime, MaxTime: m.MaxTime})
		q, err := tsdb.NewBlockQuerier(b, m.MinTime, m.MaxTime-1)
		if err != nil {
			return err
		}
		open = append(open, q)
		sets = append(sets, storedSet{q.Select(ctx, true, hints(blockRange(m)), all)})
	}
	id, err := writeBlock(ctx, s.opts.Dir, within, replaces, storage.NewMergeSeriesSet(sets, 0, mergeSeries))
	if err != nil {
		return fmt.Errorf("make the hours from %s to %s: %w", formatDate(within.from), formatDate(within.to), err)
	}
	for _, q := range open {
		err = errors.Join(err, q.Close())
	}
	open = nil
	if err != nil {
		return err
	}
	return s.blocks.replace(old, id)
}

func formatDate(t int64) string { return time.UnixMilli(t).UTC().Format(time.DateOnly) }

// reducedSet reduces the samples of a store to hours.
type reducedSet struct {
	storage.SeriesSet
	kinds   *kinds
	at      timeRange
	reducer reducer
	now     storage.Series
	err     error
}

func (r *reducedSet) Next() bool {
	for r.err == nil && r.SeriesSet.Next() {
		s := r.SeriesSet.At()
		ls := s.Labels()
		var kept []sample
		if kept, r.err = r.reducer.reduce(s.Iterator(nil), r.kinds.kind(ls.Get(model.MetricNameLabel)), r.at.from, r.at.to); r.err != nil {
			r.err = fmt.Errorf("%s: %w", ls, r.err)
			return false
		}
		if len(kept) > 0 {
			r.now = memorySeries(ls, kept) // valid until the next call of Next
			return true
		}
	}
	return false
}

func (r *reducedSet) At() storage.Series { return r.now }
func (r *reducedSet) Err() error         { return errors.Join(r.err, r.SeriesSet.Err()) }

// storedSet marks series as read from a block, so that mergeSeries can tell them from newly computed ones.
type storedSet struct{ storage.SeriesSet }

type storedSeries struct{ storage.Series }

func (k storedSet) At() storage.Series { return storedSeries{k.SeriesSet.At()} }

// mergeSeries merges series with the same labels. Newly computed hours take precedence over stored ones.
func mergeSeries(all ...storage.Series) storage.Series {
	if len(all) == 1 {
		return all[0]
	}
	var fresh, kept []storage.Series
	for _, s := range all {
		if _, ok := s.(storedSeries); ok {
			kept = append(kept, s)
		} else {
			fresh = append(fresh, s)
		}
	}
	switch {
	case len(kept) == 0:
		return chainSeries(fresh)
	case len(fresh) == 0:
		return chainSeries(kept)
	}
	return fillHours(chainSeries(fresh), chainSeries(kept))
}

func chainSeries(list []storage.Series) storage.Series {
	if len(list) == 1 {
		return list[0]
	}
	return storage.ChainedSeriesMerge(list...)
}

// shortestBlock returns the length of the shortest compacted blocks.
func (s *Store) shortestBlock() int64 { return s.ladder[len(s.ladder)-1] }

// compactRanges merges the blocks of each complete time range of the ladder into one block.
func (s *Store) compactRanges(ctx context.Context) error {
	s.mu.RLock()
	limit := s.state.Through - s.settled
	s.mu.RUnlock()
	for _, length := range s.ladder {
		groups := map[int64][]*tsdb.Block{}
		for _, b := range s.blocks.all() {
			at := dirty.Floor(b.MinTime(), length)
			if stretch := (timeRange{at, at + length}); blockRange(b.Meta()).isInside(stretch) && stretch.to <= limit {
				groups[at] = append(groups[at], b)
			}
		}
		for _, at := range slices.Sorted(maps.Keys(groups)) {
			group := groups[at]
			if len(group) < 2 {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			whole := blockRange(group[0].Meta())
			for _, b := range group {
				whole = enclosingRange(whole, blockRange(b.Meta()))
			}
			if err := s.replaceBlocks(ctx, whole, group, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeExpired removes the blocks that exceed the retention or the size limit. The age of a block counts from the newest day.
func (s *Store) removeExpired() error {
	all := s.blocks.all()
	s.mu.RLock()
	through := s.state.Through
	s.mu.RUnlock()
	bytes := int64(0)
	for _, b := range all {
		bytes += b.Size()
	}
	for _, b := range all { // oldest first
		old := s.opts.Retention > 0 && b.MaxTime() <= through-s.opts.Retention.Milliseconds()
		if !old && (s.opts.MaxBytes <= 0 || bytes <= s.opts.MaxBytes) {
			break
		}
		bytes -= b.Size()
		if err := s.blocks.replace([]*tsdb.Block{b}, ulid.ULID{}); err != nil {
			return err
		}
	}
	return nil
}

package catalogue

import (
	"context"
	"encoding/binary"
	"time"

	"reckon/store"
)

// dirtyReporter is a store that keeps which hours got samples late.
type dirtyReporter interface {
	Dirty() (store.DirtyHours, error)
	Clean(store.DirtyHours) error
}

// dirtyHours returns the hours that must be made again.
func (b *Builder) dirtyHours() (store.DirtyHours, error) {
	if s, ok := b.q.(dirtyReporter); ok {
		return s.Dirty()
	}
	return store.DirtyHours{}, nil
}

// lateSince returns the earliest time with samples that arrived late after a mark. ok is false if there are none. It
// skips imported history, which [Builder.History] handles.
func lateSince(d store.DirtyHours, mark uint64) (since time.Time, ok bool) {
	for _, h := range d.Hours {
		if h.At.IsZero() { // any
			h.Oldest = time.Unix(0, 0)
		}
		if !h.Imported && h.Mark > mark && (!ok || h.Oldest.Before(since)) {
			since, ok = h.Oldest, true
		}
	}
	return since, ok
}

// rollUp computes the hours that are not final and the dirty hours, in which samples arrived late. It marks dirty hours
// as clean once the roll-ups and the builder's state are saved.
func (b *Builder) rollUp(ctx context.Context, now time.Time, dirty store.DirtyHours) error {
	since, _ := lateSince(dirty, 0)
	if b.wanted.Swap(false) && b.roll != nil {
		b.roll.next = store.Earlier(b.roll.next, b.roll.soon)
	}
	made, err := b.roll.rollUp(ctx, b.oldestReadable(now), b.o.Clock, since)
	if err != nil || !made {
		return err
	}
	return b.markClean(ctx, now, dirty, func(h store.DirtyHour) bool { return !h.Imported })
}

// RequestRun requests current usage. The next round computes the current hour if that takes less than a twentieth of the
// time. On a busy machine, a round takes much longer than its CPU time.
func (b *Builder) RequestRun() { b.wanted.Store(true) }

// markClean forgets dirty hours that were made again in full.
func (b *Builder) markClean(ctx context.Context, now time.Time, dirty store.DirtyHours, made func(store.DirtyHour) bool) error {
	all := dirty.Hours
	dirty.Hours = nil
	for _, h := range all {
		if made(h) {
			dirty.Hours = append(dirty.Hours, h)
		}
	}
	if len(dirty.Hours) == 0 {
		return nil
	}
	if err := b.saveState(ctx, now); err != nil { // otherwise a kill would restore older data
		return err
	}
	return b.q.(dirtyReporter).Clean(dirty)
}

// resumeImports records the history of imports that were cut off before this builder was opened.
func (b *Builder) resumeImports(ctx context.Context, dirty store.DirtyHours) (int, error) {
	if b.resumed {
		return 0, nil
	}
	var ranges [][2]time.Time
	for _, h := range dirty.Hours {
		switch n := len(ranges); {
		case !h.Imported:
		case n > 0 && !h.At.After(ranges[n-1][1]):
			ranges[n-1][1] = h.At.Add(time.Hour)
		default:
			ranges = append(ranges, [2]time.Time{h.At, h.At.Add(time.Hour)})
		}
	}
	if len(ranges) > 0 {
		b.o.Logger.Info("history of an import that was cut off is taken into the catalogue", "from", ranges[0][0], "to",
			ranges[len(ranges)-1][1])
	}
	n, err := 0, error(nil)
	if len(ranges) > 0 {
		n, err = b.addHistory(ctx, ranges, lookBack) // hours are dirty that hold samples, not those between
	}
	b.resumed = err == nil
	return n, err
}

// loadPosition reads the saved position.
func (r *roller) loadPosition(ctx context.Context, oldest time.Time) error {
	if r == nil || !r.done.IsZero() {
		return nil
	}
	done := oldest.Truncate(time.Hour)
	keeper, ok := r.cat.(StateKeeper)
	if !ok {
		r.done = done
		return nil
	}
	raw, err := keeper.State(ctx, rollKey)
	if err != nil {
		return err
	}
	at := func(i int) time.Time { return time.UnixMilli(int64(binary.BigEndian.Uint64(raw[i:]))) }
	switch len(raw) {
	case 8: // of versions up to 2026-11
		done = at(0)
	case 16:
		if done = at(0); at(8).UnixMilli() != 0 {
			r.late = at(8)
		}
	}
	r.done = done
	return nil
}

// saveProgress saves the position. It must run before the data that depends on the position is written.
func (r *roller) saveProgress(ctx context.Context) error {
	if r == nil || r.kept == [2]time.Time{r.done, r.late} {
		return nil
	}
	keeper, ok := r.cat.(StateKeeper)
	if !ok {
		return nil
	}
	late := int64(0)
	if !r.late.IsZero() {
		late = r.late.UnixMilli()
	}
	raw := binary.BigEndian.AppendUint64(nil, uint64(r.done.UnixMilli()))
	if err := keeper.SetState(ctx, rollKey, binary.BigEndian.AppendUint64(raw, uint64(late))); err != nil {
		return err
	}
	r.kept = [2]time.Time{r.done, r.late}
	return nil
}

// rollUp computes the hours that are not final, up to the current one. If samples arrived late, it computes all hours from late
// on. made is false if the next round is not due, so that it computed nothing.
func (r *roller) rollUp(ctx context.Context, oldest time.Time, clock func() time.Time, late time.Time) (made bool, err error) {
	if r == nil {
		return true, nil
	}
	now := clock()
	if now.Before(r.next) {
		return false, nil
	}
	from := r.done
	if now.Before(from) {
		from = now.Add(-settled).Truncate(time.Hour) // the clock was ahead, and was set back
	}
	for i, since := range []time.Time{r.late, late} {
		if since.IsZero() {
			continue
		}
		r.dropKept(since)
		if i == 1 {
			since = since.Add(-lookAround) // the amount of a late sample may have been used before it
		}
		if since.Before(from) {
			from = since.Truncate(time.Hour)
		}
	}
	if old := oldest.Truncate(time.Hour); from.Before(old) {
		from = old // hours without samples in the store stay unchanged
	}
	for done := now.Add(-settled).Truncate(time.Hour); from.Before(done); {
		to := store.Earlier(from.Add(rollSlice), done)
		if _, err := r.computeHours(ctx, from, to, oldest, lookAround); err != nil {
			return false, err
		}
		from = to
	}
	if from.Before(now) {
		if err := r.advanceHours(ctx, from, now, oldest); err != nil {
			return false, err
		}
	}
	r.late, r.fresh = time.Time{}, time.Time{}
	if done := now.Add(-settled).Truncate(time.Hour); done.After(r.done) || r.done.After(now) {
		r.done = done
	}
	if err := r.saveProgress(ctx); err != nil {
		return false, err
	}
	if err := r.countedTo(ctx, now); err != nil {
		return false, err
	}
	if r.rolled { // else the first usage is shown with the round that finds it
		// At most a two-hundredth of the time goes into it.
		took := clock().Sub(now)
		r.next, r.soon = now.Add(max(time.Minute, 200*took)), now.Add(max(15*time.Second, 20*took))
	}
	return true, nil
}

// inRanges returns a function that reports whether a dirty hour is imported history within one of the ranges.
func inRanges(ranges [][2]time.Time) func(store.DirtyHour) bool {
	return func(h store.DirtyHour) bool {
		for _, r := range ranges {
			if h.Imported && !h.At.Before(r[0].Truncate(time.Hour)) && h.At.Before(r[1]) {
				return true
			}
		}
		return false
	}
}

package catalogue

import (
	"context"
	"slices"
	"time"

	"reckon/store"
)

// Ready loads the position of the builder, before history is imported behind its back.
func (b *Builder) Ready(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fold == nil {
		if err := b.loadState(ctx); err != nil {
			return err
		}
	}
	if b.roll == nil {
		return nil
	}
	return b.roll.loadPosition(ctx, b.at)
}

// Readings of other sources are further apart than ours.
const (
	historyGone    = 2 * time.Hour
	historyOverlap = time.Hour
	// historyStep is the longest time between two samples of an imported counter, because
	// accounting is read once a day.
	historyStep = 25 * time.Hour
)

// History adds time ranges to the catalogue that got samples after they were processed. Ready must have been called
// before the samples arrived. It reads only these ranges, with earlier workloads that still run in them. The ranges
// must be in order, and must include the time between a new sample of a counter and the previous one. gone lists
// workloads with runs that no longer exist.
func (b *Builder) History(ctx context.Context, ranges [][2]time.Time, gone ...store.Run) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.addHistory(ctx, ranges, 0, gone...)
}

// addHistory is [Builder.History] for ranges with first samples that may count use from before the range, by up to back.
func (b *Builder) addHistory(ctx context.Context, ranges [][2]time.Time, back time.Duration, gone ...store.Run) (int, error) {
	now := b.o.Clock()
	dirty, err := b.dirtyHours()
	if err != nil {
		return 0, err
	}
	o := b.o
	o.Gone, o.Overlap = max(o.Gone, historyGone), max(o.Overlap, historyOverlap)
	known := &importCatalogue{Catalogue: b.cat, oldest: b.oldestReadable(now), wider: map[workloadKey]*runExtent{}}
	for _, g := range gone {
		delete(b.fold.accounts, workloadKey{g.Site, g.ID})
		if err := known.requestRun(ctx, g); err != nil {
			return 0, err
		}
	}
	if err := deleteRuns(ctx, b.cat, gone); err != nil {
		return 0, err
	}
	past := &Builder{q: b.q, cat: known, o: o, fold: newFold(b.q)}
	total := 0
	for _, r := range ranges {
		to := store.Earlier(r[1].Add(2*o.Gone), now)
		if past.at.Before(r[0]) {
			past.at = r[0].Add(o.Overlap)
		}
		if !past.at.Before(to) {
			past.at = to.Add(-time.Millisecond)
		}
		since := time.Time{}
		for past.at.Before(to) { // the samples of a slice are all there: those after it do not look back
			n, err := past.foldSlice(ctx, since, store.Earlier(sliceEnd(past.at), to))
			if total += n; err != nil {
				return total, err
			}
			since = past.at
		}
	}
	n, err := past.rereadExtended(ctx, known)
	if total += n; err != nil {
		return total, err
	}
	// Running workloads continue in later rounds.
	var alive []*account
	for k, runs := range past.fold.accounts {
		if runs[len(runs)-1].Ended {
			continue
		}
		if b.fold.accounts[k] == nil {
			b.fold.accounts[k] = runs
			continue
		}
		alive = append(alive, b.fold.accounts[k]...)
	}
	if len(alive) > 0 {
		if err := b.reread(ctx, listWanted(alive), b.oldestReadable(b.at), b.at); err != nil {
			return total, err
		}
		n, err := b.writeRows(ctx, b.at)
		if total += n; err != nil {
			return total, err
		}
	}
	if err := b.computeHistory(ctx, ranges, b.oldestReadable(now), now, back); err != nil {
		return total, err
	}
	// Data before this point is rolled up here: the next start must not repeat it.
	if err := b.roll.saveProgress(ctx); err != nil {
		return total, err
	}
	if err := b.cat.SetWatermark(ctx, b.at); err != nil {
		return total, err
	}
	if err := b.saveState(ctx, now); err != nil {
		return total, err
	}
	return total, b.markClean(ctx, now, dirty, inRanges(ranges))
}

// computeHistory computes the hours of some ranges and of the time back before each.
func (b *Builder) computeHistory(ctx context.Context, ranges [][2]time.Time, oldest, now time.Time, back time.Duration) error {
	if b.roll == nil {
		return nil
	}
	var whole [][2]time.Time
	for _, r := range ranges {
		// The first samples may count use of the hour before, if the store holds that hour.
		from := store.Earlier(r[0], store.Later(r[0].Add(-max(back, lookAround)), oldest)).Truncate(time.Hour)
		to := store.Earlier(r[1], now).Add(time.Hour - 1).Truncate(time.Hour)
		switch n := len(whole); {
		case n > 0 && from.Sub(whole[n-1][1]) < historyStep: // as near as the range read ahead
			whole[n-1][1] = store.Later(whole[n-1][1], to)
		case from.Before(to):
			whole = append(whole, [2]time.Time{from, to})
		}
	}
	h := &historyPass{r: b.roll, progress: b.o.Progress, last: map[uint64]point{}}
	for _, r := range whole {
		if err := h.computeRange(ctx, r[0], r[1], oldest); err != nil {
			return err
		}
	}
	return nil
}

// rereadExtended rereads runs that extend beyond the imported ranges.
func (b *Builder) rereadExtended(ctx context.Context, known *importCatalogue) (int, error) {
	if len(known.wider) == 0 {
		return 0, nil
	}
	b.cat, b.fold = uncheckedCatalogue{known.Catalogue}, newFold(b.q)
	// Runs that the series still hold take their start from them, not from the old row.
	if err := deleteRuns(ctx, known.Catalogue, known.old); err != nil {
		return 0, err
	}
	var list []*account
	var to time.Time
	for k, w := range known.wider {
		a := b.fold.addAccount(k, w.from.UnixMilli())
		list = append(list, a)
		if w.to.After(to) {
			to = w.to
		}
	}
	to = to.Add(time.Second)
	if err := b.reread(ctx, listWanted(list), b.oldestReadable(to), to); err != nil {
		return 0, err
	}
	return b.writeRows(ctx, to.Add(2*b.o.Gone))
}

// runExtent is the known lifetime of a workload.
type runExtent struct{ from, to time.Time }

// importCatalogue is a catalogue with a fixed watermark. It rejects a row if the catalogue has more data about the
// workload than the imported range, and records the workload in wider.
type importCatalogue struct {
	store.Catalogue
	oldest time.Time // of the series
	wider  map[workloadKey]*runExtent
	old    []store.Run // rows that are recreated
}

// requestRun requests that all runs of an id are read again, because some no longer exist.
func (u *importCatalogue) requestRun(ctx context.Context, g store.Run) error {
	rows, _, err := u.Catalogue.Workloads(ctx, store.Filter{IDs: []string{g.ID}})
	for i := range rows {
		if o := &rows[i]; o.Site == g.Site {
			u.requestRange(o, o.Start, store.Later(o.Seen, o.End))
		}
	}
	return err
}

// requestRange requests that a workload is read again over the given time range and over the time of the row o.
func (u *importCatalogue) requestRange(o *store.Workload, from, to time.Time) {
	k := workloadKey{o.Site, o.ID}
	if u.wider[k] == nil {
		u.wider[k] = &runExtent{from, to}
	}
	w := u.wider[k]
	w.from, w.to = store.Earlier(w.from, store.Earlier(from, o.Start)), store.Later(store.Later(w.to, to), store.Later(o.Seen, o.End))
	if !o.Submit.IsZero() { // the identity of runs that a scheduler reported
		w.from = store.Earlier(w.from, o.Submit)
	}
}

// rowDeleter is a catalogue that can drop single rows.
type rowDeleter interface {
	Forget(ctx context.Context, runs []store.Run) error
}

func deleteRuns(ctx context.Context, c store.Catalogue, runs []store.Run) error {
	f, ok := c.(rowDeleter)
	if !ok || len(runs) == 0 {
		return nil
	}
	return f.Forget(ctx, runs)
}

func (*importCatalogue) SetWatermark(context.Context, time.Time) error { return nil }

// Workloads implements store.Catalogue. In a look-up by id, it hides workloads that started within the series, because
// their start may have moved back.
func (u *importCatalogue) Workloads(ctx context.Context, f store.Filter) ([]store.Workload, int, error) {
	rows, n, err := u.Catalogue.Workloads(ctx, f)
	if len(f.IDs) > 0 {
		rows = slices.DeleteFunc(rows, func(w store.Workload) bool { return w.Submit.IsZero() && !w.Start.Before(u.oldest) })
		n = len(rows)
	}
	return rows, n, err
}

// Upsert implements store.Catalogue.
func (u *importCatalogue) Upsert(ctx context.Context, rows []store.Workload) error {
	if len(rows) == 0 {
		return nil
	}
	byKey := map[workloadKey][]*store.Workload{}
	for part := range slices.Chunk(rows, rereadTogether) { // by id: a list by time reads the columns of all rows into memory
		ids := make([]string, len(part))
		for i := range part {
			ids[i] = part[i].ID
		}
		slices.Sort(ids)
		old, _, err := u.Catalogue.Workloads(ctx, store.Filter{IDs: slices.Compact(ids)})
		if err != nil {
			return err
		}
		for i := range old {
			k := workloadKey{old[i].Site, old[i].ID}
			byKey[k] = append(byKey[k], &old[i])
		}
	}
	kept := make([]store.Workload, 0, len(rows))
	for i := range rows {
		r := &rows[i]
		k := workloadKey{r.Site, r.ID}
		for _, o := range byKey[k] {
			if o.Start.After(r.Seen) || store.Later(o.Seen, o.End).Before(r.Start) {
				continue
			}
			if !o.Start.Before(r.Start) && !o.Seen.After(r.Seen) {
				if !o.Start.Equal(r.Start) && (o.Submit.IsZero() || o.Submit.Equal(r.Submit)) { // the same run began earlier
					r.PreviousStarts = append(r.PreviousStarts, o.Start)
				}
				continue
			}
			if !o.Start.Before(u.oldest) {
				u.old = append(u.old, store.Run{Site: o.Site, ID: o.ID, Start: o.Start})
			}
			u.requestRange(o, r.Start, r.Seen)
		}
		if w := u.wider[k]; w != nil {
			w.from, w.to = store.Earlier(w.from, r.Start), store.Later(w.to, r.Seen)
			continue
		}
		kept = append(kept, *r)
	}
	return u.Catalogue.Upsert(ctx, kept)
}

// uncheckedCatalogue is the catalogue within an importCatalogue. It accepts all rows.
type uncheckedCatalogue struct{ store.Catalogue }

func (uncheckedCatalogue) SetWatermark(context.Context, time.Time) error { return nil }

// Package catalogue writes the facts of workloads: the [Builder] folds their series into one row
// per run, and into roll-ups by hour, and keeps them up to date in any [store.Catalogue].
// catalogue/database keeps the rows in SQLite or PostgreSQL; package query and the stages behind it
// read them by the contract of package store.
//
// The use of a workload is read from its counters, which hold the total since its start. The total
// of a series is its last value plus the value before each counter reset. No value is extrapolated.
// Figures without samples are absent (nil), never zero. Times are UTC, figures SI base units.
//
// A Builder is safe for concurrent use.
package catalogue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/storage"

	"reckon/store"
	"reckon/workload"
)

// Steps of taking in history, in this order.
const (
	JobsTaken   = "jobs taken in"
	HoursSummed = "hours summed up"
)

// BuilderOptions configures the updates of a catalogue.
type BuilderOptions struct {
	// Gone is for how long a workload may be silent before it counts as ended; 0 is 5 min.
	Gone time.Duration
	// Overlap is the time that each round looks back for late samples; 0 means 2 min. If the store knows
	// the samples appended since the last round, only those are read.
	Overlap time.Duration
	// Slice is the length of history that is read at a time when rebuilding; 0 is 6 h.
	Slice time.Duration
	// History is the age of the oldest samples of a rebuild if the store does not know its oldest
	// sample; 0 means [store.DefaultRetention].
	History time.Duration
	// SaveEvery is the interval at which the builder saves its state; 0 means 5 min. After a kill
	// that much is read again.
	SaveEvery time.Duration
	// Progress is called while history is taken in, with the step and the time up to which it is done; nil for none.
	Progress func(step string, to time.Time)
	Logger   *slog.Logger
	Clock    func() time.Time
}

// Builder updates the catalogue from the series. It keeps the last value of each series of a running workload, about
// 100 bytes per series, so that a round reads only new samples. It saves this state in the catalogue if the catalogue
// is a [StateKeeper]. After an outage or a lost state, a workload first seen in the middle of its run is read once from
// its start.
type Builder struct {
	q   storage.Queryable
	cat store.Catalogue
	o   BuilderOptions

	mu    sync.Mutex
	fold  *fold
	at    time.Time // up to when series were taken in; zero before the first round
	saved time.Time
	// forgot is the time when workloads were last dropped from memory.
	forgot time.Time
	wrote  bool    // the watermark was set
	roll   *roller // nil for a catalogue that keeps no roll-ups

	wanted  atomic.Bool // see Want
	status  atomic.Pointer[Status]
	read    uint64    // mark of the store up to which samples were taken in; 0 is none
	readTo  time.Time // up to which of their times
	filled  uint64    // mark of the dirty hours that rows were made of again
	resumed bool      // imports that were cut off are in the catalogue

	rows []store.Workload // room for the samples of a round
}

// StateKeeper is a catalogue that remembers a few bytes for its builder.
type StateKeeper interface {
	State(ctx context.Context, key string) ([]byte, error)
	SetState(ctx context.Context, key string, value []byte) error
}

// oldestReporter is a store that knows its oldest sample.
type oldestReporter interface{ Oldest() (time.Time, bool) }

const stateKey = "builder"

// NewBuilder returns a builder of the catalogue from q.
func NewBuilder(q storage.Queryable, c store.Catalogue, o BuilderOptions) *Builder {
	def := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&o.Gone, 5*time.Minute)
	def(&o.Overlap, 2*time.Minute)
	def(&o.Slice, 6*time.Hour)
	def(&o.History, store.DefaultRetention)
	def(&o.SaveEvery, 5*time.Minute)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Progress == nil {
		o.Progress = func(string, time.Time) {}
	}
	b := &Builder{q: q, cat: c, o: o}
	b.roll = b.newRoller()
	return b
}

// Advance processes the samples since the last round and returns the number of rows written. The
// first round reads all history if the catalogue is new or was emptied.
func (b *Builder) Advance(ctx context.Context) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.noteStatus()
	if b.fold != nil {
		mark, err := b.cat.Watermark(ctx)
		if err != nil {
			return 0, err
		}
		if mark.IsZero() && b.wrote {
			b.o.Logger.Warn("the catalogue was emptied; it is built again from the series")
			b.fold, b.wrote, b.roll, b.filled, b.read = nil, false, b.newRoller(), 0, 0
		}
	}
	if b.fold == nil {
		if err := b.loadState(ctx); err != nil {
			return 0, err
		}
	}
	now := b.o.Clock()
	if now.Before(b.at) {
		if !now.Before(b.at.Add(-b.o.Overlap)) {
			return 0, nil // the clock stepped back; new samples are then read within the overlap
		}
		b.handleSetBack(now)
	}
	if err := b.roll.loadPosition(ctx, b.oldestReadable(now)); err != nil {
		return 0, err
	}
	dirty, err := b.dirtyHours()
	if err != nil {
		return 0, err
	}
	n, err := b.resumeImports(ctx, dirty)
	if err != nil {
		return n, err
	}
	m, seen, err := b.backfill(ctx, dirty)
	if n += m; err != nil {
		return n, err
	}
	m, err = b.foldNew(ctx, now)
	if n += m; err != nil {
		return n, err
	}
	m, err = b.backfillTails(ctx, seen)
	if n += m; err != nil {
		return n, err
	}
	b.filled = dirty.Mark
	if now.Sub(b.saved) >= b.o.SaveEvery {
		err = b.saveState(ctx, now)
	}
	return n, errors.Join(err, b.rollUp(ctx, now, dirty))
}

// handleSetBack continues from the time that the clock was set back to. Data already processed for later times is kept.
func (b *Builder) handleSetBack(now time.Time) {
	b.o.Logger.Warn("the clock was set back; workloads keep their later facts", "seconds", b.at.Sub(now).Seconds())
	b.at, b.read, b.saved = now, 0, store.Earlier(b.saved, now)
}

// Rebuild empties the catalogue and builds it from all history. It calls progress, unless that is nil, with the time
// reached so far and the number of rows written.
func (b *Builder) Rebuild(ctx context.Context, progress func(at time.Time, rows int)) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.o.Clock()
	dirty, err := b.dirtyHours()
	if err != nil {
		return 0, err
	}
	if err := b.dropStored(ctx, b.oldestReadable(now)); err != nil {
		return 0, err
	}
	b.fold, b.wrote, b.read = newFold(b.q), false, 0
	b.at = b.oldestReadable(now)
	total := 0
	for b.at.Before(now) {
		n, err := b.foldSlice(ctx, time.Time{}, store.Earlier(b.at.Add(b.o.Slice), now))
		if total += n; err != nil {
			return total, err
		}
		if progress != nil {
			progress(b.at, total)
		}
	}
	b.roll, b.resumed = b.newRoller(), true
	for i := range dirty.Hours {
		dirty.Hours[i].Imported = false // all hours are made now
	}
	if err := b.roll.loadPosition(ctx, b.oldestReadable(now)); err != nil {
		return total, err
	}
	return total, errors.Join(b.saveState(ctx, now), b.rollUp(ctx, now, dirty))
}

// pastKeeper is a catalogue that can keep data older than the series.
type pastKeeper interface {
	DropSince(ctx context.Context, t time.Time) error
}

// dropStored empties the catalogue except for data that the series no longer have.
func (b *Builder) dropStored(ctx context.Context, oldest time.Time) error {
	if k, ok := b.cat.(pastKeeper); ok {
		return k.DropSince(ctx, oldest)
	}
	return b.cat.Drop(ctx)
}

// Run calls Advance at every interval until ctx ends, and then saves the state. It logs errors when they change.
func (b *Builder) Run(ctx context.Context, every time.Duration) error {
	_ = store.Repeat(ctx, 0, every, 0, func(ctx context.Context) error {
		_, err := b.Advance(ctx)
		return err
	}, func(err error) { b.o.Logger.Error("catalogue could not be brought up to date", "err", err) })
	return b.Save(context.WithoutCancel(ctx))
}

// Save saves the state, so that the next start continues from it.
func (b *Builder) Save(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fold == nil {
		return nil
	}
	return b.saveState(ctx, b.o.Clock())
}

// appendReporter is a store that reports the time of the oldest sample appended after a mark. counts is the same
// without the zero samples with which series begin.
type appendReporter interface {
	Appended(mark uint64) (since, counts time.Time, now uint64, known bool)
}

// newerReader is a store that can skip samples that were read before: those up to a time that existed at a mark.
type newerReader interface {
	Newer(mark uint64, read time.Time) storage.Queryable
}

// foldNew reads the samples that were appended since the last round, up to to. If the store cannot report which
// samples are new, it reads everything within the overlap again.
func (b *Builder) foldNew(ctx context.Context, to time.Time) (int, error) {
	s, ok := b.q.(appendReporter)
	if !ok {
		return b.foldRange(ctx, time.Time{}, to)
	}
	since, counts, mark, known := s.Appended(b.read)
	if n, ok := b.q.(newerReader); ok && known {
		b.fold.newer = n.Newer(b.read, b.readTo)
		defer func() { b.fold.newer = nil }()
	}
	b.read = 0 // read everything again if this fails
	if !known {
		since, counts = time.Time{}, time.Time{}
	}
	b.roll.noteAppended(counts)
	n, err := b.foldRange(ctx, store.Earlier(since, b.at), to) // a sample may have come before its time
	if err == nil {
		b.read, b.readTo = mark, b.at
	}
	return n, err
}

// foldRange reads the samples between since and to that were appended since the last round. It divides a long range
// into slices.
func (b *Builder) foldRange(ctx context.Context, since, to time.Time) (int, error) {
	total := 0
	for {
		n, err := b.foldSlice(ctx, since, store.Earlier(b.at.Add(b.o.Slice), to))
		if total += n; err != nil || !b.at.Before(to) {
			return total, err
		}
	}
}

// foldSlice folds the samples from since, limited to the overlap, up to to, and writes the changed rows.
func (b *Builder) foldSlice(ctx context.Context, since, to time.Time) (int, error) {
	from := b.at.Add(-b.o.Overlap)
	since = store.Earlier(store.Later(from, since), to)
	b.fold.added = nil
	clear(b.fold.moved)
	if err := b.fold.foldSamples(ctx, since, to); err != nil {
		return 0, err
	}
	var met []*account // in the middle of their run
	oldest := b.oldestReadable(to)
	for _, a := range sortRuns(b.fold.added) {
		if !slices.Contains(b.fold.accounts[workloadKey{a.Site, a.ID}], a) || a.lastSample() == 0 || !oldest.Before(from) {
			continue
		}
		// Samples of one that follows another of its id may have been taken for that one's.
		follows := a.samplesFrom(true) < since.UnixMilli() && len(b.fold.accounts[workloadKey{a.Site, a.ID}]) > 1
		if a.samplesFrom(true) < from.UnixMilli() || follows {
			met = append(met, a)
		}
	}
	list := listWanted(met)
	for k, early := range b.fold.moved {
		if since, some := b.fold.findMisplaced(k, early); some {
			i := slices.IndexFunc(list, func(w *wantedRuns) bool { return w.workloadKey == k })
			if i < 0 {
				i, list = len(list), append(list, listWanted(b.fold.accounts[k])...)
				list[i].since, list[i].begin = since, since
			}
			list[i].addStart(since, true)
		}
	}
	if err := b.reread(ctx, list, oldest, to); err != nil {
		return 0, err
	}
	n, err := b.writeRows(ctx, to)
	if err != nil {
		return n, err
	}
	b.at = to
	b.o.Progress(JobsTaken, to)
	b.forgetEnded(to)
	err = b.cat.SetWatermark(ctx, to)
	b.wrote = b.wrote || err == nil
	return n, err
}

// forgetEnded drops workloads from memory that ended long ago. It keeps a workload if a round may still read a sample of it,
// because otherwise the sample would make them look new.
func (b *Builder) forgetEnded(now time.Time) {
	if now.Sub(b.forgot) < time.Minute && !now.Before(b.forgot) {
		return
	}
	b.forgot = now
	limit, group := now.Add(-2*b.o.Overlap-b.o.Gone).UnixMilli(), now.Add(-b.o.Overlap-time.Second).UnixMilli()
	for k, runs := range b.fold.accounts {
		kept := runs[:0]
		for _, a := range runs {
			limit := limit
			if workload.Kind(a.Kind).Group() { // its id holds its start: nothing begins later under it
				limit = max(limit, group)
			}
			if !(a.Ended && a.lastKnownSample() < limit) && !(len(a.Tracks) == 0 && a.Start < limit) {
				kept = append(kept, a)
			}
		}
		if len(kept) == 0 {
			delete(b.fold.accounts, k)
			continue
		}
		clear(runs[len(kept):])
		b.fold.accounts[k] = kept
	}
	b.fold.forgetNumbers()
}

// reread reads workloads from their start up to to. They keep the identity that they have in the catalogue, although
// another node may have begun earlier.
func (b *Builder) reread(ctx context.Context, list []*wantedRuns, oldest, to time.Time) error {
	rows := make([][]store.Workload, len(list))
	for i, w := range list {
		for _, a := range b.fold.accounts[w.workloadKey] {
			w.addPrevious(a.Scheduler, a.Born)
		}
		var err error
		if rows[i], _, err = b.cat.Workloads(ctx, store.Filter{IDs: []string{w.ID}}); err != nil {
			return err
		}
		for j := range rows[i] {
			w.afterRow(&rows[i][j])
		}
	}
	had := make(map[workloadKey][]store.Workload, len(list))
	for i, w := range list {
		had[w.workloadKey] = rows[i]
	}
	for list := list; len(list) > 0; {
		if err := b.fold.rereadRuns(ctx, list, oldest, to); err != nil {
			return err
		}
		// A run before those that were read may hold samples of one that became known by that.
		list = slices.DeleteFunc(slices.Clone(list), func(w *wantedRuns) bool {
			since, some := b.fold.findMisplaced(w.workloadKey, 0)
			if !some || since >= w.since {
				return true
			}
			w.addStart(since, true)
			w.before = slices.DeleteFunc(w.before, func(a *account) bool { return a.samplesFrom(true) >= since })
			return false
		})
	}
	for k, rows := range had {
		for _, own := range b.fold.accounts[k] {
			own.touched = true
			if err := b.dropNumbered(ctx, own); err != nil {
				return err
			}
			for i := range rows {
				r := &rows[i]
				if r.Site == k.Site && own.isReported() {
					if own.ownsRow(r) {
						own.Rows = append(own.Rows, r.Start.UnixMilli())
					}
					continue
				}
				if r.Site == k.Site && !own.Fixed && !b.fold.hasReported(k, r) && r.Start.UnixMilli() <= own.lastSample() &&
					r.Seen.UnixMilli() >= own.Start {
					own.Start, own.Fixed = r.Start.UnixMilli(), true
				}
			}
		}
	}
	return nil
}

// hasReported reports whether a row belongs to a reported run of the fold.
func (f *fold) hasReported(k workloadKey, r *store.Workload) bool {
	return !r.Submit.IsZero() && slices.ContainsFunc(f.accounts[k],
		func(a *account) bool { return sameSubmit(a.Scheduler.Submit, r.Submit.UnixMilli()) })
}

// ownsRow reports whether a row of the catalogue is the account's, under whatever start.
func (a *account) ownsRow(r *store.Workload) bool {
	if !r.Submit.IsZero() {
		return sameSubmit(r.Submit.UnixMilli(), a.Scheduler.Submit)
	}
	// Known only to nodes.
	return r.Start.UnixMilli() <= a.lastSample() && r.Seen.UnixMilli() >= a.Start && a.Scheduler.includesStart(r.Start.UnixMilli(),
		maxClockSkew)
}

// oldestReadable returns the time before which there is nothing to read.
func (b *Builder) oldestReadable(now time.Time) time.Time {
	if t, ok := b.q.(oldestReporter); ok {
		if at, ok := t.Oldest(); ok && !at.After(now) {
			return at.Add(-time.Millisecond)
		}
		return now
	}
	return now.Add(-b.o.History)
}

func (b *Builder) saveState(ctx context.Context, now time.Time) error {
	keeper, ok := b.cat.(StateKeeper)
	if !ok {
		return nil
	}
	raw, err := encodeState(&savedState{stateVersion, b.at, runSlots.slotNames(), b.fold.accounts})
	if err != nil {
		return fmt.Errorf("encode state of the catalogue's builder: %w", err)
	}
	if err := keeper.SetState(ctx, stateKey, raw); err != nil {
		return err
	}
	b.saved = now
	return nil
}

// loadState restores the saved state, which is valid only for the catalogue that it was saved in. Without a state, the next
// round reads all history and writes the rows again.
func (b *Builder) loadState(ctx context.Context) error {
	mark, err := b.cat.Watermark(ctx)
	if err != nil {
		return err
	}
	f := newFold(b.q)
	now := b.o.Clock()
	at := b.oldestReadable(now)
	if keeper, ok := b.cat.(StateKeeper); ok && !mark.IsZero() {
		raw, err := keeper.State(ctx, stateKey)
		if err != nil {
			return err
		}
		if s, err := decodeState(raw); err == nil {
			at, f.accounts = s.At, s.Accounts
			f.learnNumbers()
		} else if len(raw) > 0 {
			b.o.Logger.Warn("state of the catalogue's builder is not usable; history is read again", "err", err)
		}
	}
	if at.After(now) {
		at = now // saved before the clock was set back
	}
	b.fold, b.at, b.saved = f, at, now
	return nil
}

package tsdb

import (
	"context"
	"fmt"
	"math"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"reckon/store"
)

// AppenderV2 gives the database's own appender, for what comes by remote write, rules
// and the like. It keeps the store's promises: no write while the disk is full or the
// log needs repair, and views hear of samples that came late. What is asked for when
// the store can not write fails with the first Append and with Commit.
func (s *Store) AppenderV2(ctx context.Context) storage.AppenderV2 {
	if s.torn.Load() {
		if err := s.repair(); err != nil {
			return failedAppender{err}
		}
	}
	db, err := s.use()
	if err != nil {
		return failedAppender{err}
	}
	now := s.opts.Clock()
	if err := s.admit(now); err != nil {
		s.gate.leave()
		return failedAppender{err}
	}
	return &gatedAppender{
		AppenderV2: db.AppenderV2(ctx), s: s, generation: s.generation.Load(),
		newest: max(db.Head().MaxTime(), now.UnixMilli()), oldest: math.MaxInt64,
	}
}

type gatedAppender struct {
	storage.AppenderV2
	s      *Store
	newest int64 // time of the newest sample of the store, or now
	oldest int64 // time of the oldest one appended
	stored uint64
	done   bool

	generation uint64
}

var _ storage.GetRef = (*gatedAppender)(nil)

// GetRef implements storage.GetRef.
func (a *gatedAppender) GetRef(ls labels.Labels, hash uint64) (storage.SeriesRef, labels.Labels) {
	if g, ok := a.AppenderV2.(storage.GetRef); ok {
		return g.GetRef(ls, hash)
	}
	return 0, ls
}

// Generation is that of the references which Append and GetRef return: kept ones are good
// for later appenders of the same generation, and must not be given to any other, where
// they may be those of other series. It is never 0.
func (a *gatedAppender) Generation() uint64 { return a.generation }

// Append implements storage.AppenderV2.
func (a *gatedAppender) Append(ref storage.SeriesRef, ls labels.Labels, st, t int64, v float64, h *histogram.Histogram, fh *histogram.FloatHistogram, o storage.AOptions) (storage.SeriesRef, error) {
	ref, err := a.AppenderV2.Append(ref, ls, st, t, v, h, fh, o)
	if err == nil {
		a.oldest = min(a.oldest, t)
		a.stored++
	}
	return ref, err
}

func (a *gatedAppender) leave() {
	if !a.done {
		a.done = true
		a.s.gate.leave()
	}
}

// Commit implements storage.AppenderV2.
func (a *gatedAppender) Commit() error {
	defer a.leave()
	if err := a.AppenderV2.Commit(); err != nil {
		a.s.torn.Store(true)
		if full(err) {
			return fmt.Errorf("%w: %w (free space on the disk of %s)", store.ErrFull, err, a.s.opts.Dir)
		}
		return fmt.Errorf("%w: %w", store.ErrDamaged, err)
	}
	a.s.appended.Add(a.stored)
	if a.stored > 0 {
		a.s.late.note(a.oldest, a.newest)
	}
	return nil
}

// Rollback implements storage.AppenderV2.
func (a *gatedAppender) Rollback() error { defer a.leave(); return a.AppenderV2.Rollback() }

type failedAppender struct{ err error }

func (a failedAppender) Append(storage.SeriesRef, labels.Labels, int64, int64, float64, *histogram.Histogram, *histogram.FloatHistogram, storage.AOptions) (storage.SeriesRef, error) {
	return 0, a.err
}
func (a failedAppender) Commit() error   { return a.err }
func (a failedAppender) Rollback() error { return nil }

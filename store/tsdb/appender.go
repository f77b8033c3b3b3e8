package tsdb

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	promtsdb "github.com/prometheus/prometheus/tsdb"

	"reckon/internal/dirty"
	"reckon/internal/series"
	"reckon/store"
)

// AppenderV2 returns an appender for samples of remote write, rules and scrape targets. It rejects writes while the
// disk is full or the log needs repair. It marks the hours of late samples as dirty. If the store cannot write, the
// first Append and the Commit return the error.
func (s *Store) AppenderV2(ctx context.Context) storage.AppenderV2 {
	if s.torn.Load() {
		if err := s.repair(); err != nil {
			return failedAppender{err}
		}
	}
	db, err := s.acquire()
	if err != nil {
		return failedAppender{err}
	}
	now := s.opts.Clock()
	if err := s.checkTime(now); err != nil {
		s.gate.release()
		return failedAppender{err}
	}
	return &gatedAppender{
		AppenderV2: db.AppenderV2(ctx), ctx: ctx, db: db, s: s, oldest: noSamples, generation: s.generation.Load(),
		lateBefore: lateBefore(max(db.Head().MaxTime(), now.UnixMilli())),
	}
}

type gatedAppender struct {
	storage.AppenderV2
	ctx       context.Context
	db        *promtsdb.DB
	exemplars storage.Appender // of the same database; nil until there are exemplars

	s      *Store
	late   dirty.Late
	oldest oldestTimes // oldest appended time
	stored uint64
	done   bool

	lateBefore int64 // samples before this time are late
	generation uint64
}

var (
	_ storage.GetRef           = (*gatedAppender)(nil)
	_ storage.ExemplarAppender = (*gatedAppender)(nil)
)

// AppendExemplar implements storage.ExemplarAppender, because remote write 1.0 sends exemplars separately from samples.
// The series must have a sample in the store or in this appender. If the exemplar is already stored, it returns 0 and
// no error.
func (a *gatedAppender) AppendExemplar(ref storage.SeriesRef, ls labels.Labels, e exemplar.Exemplar) (storage.SeriesRef, error) {
	if known, _ := a.GetRef(ls, ls.Hash()); known == 0 {
		return 0, fmt.Errorf("no samples of %s are stored", ls)
	}
	if a.exemplars == nil {
		a.exemplars = a.db.Appender(a.ctx)
	}
	return a.exemplars.AppendExemplar(ref, ls, e)
}

// rollback discards appended samples.
func (a *gatedAppender) rollback() error {
	err := a.AppenderV2.Rollback()
	if a.exemplars != nil {
		err = errors.Join(err, a.exemplars.Rollback())
	}
	return err
}

// commit writes the samples, and then the exemplars of the series that they make.
func (a *gatedAppender) commit() error {
	err := a.AppenderV2.Commit()
	switch {
	case a.exemplars == nil:
		return err
	case err != nil:
		return errors.Join(err, a.exemplars.Rollback())
	}
	return a.exemplars.Commit()
}

// GetRef implements storage.GetRef.
func (a *gatedAppender) GetRef(ls labels.Labels, hash uint64) (storage.SeriesRef, labels.Labels) {
	if g, ok := a.AppenderV2.(storage.GetRef); ok {
		return g.GetRef(ls, hash)
	}
	return 0, ls
}

// Generation returns the generation of the references that Append and GetRef return. References are valid only for
// appenders of the same generation. For other appenders they may refer to other series. The generation is never 0.
func (a *gatedAppender) Generation() uint64 { return a.generation }

// Append implements storage.AppenderV2.
func (a *gatedAppender) Append(ref storage.SeriesRef, ls labels.Labels, st, t int64, v float64, h *histogram.Histogram,
	fh *histogram.FloatHistogram, o storage.AOptions) (storage.SeriesRef, error) {
	if err := series.CheckSound(h, fh); err != nil {
		return 0, fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	begins := false
	if v == 0 && ref == 0 && h == nil && fh == nil {
		known, _ := a.GetRef(ls, ls.Hash())
		begins = known == 0
	}
	ref, err := a.AppenderV2.Append(ref, ls, st, t, v, h, fh, o)
	if err == nil {
		a.stored++
		a.oldest.addSample(t, begins)
		if t < a.lateBefore {
			a.late.Add(t)
		}
	}
	return ref, err
}

func (a *gatedAppender) release() {
	if !a.done {
		a.done = true
		a.s.gate.release()
	}
}

// Commit implements storage.AppenderV2.
func (a *gatedAppender) Commit() error {
	defer a.release()
	noted, err := a.s.noteLate(&a.late)
	if err != nil {
		return errors.Join(err, a.rollback())
	}
	defer noted()
	err = a.commit()
	a.s.recent.markReadable(a.oldest)
	if err != nil {
		a.s.torn.Store(true)
		if isDiskFull(err) {
			return diskFullError(a.s.opts.Dir, err)
		}
		return fmt.Errorf("%w: %w", store.ErrDamaged, err)
	}
	a.s.appended.Add(a.stored)
	return nil
}

// Rollback implements storage.AppenderV2.
func (a *gatedAppender) Rollback() error { defer a.release(); return a.rollback() }

type failedAppender struct{ err error }

func (a failedAppender) Append(storage.SeriesRef, labels.Labels, int64, int64, float64, *histogram.Histogram, *histogram.FloatHistogram,
	storage.AOptions) (storage.SeriesRef, error) {
	return 0, a.err
}
func (a failedAppender) Commit() error   { return a.err }
func (a failedAppender) Rollback() error { return nil }

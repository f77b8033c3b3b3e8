package tsdb

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"

	"reckon/figure/format"
	"reckon/internal/dirty"
	"reckon/internal/series"
	"reckon/metric"
	"reckon/store"
)

// Append stores a batch; see [store.Writer]. The error for rejected samples is an [*AppendError]. It does not allocate
// for known series, except for histograms.
func (s *Store) Append(ctx context.Context, external map[string]string, b *metric.Batch) error {
	if len(b.Samples) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.torn.Load() {
		if err := s.repair(); err != nil {
			return err
		}
	}
	db, err := s.acquire()
	if err != nil {
		return err
	}
	defer s.gate.release()
	if err := s.checkTime(b.Time); err != nil {
		s.refused.Add(uint64(len(b.Samples)))
		return err
	}
	tn := s.tenant(external)
	tn.mu.Lock()
	defer tn.mu.Unlock()

	w := batchWriter{app: db.AppenderV2(ctx), tenant: tn, t: b.Time.UnixMilli(), oldest: oldestTimes{b.Time.UnixMilli(),
		b.Time.UnixMilli()},
		headMax: db.Head().MaxTime(), ooo: s.ooo.Load()}
	tn.round++
	known := true
	for i := range b.Samples {
		known = w.appendSample(&b.Samples[i], &s.meta) && known
	}
	var late dirty.Late
	if w.t < lateBefore(max(w.headMax, s.opts.Clock().UnixMilli())) {
		late.Add(w.t)
	}
	noted, err := s.noteLate(&late)
	if err != nil {
		return errors.Join(err, w.app.Rollback())
	}
	defer noted()
	err = w.app.Commit()
	s.recent.markReadable(w.oldest)
	if err != nil {
		s.torn.Store(true)
		clear(tn.refs)
		if isDiskFull(err) {
			return diskFullError(s.opts.Dir, err)
		}
		return fmt.Errorf("%w: %w", store.ErrDamaged, err)
	}
	tn.forgetEnded(&w)
	s.appended.Add(uint64(w.stored))
	if !known {
		if err := s.meta.save(); err != nil {
			s.log.Warn("descriptions of metrics could not be saved", "err", err)
		}
	}
	if w.refused == nil {
		return nil
	}
	s.refused.Add(uint64(w.refused.Refused))
	w.refused.Stored = w.stored
	return w.refused
}

// checkTime returns an error if the store cannot accept a batch with time t. If the store already has samples from the
// future, checkTime widens the out-of-order window.
func (s *Store) checkTime(t time.Time) error {
	now := s.opts.Clock()
	if s.opts.Ahead > 0 && t.Sub(now) > s.opts.Ahead {
		return fmt.Errorf("%w: %s is %s ahead of the clock here; check both clocks", store.ErrFuture,
			t.UTC().Format(time.RFC3339), t.Sub(now).Round(time.Second))
	}
	if s.opts.Reserve > 0 {
		if free, err := freeBytes(s.opts.Dir); err == nil && free < uint64(s.opts.Reserve) {
			if free < minOpenSpace { // the database ends the process if it cannot write its chunks
				_ = s.dropBallast() // it is tried with the next batch, too
			}
			return fmt.Errorf("%w: %s free on the disk of %s, %s are kept free; free space, or lower the retention",
				store.ErrFull, format.Bytes(float64(free)), s.opts.Dir, format.Bytes(float64(s.opts.Reserve)))
		}
	}
	newest := s.db.Head().MaxTime()
	if newest == math.MinInt64 || s.opts.OutOfOrder == 0 {
		return nil
	}
	if ahead := newest - max(now.UnixMilli(), t.UnixMilli()); s.opts.Ahead > 0 && ahead > s.opts.Ahead.Milliseconds() {
		s.widenWindow(time.Duration(ahead) * time.Millisecond)
	}
	return nil
}

// batchWriter holds the state of one Append.
type batchWriter struct {
	app     storage.AppenderV2
	tenant  *tenant
	t       int64
	oldest  oldestTimes // oldest appended time
	headMax int64
	ooo     int64
	stored  int
	ended   []*metric.Series
	refused *AppendError
}

// appendSample appends one sample. It returns false if its metric was not known before.
func (w *batchWriter) appendSample(sample *metric.Sample, meta *metadataTable) (known bool) {
	known = true
	r := w.tenant.refs[sample.Series]
	if r == nil {
		r = w.tenant.add(sample.Series)
		known = meta.add(sample.Series.Desc)
		if c := sample.Series.Created; c != 0 && sample.Series.Desc.Kind == metric.Counter {
			w.writeInitialZero(r, c)
		}
	}
	r.round = w.tenant.round
	var err error
	if sample.Series.Desc.Kind == metric.NativeHistogram {
		if sample.Histogram == nil {
			w.addRefused(sample, fmt.Errorf("%w: histogram series without a histogram", store.ErrInvalid))
			return known
		}
		r.ref, err = w.app.Append(r.ref, r.labels, 0, w.t, 0, series.ToNative(sample.Histogram), nil, storage.AOptions{})
	} else {
		r.ref, err = w.app.Append(r.ref, r.labels, 0, w.t, sample.Value, nil, nil, storage.AOptions{})
	}
	if err != nil {
		w.addRefused(sample, err)
		r.ref = 0
	} else {
		w.stored++
	}
	if sample.Last {
		w.ended = append(w.ended, sample.Series)
		if err == nil {
			// The marker may fail where the sample was old; the series then ends by itself.
			_, _ = w.app.Append(r.ref, r.labels, 0, w.t+1, math.Float64frombits(value.StaleNaN), nil, nil, storage.AOptions{})
		}
	}
	return known
}

// writeInitialZero writes the initial zero of a counter at the time created, so that the first sample counts as an
// increase. A series that is already in memory has had its zero. It gets another one only if created is newer than all
// of its samples, which means that the counter was reset.
func (w *batchWriter) writeInitialZero(r *seriesRef, created int64) {
	if created >= w.t || w.t-created > (blockRange/2).Milliseconds() || (w.headMax != math.MinInt64 && created < w.headMax-w.ooo) {
		return
	}
	var opts storage.AOptions
	if g, ok := w.app.(storage.GetRef); ok {
		known, _ := g.GetRef(r.labels, r.labels.Hash())
		opts.RejectOutOfOrder = known != 0
	}
	if got, err := w.app.Append(0, r.labels, 0, created, 0, nil, nil, opts); err == nil {
		r.ref = got
		w.oldest.addSample(created, true)
	}
}

// addRefused records why a sample was not stored, with the remedy.
func (w *batchWriter) addRefused(sm *metric.Sample, err error) {
	switch {
	case errors.Is(err, storage.ErrTooOldSample), errors.Is(err, storage.ErrOutOfBounds):
		behind := time.Duration(w.headMax-w.t) * time.Millisecond
		err = fmt.Errorf("%w: %s behind the newest one of the store, and %s are taken; check the clock that stamped it",
			store.ErrTooOld, behind.Round(time.Second), time.Duration(w.ooo)*time.Millisecond)
	case errors.Is(err, storage.ErrOutOfOrderSample):
		err = fmt.Errorf("%w: older than the last one of its series", store.ErrTooOld)
	case errors.Is(err, storage.ErrDuplicateSampleForTimestamp):
		err = fmt.Errorf("%w: %w", store.ErrConflict, err)
	case !errors.Is(err, store.ErrInvalid):
		err = fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	if w.refused == nil {
		w.refused = &AppendError{}
	}
	w.refused.add(sm.Series, err)
}

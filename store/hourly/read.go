package hourly

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"reckon/store"
)

const (
	// longStep and longRange are the step and range from which on hours are as good as all samples.
	longStep = 2 * hour
	// maxRawRange is the range from which on hours are read whatever the step.
	maxRawRange = 7 * day
	// lookback is the maximum age of the last sample of a series with one sample an hour.
	lookback = time.Hour + 5*time.Minute
)

// hoursSuffice reports whether hourly samples answer a query as well as all samples do.
func hoursSuffice(h *storage.SelectHints) bool {
	switch {
	case h == nil:
		return false
	case h.Range == 0:
		return h.Step >= longStep && h.Func != "timestamp"
	case h.Range < maxRawRange && (h.Step < longStep || h.Range < longStep):
		return false
	}
	switch h.Func {
	case "rate", "increase", "avg_over_time", "delta", "deriv", "predict_linear", "last_over_time", "present_over_time", "absent_over_time":
		return true
	}
	return false // peaks, counts and the like need all samples
}

// Lookback returns the lookback that a query needs to find the last sample of a series. It returns 0 for the default,
// and more if the start and the step of the query select hourly samples.
func (s *Store) Lookback(start time.Time, step time.Duration) time.Duration {
	at := start.UnixMilli()
	if (step.Milliseconds() >= longStep && at < s.completeUntil()) || (len(s.blocks.all()) > 0 && at < s.lostBefore()) {
		return lookback
	}
	return 0
}

// completeUntil returns the time before which all hours are complete.
func (s *Store) completeUntil() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.state.Pending) > 0 {
		return min(s.state.Pending[0], s.state.Through)
	}
	return s.state.Through
}

// lostBefore returns the time before which the store may lack samples.
func (s *Store) lostBefore() int64 {
	s.mu.RLock()
	lost := s.state.Lost
	s.mu.RUnlock()
	since, ok := s.raw.Oldest()
	if lost {
		since, ok = s.raw.Since()
	}
	if !ok {
		return math.MaxInt64
	}
	return since.UnixMilli()
}

// Querier reads samples and hours as one.
func (s *Store) Querier(mint, maxt int64) (storage.Querier, error) {
	return &querier{s: s, at: timeRange{mint, maxt}, open: map[string]storage.Querier{}}, nil
}

// ChunkQuerier reads chunks of all samples, and of hourly samples from before the first of these.
func (s *Store) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	raw, err := s.raw.ChunkQuerier(mint, maxt)
	if err != nil {
		return nil, err
	}
	gone := s.lostBefore()
	if mint >= gone {
		return raw, nil
	}
	old, err := s.blocks.chunkQueriers(mint, min(maxt, gone-1))
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	if len(old) == 0 {
		return raw, nil
	}
	for i, q := range old {
		old[i] = clippedChunks{q, gone - 1}
	}
	return storage.NewMergeChunkQuerier(append([]storage.ChunkQuerier{raw}, old...), nil,
		storage.NewCompactingChunkSeriesMerger(storage.ChainedSeriesMerge)), nil
}

type clippedChunks struct {
	storage.ChunkQuerier
	until int64
}

func (q clippedChunks) Select(ctx context.Context, sorted bool, h *storage.SelectHints, ms ...*labels.Matcher) storage.ChunkSeriesSet {
	return q.ChunkQuerier.Select(ctx, sorted, clipHints(h, timeRange{math.MinInt64, q.until}), ms...)
}

// clipHints narrows hints to a span, both ends included, because hints take precedence over the times of a querier.
func clipHints(h *storage.SelectHints, within timeRange) *storage.SelectHints {
	if h == nil {
		return nil
	}
	c := *h
	c.Start, c.End = max(h.Start, within.from), min(h.End, within.to)
	return &c
}

// querier opens its sources when a query needs them.
type querier struct {
	s  *Store
	at timeRange // both ends included

	mu   sync.Mutex
	open map[string]storage.Querier
}

func (q *querier) openOnce(name string, within timeRange, open func(mint, maxt int64) (storage.Querier, error)) (storage.Querier, error) {
	name = fmt.Sprintf("%s %d %d", name, within.from, within.to)
	if have := q.open[name]; have != nil {
		return have, nil
	}
	o, err := open(within.from, within.to)
	if err != nil {
		return nil, err
	}
	q.open[name] = o
	return o, nil
}

func (q *querier) rawQuerier(within timeRange) (storage.Querier, error) {
	return q.openOnce("raw", within, q.s.raw.Querier)
}

func (q *querier) hourlyQuerier(within timeRange) (storage.Querier, error) {
	return q.openOnce("hours", within, func(mint, maxt int64) (storage.Querier, error) {
		list, err := q.s.blocks.queriers(mint, maxt)
		if err != nil {
			return nil, err
		}
		return storage.NewMergeQuerier(list, nil, storage.ChainedSeriesMerge), nil
	})
}

// splitRange returns the spans to read from samples and from hours. An empty span ends before it begins.
func (q *querier) splitRange(h *storage.SelectHints) (raw, hours timeRange) {
	raw, hours = q.at, timeRange{q.at.from, min(q.at.to, q.s.lostBefore()-1)}
	if ready := q.s.completeUntil(); hoursSuffice(h) && ready > q.at.from {
		hours.to = max(hours.to, min(q.at.to, ready-1))
		// Imported samples are included in the hours.
		raw.from = max(raw.from, ready)
	}
	return raw, hours
}

// Select implements storage.Querier.
func (q *querier) Select(ctx context.Context, sorted bool, h *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	q.mu.Lock()
	defer q.mu.Unlock()
	at, old := q.splitRange(h)
	var sets []storage.SeriesSet
	var inHours, inRaw storage.Querier
	var err error
	counts := h != nil && (h.Func == "rate" || h.Func == "increase")
	begin := old.from
	if counts {
		old.from = max(old.from, math.MinInt64+hour) - hour // the last value before the first hour
	}
	gaps := q.s.Gaps(time.UnixMilli(begin), time.UnixMilli(old.to))
	if old.from <= old.to && (len(q.s.blocks.all()) > 0 || len(gaps) > 0) {
		if inHours, err = q.hourlyQuerier(old); err != nil {
			return storage.ErrSeriesSet(err)
		}
	}
	if at.from <= at.to {
		if inRaw, err = q.rawQuerier(at); err != nil {
			return storage.ErrSeriesSet(err)
		}
	}
	both := inHours != nil && inRaw != nil
	if inRaw != nil {
		sets = append(sets, inRaw.Select(ctx, sorted || both, clipHints(h, at), ms...))
	}
	if inHours != nil {
		c := clipHints(h, old)
		var edges rangeEdges
		if counts {
			edges = edgesFromHints(h)
			begin = max(begin, h.Start)
			c.Start = max(old.from, h.Start-hour)
		}
		set := inHours.Select(ctx, sorted || both, c, ms...)
		sets = append(sets, &hourSet{SeriesSet: set, at: timeRange{begin, old.to + 1}, counts: edges, gaps: gaps})
	}
	switch len(sets) {
	case 0:
		return storage.EmptySeriesSet()
	case 1:
		return sets[0]
	}
	return storage.NewMergeSeriesSet(sets, 0, mergeSeries)
}

// hourSet is a set of hourly series. If it returned a series, it adds a warning to the answer.
type hourSet struct {
	storage.SeriesSet
	at     timeRange  // the queried span; samples may begin before
	counts rangeEdges // not nil: the series are used as counters
	gaps   []store.Gap
	any    bool
}

func (s *hourSet) Next() bool {
	more := s.SeriesSet.Next()
	s.any = s.any || more
	return more
}

func (s *hourSet) At() storage.Series {
	if s.counts != nil {
		return storedSeries{bridgedSeries(s.SeriesSet.At(), s.at, s.counts)}
	}
	return storedSeries{s.SeriesSet.At()}
}

func (s *hourSet) Warnings() annotations.Annotations {
	w := s.SeriesSet.Warnings()
	for _, g := range s.gaps {
		w.Add(fmt.Errorf("%w: hours: %s", annotations.PromQLWarning, g))
	}
	if s.any {
		w.Add(fmt.Errorf("%w: hourly values were used before %s", annotations.PromQLInfo,
			time.UnixMilli(s.at.to).UTC().Format(time.RFC3339)))
	}
	return w
}

// labelQuerier returns the store to read labels from. It is the one for the time range of the querier, or the sample store
// if the query has no time range.
func (q *querier) labelQuerier() (storage.LabelQuerier, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	raw, err := q.rawQuerier(q.at)
	if err != nil {
		return nil, err
	}
	old := timeRange{q.at.from, min(q.at.to, q.s.lostBefore()-1)}
	const longAgo = -1e15 // thirty thousand years
	if old.from > old.to || old.from < longAgo || len(q.s.blocks.all()) == 0 {
		return raw, nil
	}
	hours, err := q.hourlyQuerier(old)
	if err != nil {
		return nil, err
	}
	return storage.NewMergeQuerier([]storage.Querier{raw, hours}, nil, storage.ChainedSeriesMerge), nil
}

// LabelValues implements storage.LabelQuerier.
func (q *querier) LabelValues(ctx context.Context, name string, h *storage.LabelHints, ms ...*labels.Matcher) ([]string,
	annotations.Annotations, error) {
	l, err := q.labelQuerier()
	if err != nil {
		return nil, nil, err
	}
	return l.LabelValues(ctx, name, h, ms...)
}

// LabelNames implements storage.LabelQuerier.
func (q *querier) LabelNames(ctx context.Context, h *storage.LabelHints, ms ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	l, err := q.labelQuerier()
	if err != nil {
		return nil, nil, err
	}
	return l.LabelNames(ctx, h, ms...)
}

// Close implements storage.Querier.
func (q *querier) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var errs []error
	for name, o := range q.open {
		errs = append(errs, o.Close())
		delete(q.open, name)
	}
	return errors.Join(errs...)
}

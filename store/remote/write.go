package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"

	"reckon/internal/series"
	"reckon/metric"
	"reckon/store"
)

const (
	// maxSamples is the number of samples in one request.
	maxSamples = 5000
	// maxRequests is the maximum number of requests for finding the refused samples of one write.
	maxRequests = 1024
	// maxZeroRequests is the same limit for the initial zeros of counters.
	maxZeroRequests = 64
	// maxZeroAge is the maximum age of a counter at which it still gets its initial zero.
	maxZeroAge = time.Hour
	// maxReasons is the number of refusals that are named.
	maxReasons = 5
)

// Append stores a batch; see [store.Writer]. With a queue it returns when the batch is queued.
func (s *Store) Append(ctx context.Context, external map[string]string, b *metric.Batch) error {
	if len(b.Samples) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.acquire(); err != nil {
		return err
	}
	defer s.uses.Done()
	w := s.newWriteBatch()
	t := b.Time.UnixMilli()
	for i := range b.Samples {
		sm := &b.Samples[i]
		d := sm.Series.Desc
		ls := mergeLabels(external, sm.Series)
		// never fails
		_ = s.Describe(d.Name, metadata.Metadata{Type: model.MetricType(d.Kind.String()), Unit: string(d.Unit), Help: d.Help})
		if d.Kind == metric.NativeHistogram {
			if sm.Histogram == nil {
				w.addRefused(1, fmt.Errorf("%w: %s: histogram series without a histogram", store.ErrInvalid, ls))
				continue
			}
			h := series.ToNative(sm.Histogram)
			w.addHistogram(ls, t, h, nil)
			if sm.Last {
				w.addHistogramEnd(ls, t+1, h)
			}
			continue
		}
		if c := sm.Series.Created; c != 0 && d.Kind == metric.Counter && c < t && t-c <= maxZeroAge.Milliseconds() &&
			s.known.isNewer(ls.Hash(), c) {
			s.known.recordStart(ls.Hash(), c)
			w.addInitialZero(ls, c)
		}
		w.addFloat(ls, t, sm.Value)
		if sm.Last {
			w.addFloat(ls, t+1, math.Float64frombits(value.StaleNaN))
		}
	}
	if s.out != nil {
		return s.out.enqueue(w)
	}
	return w.send(ctx)
}

// mergeLabels returns the full label set of a series. Its own labels override external labels of the same name.
// Invalid UTF-8 is replaced.
func mergeLabels(external map[string]string, s *metric.Series) labels.Labels {
	b := labels.NewBuilder(labels.EmptyLabels())
	for k, v := range external {
		b.Set(k, strings.ToValidUTF8(v, "\ufffd"))
	}
	for i, name := range s.Desc.Labels {
		if s.Values[i] != "" {
			b.Set(name, strings.ToValidUTF8(s.Values[i], "\ufffd"))
		}
	}
	b.Set(model.MetricNameLabel, s.Desc.Name)
	return b.Labels()
}

// writeBatch collects the samples of one request.
type writeBatch struct {
	s       *Store
	series  []prompb.TimeSeries
	index   map[uint64]int // of the label sets in series, by their hash
	zeros   []prompb.TimeSeries
	refused store.RefusedError
}

func (s *Store) newWriteBatch() *writeBatch { return &writeBatch{s: s, index: map[uint64]int{}} }

func (w *writeBatch) addRefused(n int, err error) {
	w.refused.Refused += n
	if len(w.refused.Reasons) < maxReasons {
		w.refused.Reasons = append(w.refused.Reasons, err)
	}
}

// seriesFor returns the time series with the given labels.
func (w *writeBatch) seriesFor(ls labels.Labels) *prompb.TimeSeries {
	h := ls.Hash()
	if i, ok := w.index[h]; ok {
		return &w.series[i]
	}
	w.index[h] = len(w.series)
	w.series = append(w.series, prompb.TimeSeries{Labels: prompb.FromLabels(ls, nil)})
	return &w.series[len(w.series)-1]
}

// Takes reports whether the other side can represent a value.
func (s *Store) Takes(v float64) bool { return s.peer.checkValue(v) == nil }

// Whole reports whether native histograms of a metric are read back unchanged.
func (s *Store) Whole(name string) bool { return s.conf.native || s.whole[name] }

func (w *writeBatch) addFloat(ls labels.Labels, t int64, v float64) {
	if err := w.s.peer.checkValue(v); err != nil {
		if !value.IsStaleNaN(v) {
			w.addRefused(1, fmt.Errorf("%w: %s is %g: %w", store.ErrInvalid, ls, v, err))
		}
		return
	}
	ts := w.seriesFor(ls)
	ts.Samples = append(ts.Samples, prompb.Sample{Timestamp: t, Value: v})
}

// addInitialZero adds the initial zero of a counter; the other side may refuse it.
func (w *writeBatch) addInitialZero(ls labels.Labels, t int64) {
	w.zeros = append(w.zeros, prompb.TimeSeries{Labels: prompb.FromLabels(ls, nil), Samples: []prompb.Sample{{Timestamp: t}}})
}

func (w *writeBatch) addHistogram(ls labels.Labels, t int64, h *histogram.Histogram, fh *histogram.FloatHistogram) {
	if w.s.conf.native {
		ts := w.seriesFor(ls)
		if h != nil {
			ts.Histograms = append(ts.Histograms, prompb.FromIntHistogram(t, h))
		} else {
			ts.Histograms = append(ts.Histograms, prompb.FromFloatHistogram(t, fh))
		}
		return
	}
	if h != nil {
		fh = h.ToFloat(nil)
	}
	if value.IsStaleNaN(fh.Sum) {
		w.addClassicEnd(ls, t, fh)
		return
	}
	emitClassic(ls, fh, func(ls labels.Labels, v float64) { w.addFloat(ls, t, v) })
}

// addHistogramEnd adds the staleness marker of a series whose last sample is h.
func (w *writeBatch) addHistogramEnd(ls labels.Labels, t int64, h *histogram.Histogram) {
	if w.s.conf.native {
		w.addHistogram(ls, t, &histogram.Histogram{Sum: math.Float64frombits(value.StaleNaN)}, nil)
		return
	}
	w.addClassicEnd(ls, t, h.ToFloat(nil))
}

func (w *writeBatch) addClassicEnd(ls labels.Labels, t int64, h *histogram.FloatHistogram) {
	emitClassic(ls, h, func(ls labels.Labels, _ float64) { w.addFloat(ls, t, math.Float64frombits(value.StaleNaN)) })
}

// send sends the collected samples to the server. If the server stored only some of them, it returns a
// *store.RefusedError about the others.
func (w *writeBatch) send(ctx context.Context) error {
	noted, err := w.s.noteLate(w.series)
	if err != nil {
		return err
	}
	defer noted()
	if len(w.zeros) > 0 {
		budget := maxZeroRequests
		if _, err := w.s.deliver(ctx, w.zeros, nil, &budget, func(int, error) {}); err != nil {
			return err
		}
	}
	budget := maxRequests
	meta := w.s.takeDescriptions()
	stored := 0
	for _, part := range splitRequests(w.series) {
		n, err := w.s.deliver(ctx, part, meta, &budget, w.addRefused)
		if err != nil {
			return err
		}
		stored, meta = stored+n, nil
	}
	w.s.recordWritten(w.series)
	if w.refused.Refused == 0 {
		return nil
	}
	w.refused.Stored = stored
	return &w.refused
}

// recordWritten records the written samples in the cache.
func (s *Store) recordWritten(list []prompb.TimeSeries) {
	b := labels.NewScratchBuilder(16)
	for i := range list {
		newest := int64(math.MinInt64)
		for _, sm := range list[i].Samples {
			newest = max(newest, sm.Timestamp)
		}
		for _, h := range list[i].Histograms {
			newest = max(newest, h.Timestamp)
		}
		s.known.recordSample(list[i].ToLabels(&b, nil).Hash(), newest)
	}
}

// splitRequests divides a list into requests.
func splitRequests(list []prompb.TimeSeries) (out [][]prompb.TimeSeries) {
	begin, n := 0, 0
	for i := range list {
		m := len(list[i].Samples) + len(list[i].Histograms)
		if n+m > maxSamples && i > begin {
			out, begin, n = append(out, list[begin:i]), i, 0
		}
		n += m
	}
	if begin < len(list) {
		out = append(out, list[begin:])
	}
	return out
}

func countSamples(list []prompb.TimeSeries) (n int) {
	for i := range list {
		n += len(list[i].Samples) + len(list[i].Histograms)
	}
	return n
}

// deliver sends series and returns the number of stored samples. Some servers reject a whole request because of one
// sample. After a rejection, deliver therefore sends each half of the request separately, again and again, until it
// finds the rejected samples. It calls refuse for them.
func (s *Store) deliver(ctx context.Context, list []prompb.TimeSeries, meta []prompb.MetricMetadata, budget *int,
	refuse func(int, error)) (int, error) {
	if len(list) == 0 {
		return 0, nil
	}
	*budget--
	err := s.post(ctx, &prompb.WriteRequest{Timeseries: list, Metadata: meta})
	n := countSamples(list)
	var status *statusError
	switch {
	case err == nil:
		return n, nil
	case !errors.As(err, &status) || errors.Is(err, store.ErrUnavailable):
		return 0, err
	case n <= 1 || *budget <= 0:
		refuse(n, asRefusedError(list, status))
		return 0, nil
	}
	a, b := splitInHalf(list)
	stored, err := s.deliver(ctx, a, nil, budget, refuse)
	if err != nil {
		return stored, err
	}
	more, err := s.deliver(ctx, b, nil, budget, refuse)
	return stored + more, err
}

func splitInHalf(list []prompb.TimeSeries) (a, b []prompb.TimeSeries) {
	if len(list) > 1 {
		return list[:len(list)/2], list[len(list)/2:]
	}
	one, two := list[0], list[0]
	k, m := len(one.Samples)/2, len(one.Histograms)/2
	if len(one.Samples) == 1 {
		k = 1
	}
	one.Samples, two.Samples = one.Samples[:k], two.Samples[k:]
	one.Histograms, two.Histograms = one.Histograms[:m], two.Histograms[m:]
	return []prompb.TimeSeries{one}, []prompb.TimeSeries{two}
}

// asRefusedError translates the server's refusal into an error of package store.
func asRefusedError(list []prompb.TimeSeries, e *statusError) error {
	kind := store.ErrInvalid
	switch text := strings.ToLower(e.text); {
	case strings.Contains(text, "duplicate sample"), strings.Contains(text, "different value"):
		kind = store.ErrConflict
	case strings.Contains(text, "out of order"), strings.Contains(text, "out of bounds"), strings.Contains(text, "too old"),
		strings.Contains(text, "beyond retention"):
		kind = store.ErrTooOld
	}
	b := labels.NewScratchBuilder(16)
	return fmt.Errorf("%w: %s: %w", kind, list[0].ToLabels(&b, nil), e)
}

func (s *Store) post(ctx context.Context, r *prompb.WriteRequest) error {
	body, header, err := s.peer.encode(r)
	if err != nil {
		return err
	}
	in, said, err := s.web.sendWithBreaker(ctx, &s.web.writes, http.MethodPost, s.conf.write, header, body)
	if s.two.rejectsVersion2(header, said, err) {
		if err == nil {
			_ = in.Close() // the body is not needed
		}
		s.log.Warn("the store does not support remote write 2.0 (protocol=2.0); 1.0 is used", "store", s.String())
		return s.post(ctx, r)
	}
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(in, 64<<10)) // so that the connection is reused
	return in.Close()
}

// AppenderV2 returns an appender for samples of rules, scrape targets and remote write. Commit sends the samples. If
// the server rejects some, Commit returns a *store.RefusedError.
func (s *Store) AppenderV2(ctx context.Context) storage.AppenderV2 {
	return &appender{ctx: ctx, s: s, w: s.newWriteBatch()}
}

type appender struct {
	ctx context.Context
	s   *Store
	w   *writeBatch
}

var (
	_ storage.GetRef           = (*appender)(nil)
	_ storage.ExemplarAppender = (*appender)(nil)
)

// GetRef implements storage.GetRef for recently written series.
func (a *appender) GetRef(ls labels.Labels, hash uint64) (storage.SeriesRef, labels.Labels) {
	if _, ok := a.s.known.newestTime(hash); ok {
		return storage.SeriesRef(hash | 1), ls
	}
	return 0, ls
}

// Append implements storage.AppenderV2.
func (a *appender) Append(_ storage.SeriesRef, ls labels.Labels, _, t int64, v float64, h *histogram.Histogram,
	fh *histogram.FloatHistogram, o storage.AOptions) (storage.SeriesRef, error) {
	hash := ls.Hash()
	last, known := a.s.known.newestTime(hash)
	if o.RejectOutOfOrder && known && t <= last {
		return 0, storage.ErrOutOfOrderSample
	}
	if h != nil || fh != nil {
		a.w.addHistogram(ls, t, h, fh)
	} else {
		a.w.addFloat(ls, t, v)
	}
	return storage.SeriesRef(hash | 1), nil
}

// AppendExemplar implements storage.ExemplarAppender.
func (a *appender) AppendExemplar(_ storage.SeriesRef, ls labels.Labels, e exemplar.Exemplar) (storage.SeriesRef, error) {
	ts := a.w.seriesFor(ls)
	ts.Exemplars = append(ts.Exemplars, prompb.Exemplar{Labels: prompb.FromLabels(e.Labels, nil), Value: e.Value, Timestamp: e.Ts})
	return storage.SeriesRef(ls.Hash() | 1), nil
}

// Commit implements storage.AppenderV2.
func (a *appender) Commit() error {
	if err := a.s.acquire(); err != nil {
		return err
	}
	defer a.s.uses.Done()
	a.w.separateZeros()
	return a.w.send(a.ctx)
}

// separateZeros moves the initial zeros of new counters to a separate list. The server may already have these zeros, and
// would reject the whole request because of them.
func (w *writeBatch) separateZeros() {
	b := labels.NewScratchBuilder(16)
	for i := range w.series {
		ts := &w.series[i]
		if len(ts.Samples) < 2 || ts.Samples[0].Value != 0 || ts.Samples[1].Timestamp <= ts.Samples[0].Timestamp {
			continue
		}
		if _, known := w.s.known.newestTime(ts.ToLabels(&b, nil).Hash()); !known {
			w.s.known.recordStart(ts.ToLabels(&b, nil).Hash(), ts.Samples[0].Timestamp)
			w.zeros = append(w.zeros, prompb.TimeSeries{Labels: ts.Labels, Samples: ts.Samples[:1]})
			ts.Samples = ts.Samples[1:]
		}
	}
}

// Rollback implements storage.AppenderV2.
func (a *appender) Rollback() error { return nil }

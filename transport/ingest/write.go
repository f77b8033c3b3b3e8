package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/prometheus/prometheus/storage"

	"google.golang.org/protobuf/encoding/protowire"

	recseries "reckon/internal/series"
	"reckon/store"
	"reckon/transport/limits"
)

const (
	// maxNewCounterAge is the maximum age of a new counter's start time for an initial zero to be written. It exceeds the time
	// that a series limit can delay the counter. maxCachedCounterAge is the same for a cached series, which needs the zero only
	// at its first sample. It exceeds any export interval.
	maxNewCounterAge    = 2 * time.Hour
	maxCachedCounterAge = 10 * time.Minute
	// maxNamedRefusals is the number of refusals that a response names.
	maxNamedRefusals = 5
)

// result counts stored samples.
type result struct{ samples, histograms, exemplars int }

// requestWriter stores the content of one request.
type requestWriter struct {
	h    *handler
	ctx  context.Context // of the request
	app  storage.AppenderV2
	refs storage.GetRef // nil when the store has none
	// exemplars is nil when the store keeps none.
	exemplars storage.ExemplarAppender
	who       sender
	latest    int64 // the latest time that is accepted
	scratch   labels.ScratchBuilder
	// generation is the generation of the store's references, 0 if they must not be cached.
	generation uint64
	fresh      []uncachedSeries // for the series cache, after they are stored
	over       []hash128        // series that end with this request
	before     *cachedSeries    // the preceding series, if it was in the cache
	began      bool             // the last admitted series was counted as new

	done    bool
	result  result
	ahead   int           // samples too far in the future
	aheadBy time.Duration // the smallest distance among them
	round   uint32
	refused int
	why     map[string]int // number of refused samples by reason
	reasons []string
}

func (h *handler) newWriter(ctx context.Context, from sender) *requestWriter {
	now := h.Clock()
	w := &requestWriter{h: h, ctx: ctx, who: from, app: h.Store.AppenderV2(ctx), latest: now.Add(h.Ahead).UnixMilli(), round: roundOf(now),
		scratch: labels.NewScratchBuilder(16)}
	w.refs, _ = w.app.(storage.GetRef)
	w.exemplars, _ = w.app.(storage.ExemplarAppender)
	if g, ok := w.app.(interface{ Generation() uint64 }); ok {
		w.generation = g.Generation()
	}
	return w
}

// abandon rolls back after a panic. Without it, closing the store would wait for this writer forever.
func (w *requestWriter) abandon() {
	if !w.done {
		w.done = true
		_ = w.app.Rollback() // the panic is reported
	}
}

// finish commits the accepted samples. err is a failure of the store.
func (w *requestWriter) finish(err error) (result, error) {
	w.done = true
	if err != nil {
		_ = w.app.Rollback() // the first error is sufficient
		return result{}, err
	}
	err = w.app.Commit()
	var some *store.RefusedError
	switch {
	case errors.As(err, &some): // a remote store reports refusals only on commit
		w.subtractRefused(some)
	case err != nil:
		return result{}, err
	}
	if w.who.bounds != nil {
		w.who.bounds.Stored()
	}
	for i := 0; i < len(w.fresh) && w.who.own == nil; i++ {
		w.h.series.add(w.fresh[i].key, w.fresh[i].as, w.round)
	}
	for _, key := range w.over {
		w.h.series.drop(key)
	}
	w.h.Stats.countStored(w.h.protocol, w.result.samples+w.result.histograms)
	if w.refused == 0 {
		return w.result, nil
	}
	if err := w.checkFastClock(); err != nil {
		return w.result, err
	}
	w.h.Stats.countRefused(w.who.name, w.why)
	text := strings.Join(w.reasons, "; ")
	if more := w.refused - len(w.reasons); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return w.result, newStatusError(http.StatusBadRequest, "%d samples refused, %d stored: %s", w.refused,
		w.result.samples+w.result.histograms,
		text)
}

// subtractRefused subtracts the samples that a remote store refused from the stored ones.
func (w *requestWriter) subtractRefused(e *store.RefusedError) {
	stored := w.result.samples + w.result.histograms
	w.result.samples = max(w.result.samples-e.Refused, 0)
	w.result.histograms = max(stored-e.Refused-w.result.samples, 0)
	w.refused += e.Refused
	if w.why == nil {
		w.why = map[string]int{}
	}
	w.why[reasonStore] += e.Refused
	for _, r := range e.Reasons {
		if len(w.reasons) < maxNamedRefusals {
			w.reasons = append(w.reasons, r.Error())
		}
	}
}

// addRefused records n samples that will never be accepted.
func (w *requestWriter) addRefused(label string, n int, format string, args ...any) {
	w.refused += n
	if w.why == nil {
		w.why = map[string]int{}
	}
	w.why[label] += n
	if len(w.reasons) < maxNamedRefusals {
		if reason := fmt.Sprintf(format, args...); !slices.Contains(w.reasons, reason) {
			w.reasons = append(w.reasons, reason)
		}
	}
}

// storeRequestV2 stores a request of remote write 2.0.
func (w *requestWriter) storeRequestV2(req *requestV2) (result, error) {
	ts := &req.one
	err := eachField(req.body, func(num protowire.Number, f protoField) error {
		if num != reqSeries {
			return nil
		}
		if err := ts.parse(f.bytes); err != nil {
			return newStatusError(http.StatusBadRequest, "the body is no io.prometheus.write.v2.Request: %v", err)
		}
		return w.storeSeriesV2(req, ts)
	})
	return w.finish(err)
}

// storeSeriesV2 stores one series. The error is a failure of the store, or a reason to reject the whole request.
func (w *requestWriter) storeSeriesV2(req *requestV2, ts *seriesV2) error {
	n := max(len(ts.samples)+len(ts.histograms), 1)
	key, err := ts.hashLabels(req)
	if err != nil {
		w.addRefused(reasonInvalid, n, "labels: %v", err)
		return nil
	}
	doc, err := ts.hashMetadata(req)
	if err != nil {
		w.addRefused(reasonInvalid, n, "description of %s: %v", ts.labels(req, &w.scratch), err)
		return nil
	}
	var k knownSeries
	var ok bool
	w.before = w.findCached(key)
	old := w.before != nil
	if old {
		k = w.before.knownSeries
	} else if k.ls, ok, err = w.checkLabels(ts.labels(req, &w.scratch), n); err != nil || !ok {
		return err
	}
	was := k
	if ok, err = w.isAccepted(&k, n, old); err != nil || !ok {
		return err
	}
	s := requestSeries{ls: k.ls, begun: k.start}
	defer w.finishSeries(&s)
	if w.generation != 0 && k.store == w.generation {
		s.ref = k.ref
	}
	for i := range ts.samples {
		p := &ts.samples[i]
		if err := w.storeSample(&s, p.start, p.t, p.value); err != nil {
			return err
		}
	}
	if err := w.storeHistograms(&s, ts.histograms, func() histogramMessage { return new(writev2.Histogram) }); err != nil {
		return err
	}
	for _, raw := range ts.exemplars {
		e, err := ts.exemplar(req, raw, &w.scratch)
		if err != nil {
			w.addRefused(reasonInvalid, 1, "exemplar of %s: %v", s.ls, err)
			continue
		}
		w.storeExemplar(&s, e)
	}
	if !old || k.doc != doc {
		w.addMetadata(k.ls.Get(model.MetricNameLabel), ts.metadata(req))
		k.doc = doc
	}
	k.ls, k.ref, k.store, k.start = s.ls, s.ref, w.generation, s.begun
	if s.over {
		w.over = append(w.over, key)
		return nil
	}
	if !old || k.ref != was.ref || k.store != was.store || k.doc != was.doc || k.start != was.start || k.checked != was.checked {
		w.fresh = append(w.fresh, uncachedSeries{key, k})
	}
	return nil
}

// storeRequestV1 stores a request of remote write 1.0 that passed checkRequestV1. Its series are decoded one at a time into the same
// memory.
func (w *requestWriter) storeRequestV1(plain []byte) (result, error) {
	var ts prompb.TimeSeries
	var parts seriesPartsV1
	err := eachField(plain, func(num protowire.Number, f protoField) error {
		switch num {
		case req1Series:
			ts.Labels, ts.Samples = ts.Labels[:0], ts.Samples[:0]
			err := parts.split(f.bytes)
			if err == nil {
				ts.Samples = slices.Grow(ts.Samples, parts.samples) // growing by decoding alone would double the memory
				err = ts.Unmarshal(parts.plain)
			}
			if err != nil {
				return newStatusError(http.StatusBadRequest, "the body is no prometheus.WriteRequest: %v", err)
			}
			return w.storeSeriesV1(&ts, &parts)
		case req1Metadata:
			var m prompb.MetricMetadata
			if err := m.Unmarshal(f.bytes); err != nil {
				return newStatusError(http.StatusBadRequest, "the body is no prometheus.WriteRequest: %v", err)
			}
			w.addMetadata(m.MetricFamilyName, metadata.Metadata{
				Type: model.MetricType(strings.ToLower(m.Type.String())), Unit: m.Unit, Help: m.Help,
			})
		}
		return nil
	})
	return w.finish(err)
}

// storeSeriesV1 stores one series. The error is a failure of the store, or a reason to reject the whole request.
func (w *requestWriter) storeSeriesV1(ts *prompb.TimeSeries, parts *seriesPartsV1) error {
	ls := ts.ToLabels(&w.scratch, nil)
	n := max(len(ts.Samples)+len(parts.histograms), 1)
	ls, ok, err := w.checkLabels(ls, n)
	if err != nil || !ok {
		return err
	}
	if ok, err := w.isAccepted(&knownSeries{ls: ls}, n, false); err != nil || !ok {
		return err
	}
	s := requestSeries{ls: ls}
	defer w.finishSeries(&s)
	for j := range ts.Samples {
		if err := w.storeSample(&s, 0, ts.Samples[j].Timestamp, ts.Samples[j].Value); err != nil {
			return err
		}
	}
	if err := w.storeHistograms(&s, parts.histograms, func() histogramMessage { return new(prompb.Histogram) }); err != nil {
		return err
	}
	for _, raw := range parts.exemplars {
		var e prompb.Exemplar
		if err := e.Unmarshal(raw); err != nil {
			return newStatusError(http.StatusBadRequest, "the body is no prometheus.WriteRequest: exemplar: %v", err)
		}
		w.storeExemplar(&s, e.ToExemplar(&w.scratch, nil))
	}
	return nil
}

// requestSeries is one series of a request. It holds the store's reference as soon as there is one.
type requestSeries struct {
	ls    labels.Labels
	ref   storage.SeriesRef
	begun int64 // the last start time that was handled
	over  bool  // the last sample that was stored marks its end
}

// uncachedSeries is a series that is not in the series cache in its present state.
type uncachedSeries struct {
	key hash128
	as  knownSeries
}

// isAccepted reports whether a series with valid labels may be stored. samples is the number of its samples, and cached
// reports whether the series is in the cache. An error rejects the whole request.
func (w *requestWriter) isAccepted(k *knownSeries, samples int, cached bool) (bool, error) {
	if err := w.checkScope(k.ls); err != nil {
		return false, err
	}
	bounds := w.who.bounds
	if bounds == nil {
		return true, nil
	}
	var err error
	if k.checked != bounds.Config() {
		err = bounds.Labels(k.ls)
		k.checked = bounds.Config()
	}
	if err == nil {
		err = bounds.Series(k.ls, samples)
	}
	w.began = false
	if err == nil && !cached && w.isNew(k.ls) {
		err = bounds.AllowNew(k.ls)
		w.began = err == nil
	}
	if err == nil {
		return true, nil
	}
	var tooFast *limits.RateError
	if errors.As(err, &tooFast) {
		return false, rateLimitError(err)
	}
	w.addRefused(reasonLimit, samples, "%v", err)
	return false, nil
}

// finishSeries is called after the samples of a series. If none was stored, the series no longer counts as new.
func (w *requestWriter) finishSeries(s *requestSeries) {
	if w.began && s.ref == 0 {
		w.who.bounds.RevertNew(s.ls)
	}
	w.began = false
}

// isNew reports whether the store does not have the series. It returns false for a remote store, which cannot be asked.
func (w *requestWriter) isNew(ls labels.Labels) bool {
	if w.refs == nil || w.generation == 0 {
		return false
	}
	ref, _ := w.refs.GetRef(ls, ls.Hash())
	return ref == 0
}

// storeSample stores one value. The error is a failure of the store.
func (w *requestWriter) storeSample(s *requestSeries, start, t int64, v float64) error {
	if w.isTooFarAhead(s, t) || w.isOtherMachine(s, t) {
		return nil
	}
	if start > max(0, w.who.after) {
		w.writeInitialZero(s, start, t)
	}
	ref, err := w.app.Append(s.ref, s.ls, 0, t, v, nil, nil, storage.AOptions{})
	if err == nil {
		s.ref, s.over = ref, value.IsStaleNaN(v)
		w.result.samples++
		return nil
	}
	return w.classifyError(s, t, err)
}

// histogramMessage is a histogram message of remote write 1.0 or 2.0.
type histogramMessage interface {
	Unmarshal(b []byte) error
	GetTimestamp() int64
	IsFloatHistogram() bool
	ToIntHistogram() *histogram.Histogram
	ToFloatHistogram() *histogram.FloatHistogram
}

// storeHistograms decodes and stores histograms one after the other.
func (w *requestWriter) storeHistograms(s *requestSeries, list [][]byte, newMessage func() histogramMessage) error {
	for _, raw := range list {
		p := newMessage()
		if err := p.Unmarshal(raw); err != nil {
			return newStatusError(http.StatusBadRequest, "a histogram of %s cannot be decoded: %v", s.ls, err)
		}
		var ih *histogram.Histogram
		var fh *histogram.FloatHistogram
		if p.IsFloatHistogram() {
			fh = p.ToFloatHistogram()
		} else {
			ih = p.ToIntHistogram()
		}
		if err := w.storeHistogram(s, p.GetTimestamp(), ih, fh); err != nil {
			return err
		}
	}
	return nil
}

func (w *requestWriter) storeHistogram(s *requestSeries, t int64, h *histogram.Histogram, fh *histogram.FloatHistogram) error {
	if w.isTooFarAhead(s, t) || w.isOtherMachine(s, t) {
		return nil
	}
	err := recseries.CheckSound(h, fh)
	// A resolution finer than the store's maximum is reduced, not refused.
	if err == nil && h != nil && histogram.IsExponentialSchemaReserved(h.Schema) && h.Schema > histogram.ExponentialSchemaMax {
		err = h.ReduceResolution(histogram.ExponentialSchemaMax)
	}
	if err == nil && fh != nil && histogram.IsExponentialSchemaReserved(fh.Schema) && fh.Schema > histogram.ExponentialSchemaMax {
		err = fh.ReduceResolution(histogram.ExponentialSchemaMax)
	}
	if err == nil {
		var ref storage.SeriesRef
		if ref, err = w.app.Append(s.ref, s.ls, 0, t, 0, h, fh, storage.AOptions{}); err == nil {
			s.ref, s.over = ref, h != nil && value.IsStaleNaN(h.Sum) || fh != nil && value.IsStaleNaN(fh.Sum)
			w.result.histograms++
			return nil
		}
	}
	return w.classifyError(s, t, err)
}

// storeExemplar stores an exemplar of a series. If that fails, the samples are stored all the same, as in other receivers.
// It fails if the exemplar is older than the last one, has labels of more than 128 characters, or belongs to no sample,
// or if the store keeps no exemplars.
func (w *requestWriter) storeExemplar(s *requestSeries, e exemplar.Exemplar) {
	if w.exemplars == nil || e.Ts > w.latest {
		return
	}
	if ref, err := w.exemplars.AppendExemplar(s.ref, s.ls, e); err == nil {
		w.result.exemplars++
		s.ref = cmp.Or(ref, s.ref)
	}
}

func (w *requestWriter) isTooFarAhead(s *requestSeries, t int64) bool {
	if t <= w.latest {
		return false
	}
	const most = int64(math.MaxInt64/2/time.Millisecond - 1) // a time in another unit is too far for a Duration
	by := time.Duration(min(t-w.latest, most))*time.Millisecond + w.h.Ahead
	if w.ahead++; w.ahead == 1 || by < w.aheadBy {
		w.aheadBy = by
	}
	w.addRefused(reasonFuture, 1, "%s: %s is in the future; check the clock of the sender", s.ls,
		time.UnixMilli(t).UTC().Format(time.RFC3339))
	return true
}

// isOtherMachine refuses a sample from a time when another machine had the same name, because the samples of both would be summed.
func (w *requestWriter) isOtherMachine(s *requestSeries, t int64) bool {
	if w.who.after == 0 || t > w.who.after {
		return false
	}
	w.addRefused(reasonOtherMachine, 1,
		"%s at %s: until %s another machine had this name, and what this one measured meanwhile is not added to that",
		s.ls, time.UnixMilli(t).UTC().Format(time.RFC3339), time.UnixMilli(w.who.after).UTC().Format(time.RFC3339))
	return true
}

// maxClockAhead is the longest time into the future for which a request is rejected only for now. A sample beyond it
// has a time in a wrong unit rather than from a wrong clock.
const maxClockAhead = 24 * time.Hour

// checkFastClock rejects a request temporarily if all of its samples are in the future, as from a board without a battery-backed clock. The
// sender keeps the samples until its clock is right or their time has come. If some samples of the request can be stored, the others are
// rejected permanently, so that one bad series does not block all others of a sender.
func (w *requestWriter) checkFastClock() error {
	if w.ahead == 0 || w.ahead != w.refused || w.result != (result{}) || w.aheadBy > maxClockAhead {
		return nil
	}
	return &statusError{http.StatusServiceUnavailable,
		fmt.Sprintf(
			"the clock of the sender is %s ahead of the server's: set it (chrony, ntpd); the samples are taken when their time has come",
			w.aheadBy.Round(time.Second)), time.Minute}
}

// classifyError separates refusals of samples from failures of the store.
func (w *requestWriter) classifyError(s *requestSeries, t int64, err error) error {
	var invalid histogram.Error
	switch {
	case errors.Is(err, storage.ErrTooOldSample), errors.Is(err, storage.ErrOutOfBounds),
		errors.Is(err, storage.ErrOutOfOrderSample), errors.Is(err, storage.ErrDuplicateSampleForTimestamp),
		errors.As(err, &invalid), errors.Is(err, recseries.ErrUnsound):
		w.addRefused(refusalReason(err), 1, "%s at %s: %v", s.ls, time.UnixMilli(t).UTC().Format(time.RFC3339), err)
		return nil
	}
	return err
}

// refusalReason returns the label value for an error of the store.
func refusalReason(err error) string {
	switch {
	case errors.Is(err, storage.ErrTooOldSample), errors.Is(err, storage.ErrOutOfBounds), errors.Is(err, storage.ErrOutOfOrderSample):
		return reasonTooOld
	case errors.Is(err, storage.ErrDuplicateSampleForTimestamp):
		return reasonConflict
	}
	return reasonInvalid
}

// writeInitialZero writes the initial zero of a counter at the time start, so that its first sample at t counts as an increase. A known
// series gets a zero only if start is after all of its samples, which means that the counter was reset.
func (w *requestWriter) writeInitialZero(s *requestSeries, start, t int64) {
	if start >= t || t-start > maxNewCounterAge.Milliseconds() || start == s.begun {
		return
	}
	if s.ref == 0 && w.refs != nil {
		if known, ls := w.refs.GetRef(s.ls, s.ls.Hash()); known != 0 {
			s.ref, s.ls = known, ls
		}
	}
	if s.ref != 0 && t-start > maxCachedCounterAge.Milliseconds() {
		return
	}
	if ref, err := w.app.Append(s.ref, s.ls, 0, start, 0, nil, nil, storage.AOptions{RejectOutOfOrder: s.ref != 0}); err == nil {
		s.ref = ref
	}
	s.begun = start
}

// descriptionCache remembers the stored descriptions, so that one that is sent with every request costs only a look-up.
type descriptionCache struct {
	tell func(string, metadata.Metadata) error
	mu   sync.RWMutex
	seen map[string]metadata.Metadata
}

// maxDescribed limits the memory that senders can make us use.
const maxDescribed = 20_000

func (d *descriptionCache) record(name string, m metadata.Metadata) {
	if d.tell == nil || m.Type == "" && m.Help == "" && m.Unit == "" || m.Type == model.MetricTypeUnknown && m.Help == "" {
		return
	}
	d.mu.RLock()
	same := d.seen[name] == m
	full := len(d.seen) >= maxDescribed
	d.mu.RUnlock()
	if same || full {
		return
	}
	d.mu.Lock()
	if d.seen == nil {
		d.seen = make(map[string]metadata.Metadata)
	}
	d.seen[strings.Clone(name)] = m
	d.mu.Unlock()
	_ = d.tell(name, m) // the file of descriptions could not be written; samples are stored all the same
}

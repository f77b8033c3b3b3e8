package catalogue

import (
	"math"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/internal/series"
	"reckon/metric"
)

// track describes one series of a workload, with enough state to continue from its last sample
// without reading earlier ones. The exported fields are for encoding.
type track struct {
	Slot              slot
	Node, Part, Owner string  // its place
	First, T          int64   // times of the first and last sample
	FirstV            float64 // first value
	V                 float64 // last value
	Base              float64 // counters: count lost at resets
	Max               float64 // gauges
	Stale             bool    // the series was marked as ended

	Hist, HistBase *metric.Histogram // the same for histograms
}

func (k *track) place() partPlace { return partPlace{k.Node, k.Part, k.Owner} }

// isBatch reports whether a batch system wrote the series.
func (k *track) isBatch() bool { return k.Node == "" && k.Part == "" }

// totalCount returns the count of a counter since the workload began.
func (k *track) totalCount() float64 { return k.Base + k.V }

func (k *track) addNumber(t int64, v float64) {
	switch {
	case k.T == 0:
		k.First, k.FirstV, k.Max = t, v, v
	case k.Slot.isCounter() && v < k.V:
		k.Base += k.V // the counter was reset
	}
	k.T, k.V, k.Max, k.Stale = t, v, max(k.Max, v), false
}

func (k *track) addHistogram(t int64, h *metric.Histogram) {
	if k.Hist != nil && h.Count < k.Hist.Count {
		k.keepBeforeReset()
	}
	k.T, k.Hist, k.Stale = t, h, false
}

// keepBeforeReset adds the content of a histogram before a reset to the base.
func (k *track) keepBeforeReset() {
	if k.HistBase == nil {
		k.HistBase = &metric.Histogram{}
	}
	k.HistBase.Merge(k.Hist)
	k.Hist = nil
}

// wholeHistogram returns the whole histogram across all resets.
func (k *track) wholeHistogram() *metric.Histogram {
	var out metric.Histogram
	for _, h := range []*metric.Histogram{k.HistBase, k.Hist} {
		if h != nil {
			out.Merge(h)
		}
	}
	return &out
}

// readSamples adds samples to the tracks that pick returns for their times, and calls note for each number. It skips samples
// that a track already has.
func readSamples(it chunkenc.Iterator, pick func(t int64) *track, note func(t int64, v float64)) {
	h := histogramReader{}
	for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
		if vt != chunkenc.ValFloat {
			t := it.AtT()
			if k := pick(t); k != nil && t > k.T {
				h.addSample(k, t, it)
			}
			continue
		}
		h.flush()
		t, v := it.At()
		k := pick(t)
		switch {
		case k == nil || t <= k.T || (math.IsNaN(v) && k.T == 0):
		case value.IsStaleNaN(v):
			k.Stale = true
		case !math.IsNaN(v):
			k.addNumber(t, v)
			if note != nil {
				note(t, v)
			}
		}
	}
	h.flush()
}

// histogramReader converts as few histograms as possible: only the last of a run of samples, and
// the one before each decrease.
type histogramReader struct {
	track       *track
	t           int64
	held, spare *histogram.FloatHistogram
}

func (r *histogramReader) addSample(k *track, t int64, it chunkenc.Iterator) {
	if r.spare == nil {
		// Never nil: the iterator would return slices of its own.
		r.spare = &histogram.FloatHistogram{}
	}
	_, h := it.AtFloatHistogram(r.spare)
	stale := value.IsStaleNaN(h.Sum)
	fell := r.track == k && !stale && h.Count < r.held.Count
	if r.track != nil && (r.track != k || stale || fell) {
		r.flush()
	}
	if fell {
		k.keepBeforeReset() // now: the next that is converted may be higher again
	}
	if stale {
		k.Stale = true
		r.spare = h
		return
	}
	if k.First == 0 {
		k.First = t
	}
	r.spare, r.held = r.held, h
	r.track, r.t = k, t
}

func (r *histogramReader) flush() {
	if r.track != nil {
		r.track.addHistogram(r.t, series.FromNative(r.held))
		r.track = nil
	}
}

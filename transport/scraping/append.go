package scraping

import (
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
)

// describingAppender is an appender that also stores the descriptions of metrics.
type describingAppender struct {
	storage.AppenderV2
	d *describingStore
}

var _ storage.GetRef = (*describingAppender)(nil)

// GetRef implements storage.GetRef.
func (a *describingAppender) GetRef(ls labels.Labels, hash uint64) (storage.SeriesRef, labels.Labels) {
	if g, ok := a.AppenderV2.(storage.GetRef); ok {
		return g.GetRef(ls, hash)
	}
	return 0, ls
}

// Append implements storage.AppenderV2.
func (a *describingAppender) Append(ref storage.SeriesRef, ls labels.Labels, start, t int64, v float64, h *histogram.Histogram,
	fh *histogram.FloatHistogram, o storage.AOptions) (storage.SeriesRef, error) {
	got, err := a.AppenderV2.Append(ref, ls, start, t, v, h, fh, o)
	if err == nil {
		a.d.record(o.MetricFamilyName, o.Metadata)
	}
	return got, err
}

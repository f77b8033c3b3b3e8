package scraping

import (
	"context"
	"errors"
	"math"
	"sync"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"

	"reckon/internal/series"
	"reckon/metric"
	"reckon/transport/limits"
)

// Refused is the number of samples of a scrape that were not stored. It has the labels of the target.
var Refused = metric.NewDesc("reckon_scrape_samples_refused", metric.Gauge, metric.None, nil,
	"Refused samples of the target's last scrape. They belong to new series beyond a limit, or have labels that are too long. Absent "+
		"when there are none.")

// Descs returns every series that this package writes.
func Descs() []*metric.Desc { return []*metric.Desc{Refused} }

// limitedStore applies the limits of senders to scraped samples.
type limitedStore struct {
	storage.AppendableV2
	begin func() (*limits.Request, error)

	mu       sync.Mutex
	reported map[uint64]struct{} // targets with a last scrape that was refused in part
}

// AppenderV2 implements storage.AppendableV2.
func (b *limitedStore) AppenderV2(ctx context.Context) storage.AppenderV2 {
	app := b.AppendableV2.AppenderV2(ctx)
	if b.begin == nil {
		return app
	}
	r, err := b.begin()
	return &limitedAppender{AppenderV2: app, b: b, request: r, slow: err}
}

// maxReportSeries is the maximum number of series that Prometheus itself adds to a scrape.
const maxReportSeries = 16

// limitedAppender is the appender of one scrape.
type limitedAppender struct {
	storage.AppenderV2
	b       *limitedStore
	request *limits.Request
	slow    error // too many samples per second
	refused int
	reports int
}

var _ storage.GetRef = (*limitedAppender)(nil)

// GetRef implements storage.GetRef.
func (c *limitedAppender) GetRef(ls labels.Labels, hash uint64) (storage.SeriesRef, labels.Labels) {
	if g, ok := c.AppenderV2.(storage.GetRef); ok {
		return g.GetRef(ls, hash)
	}
	return 0, ls
}

// Append implements storage.AppenderV2. A rejected series gets no reference, and the scrape continues. If the rate of
// samples is too high, the whole scrape fails, and the metric up of the target is 0.
func (c *limitedAppender) Append(ref storage.SeriesRef, ls labels.Labels, start, t int64, v float64, h *histogram.Histogram,
	fh *histogram.FloatHistogram, o storage.AOptions) (storage.SeriesRef, error) {
	name := ls.Get(model.MetricNameLabel)
	switch {
	case isStaleMarker(v, h, fh):
	case c.isReportSeries(name): // that a scrape failed has to be reported
		if name == "up" {
			if err := c.reportRefused(ls, t); err != nil {
				return 0, err
			}
		}
	case c.slow != nil:
		return 0, c.slow
	default:
		err := series.CheckSound(h, fh)
		if err == nil {
			err = c.request.Labels(ls)
		}
		if err == nil {
			err = c.request.Series(ls, 1)
		}
		var slow *limits.RateError
		if errors.As(err, &slow) {
			c.slow = err
			return 0, err
		}
		if err != nil {
			c.refused++
			return 0, nil
		}
	}
	return c.AppenderV2.Append(ref, ls, start, t, v, h, fh, o)
}

// reportRefused writes the number of refused samples of a target, and a zero once nothing is refused.
func (c *limitedAppender) reportRefused(up labels.Labels, t int64) error {
	c.b.mu.Lock()
	h := up.Hash()
	_, before := c.b.reported[h]
	if c.refused > 0 {
		if c.b.reported == nil {
			c.b.reported = map[uint64]struct{}{}
		}
		c.b.reported[h] = struct{}{}
	} else {
		delete(c.b.reported, h)
	}
	c.b.mu.Unlock()
	v := float64(c.refused)
	switch {
	case c.refused == 0 && !before:
		return nil
	case c.refused == 0:
		v = math.Float64frombits(value.StaleNaN)
	}
	own := labels.NewBuilder(up).Set(model.MetricNameLabel, Refused.Name).Labels()
	_, err := c.AppenderV2.Append(0, own, 0, t, v, nil, nil, storage.AOptions{})
	return err
}

// isReportSeries reports whether Prometheus itself adds a series with this name to each scrape. A target may use
// these names too, which lets it exceed its limit by a few series.
func (c *limitedAppender) isReportSeries(name string) bool {
	switch name {
	case "up", "scrape_duration_seconds", "scrape_samples_scraped", "scrape_samples_post_metric_relabeling", "scrape_series_added",
		"scrape_timeout_seconds", "scrape_sample_limit", "scrape_body_size_bytes":
		c.reports++
		return c.reports <= maxReportSeries
	}
	return false
}

// isStaleMarker reports whether a sample is a staleness marker, which ends a series.
func isStaleMarker(v float64, h *histogram.Histogram, fh *histogram.FloatHistogram) bool {
	switch {
	case h != nil:
		return value.IsStaleNaN(h.Sum)
	case fh != nil:
		return value.IsStaleNaN(fh.Sum)
	}
	return value.IsStaleNaN(v)
}

// Commit implements storage.AppenderV2.
func (c *limitedAppender) Commit() error {
	err := c.AppenderV2.Commit()
	if err == nil && c.request != nil {
		c.request.Stored()
	}
	return err
}

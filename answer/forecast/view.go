package forecast

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"reckon/store"
)

// Metric is the name of the forecast metric in PromQL.
const Metric = "reckon_forecast"

const (
	// grain is the spacing of samples in the view: no more than the lookback of a query.
	grain = 5 * time.Minute
	// longest is the maximum age of a forecast that still covers a sample.
	longest = DailySteps * time.Hour
)

// horizons returns the horizons in the view.
func horizons() map[string]time.Duration {
	return map[string]time.Duration{"1h": time.Hour, "6h": 6 * time.Hour, "24h": 24 * time.Hour}
}

// View serves stored forecasts as the series reckon_forecast{quantile,horizon}. The sample at time t is the forecast
// for t plus the horizon, from the newest forecast made at or before t. The series database does not store forecasts,
// so that it has no samples in the future. It is safe for concurrent use.
type View struct {
	storage.SampleAndChunkQueryable // all other series
	Store                           store.Forecasts
}

// Querier implements storage.Queryable.
func (v View) Querier(mint, maxt int64) (storage.Querier, error) {
	q, err := v.SampleAndChunkQueryable.Querier(mint, maxt)
	if err != nil {
		return nil, err
	}
	merged := storage.NewMergeQuerier([]storage.Querier{q}, []storage.Querier{viewQuerier{v.Store, mint, maxt}}, storage.ChainedSeriesMerge)
	return mergedQuerier{merged, q}, nil
}

// mergedQuerier queries the view only when the matchers select it: a merge requires all series to be sorted first.
type mergedQuerier struct {
	storage.Querier // of the view and all other series
	others          storage.Querier
}

// Select implements storage.Querier.
func (q mergedQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	if mayMatch(ms) {
		return q.Querier.Select(ctx, sorted, hints, ms...)
	}
	return q.others.Select(ctx, sorted, hints, ms...)
}

// ChunkQuerier implements storage.ChunkQueryable.
func (v View) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	q, err := v.SampleAndChunkQueryable.ChunkQuerier(mint, maxt)
	if err != nil {
		return nil, err
	}
	return storage.NewMergeChunkQuerier([]storage.ChunkQuerier{q}, []storage.ChunkQuerier{viewChunks{viewQuerier{v.Store, mint, maxt}}},
		storage.NewCompactingChunkSeriesMerger(storage.ChainedSeriesMerge)), nil
}

type viewQuerier struct {
	store      store.Forecasts
	mint, maxt int64
}

func (viewQuerier) Close() error { return nil }

// Select implements storage.Querier.
func (q viewQuerier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	if !mayMatch(ms) {
		return storage.EmptySeriesSet()
	}
	from, to := q.mint, q.maxt
	if hints != nil && hints.End > 0 {
		from, to = max(from, hints.Start), min(to, hints.End)
	}
	f := store.ForecastFilter{Since: time.UnixMilli(from).Add(-longest), Until: time.UnixMilli(to).Add(time.Millisecond)}
	for _, m := range ms {
		if m.Type != labels.MatchEqual {
			continue
		}
		switch m.Name {
		case "subject":
			f.Subject = m.Value
		case "site":
			f.Site = m.Value
		case "figure":
			f.Figures = []string{m.Value}
		}
	}
	list, err := q.store.Forecasts(ctx, f)
	if err != nil {
		return storage.ErrSeriesSet(err)
	}
	return selectSeries(list, from, to, ms)
}

// mayMatch reports whether the matchers may select the metric. They must name it, so that other queries do not pay for the view.
func mayMatch(ms []*labels.Matcher) bool {
	for _, m := range ms {
		if m.Name == model.MetricNameLabel {
			return m.Matches(Metric) && (m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp)
		}
	}
	return false
}

// selectSeries returns the series that the matchers select. The list is ordered by key and time.
func selectSeries(list []store.Forecast, from, to int64, ms []*labels.Matcher) storage.SeriesSet {
	var out []storage.Series
	for len(list) > 0 {
		n := 1
		id := forecastKey{list[0].Subject, list[0].Site, list[0].Name, list[0].Figure}
		for n < len(list) && (forecastKey{list[n].Subject, list[n].Site, list[n].Name, list[n].Figure}) == id {
			n++
		}
		one := list[:n]
		list = list[n:]
		if id.subject == done {
			continue
		}
		for text, ahead := range horizons() {
			for _, quantile := range []string{"0.025", "0.5", "0.975"} {
				l := newLabels(&one[0], quantile, text)
				if !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(l.Get(m.Name)) }) {
					if s := forecastSamples(one, from, to, ahead, quantile); len(s) > 0 {
						out = append(out, storage.NewListSeries(l, s))
					}
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return &seriesSet{series: out}
}

func newLabels(f *store.Forecast, quantile, horizon string) labels.Labels {
	by := map[string]string{model.MetricNameLabel: Metric, "subject": f.Subject, "site": f.Site, "figure": f.Figure, "quantile": quantile,
		"horizon": horizon, "owner": f.Owner}
	switch f.Subject {
	case Node:
		by["node"] = f.Name
	case FileSystem:
		by["node"], by["mountpoint"], _ = strings.Cut(f.Name, ":")
	case Workload:
		by["workload"] = f.Name
	}
	maps.DeleteFunc(by, func(_, v string) bool { return v == "" })
	return labels.FromMap(by)
}

// forecastSamples returns the samples of one series, every five minutes.
func forecastSamples(list []store.Forecast, from, to int64, ahead time.Duration, quantile string) []chunks.Sample {
	var out []chunks.Sample
	step := grain.Milliseconds()
	newest := 0
	for t := (from + step - 1) / step * step; t <= to; t += step {
		for newest < len(list) && list[newest].Made.UnixMilli() <= t {
			newest++
		}
		for i := newest - 1; i >= 0; i-- {
			f := &list[i]
			at := int(time.UnixMilli(t).Add(ahead).Sub(f.Made) / f.Step)
			if at >= len(f.Point) {
				continue
			}
			v := f.Point
			switch quantile {
			case "0.025":
				v = f.Low
			case "0.975":
				v = f.High
			}
			out = append(out, floatSample{t, v[at]})
			break
		}
	}
	return out
}

// floatSample is one float.
type floatSample struct {
	t int64
	v float64
}

func (s floatSample) T() int64                    { return s.t }
func (floatSample) ST() int64                     { return 0 }
func (s floatSample) F() float64                  { return s.v }
func (floatSample) H() *histogram.Histogram       { return nil }
func (floatSample) FH() *histogram.FloatHistogram { return nil }
func (floatSample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s floatSample) Copy() chunks.Sample         { return s }

// seriesSet is a set of series in memory.
type seriesSet struct {
	series []storage.Series
	at     int
}

func (s *seriesSet) Next() bool                      { s.at++; return s.at <= len(s.series) }
func (s *seriesSet) At() storage.Series              { return s.series[s.at-1] }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }

// LabelValues implements storage.LabelQuerier.
func (q viewQuerier) LabelValues(ctx context.Context, name string, _ *storage.LabelHints, ms ...*labels.Matcher) ([]string,
	annotations.Annotations, error) {
	return q.collectNames(ctx, ms, func(l labels.Labels, note func(string)) {
		if v := l.Get(name); v != "" {
			note(v)
		}
	})
}

// LabelNames implements storage.LabelQuerier.
func (q viewQuerier) LabelNames(ctx context.Context, _ *storage.LabelHints, ms ...*labels.Matcher) ([]string, annotations.Annotations,
	error) {
	return q.collectNames(ctx, ms, func(l labels.Labels, note func(string)) {
		l.Range(func(l labels.Label) { note(l.Name) })
	})
}

// collectNames collects names from the series of the newest forecasts, or of all forecasts if no matcher selects the name.
func (q viewQuerier) collectNames(ctx context.Context, ms []*labels.Matcher, each func(labels.Labels, func(string))) ([]string,
	annotations.Annotations, error) {
	named := slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return m.Name == model.MetricNameLabel })
	if named && !mayMatch(ms) {
		return nil, nil, nil
	}
	if !named {
		ms = append(slices.Clone(ms), labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, Metric))
	}
	last := viewQuerier{q.store, max(q.mint, q.maxt-grain.Milliseconds()), q.maxt}
	found := map[string]bool{}
	list := last.Select(ctx, false, nil, ms...)
	for list.Next() {
		each(list.At().Labels(), func(v string) { found[v] = true })
	}
	return slices.Sorted(maps.Keys(found)), nil, list.Err()
}

// viewChunks is the forecast view as a querier of chunks, for remote read.
type viewChunks struct{ viewQuerier }

func (q viewChunks) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.ChunkSeriesSet {
	return storage.NewSeriesSetToChunkSet(q.viewQuerier.Select(ctx, sorted, hints, ms...))
}

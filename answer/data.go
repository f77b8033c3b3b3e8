package answer

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/analysis/correlate"
	"reckon/answer/dataset"
	"reckon/figure/wire"
	"reckon/metric"
)

// Data joins series by time for tables, files and correlations.
type Data struct {
	Series   storage.Queryable // restricted to series that the viewer may see
	Parser   parser.Parser
	Metadata func() map[string]metadata.Metadata
	Slots    chan struct{} // limits the questions processed at a time
}

const (
	// maxDataSeries and maxDataSamples limit the size of one query. maxCorrelated limits the number of columns that
	// are correlated in pairs.
	maxDataSeries  = 200
	maxDataSamples = 5_000_000
	maxCorrelated  = 60
	// before is the time before the start from which samples are read, for the first step.
	before = 5 * time.Minute
)

func tooLargeError(format string, args ...any) error {
	return Invalid("select fewer series by their labels, or a shorter time", fmt.Errorf(format, args...))
}

// joinSeries reads and joins the selected series.
func (d *Data) joinSeries(ctx context.Context, q wire.DataQuery) (*dataset.Frame, []string, error) {
	select {
	case d.Slots <- struct{}{}:
		defer func() { <-d.Slots }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	series, err := d.readSeries(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	step := q.Step.Milliseconds()
	// Rows are aligned to multiples of the step, so that tables with different starts can be compared.
	end := q.To.UnixMilli() / step * step
	start := (q.From.UnixMilli()/step + 1) * step
	if end < start {
		return nil, nil, Invalid("give a longer time, or a shorter step", fmt.Errorf("no step of %s ends between from and to", q.Step))
	}
	f, warnings, err := dataset.Join(series, dataset.Grid{Start: start, End: end, Step: step, By: q.By})
	if err != nil {
		return nil, nil, Invalid("", err)
	}
	if len(series) == 0 {
		warnings = append(warnings, "no series was found by "+strings.Join(q.Select, ", "))
	}
	return f, warnings, nil
}

func (d *Data) readSeries(ctx context.Context, q wire.DataQuery) ([]dataset.Series, error) {
	from, to := q.From.Add(-before).UnixMilli(), q.To.UnixMilli()
	store, err := d.Series.Querier(from, to)
	if err != nil {
		return nil, err
	}
	defer store.Close() // nothing was written
	described := d.Metadata()
	var out []dataset.Series
	seen, samples := map[string]bool{}, 0
	for _, text := range q.Select {
		ms, err := d.Parser.ParseMetricSelector(text)
		if err != nil {
			return nil, Invalid(`give a selector such as node_load1{node="n1"}, without functions`,
				fmt.Errorf("parameter select: %q: %w", text, err))
		}
		set := store.Select(ctx, false, &storage.SelectHints{Start: from, End: to}, ms...)
		var it chunkenc.Iterator
		for set.Next() {
			one := set.At()
			key := one.Labels().String()
			if seen[key] {
				continue
			}
			if seen[key] = true; len(seen) > maxDataSeries {
				return nil, tooLargeError("the selectors find more than %d series", maxDataSeries)
			}
			it = one.Iterator(it)
			s, err := readPoints(it, describeSeries(one.Labels(), described), maxDataSamples-samples)
			if err != nil {
				return nil, err
			}
			samples += len(s.Points)
			out = append(out, s)
		}
		if err := set.Err(); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b dataset.Series) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(fmt.Sprint(a.Labels), fmt.Sprint(b.Labels)))
	})
	return out, nil
}

// describeSeries returns a series without its samples. It takes the type of the series from the metadata, or else from the
// suffix of the name.
func describeSeries(l labels.Labels, described map[string]metadata.Metadata) dataset.Series {
	s := dataset.Series{Kind: metric.Gauge}
	l.Range(func(l labels.Label) {
		if l.Name == model.MetricNameLabel {
			s.Name = l.Value
		} else {
			s.Labels = append(s.Labels, dataset.Label{Name: l.Name, Value: l.Value})
		}
	})
	m, known := described[s.Name]
	s.Unit, s.Help = metric.Unit(m.Unit), m.Help
	switch {
	case known && m.Type != "":
		if m.Type == "counter" {
			s.Kind = metric.Counter
		}
	default:
		for _, end := range []string{"_total", "_sum", "_count", "_bucket"} {
			if strings.HasSuffix(s.Name, end) {
				s.Kind = metric.Counter
			}
		}
	}
	return s
}

func readPoints(it chunkenc.Iterator, s dataset.Series, room int) (dataset.Series, error) {
	for {
		switch it.Next() {
		case chunkenc.ValNone:
			return s, it.Err()
		case chunkenc.ValFloat:
			t, v := it.At()
			if math.IsNaN(v) {
				continue // includes stale markers
			}
			if len(s.Points) >= room {
				return s, tooLargeError("the series hold more than %d samples in that time", maxDataSamples)
			}
			s.Points = append(s.Points, dataset.Point{T: t, V: v})
		default:
			s.Kind = metric.NativeHistogram
			s.Points = append(s.Points, dataset.Point{T: it.AtT()}) // so that it is reported as left out
			return s, nil
		}
	}
}

// Data returns a table.
func (d *Data) Data(ctx context.Context, q wire.DataQuery) (wire.DataTable, error) {
	t := wire.DataTable{From: q.From, To: q.To, StepSeconds: q.Step.Seconds(), Times: []time.Time{}, Labels: []wire.DataLabels{},
		Columns: []wire.DataColumn{}, Warnings: []string{}}
	f, warnings, err := d.joinSeries(ctx, q)
	if err != nil {
		return t, err
	}
	if n := f.Rows() * len(f.Columns); n > 1_000_000 {
		return t,
			tooLargeError("%d rows of %d columns are more than a page can show; take a longer step, or a file (format=csv or parquet)",
				f.Rows(), len(f.Columns))
	}
	t.Warnings = append(t.Warnings, warnings...)
	for _, at := range f.Time {
		t.Times = append(t.Times, time.UnixMilli(at).UTC())
	}
	for _, l := range f.Labels {
		t.Labels = append(t.Labels, wire.DataLabels{Name: l.Name, Values: l.Values})
	}
	for i := range f.Columns {
		c := &f.Columns[i]
		values := make([]*float64, len(c.Values))
		for k := range c.Values {
			values[k] = finiteOrNil(c.Values[k])
		}
		t.Columns = append(t.Columns, wire.DataColumn{Name: c.Name, Unit: c.Unit, Help: c.Help, Source: c.Source, Rate: c.Rate,
			Values: values})
	}
	return t, nil
}

// finiteOrNil returns nil for NaN and infinities.
func finiteOrNil(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// WriteData writes a table as csv or parquet.
func (d *Data) WriteData(ctx context.Context, q wire.DataQuery, format string, w io.Writer) error {
	f, _, err := d.joinSeries(ctx, q)
	if err != nil {
		return err
	}
	if format == "parquet" {
		return f.WriteParquet(w)
	}
	return f.WriteCSV(w)
}

// Correlate compares all pairs of series.
func (d *Data) Correlate(ctx context.Context, q wire.DataQuery) (wire.Correlation, error) {
	out := wire.Correlation{From: q.From, To: q.To, StepSeconds: q.Step.Seconds(), Columns: []string{}, Pairs: []wire.CorrelationPair{},
		Warnings: []string{}}
	q.By = nil // each series is a column
	f, warnings, err := d.joinSeries(ctx, q)
	if err != nil {
		return out, err
	}
	out.Rows = f.Rows()
	if n := len(f.Columns); n > maxCorrelated {
		return out, tooLargeError("%d series are more than %d, which are compared at once", n, maxCorrelated)
	}
	var columns []correlate.Column
	for _, c := range f.Columns {
		columns = append(columns, correlate.Column{Name: c.Name, Values: c.Values})
	}
	if len(columns) < 2 {
		out.Warnings = append(append(out.Warnings, warnings...), "a correlation takes two series or more")
		return out, nil
	}
	o := correlate.Options{StepSeconds: f.StepSeconds}
	if q.MaxLag != nil {
		if o.MaxLag = *q.MaxLag; o.MaxLag == 0 {
			o.MaxLag = -1
		}
	}
	m, err := correlate.Pairs(columns, o)
	if err != nil {
		return out, Invalid("", err)
	}
	out.Columns, out.Warnings = m.Names, append(append(out.Warnings, warnings...), m.Warnings...)
	for _, p := range m.Strongest() {
		pair := wire.CorrelationPair{
			A: p.A, B: p.B, Points: p.Points, Effective: finiteOrNil(p.Effective), Pearson: finiteOrNil(p.Pearson), Low: finiteOrNil(p.Low),
			High: finiteOrNil(p.High), Spearman: finiteOrNil(p.Spearman),
			LagSeconds: p.LagSeconds, LagPearson: finiteOrNil(p.LagPearson), LagPoints: p.LagPoints,
		}
		if p.Points < 8 {
			pair.Effective = nil
		}
		out.Pairs = append(out.Pairs, pair)
	}
	return out, nil
}

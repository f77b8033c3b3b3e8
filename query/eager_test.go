package query

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/prometheus/prometheus/util/annotations"
)

// listSet is a set of series in memory.
type listSet struct {
	list []storage.Series
	at   int
	err  error
}

func (s *listSet) Next() bool                      { s.at++; return s.at <= len(s.list) }
func (s *listSet) At() storage.Series              { return s.list[s.at-1] }
func (s *listSet) Err() error                      { return s.err }
func (*listSet) Warnings() annotations.Annotations { return nil }

// listQuerier selects a set of series in memory.
type listQuerier struct {
	storage.Querier
	set *listSet
}

func (q listQuerier) Select(context.Context, bool, *storage.SelectHints, ...*labels.Matcher) storage.SeriesSet {
	return q.set
}

type floatSample struct{ point }

func (s floatSample) T() int64                    { return s.t }
func (floatSample) ST() int64                     { return 0 }
func (s floatSample) F() float64                  { return s.v }
func (floatSample) H() *histogram.Histogram       { return nil }
func (floatSample) FH() *histogram.FloatHistogram { return nil }
func (floatSample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s floatSample) Copy() chunks.Sample         { return s }

func floats(name string, times ...int64) storage.Series {
	var list []chunks.Sample
	for _, t := range times {
		list = append(list, floatSample{point{t, float64(t) / 2}})
	}
	return storage.NewListSeries(labels.FromStrings("__name__", name), list)
}

// readAll gives the samples of a series, read by Next or by Seek to the first time.
func readAll(it chunkenc.Iterator, seek int64) (out []string) {
	vt := chunkenc.ValNone
	if seek != 0 {
		vt = it.Seek(seek)
	} else {
		vt = it.Next()
	}
	for ; vt != chunkenc.ValNone; vt = it.Next() {
		if vt != chunkenc.ValFloat {
			out = append(out, fmt.Sprint(it.AtT(), " histogram"))
			continue
		}
		t, v := it.At()
		if t != it.AtT() {
			out = append(out, "two times")
		}
		out = append(out, fmt.Sprint(t, " ", v))
	}
	if it.Err() != nil {
		out = append(out, it.Err().Error())
	}
	return out
}

func TestEager(t *testing.T) {
	broken := &storage.SeriesEntry{Lset: labels.FromStrings("__name__", "broken"), SampleIteratorFn: func(chunkenc.Iterator) chunkenc.Iterator {
		return failingIterator{floats("x", 10, 20).Iterator(nil)}
	}}
	var many []int64
	for i := range int64(3 * eagerBlock) {
		many = append(many, i+1)
	}
	list := func() *listSet {
		return &listSet{list: []storage.Series{
			floats("a", 5, 10, 20, 30, 35), floats("none"), floats("outside", 5, 35), broken, histogramSeries(), floats("many", many...), floats("b", 15, 25),
		}, err: errors.New("and an error at the end")}
	}
	set := eagerSelect(t.Context(), listQuerier{storage.NoopQuerier(), list()}, false, &storage.SelectHints{Start: 10, End: 30}, nil,
		&meter{})
	got := map[string][]string{}
	var all []storage.Series
	for set.Next() {
		all = append(all, set.At()) // the engine collects them first
	}
	var it chunkenc.Iterator
	for _, s := range all {
		it = s.Iterator(it)
		got[s.Labels().Get("__name__")] = readAll(it, 0)
	}
	if set.Err() == nil {
		t.Error("the error of the set is lost")
	}
	for name, want := range map[string][]string{
		"a": {"10 5", "20 10", "30 15"}, "none": nil, "outside": nil, "b": {"15 7.5", "25 12.5"}, "broken": {"10 5", "20 10", "it is broken"}, "histogram": {"10 5", "20 histogram"},
	} {
		if !slices.Equal(got[name], want) {
			t.Errorf("%s: %v, want %v", name, got[name], want)
		}
	}
	if len(got["many"]) != 21 || len(got) != len(all) {
		t.Errorf("%d samples of many, %d series", len(got["many"]), len(got))
	}
	for _, s := range all[:1] {
		for seek, want := range map[int64]int{1: 3, 10: 3, 11: 2, 30: 1, 31: 0} {
			if n := len(readAll(s.Iterator(nil), seek)); n != want {
				t.Errorf("seek %d: %d samples, want %d", seek, n, want)
			}
		}
		it := s.Iterator(nil)
		if it.Seek(20); it.Seek(15) != chunkenc.ValFloat || it.AtT() != 20 {
			t.Error("seeking back moves the iterator")
		}
		for range 3 {
			it.Next()
		}
		if it.Next() != chunkenc.ValNone || it.Seek(10) != chunkenc.ValNone {
			t.Error("an iterator at its end goes on")
		}
	}
	// Only short ranges of instant queries.
	for _, h := range []*storage.SelectHints{nil, {Start: 0, End: 60_000, Step: 15_000}, {Start: 0, End: eagerRange.Milliseconds() + 1}} {
		if _, ok := eagerSelect(t.Context(), listQuerier{storage.NoopQuerier(), list()}, false, h, nil, &meter{}).(*eagerSet); ok {
			t.Errorf("%+v is read at once", h)
		}
	}
	if _, ok := eagerSelect(t.Context(), listQuerier{storage.NoopQuerier(), list()}, false, &storage.SelectHints{Start: 0,
		End: eagerRange.Milliseconds()}, nil, &meter{}).(*eagerSet); !ok {
		t.Error("the longest range is not read at once")
	}
}

type failingIterator struct{ chunkenc.Iterator }

func (failingIterator) Err() error { return errors.New("it is broken") }

// histogramSeries has a float and then a histogram.
func histogramSeries() storage.Series {
	return storage.NewListSeries(labels.FromStrings("__name__", "histogram"), []chunks.Sample{floatSample{point{10, 5}}, histogramSample{floatSample{point{20, 0}}}})
}

type histogramSample struct{ floatSample }

func (histogramSample) H() *histogram.Histogram  { return tsdbutil.GenerateTestHistogram(1) }
func (histogramSample) Type() chunkenc.ValueType { return chunkenc.ValHistogram }

// TestEagerBound holds that a query keeps no more samples than it may, whatever the number of its selections.
func TestEagerBound(t *testing.T) {
	m := &meter{}
	h := &storage.SelectHints{Start: 0, End: 1000}
	for range 2 {
		set := eagerSelect(t.Context(), listQuerier{storage.NoopQuerier(), &listSet{list: []storage.Series{floats("a", 1, 2, 3)}}}, false,
			h, nil, m)
		if set.Next(); set.At().Labels().Get("__name__") != "a" || len(readAll(set.At().Iterator(nil), 0)) != 3 {
			t.Error("samples are missing")
		}
		if _, kept := set.At().(*pointSeries); kept != (m.eager < eagerSamples) {
			t.Errorf("read early: %v, with %d samples", kept, m.eager)
		}
		m.admitSamples(eagerSamples - m.eager)
	}
	if m.held != eagerSamples {
		t.Errorf("%g samples count as held", m.held)
	}
}

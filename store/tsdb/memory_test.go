package tsdb

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"

	"reckon/internal/series"
)

// read gives the samples of a series, from a time on where that is not 0.
func read(it chunkenc.Iterator, seek int64) (text string) {
	next := it.Next
	if seek != 0 {
		next = func() chunkenc.ValueType { next := it.Seek(seek); seek++; return next }
	}
	for vt, last := next(), int64(-1); vt != chunkenc.ValNone; vt = it.Next() {
		if at := it.AtT(); at <= last {
			text += "back to "
		}
		last = it.AtT()
		switch vt {
		case chunkenc.ValFloat:
			t, v := it.At()
			text += fmt.Sprintf("%d %x; ", t, math.Float64bits(v))
		case chunkenc.ValHistogram:
			t, h := it.AtHistogram(nil)
			text += fmt.Sprint(t, " ", h.Count, " ", h.Sum, " ", len(h.PositiveBuckets), "; ")
		default:
			t, h := it.AtFloatHistogram(nil)
			text += fmt.Sprint(t, " ", h.Count, " ", h.Sum, " ", len(h.PositiveBuckets), "; ")
		}
	}
	if it.Err() != nil {
		text += it.Err().Error()
	}
	return text
}

// TestStreamIsSelection holds that a reader that reports when it is done with a series gets what one gets that does not: series of numbers
// and histograms, of several chunks, with marks of their end, with parts deleted, whichever of them the reader keeps.
func TestStreamIsSelection(t *testing.T) {
	now := time.Now().Truncate(time.Minute)
	s := open(t, Options{Clock: func() time.Time { return now }})
	rng := rand.New(rand.NewPCG(1, 2))
	const many, minutes = 30, 300
	begin := now.Add(-minutes * time.Minute).UnixMilli()
	name := func(i int) labels.Labels {
		return labels.FromStrings("__name__", "m", "kind", fmt.Sprint(i%3), "n", fmt.Sprint(i))
	}
	fill := func(from, to int) {
		for m := from; m < to; m++ {
			app := s.AppenderV2(t.Context())
			for i := range many {
				at, ref := begin+int64(m)*time.Minute.Milliseconds(), storage.SeriesRef(0)
				var err error
				switch {
				case rng.IntN(10) == 0 || i%7 == 0 && m > 150: // some series end early
				case i%5 == 1:
					_, err = app.Append(ref, name(i), 0, at, 0, tsdbutil.GenerateTestHistogram(int64(m)), nil, storage.AOptions{})
				case i%5 == 2 && m > 100:
					_, err = app.Append(ref, name(i), 0, at, 0, nil, tsdbutil.GenerateTestFloatHistogram(int64(m)), storage.AOptions{})
				case rng.IntN(20) == 0:
					_, err = app.Append(ref, name(i), 0, at, math.Float64frombits(value.StaleNaN), nil, nil, storage.AOptions{})
				default:
					_, err = app.Append(ref, name(i), 0, at, rng.Float64(), nil, nil, storage.AOptions{})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := app.Commit(); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(0, minutes)
	minute := func(m int) int64 { return begin + int64(m)*time.Minute.Milliseconds() }
	for _, d := range []struct{ n, from, to int }{{3, 0, minutes}, {4, 10, 20}, {4, 30, 200}, {6, 0, 180}, {9, 299, 299}} {
		if err := s.Delete(t.Context(), minute(d.from), minute(d.to), series.Equal("n", fmt.Sprint(d.n))); err != nil {
			t.Fatal(err)
		}
	}
	used := 0
	for round := range 60 {
		a, b := rng.IntN(minutes), rng.IntN(minutes)
		from, to := minute(min(a, b)), minute(max(a, b))
		ms := []*labels.Matcher{series.Equal("__name__", "m")}
		if rng.IntN(2) == 0 {
			ms = append(ms, series.Equal("kind", fmt.Sprint(rng.IntN(3))))
		}
		seek := int64(0)
		if rng.IntN(2) == 0 {
			seek = from
		}
		sorted, keeps := rng.IntN(2) == 0, rng.IntN(3)
		all := func(ctx context.Context, stream *series.Stream) (map[string]string, int) {
			q, err := s.Querier(from, to)
			if err != nil {
				t.Fatal(err)
			}
			defer q.Close()
			set := q.Select(ctx, sorted, &storage.SelectHints{Start: from, End: to, DisableTrimming: true}, ms...)
			got, last := map[string]string{}, labels.EmptyLabels()
			var kept []storage.Series
			var it chunkenc.Iterator
			again := 0
			var before storage.Series
			for set.Next() {
				one := set.At()
				if one == before {
					again++
				}
				before = one
				if sorted && labels.Compare(last, one.Labels()) >= 0 {
					t.Error("out of order")
				}
				last = one.Labels()
				if keeps == 1 && rng.IntN(2) == 0 || keeps == 2 {
					kept = append(kept, one)
					if rng.IntN(2) == 0 {
						continue
					}
				}
				it = one.Iterator(it)
				got[last.String()] = read(it, seek)
				if stream != nil && (len(kept) == 0 || kept[len(kept)-1] != one) {
					stream.Done(last)
				}
			}
			for _, one := range kept {
				it = one.Iterator(it)
				got[one.Labels().String()] = read(it, seek)
			}
			if set.Err() != nil {
				t.Fatal(set.Err())
			}
			return got, again
		}
		want, _ := all(t.Context(), nil)
		got, again := all(series.WithStream(t.Context()))
		if used += again; !maps.Equal(got, want) {
			t.Fatalf("round %d, from %d to %d, sorted %t: a stream gives %d series, a selection %d, and not the same samples", round, from, to, sorted, len(got), len(want))
		}
	}
	if used == 0 {
		t.Error("no memory was used again")
	}
}

// TestStreamBesideAppends: appends do not disturb a reader, and each sample is the one of its series.
func TestStreamBesideAppends(t *testing.T) {
	now := time.Now().Truncate(time.Minute)
	s := open(t, Options{Clock: func() time.Time { return now }})
	begin, many := now.Add(-time.Hour).UnixMilli(), 200
	var names []labels.Labels
	for i := range many {
		names = append(names, labels.FromStrings("__name__", "m", "n", fmt.Sprint(i)))
	}
	var writing sync.WaitGroup
	writing.Go(func() {
		for m := range int64(300) {
			app := s.AppenderV2(t.Context())
			for i, l := range names {
				if _, err := app.Append(0, l, 0, begin+m*1000, float64(i)*1e6+float64(m), nil, nil, storage.AOptions{}); err != nil {
					t.Error(err)
				}
			}
			if err := app.Commit(); err != nil {
				t.Error(err)
			}
		}
	})
	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()
	for last := false; !last; {
		select {
		case <-done:
			last = true
		default:
		}
		samples := map[int64]int{}
		if err := series.EachUnordered(t.Context(), s, time.UnixMilli(begin), now, func(l labels.Labels, it chunkenc.Iterator) error {
			var i, n int64
			if _, err := fmt.Sscan(l.Get("n"), &i); err != nil {
				return err
			}
			for ; it.Next() != chunkenc.ValNone; n++ {
				if at, v := it.At(); at != begin+n*1000 || v != float64(i)*1e6+float64(n) {
					return fmt.Errorf("sample %d of series %d is %v at %d", n, i, v, at-begin)
				}
			}
			samples[n]++
			return nil
		}, series.Equal("__name__", "m")); err != nil {
			t.Fatal(err)
		}
		// A commit is seen in all series or in none.
		if len(samples) > 1 || last && samples[300] != many {
			t.Fatalf("series by their number of samples: %v", samples)
		}
	}
}

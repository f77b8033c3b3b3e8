package query_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"reckon/query"
)

// manySeries answers each selection with n series without samples.
func manySeries(n int) storage.Queryable {
	return storage.QueryableFunc(func(int64, int64) (storage.Querier, error) {
		return &storage.MockQuerier{SelectMockFunction: func(bool, *storage.SelectHints, ...*labels.Matcher) storage.SeriesSet {
			return &countedSet{left: n}
		}}, nil
	})
}

type countedSet struct{ left int }

func (s *countedSet) Next() bool { s.left--; return s.left >= 0 }
func (s *countedSet) At() storage.Series {
	return storage.NewListSeries(labels.FromStrings("__name__", "x", "i", fmt.Sprint(s.left)), nil)
}
func (s *countedSet) Err() error                        { return nil }
func (s *countedSet) Warnings() annotations.Annotations { return nil }

// TestLargeQueriesTakeTurns: a large query waits for another one and releases its budget when it is closed; small ones do not wait.
func TestLargeQueriesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := query.NewEngine(query.EngineOptions{MaxSamples: 3_000_000, Timeout: time.Minute})
		end := time.Unix(1_700_000_000, 0)
		run := func(e *query.Engine, text string, series int) (promql.Query, error) {
			q, err := e.NewRangeQuery(t.Context(), manySeries(series), nil, text, end.Add(-999*time.Second), end, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			return q, q.Exec(t.Context()).Err
		}
		// With 1,000 steps, 1,000 series are a million samples, and one more makes a query large; the 2,000 steps of a
		// subquery count twentyfold.
		for text, large := range map[string]int{"x": 1000, "sum(x)": 1000, "max_over_time(x[1000s:1s])": 30} {
			first, err := run(e, text, large+1)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			second, err := run(e.Within(2_000_000, 10*time.Second), text, large+1)
			if !errors.Is(err, query.ErrBusy) && !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 10*time.Second {
				t.Errorf("%s: the second large query: %v after %s", text, err, time.Since(began))
			}
			second.Close()
			small, err := run(e, text, large/2)
			if err != nil {
				t.Errorf("%s: a small query: %v", text, err)
			}
			small.Close()
			time.AfterFunc(time.Second, first.Close)
			began = time.Now()
			third, err := run(e, text, large+1)
			if err != nil || time.Since(began) != time.Second {
				t.Errorf("%s: after the first was closed: %v, it waited for %s", text, err, time.Since(began))
			}
			third.Close()
		}
	})
}

// TestLargeAsItGrows: a query that is small beside the heap is looked at again when it has doubled, and ends once.
func TestLargeAsItGrows(t *testing.T) {
	var told []int64
	over := 0
	e := query.NewEngine(query.EngineOptions{Large: func(bytes int64) func() {
		if told = append(told, bytes); bytes < 60_000_000 {
			return nil
		}
		return func() { over++ }
	}})
	end := time.Unix(1_700_000_000, 0)
	q, err := e.NewRangeQuery(t.Context(), manySeries(9000), nil, "sum(x)", end.Add(-999*time.Second), end, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Exec(t.Context()).Err; err != nil {
		t.Fatal(err)
	}
	if q.Close(); len(told) != 3 || told[0] < 16_000_000 || told[2] != 4*told[0] || over != 1 {
		t.Errorf("told of %d bytes, ended %d times", told, over)
	}
}

// TestLabelsOfManySeries: labels that a query creates count for each series that it selects; the bound is tested on both sides.
func TestLabelsOfManySeries(t *testing.T) {
	e := query.NewEngine(query.EngineOptions{MaxSamples: 20_000}) // 320,000 bytes; the answer takes the labels of one series
	text := `label_replace(x, "a", "` + strings.Repeat("x", 40_000) + `", "", "")`
	for series, refused := range map[int]bool{7: false, 8: true} {
		q, err := e.NewInstantQuery(t.Context(), manySeries(series), nil, text, time.Unix(1_700_000_000, 0))
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Exec(t.Context()).Err; (err != nil) != refused {
			t.Errorf("%d series: %v, want refused %t", series, err, refused)
		}
		q.Close()
	}
}

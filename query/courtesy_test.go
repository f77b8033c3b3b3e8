package query_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/internal/series"
	"reckon/internal/series/courtesy"
	"reckon/query"
)

// slow has 512 series; each takes a millisecond to find.
type slow struct{}

func (slow) Querier(_, _ int64) (storage.Querier, error) {
	return slowQuerier{storage.NoopQuerier()}, nil
}

type slowQuerier struct{ storage.Querier }

func (slowQuerier) Select(context.Context, bool, *storage.SelectHints, ...*labels.Matcher) storage.SeriesSet {
	return &slowSet{storage.EmptySeriesSet(), 512}
}

type slowSet struct {
	storage.SeriesSet
	left int
}

func (s *slowSet) Next() bool {
	<-time.After(time.Millisecond)
	s.left--
	return s.left >= 0
}

func (s *slowSet) At() storage.Series {
	return storage.NewListSeries(labels.FromStrings("__name__", "up", "node", strconv.Itoa(s.left)), nil)
}

func TestBackgroundReadingGivesWay(t *testing.T) {
	read := map[string]func(ctx context.Context){
		"query": func(ctx context.Context) {
			q, err := query.NewEngine(query.EngineOptions{}).NewInstantQuery(ctx, slow{}, nil, "sum(up)", time.Now())
			if err != nil {
				t.Error(err)
				return
			}
			defer q.Close()
			if r := q.Exec(ctx); r.Err != nil {
				t.Error(r.Err)
			}
		},
		"series": func(ctx context.Context) {
			err := series.EachUnordered(ctx, slow{}, time.Now(), time.Now(), func(labels.Labels, chunkenc.Iterator) error { return nil })
			if err != nil {
				t.Error(err)
			}
		},
	}
	for name, f := range read {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var g courtesy.Gate
				took := func(ctx context.Context) time.Duration {
					began := time.Now()
					f(ctx)
					return time.Since(began)
				}
				alone := took(g.Background(t.Context()))
				if asked := took(g.Question(t.Context())); asked != alone {
					t.Errorf("a question took %v, background work alone %v", asked, alone)
				}
				turn := courtesy.Enter(g.Question(t.Context()))
				beside := took(g.Background(t.Context()))
				turn.Leave()
				if rested := beside - alone; rested != 200*time.Millisecond {
					t.Errorf("background work rested for %v beside a question, want twice the longest rest", rested)
				}
				if again := took(g.Background(t.Context())); again != alone {
					t.Errorf("background work took %v after all questions, %v before", again, alone)
				}
			})
		})
	}
}

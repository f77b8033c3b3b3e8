package query_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"

	"reckon/query"
)

// endless is a store with a selection that does not end before it is let go, as a loop in the arithmetic of the library.
type endless struct {
	storage.Querier
	entered chan struct{}
	letGo   chan struct{}
}

func (e endless) Select(context.Context, bool, *storage.SelectHints, ...*labels.Matcher) storage.SeriesSet {
	e.entered <- struct{}{}
	<-e.letGo
	return storage.EmptySeriesSet()
}

// A query that notices neither its end nor that its client left is abandoned and counted; with two of them others are refused,
// and when they end everything goes on.
func TestQueryThatDoesNotEndIsAbandoned(t *testing.T) {
	e := query.NewEngine(query.EngineOptions{Timeout: 50 * time.Millisecond, Patience: 50 * time.Millisecond})
	loop := endless{storage.NoopQuerier(), make(chan struct{}, 10), make(chan struct{})}
	store := storage.QueryableFunc(func(int64, int64) (storage.Querier, error) { return loop, nil })
	ask := func(ctx context.Context) error {
		q, err := e.NewInstantQuery(t.Context(), store, nil, "up", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		return q.Exec(ctx).Err
	}
	if _, err := e.NewInstantQuery(t.Context(), store, nil, "1", time.Now()); err != nil { // makes the engine
		t.Fatal(err)
	}
	left, leave := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer leave()
	for i, ctx := range []context.Context{left, t.Context()} {
		if err := ask(ctx); !errors.Is(err, query.ErrAbandoned) || e.Abandoned() != i+1 {
			t.Fatalf("query %d: %v, %d abandoned", i, err, e.Abandoned())
		}
	}
	err := ask(t.Context())
	var busy promql.ErrQueryTimeout // what the API answers with 503
	if !errors.Is(err, query.ErrAbandoned) || !errors.As(err, &busy) || e.Within(100, time.Second).Abandoned() != 2 {
		t.Errorf("a third: %v, %d abandoned", err, e.Abandoned())
	}
	if len(loop.entered) != 2 {
		t.Errorf("%d queries ran", len(loop.entered))
	}
	close(loop.letGo)
	for i := 0; e.Abandoned() > 0; i++ {
		if i > 1000 {
			t.Fatal("they ended and still count")
		}
		<-time.After(10 * time.Millisecond)
	}
	if err := ask(t.Context()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

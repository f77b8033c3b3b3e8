package query

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/annotations"

	"reckon/internal/series"
)

// ErrAbandoned is wrapped by the error of a query that did not stop after it was cancelled. Further queries fail with
// it while [maxAbandoned] such queries still run.
var ErrAbandoned = errors.New("a query does not end")

const (
	// patience is the time within which a query has to stop after its cancellation or timeout. The engine checks for
	// both only between steps and series.
	patience = 5 * time.Second
	// maxAbandoned is the number of abandoned queries, using a core each, at which further queries are refused.
	maxAbandoned = 2
)

// abandoned counts the queries that still run although their callers have left. Go cannot stop a goroutine from
// outside. The files that the query has mapped must stay mapped until it ends.
type abandoned struct{ running atomic.Int64 }

// Abandoned returns the number of queries that did not end when they were cancelled and still run.
func (e *Engine) Abandoned() int { return int(e.abandoned.running.Load()) }

// runBounded runs a query and waits for its result until the timeout plus patience has passed. After that, the query is
// abandoned, and its goroutine closes it when it ends.
func (q *meteredQuery) runBounded(ctx context.Context) *promql.Result {
	e := q.meter.engine
	if e.Abandoned() >= maxAbandoned {
		return &promql.Result{Err: fmt.Errorf("%w, and another one neither: restart the server; its log names both: %w", ErrAbandoned,
			promql.ErrQueryTimeout("the wait for others"))}
	}
	ctx, unsound := series.CountUnsound(ctx)
	done := make(chan *promql.Result, 1)
	go func() {
		r := &promql.Result{}
		defer func() {
			if p := recover(); p != nil {
				r = &promql.Result{Err: fmt.Errorf("the query failed: %v", p)}
			}
			done <- r
			if !q.state.CompareAndSwap(queryRuns, queryEnded) { // it was abandoned
				e.abandoned.running.Add(-1)
				q.closeAndRelease()
			}
		}()
		r = q.Query.Exec(ctx)
	}()
	limit := time.NewTimer(e.options.Timeout + e.options.Patience)
	defer limit.Stop()
	select {
	case r := <-done:
		return q.finishResult(r, unsound)
	case <-ctx.Done():
		last := time.NewTimer(e.options.Patience)
		defer last.Stop()
		select {
		case r := <-done:
			return q.finishResult(r, unsound)
		case <-last.C:
		}
	case <-limit.C:
	}
	e.abandoned.running.Add(1)
	if !q.state.CompareAndSwap(queryRuns, queryAbandoned) {
		e.abandoned.running.Add(-1)
		return q.finishResult(<-done, unsound)
	}
	if e.options.Logger != nil {
		e.options.Logger.Error("a query does not end and is abandoned; until the server is restarted it takes a core, and no old samples "+
			"leave memory or the disk", "query", q.Query.String(), "patience", e.options.Patience)
	}
	return &promql.Result{Err: fmt.Errorf("%w: %w", ErrAbandoned, promql.ErrQueryTimeout("its evaluation, and did not notice it"))}
}

// States of a query.
const (
	queryRuns int32 = iota
	queryEnded
	queryAbandoned
)

func (q *meteredQuery) finishResult(r *promql.Result, unsound *atomic.Uint64) *promql.Result {
	if n := unsound.Load(); n > 0 {
		r.Warnings.Add(fmt.Errorf("%w: %d native histograms that cannot be computed with are left out", annotations.PromQLWarning, n))
	}
	return r
}

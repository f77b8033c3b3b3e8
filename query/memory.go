package query

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"golang.org/x/sync/semaphore"

	"reckon/internal/series/courtesy"
)

const (
	// sampleBytes is the engine's memory per sample.
	sampleBytes = 16
	// smallQuery is the number of samples up to which a query need not wait for large ones.
	smallQuery = 1_000_000
	// leastScrape is the assumed minimum interval between samples of a raw range selection.
	leastScrape = 5 * time.Second
)

// budget is the number of samples that large queries may hold together.
type budget struct {
	samples int64
	*semaphore.Weighted
}

func newBudget(bytes int64, least int) budget {
	n := max(bytes/sampleBytes, int64(least))
	return budget{n, semaphore.NewWeighted(n)}
}

// meteredQuery is a query that reserves memory for its maximum number of samples once it turns out to be large. The
// reservation lasts until the query is closed. Other large queries wait for it, and small queries do not.
type meteredQuery struct {
	promql.Query
	meter *meter
	state atomic.Int32
}

// Exec implements promql.Query.
func (q *meteredQuery) Exec(ctx context.Context) *promql.Result {
	if err := q.meter.countSeries(ctx, 1); err != nil {
		return &promql.Result{Err: err}
	}
	return q.runBounded(ctx)
}

// Close implements promql.Query. A query that was abandoned is closed when it ends.
func (q *meteredQuery) Close() {
	if q.state.Load() != queryAbandoned {
		q.closeAndRelease()
	}
}

func (q *meteredQuery) closeAndRelease() {
	q.Query.Close()
	q.meter.release()
}

// meter counts the samples of a query, series by series, before they are read.
type meter struct {
	engine *Engine
	steps  float64 // samples per series
	labels float64 // bytes of labels created per series

	mu     sync.Mutex
	series int
	held   float64
	next   float64 // samples from which on the engine is told again that the query is large
	eager  int     // samples that were read before the engine asked for them
	taken  int64   // samples reserved from the budget
	done   func()
	turn   *courtesy.Turn // from its first selection on
}

// countSeries counts further series.
func (m *meter) countSeries(ctx context.Context, series int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.series += series
	if bytes := float64(m.series) * m.labels; bytes > sampleBytes*float64(m.engine.options.MaxSamples) {
		return fmt.Errorf("%w: the labels that it makes for %d series take more than %.3g bytes", ErrTooLarge, m.series,
			sampleBytes*float64(m.engine.options.MaxSamples))
	}
	if m.held += float64(series) * (m.steps + m.labels/sampleBytes); m.held <= smallQuery {
		return nil
	}
	if m.taken == 0 {
		if err := m.reserve(ctx); err != nil {
			return err
		}
	}
	if large := m.engine.options.Large; large != nil && m.done == nil && m.held >= m.next {
		m.done, m.next = large(int64(m.held*sampleBytes)), 2*m.held
	}
	return nil
}

// reserve waits for a part of the budget.
func (m *meter) reserve(ctx context.Context) error {
	b := m.engine.budget
	n := min(int64(m.engine.options.MaxSamples), b.samples)
	ctx, cancel := context.WithTimeout(ctx, m.engine.options.Timeout)
	defer cancel()
	if err := b.Acquire(ctx, n); err != nil {
		return fmt.Errorf("%w: large ones run already; ask for fewer series, a shorter range or a longer step: %w", ErrBusy, err)
	}
	m.taken = n
	return nil
}

// admitSamples counts samples that are read early, and reports whether more may be.
func (m *meter) admitSamples(samples int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.eager += samples
	m.held += float64(samples)
	return m.eager < eagerSamples
}

// waitTurn waits for the turn of the query, which ends with [meter.release].
func (m *meter) waitTurn(ctx context.Context) *courtesy.Turn {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.turn == nil {
		m.turn = courtesy.Enter(ctx)
	}
	return m.turn
}

func (m *meter) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn.Leave()
	if m.taken == 0 {
		return
	}
	if m.done != nil {
		m.done()
		m.done = nil
	}
	m.engine.budget.Release(m.taken)
	m.taken = 0
}

// resultSteps returns the number of samples of each series in the result of a query. For a raw range selection it is an
// upper bound.
func resultSteps(expr parser.Expr, span, step time.Duration) float64 {
	if raw, ok := expr.(*parser.MatrixSelector); ok {
		return float64(raw.Range) / float64(leastScrape)
	}
	if step <= 0 {
		return 1
	}
	return float64(span)/float64(step) + 1
}

// meteredStore counts the series that a query selects.
type meteredStore struct {
	storage.Queryable
	meter *meter
}

func (s meteredStore) Querier(mint, maxt int64) (storage.Querier, error) {
	q, err := s.Queryable.Querier(mint, maxt)
	return meteredQuerier{q, s.meter}, err
}

type meteredQuerier struct {
	storage.Querier
	meter *meter
}

// Select implements storage.Querier. The result may contain samples outside the selected time, because PromQL checks
// the time of each sample itself.
func (q meteredQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints,
	matchers ...*labels.Matcher) storage.SeriesSet {
	if hints != nil {
		uncut := *hints
		uncut.DisableTrimming = true
		hints = &uncut
	}
	turn := q.meter.waitTurn(ctx)
	return &meteredSet{SeriesSet: eagerSelect(ctx, q.Querier, sorted, hints, matchers, q.meter), ctx: ctx, meter: q.meter, turn: turn}
}

type meteredSet struct {
	storage.SeriesSet
	ctx   context.Context //nolint:containedctx // a set belongs to one selection
	meter *meter
	turn  *courtesy.Turn
	err   error
}

func (s *meteredSet) Next() bool {
	if s.err != nil || !s.SeriesSet.Next() {
		return false
	}
	s.turn.Step()
	s.err = s.meter.countSeries(s.ctx, 1)
	return s.err == nil
}

func (s *meteredSet) Err() error {
	if s.err != nil {
		return s.err
	}
	return s.SeriesSet.Err()
}

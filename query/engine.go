package query

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// ErrBusy is wrapped by the error of a query that timed out while it waited for its turn.
var ErrBusy = errors.New("too many queries at once")

// EngineOptions limits the resources of each query and of all queries together.
type EngineOptions struct {
	// Concurrent is the number of queries that run at once while others wait; 0 is 8.
	Concurrent int
	// Timeout limits a query, waiting included; 0 is 2 min.
	Timeout time.Duration
	// MaxSamples is the number of samples that one query may hold in memory; 0 means 20 million, about 320 MB.
	MaxSamples int
	// Memory limits the bytes of samples that large queries hold together, but allows at least one
	// query. 0 means one at a time.
	Memory int64
	// Large is called with the bytes of a query that turns out to be large, again when they have doubled as long as it
	// returns nil, and its result when that query ends; may be nil.
	Large func(bytes int64) (done func())
	// Patience is the time that a query may take to notice that its time is over before it is abandoned; 0 is 5 s.
	Patience time.Duration
	// Lookback is the maximum age of the last sample of a series; 0 is 5 min.
	Lookback time.Duration
	Logger   *slog.Logger
	Registry prometheus.Registerer
}

// Engine is the PromQL engine of this process. The HTTP API and the views share it, so that the limit on concurrent
// queries covers both.
type Engine struct {
	engine  func() *promql.Engine // made for the first query: its own summaries take a quarter of a MB
	parser  parser.Parser
	options EngineOptions
	turns   querySlots
	budget  budget

	abandoned *abandoned
}

var _ promql.QueryEngine = (*Engine)(nil)

// NewEngine returns an engine with the given options.
func NewEngine(o EngineOptions) *Engine {
	if o.Concurrent <= 0 {
		o.Concurrent = 8
	}
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Minute
	}
	if o.Patience <= 0 {
		o.Patience = patience
	}
	if o.MaxSamples <= 0 {
		o.MaxSamples = 20_000_000
	}
	return newEngine(o, boundedParser{parser.NewParser(parserOptions)}, querySlots{make(chan struct{}, o.Concurrent)},
		newBudget(o.Memory, o.MaxSamples), &abandoned{})
}

// parserOptions enables the modifier anchored, as in increase(x[10m] anchored). That increase is the difference of the
// counter at both ends of the range, each from the last sample before it. The increases of all workloads then sum to
// the machine's. Plain increase() extrapolates, so its sums do not match.
var parserOptions = parser.Options{EnableExtendedRangeSelectors: true}

// Within returns the same engine with other limits per query. Queries of both share one queue.
func (e *Engine) Within(samples int, timeout time.Duration) *Engine {
	o := e.options
	o.MaxSamples, o.Timeout, o.Registry = samples, timeout, nil
	return newEngine(o, e.parser, e.turns, e.budget, e.abandoned)
}

func newEngine(options EngineOptions, p parser.Parser, slots querySlots, memory budget, left *abandoned) *Engine {
	return &Engine{parser: p, options: options, turns: slots, budget: memory, abandoned: left,
		engine: sync.OnceValue(func() *promql.Engine {
			return promql.NewEngine(promql.EngineOpts{
				Logger: options.Logger, Reg: options.Registry, MaxSamples: options.MaxSamples, Timeout: options.Timeout,
				ActiveQueryTracker: slots, LookbackDelta: options.Lookback,
				NoStepSubqueryIntervalFn: func(int64) int64 { return defaultSubqueryStep.Milliseconds() },
				EnableAtModifier:         true, EnableNegativeOffset: true, Parser: p,
			})
		})}
}

// Parser returns the parser of the engine, for the HTTP API.
func (e *Engine) Parser() parser.Parser { return e.parser }

// querySlots limits the number of concurrent queries.
type querySlots struct{ slots chan struct{} }

func (t querySlots) GetMaxConcurrent() int { return cap(t.slots) }
func (t querySlots) Delete(int)            { <-t.slots }
func (t querySlots) Close() error          { return nil }
func (t querySlots) Insert(ctx context.Context, _ string) (int, error) {
	select {
	case t.slots <- struct{}{}:
		return 0, nil
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %d run already; ask for less or later: %w", ErrBusy, cap(t.slots), ctx.Err())
	}
}

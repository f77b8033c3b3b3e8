package server

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"

	"reckon/internal/limits"
	"reckon/query"
	"reckon/web/access"
)

func readLimits(file string) (limits.Config, error) {
	if file == "" {
		return limits.Config{}, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return limits.Config{}, fmt.Errorf("--limits: %w", err)
	}
	defer f.Close()
	c, err := limits.Read(f)
	if err != nil {
		return c, fmt.Errorf("--limits %s: %w", file, err)
	}
	return c, nil
}

// begin counts a request of samples against what its sender may send.
func (s *Server) begin(ctx context.Context) (*limits.Request, error) {
	v := access.From(ctx)
	return s.limits.Begin(v.Name, v.Bound)
}

// atOnce is how many queries of one viewer are answered at a time.
func (s *Server) atOnce(v access.Viewer) int { return s.limits.Of(v.Role.String()).AtOnce }

// bounded makes an engine for each role that has bounds.
func (s *Server) bounded() map[access.Role]*query.Engine {
	out := map[access.Role]*query.Engine{}
	for _, role := range []access.Role{access.Public, access.User, access.Support, access.Admin} {
		q := s.limits.Of(role.String())
		out[role] = s.engine.Within(q.Samples, q.Time)
	}
	return out
}

// engines gives each query the engine of the viewer's role.
type engines struct {
	inside *query.Engine // for rules and other questions of our own
	roles  map[access.Role]*query.Engine
	// lookback is how far back a query has to look; nil for as usual.
	lookback func(start time.Time, step time.Duration) time.Duration
}

var _ promql.QueryEngine = engines{}

func (e engines) of(ctx context.Context) *query.Engine {
	if own, ok := e.roles[access.From(ctx).Role]; ok {
		return own
	}
	return e.inside
}

// lookback is that of a store with one figure an hour, or nil.
func (s *Server) lookback() func(time.Time, time.Duration) time.Duration {
	if s.hours == nil {
		return nil
	}
	return s.hours.Lookback
}

// options lets a query that reads hours look back for more than one, unless who asks says
// how far.
func (e engines) options(o promql.QueryOpts, start time.Time, step time.Duration) promql.QueryOpts {
	if e.lookback == nil || (o != nil && o.LookbackDelta() > 0) {
		return o
	}
	back := e.lookback(start, step)
	if back == 0 {
		return o
	}
	return promql.NewPrometheusQueryOpts(o != nil && o.EnablePerStepStats(), back)
}

// NewInstantQuery implements promql.QueryEngine.
func (e engines) NewInstantQuery(ctx context.Context, q storage.Queryable, o promql.QueryOpts, text string, at time.Time) (promql.Query, error) {
	return e.of(ctx).NewInstantQuery(ctx, q, e.options(o, at, 0), text, at)
}

// NewRangeQuery implements promql.QueryEngine.
func (e engines) NewRangeQuery(ctx context.Context, q storage.Queryable, o promql.QueryOpts, text string, start, end time.Time, step time.Duration) (promql.Query, error) {
	return e.of(ctx).NewRangeQuery(ctx, q, e.options(o, start, step), text, start, end, step)
}

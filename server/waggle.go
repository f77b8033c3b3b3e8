package server

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"

	"reckon/interop/waggle"
	"reckon/query"
)

// runWaggle publishes figures to the message queue of a Waggle node until ctx ends.
func (s *Server) runWaggle(ctx context.Context) error {
	f := waggle.Feed{Publisher: s.config.Waggle, Ask: s.askNow, Every: waggle.Every, Log: s.log}
	f.Run(ctx)
	return nil
}

// askNow answers an instant query for a vector.
func (s *Server) askNow(ctx context.Context, text string, at time.Time) (promql.Vector, error) {
	return vectorOf(ctx, s.engine, s.series, text, at)
}

// vectorOf answers an instant query for a vector.
func vectorOf(ctx context.Context, engine *query.Engine, series storage.Queryable, text string, at time.Time) (promql.Vector, error) {
	q, err := engine.NewInstantQuery(ctx, series, nil, text, at)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	v, err := q.Exec(ctx).Vector()
	if err != nil {
		return nil, err
	}
	out := make(promql.Vector, len(v)) // copy, because the query reuses its memory once it is closed
	copy(out, v)
	return out, nil
}

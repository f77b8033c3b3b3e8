package server

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/promql"

	"reckon/interop/waggle"
)

// runWaggle publishes figures to the message queue of a Waggle node until ctx ends.
func (s *Server) runWaggle(ctx context.Context) error {
	f := waggle.Feed{Publisher: s.config.Waggle, Ask: s.askNow, Every: waggle.Every, Log: s.log}
	f.Run(ctx)
	return nil
}

// askNow answers an instant query for a vector.
func (s *Server) askNow(ctx context.Context, text string, at time.Time) (promql.Vector, error) {
	q, err := s.engine.NewInstantQuery(ctx, s.series, nil, text, at)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	v, err := q.Exec(ctx).Vector()
	if err != nil {
		return nil, err
	}
	out := make(promql.Vector, len(v)) // what the query holds is used again once it is closed
	copy(out, v)
	return out, nil
}

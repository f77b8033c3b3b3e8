package server

import (
	"context"
	"time"

	"reckon/store"
)

// settleSince is the time that a run with agent-measured pods is examined.
const settleSince = 48 * time.Hour

// settleRuns stores the agents' measurements of pods with their MetricSet runs until ctx ends.
func (s *Server) settleRuns(ctx context.Context) error {
	return store.Repeat(ctx, time.Minute, time.Minute, 0, func(ctx context.Context) error {
		_, err := s.metricRuns.Settle(ctx, time.Now().Add(-settleSince))
		return err
	}, func(err error) { s.log.Error("samples of agents could not be kept with their runs", "err", err) })
}

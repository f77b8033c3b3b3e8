package server

import (
	"context"
	"time"

	"reckon/store"
)

// settleSince is for how long a run with pods that agents measure is looked at.
const settleSince = 48 * time.Hour

// settleRuns keeps what agents measured of pods with the runs of MetricSets that these belong to, until ctx ends.
func (s *Server) settleRuns(ctx context.Context) error {
	return store.Repeat(ctx, time.Minute, time.Minute, 0, func(ctx context.Context) error {
		_, err := s.metricRuns.Settle(ctx, time.Now().Add(-settleSince))
		return err
	}, func(err error) { s.log.Error("samples of agents could not be kept with their runs", "err", err) })
}

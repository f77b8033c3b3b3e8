package server

import (
	"context"
	"time"
)

// settleSince is for how long a run with pods that agents measure is looked at.
const settleSince = 48 * time.Hour

// settleRuns keeps what agents measured of pods with the runs of MetricSets that these belong to, until ctx ends.
func (s *Server) settleRuns(ctx context.Context) error {
	minutes := time.NewTicker(time.Minute)
	defer minutes.Stop()
	var behind behind
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-minutes.C:
		}
		_, err := s.metricRuns.Settle(ctx, time.Now().Add(-settleSince))
		if ctx.Err() == nil && behind.note(err, time.Now()) {
			s.log.Error("samples of agents could not be kept with their runs", "err", err)
		}
	}
}

package server

import (
	"context"
	"fmt"
	"path/filepath"

	"reckon/metric"
	"reckon/store/tsdb"
)

// Play simulates a site instead of measuring this machine. It calls put for each export until ctx ends, concurrently
// for different nodes. node is empty for data that belongs to no node.
type Play func(ctx context.Context, put func(ctx context.Context, node string, b *metric.Batch) error) error

// runSimulation lets the simulated site write to the store.
func (s *Server) runSimulation(ctx context.Context) error {
	err := s.config.Play(ctx, func(ctx context.Context, node string, b *metric.Batch) error {
		external := map[string]string{}
		if s.config.Site != "" {
			external["site"] = s.config.Site
		}
		if node != "" {
			external["node"] = node
		}
		err := s.series.Append(ctx, external, b)
		s.notifyStored()
		return err
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("the made-up site: %w", err)
	}
	<-ctx.Done() // when it has played to its end its past can still be asked for
	return nil
}

// Unused returns an error when a server has a data directory open.
func Unused(data string) error { return tsdb.CheckUnused(filepath.Join(data, seriesDir)) }

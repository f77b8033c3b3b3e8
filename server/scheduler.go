package server

import (
	"context"
	"path/filepath"

	"reckon/interop/scheduler"
	"reckon/interop/scheduler/all"
	"reckon/metric"
)

// Scheduler is the batch system of a cluster. One server of a site queries its controller.
type Scheduler struct {
	System string // one of package interop/scheduler/all
	scheduler.Access
}

// openScheduler prepares the queries to the controller, which need not be reachable yet.
func (s *Server) openScheduler() error {
	c := s.config.Scheduler
	if c == nil {
		return nil
	}
	source, err := all.Open(c.System, c.Access)
	if err != nil {
		return err
	}
	s.scheduler = scheduler.NewPoller(source, scheduler.Options{
		State: filepath.Join(s.config.Data, c.System+".json"), Write: s.storeScheduler, Logger: s.log,
	})
	return nil
}

// storeScheduler stores samples of the controller. They belong to the site and to no node.
func (s *Server) storeScheduler(ctx context.Context, b *metric.Batch) error {
	external := map[string]string{}
	if s.config.Site != "" {
		external["site"] = s.config.Site
	}
	err := s.storeAsLeader(ctx, external, b)
	s.notifyStored()
	return err
}

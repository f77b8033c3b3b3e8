package server

import (
	"context"
	"path/filepath"

	"reckon/interop/slurmctl"
	"reckon/metric"
)

// Slurm says how the controller of the cluster is asked. One server of a site does.
type Slurm struct {
	URL   string // of slurmrestd; empty asks by the commands of Slurm
	Token string // file of the token for slurmrestd, or empty
	Text  bool   // take text from the commands also where they write JSON
}

// openSlurm makes ready to ask Slurm. That the controller answers is not needed yet.
func (s *Server) openSlurm() error {
	c := s.config.Slurm
	if c == nil {
		return nil
	}
	var source slurmctl.Source
	if c.URL != "" {
		rest, err := slurmctl.NewRest(c.URL, c.Token)
		if err != nil {
			return err
		}
		source = rest
	} else {
		commands := &slurmctl.Commands{Text: c.Text}
		if err := commands.Check(); err != nil {
			return err
		}
		source = commands
	}
	s.slurm = slurmctl.NewPoller(source, slurmctl.Options{
		State: filepath.Join(s.config.Data, "slurm.json"), Write: s.storeSlurm, Logger: s.log,
	})
	return nil
}

// storeSlurm is the sink of what Slurm says: of the site, and of no node.
func (s *Server) storeSlurm(ctx context.Context, b *metric.Batch) error {
	external := map[string]string{}
	if s.config.Site != "" {
		external["site"] = s.config.Site
	}
	err := s.storeOwn(ctx, external, b)
	s.changed()
	return err
}

package main

import (
	"errors"

	"reckon/cmd/settings"
	"reckon/server"
)

// slurmFlags define whether and how the controller of a Slurm cluster is polled.
type slurmFlags struct {
	on         bool
	url, token string
}

func (o *slurmFlags) register(s *settings.Set) {
	s.Flags.BoolVar(&o.on, "slurm", false, "ask Slurm for jobs, accounting and nodes, by squeue, sacct and sinfo; at one place of a cluster")
	s.Keys.StringVar(&o.url, "slurm-url", "", "ask slurmrestd instead: http://HOST:6820 or unix:///PATH")
	s.Keys.StringVar(&o.token, "slurm-token-file", "", "file with a token for slurmrestd, as scontrol token prints it; it may be renewed while reckon runs")
}

// open returns nil if Slurm is not polled.
func (o *slurmFlags) open() (*server.Slurm, error) {
	if o.token != "" && o.url == "" {
		return nil, errors.New("slurm-token-file is for slurmrestd: give its address with slurm-url")
	}
	if !o.on && o.url == "" {
		return nil, nil
	}
	return &server.Slurm{URL: o.url, Token: o.token}, nil
}

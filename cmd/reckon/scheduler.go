package main

import (
	"errors"
	"strings"

	"reckon/cmd/settings"
	"reckon/interop/scheduler"
	"reckon/interop/scheduler/all"
	"reckon/server"
)

// schedulerFlags define which batch system's controller is asked, and how.
type schedulerFlags struct {
	slurm  bool
	system string
	access scheduler.Access
}

func (o *schedulerFlags) register(s *settings.Set) {
	s.Flags.BoolVar(&o.slurm, "slurm", false,
		"ask Slurm for jobs, accounting and nodes, by squeue, sacct and sinfo; at one place of a cluster")
	s.Keys.StringVar(&o.system, "scheduler", "",
		"ask this batch system for jobs and nodes, at one place of a cluster: "+strings.Join(all.Names(), ", "))
	s.Keys.StringVar(&o.access.URL, "slurm-url", "", "ask slurmrestd instead: http://HOST:6820 or unix:///PATH")
	s.Keys.StringVar(&o.access.Token, "slurm-token-file", "",
		"file with a token for slurmrestd, as scontrol token prints it; it may be renewed while reckon runs")
}

// open returns the batch system's reader, or nil if none is configured.
func (o *schedulerFlags) open() (*server.Scheduler, error) {
	if o.access.Token != "" && o.access.URL == "" {
		return nil, errors.New("slurm-token-file is for slurmrestd: give its address with slurm-url")
	}
	first := all.Names()[0]
	switch asksSlurm := o.slurm || o.access.URL != ""; {
	case asksSlurm && o.system != "" && o.system != first:
		return nil, errors.New("--slurm and scheduler=" + o.system + ": one server asks one batch system; start another for the other one")
	case asksSlurm:
		o.system = first
	case o.system == "":
		return nil, nil
	}
	return &server.Scheduler{System: o.system, Access: o.access}, nil
}

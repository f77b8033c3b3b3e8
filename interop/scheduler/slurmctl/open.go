package slurmctl

import (
	"reckon/interop/scheduler"
	"reckon/workload"
)

var (
	_ scheduler.Source = (*Commands)(nil)
	_ scheduler.Source = (*Rest)(nil)
)

// Kind implements [scheduler.Source].
func (*Commands) Kind() workload.Kind { return workload.Slurm }

// Kind implements [scheduler.Source].
func (*Rest) Kind() workload.Kind { return workload.Slurm }

// Open returns the source for an address, or for the commands on this machine. That the controller answers is not needed yet.
func Open(a scheduler.Access) (scheduler.Source, error) {
	if a.URL != "" {
		return NewRest(a.URL, a.Token)
	}
	commands := &Commands{Text: a.Text}
	return commands, commands.Check()
}

// The final states, and the state of the part of a run before a change of its allocation, as named by sacct(1) and the REST service.
const (
	finalStatesShort = "BF,CA,CD,DL,F,NF,OOM,PR,RQ,RS,TO"
	finalStatesLong  = "BOOT_FAIL,CANCELLED,COMPLETED,DEADLINE,FAILED,NODE_FAIL,OUT_OF_MEMORY,PREEMPTED,REQUEUED,RESIZING,TIMEOUT"
)

package slurmctl

import (
	"context"
	"time"
)

// Source is a source of polling: the [Commands] of Slurm or its REST service. Data read before
// an error is returned with it.
type Source interface {
	// Jobs returns the jobs of the controller, including some that have ended.
	Jobs(ctx context.Context) ([]Job, Read, error)
	// Ended returns the jobs that ended in a time range, with their steps.
	Ended(ctx context.Context, since, until time.Time) ([]Job, Read, error)
	// ByNumber returns all runs of the jobs with the given numbers that were submitted since.
	ByNumber(ctx context.Context, raw []uint32, since time.Time) ([]Job, Read, error)
	// Nodes returns the nodes and partitions.
	Nodes(ctx context.Context) ([]Node, []Partition, Read, error)
	// Name describes the source for people.
	Name() string
}

var (
	_ Source = (*Commands)(nil)
	_ Source = (*Rest)(nil)
)

// The final states, and the state of the part of a run before a change of its allocation, as named by sacct(1)
// and the REST service.
const (
	finalStatesShort = "BF,CA,CD,DL,F,NF,OOM,PR,RQ,RS,TO"
	finalStatesLong  = "BOOT_FAIL,CANCELLED,COMPLETED,DEADLINE,FAILED,NODE_FAIL,OUT_OF_MEMORY,PREEMPTED,REQUEUED,RESIZING,TIMEOUT"
)

package slurmctl

import (
	"context"
	"time"
)

// Source is what is polled: the [Commands] of Slurm or its REST service. What was read before
// an error is returned with it.
type Source interface {
	// Jobs are those that the controller has, also some that ended.
	Jobs(ctx context.Context) ([]Job, Read, error)
	// Ended are those that ended in a stretch of time, with their steps.
	Ended(ctx context.Context, since, until time.Time) ([]Job, Read, error)
	// ByNumber are all lives of the jobs of the given numbers that were handed in since.
	ByNumber(ctx context.Context, raw []uint32, since time.Time) ([]Job, Read, error)
	// Nodes are the nodes and partitions.
	Nodes(ctx context.Context) ([]Node, []Partition, Read, error)
	// Name says where that is, for people.
	Name() string
}

var (
	_ Source = (*Commands)(nil)
	_ Source = (*Rest)(nil)
)

// The final states, and that of the part of a run before its allocation was changed, as sacct(1)
// and the REST service name them.
const (
	finalStatesShort = "BF,CA,CD,DL,F,NF,OOM,PR,RQ,RS,TO"
	finalStatesLong  = "BOOT_FAIL,CANCELLED,COMPLETED,DEADLINE,FAILED,NODE_FAIL,OUT_OF_MEMORY,PREEMPTED,REQUEUED,RESIZING,TIMEOUT"
)

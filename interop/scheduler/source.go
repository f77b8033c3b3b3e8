package scheduler

import (
	"context"
	"time"

	"reckon/workload"
)

// Source queries the controller of a batch system. It returns the data read before an error along with the
// error. It is not safe for concurrent use. To add a batch system, implement it in a new folder and list it in
// package all.
type Source interface {
	// Jobs returns the jobs of the controller, including some that have ended.
	Jobs(ctx context.Context) ([]Job, Read, error)
	// Ended returns the jobs that ended in a time range, with their steps.
	Ended(ctx context.Context, since, until time.Time) ([]Job, Read, error)
	// ByNumber returns all runs of the jobs with the given numbers that were submitted since.
	ByNumber(ctx context.Context, numbers []uint64, since time.Time) ([]Job, Read, error)
	// Nodes returns the nodes and partitions.
	Nodes(ctx context.Context) ([]Node, []Partition, Read, error)
	// Kind is the kind of its jobs, the first word of their ids.
	Kind() workload.Kind
	// Name describes the source for people by the programs that are run, such as "squeue, sacct and sinfo".
	Name() string
}

// Access is the way to a controller.
type Access struct {
	URL   string // of its service; empty asks by its commands
	Token string // file of the token for the service, or empty
	Text  bool   // read text from the commands even if they write JSON
}

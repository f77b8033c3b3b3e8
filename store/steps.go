package store

import (
	"context"
	"time"
)

// Step is one step of a run, as the batch system accounts for it.
type Step struct {
	ID    string // its name in the run, which is the part of its series: 0, batch, extern
	Name  string // what its owner calls it, or the program
	State string // in the words of the batch system, lower case
	Nodes string // as the batch system writes lists of nodes

	Start, End time.Time // zero when not reported
	ExitCode   *int      // 128 and the number of the signal that ended it

	CPUSeconds, MemoryPeakBytes *float64 // the peak is that of a task, as accounting polls it
	Cores                       *float64 // allocated
}

// Steps tells the steps of runs. It is safe for concurrent use.
type Steps interface {
	// Steps returns those that are kept of one run, by begin and id; of a run of very many
	// those that failed or used most. None for a run that has none, or is not there.
	Steps(ctx context.Context, r Run) ([]Step, error)
}

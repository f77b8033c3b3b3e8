package store

import (
	"context"
	"time"
)

// Step is one step of a run, as the batch system accounts for it.
type Step struct {
	ID    string // its name in the run, which is the part of its series: 0, batch, extern
	Name  string // as its owner named it, or the program
	State string // in the batch system's terms, lower case
	Nodes string // in the batch system's notation for lists of nodes

	Start, End time.Time // zero when not reported
	ExitCode   *int      // 128 plus the signal number if a signal ended it

	CPUSeconds, MemoryPeakBytes *float64 // the peak is that of a task, as polled by the batch system
	Cores                       *float64 // allocated
}

// Steps reads the steps of runs. It is safe for concurrent use.
type Steps interface {
	// Steps returns the stored steps of one run, by start and id; for a run with very many
	// steps only those that failed or used most. It returns none for a run without steps,
	// or an unknown one.
	Steps(ctx context.Context, r Run) ([]Step, error)
}

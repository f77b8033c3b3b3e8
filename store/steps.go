package store

import (
	"context"

	"reckon/figure"
)

// Step is one step of a run, as the batch system accounts for it.
type Step = figure.Step

// Steps reads the steps of runs. It is safe for concurrent use.
type Steps interface {
	// Steps returns the stored steps of one run by start and id. A run with very many steps has
	// only those that failed or used most. It returns none for a run without steps or an unknown
	// run.
	Steps(ctx context.Context, r Run) ([]Step, error)
}

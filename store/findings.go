package store

import (
	"context"
	"time"
)

// Finding is one case of misuse that was found, and what became of it. Unlike the rows
// of the catalogue it can not be rebuilt from the series: people acknowledge and mute.
type Finding struct {
	ID       string // stays the same as long as the case lasts, and when it comes back
	Rule     string
	Severity string
	Site     string
	Owner    string
	Workload string
	Node     string
	Part     string
	Text     string
	Evidence []byte // JSON

	// First and Last are the time that the evidence is about, Found and Seen when the case
	// was found first and confirmed last.
	First, Last, Found, Seen time.Time
	// State is new, open or gone.
	State string

	AckBy      string
	AckAt      time.Time // zero: nobody
	MutedUntil time.Time // zero: not muted
	MuteReason string
}

// The states of a finding.
const (
	FindingNew  = "new"
	FindingOpen = "open"
	FindingGone = "gone"
)

// FindingFilter selects findings. Zero fields select everything.
type FindingFilter struct {
	ID, Workload, Node string
	Rules, Severities  []string
	Owners, States     []string
	Since              time.Time // confirmed after
	Muted              *bool     // muted at the time Now
	Now                time.Time
	Limit              int
}

// Findings keeps cases of misuse. It is safe for concurrent use.
type Findings interface {
	// PutFindings writes findings whole, each replacing the one of its id.
	PutFindings(ctx context.Context, list []Finding) error
	// Findings returns what the filter selects, the gravest and latest first, and how
	// many there are without limit.
	Findings(ctx context.Context, f FindingFilter) ([]Finding, int, error)
}

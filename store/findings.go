package store

import (
	"context"
	"time"
)

// Finding is a detected case of misuse with its history. Unlike a row of the catalogue, it cannot be rebuilt from the
// series, because people acknowledge and mute findings.
type Finding struct {
	ID       string // unchanged as long as the case lasts, and when it recurs
	Rule     string
	Severity string
	Site     string
	Owner    string
	Workload string
	Node     string
	Part     string
	Text     string
	Evidence []byte // JSON

	// First and Last enclose the time of the evidence. Found and Seen are when the case was first
	// detected and last confirmed.
	First, Last, Found, Seen time.Time
	// State is new, open or gone.
	State string

	AckBy      string
	AckAt      time.Time // zero: not acknowledged
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

// Findings stores cases of misuse. It is safe for concurrent use.
type Findings interface {
	// PutFindings writes findings. Each replaces the one with the same id.
	PutFindings(ctx context.Context, list []Finding) error
	// Findings returns the selected findings, the most severe and latest first, and their number without the limit.
	Findings(ctx context.Context, f FindingFilter) ([]Finding, int, error)
}

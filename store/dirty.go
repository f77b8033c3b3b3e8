package store

import (
	"time"

	"reckon/internal/dirty"
)

// LateAfter is the lateness, relative to the newest sample of a store, from which a sample makes
// its hour dirty. Figures derived from a dirty hour are derived again.
const LateAfter = 2 * time.Minute

// DirtyHours are the hours that received samples after figures may have been derived from them. A
// store records them durably before it commits the samples and keeps them until [Series.Clean], so
// that no crash or power cut loses one.
type DirtyHours = dirty.Snapshot

// DirtyHour is one hour of [DirtyHours].
type DirtyHour = dirty.Hour

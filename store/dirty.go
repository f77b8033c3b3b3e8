package store

import (
	"time"

	"reckon/internal/dirty"
)

// LateAfter is the age of a sample, relative to the newest sample of the store, above which the sample is late. A late
// sample makes its hour dirty, and figures that were derived from the hour are derived again.
const LateAfter = 2 * time.Minute

// DirtyHours are the hours that received samples after figures may have been derived from them. A store records them
// durably before it commits the samples. It keeps them until [Series.Clean], so that a crash or power failure loses
// none.
type DirtyHours = dirty.Snapshot

// DirtyHour is one hour of [DirtyHours].
type DirtyHour = dirty.Hour

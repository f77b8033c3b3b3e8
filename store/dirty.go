package store

import (
	"time"

	"reckon/internal/dirty"
)

// LateAfter is how far behind the newest sample of a store one may be before its hour counts
// as dirty: what was derived from that hour is derived again.
const LateAfter = 2 * time.Minute

// DirtyHours are the hours of which samples were written after what is derived from them may
// have been made. A store keeps them durably from before the samples are committed until
// [Series.Clean], so that neither a kill nor a power cut in between loses one.
type DirtyHours = dirty.Snapshot

// DirtyHour is one hour of [DirtyHours].
type DirtyHour = dirty.Hour

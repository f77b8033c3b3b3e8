package store

import (
	"time"

	"reckon/internal/dirty"
)

// LateAfter is the distance behind the newest sample of a store beyond which a sample makes
// its hour dirty: figures derived from that hour are derived again.
const LateAfter = 2 * time.Minute

// DirtyHours are the hours that received samples after the figures derived from them may
// have been made. A store records them durably before the samples are committed and keeps
// them until [Series.Clean], so that neither a kill nor a power cut in between loses one.
type DirtyHours = dirty.Snapshot

// DirtyHour is one hour of [DirtyHours].
type DirtyHour = dirty.Hour

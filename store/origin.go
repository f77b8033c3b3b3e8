package store

import "time"

// Origin is a unit of data that a store wrote to its disk at one time. Figures derived from
// the samples of a store are up to date if they were made after all origins that overlap with
// their time.
type Origin struct {
	ID string
	// From and To enclose the samples; To is exclusive. They may be wider than what was
	// written if it was compacted with other data before it was examined.
	From, To time.Time
}

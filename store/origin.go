package store

import "time"

// Origin is a unit of data that a store wrote to disk at one time. Figures are current if they were derived from
// samples after all origins that overlap the time of the figures.
type Origin struct {
	ID string
	// From and To enclose the samples; To is exclusive. They may be too wide if the data was
	// compacted with other data before it was examined.
	From, To time.Time
}

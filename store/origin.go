package store

import "time"

// Origin is something that a store wrote to its disk at one time. What is made of the samples
// of a store is up to date when it was made after all origins that lie in its time.
type Origin struct {
	ID string
	// From and To enclose the samples; To is not in it. They may be wider than what was
	// written where that was joined with other things before anybody looked.
	From, To time.Time
}

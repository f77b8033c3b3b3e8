package storetest

import (
	"sync/atomic"
	"time"
)

// Clock is the clock of a store under test, which its background work reads while the test sets it.
type Clock struct{ at atomic.Pointer[time.Time] }

// Set sets the clock and returns its time.
func (c *Clock) Set(t time.Time) time.Time { c.at.Store(&t); return t }

// Now returns the time set last, the zero time before.
func (c *Clock) Now() time.Time {
	if t := c.at.Load(); t != nil {
		return *t
	}
	return time.Time{}
}

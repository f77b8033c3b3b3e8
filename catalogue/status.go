package catalogue

import (
	"context"
	"time"
)

// Status is how far a builder has come.
type Status struct {
	Through time.Time // up to when rows were made; zero before the first round
	Rolled  time.Time // hours before are settled; zero before the first round
	Counted time.Time // up to when usage was counted, hours that are not settled included; zero before the first round
	Dirty   int       // hours that wait to be made again
}

// Status looks without waiting for a round under way: it is of the last one then.
func (b *Builder) Status(context.Context) (Status, error) {
	if b.mu.TryLock() {
		b.noteStatus()
		b.mu.Unlock()
	}
	st := Status{}
	if last := b.status.Load(); last != nil {
		st = *last
	}
	dirty, err := b.dirty()
	st.Dirty = len(dirty.Hours)
	return st, err
}

// noteStatus notes how far the builder has come. The caller holds mu.
func (b *Builder) noteStatus() {
	st := &Status{Through: b.at}
	if b.roll != nil {
		st.Rolled, st.Counted = b.roll.done, b.roll.counted
	}
	b.status.Store(st)
}

package catalogue

import (
	"context"
	"encoding/binary"
	"time"
)

// Status is the progress of a builder.
type Status struct {
	Through time.Time // up to when rows were made; zero before the first round
	Rolled  time.Time // hours before are settled; zero before the first round
	Dirty   int       // hours that wait to be made again
}

// Status returns the state without waiting for a running round. During a round it is the state after the last round.
func (b *Builder) Status(context.Context) (Status, error) {
	if b.mu.TryLock() {
		b.noteStatus()
		b.mu.Unlock()
	}
	st := Status{}
	if last := b.status.Load(); last != nil {
		st = *last
	}
	dirty, err := b.dirtyHours()
	st.Dirty = len(dirty.Hours)
	return st, err
}

// noteStatus records the progress of the builder. The caller holds mu.
func (b *Builder) noteStatus() {
	st := &Status{Through: b.at}
	if b.roll != nil {
		st.Rolled = b.roll.done
	}
	b.status.Store(st)
}

// countedKey is the key in the catalogue's state of the time up to which usage was counted. A server reads it at its
// start, and so do other servers of the site.
const countedKey = "counted"

// Counted returns the time up to which any builder of the catalogue counted usage, including hours that are not final.
// It is zero if nothing was counted yet.
func (b *Builder) Counted(ctx context.Context) (time.Time, error) {
	keeper, ok := b.cat.(StateKeeper)
	if !ok {
		return time.Time{}, nil
	}
	raw, err := keeper.State(ctx, countedKey)
	if err != nil || len(raw) != 8 {
		return time.Time{}, err
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(raw))), nil
}

// countedTo saves the time up to which usage was counted.
func (r *roller) countedTo(ctx context.Context, at time.Time) error {
	keeper, ok := r.cat.(StateKeeper)
	if !ok {
		return nil
	}
	return keeper.SetState(ctx, countedKey, binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli())))
}

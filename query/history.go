package query

import (
	"context"
	"encoding/binary"
	"time"

	"reckon/store"
)

// Ready loads where the builder stands, before history is imported behind its back.
func (b *Builder) Ready(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fold == nil {
		if err := b.load(ctx); err != nil {
			return err
		}
	}
	if b.roll == nil {
		return nil
	}
	return b.roll.load(ctx, b.at)
}

// The readings of others are further apart than ours.
const (
	historyGone    = 2 * time.Hour
	historyOverlap = time.Hour
)

// History takes stretches of time into the catalogue that got samples after they were
// taken in. Ready was called before those came. Only these stretches are read, and the
// workloads in them that began before; the stretches are in order.
func (b *Builder) History(ctx context.Context, ranges [][2]time.Time) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.o.Clock()
	o := b.o
	o.Gone, o.Overlap, o.Slice = max(o.Gone, historyGone), max(o.Overlap, historyOverlap), 24*time.Hour
	past := &Builder{q: b.q, cat: unmarked{b.cat}, o: o, fold: newFold(b.q)}
	total := 0
	for _, r := range ranges {
		to := earlier(r[1].Add(2*o.Gone), now)
		if past.at.Before(r[0]) {
			past.at = r[0].Add(o.Overlap)
		}
		if !past.at.Before(to) {
			past.at = to.Add(-time.Millisecond)
		}
		n, err := past.through(ctx, to)
		if total += n; err != nil {
			return total, err
		}
	}
	// What still lives goes on in the rounds to come.
	var alive []*account
	for k, lives := range past.fold.accounts {
		if lives[len(lives)-1].Ended {
			continue
		}
		if b.fold.accounts[k] == nil {
			b.fold.accounts[k] = lives
			continue
		}
		alive = append(alive, b.fold.accounts[k]...)
	}
	if len(alive) > 0 {
		if err := b.reread(ctx, alive, b.oldest(b.at), b.at); err != nil {
			return total, err
		}
		n, err := b.write(ctx, b.at)
		if total += n; err != nil {
			return total, err
		}
	}
	for _, r := range ranges {
		if b.roll == nil {
			break
		}
		for from := r[0].Truncate(time.Hour); from.Before(earlier(r[1], now)); from = from.Add(rollSlice) {
			if err := b.roll.make(ctx, from, from.Add(rollSlice), b.oldest(now)); err != nil {
				return total, err
			}
		}
	}
	if keeper, ok := b.cat.(StateKeeper); ok && b.roll != nil {
		// What came before is rolled up here: the next start must not do it again.
		if err := keeper.SetState(ctx, rollKey, binary.BigEndian.AppendUint64(nil, uint64(b.roll.done.UnixMilli()))); err != nil {
			return total, err
		}
	}
	if err := b.cat.SetWatermark(ctx, b.at); err != nil {
		return total, err
	}
	return total, b.save(ctx, now)
}

// unmarked is a catalogue whose watermark stays.
type unmarked struct{ store.Catalogue }

func (unmarked) SetWatermark(context.Context, time.Time) error { return nil }

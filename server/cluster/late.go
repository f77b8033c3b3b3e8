package cluster

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"sync"
	"time"

	"reckon/internal/dirty"
)

const (
	// again is the interval at which an hour with late samples is noted again.
	again = 30 * time.Second
	// settled is the age of a note at which its hour may count as recomputed. By then every write that began under the
	// note has ended, because writes have a timeout of 30 s.
	settled = 2 * time.Minute
	// noteTimeout limits the time that a writer waits for the database.
	noteTimeout = 10 * time.Second
)

// LateHours is the set of hours with late samples in a shared store. All members add to it, and the leader recomputes
// the hours. It works like [dirty.Hours]. An hour is noted before its samples are sent. It is removed after it was
// recomputed from series that were read after every write under the note.
type LateHours struct {
	db *sql.DB

	mu    sync.Mutex
	noted map[dirty.Entry]notedHour // by this member
}

type notedHour struct {
	at     time.Time
	oldest int64
}

// NewLate returns the hours that the members of a lease note.
func NewLate(l *Lease) *LateHours { return &LateHours{db: l.o.DB, noted: map[dirty.Entry]notedHour{}} }

// Begin notes the hours of late samples before they are sent. The caller must call end after sending. If Begin returns
// an error, the caller must not send the samples.
func (h *LateHours) Begin(l *dirty.Late) (end func(), err error) {
	if l.Empty() {
		return func() {}, nil
	}
	if err := h.noteHours(l, again); err != nil {
		return nil, err
	}
	began := time.Now()
	return func() {
		if time.Since(began) > settled/2 { // the process was stopped in between
			_ = h.noteHours(l, 0) // the samples came; noted once more, their hour is made once more
		}
	}, nil
}

// noteHours notes the hours unless they were noted less than age ago.
func (h *LateHours) noteHours(l *dirty.Late, age time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), noteTimeout)
	defer cancel()
	due := map[dirty.Entry]int64{}
	l.Each(func(e dirty.Entry, oldest int64) {
		if k, ok := h.noted[e]; !ok || now.Sub(k.at) >= age || oldest < k.oldest {
			due[e] = oldest
		}
	})
	if len(due) == 0 {
		return nil
	}
	err := inTx(ctx, h.db, noteTimeout, func(tx *sql.Tx) error {
		for e, oldest := range due {
			if _, err := tx.ExecContext(ctx, `INSERT INTO members_late (hour_ms, imported, oldest_ms, mark, noted) VALUES ($1, $2, $3, nextval('members_late_mark'), clock_timestamp())
				ON CONFLICT (hour_ms, imported) DO UPDATE SET oldest_ms = least(members_late.oldest_ms, excluded.oldest_ms), mark = excluded.mark, noted = excluded.noted`,
				e.At, e.Imported, oldest); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("note which hours got late samples: %w", err)
	}
	for e, oldest := range due {
		if k, ok := h.noted[e]; ok {
			oldest = min(oldest, k.oldest)
		}
		h.noted[e] = notedHour{now, oldest}
	}
	for e, k := range h.noted {
		if now.Sub(k.at) > settled {
			delete(h.noted, e)
		}
	}
	return nil
}

// Snapshot returns the hours of all members. An hour that may still receive samples gets a mark above the one of the
// snapshot. It is therefore recomputed now and again the next time.
func (h *LateHours) Snapshot() (dirty.Snapshot, error) {
	ctx, cancel := context.WithTimeout(context.Background(), noteTimeout)
	defer cancel()
	rows, err := h.db.QueryContext(ctx,
		`SELECT hour_ms, imported, oldest_ms, mark, noted > clock_timestamp() - $1 * interval '1 millisecond' FROM members_late ORDER `+
			`BY hour_ms, imported`, settled.Milliseconds())
	if err != nil {
		return dirty.Snapshot{}, fmt.Errorf("read which hours got late samples: %w", err)
	}
	defer rows.Close()
	var out dirty.Snapshot
	for rows.Next() {
		var at, oldest, mark int64
		var young bool
		d := dirty.Hour{}
		if err := rows.Scan(&at, &d.Imported, &oldest, &mark, &young); err != nil {
			return dirty.Snapshot{}, err
		}
		if at != dirty.Unknown {
			d.At, d.Oldest = time.UnixMilli(at).UTC(), time.UnixMilli(oldest).UTC()
		}
		d.Mark = uint64(mark)
		if young {
			d.Mark = math.MaxInt64
		} else {
			out.Mark = max(out.Mark, d.Mark)
		}
		out.Hours = append(out.Hours, d)
	}
	return out, rows.Err()
}

// Clean removes the hours of a snapshot that were not noted again.
func (h *LateHours) Clean(d dirty.Snapshot) error {
	ctx, cancel := context.WithTimeout(context.Background(), noteTimeout)
	defer cancel()
	return inTx(ctx, h.db, noteTimeout, func(tx *sql.Tx) error {
		for _, x := range d.Hours {
			if x.Mark > d.Mark {
				continue
			}
			at := int64(dirty.Unknown)
			if !x.At.IsZero() {
				at = x.At.UnixMilli()
			}
			if _, err := tx.ExecContext(ctx, `DELETE FROM members_late WHERE hour_ms = $1 AND imported = $2 AND mark = $3`, at, x.Imported,
				int64(x.Mark)); err != nil {
				return fmt.Errorf("note which hours were made again: %w", err)
			}
		}
		return nil
	})
}

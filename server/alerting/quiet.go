package alerting

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"reckon/store"
)

// quiet drops what the libraries say about themselves, and says once an hour that the store
// is away instead of once a minute for every rule.
func quiet(l *slog.Logger) *slog.Logger { return slog.New(above{l.Handler(), new(atomic.Int64)}) }

// above passes warnings and errors.
type above struct {
	slog.Handler
	away *atomic.Int64 // when it was said that the store is away, in seconds
}

func (h above) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}
func (h above) WithAttrs(a []slog.Attr) slog.Handler { return above{h.Handler.WithAttrs(a), h.away} }
func (h above) WithGroup(n string) slog.Handler      { return above{h.Handler.WithGroup(n), h.away} }

// Handle implements slog.Handler.
func (h above) Handle(ctx context.Context, r slog.Record) error {
	var why error
	r.Attrs(func(a slog.Attr) bool {
		// Errors of queries do not all unwrap.
		if err, ok := a.Value.Any().(error); ok && (errors.Is(err, store.ErrUnavailable) || strings.Contains(err.Error(), store.ErrUnavailable.Error())) {
			why = err
		}
		return why == nil
	})
	if why == nil {
		return h.Handler.Handle(ctx, r)
	}
	const often = int64(time.Hour / time.Second)
	last, now := h.away.Load(), r.Time.Unix()
	if now-last < often || !h.away.CompareAndSwap(last, now) {
		return nil
	}
	said := slog.NewRecord(r.Time, slog.LevelWarn, "alert rules wait for the store, and those that fire keep firing here; said once an hour", r.PC)
	said.AddAttrs(slog.Any("err", why))
	return h.Handler.Handle(ctx, said)
}

package tsdb

import (
	"context"
	"log/slog"
	"strings"
)

// withoutOverlaps is a log that tells of overlapping blocks to those who debug alone: the
// database warns of them each time it looks, and here they are as they should be (ended
// series, samples out of order, imports).
type withoutOverlaps struct{ slog.Handler }

func (h withoutOverlaps) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "Overlapping blocks found") {
		if !h.Enabled(ctx, slog.LevelDebug) {
			return nil
		}
		r.Level = slog.LevelDebug
	}
	return h.Handler.Handle(ctx, r)
}

func (h withoutOverlaps) WithAttrs(a []slog.Attr) slog.Handler {
	return withoutOverlaps{h.Handler.WithAttrs(a)}
}

func (h withoutOverlaps) WithGroup(name string) slog.Handler {
	return withoutOverlaps{h.Handler.WithGroup(name)}
}

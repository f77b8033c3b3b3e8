package tsdb

import (
	"context"
	"errors"
	"log/slog"
	"strings"
)

// noiseFilter lowers some log messages of the database to level debug:
//   - overlapping blocks, which are normal here (ended series, out-of-order samples, imports);
//   - the steps that cut a torn end off the log, which [Store.openDB] reports in one sentence;
//   - samples of lost series, if parts of the log were lost and reported;
//   - cancellations by the caller, such as a compaction when the store closes.
type noiseFilter struct {
	slog.Handler
	lost bool // parts of the log
}

// isNoise reports whether a message of the database is one of those that noiseFilter lowers.
func (h noiseFilter) isNoise(r slog.Record) (cancelled bool) {
	r.Attrs(func(a slog.Attr) bool {
		err, _ := a.Value.Any().(error)
		cancelled = errors.Is(err, context.Canceled)
		return !cancelled
	})
	for _, begin := range []string{
		"Overlapping blocks found", "Encountered WAL read error", "Encountered WBL read error", "Starting corruption repair",
		"Deleting all segments newer than corrupted segment", "Rewrite corrupted segment",
	} {
		if strings.HasPrefix(r.Message, begin) {
			return true
		}
	}
	return cancelled || h.lost && strings.HasPrefix(r.Message, "Unknown series references")
}

func (h noiseFilter) Handle(ctx context.Context, r slog.Record) error {
	if h.isNoise(r) {
		if !h.Enabled(ctx, slog.LevelDebug) {
			return nil
		}
		r.Level = slog.LevelDebug
	}
	return h.Handler.Handle(ctx, r)
}

func (h noiseFilter) WithAttrs(a []slog.Attr) slog.Handler {
	return noiseFilter{h.Handler.WithAttrs(a), h.lost}
}

func (h noiseFilter) WithGroup(name string) slog.Handler {
	return noiseFilter{h.Handler.WithGroup(name), h.lost}
}

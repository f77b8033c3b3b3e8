package tsdb

import (
	"context"
	"log/slog"
	"strings"
)

// quieter is a log that shows some warnings of the database at level debug only: the warnings about overlapping blocks, which it gives each
// time it
// looks, and which are as they should be here (ended series, samples out of order, imports); and the steps in which it cuts a torn end
// off the log, which [Store.openDB] reports in one sentence; and, where parts of the log were lost and their time was named, that samples
// refer to series that were lost with them.
type quieter struct {
	slog.Handler
	lost bool // parts of the log
}

// quiet reports whether a warning of the database is one of these, by how it begins.
func (h quieter) quiet(message string) bool {
	for _, begin := range []string{
		"Overlapping blocks found", "Encountered WAL read error", "Encountered WBL read error", "Starting corruption repair",
		"Deleting all segments newer than corrupted segment", "Rewrite corrupted segment",
	} {
		if strings.HasPrefix(message, begin) {
			return true
		}
	}
	return h.lost && strings.HasPrefix(message, "Unknown series references")
}

func (h quieter) Handle(ctx context.Context, r slog.Record) error {
	if h.quiet(r.Message) {
		if !h.Enabled(ctx, slog.LevelDebug) {
			return nil
		}
		r.Level = slog.LevelDebug
	}
	return h.Handler.Handle(ctx, r)
}

func (h quieter) WithAttrs(a []slog.Attr) slog.Handler {
	return quieter{h.Handler.WithAttrs(a), h.lost}
}

func (h quieter) WithGroup(name string) slog.Handler {
	return quieter{h.Handler.WithGroup(name), h.lost}
}

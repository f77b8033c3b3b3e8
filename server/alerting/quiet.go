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

// quietLogger returns a logger that drops routine messages of Alertmanager's libraries. It logs an unavailable or full
// store once an hour instead of once a minute for each rule.
func quietLogger(l *slog.Logger) *slog.Logger {
	return slog.New(levelFilter{l.Handler(), new([len(storeProblems)]atomic.Int64)})
}

// levelFilter passes warnings and errors.
type levelFilter struct {
	slog.Handler
	logged *[len(storeProblems)]atomic.Int64 // when each trouble was logged, Unix seconds
}

// storeProblems are the store problems that affect all rules at once. Each is recognised by an error, or by the start of a
// library's log message.
var storeProblems = [3]struct {
	err     error
	message string
	text    string
}{
	{store.ErrUnavailable, "", "alert rules wait for the store, and those that fire keep firing here; logged once an hour"},
	{store.ErrFull, "", "what rules compute is not stored: the disk is full; alerts go on; logged once an hour"},
	{
		nil, "Error on ingesting ", "what rules compute is not stored where newer results are there already: the clock was set back, or " +
			"time ran into that of before; alerts go on; logged once an hour"},
}

// storeProblem returns the index in storeProblems of the problem that caused an error, or a negative number. It also compares
// texts, because not all query errors can be unwrapped.
func storeProblem(err error) int {
	for i, t := range storeProblems {
		if t.err == nil {
			continue
		}
		if errors.Is(err, t.err) || strings.Contains(err.Error(), t.err.Error()) {
			return i
		}
	}
	return -1
}

func (h levelFilter) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}
func (h levelFilter) WithAttrs(a []slog.Attr) slog.Handler {
	return levelFilter{h.Handler.WithAttrs(a), h.logged}
}
func (h levelFilter) WithGroup(n string) slog.Handler {
	return levelFilter{h.Handler.WithGroup(n), h.logged}
}

// Handle implements slog.Handler.
func (h levelFilter) Handle(ctx context.Context, r slog.Record) error {
	trouble := -1
	var why error
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			trouble, why = storeProblem(err), err
		}
		return trouble < 0
	})
	for i, t := range storeProblems {
		if t.message != "" && strings.HasPrefix(r.Message, t.message) {
			trouble = i
		}
	}
	if trouble < 0 {
		return h.Handler.Handle(ctx, r)
	}
	const often = int64(time.Hour / time.Second)
	last, now := h.logged[trouble].Load(), r.Time.Unix()
	if passed := now - last; passed >= 0 && passed < often || !h.logged[trouble].CompareAndSwap(last, now) {
		return nil
	}
	record := slog.NewRecord(r.Time, slog.LevelWarn, storeProblems[trouble].text, r.PC)
	if why != nil {
		record.AddAttrs(slog.Any("err", why))
	}
	return h.Handler.Handle(ctx, record)
}

package alerting

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"reckon/store"
)

// A store that is away or full for two hours is stated three times, whatever the number of
// rules, and nothing else is kept back.
func TestQuiet(t *testing.T) {
	var text bytes.Buffer
	h := quietLogger(slog.New(slog.NewTextHandler(&text, nil))).Handler()
	away := fmt.Errorf("expanding series: %w: it hangs", store.ErrUnavailable)
	hidden := errors.New(away.Error()) // as the engine wraps it
	full := fmt.Errorf("%w: 3 MiB free", store.ErrFull)
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	for minute := range 121 {
		for rule := range 25 {
			r := slog.NewRecord(at.Add(time.Duration(minute)*time.Minute), slog.LevelWarn, "Evaluating rule failed", 0)
			r.Add("rule", rule, "err", []error{away, hidden, full}[rule%3])
			if err := h.WithAttrs([]slog.Attr{slog.Int("group", rule%3)}).Handle(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, minute := range []int{0, 1, 2, -120, -119} { // the clock is set back by two hours
		r := slog.NewRecord(at.Add(time.Duration(minute)*time.Minute), slog.LevelWarn, "Error on ingesting out-of-order result from rule evaluation", 0)
		r.Add("num_dropped", 2)
		if err := h.Handle(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	r := slog.NewRecord(at, slog.LevelWarn, "Evaluating rule failed", 0)
	r.Add("err", errors.New("many-to-many matching"))
	if err := h.Handle(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got := text.String(); strings.Count(got, "wait for the store") != 3 || strings.Count(got, "it hangs") != 3 || strings.Count(got, "3 MiB free") != 3 || strings.Count(got, "many-to-many") != 1 || strings.Count(got, "clock was set back") != 2 || strings.Count(got, "\n") != 9 {
		t.Errorf("%s", got)
	}
	if h.Enabled(t.Context(), slog.LevelInfo) || !h.Enabled(t.Context(), slog.LevelWarn) {
		t.Error("not from warnings on")
	}
}

package agent

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestClockThatIsSet(t *testing.T) {
	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		set  map[int]time.Duration // by second
		at   map[int]time.Duration // what the clock is ahead of an even one, by second
		warn string
	}{
		{"never", nil, map[int]time.Duration{0: 0, 600: 0}, ""},
		{"forward", map[int]time.Duration{60: time.Hour}, map[int]time.Duration{59: 0, 60: time.Hour, 600: time.Hour}, ""},
		{"back by less than a second", map[int]time.Duration{60: -900 * time.Millisecond}, map[int]time.Duration{60: -900 * time.Millisecond, 600: -900 * time.Millisecond}, ""},
		{"back by twenty seconds", map[int]time.Duration{60: -20 * time.Second}, map[int]time.Duration{59: 0, 60: 0, 61: 0, 600: 0}, "go on evenly"},
		{"back by the most", map[int]time.Duration{60: -maxBackwardStep}, map[int]time.Duration{60: 0, 600: 0}, "go on evenly"},
		{"back by more", map[int]time.Duration{60: -maxBackwardStep - time.Second},
			map[int]time.Duration{60: -maxBackwardStep - time.Second, 600: -maxBackwardStep - time.Second}, "set back by much"},
		{"back and forth", map[int]time.Duration{60: -20 * time.Second, 120: 20 * time.Second}, map[int]time.Duration{119: 0, 120: 0, 600: 0}, "go on evenly"},
		{"back, and forward by more", map[int]time.Duration{60: -20 * time.Second, 120: 50 * time.Second}, map[int]time.Duration{119: 0, 120: 30 * time.Second, 600: 30 * time.Second}, "go on evenly"},
		{"back, and forward by a part", map[int]time.Duration{60: -20 * time.Second, 120: 5 * time.Second}, map[int]time.Duration{119: 0, 120: 0, 600: 0}, "go on evenly"},
		{"back twice", map[int]time.Duration{60: -20 * time.Second, 90: -20 * time.Second}, map[int]time.Duration{60: 0, 90: 0, 600: 0}, "go on evenly"},
		{"back twice, together more than the most", map[int]time.Duration{60: -maxBackwardStep, 90: -2 * time.Second},
			map[int]time.Duration{60: 0, 89: 0, 90: -maxBackwardStep - 2*time.Second}, "set back by much"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			elapsed, offset := time.Duration(0), time.Duration(0)
			k := &clock{log: slog.New(slog.NewTextHandler(&log, nil)), wall: func() time.Time { return began.Add(elapsed + offset) }, boot: func() time.Duration { return time.Minute + elapsed }}
			for s := range 601 {
				elapsed = time.Duration(s) * time.Second
				offset += c.set[s]
				got := k.now().Sub(began.Add(elapsed))
				if want, ok := c.at[s]; ok && got != want {
					t.Errorf("second %d: %v ahead of an even clock, want %v", s, got, want)
				}
			}
			if c.warn == "" && log.Len() > 0 || !strings.Contains(log.String(), c.warn) {
				t.Errorf("logged %q, want %q", log.String(), c.warn)
			}
		})
	}
}

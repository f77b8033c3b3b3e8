package server

import (
	"testing"
	"time"
)

func TestRestOfTheBuilder(t *testing.T) {
	for rows, want := range map[int]time.Duration{0: 0, 200: 15 * time.Second, 201: 15075 * time.Millisecond, 799: 59925 * time.Millisecond, 800: time.Minute, 100_000: time.Minute} {
		if got := rest(rows); got != want {
			t.Errorf("after %d rows: %v, want %v", rows, got, want)
		}
	}
}

func TestPauseOfTheBuilder(t *testing.T) {
	for _, c := range []struct{ every, round, want time.Duration }{
		{10 * time.Second, 0, 10 * time.Second},
		{10 * time.Second, 100 * time.Millisecond, 10 * time.Second},
		{10 * time.Second, 101 * time.Millisecond, 10100 * time.Millisecond},
		{30 * time.Second, 101 * time.Millisecond, 30 * time.Second},
		{10 * time.Second, 600 * time.Millisecond, time.Minute},
		{10 * time.Second, 10 * time.Minute, time.Minute}, // a catalogue that was built from all history
	} {
		if got := pause(c.every, c.round); got != c.want {
			t.Errorf("after a round of %v every %v: %v, want %v", c.round, c.every, got, c.want)
		}
	}
}

package server

import (
	"testing"
	"time"
)

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

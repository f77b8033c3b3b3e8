package agent

import (
	"testing"
	"time"
)

// Times go on as they began where the clock is set by ten seconds or more, and follow it else.
func TestSteady(t *testing.T) {
	booted := time.Now().Add(-SinceBoot())
	for _, c := range []struct {
		name    string
		ahead   time.Duration // of the clock now, of that at the first start
		follows bool
	}{{"as it was", 0, true}, {"9 s", 9 * time.Second, true}, {"-9 s", -9 * time.Second, true}, {"11 s", 11 * time.Second, false}, {"a year", 365 * 24 * time.Hour, false}, {"back", -time.Hour, false}} {
		a := &Agent{btime: booted.Add(-c.ahead).Unix()}
		d := time.Since(a.steady())
		switch {
		case c.follows && d.Abs() > time.Second:
			t.Errorf("%s: %s from the clock", c.name, d)
		case !c.follows && (d-c.ahead).Abs() > 2*time.Second:
			t.Errorf("%s: %s from the clock, not %s", c.name, d, c.ahead)
		}
	}
	if a, b := SinceBoot(), SinceBoot(); a <= 0 || b < a {
		t.Errorf("%s after %s since boot", b, a)
	}
}

package agent

import (
	"math"
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
		d := time.Since(a.steadyTime())
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

// A clock that is set while the machine runs makes no other boot of it: a server distinguishes machines of one name by that.
func TestSteadyBoot(t *testing.T) {
	for name, c := range map[string]struct {
		steady bool
		moved  int64 // by what the clock was set, seconds
		want   bool  // the boot is as it was
	}{"as it was": {true, 0, true}, "set": {true, 2400, true}, "back": {true, -2400, true}, "not corrected": {false, 2400, false}} {
		t.Run(name, func(t *testing.T) {
			a := open(t, Config{Source: "procfs", Steady: c.steady})
			first := a.btime - c.moved
			a.btime = first // the clock has been set since the agent saw it
			if err := a.Step(); err != nil {
				t.Fatal(err)
			}
			for _, s := range a.TakeExport().Samples {
				if s.Series.Desc.Name == "node_boot_time_seconds" {
					if got := math.Abs(s.Value-float64(first)) < 1; got != c.want {
						t.Errorf("booted at %g, first seen as %d", s.Value, first)
					}
					return
				}
			}
			t.Error("no time of boot")
		})
	}
}

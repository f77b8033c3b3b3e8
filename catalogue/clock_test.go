package catalogue

import (
	"fmt"
	"testing"
	"time"
)

// set sets the clock of the site so that it is ahead by d.
func (x *site) set(d time.Duration) {
	x.now, x.ahead = x.now.Add(d-x.ahead), d
}

// TestEndWhileTheClockIsBehind: what ends after the clock was set back has ended, though samples of later times are
// known of it, and what begins then is there. When the clock is right again, and when the time of those samples has
// come, they are the same; begun again, a workload is a new run.
func TestEndWhileTheClockIsBehind(t *testing.T) {
	for _, c := range []struct {
		ahead, behind time.Duration
		again         bool // the builder begins anew with its state
	}{
		{time.Hour, -time.Hour, false}, {time.Hour, 0, false}, {time.Hour, -time.Hour, true}, {24 * time.Hour, 0, false}, {0, -10 * time.Minute, false},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			x := newSite(t, t.TempDir(), simBegin)
			defer x.close()
			b := x.builder()
			turn := func(n int) {
				t.Helper()
				for range n {
					x.work(steady)
					x.exportAll()
					advance(t, b)
				}
			}
			first := x.begin("unit/a", partPlace{Node: "n1"})
			turn(2)
			x.end(first) // an earlier run
			x.now = x.now.Add(time.Minute)
			tr := x.begin("unit/a", partPlace{Node: "n1"})
			stays := x.begin("unit/stays", partPlace{Node: "n1"})
			turn(8)
			x.set(c.ahead)
			turn(4)
			x.set(c.behind)
			turn(4)
			if c.again {
				if err := b.Save(t.Context()); err != nil {
					t.Fatal(err)
				}
				b = x.builder()
			}
			x.end(tr)
			later := x.begin("unit/later", partPlace{Node: "n1"})
			turn(4)
			check := func(when string) {
				t.Helper()
				found := 0
				for _, r := range x.rows() {
					for _, want := range []*truth{first, tr, stays, later} {
						if r.ID != want.id || !r.Start.Equal(want.start) {
							continue
						}
						found++
						if !r.End.Equal(want.end) {
							t.Errorf("%s: %s of %s ended %s, want %s", when, r.ID, r.Start, r.End, want.end)
						}
						if r.CPUSeconds == nil || *r.CPUSeconds > want.user+1e-9 {
							t.Errorf("%s: %s used %s s, want at most %g", when, r.ID, show(r.CPUSeconds), want.user)
						}
					}
				}
				if found != 4 {
					t.Errorf("%s: %d of 4 runs have a row", when, found)
				}
			}
			check("while it is behind")
			x.set(0)
			turn(4)
			check("right again")
			for range int((c.ahead + 20*time.Minute) / time.Minute) {
				x.step = time.Minute
				turn(1)
			}
			check("when the time has come")
			if got, want := len(x.rows()), 4; got != want {
				t.Errorf("%d rows, want %d: %v", got, want, starts(x.rows()))
			}
			next := x.begin("unit/a", partPlace{Node: "n1"})
			turn(2)
			for _, r := range x.rows() {
				if r.ID == "unit/a" && r.Start.Equal(next.start) {
					if !r.End.IsZero() {
						t.Errorf("begun again, and ended %s", r.End)
					}
					return
				}
			}
			t.Errorf("begun again, and no row of it: %v", starts(x.rows()))
		})
	}
}

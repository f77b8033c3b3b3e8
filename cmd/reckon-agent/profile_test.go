package main

import (
	"math"
	"runtime/debug"
	"testing"
	"time"
)

func TestProfile(t *testing.T) {
	defer debug.SetMemoryLimit(math.MaxInt64)
	for _, c := range []struct {
		o            profileOptions
		given        string
		tick, export time.Duration
		sync         time.Duration
	}{
		{profileOptions{name: "normal"}, "", time.Second, 15 * time.Second, 0},
		{profileOptions{name: "edge"}, "", 2 * time.Second, time.Minute, 10 * time.Minute},
		{profileOptions{name: "edge"}, "tick", time.Second, time.Minute, 10 * time.Minute},
		{profileOptions{name: "edge", metered: true}, "", 2 * time.Second, 4 * time.Minute, 10 * time.Minute},
		{profileOptions{name: "normal", metered: true}, "export", time.Second, 15 * time.Second, 0},
	} {
		to := newOptions()
		if f := to.set.Keys.Lookup(c.given); f != nil {
			f.Changed = true
		}
		if f := to.set.Flags.Lookup(c.given); f != nil {
			f.Changed = true
		}
		if err := c.o.apply(to); err != nil {
			t.Fatal(err)
		}
		if to.Tick != c.tick || to.Export != c.export || to.push.syncEvery != c.sync {
			t.Errorf("%+v given %q: %s, %s, %s", c.o, c.given, to.Tick, to.Export, to.push.syncEvery)
		}
	}
	if err := (&profileOptions{name: "small"}).apply(newOptions()); err == nil {
		t.Error("a profile that does not exist")
	}
}

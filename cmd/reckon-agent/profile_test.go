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
		to := options{tick: time.Second, export: 15 * time.Second}
		if err := c.o.apply(&to, func(flag string) bool { return flag == c.given }); err != nil {
			t.Fatal(err)
		}
		if to.tick != c.tick || to.export != c.export || to.push.syncEvery != c.sync {
			t.Errorf("%+v given %q: %s, %s, %s", c.o, c.given, to.tick, to.export, to.push.syncEvery)
		}
	}
	if err := (&profileOptions{name: "small"}).apply(&options{}, func(string) bool { return false }); err == nil {
		t.Error("a profile that does not exist")
	}
}

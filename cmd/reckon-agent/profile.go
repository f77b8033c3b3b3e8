package main

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"reckon/cmd/settings"
)

// profileOptions set several flags at once for a kind of machine.
type profileOptions struct {
	name    string
	metered bool
}

func (o *profileOptions) register(s *settings.Set) {
	s.Flags.StringVar(&o.name, "profile", "normal", "normal, or edge: for small boards and SD cards, writes and remembers less")
	s.Keys.BoolVar(&o.metered, "metered", false, "metered network: send every 4 minutes, and report the daily volume")
}

// apply changes the settings that were not given explicitly.
func (o *profileOptions) apply(to *options) error {
	set := func(name string, field *time.Duration, v time.Duration) {
		if !to.set.Given(name) {
			*field = v
		}
	}
	switch o.name {
	case "normal":
	case "edge":
		set("tick", &to.Tick, 2*time.Second)
		set("export", &to.Export, time.Minute)
		to.push.syncEvery, to.push.maxQueue = 10*time.Minute, 64<<20
		debug.SetMemoryLimit(20 << 20)
	default:
		return &usageError{fmt.Errorf("--profile %s: write normal or edge", o.name)}
	}
	if o.metered {
		set("export", &to.Export, 4*time.Minute) // queries look back for 5
	}
	return nil
}

// report prints the data volume of pushing after some exports.
func (r *runningPusher) report(ctx context.Context, stderr io.Writer, export time.Duration) {
	const exports = 4
	wait := time.NewTimer(exports*export + export/2)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return
	case <-wait.C:
	}
	for _, s := range r.Status() {
		if s.Bytes == 0 {
			continue
		}
		one := float64(s.Bytes) / exports
		day := one * (24 * time.Hour).Seconds() / export.Seconds()
		fmt.Fprintf(stderr, "reckon-agent: %s gets %.1f kB every %s, %.1f MB a day at this rate (what TLS and HTTP add is not in it)\n",
			s.URL, one/1e3, export, day/1e6)
	}
}

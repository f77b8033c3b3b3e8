package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"reckon/catalogue"
	"reckon/cmd/settings"
	"reckon/figure/format"
	"reckon/internal/buildinfo"
	"reckon/lab/simulate"
	"reckon/lab/simulation"
	"reckon/metric"
	"reckon/server"
)

// Size of the demonstration. It is small enough that a week of history is written in 45 s of CPU time.
const (
	demoSite  = "demo"
	demoData  = "demo-data"
	demoNodes = 16
	demoJobs  = 25 // per node and day
	demoUsers = 40
	demoPast  = 7 * 24 * time.Hour
	demoAhead = 7 * 24 * time.Hour
	demoBy    = "reckon up --demo"
)

// checkDemoFlags rejects settings of up that a demonstration does not support, and sets its data directory.
func checkDemoFlags(set *settings.Set, g *globals) error {
	for _, name := range []string{"site", "node", "source", "exits", "tick", "export", "root", "replay", "slurm"} {
		if set.Given(name) {
			return &usageError{fmt.Errorf("--%s has no effect with --demo, which measures no machine; drop one of the two "+
				"(`reckon simulate` makes other sites)", name)}
		}
	}
	if !set.Given("data") {
		g.serverOptions.Data = demoData
	}
	return nil
}

// demoOptions are the options of up that a demonstration uses.
type demoOptions struct {
	data   string
	config server.Config
	log    *slog.Logger
}

// runDemo serves a simulated site. It first writes a week of history and then continues in real time.
func runDemo(ctx context.Context, g *globals, o demoOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seed := uint64(1)
	now := g.now().UTC().Truncate(time.Minute)
	site, err := simulate.New(simulate.Config{
		Nodes: demoNodes, GPUNodes: 4, Users: demoUsers, Seed: seed, From: now.Add(-demoPast), For: demoPast + demoAhead,
		Jobs: demoNodes * demoJobs * int((demoPast+demoAhead)/(24*time.Hour)),
	})
	if err != nil {
		return err
	}
	// The address is bound first, so that a conflict is reported before anything is deleted.
	ln, err := net.Listen("tcp", o.config.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w; stop what listens there or choose another address with --listen", o.config.Listen, err)
	}
	defer ln.Close()
	if err := clearDemo(o, seed, now); err != nil {
		return err
	}
	progress, err := startProgress(ln)
	if err != nil {
		return err
	}
	defer progress.stop()
	fmt.Fprintf(
		g.stdout, "DEMO: a simulated site of %d nodes and %d users; nothing is measured.\nhttp://%s answers now. A week of the site is "+
			"written into %s first, which takes 20 to 40 s of one core: longer where other work shares it ...\n",
		site.Nodes, len(site.Users), ln.Addr(), o.data)
	fleet := simulation.New(simulation.Config{Site: site, Version: buildinfo.Get().Version, Slots: 1})
	show, from := progressPrinter(g.stderr), now.Add(-demoPast)
	// Samples, samples of the last day, and the catalogue took these shares of the time on a quiet machine.
	turn := func(begin time.Time, low, high float64, span time.Duration) func(simulation.Progress) {
		return func(p simulation.Progress) {
			share := low + (high-low)*p.At.Sub(begin).Seconds()/span.Seconds()
			switch built := p.Built.Sub(from).Seconds() / demoPast.Seconds(); p.Step {
			case catalogue.JobsTaken:
				share = 0.6 + 0.2*built
			case catalogue.HoursSummed:
				share = 0.8 + 0.2*built
			}
			progress.setShare(share)
			show(share, p)
		}
	}
	done, err := simulation.WriteHistory(ctx, fleet, o.data, demoSite, o.log,
		simulation.Stretch{Until: now.Add(-24 * time.Hour), Tick: time.Minute, Export: 2 * time.Minute,
			Progress: turn(from, 0, 0.45, demoPast-24*time.Hour)},
		simulation.Stretch{Until: now, Tick: 30 * time.Second, Export: time.Minute,
			Progress: turn(now.Add(-24*time.Hour), 0.45, 0.6, 24*time.Hour)})
	if err != nil {
		return err
	}
	c := o.config
	c.Data, c.Site, c.Listener = o.data, demoSite, ln
	c.Play = func(ctx context.Context, put func(context.Context, string, *metric.Batch) error) error {
		_, err := fleet.Run(ctx, simulation.Stretch{Until: site.End(), Tick: 5 * time.Second, Export: 15 * time.Second, Live: true},
			sinkFunc(put))
		return err
	}
	s, err := server.Open(ctx, c)
	if err != nil {
		return err
	}
	progress.stop()
	fmt.Fprintf(
		g.stdout, "reckon %s shows the simulated site %q at http://%s: %s samples, %d workloads of the past week; the simulation "+
			"continues.\n",
		c.Version, demoSite, s.Addr(), format.Count(float64(done.Samples)), done.Workloads)
	finished := make(chan error, 1)
	go func() { finished <- s.Run(ctx) }()
	select {
	case <-s.First():
		printBusiest(ctx, g, s, time.Time{})
	case err := <-finished:
		return err
	case <-time.After(30 * time.Second):
	}
	if err = <-finished; err == nil {
		fmt.Fprintf(g.stdout, "\nStopped. The next demo recreates %s.\n", o.data)
	}
	return err
}

// sinkFunc adapts a function to simulation.Sink.
type sinkFunc func(ctx context.Context, node string, b *metric.Batch) error

// Put implements simulation.Sink.
func (s sinkFunc) Put(ctx context.Context, node string, b *metric.Batch) error {
	return s(ctx, node, b)
}

// clearDemo empties the data directory of a demonstration. It returns an error if the directory has any other content
// or is in use.
func clearDemo(o demoOptions, seed uint64, now time.Time) error {
	list, err := os.ReadDir(o.data)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the data directory: %w; choose another one with --data", err)
	}
	if len(list) > 0 {
		if m, ok := server.ReadSimulated(o.data); !ok || m.By != demoBy {
			return fmt.Errorf(
				"%s holds data that is not from a demo, and a demo would overwrite it; choose another directory with --data, or move "+
					"this one away", o.data)
		}
	}
	if err := server.Unused(o.data); err != nil {
		return err
	}
	for _, e := range list {
		if err := os.RemoveAll(filepath.Join(o.data, e.Name())); err != nil {
			return fmt.Errorf("recreate the demo: %w", err)
		}
	}
	return server.MarkSimulated(o.data,
		server.Simulated{Warning: "everything in this directory is simulated by " + demoBy + ", which deletes it when it starts again",
			By: demoBy, Made: now, Seed: seed})
}

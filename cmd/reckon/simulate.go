package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/figure/format"
	"reckon/internal/buildinfo"
	"reckon/lab/simulate"
	"reckon/lab/simulation"
	"reckon/server"
	"reckon/transport/push"
	"reckon/web/client"
)

type simulateOptions struct {
	site   simulate.Config
	from   string
	speed  string
	tick   time.Duration
	export time.Duration
	name   string
	push   []string
	queue  string
	data   string
	drain  time.Duration
}

func newSimulate(g *globals) *cobra.Command {
	var o simulateOptions
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Simulate a site that sends to a server, for tests and demos",
		Long: `simulate makes up a site: users with habits, jobs that come by day and by night, a
queue, nodes with services and logins, and failures. Each node is read by a real
agent, which pushes its measurements; Slurm's view of the jobs is reported too. Every
series carries the label site, "simulated" by default.

Time is simulated as well. At --speed 60x an hour takes a minute, and the site starts
so far in the past that it reaches the present when it ends. It goes slower where this
machine or the server cannot keep up, and reports the actual speed. The same --seed,
nodes, jobs and times make the same samples, byte by byte.

With --data it is written straight into the data directory of a server that is
stopped, as fast as can be. Otherwise it is pushed: to --push, which may be given
several times, or to the server of --server.`,
		Example: `  reckon serve --data site &
  reckon simulate --nodes 1000 --jobs 20000 --speed 60x --for 6h
  reckon simulate --nodes 50 --for 168h --data demo; reckon serve --data demo
  reckon simulate --nodes 100 --pods 1000 --roll-outs 3 --for 1h
  reckon simulate --push http://127.0.0.1:9870 --push http://127.0.0.1:8428`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runSimulate(cmd.Context(), g, o, cmd.Flags().Changed)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.site.Nodes, "nodes", 20, "nodes of the site")
	f.IntVar(&o.site.Jobs, "jobs", 0, "submitted jobs (default 20 per node and day)")
	f.IntVar(&o.site.Pods, "pods", 0, "Kubernetes pods that run alongside the jobs, ten per Deployment")
	f.IntVar(&o.site.RollOuts, "roll-outs", 0, "how often each Deployment is rolled out")
	f.StringVar(&o.speed, "speed", "60x", "simulated seconds in a second, or max")
	f.Uint64Var(&o.site.Seed, "seed", 1, "another number makes another site")
	f.DurationVar(&o.site.For, "for", 24*time.Hour, "simulated time")
	f.StringVar(&o.from, "from", "", "start of the simulated time (default: so that it ends now)")
	f.IntVar(&o.site.Cores, "cores", 32, "processors of a node")
	f.IntVar(&o.site.GPUNodes, "gpu-nodes", 0, "nodes with four GPUs each (default one in eight)")
	f.IntVar(&o.site.Users, "users", 0, "users (default one for 60 jobs, between 6 and 400)")
	f.DurationVar(&o.tick, "tick", 5*time.Second, "simulated time between two readings of a node")
	f.DurationVar(&o.export, "export", 15*time.Second, "simulated time between two samples")
	f.StringVar(&o.name, "site", "simulated", "name of the site, a label on every series")
	f.StringArrayVar(&o.push, "push", nil, "address to push to, as of reckon-agent; may be repeated (default: the server)")
	f.StringVar(&o.queue, "queue", "", "directory of the queues of the nodes (default: a temporary one)")
	f.DurationVar(&o.drain, "drain", 5*time.Minute, "how long to wait at the end for a server that is behind or away")
	g.shared.addFlag(cmd, "data", &o.data)
	return cmd
}

// parseSpeed parses "60x", "60" or "max"; the latter is 0.
func parseSpeed(text string) (float64, error) {
	if text == "max" {
		return 0, nil
	}
	v, err := strconv.ParseFloat(strings.TrimSuffix(text, "x"), 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return 0, &usageError{fmt.Errorf("--speed %q: write it like 1x, 60x or max", text)}
	}
	return v, nil
}

func runSimulate(ctx context.Context, g *globals, o simulateOptions, given func(flag string) bool) error {
	speed, err := parseSpeed(o.speed)
	switch {
	case err != nil:
		return err
	case o.data != "" && (len(o.push) > 0 || o.queue != ""):
		return &usageError{errors.New("give --data or --push, not both: the one writes into a directory, the other sends to a server")}
	case o.tick <= 0 || o.export < o.tick:
		return &usageError{
			fmt.Errorf("--tick %v --export %v: the tick is longer than nothing and no longer than the time between two samples", o.tick,
				o.export)}
	case o.site.GPUNodes < 0:
		return &usageError{fmt.Errorf("--gpu-nodes %d: give 0 or more", o.site.GPUNodes)}
	case o.data != "" && !given("speed"):
		speed = 0
	}
	if o.site.GPUNodes == 0 && given("gpu-nodes") {
		o.site.GPUNodes = -1
	}
	if o.site.From, err = parseTime("from", o.from, g.now()); err != nil {
		return err
	}
	if o.site.From.IsZero() {
		ahead := time.Duration(0) // how far the clock here advances meanwhile
		if speed > 0 && o.data == "" {
			ahead = time.Duration(float64(o.site.For) / speed)
		}
		o.site.From = g.now().Add(min(ahead-o.site.For, 0))
	}
	site, err := simulate.New(o.site)
	if err != nil {
		return &usageError{err}
	}
	if site.Pods > 0 {
		fmt.Fprintf(g.stdout, "%d pods run alongside the jobs, each replaced %d times.\n", site.Pods, site.RollOuts)
	}
	fleet := simulation.New(simulation.Config{Site: site, Version: buildinfo.Get().Version})
	fmt.Fprintf(g.stdout, "Site %q, simulated: %d nodes with %d cores, %d of them with GPUs, %d users, %d jobs in %s from %s.\n",
		o.name, site.Nodes, site.Cores, site.GPUNodes, len(site.Users), site.Config.Jobs,
		format.Duration(site.For.Seconds()), site.From.Local().Format("Mon 2 Jan 15:04"))
	show := progressPrinter(g.stderr)
	stretch := simulation.Stretch{Until: site.End(), Tick: o.tick, Export: o.export, Speed: speed,
		Progress: func(p simulation.Progress) { show(p.At.Sub(site.From).Seconds()/site.For.Seconds(), p) }}
	if o.data != "" {
		return simulateInto(ctx, g, o, fleet, stretch)
	}
	return simulatePush(ctx, g, o, site, fleet, stretch)
}

// progressPrinter returns a function that prints the progress of a simulation, first after 2 s and then every 5 s. share is 0 to 1.
func progressPrinter(w io.Writer) func(share float64, p simulation.Progress) {
	began := time.Now()
	next := began.Add(2 * time.Second)
	return func(share float64, p simulation.Progress) {
		now := time.Now()
		if now.Before(next) {
			return
		}
		next = now.Add(5 * time.Second)
		text := fmt.Sprintf("%s: %d jobs run, %d wait", p.At.Local().Format("Mon 2 Jan 15:04"), p.Live, p.Waiting)
		if p.Step != "" {
			text = p.Step + " until " + p.Built.Local().Format("Mon 2 Jan 15:04")
		}
		left := now.Sub(began).Seconds() * (1 - share) / share
		fmt.Fprintf(w, "%3.0f %%  %s; about %s left\n", 100*share, text, format.Duration(max(left, 1)))
	}
}

// simulateInto writes into a data directory.
func simulateInto(ctx context.Context, g *globals, o simulateOptions, fleet *simulation.Fleet, stretch simulation.Stretch) error {
	log := slog.New(slog.NewTextHandler(g.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	// In a directory with measured data, the label site distinguishes the simulated data; otherwise the server shows a warning.
	if list, err := os.ReadDir(o.data); errors.Is(err, fs.ErrNotExist) || err == nil && len(list) == 0 {
		if err := server.MarkSimulated(o.data,
			server.Simulated{Warning: "this directory was begun with a site that reckon simulate generated", By: "reckon simulate",
				Made: g.now().UTC(), Seed: o.site.Seed}); err != nil {
			return err
		}
	}
	done, err := simulation.WriteHistory(ctx, fleet, o.data, o.name, log, stretch)
	if err != nil {
		return err
	}
	fmt.Fprintf(g.stdout, "%s samples of %d workloads are in %s after %s. Look at them with `reckon serve --data %s`.\n",
		format.Count(float64(done.Samples)), done.Workloads, o.data, format.Duration((done.Writing + done.Counting).Seconds()), o.data)
	return nil
}

// simulatePush sends to servers.
func simulatePush(ctx context.Context, g *globals, o simulateOptions, site *simulate.Site, fleet *simulation.Fleet,
	stretch simulation.Stretch) error {
	if len(o.push) == 0 {
		o.push = []string{cmp.Or(g.server, g.getenv("RECKON_SERVER"), client.DefaultServer)}
		if !strings.Contains(o.push[0], "://") {
			o.push[0] = "http://" + o.push[0]
		}
	}
	var ends []push.Endpoint
	for i, url := range o.push {
		e := push.Endpoint{URL: url, Name: fmt.Sprintf("to%d", i+1)}
		if i == 0 {
			e.TokenFile, e.TLS.CAFile = cmp.Or(g.tokenFile, g.getenv("RECKON_TOKEN_FILE")), cmp.Or(g.caFile, g.getenv("RECKON_CA_FILE"))
		}
		ends = append(ends, e)
	}
	found, err := push.Check(ctx, push.Config{Endpoints: ends})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return &usageError{err}
	}
	for _, f := range found {
		if f.Problem != "" {
			return fmt.Errorf("push to %s: %s; `reckon serve` is the server that takes it, and --data needs none", f.URL, f.Problem)
		}
	}
	dir := o.queue
	if dir == "" {
		if dir, err = os.MkdirTemp("", "reckon-simulate-"); err != nil {
			return fmt.Errorf("make the directory of the queues: %w; name one with --queue", err)
		}
		defer os.RemoveAll(dir)
	}
	log := slog.New(slog.NewTextHandler(g.stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	out, err := simulation.NewPush(simulation.PushConfig{
		Endpoints: ends, Site: o.name, Nodes: site.Names(), Dir: filepath.Clean(dir),
		UserAgent: "reckon-simulate/" + buildinfo.Get().Version, Logger: log,
	})
	if err != nil {
		return err
	}
	p, err := fleet.Run(ctx, stretch, out)
	stopped := ctx.Err() != nil
	if err != nil && !stopped {
		return errors.Join(err, out.Close(0))
	}
	patience := o.drain
	if stopped {
		patience = min(patience, 5*time.Second)
	}
	sentTo := p.Took
	began := time.Now()
	left := out.Drain(context.WithoutCancel(ctx), patience)
	caught := time.Since(began)
	if err := out.Close(0); err != nil {
		return err
	}
	fmt.Fprintf(g.stdout, "%s of %d nodes in %s: %.3gx. %s samples in %s exports, %s taken by %s",
		format.Duration(p.Passed.Seconds()), site.Nodes, format.Duration(sentTo.Seconds()), p.Speed(), format.Count(float64(p.Samples)),
		format.Count(float64(p.Batches)), format.Count(float64(left.Sent)),
		strings.Join(o.push, " and "))
	if caught > time.Second {
		fmt.Fprintf(g.stdout, ", the last %s later", format.Duration(caught.Seconds()))
	}
	fmt.Fprintln(g.stdout, ".")
	switch {
	case left.Refused+left.Lost+left.Dropped > 0:
		return fmt.Errorf("%d samples were refused, %d could not be queued and %d exports fell out of full queues (%s)", left.Refused,
			left.Lost, left.Dropped, cmp.Or(left.Error, "see the server log"))
	case left.Exports > 0 && o.queue == "":
		return fmt.Errorf("%d exports were not taken in %s (%s) and are gone with the temporary queues; --queue keeps them", left.Exports,
			format.Duration(patience.Seconds()), cmp.Or(left.Error, http.StatusText(http.StatusGatewayTimeout)))
	case left.Exports > 0:
		return fmt.Errorf("%d exports were not taken in %s and wait in %s: %s", left.Exports, format.Duration(patience.Seconds()), dir,
			left.Error)
	}
	return nil
}

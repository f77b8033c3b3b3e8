package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"reckon/agent"
	"reckon/cmd/resident"
	"reckon/cmd/settings"
	"reckon/internal/buildinfo"
	"reckon/internal/durable/filelimit"
	"reckon/metric/expose"
)

// options are the settings of the agent, which `reckon-agent check` shares.
type options struct {
	settings.Agent
	set     *settings.Set
	listen  string
	verbose bool
	push    pushOptions
	web     webOptions
	profile profileOptions
}

func newOptions() *options {
	o := &options{set: settings.New()}
	f := o.set.Flags
	f.StringVar(&o.listen, "listen", "127.0.0.1:9871", "address of /metrics; any but a loopback address needs --web-config")
	o.web.register(o.set)
	o.Register(o.set, os.Getenv("NODE_IP"))
	f.StringVar(&o.State, "state", "", "file that carries the accounts over a restart, such as /run/reckon/agent.state")
	o.set.Keys.DurationVar(&o.Linger, "linger", time.Minute, "how long a workload that ended can still be scraped")
	o.push.register(o.set)
	o.profile.register(o.set)
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log more")
	return o
}

// agentConfig returns the configuration of the agent.
func (o *options) agentConfig(log *slog.Logger) agent.Config {
	c := o.Config
	c.Steady = len(o.push.endpoints) > 0 && o.Replay == ""
	c.Expose, c.Lean, c.Version, c.Logger = true, true, buildinfo.Get().Version, log
	return c
}

// spareMemory is the memory that may be idle in the heap, bytes.
const spareMemory = 4 << 20

// reservedFiles is the number of files needed besides the sensors' files, for scrapes, senders and queues.
const reservedFiles = 96

func runAgent(ctx context.Context, stderr io.Writer, o *options) error {
	level := slog.LevelWarn
	if o.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	if err := filelimit.Check(filelimit.Need{Least: agent.LeastFiles, Usual: agent.UsualFiles + reservedFiles}, log); err != nil {
		return err
	}
	if err := o.push.buildEndpoints(); err != nil {
		return err
	}
	door, err := o.web.openListener(o.listen, log)
	if err != nil {
		return err
	}
	defer door.Close()
	resident.Trim(ctx, spareMemory)
	a, notes, err := agent.Open(o.agentConfig(log))
	if err != nil {
		return err
	}
	defer a.Close()
	socket, err := o.listenOwn(a, log)
	if err != nil {
		return err
	}
	if socket != nil {
		defer socket.Close()
		fmt.Fprintf(stderr, "reckon-agent: figures of scripts (reckon push) at %s\n", socket.Path)
	}
	var sinks []agent.Sink
	if len(o.push.endpoints) > 0 {
		pusher, err := o.push.startPusher(ctx, a, stderr, log)
		if err != nil {
			return err
		}
		defer pusher.stop()
		sinks = append(sinks, pusher.Put)
		if o.profile.metered {
			go pusher.report(ctx, stderr, o.Export)
		}
	}
	for _, n := range notes {
		fmt.Fprintf(stderr, "reckon-agent: not available: %s: %v\n", n.Sensor, n.Err)
	}
	fmt.Fprintf(stderr, "reckon-agent: node %s at %s/metrics, reading %s\n", a.Node(), door.address(), a.Reading())

	mux := http.NewServeMux()
	mux.Handle("/metrics", expose.Handler(a.Gather, expose.Options{Labels: o.push.nodeLabels(a.Node()), Keep: door.seriesFilter}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "reckon-agent %s on %s\n\n/metrics  metrics\n/healthz  health check\n", buildinfo.Get().Version, a.Node())
	})
	srv := &http.Server{Handler: door.guardHandler(mux), ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: 2 * time.Minute, ConnContext: door.withPeer,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	failed := make(chan error, 1)
	go func() {
		if err := srv.Serve(door); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve /metrics: %w", err)
		}
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case err := <-failed:
			cancel(err)
		case <-ctx.Done():
		}
	}()
	err = a.Run(ctx, nil, sinks...)
	stop, done := context.WithTimeout(context.Background(), 2*time.Second)
	defer done()
	_ = srv.Shutdown(stop) // scrapes in progress get a moment to finish
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

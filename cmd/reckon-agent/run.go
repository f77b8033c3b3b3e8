package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"reckon/account"
	"reckon/agent"
	"reckon/cmd/resident"
	"reckon/internal/buildinfo"
	"reckon/internal/durable/filelimit"
	"reckon/metric/compat"
	"reckon/metric/expose"
	"reckon/sensor/host"
)

type options struct {
	listen       string
	node         string
	root         string
	source       string
	exits        string
	replay       string
	tegrastats   string
	redfish      string
	state        string
	tick, export time.Duration
	linger       time.Duration
	verbose      bool
	powerModel   string
	guests       string
	hostEnergy   string
	idle         string
	compat       []string
	push         pushOptions
	web          webOptions
	own          string
	textfile     []string
	socket       string
	kubelet      agent.Kubelet
	profile      profileOptions
	counters     bool
	files        string
}

func (o *options) register(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&o.listen, "listen", "127.0.0.1:9871", "address of /metrics; any but a loopback address needs --web-config")
	o.web.register(f)
	f.StringVar(&o.source, "source", "auto", "where processes are read: auto, ebpf or procfs")
	f.StringVar(&o.exits, "exits", "auto", "where ends of processes are read: auto, ebpf, taskstats or none")
	f.DurationVar(&o.tick, "tick", time.Second, "time between two readings")
	f.DurationVar(&o.export, "export", 15*time.Second, "time between two exports; use the scrape interval")
	f.DurationVar(&o.linger, "linger", time.Minute, "how long a workload that ended can still be scraped")
	f.StringVar(&o.node, "node", "", "name of this node (default: the host name)")
	f.StringVar(&o.state, "state", "", "file that carries the accounts over a restart, such as /run/reckon/agent.state")
	f.StringVar(&o.root, "root", "/", "where the file systems of the host are mounted, inside a container")
	f.StringVar(&o.replay, "replay", "", "play a recording instead of reading this machine")
	f.StringVar(&o.redfish, "redfish-config", "", "YAML file that names management controllers to ask for power")
	f.StringVar(&o.tegrastats, "tegrastats", "", "on a Jetson, a file or named pipe that tegrastats writes to")
	f.StringVar(&o.guests, "guest-energy", "", "folder into which the energy of each virtual machine is written, to be shared with it, such as /run/reckon/guests")
	f.StringVar(&o.hostEnergy, "host-energy", "", "in a virtual machine, the file in which its host does so (default: "+host.Default+")")
	f.StringVar(&o.powerModel, "power-model", "", "file with a power model for a machine without a meter, or none (default: the built-in curve of its kind)")
	f.StringVar(&o.idle, "idle-share", "none", "attribution of idle energy: none, request (in proportion to requests) or even")
	f.StringSliceVar(&o.compat, "compat", nil, "show /metrics also under the names of other programs: "+strings.Join(compat.Names(), ", "))
	f.StringVar(&o.own, "own-metrics", "", "YAML file that names metrics of your own to read, see doc/guides/own-metrics.md")
	f.StringArrayVar(&o.textfile, "textfile", nil, "folder with *.prom files that scripts write; can be given again")
	f.StringVar(&o.socket, "push-socket", "auto", "where reckon push of this machine sends to: a path, auto (RECKON_SOCKET, else that of systemd, else "+agent.SystemSocket+" as root) or none")
	f.StringVar(&o.files, "files", "network", "file systems on which opens, stats, reads and writes are counted by workload: network, all or none, see doc/guides/storage.md")
	f.BoolVar(&o.counters, "counters", false, "read the performance counters of the processors for each workload, see doc/guides/counters.md")
	kubeletFlags(f, &o.kubelet)
	o.push.register(f)
	o.profile.register(f)
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log more")
}

// config converts the flags to the configuration of the agent.
func (o *options) config(log *slog.Logger) agent.Config {
	return agent.Config{
		Node: o.node, Root: o.root, Tegrastats: o.tegrastats, Redfish: o.redfish, Source: o.source, Exits: o.exits, Replay: o.replay,
		Tick: o.tick, Export: o.export, Linger: o.linger, State: o.state,
		OwnMetrics: o.own, Textfile: o.textfile, Kubelet: o.kubelet,
		Guests: o.guests, HostEnergy: o.hostEnergy, Files: o.files, Counters: o.counters,
		PowerModel: o.powerModel, Idle: account.IdleShare(o.idle), Compat: o.compat,
		Steady: len(o.push.endpoints) > 0 && o.replay == "",
		Expose: true, Lean: true, Version: buildinfo.Get().Version, Logger: log,
	}
}

// settled is the time after which all one-time work of the start is done.
const settled = 10 * time.Second

// connections is how many files are needed beside those of the sensors: for scrapes, senders and queues.
const connections = 96

func runAgent(ctx context.Context, stderr io.Writer, o options) error {
	level := slog.LevelWarn
	if o.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	if err := filelimit.Check(filelimit.Need{Least: agent.LeastFiles, Usual: agent.UsualFiles + connections}, log); err != nil {
		return err
	}
	if err := o.push.read(); err != nil {
		return err
	}
	door, err := o.web.open(o.listen, log)
	if err != nil {
		return err
	}
	defer door.Close()
	a, notes, err := agent.Open(o.config(log))
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
		pusher, err := o.push.start(ctx, a, stderr, log)
		if err != nil {
			return err
		}
		defer pusher.stop()
		sinks = append(sinks, pusher.Put)
		if o.profile.metered {
			go pusher.tell(ctx, stderr, o.export)
		}
	}
	for _, n := range notes {
		fmt.Fprintf(stderr, "reckon-agent: not available: %s: %v\n", n.Sensor, n.Err)
	}
	resident.Settle(ctx, settled)
	fmt.Fprintf(stderr, "reckon-agent: node %s at %s/metrics, reading %s\n", a.Node(), door.address(), a.Reading())

	mux := http.NewServeMux()
	mux.Handle("/metrics", expose.Handler(a.Gather, expose.Options{Labels: o.push.labels(a.Node())}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "reckon-agent %s on %s\n\n/metrics  metrics\n/healthz  health check\n", buildinfo.Get().Version, a.Node())
	})
	srv := &http.Server{Handler: door.handler(mux), ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
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

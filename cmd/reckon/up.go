package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/agent"
	"reckon/client"
	"reckon/cmd/resident"
	"reckon/internal/buildinfo"
	"reckon/metric/compat"
	"reckon/sensor"
	"reckon/sensor/host"
	"reckon/server"
	"reckon/store"
)

type upOptions struct {
	listen    string
	data      string
	site      string
	retention time.Duration
	maxBytes  int64
	history   time.Duration
	hourly    time.Duration
	late      time.Duration
	agent     agent.Config
	own       ownFlags
	scrape    string
	footprint footprintFlags
	slurm     slurmFlags
	stores    storeFlags
	graph     graphFlags
	verbose   bool
	demo      bool
	access    server.Access
	policy    string
	alerts    server.Alerts
}

func newUp(g *globals) *cobra.Command {
	var o upOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Measure this machine and answer queries, all in one process",
		Long: `up starts the agent, the store and the API in one process: within seconds it shows
who uses what on this machine, and records it from then on.

It needs no root. With root it sees more: the I/O of everybody's processes, and short
processes exactly. Unreadable sources are reported at start, with the reason.

It also takes what agents on other machines push (reckon-agent --push), Prometheus
remote write and OpenTelemetry metrics, and figures of scripts (reckon push).

The numbers are kept in the data directory. Stop it with Ctrl-C; started again it goes
on where it stopped.`,
		Example: `  reckon up
  reckon up --listen 127.0.0.1:9999 --data /var/lib/reckon
  reckon up --retention 720h --source procfs
  reckon up --demo                            # a simulated site, to look around`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.demo {
				if err := demoFlags(cmd, &o); err != nil {
					return err
				}
			}
			return runUp(cmd.Context(), g, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:9870", "address of the API; any but a loopback address needs users, see reckon user --help")
	f.StringVar(&o.data, "data", "data", "directory in which the numbers are kept")
	f.DurationVar(&o.retention, "retention", store.DefaultRetention, "for how long the series are kept")
	f.DurationVar(&o.hourly, "retention-hourly", store.DefaultHourlyRetention, "for how long one figure an hour of every series is kept; 0 keeps none")
	f.DurationVar(&o.history, "history", 0, "for how long workloads that ended and hourly usage are kept, longer than --retention; 0 is for ever")
	f.Int64Var(&o.maxBytes, "max-bytes", 0, "how many bytes of them are kept at most, 0 for no limit")
	f.DurationVar(&o.late, "out-of-order", 24*time.Hour, "by how much a sample may be late and is still taken")
	f.StringVar(&o.site, "site", "", "name of the site, a label on every series")
	f.StringVar(&o.agent.Node, "node", "", "name of this node (default: the host name)")
	f.StringVar(&o.agent.Source, "source", "auto", "where processes are read: auto, ebpf or procfs")
	f.StringVar(&o.agent.Exits, "exits", "auto", "where ends of processes are read: auto, ebpf, taskstats or none")
	f.DurationVar(&o.agent.Tick, "tick", time.Second, "time between two readings")
	f.DurationVar(&o.agent.Export, "export", 15*time.Second, "time between two samples in the store")
	f.StringVar(&o.agent.Root, "root", "/", "where the file systems of the host are mounted, inside a container")
	f.StringVar(&o.agent.Redfish, "redfish-config", "", "YAML file that names management controllers to ask for power")
	f.StringVar(&o.agent.Tegrastats, "tegrastats", "", "on a Jetson, a file or named pipe that tegrastats writes to")
	f.StringVar(&o.agent.Guests, "guest-energy", "", "folder into which the energy of each virtual machine is written, to be shared with it, such as /run/reckon/guests")
	f.StringVar(&o.agent.HostEnergy, "host-energy", "", "in a virtual machine, the file in which its host does so (default: "+host.Default+")")
	f.StringVar(&o.agent.Files, "files", "network", "file systems on which opens, stats, reads and writes are counted by workload: network, all or none, see doc/guides/storage.md")
	f.BoolVar(&o.agent.Counters, "counters", false, "read the performance counters of the processors for each workload, see doc/guides/counters.md")
	f.StringVar(&o.agent.PowerModel, "power-model", "", "file with a power model for a machine without a meter, or none (default: the built-in curve of its kind)")
	f.StringVar((*string)(&o.agent.Idle), "idle-share", "none", "attribution of idle energy: none, request (in proportion to requests) or even")
	f.StringSliceVar(&o.agent.Compat, "compat", nil, "show /metrics, and keep in the store, also under the names of other programs: "+strings.Join(compat.Names(), ", "))
	o.own.register(f, &o.agent)
	kubeletFlags(f, &o.agent.Kubelet, g.getenv)
	scrapeFlag(f, &o.scrape)
	f.StringVar(&o.agent.Replay, "replay", "", "play a recording instead of reading this machine")
	o.footprint.register(f)
	o.slurm.register(f)
	o.stores.register(cmd)
	o.graph.register(cmd)
	accessFlags(cmd, &o.access)
	alertFlags(cmd, &o.alerts)
	f.StringVar(&o.policy, "policy", "", "file with the thresholds for findings of misuse (default: those that reckon findings policy prints)")
	f.BoolVar(&o.demo, "demo", false, "show a simulated site, with a week behind it, instead of this machine")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log more")
	configFlag(cmd)
	return cmd
}

// settled is the time after which all one-time work of the start is done.
const settled = 10 * time.Second

// spareMemory is what may be idle in the heap, bytes: half of what a block of ended series takes to write.
const spareMemory = 10 << 20

func runUp(ctx context.Context, g *globals, o upOptions) error {
	resident.LimitMemory()
	if g.getenv("GOGC") == "" {
		debug.SetGCPercent(50) // most of the heap is long-lived series: allow less garbage
	}
	o.agent.StoreCompat = true
	level := slog.LevelWarn
	if o.verbose {
		level = slog.LevelDebug
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	log := slog.New(slog.NewTextHandler(g.stderr, &slog.HandlerOptions{Level: level}))
	if err := o.stores.check(); err != nil {
		return err
	}
	if o.demo && o.stores != (storeFlags{}) {
		return &usageError{errors.New("--demo keeps its simulated data in the data directory; drop --store and --catalogue")}
	}
	prices, err := o.footprint.open(log)
	if err != nil {
		return err
	}
	policy, err := readPolicy(o.policy)
	if err != nil {
		return err
	}
	slurm, err := o.slurm.open()
	if err != nil {
		return err
	}
	c := server.Config{
		Slurm:  slurm,
		Listen: o.listen, Data: o.data, Site: o.site,
		Retention: o.retention, MaxBytes: o.maxBytes, OutOfOrder: o.late,
		Hourly: o.hourly, History: o.history, Store: o.stores.store, Catalogue: o.stores.catalogue, Graph: o.graph.Graph,
		Access: o.access, Policy: policy, Alerts: o.alerts, Version: buildinfo.Get().Version,
		Footprint: prices, Logger: log,
	}
	if o.demo {
		return runDemo(ctx, g, demoOptions{data: o.data, config: c, log: log})
	}
	c.Receive, c.ScrapeConfig = true, o.scrape
	c.APISocket, c.APISocketWanted = apiSocket(o.access.Socket, g.getenv)
	c.Agent, c.Socket, c.SocketWanted = &o.agent, o.own.path(g.getenv), o.own.wanted()
	s, err := server.Open(ctx, c)
	if err != nil {
		return err
	}
	greet(g, s, o)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	resident.Settle(ctx, settled)
	resident.Trim(ctx, spareMemory)
	select {
	case <-s.First():
		showFirst(ctx, g, s)
	case err := <-done:
		return err
	case <-time.After(9 * time.Second):
		fmt.Fprintln(g.stdout, "Nothing that was measured since this start is in the lists yet; `reckon jobs` will show it.")
	}
	err = <-done
	if err == nil {
		fmt.Fprintln(g.stdout, "\nStopped. The numbers are in "+o.data+"; `reckon up` resumes from here.")
	}
	return err
}

// greet prints where everything is, and which sensors are unavailable and why.
func greet(g *globals, s *server.Server, o upOptions) {
	fmt.Fprintf(g.stdout, "reckon %s measures %s at %s (%s)\n",
		buildinfo.Get().Version, s.Agent().Node(), s.URL(), o.stores.place(o.data))
	fmt.Fprintf(g.stdout, "Reading %s.\n", s.Agent().Reading())
	inside := slices.ContainsFunc(s.Notes(), func(n agent.Note) bool { return n.Sensor == "pid-namespace" })
	fmt.Fprintln(g.stdout, sees(os.Geteuid() == 0, s.Agent().SeesOthersIO(), s.Agent().SeesEnds(), inside))
	showNotes(g.stdout, s.Notes())
}

// sees says what of others' processes is seen. inside says that those outside of the pid namespace are not.
func sees(root, io, ends, inside bool) string {
	who := "Running without root"
	if root {
		who = "Running as root"
	}
	var unseen string
	switch {
	case io && ends && inside:
		return who + ": it sees everybody's processes of its pid namespace in full."
	case io && ends:
		return who + ": it sees everybody's processes in full."
	case io:
		unseen = "the ends of short processes stay unseen"
	case ends:
		unseen = "the I/O of other users stays unseen"
	default:
		unseen = "the I/O of other users and the ends of short processes stay unseen"
	}
	if root {
		return who + ", but " + unseen + ": a capability, a namespace or an option stands in the way."
	}
	return who + ": " + unseen + "; with root it sees them."
}

// showNotes lists the unavailable sensors: those with a remedy, and what the kernel refused,
// in a line each, the others by name, since most machines lack most hardware.
func showNotes(w io.Writer, notes []agent.Note) {
	var absent []string
	title, wide := "\nNot available here:\n", 12
	lacks := func(n agent.Note) bool {
		var u *sensor.UnavailableError
		return errors.As(n.Err, &u) && u.Fix == "" && !u.Refused
	}
	for _, n := range notes {
		if !lacks(n) {
			wide = max(wide, len(n.Sensor))
		}
	}
	for _, n := range notes {
		if lacks(n) {
			absent = append(absent, n.Sensor)
			continue
		}
		fmt.Fprintf(w, "%s  %-*s %v\n", title, wide, n.Sensor, n.Err)
		title = ""
	}
	if len(absent) > 0 {
		fmt.Fprintf(w, "\nNo data sources here for %s; see `reckon nodes`.\n", strings.Join(absent, ", "))
	}
}

// showFirst prints the workloads with the highest use so far.
func showFirst(ctx context.Context, g *globals, s *server.Server) {
	c, err := client.New("", client.WithHTTP(s.Inside()))
	if err != nil {
		return
	}
	running := true
	list, err := c.Workloads(ctx, client.Filter{Running: &running, Sort: "-cpu_seconds", Limit: 10})
	if err != nil {
		fmt.Fprintln(g.stderr, "reckon: the first table: "+oneLine(err))
		return
	}
	if list.Total == 0 {
		fmt.Fprintln(g.stdout, "\nNothing runs here that was measured; `reckon jobs` shows what ended.")
		return
	}
	screen := g.screen()
	fmt.Fprintf(g.stdout, "\nThe %d of %d workloads that have used the most CPU time:\n\n", len(list.Workloads), list.Total)
	marks := marked{}
	if err := marks.jobs(list.Workloads, time.Now()).Print(screen); err != nil {
		return
	}
	if text := marks.legend(); text != "" {
		fmt.Fprintln(g.stdout, text)
	}
	fmt.Fprint(g.stdout, "\nWhat now:\n"+
		"  reckon top         live view\n"+
		"  reckon jobs        everything that was measured\n"+
		"  reckon job ID      one workload in full\n"+
		"Ctrl-C stops.\n")
}

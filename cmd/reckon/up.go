package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/agent"
	"reckon/cmd/resident"
	"reckon/cmd/settings"
	"reckon/figure"
	"reckon/figure/format"
	"reckon/internal/buildinfo"
	"reckon/sensor"
	"reckon/sensor/task"
	"reckon/server"
	"reckon/web/client"
)

func newUp(g *globals) *cobra.Command {
	demo := false
	set := settings.New()
	set.Add(g.serving)
	set.Add(g.measuring)
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Measure this machine and answer queries, all in one process",
		Long: `up starts the agent, the store and the API in one process. Within seconds it shows who
uses what on this machine, and records it from then on.

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
			if demo {
				if err := checkDemoFlags(set, g); err != nil {
					return err
				}
			}
			return runUp(cmd.Context(), g, demo)
		},
	}
	set.Attach(cmd, toUsageError)
	cmd.Flags().BoolVar(&demo, "demo", false, "show a simulated site, with a week behind it, instead of this machine")
	return cmd
}

// spareMemory is the idle heap memory in bytes: half of what writing a block of ended series takes.
const spareMemory = 10 << 20

func runUp(ctx context.Context, g *globals, demo bool) error {
	resident.LimitMemory()
	if g.getenv("GOGC") == "" {
		debug.SetGCPercent(50) // most of the heap is long-lived series: allow less garbage
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := g.serverOptions.serverConfig(g, 24*time.Hour)
	switch {
	case err != nil:
		return err
	case demo && !g.stores.isEmpty():
		return &usageError{errors.New("--demo keeps its simulated data in the data directory; drop --store and --catalogue")}
	case demo:
		c.APISocket, c.ScrapeConfig = "", ""
		return runDemo(ctx, g, demoOptions{data: c.Data, config: c, log: c.Logger})
	}
	c.Receive = true
	c.Agent = &g.agent.Config
	c.Agent.StoreCompat = true
	c.Socket, c.SocketWanted = pushSocket(g.agent.Socket, g.getenv)
	resident.Trim(ctx, spareMemory)
	s, err := server.Open(ctx, c)
	if err != nil {
		return err
	}
	began := time.Now()
	printStart(g, s)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	select {
	case <-s.First():
		printBusiest(ctx, g, s, began)
	case err := <-done:
		return err
	case <-time.After(9 * time.Second):
		fmt.Fprintln(g.stdout, "Nothing that was measured since this start is in the lists yet; `reckon jobs` will show it.")
	}
	err = <-done
	if err == nil {
		fmt.Fprintln(g.stdout, "\nStopped. The numbers are in "+c.Data+"; `reckon up` resumes from here.")
	}
	return err
}

// printStart prints the addresses and paths, and the unavailable sensors with their reasons.
func printStart(g *globals, s *server.Server) {
	fmt.Fprintf(g.stdout, "reckon %s measures %s at %s (%s)\n",
		buildinfo.Get().Version, s.Agent().Node(), s.URL(), g.stores.describe(g.serverOptions.Data))
	fmt.Fprintf(g.stdout, "Reading %s.\n", s.Agent().Reading())
	noted := func(name string) bool {
		return slices.ContainsFunc(s.Notes(), func(n agent.Note) bool { return n.Sensor == name })
	}
	if noted(task.OtherUsers) {
		fmt.Fprintln(g.stdout, "It sees no processes of other users, as /proc hides them: what they use counts as other.")
	} else {
		fmt.Fprintln(g.stdout, describeView(os.Geteuid() == 0, s.Agent().SeesOthersIO(), s.Agent().ReadsExits(), noted(task.PIDNamespace)))
	}
	printSensorNotes(g.stdout, s.Notes())
}

// describeView describes the visibility of other users' processes. inside means that those outside the pid namespace are hidden.
func describeView(root, io, ends, inside bool) string {
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

// printSensorNotes lists the unavailable sensors. A sensor with a remedy, or one that the kernel refused, has a line. The
// others are only named, because most machines lack most hardware.
func printSensorNotes(w io.Writer, notes []agent.Note) {
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
	for i, n := range notes {
		same := func(o agent.Note) bool { return !lacks(o) && o.Err.Error() == n.Err.Error() }
		switch {
		case lacks(n):
			absent = append(absent, n.Sensor)
			continue
		case slices.ContainsFunc(notes[:i], same):
			continue // its name stands with the first of that reason
		}
		names := n.Sensor
		for _, o := range notes[i+1:] {
			if same(o) {
				names += ", " + o.Sensor
			}
		}
		fmt.Fprintf(w, "%s  %-*s %v\n", title, wide, names, n.Err)
		title = ""
	}
	if len(absent) > 0 {
		fmt.Fprintf(w, "\nNo data sources here for %s; see `reckon nodes`.\n", strings.Join(absent, ", "))
	}
}

// printBusiest prints the workloads with the highest use so far, and since when that is measured.
func printBusiest(ctx context.Context, g *globals, s *server.Server, began time.Time) {
	c, err := client.New("", client.WithHTTP(s.InProcessClient()))
	if err != nil {
		return
	}
	running := true
	list, err := c.Workloads(ctx, client.Filter{Running: &running, Sort: "-cpu_seconds", Limit: 10})
	if err != nil {
		fmt.Fprintln(g.stderr, "reckon: the first table: "+toOneLine(err))
		return
	}
	if list.Total == 0 {
		fmt.Fprintln(g.stdout, "\nNothing runs here that was measured; `reckon jobs` shows what ended.")
		return
	}
	screen := g.screen()
	fmt.Fprintf(g.stdout, "\nThe %d of %d workloads that have used the most CPU time:\n\n", len(list.Workloads), list.Total)
	marks := marked{}
	table := marks.jobTable(list.Workloads, time.Now())
	rows := table.MarkRows(format.Mark(figure.AtLeast))
	if err := table.Print(screen); err != nil {
		return
	}
	if text := marks.legend(); text != "" {
		fmt.Fprintln(g.stdout, text)
	}
	if !began.IsZero() { // a demonstration measures nothing
		fmt.Fprintf(g.stdout, "Measured since %s.", began.Format(time.TimeOnly))
		if rows > 0 {
			fmt.Fprint(g.stdout, " Rows that begin with >= ran before: their figures are lower bounds, from what /proc still counts.")
		}
		fmt.Fprintln(g.stdout)
	}
	fmt.Fprintf(g.stdout, "\nWhat now:\n"+
		"  %[1]s top         live view\n"+
		"  %[1]s jobs        everything that was measured\n"+
		"  %[1]s job ID      one workload in full\n"+
		"  %[2]s   the pages, in a browser\n"+
		"Ctrl-C stops.\n", g.commandLine(os.Args[0], s.URL(), s.APISocket()), s.URL())
}

// commandLine returns the start of a command line that asks the server at url and socket, from a shell that ran program.
func (g *globals) commandLine(program, url, socket string) string {
	if !strings.Contains(program, "/") { // as it was called: it need not be in the path
		program = "reckon"
	}
	if at := g.serverAddress(); at != url && at != "unix:"+socket { // as where another server has the socket
		program += " --server " + url
	}
	return program
}

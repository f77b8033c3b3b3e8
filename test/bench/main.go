// Command bench measures reckon, area by area, beside its peers where they are installed:
//
//	go run ./test/bench AREA [flags of the area]        # make bench AREA=fleet
//	go run ./test/bench -short AREA                     # a small load, to see that it runs
//	go run ./test/bench -markdown doc/benchmarks.md AREA
//	go run ./test/bench                                 # lists the areas
//
// All programs listen on the loopback address, write below one temporary directory that is removed, and end by themselves.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"reckon/test/bench/energy"
	"reckon/test/bench/foresight"
	"reckon/test/bench/machine"
	"reckon/test/bench/measure"
	"reckon/test/bench/power"
	"reckon/test/bench/site"
	"reckon/test/bench/stores"
)

// benchArea is one measured area.
type benchArea struct {
	name, what, short string // short has the flags of -short
	run               func(ctx context.Context, e *measure.Env, args []string) error
}

var areas = []benchArea{
	{"node", "reckon-agent and reckon up on a node, beside node_exporter and process_exporter", "-idle 100 -busy 20 -rest 2s -scrapes 2",
		machine.Node},
	{"churn", "reckon up, of several versions, beside process groups that come and go", "-rate 5 -life 2s -time 10s -every 5s -settle 4s",
		machine.Churn},
	{"stress", "how near reckon stress and stress-ng come to a load", "-for 2s -loads 40", machine.Stress},
	{"energy", "a tick of attribution, the view of Kepler's names, and the sensors of energy", "-workloads 100 -rounds 1", energy.Run},
	{"fleet", "a server that a site sends to, beside Prometheus and VictoriaMetrics", "-nodes 10 -warm 1m -for 1m -speed 6", site.Fleet},
	{"pages", "the questions of a page over a year of one node", "-for 72h -rounds 1", site.Pages},
	{"catalogue", "lists, usage and pages over a million jobs", "-jobs 20000 -pages 5", stores.Catalogue},
	{"findings", "a look for misuse in a day of a busy site", "-jobs 500 -nodes 8", stores.Findings},
	{"graph", "the knowledge graph: writes, reads, and the query of a client", "-statements 5000 -pods 50 -for 1s -burst 20", stores.Graph},
	{"foresight", "forecasts, right-size, placing and anomalies on public data, beside their rivals", "-every 50", foresight.Run},
	{"power", "power models on public data, beside their rivals", "", power.Run},
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == machine.BusyArg {
		machine.RunBusy()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	bin := f.String("bin", "bin", "folder of reckon and reckon-agent")
	short := f.Bool("short", false, "a small load, which shows that the area runs")
	markdown := f.String("markdown", "", "file in which to replace the section of the area")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() == 0 {
		for _, a := range areas {
			fmt.Fprintf(out, "%-10s %s\n", a.name, a.what)
		}
		return nil
	}
	for _, a := range areas {
		if a.name != f.Arg(0) {
			continue
		}
		dir, err := os.MkdirTemp("", "reckon-bench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		given := f.Args()[1:]
		if *short {
			given = append(strings.Fields(a.short), given...)
		}
		var text bytes.Buffer
		e := &measure.Env{Out: io.MultiWriter(out, &text), Bin: *bin, Dir: dir}
		if os.Getenv(machine.Inside) == "" {
			e.Printf("Measured %s on %s, by `go run ./test/bench %s`: %s.\n",
				time.Now().UTC().Format(time.DateOnly), measure.Machine(), strings.TrimSpace(a.name+" "+strings.Join(given, " ")), a.what)
		}
		if err := a.run(ctx, e, given); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		if *markdown == "" {
			return nil
		}
		return replaceSection(*markdown, a.name, text.String())
	}
	return fmt.Errorf("no area is named %s; without a word the areas are listed", f.Arg(0))
}

// replaceSection replaces the text between <!-- name begin --> and <!-- name end --> in a file. It creates the file or
// appends the section if either is missing.
func replaceSection(path, name, text string) error {
	begin, end := "<!-- "+name+" begin -->", "<!-- "+name+" end -->"
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	old := cmp.Or(string(data), "# Benchmarks\n")
	before, rest, ok := strings.Cut(old, begin)
	_, after, closed := strings.Cut(rest, end)
	switch {
	case ok && !closed:
		return fmt.Errorf("%s: %s without %s", path, begin, end)
	case !ok:
		before, after = strings.TrimRight(old, "\n")+"\n\n", "\n"
	}
	return os.WriteFile(path, []byte(before+begin+"\n"+text+end+after), 0o644)
}

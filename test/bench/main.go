// Command bench measures what reckon costs on a node, and beside it, in the same run
// and on the same processes, the exporters that Debian has.
//
// Each program runs alone, on a machine with 0, 1,000 and 5,000 idle processes more
// than there were, and with 200 that run a little five times a second. Its CPU time is
// read from the kernel's clock of the process (clock_gettime(2), clock_getcpuclockid(3)),
// to the nanosecond: first with nobody asking, then while its page is scraped.
// The processes are in groups of 20, each a workload to reckon; -group 1 is the worst
// case, in which every process is one. Programs that are not there are named and left out.
//
//	go run ./test/bench                                  # what make bench does
//	go run ./test/bench -markdown doc/benchmarks.md      # and keep the tables
//	go run ./test/bench -idle 1000 -only reckon-agent    # one of them
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type options struct {
	bin      string
	idle     []int
	busy     int
	group    int
	rest     time.Duration
	scrapes  int
	only     string
	markdown string
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == busyArg {
		beBusy()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	idle := f.String("idle", "0,1000,5000", "how many idle processes to add, one table for each")
	f.StringVar(&o.bin, "bin", "bin", "folder of reckon and reckon-agent")
	f.IntVar(&o.busy, "busy", 200, "processes that run a little in the last table; 0 leaves it out")
	f.IntVar(&o.group, "group", 20, "processes in a process group, which is a workload to reckon")
	f.DurationVar(&o.rest, "rest", 15*time.Second, "how long each program is measured without a scrape")
	f.IntVar(&o.scrapes, "scrapes", 20, "how often each program is scraped")
	f.StringVar(&o.only, "only", "", "measure only programs whose name contains this")
	f.StringVar(&o.markdown, "markdown", "", "file in which to replace the section `node` by the tables")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	for s := range strings.SplitSeq(*idle, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 0 || n > 20000 {
			return o, fmt.Errorf("-idle %q: give numbers from 0 to 20000 with commas between them", *idle)
		}
		o.idle = append(o.idle, n)
	}
	if o.group < 1 {
		return o, fmt.Errorf("-group %d: a group has at least one process", o.group)
	}
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "reckon-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	targets, missing, err := targets(o, dir)
	if err != nil {
		return err
	}
	for _, m := range missing {
		fmt.Fprintf(out, "left out: %s\n", m)
	}
	r := report{Date: time.Now(), Machine: machine(), Missing: missing,
		Command: strings.Join(append([]string{"go run ./test/bench"}, args...), " ")}
	crowd := newCrowd(o.group)
	defer crowd.end()
	for _, n := range o.idle {
		if err := crowd.idle(ctx, n); err != nil {
			return err
		}
		if err := r.measure(ctx, o, targets, fmt.Sprintf("%d idle processes more, %d to a process group", n, o.group), out); err != nil {
			return err
		}
	}
	if o.busy > 0 {
		crowd.end()
		if err := crowd.busy(ctx, o.busy); err != nil {
			return err
		}
		if err := r.measure(ctx, o, targets, fmt.Sprintf("%d busy processes more, %d to a process group", o.busy, o.group), out); err != nil {
			return err
		}
	}
	if o.markdown == "" {
		return nil
	}
	return replaceSection(filepath.Clean(o.markdown), "node", r.markdown())
}

// measure runs every program in turn among the processes that are there now.
func (r *report) measure(ctx context.Context, o options, targets []target, title string, out io.Writer) error {
	t := table{Title: title, Processes: countProcesses()}
	for _, target := range targets {
		row, err := target.measure(ctx, o)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			row.Note = firstLine(err.Error()) // one that fails does not hide the others
		}
		row.Name = target.name
		t.Rows = append(t.Rows, row)
	}
	r.Tables = append(r.Tables, t)
	return t.print(out)
}

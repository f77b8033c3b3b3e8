// Command pages measures how long a year of one node takes to be shown, over a real store.
//
// A node is made up (package simulate) with its users, jobs and services, and a year of it,
// exported once a minute, is written into the data directory of a server; the hours of it are
// made by the server's own store/hourly. `reckon serve` then answers what the page of the
// node asks for a year and for a month, over HTTP, twice: with the hours, and without them
// from all samples. Where Node and Chromium are, the page itself is opened in it.
//
//	go run ./test/bench/pages                     # ten minutes to make, 600 MB of disk
//	go run ./test/bench/pages -for 720h           # a month
//	go run ./test/bench/pages -dir year           # keeps the directory; measures it again
//
// Everything listens on the loopback address and ends by itself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"reckon/lab/simulate"
	"reckon/lab/simulation"
	"reckon/server"
	"reckon/store/hourly"
	"reckon/store/tsdb"
)

type options struct {
	bin, dir string
	span     time.Duration
	rounds   int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "pages:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	var o options
	f := flag.NewFlagSet("pages", flag.ContinueOnError)
	f.StringVar(&o.bin, "bin", "bin/reckon", "the program")
	f.StringVar(&o.dir, "dir", "", "data directory, kept; one that is there is measured as it is (default: a temporary one)")
	f.DurationVar(&o.span, "for", 365*24*time.Hour, "how long the node has been measured")
	f.IntVar(&o.rounds, "rounds", 5, "how often each question is asked; the median counts")
	if err := f.Parse(args); err != nil {
		return err
	}
	if o.rounds < 1 || o.span < 24*time.Hour || o.span > 2*365*24*time.Hour {
		return errors.New("give -rounds 1 or more and -for between a day and two years")
	}
	if o.dir == "" {
		tmp, err := os.MkdirTemp("", "reckon-bench-pages-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		o.dir = filepath.Join(tmp, "data")
	}
	if _, err := os.Stat(filepath.Join(o.dir, "series")); errors.Is(err, os.ErrNotExist) {
		if err := fill(ctx, o, out); err != nil {
			return err
		}
	}
	if err := hours(ctx, o.dir, out); err != nil {
		return err
	}
	for _, with := range []bool{true, false} {
		if err := measure(ctx, o, with, out); err != nil {
			return err
		}
	}
	return nil
}

// fill makes the node up and writes its past.
func fill(ctx context.Context, o options, out io.Writer) error {
	site, err := simulate.New(simulate.Config{Nodes: 1, Cores: 16, Jobs: int(o.span.Hours() / 24 * 12), Seed: 1, From: time.Now().Add(-o.span), For: o.span})
	if err != nil {
		return err
	}
	fleet := simulation.New(simulation.Config{Site: site, Version: "bench"})
	done, err := simulation.Fill(ctx, fleet, o.dir, "bench", slog.New(slog.DiscardHandler),
		simulation.Stretch{Until: site.End(), Tick: time.Minute, Export: time.Minute})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%.0f million samples of %d workloads in %.0f days of one node, written in %.0f s\n",
		float64(done.Samples)/1e6, done.Workloads, o.span.Hours()/24, (done.Writing + done.Counting).Seconds())
	return nil
}

// hours makes what is not made yet.
func hours(ctx context.Context, dir string, out io.Writer) (err error) {
	samples, err := tsdb.Open(tsdb.Options{Dir: filepath.Join(dir, "series"), Retention: -1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, samples.Close()) }()
	h, err := hourly.Open(hourly.Options{Dir: filepath.Join(dir, server.HourlyDir), Raw: samples})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	st, err := samples.Status()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := h.Pass(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "hours made in %.1f s: %.1f MB beside %.0f MB of samples at one a minute\n", time.Since(began).Seconds(), float64(h.Bytes())/1e6, float64(st.Bytes)/1e6)
	return nil
}

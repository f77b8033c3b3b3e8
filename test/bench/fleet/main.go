// Command fleet measures what a server costs that a whole site sends to: `reckon serve`,
// and beside it, in the same run and on the same samples, Prometheus and VictoriaMetrics
// from Debian where they are installed.
//
// The site is made up (package simulate); each of its nodes is read by an agent and pushes
// with a queue and a connection of its own, by remote write 2.0 to reckon and 1.0 to the
// others, which is the best that those releases know. Meanwhile each server is asked
// questions, one after the other. CPU time is that of each server alone, from
// /proc/PID/stat; the agents run in this process and are not in it.
//
//	go run ./test/bench/fleet                          # 1,000 nodes at 15 s, three minutes
//	go run ./test/bench/fleet -nodes 10000 -only reckon -export 60s -tick 60s -for 5m
//	go run ./test/bench/fleet -cut                     # and all of them cut off for an hour
//	go run ./test/bench/fleet -disk                    # 12 nodes, eight hours: bytes on disk
//	go run ./test/bench/fleet -growth                  # twice the nodes, jobs, history
//
// Everything listens on the loopback address, writes below one temporary directory that
// is removed, and ends by itself.
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
	"strings"
	"syscall"
	"time"
)

type options struct {
	bin, only, markdown, keep string
	against                   string
	nodes, jobs, senders      int
	span, warm, tick, export  time.Duration
	profile                   string
	speed                     float64
	cut, disk, growth         bool
	cutFor                    time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	var o options
	f := flag.NewFlagSet("fleet", flag.ContinueOnError)
	f.StringVar(&o.bin, "bin", "bin", "folder of reckon")
	f.StringVar(&o.against, "against", "", "folder of another reckon, which is measured beside it as \"before\"")
	f.StringVar(&o.only, "only", "", "measure only servers whose name contains this")
	f.StringVar(&o.markdown, "markdown", "", "file to which the tables are appended")
	f.StringVar(&o.keep, "dir", "", "directory to work in, kept afterwards (default: a temporary one)")
	f.IntVar(&o.nodes, "nodes", 1000, "nodes of the site")
	f.IntVar(&o.jobs, "jobs", 0, "jobs (default 20 a node and day)")
	f.IntVar(&o.senders, "senders", 0, "processes that simulate the nodes (default: as many as the limit of open files asks for)")
	f.DurationVar(&o.span, "for", 3*time.Minute, "simulated time that is measured")
	f.DurationVar(&o.warm, "warm", time.Minute, "simulated time before that, in which series begin and nodes are first described")
	f.DurationVar(&o.export, "export", 15*time.Second, "time between two exports of a node")
	f.DurationVar(&o.tick, "tick", 5*time.Second, "time between two readings of a node")
	f.StringVar(&o.profile, "profile", "", "record the measured stretch of the first server with perf(1) into this file")
	f.Float64Var(&o.speed, "speed", 1, "simulated seconds in a second; 0 is as many as can be")
	f.BoolVar(&o.cut, "cut", false, "then cut all nodes off for an hour of simulated time")
	f.DurationVar(&o.cutFor, "cut-for", time.Hour, "how long")
	f.BoolVar(&o.disk, "disk", false, "measure bytes on disk, with at most 12 nodes and at least eight hours")
	f.BoolVar(&o.growth, "growth", false, "measure how reckon grows with nodes, jobs and history")
	if err := f.Parse(args); err != nil {
		return err
	}
	if o.nodes < 1 || o.nodes > 12_000 || o.span < time.Minute || o.span > 48*time.Hour || o.warm < time.Minute || o.warm > time.Hour {
		return errors.New("give 1 to 12,000 nodes and a time of one minute to two days: this is a bounded load")
	}
	if o.senders == 0 {
		o.senders = sendersNeeded(o.nodes)
	}
	dir := o.keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "reckon-fleet-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	var text strings.Builder
	both := io.MultiWriter(out, &text)
	fmt.Fprintf(both, "\nMeasured %s on %s, by `go run ./test/bench/fleet %s`.\n", time.Now().UTC().Format(time.DateOnly), machine(), strings.Join(args, " "))
	switch {
	case o.growth:
		err = growth(ctx, o, dir, both)
	case o.disk:
		err = disk(ctx, o, dir, both)
	case o.senders > 1:
		err = apart(ctx, o, dir, both)
	default:
		err = load(ctx, o, dir, both)
	}
	if err != nil || o.markdown == "" {
		return err
	}
	file, err := os.OpenFile(o.markdown, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text.String())
	return errors.Join(err, file.Close())
}

// Package site measures a server that receives a whole site, in comparison with Prometheus and
// VictoriaMetrics, and the pages of a node over a year.
package site

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"reckon/lab/simulation"
	"reckon/metric"
	"reckon/test/bench/measure"
)

type fleetOptions struct {
	only, against, profile   string
	nodes, jobs, senders     int
	span, warm, tick, export time.Duration
	speed                    float64
	cutFor                   time.Duration
}

// Fleet measures the cost of a server that receives the samples of a whole site. It measures `reckon serve`, and, if
// they are installed, Prometheus and VictoriaMetrics with the same samples. Each simulated node pushes with its own
// queue and connection, by remote write 2.0 to reckon and 1.0 to the others, because these releases support no later
// version. At the same time each server answers queries in sequence. The reported CPU time is the server's alone.
//
//	go run ./test/bench fleet                          # 1,000 nodes at 15 s, three minutes
//	go run ./test/bench fleet -nodes 10000 -only reckon -export 60s -tick 60s -for 5m
//	go run ./test/bench fleet -cut                     # and all of them disconnected for an hour
//	go run ./test/bench fleet -disk                    # 12 nodes, eight hours: bytes on disk
//	go run ./test/bench fleet -growth                  # twice the nodes, jobs, history
func Fleet(ctx context.Context, e *measure.Env, args []string) error {
	var o fleetOptions
	f := flag.NewFlagSet("fleet", flag.ContinueOnError)
	f.StringVar(&o.against, "against", "", "folder of another reckon, which is measured beside it as \"before\"")
	f.StringVar(&o.only, "only", "", "measure only servers whose name contains this")
	f.StringVar(&o.profile, "profile", "", "record the measured stretch of the first server with perf(1) into this file")
	f.IntVar(&o.nodes, "nodes", 1000, "nodes of the site")
	f.IntVar(&o.jobs, "jobs", 0, "jobs (default 20 a node and day)")
	f.IntVar(&o.senders, "senders", 0, "processes that simulate the nodes (default: as many as the limit of open files asks for)")
	f.DurationVar(&o.span, "for", 3*time.Minute, "simulated time that is measured")
	f.DurationVar(&o.warm, "warm", time.Minute, "simulated time before that, in which series begin and nodes are first described")
	f.DurationVar(&o.export, "export", 15*time.Second, "time between two exports of a node")
	f.DurationVar(&o.tick, "tick", 5*time.Second, "time between two readings of a node")
	f.Float64Var(&o.speed, "speed", 1, "simulated seconds in a second; 0 is as many as can be")
	f.DurationVar(&o.cutFor, "cut-for", time.Hour, "how long -cut lasts")
	cut := f.Bool("cut", false, "then cut all nodes off")
	disk := f.Bool("disk", false, "measure bytes on disk, with at most 12 nodes and at least eight hours")
	growth := f.Bool("growth", false, "measure how reckon grows with nodes, jobs and history")
	if err := f.Parse(args); err != nil {
		return err
	}
	if o.nodes < 1 || o.nodes > 12_000 || o.span < time.Minute || o.span > 48*time.Hour || o.warm < time.Minute || o.warm > time.Hour {
		return errors.New("give 1 to 12,000 nodes and a time of one minute to two days: this is a bounded load")
	}
	if o.senders == 0 {
		o.senders = sendersNeeded(o.nodes)
	}
	switch {
	case *growth:
		return o.runGrowth(ctx, e)
	case *disk:
		return o.runDisk(ctx, e)
	case o.senders > 1:
		if *cut || o.speed != 1 {
			return fmt.Errorf("%d sending processes measure reckon alone, in real time: without -cut and -speed", o.senders)
		}
		return o.runSeparately(ctx, e)
	}
	return o.runLoad(ctx, e, *cut)
}

// sendersNeeded returns the number of sender processes for the given number of nodes, such that each process stays below three quarters
// of the limit of open files. A node keeps four files open: its connection, and the lock, the position and a segment of its queue.
func sendersNeeded(nodes int) int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 1
	}
	most := max(int(min(limit.Cur, 1<<20))*3/16, 1)
	return (nodes + most - 1) / most
}

// columns are the columns of a server that nodes send to.
var columns = []string{"server", "samples", "CPU per million samples", "CPU in real time", "resident", "on disk", "query p50", "p95",
	"page p50", "p95", "failed"}

// printResults writes the measurements of servers for a site that was simulated for the given seconds.
func (b *siteBed) printResults(row func(string, ...any), seconds float64) error {
	for _, s := range b.all {
		size, err := measure.BytesOf(s.data)
		if err != nil {
			return err
		}
		row("%s | %.1f M | %.2f s | %.1f %% of a core | %.0f MB | %.0f MB | %s | %s | %s | %s | %d", s.Name, s.samples/1e6,
			s.used.Seconds()/(s.samples/1e6),
			100*s.used.Seconds()/seconds, s.memory/1e6, float64(size)/1e6, measure.Quantile(s.queries, 0.5), measure.Quantile(s.queries,
				0.95),
			measure.Quantile(s.pages, 0.5), measure.Quantile(s.pages, 0.95), s.failed)
	}
	return nil
}

func (o fleetOptions) runLoad(ctx context.Context, e *measure.Env, cut bool) error {
	whole := o.span + o.warm
	if cut {
		whole += o.cutFor + 5*time.Minute
	}
	b, err := o.startBed(ctx, e, e.Dir, whole, o.speed)
	if err != nil {
		return err
	}
	defer b.stop()
	if _, err := b.simulate(ctx, o.warm, o.speed, nil); err != nil { // series are made, connections opened
		return err
	}
	if left := b.out.Drain(ctx, 5*time.Minute); left.Exports > 0 { // all series begin at once
		return fmt.Errorf("%d exports of the warm-up are not taken: %s; taken: %v", left.Exports, left.Error, b.out.Sent())
	}
	p, err := b.measureStretch(ctx, o.span, o.speed)
	if err != nil {
		return err
	}
	row := e.Table(fmt.Sprintf("%d nodes at %v, %d samples in an export on average, %.3g times as fast as the clock; "+
		"%d jobs ran and %d waited",
		o.nodes, o.export, p.Samples/max(p.Batches, 1), p.Speed(), p.Live, p.Waiting), columns...)
	if err := b.printResults(row, p.Passed.Seconds()); err != nil || !cut {
		return err
	}
	return b.cutOff(ctx, e)
}

// cutOff stops the servers while the site continues, starts them again and waits until every queue is empty.
func (b *siteBed) cutOff(ctx context.Context, e *measure.Env) error {
	was, sent := b.out.Backlog(), b.out.Sent()
	for _, s := range b.all {
		s.Stop()
	}
	p, err := b.simulate(ctx, b.o.cutFor, 0, nil)
	if err != nil {
		return err
	}
	held := b.out.Backlog()
	size, err := measure.BytesOf(b.queues)
	if err != nil {
		return err
	}
	all := float64(p.Samples) * float64(len(b.all))
	began, ours := time.Now(), measure.OwnCPU()
	for _, s := range b.all {
		if err := s.Start(ctx); err != nil {
			return err
		}
	}
	left := b.out.Drain(ctx, 20*time.Minute)
	took, after := time.Since(began), b.out.Sent()
	row := e.Table(fmt.Sprintf("%d nodes cut off for %v: %d exports of %.0f M samples waited in their queues, %.0f MB on disk "+
		"(%.1f bytes a sample and endpoint), "+
		"sent within %v of the return by %.0f s of CPU time of the senders; %d refused, %d lost, %d dropped, %d left", b.o.nodes,
		b.o.cutFor, held.Exports, all/1e6,
		float64(size)/1e6, float64(size)/all, took.Round(time.Second), (measure.OwnCPU()-ours).Seconds(), left.Refused-was.Refused,
		left.Lost-was.Lost,
		left.Dropped-was.Dropped, left.Exports), "server", "taken", "CPU")
	for _, s := range b.all {
		row("%s | %.1f M | %.0f s", s.Name, float64(after[s.Name]-sent[s.Name])/1e6, s.CPU().Seconds())
	}
	if left.Exports > 0 || left.Lost > was.Lost || left.Dropped > was.Dropped {
		return errors.New("samples were lost")
	}
	return nil
}

// runDisk sends eight hours of a small site, so that the servers write blocks, and measures the size of a sample.
func (o fleetOptions) runDisk(ctx context.Context, e *measure.Env) error {
	o.nodes, o.span = min(o.nodes, 12), max(o.span, 8*time.Hour)
	b, err := o.startBed(ctx, e, e.Dir, o.span, 0)
	if err != nil {
		return err
	}
	defer b.stop()
	b.out.Strict = true // samples that come hours late are not measured here
	p, err := b.measureStretch(ctx, o.span, 0)
	if err != nil {
		return err
	}
	row := e.Table(fmt.Sprintf("%d nodes at 15 s, %v of simulated time in %v: %.1f M samples", o.nodes, o.span, p.Took.Round(time.Second),
		float64(p.Samples)/1e6),
		"server", "CPU per million samples", "resident", "everything on disk", "bytes a sample, in blocks")
	for _, s := range b.all {
		s.Stop() // write the memory to the log, so that nothing is half written
		size, err := measure.BytesOf(s.data)
		if err != nil {
			return err
		}
		row("%s | %.2f s | %.0f MB | %.1f MB | %s", s.Name, s.used.Seconds()/(s.samples/1e6), s.memory/1e6, float64(size)/1e6,
			s.blockSize(float64(size)))
	}
	return nil
}

// runGrowth doubles one quantity after the other and measures reckon alone, for four simulated minutes each, as fast as possible.
func (o fleetOptions) runGrowth(ctx context.Context, e *measure.Env) error {
	const full = 50 * time.Minute // after so long a site is as full of jobs as it gets
	o.only = "reckon"
	row := e.Table("", "site", "jobs that run", "series", "samples/s in real time", "CPU in real time", "resident", "query p95")
	for i, c := range []struct {
		what        string
		nodes, jobs int
		after       time.Duration // how long the site has worked before
	}{
		{"125 nodes", 125, 1250, 0}, {"250 nodes", 250, 2500, 0}, {"500 nodes", 500, 5000, 0}, {"1,000 nodes", 1000, 10000, 0},
		{"200 nodes, few jobs", 200, 1000, full}, {"200 nodes, four times the jobs", 200, 4000, full}, {"200 nodes, 16 times the jobs",
			200, 16000, full},
	} {
		o.nodes, o.jobs = c.nodes, c.jobs
		b, err := o.startBed(ctx, e, filepath.Join(e.Dir, strconv.Itoa(i)), c.after+5*time.Minute, 0)
		if err != nil {
			return err
		}
		_, err = b.simulate(ctx, c.after, 0, discardSink{})
		if err == nil {
			_, err = b.simulate(ctx, time.Minute, 0, nil)
		}
		var p simulation.Progress
		if err == nil {
			b.out.Drain(ctx, 2*time.Minute)
			p, err = b.measureStretch(ctx, 4*time.Minute, 0)
		}
		b.stop()
		if err != nil {
			return err
		}
		s, seconds := b.all[0], p.Passed.Seconds()
		row("%s | %d | %.0f k | %.0f | %.1f %% of a core | %.0f MB | %s", c.what, p.Live, float64(p.Samples)/float64(max(p.Batches,
			1))*float64(c.nodes)/1e3,
			float64(p.Samples)/seconds, 100*s.used.Seconds()/seconds, s.memory/1e6, measure.Quantile(s.queries, 0.95))
	}
	return nil
}

// discardSink is a sink that keeps nothing.
type discardSink struct{}

func (discardSink) Put(context.Context, string, *metric.Batch) error { return nil }

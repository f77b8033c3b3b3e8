package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"reckon/lab/simulate"
	"reckon/lab/simulation"
	"reckon/transport/push"
)

// row is what was measured of one server.
type row struct {
	name    string
	samples uint64
	cpu     time.Duration
	memory  int64
	queries []time.Duration
	pages   []time.Duration // what the pages of reckon ask
	failed  int
}

// bed is a site with servers to send to.
type bed struct {
	o     options
	all   []*server
	site  *simulate.Site
	fleet *simulation.Fleet
	out   *simulation.Push
}

// set starts servers and a site that sends to them.
func set(ctx context.Context, o options, dir string, w io.Writer, span time.Duration, speed float64) (*bed, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	all, missing := servers(o, dir)
	for _, m := range missing {
		fmt.Fprintf(w, "Left out: %s.\n", m)
	}
	if len(all) == 0 {
		return nil, errors.New("no server is here; build reckon with `make build`")
	}
	ahead := time.Duration(0)
	if speed > 0 {
		ahead = time.Duration(float64(span) / speed)
	}
	site, err := simulate.New(simulate.Config{
		Nodes: o.nodes, Jobs: o.jobs, GPUNodes: o.nodes / 8, Seed: 1, For: max(span, time.Hour),
		From: time.Now().Add(min(ahead-span, 0)),
	})
	if err != nil {
		return nil, err
	}
	b := &bed{o: o, all: all, site: site, fleet: simulation.New(simulation.Config{Site: site})}
	var ends []push.Endpoint
	for _, s := range all {
		if err := s.start(ctx); err != nil {
			b.stop()
			return nil, err
		}
		ends = append(ends, s.end)
	}
	b.out, err = simulation.NewPush(simulation.PushConfig{Endpoints: ends, Site: "bench", Nodes: site.Names(), Dir: filepath.Join(dir, "queues"), UserAgent: "reckon-bench"})
	if err != nil {
		b.stop()
		return nil, err
	}
	return b, nil
}

func (b *bed) stop() {
	if b.out != nil {
		_ = b.out.Close(0)
	}
	for _, s := range b.all {
		s.stop()
	}
}

// go on by a stretch of simulated time.
func (b *bed) goOn(ctx context.Context, d time.Duration, speed float64, sink simulation.Sink) (simulation.Progress, error) {
	if sink == nil {
		sink = b.out
	}
	return b.fleet.Run(ctx, simulation.Stretch{Until: b.fleet.Now().Add(d), Tick: b.o.tick, Export: b.o.export, Speed: speed}, sink)
}

// measure runs a stretch and measures the servers meanwhile.
func (b *bed) measure(ctx context.Context, d time.Duration, speed float64) ([]row, simulation.Progress, error) {
	rows := make([]row, len(b.all))
	before := b.out.Sent()
	for i, s := range b.all {
		rows[i] = row{name: s.name, cpu: -s.cpu()}
	}
	asking, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for i, s := range b.all {
		wg.Go(func() { rows[i].queries, rows[i].failed = ask(asking, s, time.Second, queries()) })
	}
	failed := make([]int, len(b.all))
	for i, s := range b.all {
		if s.name == "reckon" || s.name == "before" {
			wg.Go(func() { rows[i].pages, failed[i] = ask(asking, s, 5*time.Second, pages()) })
		}
	}
	recorded := b.record(asking)
	p, err := b.goOn(ctx, d, speed, nil)
	stop()
	recorded()
	wg.Wait()
	if err != nil {
		return nil, p, err
	}
	b.out.Drain(ctx, 2*time.Minute)
	after := b.out.Sent()
	for i, s := range b.all {
		rows[i].failed += failed[i]
		rows[i].cpu += s.cpu()
		rows[i].memory = s.memory()
		rows[i].samples = after[s.name] - before[s.name]
	}
	return rows, p, nil
}

// record profiles the first server until ctx ends, where that is wanted.
func (b *bed) record(ctx context.Context) (end func()) {
	if b.o.profile == "" {
		return func() {}
	}
	cmd := exec.CommandContext(ctx, "perf", "record", "-q", "-F", "99", "-g", "-p", strconv.Itoa(b.all[0].cmd.Process.Pid), "-o", b.o.profile)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "fleet: perf:", err)
		return func() {}
	}
	return func() { _ = cmd.Wait() } // it was interrupted
}

// queries are what people and dashboards ask.
func queries() (list []*http.Request) {
	for _, q := range []string{
		`sum by (owner) (rate(reckon_workload_cpu_seconds_total[2m]))`,
		`topk(10, sum by (workload) (rate(reckon_workload_cpu_seconds_total[2m])))`,
		`node_load1`,
		`sum(reckon_workload_memory_bytes{type="anon"})`,
		`reckon_workload_cpu_seconds_total{node="cpu0001"}`,
	} {
		list = append(list, request("/api/v1/query?"+url.Values{"query": {q}}.Encode()))
	}
	return list
}

// pages are what the pages of reckon ask about the whole site and one node of it.
func pages() (list []*http.Request) {
	for _, path := range []string{
		"workloads?limit=100&running=true&sort=-cpu_seconds", "workloads?limit=100&since=24h&sort=-start", "workloads?limit=100&node=cpu0001",
		"usage?by=owner&since=24h", "usage?by=owner&by=kind&since=7d", "usage?by=node&since=24h", "nodes",
	} {
		list = append(list, request("/api/reckon/v1/"+path))
	}
	return list
}

func request(path string) *http.Request {
	r, err := http.NewRequest(http.MethodGet, path, http.NoBody)
	if err != nil {
		panic(err) // the paths are above
	}
	return r
}

// ask asks one question after the other, with a rest in between, until ctx ends.
func ask(ctx context.Context, s *server, rest time.Duration, list []*http.Request) (took []time.Duration, failed int) {
	client := &http.Client{Timeout: time.Minute}
	tick := time.NewTicker(rest)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return took, failed
		case <-tick.C:
		}
		r := list[i%len(list)].Clone(context.Background())
		r.URL.Scheme, r.URL.Host = "http", s.addr
		began := time.Now()
		resp, err := client.Do(r)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			err = errors.Join(err, resp.Body.Close())
		}
		if err != nil || resp.StatusCode != http.StatusOK {
			failed++
			fmt.Fprintln(os.Stderr, "fleet: failed:", s.name, r.URL, err)
			continue
		}
		took = append(took, time.Since(began))
		if os.Getenv("FLEET_VERBOSE") != "" {
			fmt.Fprintf(os.Stderr, "%s %6.0f ms %s\n", s.name, float64(time.Since(began).Microseconds())/1000, r.URL.RequestURI())
		}
	}
}

// quantile of durations, in milliseconds.
func quantile(d []time.Duration, q float64) string {
	if len(d) == 0 {
		return "-"
	}
	d = slices.Sorted(slices.Values(d))
	return fmt.Sprintf("%.0f ms", float64(d[min(int(q*float64(len(d))), len(d)-1)].Microseconds())/1000)
}

func load(ctx context.Context, o options, dir string, w io.Writer) error {
	whole := o.span + o.warm
	if o.cut {
		whole += o.cutFor + 5*time.Minute
	}
	b, err := set(ctx, o, dir, w, whole, o.speed)
	if err != nil {
		return err
	}
	defer b.stop()
	if _, err := b.goOn(ctx, o.warm, o.speed, nil); err != nil { // series are made, connections opened
		return err
	}
	if left := b.out.Drain(ctx, 5*time.Minute); left.Exports > 0 { // all series begin at once
		taken := b.out.Sent()
		for _, s := range b.all {
			fmt.Fprintf(w, "%s at %s took %d samples.\n", s.name, s.addr, taken[s.name])
		}
		return fmt.Errorf("%d exports of the warm-up are not taken: %s", left.Exports, left.Error)
	}
	rows, p, err := b.measure(ctx, o.span, o.speed)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%d nodes at %v, %d samples in an export on average, %.3g times as fast as the clock; %d jobs ran and %d waited.\n\n",
		o.nodes, o.export, p.Samples/max(p.Batches, 1), p.Speed(), p.Live, p.Waiting)
	fmt.Fprintln(w, "| server | samples | CPU per million samples | CPU at that load in real time | resident | on disk | query p50 | p95 | page p50 | p95 | failed |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|---|---|")
	for i, r := range rows {
		size, err := bytesOf(b.all[i].data)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "| %s | %.1f M | %.2f s | %.1f %% of a core | %.0f MB | %.0f MB | %s | %s | %s | %s | %d |\n", r.name, float64(r.samples)/1e6,
			r.cpu.Seconds()/(float64(r.samples)/1e6), 100*r.cpu.Seconds()/p.Passed.Seconds(), float64(r.memory)/1e6, float64(size)/1e6,
			quantile(r.queries, 0.5), quantile(r.queries, 0.95), quantile(r.pages, 0.5), quantile(r.pages, 0.95), r.failed)
	}
	if o.cut {
		return b.cutOff(ctx, w)
	}
	return nil
}

// cutOff ends the servers, lets the site go on for an hour of simulated time, starts them
// again and waits until every queue is empty.
func (b *bed) cutOff(ctx context.Context, w io.Writer) error {
	was := b.out.Backlog()
	sent := b.out.Sent()
	for _, s := range b.all {
		s.stop()
	}
	began := time.Now()
	p, err := b.goOn(ctx, b.o.cutFor, 0, nil)
	if err != nil {
		return err
	}
	away := time.Since(began)
	held := b.out.Backlog()
	size, err := bytesOf(filepath.Join(filepath.Dir(b.all[0].data), "queues"))
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\nAll %d nodes were cut off for %v of simulated time (%v of the clock): %d exports of %.0f M samples waited in the queues of the nodes, %.0f MB on disk (%.1f bytes a sample and endpoint).\n",
		b.o.nodes, b.o.cutFor, away.Round(time.Second), held.Exports, float64(p.Samples)*float64(len(b.all))/1e6, float64(size)/1e6, float64(size)/float64(p.Samples)/float64(len(b.all)))
	began = time.Now()
	ours := ownCPU()
	for _, s := range b.all {
		if err := s.start(ctx); err != nil {
			return err
		}
	}
	left := b.out.Drain(ctx, 20*time.Minute)
	took := time.Since(began)
	ours = ownCPU() - ours
	after := b.out.Sent()
	fmt.Fprintf(w, "They were sent within %v of the network's return: ", took.Round(time.Second))
	for i, s := range b.all {
		if i > 0 {
			fmt.Fprint(w, ", ")
		}
		fmt.Fprintf(w, "%s took %.1f M with %.0f s of CPU time", s.name, float64(after[s.name]-sent[s.name])/1e6, s.cpu().Seconds())
	}
	fmt.Fprintf(w, ", the %d senders %.0f s", b.o.nodes, ours.Seconds())
	fmt.Fprintf(w, "; %d refused, %d lost, %d exports dropped, %d left.\n", left.Refused-was.Refused, left.Lost-was.Lost, left.Dropped-was.Dropped, left.Exports)
	if left.Exports > 0 || left.Lost > was.Lost || left.Dropped > was.Dropped {
		return errors.New("samples were lost")
	}
	return nil
}

// ownCPU is the CPU time of this process, which is that of all agents.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

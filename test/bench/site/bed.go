package site

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"reckon/lab/simulate"
	"reckon/lab/simulation"
	"reckon/test/bench/measure"
	"reckon/transport/push"
)

// benchServer is a program that receives remote write, with its measurements.
type benchServer struct {
	measure.Process
	end  push.Endpoint
	data string

	samples        float64
	used           time.Duration
	memory         float64
	queries, pages []time.Duration // queries of people and dashboards, and requests of reckon's pages
	failed         int
}

// listServers returns the installed programs, and prints why others are missing.
func (o fleetOptions) listServers(e *measure.Env, dir string) (out []*benchServer) {
	config := filepath.Join(dir, "prometheus.yml")
	// it reports that itself if it is not there
	_ = os.WriteFile(config, []byte("storage:\n  tsdb:\n    out_of_order_time_window: 7d\n"), 0o600)
	ours, ourEnd := "serve --listen ADDR --data DATA", push.Endpoint{Protocol: "2.0"}
	for _, p := range []struct {
		name, path, args, ready string
		end                     push.Endpoint
	}{
		{"reckon", filepath.Join(e.Bin, "reckon"), ours, "/readyz", ourEnd},
		{"before", filepath.Join(o.against, "reckon"), ours, "/readyz", ourEnd},
		{"Prometheus", "prometheus",
			"--config.file=" + config + " --storage.tsdb.path=DATA --web.listen-address=ADDR --web.enable-remote-write-receiver " +
				"--enable-feature=native-histograms --storage.tsdb.retention.time=90d --log.level=error " +
				"--web.max-connections=8192", "/-/ready", // it takes 512 by default: the nodes behind those would wait for ever
			push.Endpoint{Protocol: "1.0", Histograms: "native"}},
		{"VictoriaMetrics", "victoria-metrics", "-httpListenAddr=ADDR -storageDataPath=DATA -retentionPeriod=3 -loggerLevel=ERROR",
			"/health",
			push.Endpoint{Protocol: "1.0", Histograms: "classic"}},
	} {
		if p.name == "before" && o.against == "" || p.name != "before" && !strings.Contains(strings.ToLower(p.name),
			strings.ToLower(o.only)) {
			continue
		}
		s := &benchServer{end: p.end, data: filepath.Join(dir, p.name)}
		s.Process = measure.Process{Name: p.name, Path: p.path, Ready: p.ready, Args: func(addr string) []string {
			return strings.Fields(strings.NewReplacer("ADDR", addr, "DATA", s.data).Replace(p.args))
		}}
		if err := s.CheckInstalled(); err != nil {
			e.Printf("\nLeft out: %s (%v).\n", p.name, err)
			continue
		}
		out = append(out, s)
	}
	return out
}

func (s *benchServer) isReckon() bool { return s.Name == "reckon" || s.Name == "before" }

// siteBed is a site with servers to send to.
type siteBed struct {
	o      fleetOptions
	all    []*benchServer
	fleet  *simulation.Fleet
	out    *simulation.Push
	queues string
}

// startBed starts servers and a site that sends to them.
func (o fleetOptions) startBed(ctx context.Context, e *measure.Env, dir string, span time.Duration, speed float64) (_ *siteBed, err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	b := &siteBed{o: o, all: o.listServers(e, dir), queues: filepath.Join(dir, "queues")}
	if len(b.all) == 0 {
		return nil, errors.New("no server is here; build reckon with `make build`")
	}
	defer func() {
		if err != nil {
			b.stop()
		}
	}()
	ahead := time.Duration(0)
	if speed > 0 {
		ahead = time.Duration(float64(span) / speed)
	}
	made, err := simulate.New(simulate.Config{
		Nodes: o.nodes, Jobs: o.jobs, GPUNodes: o.nodes / 8, Seed: 1, For: max(span, time.Hour), From: time.Now().Add(min(ahead-span, 0)),
	})
	if err != nil {
		return nil, err
	}
	b.fleet = simulation.New(simulation.Config{Site: made})
	var ends []push.Endpoint
	for _, s := range b.all {
		if err := s.Start(ctx); err != nil {
			return nil, err
		}
		s.end.URL, s.end.Name = "http://"+s.Addr+"/api/v1/write", s.Name
		ends = append(ends, s.end)
	}
	b.out, err = simulation.NewPush(simulation.PushConfig{Endpoints: ends, Site: "bench", Nodes: made.Names(), Dir: b.queues,
		UserAgent: "reckon-bench"})
	return b, err
}

func (b *siteBed) stop() {
	if b.out != nil {
		_ = b.out.Close(0)
	}
	for _, s := range b.all {
		s.Stop()
	}
}

// simulate lets a stretch of simulated time pass; a nil sink is the servers.
func (b *siteBed) simulate(ctx context.Context, d time.Duration, speed float64, sink simulation.Sink) (simulation.Progress, error) {
	if sink == nil {
		sink = b.out
	}
	return b.fleet.Run(ctx, simulation.Stretch{Until: b.fleet.Now().Add(d), Tick: b.o.tick, Export: b.o.export, Speed: speed}, sink)
}

// measureStretch runs a stretch and measures the servers meanwhile.
func (b *siteBed) measureStretch(ctx context.Context, d time.Duration, speed float64) (p simulation.Progress, err error) {
	before := b.out.Sent()
	err = b.measureDuring(ctx, func(ctx context.Context) error {
		p, err = b.simulate(ctx, d, speed, nil)
		return err
	}, func() { b.out.Drain(ctx, 2*time.Minute) })
	after := b.out.Sent()
	for _, s := range b.all {
		s.samples = float64(after[s.Name] - before[s.Name])
	}
	return p, err
}

// measureDuring queries and measures the servers while f runs, and calls then afterwards.
func (b *siteBed) measureDuring(ctx context.Context, f func(context.Context) error, then func()) error {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	for _, s := range b.all {
		s.used = -s.CPU()
		wg.Go(func() { s.queries, s.failed = s.askAll(asking, time.Second, queryList()) })
	}
	pagesFailed := make([]int, len(b.all))
	for i, s := range b.all {
		if s.isReckon() {
			wg.Go(func() { s.pages, pagesFailed[i] = s.askAll(asking, 5*time.Second, pages) })
		}
	}
	recorded := b.recordProfile(asking)
	err := f(ctx)
	stop()
	recorded()
	wg.Wait()
	then()
	for i, s := range b.all {
		s.failed += pagesFailed[i]
		s.used += s.CPU()
		s.memory = measure.Resident(s.PID())
	}
	return err
}

// recordProfile profiles the first server until ctx ends, if requested.
func (b *siteBed) recordProfile(ctx context.Context) (end func()) {
	if b.o.profile == "" {
		return func() {}
	}
	cmd := exec.CommandContext(ctx, "perf", "record", "-q", "-F", "99", "-g", "-p", strconv.Itoa(b.all[0].PID()), "-o", b.o.profile)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "fleet: perf:", err)
		return func() {}
	}
	return func() { _ = cmd.Wait() } // it was interrupted
}

// queryList returns the queries of people and dashboards.
func queryList() (list []string) {
	for _, q := range []string{
		`sum by (owner) (rate(reckon_workload_cpu_seconds_total[2m]))`,
		`topk(10, sum by (workload) (rate(reckon_workload_cpu_seconds_total[2m])))`,
		`node_load1`,
		`sum(reckon_workload_memory_bytes{type="anon"})`,
		`reckon_workload_cpu_seconds_total{node="cpu0001"}`,
	} {
		list = append(list, "/api/v1/query?"+url.Values{"query": {q}}.Encode())
	}
	return list
}

// pages are the requests of reckon's pages about the whole site and one of its nodes.
var pages = []string{
	"/api/reckon/v1/workloads?limit=100&running=true&sort=-cpu_seconds", "/api/reckon/v1/workloads?limit=100&since=24h&sort=-start",
	"/api/reckon/v1/workloads?limit=100&node=cpu0001", "/api/reckon/v1/usage?by=owner&since=24h",
	"/api/reckon/v1/usage?by=owner&by=kind&since=7d",
	"/api/reckon/v1/usage?by=node&since=24h", "/api/reckon/v1/nodes",
}

// askAll sends one query after the other, with pauses in between, until ctx ends.
func (s *benchServer) askAll(ctx context.Context, rest time.Duration, list []string) (took []time.Duration, failed int) {
	tick := time.NewTicker(rest)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return took, failed
		case <-tick.C:
		}
		one, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		began := time.Now()
		_, err := measure.Get(one, "http://"+s.Addr+list[i%len(list)], nil)
		cancel()
		if err != nil {
			failed++
			continue
		}
		took = append(took, time.Since(began))
	}
}

// blockSize returns the long-term size of a sample. For Prometheus it uses the blocks, because their metadata contains
// the number of samples. For VictoriaMetrics it uses all parts.
func (s *benchServer) blockSize(all float64) string {
	dir := s.data
	if s.Name == "VictoriaMetrics" {
		return fmt.Sprintf("%.2f", all/s.samples)
	}
	if s.isReckon() {
		dir = filepath.Join(dir, "series")
	}
	metas, _ := filepath.Glob(filepath.Join(dir, "*", "meta.json")) // the pattern is above
	var size, held float64
	for _, m := range metas {
		var meta struct {
			Stats struct{ NumSamples float64 }
		}
		raw, err := os.ReadFile(m)
		if err != nil || json.Unmarshal(raw, &meta) != nil {
			continue
		}
		if n, err := measure.BytesOf(filepath.Dir(m)); err == nil {
			size, held = size+float64(n), held+meta.Stats.NumSamples
		}
	}
	if held == 0 {
		return "no block was written"
	}
	return fmt.Sprintf("%.2f (%.1f M samples in %d blocks)", size/held, held/1e6, len(metas))
}

// runSeparately measures reckon with nodes that several processes of `reckon simulate` simulate, each a site of its own.
func (o fleetOptions) runSeparately(ctx context.Context, e *measure.Env) error {
	o.only = "reckon"
	b := &siteBed{o: o, all: o.listServers(e, e.Dir)}
	if len(b.all) != 1 {
		return fmt.Errorf("%d nodes need %d sending processes, since one may not open enough files (ulimit -n): "+
			"they measure reckon alone", o.nodes, o.senders)
	}
	s := b.all[0]
	if err := s.Start(ctx); err != nil {
		return err
	}
	defer s.Stop()
	sending, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	failed := make([]error, o.senders)
	for i := range o.senders {
		nodes := o.nodes*(i+1)/o.senders - o.nodes*i/o.senders
		cmd := exec.CommandContext(sending, s.Path, "simulate", "--nodes", strconv.Itoa(nodes), "--gpu-nodes", strconv.Itoa(nodes/8),
			"--seed", strconv.Itoa(i+1),
			"--site", fmt.Sprintf("bench-%d", i+1), "--speed", "1x", "--for", (o.warm + o.span).String(), "--tick", o.tick.String(),
			"--export", o.export.String(),
			"--push", "http://"+s.Addr, "--queue", filepath.Join(e.Dir, "queues", strconv.Itoa(i+1)))
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = time.Minute
		wg.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				failed[i] = fmt.Errorf("sender %d: %w: %s", i+1, err, measure.FirstLine(out))
			}
		})
	}
	err := measure.Pause(ctx, o.warm)
	var before, after, series float64
	if err == nil {
		before, err = s.readMetric(ctx, "reckon_server_ingest_samples_total")
	}
	if err == nil {
		err = b.measureDuring(ctx, func(ctx context.Context) error { return measure.Pause(ctx, o.span) }, func() {})
	}
	if err == nil {
		after, err = s.readMetric(ctx, "reckon_server_ingest_samples_total")
	}
	if err == nil {
		series, err = s.readMetric(ctx, "reckon_server_store_series")
	}
	if err == nil {
		s.samples = after - before
		err = b.printResults(e.Table(fmt.Sprintf("%d nodes at %v in %d sending processes, %.0f samples a second, %.2f M series in memory",
			o.nodes, o.export, o.senders,
			s.samples/o.span.Seconds(), series/1e6), columns...), o.span.Seconds())
	}
	if err != nil {
		stop()
	}
	wg.Wait() // a sender fails when samples were lost
	return errors.Join(append(failed, err)...)
}

// readMetric returns the sum of the series of one name on the server's own page of metrics.
func (s *benchServer) readMetric(ctx context.Context, name string) (sum float64, err error) {
	page, err := measure.Get(ctx, "http://"+s.Addr+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	found := false
	for line := range strings.Lines(string(page)) {
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == ' ' || rest[0] == '{') {
			v, err := strconv.ParseFloat(strings.Fields(rest[strings.LastIndexByte(rest, '}')+1:])[0], 64)
			if err != nil {
				return 0, err
			}
			sum, found = sum+v, true
		}
	}
	if !found {
		return 0, fmt.Errorf("%s has no metric %s", s.Addr, name)
	}
	return sum, nil
}

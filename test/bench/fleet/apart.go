package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// filesPerSender is how many files a simulated node keeps open: its connection, and the lock, the position and a segment of its queue.
const filesPerSender = 4

// sendersNeeded is the number of processes into which the nodes are divided so that each stays below three quarters of
// the limit of open files.
func sendersNeeded(nodes int) int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 1
	}
	most := max(int(min(limit.Cur, 1<<20))*3/4/filesPerSender, 1)
	return (nodes + most - 1) / most
}

// apart measures reckon like load, but the nodes are simulated by several processes of `reckon simulate`, each a site of its own.
func apart(ctx context.Context, o options, dir string, w io.Writer) error {
	all, _ := servers(o, dir)
	if len(all) != 1 || all[0].name != "reckon" || o.cut || o.speed != 1 {
		return fmt.Errorf("%d nodes need %d sending processes, since one may not open enough files (ulimit -n); they measure reckon alone, in real time: -only reckon -speed 1, without -cut and -against", o.nodes, o.senders)
	}
	s := all[0]
	if err := s.start(ctx); err != nil {
		return err
	}
	defer s.stop()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	failed := make([]error, o.senders)
	for i := range o.senders {
		nodes := o.nodes*(i+1)/o.senders - o.nodes*i/o.senders
		cmd := exec.CommandContext(ctx, s.path, "simulate", "--nodes", strconv.Itoa(nodes), "--gpu-nodes", strconv.Itoa(nodes/8), "--seed", strconv.Itoa(i+1),
			"--site", fmt.Sprintf("bench-%d", i+1), "--speed", "1x", "--for", (o.warm + o.span).String(), "--tick", o.tick.String(), "--export", o.export.String(),
			"--push", "http://"+s.addr, "--queue", filepath.Join(dir, "queues", strconv.Itoa(i+1)))
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = time.Minute
		wg.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				failed[i] = fmt.Errorf("sender %d: %w: %s", i+1, err, lastLine(out))
			}
		})
	}
	p, err := measureApart(ctx, o, s)
	if err != nil {
		stop()
		wg.Wait()
		return errors.Join(append(failed, err)...)
	}
	size, err := bytesOf(s.data)
	if err != nil {
		return err
	}
	r, seconds := p.row, p.took.Seconds()
	fmt.Fprintf(w, "\n%d nodes at %v in %d sending processes, %.0f samples a second, %.2f M series in memory.\n\n", o.nodes, o.export, o.senders, float64(r.samples)/seconds, p.series/1e6)
	fmt.Fprintln(w, "| server | samples | CPU per million samples | CPU in real time | resident | on disk | query p50 | p95 | page p50 | p95 | failed |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|---|---|")
	fmt.Fprintf(w, "| %s | %.1f M | %.2f s | %.2f cores | %.0f MB | %.0f MB | %s | %s | %s | %s | %d |\n", r.name, float64(r.samples)/1e6,
		r.cpu.Seconds()/(float64(r.samples)/1e6), r.cpu.Seconds()/seconds, float64(r.memory)/1e6, float64(size)/1e6,
		quantile(r.queries, 0.5), quantile(r.queries, 0.95), quantile(r.pages, 0.5), quantile(r.pages, 0.95), r.failed)
	wg.Wait() // a sender fails when samples were lost
	return errors.Join(failed...)
}

// measured is one stretch of the clock.
type measured struct {
	row    row
	took   time.Duration
	series float64
}

// measureApart lets series begin for o.warm, and measures the server for o.span.
func measureApart(ctx context.Context, o options, s *server) (m measured, err error) {
	select {
	case <-ctx.Done():
		return m, ctx.Err()
	case <-time.After(o.warm):
	}
	before, err := s.metric("reckon_server_ingest_samples_total")
	if err != nil {
		return m, err
	}
	m.row.name, m.row.cpu = s.name, -s.cpu()
	began := time.Now()
	asking, stop := context.WithTimeout(ctx, o.span)
	defer stop()
	b := &bed{o: o, all: []*server{s}}
	recorded := b.record(asking)
	var wg sync.WaitGroup
	var failed int
	wg.Go(func() { m.row.queries, m.row.failed = ask(asking, s, time.Second, queries()) })
	wg.Go(func() { m.row.pages, failed = ask(asking, s, 5*time.Second, pages()) })
	wg.Wait()
	m.took = time.Since(began)
	m.row.cpu += s.cpu()
	m.row.memory = s.memory()
	m.row.failed += failed
	recorded()
	after, err := s.metric("reckon_server_ingest_samples_total")
	if err != nil {
		return m, err
	}
	m.row.samples = uint64(after - before)
	m.series, err = s.metric("reckon_server_store_series")
	return m, err
}

// metric is the sum of the series of one name on the server's own page of metrics.
func (s *server) metric(name string) (sum float64, err error) {
	client := &http.Client{Timeout: time.Minute}
	resp, err := client.Get("http://" + s.addr + "/metrics")
	if err != nil {
		return 0, err
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return 0, err
	}
	found := false
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == ' ' || rest[0] == '{') {
			fields := strings.Fields(rest[strings.LastIndexByte(rest, '}')+1:])
			v, err := strconv.ParseFloat(fields[0], 64)
			if err != nil {
				return 0, err
			}
			sum, found = sum+v, true
		}
	}
	if !found {
		return 0, fmt.Errorf("%s has no metric %s", s.addr, name)
	}
	return sum, nil
}

func lastLine(out []byte) string {
	out = bytes.TrimSpace(out)
	return string(out[bytes.LastIndexByte(out, '\n')+1:])
}

//go:build e2e

package e2e

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/lab/simulate"
	"reckon/lab/simulation"
	"reckon/metric"
	"reckon/store/tsdb"
	"reckon/transport/push"
)

// wire is a network between agents and a server that can be cut, and leads to the server
// wherever that was started last.
type wire struct {
	ln net.Listener

	mu    sync.Mutex
	held  chan struct{} // nil unless it carries nothing; closed when it leads somewhere again
	to    string        // empty: cut
	conns map[net.Conn]bool
}

func newWire(t *testing.T) *wire {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{ln: ln, conns: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = ln.Close(); w.lead("") })
	go func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			go w.carry(in)
		}
	}()
	return w
}

// lead makes the wire lead to an address; all connections break.
func (w *wire) lead(to string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = to
	if w.held != nil {
		close(w.held)
		w.held = nil
	}
	for c := range w.conns {
		_ = c.Close()
	}
	clear(w.conns)
}

func (w *wire) carry(in net.Conn) {
	defer in.Close()
	w.mu.Lock()
	to, held := w.to, w.held
	w.mu.Unlock()
	if held != nil {
		<-held // connected, and nothing more
		return
	}
	if to == "" {
		return
	}
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer out.Close()
	w.mu.Lock()
	if w.to != to {
		w.mu.Unlock()
		return
	}
	w.conns[in], w.conns[out] = true, true
	w.mu.Unlock()
	go func() { w.copy(out, in); _ = out.Close() }()
	w.copy(in, out)
	w.mu.Lock()
	delete(w.conns, in)
	delete(w.conns, out)
	w.mu.Unlock()
}

// hold keeps all connections open and carries nothing any more, as a network that is cut without
// a word does, until it leads somewhere again.
func (w *wire) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = make(chan struct{})
}

func (w *wire) copy(to io.Writer, from io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		w.mu.Lock()
		held := w.held
		w.mu.Unlock()
		if held != nil {
			<-held
			return
		}
		if _, bad := to.Write(buf[:n]); err != nil || bad != nil {
			return
		}
	}
}

func (w *wire) url() string { return "http://" + w.ln.Addr().String() }

// oddInterval is an export interval with ends at which nothing of a simulated site begins, since
// that does at whole seconds: the zeros that counters begin with are then distinguished from
// what was exported.
const oddInterval = 15*time.Second - 10*time.Millisecond

// exported counts what nodes export.
type exported struct {
	simulation.Sink
	samples atomic.Int64
}

func (e *exported) Put(ctx context.Context, node string, b *metric.Batch) error {
	if node != "" {
		e.samples.Add(int64(len(b.Samples)))
	}
	if e.Sink == nil {
		return nil
	}
	return e.Sink.Put(ctx, node, b)
}

// kept counts the samples of nodes in the data directory of a server that is stopped.
func kept(t *testing.T, data string, from time.Time) (n int64) {
	t.Helper()
	s, err := tsdb.Open(tsdb.Options{Dir: filepath.Join(data, "series"), Retention: -1, OutOfOrder: 7 * 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	q, err := s.Querier(0, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	set := q.Select(t.Context(), false, nil, labels.MustNewMatcher(labels.MatchNotEqual, "node", ""),
		labels.MustNewMatcher(labels.MatchNotRegexp, "__name__", "reckon_slurm_.*"))
	var it chunkenc.Iterator
	for set.Next() {
		it = set.At().Iterator(it)
		for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
			if d := it.AtT() - from.UnixMilli(); d > 0 && d%oddInterval.Milliseconds() == 0 {
				n++
			}
		}
	}
	if set.Err() != nil {
		t.Fatal(set.Err())
	}
	return n
}

// TestFleetCut cuts sixty nodes off for an hour of simulated time and counts: nothing is
// lost, and what waited is there within five minutes of the network's return.
func TestFleetCut(t *testing.T) {
	from := time.Now().Add(-90 * time.Minute).Truncate(time.Second)
	site, err := simulate.New(simulate.Config{Nodes: 60, Jobs: 600, GPUNodes: 6, Seed: 1, From: from, For: 2 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	u := startServe(t, t.TempDir())
	w := newWire(t)
	w.lead(u.addr)
	p, err := simulation.NewPush(simulation.PushConfig{Endpoints: []push.Endpoint{{URL: w.url()}}, Site: "x", Nodes: site.Names(), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(0)
	out := &exported{Sink: p}
	fleet := simulation.New(simulation.Config{Site: site, Slots: 1})
	goOn := func(d time.Duration) {
		t.Helper()
		if _, err := fleet.Run(t.Context(), simulation.Stretch{Until: fleet.Now().Add(d), Tick: 5 * time.Second, Export: oddInterval}, out); err != nil {
			t.Fatal(err)
		}
	}
	goOn(5 * time.Minute)
	p.Drain(t.Context(), 2*time.Minute)
	w.lead("")
	goOn(time.Hour)
	if b := p.Backlog(); b.Exports < 60*200 {
		t.Fatalf("%d exports wait after an hour without network", b.Exports)
	}
	w.lead(u.addr)
	back := time.Now()
	left := p.Drain(t.Context(), 10*time.Minute)
	took := time.Since(back)
	u.stop(syscall.SIGTERM)
	if left.Exports != 0 || left.Refused != 0 || left.Lost != 0 || left.Dropped != 0 {
		t.Fatalf("after the network's return: %+v", left)
	}
	if got, want := kept(t, u.data, from), out.samples.Load(); got != want {
		t.Fatalf("%d samples are in the store of the %d that were exported", got, want)
	}
	t.Logf("%d samples of an hour without network were sent within %v", out.samples.Load(), took.Round(time.Second))
}

// TestFleetKill ends server and agents with SIGKILL ten times each while they work, and
// counts: what was acknowledged is never gone, in the end each sample is there once, and usage is
// what the counters report.
func TestFleetKill(t *testing.T) {
	const rounds = 10
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	from := time.Now().Add(-100 * time.Minute).Truncate(time.Second)
	const span = 40 * time.Minute
	data, queue := t.TempDir(), t.TempDir()
	w := newWire(t)
	u := startServe(t, data)
	w.lead(u.addr)
	// The agents are a process of their own, with queues that stay. It plays the same site
	// again when it is started again, which sends the same samples again.
	agents := func() *exec.Cmd {
		cmd := exec.Command(program(t, "reckon"), "simulate", "--nodes", "24", "--jobs", "150", "--gpu-nodes", "3", "--seed", "5", "--from", from.UTC().Format(time.RFC3339),
			"--for", span.String(), "--tick", "5s", "--export", oddInterval.String(), "--speed", "240x", "--push", w.url(), "--queue", queue, "--drain", "5m")
		out := new(lockedBuffer)
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd
	}
	count := func() float64 {
		for _, v := range u.promAt(`sum(count_over_time(reckon_agent_ticks_total[3h]))`, float64(time.Now().Unix())) {
			return v
		}
		return 0
	}
	a := agents()
	var most float64
	for round := range rounds {
		pause(time.Duration(500+rnd.IntN(1500)) * time.Millisecond)
		most = max(most, count()) // what can be asked for was acknowledged, or is about to be
		if err := a.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = a.Wait() // killed
		a = agents()
		pause(time.Duration(300+rnd.IntN(700)) * time.Millisecond)
		most = max(most, count())
		u.stop(syscall.SIGKILL)
		u = startServe(t, data)
		w.lead(u.addr)
		if got := count(); got < most {
			t.Fatalf("round %s: %.0f exports are left of %.0f that were there before the kill", strconv.Itoa(round), got, most)
		}
	}
	if err := a.Wait(); err != nil {
		t.Fatalf("the last agents: %v\n%s", err, a.Stdout)
	}
	proven(t, u) // and usage is made of all of it
	u.stop(syscall.SIGTERM)
	site, err := simulate.New(simulate.Config{Nodes: 24, Jobs: 150, GPUNodes: 3, Seed: 5, From: from, For: span})
	if err != nil {
		t.Fatal(err)
	}
	want := new(exported)
	if _, err := simulation.New(simulation.Config{Site: site}).Run(t.Context(), simulation.Stretch{Until: site.End(), Tick: 5 * time.Second, Export: oddInterval}, want); err != nil {
		t.Fatal(err)
	}
	if got := kept(t, data, from); got != want.samples.Load() {
		t.Fatalf("%d samples are in the store, the agents made %d", got, want.samples.Load())
	}
	t.Logf("%d samples survived %d kills of the server and of the agents", want.samples.Load(), rounds)
}

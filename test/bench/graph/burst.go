package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"reckon/graph"
	"reckon/graph/embedded"
	"reckon/graph/feed"
	"reckon/store"
	"reckon/web/client"
)

// catalogue has the rows that changed since the feed looked.
type catalogue struct{ rows []store.Workload }

func (c *catalogue) Lasting(context.Context, time.Time, time.Time, time.Time, store.Least) ([]store.Workload, error) {
	return c.rows, nil
}

func (c *catalogue) Nodes(context.Context, time.Time) ([]client.Node, error) { return nil, nil }

// counting counts what is written of a store.
type counting struct {
	*embedded.Store
	subgraphs int
}

func (c *counting) PutAll(ctx context.Context, list []graph.Change) (int, error) {
	c.subgraphs += len(list)
	return c.Store.PutAll(ctx, list)
}

// burst lets so many workloads begin at once, and then each of them change thrice before the feed looks again; one that waits for its own
// change meanwhile says how long others wait.
func burst(ctx context.Context, s *embedded.Store, file string, n int) error {
	rows := &catalogue{}
	to := &counting{Store: s}
	now := time.Now()
	first := now.Add(-time.Hour)
	f := feed.New(feed.Options{Store: to, Workloads: rows, Nodes: rows, Links: feed.Links{URL: "http://reckon:9870"}, Clock: func() time.Time { return now }})
	if _, err := f.Update(ctx); err != nil {
		return err
	}
	cores := 0.5
	begin := func(i int) store.Workload {
		w := store.Workload{Kind: "deployment", ID: "deployment/ns" + strconv.Itoa(i%50) + "/burst" + strconv.Itoa(i), Site: "bench", Owner: "ns" + strconv.Itoa(i%50),
			Nodes: []string{"n" + strconv.Itoa(i%100)}, Start: first.Add(time.Duration(i) * time.Millisecond), State: "running"}
		w.RequestCores = &cores
		return w
	}
	for _, step := range []struct{ name, state string }{{"begin", "running"}, {"change", "changed"}} {
		rows.rows = nil
		for i := range n {
			rows.rows = append(rows.rows, begin(i))
		}
		if step.state == "changed" {
			for i := range 3 * n { // each thrice; the catalogue has the last state
				rows.rows[i%n].State = "changed " + strconv.Itoa(i/n)
			}
		}
		to.subgraphs = 0
		stop := make(chan struct{})
		waited := make(chan []time.Duration)
		go others(ctx, s, stop, waited)
		wrote, cpu, at := written(), cpuTime(), time.Now()
		changed, err := f.Update(ctx)
		took, used := time.Since(at), cpuTime()-cpu
		close(stop)
		waits := <-waited
		if err != nil {
			return err
		}
		st, err := os.Stat(file)
		if err != nil {
			return err
		}
		fmt.Printf("%d %s at once: %d subgraphs written in %v, %v of CPU time, %.1f MB written (the database has %.0f MB); others' PUTs meanwhile: %d, p50 %v, p99 %v\n",
			n, step.name, changed, took.Round(time.Millisecond), used.Round(time.Millisecond), (written()-wrote)/1e6, float64(st.Size())/1e6, len(waits), p50(waits), p99(waits))
		now = now.Add(time.Minute)
	}
	return nil
}

// others changes a subgraph every 10 ms and says how long each change took.
func others(ctx context.Context, s graph.Store, stop chan struct{}, out chan []time.Duration) {
	var waits []time.Duration
	for i := 0; ; i++ {
		at := time.Now()
		q := []graph.Quad{{S: graph.Node("x:other"), P: graph.Node("x:is"), O: graph.Integer(int64(i))}}
		if _, _, err := s.Put(ctx, "x:other", graph.Put{Quads: q, IfVersion: graph.AnyVersion}); err == nil {
			waits = append(waits, time.Since(at))
		}
		select {
		case <-stop:
			out <- waits
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// written are the bytes that this process has passed to write calls.
func written() float64 {
	raw, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(raw), "wchar: ")
	var n float64
	_, _ = fmt.Sscan(rest, &n)
	return n
}

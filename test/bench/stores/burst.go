package stores

import (
	"context"
	"os"
	"strconv"
	"time"

	"reckon/graph"
	"reckon/graph/embedded"
	"reckon/graph/feed"
	"reckon/store"
	"reckon/test/bench/measure"
	"reckon/web/client"
)

// changedRows holds the rows that changed since the feed last read them.
type changedRows struct{ rows []store.Workload }

func (c *changedRows) Lasting(context.Context, time.Time, time.Time, time.Time, store.GroupMinimum) ([]store.Workload, error) {
	return c.rows, nil
}

func (c *changedRows) Nodes(context.Context, time.Time) ([]client.Node, error) { return nil, nil }

// countingStore counts the writes to a store.
type countingStore struct {
	*embedded.Store
	subgraphs int
}

func (c *countingStore) PutAll(ctx context.Context, list []graph.Change) (int, error) {
	c.subgraphs += len(list)
	return c.Store.PutAll(ctx, list)
}

// measureBurst starts n workloads at once and changes each of them three times before the next reading of the feed. It also
// measures concurrent changes by other clients.
func (k *benchGraph) measureBurst(ctx context.Context, n int) error {
	rows := &changedRows{}
	to := &countingStore{Store: k.s}
	now := time.Now()
	first := now.Add(-time.Hour)
	f := feed.New(feed.Options{
		Store: to, Workloads: rows, Nodes: rows, Links: feed.Links{URL: "http://reckon:9870"}, Clock: func() time.Time { return now },
	})
	if _, err := f.Update(ctx); err != nil {
		return err
	}
	cores := 0.5
	begin := func(i int) store.Workload {
		owner := "ns" + strconv.Itoa(i%50)
		w := store.Workload{Kind: "deployment", ID: "deployment/" + owner + "/burst" + strconv.Itoa(i), Site: "bench", Owner: owner,
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
			for i := range 3 * n { // each thrice; the changedRows has the last state
				rows.rows[i%n].State = "changed " + strconv.Itoa(i/n)
			}
		}
		to.subgraphs = 0
		stop := make(chan struct{})
		waited := make(chan []time.Duration)
		go changeConcurrently(ctx, k.s, stop, waited)
		wrote, changed := measure.Status(os.Getpid(), "io", "wchar:"), 0
		cpu, clock, err := measure.CPUTime(func() (err error) { changed, err = f.Update(ctx); return err })
		close(stop)
		waits := <-waited
		if err != nil {
			return err
		}
		k.row("%d %s at once | %d subgraphs written in %.0f ms, %.0f ms of CPU time, %.1f MB written; "+
			"others' PUTs meanwhile: %d, p50 %s, p99 %s", n, step.name, changed,
			measure.MS(clock), measure.MS(cpu), (measure.Status(os.Getpid(), "io", "wchar:")-wrote)/1e6, len(waits),
			measure.Quantile(waits, 0.5), measure.Quantile(waits, 0.99))
		now = now.Add(time.Minute)
	}
	return nil
}

// changeConcurrently changes a subgraph every 10 ms and sends the time of each change.
func changeConcurrently(ctx context.Context, s graph.Store, stop chan struct{}, out chan []time.Duration) {
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

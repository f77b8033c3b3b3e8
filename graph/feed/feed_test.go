package feed_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/catalogue/database"
	"reckon/figure"
	"reckon/figure/wire"
	"reckon/graph"
	"reckon/graph/embedded"
	"reckon/graph/feed"
	"reckon/graph/own"
	"reckon/graph/sparql"
	"reckon/store"
)

type site struct {
	*database.Catalogue
	*embedded.Store
	nodes []wire.Node
	now   time.Time
	feed  *feed.Feed
}

func (s *site) Nodes(context.Context, time.Time) ([]wire.Node, error) { return s.nodes, nil }

func newSite(t *testing.T) *site {
	t.Helper()
	c, err := database.Open(filepath.Join(t.TempDir(), "c.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	shared := c.Shared()
	g, err := embedded.Open(t.Context(), embedded.Options{DB: shared.DB, Write: shared.Write})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{Catalogue: c, Store: g, now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	s.restart()
	return s
}

func (s *site) restart() {
	s.feed = feed.New(feed.Options{Store: s.Store, Workloads: s.Catalogue, Nodes: s, Site: "edge1", Clock: func() time.Time { return s.now },
		Links: feed.Links{URL: "http://reckon:9321", Loki: "http://loki:3100"}, Forecast: func(kind string) bool { return kind == "deployment" }})
}

func (s *site) update(t *testing.T, want int) {
	t.Helper()
	s.now = s.now.Add(2 * time.Minute)
	n, err := s.feed.Update(t.Context())
	if err != nil || n != want {
		t.Errorf("%d subgraphs were written, want %d (%v)", n, want, err)
	}
}

func (s *site) upsert(t *testing.T, w store.Workload) {
	t.Helper()
	w.Seen = s.now
	if err := s.Upsert(t.Context(), []store.Workload{w}); err != nil {
		t.Fatal(err)
	}
}

func (s *site) ask(t *testing.T, query string) string {
	t.Helper()
	r, err := s.Query(t.Context(), "PREFIX rk: <"+own.Namespace+">\n"+query, sparql.Limits{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, row := range r.Rows {
		for _, c := range row {
			out = append(out, c.Value)
		}
	}
	return strings.Join(out, " ")
}

func TestUpdate(t *testing.T) {
	s := newSite(t)
	cores := 4.0
	s.nodes = []wire.Node{{Node: "n1", Up: true, Cores: &cores}, {Node: "n2", Up: true}}
	job := store.Workload{Site: "edge1", ID: "slurm/4711", Kind: "slurm", Name: "train", Owner: "alice", State: "running", Nodes: []string{"n1"}, Start: s.now}
	job.RequestCores = &cores
	pod := store.Workload{Site: "edge1", ID: "deployment/shop/cart", Kind: "deployment", Name: "cart", Owner: "shop", Nodes: []string{"n2"}, Start: s.now}
	s.upsert(t, job)
	s.upsert(t, pod)
	s.update(t, 5) // two workloads, two nodes, the site
	for range 3 {
		s.upsert(t, job) // its use has changed, its described facts have not
		s.update(t, 0)
	}
	if got := s.ask(t, `SELECT ?q { ?w rk:workload "slurm/4711" ; rk:telemetry/rk:hasMetrics/rk:series ?s . ?s rk:metricName "reckon_workload_cpu_seconds_total" ; rk:query ?q }`); got != `sum(rate(reckon_workload_cpu_seconds_total{workload="slurm/4711",site="edge1"}[5m]))` {
		t.Error(got)
	}
	if got := s.ask(t, `SELECT ?q { ?w rk:workload "deployment/shop/cart" ; rk:namespace "shop" ; rk:name "cart" ; rk:telemetry/rk:hasLogs/rk:query ?q }`); got != `{namespace="shop",pod=~"cart-.*"}` {
		t.Error(got)
	}
	if got := s.ask(t, `SELECT ?site { ?w rk:workload "slurm/4711" ; rk:runsOn/rk:partOf/rk:name ?site }`); got != "edge1" {
		t.Error(got)
	}
	if got := s.ask(t, `SELECT ?q { { ?t rk:name "n1" } UNION { ?t a rk:Site } UNION { ?t rk:kind "deployment" } UNION { ?t rk:kind "slurm" } ?t rk:telemetry/rk:hasMetrics/rk:series ?s . ?s rk:metricName "reckon_workload_memory_bytes" ; rk:forecastQuery ?q } ORDER BY ?q`); got !=
		`reckon_forecast{subject="node",figure="memory_bytes",quantile="0.5",horizon="24h",node="n1"} reckon_forecast{subject="site",figure="memory_bytes",quantile="0.5",horizon="24h"} reckon_forecast{subject="workload",figure="memory_bytes",quantile="0.5",horizon="24h",workload="deployment/shop/cart",site="edge1"}` {
		t.Error(got)
	}
	job.State, job.End = "completed", s.now
	s.upsert(t, job)
	s.update(t, 1)
	s.nodes[1].Up = false
	s.update(t, 1)
	s.nodes = s.nodes[:1]
	s.update(t, 2) // the node is gone, and the site has one less
	s.restart()
	s.update(t, 0) // a restart finds nothing to change
	if got := s.ask(t, `SELECT ?w { ?x rk:workload ?w ; rk:endTime ?e }`); got != "slurm/4711" {
		t.Error(got)
	}
	s.now = s.now.Add(8 * 24 * time.Hour)
	s.upsert(t, pod)
	s.update(t, 1) // the job ended more than a week ago
	if got := s.ask(t, `SELECT ?w { ?x rk:workload ?w }`); got != "deployment/shop/cart" {
		t.Error(got)
	}
}

// Roles follow owners: a workload belongs to its owner, a node to everyone.
func TestOwners(t *testing.T) {
	s := newSite(t)
	s.nodes = []wire.Node{{Node: "n1", Up: true}}
	s.upsert(t, store.Workload{ID: "slurm/1", Kind: "slurm", Owner: "alice", State: "running", Start: s.now})
	s.update(t, 3)
	list, err := s.List(t.Context())
	if err != nil || len(list) != 3 {
		t.Fatal(list, err)
	}
	for _, i := range list {
		if want := map[bool]string{true: "alice", false: "*"}[strings.Contains(i.ID, "workload/")]; i.Owner != want || i.Origin != feed.Origin {
			t.Errorf("%+v", i)
		}
	}
}

// Subgraphs of other writers are not deleted, and those for an unreachable store are written later.
func TestRepair(t *testing.T) {
	s := newSite(t)
	for id, origin := range map[string]string{"x:other": "operator", "x:old": feed.Origin} {
		if _, _, err := s.Put(t.Context(), id, graph.Put{Quads: []graph.Quad{{S: graph.Node("x:s"), P: graph.Node("x:p"), O: graph.Text(id)}}, Origin: origin, IfVersion: graph.AnyVersion}); err != nil {
			t.Fatal(err)
		}
	}
	s.update(t, 2) // the site, and x:old is gone
	if _, _, err := s.Get(t.Context(), "x:other"); err != nil {
		t.Error(err)
	}
	s.update(t, 0)
}

// TestPassingGroups checks that process groups are described once they have run for a minute, and that
// shorter ones never are; workloads with a name of their own always are.
func TestPassingGroups(t *testing.T) {
	s := newSite(t)
	s.update(t, 1) // the site itself
	const over = true
	seen := func(id, kind string, ago, ran time.Duration, ended bool) { // ago: before the next update
		w := store.Workload{ID: id, Kind: kind, Owner: "alice", Nodes: []string{"n1"}, Start: s.now.Add(2*time.Minute - ago), State: "RUNNING"}
		w.Seen = w.Start.Add(ran)
		if ended {
			w.End, w.State = w.Seen, "COMPLETED"
		}
		if err := s.Upsert(t.Context(), []store.Workload{w}); err != nil {
			t.Fatal(err)
		}
	}
	seen("group/n1/7-1", "group", 59*time.Second, 59*time.Second, !over)
	seen("group/n1/8-1", "group", 2*time.Minute, 59*time.Second, over)
	seen("group/n1/11-1", "group", 2*time.Minute, 59*time.Second, !over) // the row is older than a minute
	s.update(t, 0)
	seen("group/n1/7-1", "group", 179*time.Second, 179*time.Second, !over)
	seen("group/n1/9-1", "group", time.Minute, time.Minute, !over)
	seen("group/n1/10-1", "group", 2*time.Minute, time.Minute, over)
	seen("unit/quick.service", "unit", 2*time.Minute, time.Second, over)
	s.update(t, 4)
	s.update(t, 0)
}

// TestIdleGroups: a process group is described once it has done something, however old it is. Of one that is not measured nobody
// knows, and what has a name of its own is described at once.
func TestIdleGroups(t *testing.T) {
	s := newSite(t)
	s.update(t, 1) // the site itself
	began := s.now
	row := func(id, kind string, cpu, memory *float64) store.Workload {
		return store.Workload{ID: id, Kind: kind, Owner: "alice", Nodes: []string{"n1"}, Start: began, Row: figure.Row{CPUSeconds: cpu, MemoryPeakBytes: memory}}
	}
	little, much, small, large := 0.99, 1.0, 63.0*(1<<20), 64.0*(1<<20)
	gpu := row("group/n1/6-1", "group", &little, &small)
	gpu.GPUSeconds = &little
	s.now = began.Add(2 * time.Minute)
	for _, w := range []store.Workload{
		row("group/n1/1-1", "group", &little, &small), row("group/n1/2-1", "group", &much, &small), row("group/n1/3-1", "group", &little, &large),
		row("group/n1/4-1", "group", nil, &small), row("group/n1/5-1", "group", &little, nil), gpu, row("unit/quick.service", "unit", &little, &small),
	} {
		s.upsert(t, w)
	}
	s.update(t, 6)
	s.now = began.Add(10 * time.Hour)
	s.upsert(t, row("group/n1/1-1", "group", &little, &small))
	s.update(t, 0)
	s.upsert(t, row("group/n1/1-1", "group", &much, &small))
	s.update(t, 1)
}

// batches counts the batch writes of subgraphs.
type batches struct {
	*embedded.Store
	sizes []int
}

func (b *batches) PutAll(ctx context.Context, list []graph.Change) (int, error) {
	b.sizes = append(b.sizes, len(list))
	return b.Store.PutAll(ctx, list)
}

// Nodes are described together: one transaction for each took a large site a tenth of its server's CPU time.
func TestNodesAreWrittenTogether(t *testing.T) {
	s := newSite(t)
	for i := range 300 {
		s.nodes = append(s.nodes, wire.Node{Node: fmt.Sprintf("n%03d", i), Site: "edge1", Up: true})
	}
	b := &batches{Store: s.Store}
	f := feed.New(feed.Options{Store: b, Workloads: s.Catalogue, Nodes: s, Site: "edge1", Clock: func() time.Time { return s.now }})
	for _, c := range []struct {
		change  func()
		changed int
		batches []int
	}{
		{func() {}, 301, []int{250, 51}},
		{func() {}, 0, nil},
		{func() { s.nodes[7].Up, s.nodes[8].Up = false, false }, 2, []int{2}},
	} {
		c.change()
		s.now, b.sizes = s.now.Add(2*time.Minute), nil
		if n, err := f.Update(t.Context()); err != nil || n != c.changed || !slices.Equal(b.sizes, c.batches) {
			t.Errorf("%d subgraphs in batches of %v, want %d in %v (%v)", n, b.sizes, c.changed, c.batches, err)
		}
	}
}

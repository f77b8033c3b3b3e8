package answer

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"reckon/catalogue/database"
	"reckon/figure"
	"reckon/figure/wire"
	"reckon/store"
)

func ptr(v float64) *float64 { return &v }

// nodeList is a fixed list of nodes.
type nodeList []wire.Node

func (l nodeList) NodesAsOf(_ context.Context, now time.Time) ([]wire.Node, time.Time, error) {
	return l, now, nil
}

// TestFitOutside: on a site with a batch system, nodes without a partition are not offered,
// however large and idle; on a site without one every node is.
func TestFitOutside(t *testing.T) {
	facts, err := database.Open(filepath.Join(t.TempDir(), "c.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer facts.Close()
	node := func(site, name string, cores float64) wire.Node {
		return wire.Node{Site: site, Node: name, Up: true, Cores: ptr(cores), CoresUsed: ptr(0), MemoryBytes: ptr(1e12), MemoryUsed: ptr(0)}
	}
	batch := node("hpc", "n1", 8)
	batch.Batch = &wire.NodeBatch{Partitions: []string{"cpu"}, Open: true, Cores: ptr(8), CoresHeld: ptr(2), MemoryBytes: ptr(1e12), MemoryHeld: ptr(0)}
	f := &Fit{Waits: facts, Clock: time.Now, Views: nodeList{batch, node("hpc", "login1", 8), node("lab", "ws1", 8)}}
	list, err := f.Fit(t.Context(), wire.FitQuery{Cores: 4})
	if err != nil || len(list.Places) != 3 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, p := range list.Places {
		if outside := p.Site == "hpc" && len(p.Partitions) == 0; *p.Fits == outside || (*p.FreeNow == 0) != outside || (p.Why == "in no partition") != outside {
			t.Errorf("%s %v: fits %v, room on %d, %q", p.Site, p.Partitions, *p.Fits, *p.FreeNow, p.Why)
		}
	}
}

func TestFit(t *testing.T) {
	facts, err := database.Open(filepath.Join(t.TempDir(), "c.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer facts.Close()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var rows []store.Workload
	for i := range 11 {
		start := now.Add(-time.Duration(i+1) * time.Hour)
		rows = append(rows, store.Workload{ID: "slurm/" + string(rune('a'+i)), Kind: "slurm", Partition: "cpu", Nodes: []string{"small1"},
			Submit: start.Add(-time.Duration(i) * time.Minute), Start: start, Seen: start.Add(time.Hour), End: start.Add(time.Hour), Row: figure.Row{RequestCores: ptr(4)}})
	}
	rows = append(rows, store.Workload{ID: "slurm/big", Kind: "slurm", Partition: "fat", Nodes: []string{"big1"}, Submit: now.Add(-2 * time.Hour), Start: now.Add(-time.Hour), Seen: now, Row: figure.Row{RequestCores: ptr(64), RequestGPUs: ptr(2)}})
	if err := facts.Upsert(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	node := func(name string, cores, used float64, up bool) wire.Node {
		return wire.Node{Node: name, Up: up, Cores: ptr(cores), CoresUsed: ptr(used), MemoryBytes: ptr(cores * 1e9), MemoryUsed: ptr(1e9)}
	}
	f := &Fit{Waits: facts, Clock: func() time.Time { return now },
		Views: nodeList{node("small1", 8, 7, true), node("small2", 8, 1, true), node("small3", 8, 0, false), node("big1", 64, 1, true)}}
	ask := func(q wire.FitQuery) []wire.Place {
		list, err := f.Fit(t.Context(), q)
		if err != nil || len(list.Places) != 2 {
			t.Fatalf("%+v, %v", list, err)
		}
		return list.Places
	}
	p := ask(wire.FitQuery{Cores: 4})
	small := p[0]
	if *small.Cores != 8 || !*small.Fits || small.Nodes != 3 || *small.Up != 2 || *small.FreeNow != 1 || small.Comparable != 11 || *small.WaitP50 != 300 || *small.WaitP90 != 540 || small.Partitions[0] != "cpu" {
		t.Errorf("%+v", small)
	}
	if p[1].WaitP50 != nil || !*p[1].Fits {
		t.Errorf("a wait that nobody knows: %+v", p[1])
	}
	if p = ask(wire.FitQuery{Cores: 32}); *p[0].Cores != 64 || *p[1].Fits || p[1].Why == "" || p[1].Comparable != 0 {
		t.Errorf("%+v", p)
	}
	if p = ask(wire.FitQuery{GPUs: 2}); *p[0].Cores != 64 || !*p[0].Fits || p[1].Fits != nil || p[1].Why == "" || *p[0].FreeNow != 0 {
		t.Errorf("%+v", p)
	}
}

package answer

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/value"

	"reckon/catalogue/database"
	"reckon/figure"
	"reckon/figure/wire"
	"reckon/metric"
	"reckon/query"
	"reckon/store"
	"reckon/store/tsdb"
)

// TestPartitionCapacity: a node moves from one partition to another at noon, one is in two,
// one is down for half of the day, one is in none, and Slurm names one by its long name.
func TestPartitionCapacity(t *testing.T) {
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	begin := now.AddDate(0, 0, -1)
	facts, err := database.Open(filepath.Join(t.TempDir(), "c.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer facts.Close()
	series, err := tsdb.Open(tsdb.Options{Dir: t.TempDir(), Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer series.Close()
	desc := &metric.Desc{Name: "reckon_slurm_partition_node", Help: "Test.", Kind: metric.Gauge, Labels: []string{"partition", "node"}}
	var nodes []store.NodeUse
	var use []store.Use
	for h := range 24 {
		at_ := begin.Add(time.Duration(h) * time.Hour)
		for _, node := range []string{"moves", "both", "down", "login", "long"} {
			if node == "down" && h >= 12 {
				continue
			}
			nodes = append(nodes, store.NodeUse{At: at_, Site: "s", Node: node, Capacity: figure.Capacity{UpSeconds: ptr(3600), CoreSeconds: ptr(10 * 3600), CoreUsedSeconds: ptr(5 * 3600)}})
		}
		for _, p := range []string{"cpu", "gpu", "gone", ""} {
			use = append(use, store.Use{At: at_, Site: "s", Kind: "slurm", Owner: "a", Partition: p, Used: store.Used{CPUSeconds: ptr(3600)}})
		}
		home := "cpu"
		if h >= 12 {
			home = "gpu"
		}
		for m := 0; m < 60; m += 5 {
			b := &metric.Batch{Time: at_.Add(time.Duration(m) * time.Minute)}
			for _, x := range [][2]string{{home, "moves"}, {"cpu", "both"}, {"gpu", "both"}, {"cpu", "down"}, {"gpu", "long.example.org"}} {
				s := metric.NewSeries(desc, x[0], x[1])
				b.Add(s, 1)
			}
			if h == 12 && m == 0 {
				b.Samples = append(b.Samples, metric.Sample{Series: metric.NewSeries(desc, "cpu", "moves"), Value: math.Float64frombits(value.StaleNaN), Last: true})
			}
			if err := series.Append(t.Context(), map[string]string{"site": "s"}, b); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := facts.ReplaceHours(t.Context(), begin, now, use, nodes); err != nil {
		t.Fatal(err)
	}
	views := query.New(series, query.Options{})
	clock := func() time.Time { return now }
	u := &Usage{Rollups: facts, Catalogue: facts, Partitions: &Partitions{Views: views, Clock: clock}, Clock: clock}
	ask := func(q wire.UsageQuery) map[string]string {
		t.Helper()
		q.Since, q.Until = begin, now
		list, err := u.Usage(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{"total": hoursOf(list.Total.CoreSeconds)}
		for _, r := range list.Rows {
			at := ""
			if r.From != nil {
				at = r.From.Format("15 ")
			}
			got[at+r.Site+r.Partition] = hoursOf(r.CoreSeconds) + " " + hoursOf(r.CapacityShare)
		}
		return got
	}
	check := func(got map[string]string, want ...string) {
		t.Helper()
		for i := 0; i < len(want); i += 2 {
			if got[want[i]] != want[i+1] {
				t.Errorf("%q: %s, want %s; all: %v", want[i], got[want[i]], want[i+1], got)
			}
		}
	}
	// By hour, the move appears in its hour; a machine that is down has no capacity.
	hours := ask(wire.UsageQuery{Span: "hour", By: []string{"partition"}})
	check(hours, "03 cpu", "30 0.033", "03 gpu", "20 0.05", "20 cpu", "10 0.1", "20 gpu", "30 0.033", "03 gone", "- -", "03 ", "50 0.02", "total", "1080")
	check(ask(wire.UsageQuery{Span: "hour", By: []string{"partition", "site"}}), "03 scpu", "30 0.033", "20 sgpu", "30 0.033")
	check(ask(wire.UsageQuery{Span: "whole", By: []string{"partition"}}), "cpu", "480 0.05", "gpu", "600 0.04", "total", "1080")
	// A filter by partition selects its nodes, each once.
	check(ask(wire.UsageQuery{Span: "hour", By: []string{"owner"}, Partitions: []string{"cpu", "gpu"}}), "03 ", "40 0.05", "total", "840")
	check(ask(wire.UsageQuery{Span: "hour", By: []string{"owner"}}), "total", "1080")
	// Without reports of partitions, each has the capacity of all machines, as without a batch system.
	u.Partitions = nil
	check(ask(wire.UsageQuery{Span: "hour", By: []string{"partition"}}), "03 cpu", "50 0.02")
}

func hoursOf(v *float64) string {
	switch {
	case v == nil:
		return "-"
	case *v < 10:
		return fmt.Sprintf("%.2g", *v)
	}
	return fmt.Sprint(*v / 3600)
}

package query_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/internal/series"
	"reckon/internal/series/courtesy"
	"reckon/query"
	"reckon/store/tsdb"
)

// BenchmarkSite asks questions over all workloads of 2,000 nodes with 15 of them each, in memory as after five minutes, between other series.
func BenchmarkSite(b *testing.B) {
	s, err := tsdb.Open(tsdb.Options{Dir: b.TempDir(), Series: 300_000})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	const nodes, workloads, minutes = 2000, 15, 5
	now := time.Now().Truncate(time.Minute)
	var all []labels.Labels
	for n := range nodes {
		node := fmt.Sprintf("cpu%04d", n)
		for w := range workloads {
			id, owner := fmt.Sprintf("service/%s/unit%d.service", node, w), fmt.Sprintf("user%d", (n*7+w)%200)
			for _, l := range [][]string{
				{"__name__", "reckon_workload_cpu_seconds_total", "mode", "user"}, {"__name__", "reckon_workload_cpu_seconds_total", "mode", "system"},
				{"__name__", "reckon_workload_memory_bytes", "type", "anon"}, {"__name__", "reckon_workload_memory_bytes", "type", "file"},
				{"__name__", "reckon_workload_threads"}, {"__name__", "reckon_workload_io_bytes_total", "direction", "read"},
				{"__name__", "reckon_workload_io_bytes_total", "direction", "write"}, {"__name__", "reckon_workload_memory_peak_bytes"},
			} {
				all = append(all, labels.FromStrings(append([]string{"kind", "service", "node", node, "owner", owner, "site", "bench", "workload", id}, l...)...))
			}
		}
		all = append(all, labels.FromStrings("__name__", "node_load1", "node", node, "site", "bench"))
	}
	fill(b, s, all, now, minutes)
	e := query.NewEngine(query.EngineOptions{})
	// Beside two that read all series again and again, as the catalogue and the rules of alerts do for seconds each minute.
	for name, gives := range map[string]bool{"by owner, beside others": false, "by owner, others give way": true} {
		b.Run(name, func(b *testing.B) {
			var gate courtesy.Gate
			behind, stop := context.WithCancel(b.Context())
			if gives {
				behind = gate.Background(behind)
			}
			var others sync.WaitGroup
			var read atomic.Int64
			for range 2 {
				others.Go(func() {
					for behind.Err() == nil {
						if err := series.EachUnordered(behind, s, now.Add(-5*time.Minute), now, func(_ labels.Labels, it chunkenc.Iterator) error {
							series.Last(it)
							read.Add(1)
							return behind.Err()
						}, series.Equal("kind", "service")); err != nil && behind.Err() == nil {
							b.Error(err)
						}
					}
				})
			}
			for b.Loop() {
				ask(gate.Question(b.Context()), b, e, s, byOwner, now)
			}
			b.ReportMetric(float64(read.Load())/b.Elapsed().Seconds(), "others-series/s")
			stop()
			others.Wait()
		})
	}
	for name, q := range map[string]string{
		"by owner": byOwner,
		"topk":     `topk(10, sum by (workload) (rate(reckon_workload_cpu_seconds_total[2m])))`,
		"memory":   `sum(reckon_workload_memory_bytes{type="anon"})`,
		"load":     `node_load1`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			began := cpuTime(b)
			for b.Loop() {
				ask(b.Context(), b, e, s, q, now)
			}
			b.ReportMetric(float64(cpuTime(b)-began)/1e6/float64(b.N), "cpu-ms/op") // the same at any load of the machine, nearly
		})
	}
}

const byOwner = `sum by (owner) (rate(reckon_workload_cpu_seconds_total[2m]))`

func ask(ctx context.Context, b *testing.B, e *query.Engine, s *tsdb.Store, q string, now time.Time) {
	b.Helper()
	made, err := e.NewInstantQuery(ctx, s, nil, q, now.Add(-30*time.Second))
	if err != nil {
		b.Fatal(err)
	}
	defer made.Close()
	if r := made.Exec(ctx); r.Err != nil || r.Value.String() == "" {
		b.Fatal(r.Err)
	}
}

// cpuTime is the CPU time of the process, garbage collection included.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkNodes reads the list of 1,000 nodes with 12 processors and 15 workloads each, in memory as after five minutes.
func BenchmarkNodes(b *testing.B) {
	s, err := tsdb.Open(tsdb.Options{Dir: b.TempDir(), Series: 300_000})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	const nodes, processors, workloads, minutes = 1000, 12, 15, 5
	now := time.Now().Truncate(time.Minute)
	var all []labels.Labels
	for n := range nodes {
		node := fmt.Sprintf("cpu%04d", n)
		add := func(l ...string) {
			all = append(all, labels.FromStrings(append([]string{"node", node, "site", "bench"}, l...)...))
		}
		for c := range processors {
			for _, mode := range []string{"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"} {
				add("__name__", "node_cpu_seconds_total", "cpu", fmt.Sprint(c), "mode", mode)
			}
		}
		for w := range workloads {
			for _, l := range [][]string{
				{"__name__", "reckon_workload_cpu_seconds_total", "mode", "user"}, {"__name__", "reckon_workload_cpu_seconds_total", "mode", "system"},
				{"__name__", "reckon_workload_start_time_seconds"}, {"__name__", "reckon_workload_threads"}, {"__name__", "reckon_workload_memory_peak_bytes"},
				{"__name__", "reckon_workload_memory_bytes", "type", "anon"}, {"__name__", "reckon_workload_memory_bytes", "type", "file"},
			} {
				add(append(l, "kind", "service", "owner", fmt.Sprintf("user%d", w), "workload", fmt.Sprintf("service/%s/unit%d.service", node, w))...)
			}
		}
		for _, name := range []string{"node_memory_MemTotal_bytes", "node_memory_MemAvailable_bytes", "node_load1", "node_boot_time_seconds", "reckon_agent_cpu_seconds_total", "reckon_agent_memory_bytes"} {
			add("__name__", name)
		}
	}
	fill(b, s, all, now, minutes)
	v := query.New(s, query.Options{})
	b.ReportAllocs()
	began := cpuTime(b)
	for b.Loop() {
		if list, err := v.Nodes(b.Context(), now); err != nil || len(list) != nodes || list[0].Workloads != workloads || *list[0].Cores != processors {
			b.Fatal(len(list), err)
		}
	}
	b.ReportMetric(float64(cpuTime(b)-began)/1e6/float64(b.N), "cpu-ms/op")
}

// fill stores a sample a minute of each series for some minutes up to now.
func fill(b *testing.B, s *tsdb.Store, series []labels.Labels, now time.Time, minutes int) {
	b.Helper()
	for m := range minutes {
		app := s.AppenderV2(context.Background())
		for i, l := range series {
			if _, err := app.Append(0, l, 0, now.Add(time.Duration(m-minutes)*time.Minute).UnixMilli(), float64(m*(i%13)), nil, nil, storage.AOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		if err := app.Commit(); err != nil {
			b.Fatal(err)
		}
	}
}

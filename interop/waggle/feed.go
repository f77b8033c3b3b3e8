package waggle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/prometheus/promql"
)

// publishedFigures lists the published figures of nodes, GPUs and workloads. Counters are published as means over two minutes,
// gauges as latest values. Labels become meta fields of the same name, except that node becomes host, as in Waggle.
var publishedFigures = []struct{ name, expr string }{
	{"reckon.node.cpu_cores", `sum by (site, node) (rate(node_cpu_seconds_total{mode=~"user|nice|system|irq|softirq"}[2m]))`},
	{"reckon.node.memory_bytes", `max by (site, node) (node_memory_MemTotal_bytes) - max by (site, node) (node_memory_MemAvailable_bytes)`},
	{"reckon.node.power_watts", `sum by (site, node, domain, method) (rate(reckon_node_energy_joules_total[2m]))`},
	{"reckon.gpu.busy_ratio", `sum by (site, node, vendor, device) (rate(reckon_gpu_busy_seconds_total[2m]))`},
	{"reckon.gpu.memory_bytes", `max by (site, node, vendor, device) (reckon_gpu_memory_bytes)`},
	{"reckon.gpu.temperature_celsius", `max by (site, node, vendor, device) (reckon_gpu_temperature_celsius{place="core"})`},
	{"reckon.workload.cpu_cores", `sum by (site, node, workload, kind, owner) (rate(reckon_workload_cpu_seconds_total[2m]))`},
	{"reckon.workload.memory_bytes", `sum by (site, node, workload, kind, owner) (reckon_workload_memory_bytes)`},
	{"reckon.workload.gpus", `sum by (site, node, workload, kind, owner) (rate(reckon_workload_gpu_seconds_total[2m]))`},
	{"reckon.workload.power_watts", `sum by (site, node, workload, kind, owner, method) (rate(reckon_workload_energy_joules_total[2m]))`},
	{"reckon.workload.network_bytes_per_second",
		`sum by (site, node, workload, kind, owner, direction) (rate(reckon_workload_network_bytes_total[2m]))`},
}

// Ask runs an instant query.
type Ask func(ctx context.Context, expr string, at time.Time) (promql.Vector, error)

// Every is the default publishing interval.
const Every = time.Minute

// maxBuffered is the number of messages buffered for a queue that does not respond; the oldest are dropped.
const maxBuffered = 50_000

// Feed publishes the current figures of a server.
type Feed struct {
	Publisher *Publisher
	Ask       Ask
	Every     time.Duration
	Log       *slog.Logger

	waiting []Message
	failing bool
}

// Run publishes until ctx ends.
func (f *Feed) Run(ctx context.Context) {
	defer f.Publisher.Close()
	tick := time.NewTicker(f.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			f.publishRound(ctx, now)
		}
	}
}

// publishRound collects the current figures and publishes all buffered messages.
func (f *Feed) publishRound(ctx context.Context, now time.Time) {
	m, err := Collect(ctx, f.Ask, now)
	if err != nil {
		f.Log.Warn("some figures cannot be published to Waggle", "error", err)
	}
	f.waiting = append(f.waiting, m...)
	if over := len(f.waiting) - maxBuffered; over > 0 {
		f.waiting = slices.Delete(f.waiting, 0, over)
		f.Log.Warn("messages for Waggle are dropped: the queue has not answered for long", "messages", over)
	}
	sent, err := f.Publisher.Publish(ctx, f.waiting)
	f.waiting = slices.Delete(f.waiting, 0, sent)
	switch {
	case err != nil && !f.failing:
		f.Log.Warn("publishing to Waggle failed; the figures are queued for retry", "waiting", len(f.waiting), "error", err)
	case err == nil && f.failing:
		f.Log.Info("figures are published to Waggle again", "messages", sent)
	}
	f.failing = err != nil
}

// Collect returns the current figures. A query that fails is left out and named in the error.
func Collect(ctx context.Context, ask Ask, at time.Time) (out []Message, err error) {
	for _, f := range publishedFigures {
		v, failed := ask(ctx, f.expr, at)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", f.name, failed))
			continue
		}
		for _, s := range v {
			meta := s.Metric.Map()
			maps.DeleteFunc(meta, func(_, v string) bool { return v == "" })
			if node, ok := meta["node"]; ok {
				delete(meta, "node")
				meta["host"] = node
			}
			m := Message{Name: f.name, Value: s.F, Time: at, Meta: meta}
			if _, bad := m.Encode(); bad == nil {
				out = append(out, m)
			}
		}
	}
	return out, err
}

package pipeline_test

import (
	"slices"
	"testing"
	"time"

	"reckon/metric"
	"reckon/test/pipeline"
	"reckon/workload"
)

// TestConnectionsOfKinds: work that a person starts and that opens 20 TCP connections a second is found, whatever runs it, and a
// service that does so is not.
func TestConnectionsOfKinds(t *testing.T) {
	want := map[workload.ID]bool{
		"slurm/1": true, "pbs/1": true, "sge/1": true, "lsf/1": true, "job/train/resnet": true, "session/alice/1": true,
		"deployment/shop/cart": false, "pod/shop/cart": false, "container/web": false, "vm/guest": false, "unit/proxy.service": false, "cronjob/shop/mail": false,
	}
	desc := func(name string, kind metric.Kind, unit metric.Unit, extra ...string) *metric.Desc {
		return &metric.Desc{Name: name, Kind: kind, Unit: unit, Help: "For a test.", Labels: append([]string{"workload", "kind", "part", "owner"}, extra...)}
	}
	start, cpu := desc("reckon_workload_start_time_seconds", metric.Gauge, metric.Seconds), desc("reckon_workload_cpu_seconds_total", metric.Counter, metric.Seconds, "mode")
	opened := desc("reckon_workload_network_connections_total", metric.Counter, metric.None, "role")

	begin := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	s := pipeline.Empty(t, begin)
	var series [3][]*metric.Series
	for id := range want {
		labels := []string{string(id), string(id.Kind()), "", "alice"}
		series[0] = append(series[0], metric.NewSeries(start, labels...))
		series[1] = append(series[1], metric.NewSeries(cpu, append(labels, "user")...))
		series[2] = append(series[2], metric.NewSeries(opened, append(labels, "client")...))
	}
	for at := time.Duration(0); at <= time.Hour; at += 30 * time.Second {
		s.Now = begin.Add(at)
		b := &metric.Batch{Time: s.Now}
		for i := range series[0] {
			b.Add(series[0][i], float64(begin.Unix()))
			b.Add(series[1][i], 0.5*at.Seconds())
			b.Add(series[2][i], 20*at.Seconds())
		}
		if err := s.Append("n1", b); err != nil {
			t.Fatal(err)
		}
		s.Advance()
	}
	var found []string
	for _, f := range s.Findings("") {
		if f.Rule == "many-connections" {
			found = append(found, f.Workload)
		}
	}
	for id, is := range want {
		if slices.Contains(found, string(id)) != is {
			t.Errorf("%s: found %v, want %v", id, !is, is)
		}
	}
}

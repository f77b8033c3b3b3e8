package ingest

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/prometheus/client_golang/exp/api/remote"
	"github.com/prometheus/client_golang/prometheus"
	promremote "github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb"

	"reckon/metric"
	"reckon/transport/push"
)

// BenchmarkBesidePrometheus stores the same requests of remote write 2.0 by this receiver and by Prometheus's own handler
// (storage/remote.NewWriteHandler over its database), which bounds nothing.
func BenchmarkBesidePrometheus(b *testing.B) {
	db, err := tsdb.Open(b.TempDir(), slog.New(slog.NewTextHandler(io.Discard, nil)), nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	theirs := promremote.NewWriteHandler(slog.New(slog.DiscardHandler), prometheus.NewRegistry(), db,
		remote.MessageTypes{remote.WriteV1MessageType, remote.WriteV2MessageType}, true, false, false)
	for name, h := range map[string]http.Handler{"reckon": Handler(Options{Store: openStore(b)}), "prometheus": theirs} {
		b.Run(name, func(b *testing.B) {
			desc := &metric.Desc{Name: "reckon_workload_cpu_seconds_total", Help: "CPU time.", Kind: metric.Counter, Unit: metric.Seconds,
				Labels: []string{"workload", "kind", "owner", "part", "mode"}}
			batch := &metric.Batch{}
			for i := range 2000 {
				batch.Add(metric.NewSeries(desc, fmt.Sprintf("slurm/%d", i/10), "slurm", fmt.Sprintf("user%d", i%17), fmt.Sprintf("step%d", i%5), []string{"user", "system"}[i%2]), 1)
			}
			e := push.NewEncoder(map[string]string{"node": "n1", "site": "lab"}, push.Filter{})
			at := time.Now().Add(-time.Hour)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				at = at.Add(time.Millisecond)
				batch.Time = at
				var body []byte
				_ = e.Encode(batch, func(r []byte, _ int) error { body = s2.EncodeSnappy(nil, r); return nil })
				b.StartTimer()
				if w := send(h, kind2, body); w.Code != 204 {
					b.Fatal(w.Code, w.Body)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2000, "ns/sample")
		})
	}
}

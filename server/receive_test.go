package server

import (
	"context"
	"net/http"
	"testing"
	"time"

	"reckon/metric"
	"reckon/transport/push"
	"reckon/web/client"
)

// A server without sensors builds its catalogue from what agents push.
func TestServerReceives(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := Open(ctx, Config{Listen: "127.0.0.1:0", Data: t.TempDir(), Receive: true, OutOfOrder: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	address := "http://" + s.Addr()

	labels := []string{"workload", "kind", "part", "owner", "mode"}
	cpu := &metric.Desc{Name: "reckon_workload_cpu_seconds_total", Help: "CPU time.", Kind: metric.Counter, Unit: metric.Seconds, Labels: labels}
	p, err := push.Open(push.Config{
		Endpoints: []push.Endpoint{{URL: address}}, QueueDir: t.TempDir(),
		Labels: map[string]string{"site": "lab", "node": "n1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if f := p.Check(ctx)[0]; f.Problem != "" || f.Protocol != "2.0" {
		t.Fatalf("%+v", f)
	}
	now := time.Now()
	series := metric.NewSeries(cpu, "slurm/4711", "slurm", "step_0", "alice", "user")
	series.Created = now.Add(-40 * time.Second).UnixMilli()
	for i := range 3 {
		b := &metric.Batch{Time: now.Add(time.Duration(i-2) * 10 * time.Second)}
		b.Add(series, float64(10*(i+1)))
		if err := p.Put(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	p.Flush(ctx)
	if st := p.Status()[0]; st.Sent != 3 {
		t.Fatalf("%+v", st)
	}
	if _, err := s.builder.Advance(ctx); err != nil { // what the ticker does within seconds
		t.Fatal(err)
	}
	c, err := client.New(address)
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.Workloads(ctx, client.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Workloads) != 1 || list.Workloads[0].ID != "slurm/4711" || list.Workloads[0].Owner != "alice" ||
		list.Workloads[0].CPUSeconds == nil || *list.Workloads[0].CPUSeconds != 30 || list.Workloads[0].Site != "lab" {
		t.Errorf("%+v", list.Workloads)
	}
	resp, err := http.Get(address + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("/readyz answers %d", resp.StatusCode)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

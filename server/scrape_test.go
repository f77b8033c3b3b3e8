package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/agent"
	"reckon/metric"
	"reckon/transport/push"
	"reckon/web/client"
)

// wait asks again until it holds; only a hang reaches the limit.
func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	limit := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-again.C:
		case <-limit:
			t.Fatal("waited two minutes for " + what)
		}
	}
}

func getJSON(t *testing.T, address string, v any) {
	t.Helper()
	resp, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(v); err != nil {
		t.Fatalf("%s: %v", address, err)
	}
}

// One process measures, scrapes, and takes what others push and what scripts send.
func TestServerTakesAll(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "# HELP shop_orders_total Orders taken.\n# TYPE shop_orders_total counter\nshop_orders_total 7\n")
	}))
	defer target.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "scrape.yaml")
	text := "global: {scrape_interval: 1s}\nscrape_configs: [{job_name: shop, static_configs: [{targets: ['" + strings.TrimPrefix(target.URL, "http://") + "']}]}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := Open(ctx, Config{
		Listen: "127.0.0.1:0", Data: filepath.Join(dir, "data"), OutOfOrder: time.Hour, Receive: true, ScrapeConfig: file,
		Socket: filepath.Join(dir, "push.sock"), SocketWanted: true,
		Agent: &agent.Config{Node: "n1", Source: "procfs", Exits: "none", Tick: 100 * time.Millisecond, Export: time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	address := "http://" + s.Addr()

	value := func(query string) (labels map[string]string, value string) {
		var a struct {
			Data struct {
				Result []struct {
					Metric map[string]string
					Value  []any
				}
			}
		}
		getJSON(t, address+"/api/v1/query?query="+query, &a)
		if len(a.Data.Result) != 1 {
			return nil, ""
		}
		return a.Data.Result[0].Metric, fmt.Sprint(a.Data.Result[0].Value[1])
	}
	wait(t, "the scraped target", func() bool {
		labels, v := value("shop_orders_total")
		return v == "7" && labels["job"] == "shop"
	})
	var targets struct {
		Data struct {
			ActiveTargets []struct{ ScrapePool, Health string }
		}
	}
	getJSON(t, address+"/api/v1/targets", &targets)
	healthy := 0
	for _, a := range targets.Data.ActiveTargets {
		if a.ScrapePool == "shop" && a.Health == "up" {
			healthy++
		}
	}
	if healthy != 1 {
		t.Errorf("/api/v1/targets: %+v", targets)
	}

	if _, err := client.PushOwn(ctx, client.Pushing{Socket: filepath.Join(dir, "push.sock")}, []byte("my_loss 0.25\n")); err != nil {
		t.Fatal(err)
	}
	wait(t, "the figure of a script", func() bool {
		labels, v := value("my_loss")
		return v == "0.25" && labels["workload"] != "" && labels["owner"] != "" && labels["node"] == "n1"
	})

	p, err := push.Open(push.Config{Endpoints: []push.Endpoint{{URL: address}}, QueueDir: filepath.Join(dir, "queue"), Labels: map[string]string{"node": "n2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	b := &metric.Batch{Time: time.Now()}
	b.Add(metric.NewSeries(&metric.Desc{Name: "pushed_things", Kind: metric.Gauge}), 3)
	if err := p.Put(ctx, b); err != nil {
		t.Fatal(err)
	}
	p.Flush(ctx)
	if labels, v := value("pushed_things"); v != "3" || labels["node"] != "n2" {
		t.Errorf("%v %v", labels, v)
	}
	otlp := fmt.Sprintf(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"told.things","gauge":{"dataPoints":[{"timeUnixNano":"%d","asDouble":5}]}}]}]}]}`, time.Now().UnixNano())
	resp, err := http.Post(address+"/v1/metrics", "application/json", strings.NewReader(otlp))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if _, v := value("told_things"); resp.StatusCode != http.StatusOK || v != "5" {
		t.Errorf("OTLP: %s, stored %q", resp.Status, v)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "push.sock")); err == nil {
		t.Error("the socket was left behind")
	}
}

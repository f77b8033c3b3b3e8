package server

import (
	"bufio"
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"reckon/metric"
	"reckon/transport/push"
)

// What agents push is in the knowledge graph: in our words, with the query of every figure, and for clients of GLACIATION in theirs.
func TestGraphFollowsCatalogue(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := Open(ctx, Config{Listen: "127.0.0.1:0", Data: t.TempDir(), Receive: true, OutOfOrder: time.Hour, Graph: Graph{Compatible: true, URL: "http://reckon.example"}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stream, err := http.Get("http://" + s.Addr() + "/graph/changes")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	pushJob(t, "http://"+s.Addr())
	if _, err := s.builder.Advance(ctx); err != nil {
		t.Fatal(err)
	}
	s.graph.markChanged()
	for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
		if strings.Contains(lines.Text(), "slurm/4711") {
			break
		}
	}
	ask := func(path, query string) string {
		_, text := get(t, s, path+"?query="+url.QueryEscape(query))
		return text
	}
	text := ask("/sparql", `PREFIX rk: <urn:reckon:ns#> SELECT ?q ?url { ?w rk:workload "slurm/4711" ; rk:owner "alice" ; rk:telemetry/rk:hasMetrics ?m . ?m rk:source/rk:url ?url ; rk:series ?s . ?s rk:metricName "reckon_workload_cpu_seconds_total" ; rk:query ?q }`)
	if !strings.Contains(text, `sum(rate(reckon_workload_cpu_seconds_total{workload=\"slurm/4711\",site=\"lab\"}[5m]))`) || !strings.Contains(text, "http://reckon.example") {
		t.Error(text)
	}
	text = ask("/api/v0/graph", `PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> SELECT ?graphURI ?pod ?node WHERE {
{ SELECT ?graphURI WHERE { GRAPH ?graphURI {} FILTER regex(str(?graphURI), "^timestamp:") } ORDER BY DESC(xsd:integer(replace(str(?graphURI), "^timestamp:", ""))) LIMIT 2 }
GRAPH ?graphURI { ?pod <glc:hasDescription> "Pod" . ?pod <glc:consumes> ?node . ?task <glc:makes> ?pod } }`)
	if !strings.Contains(text, "https://kubernetes.local/#alice.4711") || !strings.Contains(text, "https://kubernetes.local/#n1") {
		t.Error(text)
	}
	latest := regexp.MustCompile(`"value":"3\.3[0-9]*E-1"`) // 100 s of CPU time in the last 5 min
	text = ask("/sparql", `PREFIX rk: <urn:reckon:ns#> SELECT ?v { ?w rk:workload "slurm/4711" ; rk:telemetry/rk:hasMetrics/rk:series ?s GRAPH <urn:reckon:latest> { ?s rk:latestValue ?v } }`)
	if len(latest.FindAllString(text, -1)) != 1 || strings.Count(text, `"value"`) != 1 {
		t.Errorf("latest values of the one series that there is: %s", text)
	}
	if text := ask("/sparql", `ASK { ?s <urn:reckon:ns#latestValue> ?v }`); !strings.Contains(text, "false") {
		t.Error("a value is stored")
	}
	id := regexp.MustCompile(`"(urn:reckon:workload/[^"]*4711[^"]*)"`).FindStringSubmatch(body(get(t, s, "/subgraphs_versions")))[1]
	for query, n := range map[string]int{"": 0, "?values=latest": 1} {
		if text := body(get(t, s, "/subgraph/"+url.PathEscape(id)+query)); strings.Count(text, "rk:latestValue") != n || strings.Count(text, "rk:latestTime") != n {
			t.Errorf("%q: %s", query, text)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func body(_ int, text string) string { return text }

// pushJob sends what an agent would of a job that began two minutes ago.
func pushJob(t *testing.T, address string) {
	t.Helper()
	p, err := push.Open(push.Config{Endpoints: []push.Endpoint{{URL: address}}, QueueDir: t.TempDir(), Labels: map[string]string{"site": "lab", "node": "n1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	cpu := &metric.Desc{Name: "reckon_workload_cpu_seconds_total", Help: "CPU time.", Kind: metric.Counter, Unit: metric.Seconds, Labels: []string{"workload", "kind", "part", "owner", "mode"}}
	series := metric.NewSeries(cpu, "slurm/4711", "slurm", "step_0", "alice", "user")
	now := time.Now()
	series.Created = now.Add(-3 * time.Minute).UnixMilli()
	for i := range 10 {
		b := &metric.Batch{Time: now.Add(time.Duration(i-9) * 15 * time.Second)}
		b.Add(series, float64(10*(i+1)))
		if err := p.Put(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	p.Flush(t.Context())
}

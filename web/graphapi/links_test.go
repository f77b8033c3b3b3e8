package graphapi_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"reckon/graph"
	"reckon/graph/object"
	"reckon/graph/own"
	"reckon/graph/telemetry"
)

// A workload is found by its name and run, a node by its name and site, and both with the queries of their figures and logs.
func TestConnections(t *testing.T) {
	a := newAPI(t)
	places := telemetry.Links{URL: "http://reckon:9870", Loki: "http://loki:3100"}
	write := func(id string, quads []graph.Quad) {
		t.Helper()
		var b strings.Builder
		for _, q := range quads {
			b.WriteString(q.String() + "\n")
		}
		a.want(a.do("PUT", "/subgraph/"+url.PathEscape(id), b.String(), "Content-Type: application/n-triples"), 200)
	}
	lab := own.Vocabulary{Site: "lab"}
	first, last := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for _, start := range []time.Time{last, first} {
		w := object.Workload{Kind: "slurm", Name: `a"b`, UID: start.Format("0102"), ID: `slurm/a"b`, Start: start, RunsOn: []string{"n1"}, Telemetry: places.Of(telemetry.Selector("workload", `slurm/a"b`), "")}
		w.Telemetry.Logs = places.Logs(`workload="slurm/a"`)
		write(lab.WorkloadID(w.Kind, "", w.Name, w.UID).Value, lab.Workload(w))
	}
	for _, site := range []string{"lab", "labs"} {
		v := own.Vocabulary{Site: site}
		write(v.NodeID("n1").Value, v.Node(object.Node{Name: "n1", Status: "Ready"}))
	}
	of := func(pairs ...string) string {
		q := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			q.Set(pairs[i], pairs[i+1])
		}
		return "/graph/links?" + q.Encode()
	}
	a.want(a.do("GET", of("workload", `slurm/a"b`), ""), 200, `"iri":"urn:reckon:workload/lab/slurm/a%22b/0102"`, `"relation":"urn:reckon:ns#runsOn","to":"urn:reckon:node/lab/n1","name":"n1"`,
		`"title":"Cores in use","unit":"1","query":"sum(rate(reckon_workload_cpu_seconds_total{workload=\"slurm/a\\\"b\"}[5m]))","url":"http://reckon:9870"`, `"source":"loki","query":"{workload=\"slurm/a\"}","url":"http://loki:3100"`)
	a.want(a.do("GET", of("workload", `slurm/a"b`, "start", "2026-01-01T00:00:00Z", "site", "lab"), ""), 200, `a%22b/0101"`)
	a.want(a.do("GET", of("workload", `slurm/a"b`, "site", "labs"), ""), 404, "the graph has no workload")
	a.want(a.do("GET", of("node", "n1", "site", "labs"), ""), 200, `"iri":"urn:reckon:node/labs/n1"`)
	a.want(a.do("GET", of("node", "n1", "site", "lab"), ""), 200, `"iri":"urn:reckon:node/lab/n1"`, `"back":true`)
	a.want(a.do("GET", of("node", "other"), ""), 404)
	a.want(a.do("GET", "/graph/links", ""), 400)
}

package own_test

import (
	"slices"
	"strings"
	"testing"

	"reckon/graph"
	"reckon/graph/object"
	"reckon/graph/own"
)

func telemetry() *object.Telemetry {
	return &object.Telemetry{
		Metrics: &object.Metrics{Source: object.Source{Type: "prometheus", URL: "http://prometheus.internal:9000"}, Dashboard: "https://grafana.example/d/x",
			Series: []object.Series{{Name: "cpu_usage", Unit: "1", Type: "gauge", Query: "sum(rate(x[5m]))"}}},
		Logs: &object.Logs{Source: object.Source{Type: "loki", URL: "http://loki:3100"}, Query: `{pod="x"}`},
	}
}

// Every line of the chapter Metadata of the requirements of GLACIATION is covered, and every quad is well formed.
func TestMetadataChapter(t *testing.T) {
	v := own.Vocabulary{Site: "glaciation-node1"}
	quads := v.Workload(object.Workload{Kind: "Deployment", Namespace: "shop", Name: "cart", UID: "u1", Owner: "shop", RunsOn: []string{"n1"},
		Reads: []object.Data{{Kind: "persistentVolumeClaim", Namespace: "shop", Name: "carts"}}, Telemetry: telemetry(),
		Owners: []object.Ref{{Kind: "App", Namespace: "shop", Name: "shop"}}, Containers: []object.Requirements{{Requests: object.Amounts{object.CPU: 0.5}, Limits: object.Amounts{object.Memory: 1 << 30}}}})
	quads = append(quads, v.Node(object.Node{Name: "n1", Status: "Ready", Telemetry: telemetry()})...)
	quads = append(quads, v.Describe(object.Site{Name: "glaciation-node1", URL: "https://gnode1", Nodes: []string{"n1"}, Telemetry: telemetry()})...)
	for _, q := range quads {
		if err := q.Check(0); err != nil {
			t.Error(err)
		}
	}
	if err := own.Check(quads); err != nil {
		t.Error(err)
	}
	follow := func(from graph.Term, path ...string) graph.Term {
		t.Helper()
		for _, p := range path {
			at := slices.IndexFunc(quads, func(q graph.Quad) bool { return q.S == from && q.P.Value == own.Namespace+p })
			if at < 0 {
				t.Errorf("%s has no %s", from, p)
				return graph.Term{}
			}
			from = quads[at].O
		}
		return from
	}
	w := v.WorkloadID("Deployment", "shop", "cart", "u1")
	for path, want := range map[string]string{
		"name": `"cart"`, "reads name": `"carts"`, "request resource": `"CPU"`, "limit resource": `"RAM"`,
		"telemetry hasMetrics source sourceType": `"prometheus"`, "telemetry hasMetrics source url": `"http://prometheus.internal:9000"`,
		"telemetry hasMetrics series metricName": `"cpu_usage"`, "telemetry hasMetrics series query": `"sum(rate(x[5m]))"`,
		"telemetry hasMetrics dashboard dashboardType": `"grafana"`, "telemetry hasLogs source sourceType": `"loki"`, "telemetry hasLogs query": `"{pod=\"x\"}"`,
		"runsOn name": `"n1"`, "runsOn telemetry hasMetrics source url": `"http://prometheus.internal:9000"`, "runsOn partOf kind": `"GNode"`, "runsOn partOf url": `"https://gnode1"`,
	} {
		if got := follow(w, strings.Fields(path)...); got.String() != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

func TestNamesStayApart(t *testing.T) {
	seen := map[graph.Term]bool{}
	for _, site := range []string{"a", "a/b"} {
		for _, namespace := range []string{"x", "y", "x/n"} {
			id := own.Vocabulary{Site: site}.WorkloadID("Deployment", namespace, "n", "")
			if seen[id] {
				t.Error(id, "is two things")
			}
			seen[id] = true
		}
	}
}

func TestCheck(t *testing.T) {
	s := graph.Node("x:w")
	quads := []graph.Quad{{S: s, P: graph.Node(graph.RDFType), O: graph.Node(own.Namespace + "Workload")}, {S: s, P: graph.Node(own.Namespace + "name"), O: graph.Text("n")}}
	if err := own.Check(quads); err == nil || !strings.Contains(err.Error(), "<x:w>") || !strings.Contains(err.Error(), "rk:kind") {
		t.Error(err)
	}
	if err := own.Check(append(quads, graph.Quad{S: s, P: graph.Node(own.Namespace + "kind"), O: graph.Text("job")})); err != nil {
		t.Error(err)
	}
}

func TestOntologyIsTurtle(t *testing.T) {
	var b strings.Builder
	if err := graph.WriteTurtle(&b, own.Ontology(), own.Prefixes()); err != nil {
		t.Fatal(err)
	}
	back, err := graph.ReadTurtle(strings.NewReader(b.String()), "", graph.Limits{})
	if err != nil || len(back) != len(own.Ontology()) {
		t.Errorf("%d, %v", len(back), err)
	}
}

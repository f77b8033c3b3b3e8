package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"reckon/access"
	"reckon/catalogue/database"
	"reckon/graph"
	"reckon/graph/embedded"
	"reckon/web/graphapi"
)

// graphServer serves the graph's API from its own database.
func graphServer(t *testing.T) (address string, s *embedded.Store) {
	t.Helper()
	c, err := database.Open(filepath.Join(t.TempDir(), "c.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	shared := c.Shared()
	if s, err = embedded.Open(t.Context(), embedded.Options{DB: shared.DB, Write: shared.Write}); err != nil {
		t.Fatal(err)
	}
	h, _ := graphapi.New(graphapi.Options{Store: s, Querier: s, Updater: s, Watcher: s})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(access.With(r.Context(), access.Viewer{Role: access.Admin})))
	}))
	t.Cleanup(server.Close)
	return server.URL, s
}

func TestGraphCommands(t *testing.T) {
	address, s := graphServer(t)
	run := func(in string, args ...string) (int, string) {
		var out, errs bytes.Buffer
		status := execute(t.Context(), deps{stdin: strings.NewReader(in), stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}, append([]string{"--server", address, "graph"}, args...))
		return status, out.String() + errs.String()
	}
	for _, c := range []struct {
		in     string
		args   []string
		status int
		want   string
	}{
		{"<urn:a> <urn:reckon:ns#name> \"a\" ; <urn:p> <urn:b> .", []string{"put", "urn:a"}, 0, ""},
		{"<urn:b> <urn:reckon:ns#name> \"b\" .", []string{"put", "urn:b/with space"}, 0, ""},
		{"{\"@id\": \"urn:b\", \"urn:p\": 5}", []string{"put", "urn:b/with space", "--add", "--format", "jsonld"}, 0, ""},
		{"<urn:b> <urn:p> 6 .", []string{"put", "urn:a", "--if-version", "1"}, 1, "read it again"},
		{"x", []string{"put", "urn:a"}, 2, "line 1"},
		{"", []string{"ls"}, 0, "urn:b/with space"},
		{"", []string{"get", "urn:a"}, 0, "rk:name \"a\""},
		{"", []string{"get", "urn:none"}, 2, "no such subgraph"},
		{"", []string{"query", "SELECT ?o { <urn:b> <urn:p> ?o }"}, 0, "O\n5"},
		{"", []string{"query", "ASK { <urn:b> <urn:p> 5 }"}, 0, "yes"},
		{"", []string{"query", "SELECT ?o { <urn:b> <urn:p> ?o }", "--format", "csv"}, 0, "o\r\n5"},
		{"", []string{"query", "DESCRIBE <urn:a>"}, 0, "rk:name \"a\""},
		{"", []string{"query", "CONSTRUCT { ?o <urn:q> ?s } { ?s <urn:p> ?o FILTER(isIRI(?o)) }", "--format", "ntriples"}, 0, "<urn:b> <urn:q> <urn:a> ."},
		{"", []string{"walk", "urn:a"}, 0, "->  urn:p     urn:b  b"},
		{"", []string{"walk", "urn:b"}, 0, "<-  urn:p     urn:a  a"},
		{"", []string{"walk", "urn:nothing"}, 1, "graph ls"},
		{"", []string{"export"}, 0, "<urn:b> <urn:p> \"5\"^^<http://www.w3.org/2001/XMLSchema#integer> <urn:reckon:subgraph/urn%3Ab%2Fwith%20space> .\n"},
		{"", []string{"export", "--vocabulary", "glaciation"}, 1, "graph-compatible"},
		{"", []string{"rm", "urn:a", "urn:none"}, 2, "no such subgraph"},
		{"", []string{"ls", "--format", "json"}, 0, "\"statements\": 2"},
	} {
		status, out := run(c.in, c.args...)
		if status != c.status || !strings.Contains(out, c.want) {
			t.Errorf("graph %s: status %d, want %d, %q:\n%s", strings.Join(c.args, " "), status, c.status, c.want, out)
		}
	}
	list, err := s.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Error(list, err)
	}
	snapshot := graph.Put{Quads: []graph.Quad{{S: graph.Node("https://kubernetes.local/#n"), P: graph.Node("glc:hasDescription"), O: graph.Text("KubernetesWorkerNode")}}, IfVersion: graph.AnyVersion}
	if _, _, err := s.Put(t.Context(), "timestamp:5", snapshot); err != nil {
		t.Fatal(err)
	}
	if _, out := run("", "export", "--vocabulary", "glaciation", "--format", "jsonld"); !strings.Contains(out, `"glc:hasDescription": "KubernetesWorkerNode"`) {
		t.Error(out)
	}
}

package graphapi_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/access"
	"reckon/catalogue/database"
	"reckon/graph"
	"reckon/graph/embedded"
	"reckon/graph/own"
	"reckon/web/graphapi"
)

type api struct {
	t     *testing.T
	h     http.Handler
	store *embedded.Store
	as    access.Viewer
}

func newAPI(t *testing.T) *api {
	t.Helper()
	c, err := database.Open(filepath.Join(t.TempDir(), "c.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	shared := c.Shared()
	s, err := embedded.Open(t.Context(), embedded.Options{DB: shared.DB, Write: shared.Write})
	if err != nil {
		t.Fatal(err)
	}
	h, _ := graphapi.New(graphapi.Options{Store: s, Querier: s, Updater: s, Watcher: s, Latest: latest{}, Origin: "edge1", Compatible: true,
		Now: func() time.Time { return time.UnixMilli(1_800_000_000_000) }})
	return &api{t, h, s, access.Viewer{Role: access.Admin, Name: "root"}}
}

// do sends a request; headers are NAME: VALUE.
func (a *api) do(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	a.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	a.h.ServeHTTP(w, r.WithContext(access.With(r.Context(), a.as)))
	return w
}

func (a *api) want(w *httptest.ResponseRecorder, status int, parts ...string) string {
	a.t.Helper()
	text := w.Body.String()
	if w.Code != status {
		a.t.Errorf("status %d, want %d: %.300s", w.Code, status, text)
	}
	for _, p := range parts {
		if !strings.Contains(text, p) {
			a.t.Errorf("%.600s has no %q", text, p)
		}
	}
	return text
}

const turtle = "Content-Type: text/turtle"

func TestSubgraph(t *testing.T) {
	a := newAPI(t)
	at := "/subgraph/" + url.PathEscape("node1.example/cart/1")
	w := a.do("PUT", at, `<x:a> <x:p> "1" .`, turtle)
	a.want(w, 200, `"origin":"root"`, `"statements":1`)
	first := w.Header().Get("ETag")
	w = a.do("PUT", at, `<x:a> <x:p> "1" .`, turtle)
	if a.want(w, 204); w.Header().Get("ETag") != first {
		t.Error("nothing changed and the ETag did")
	}
	w = a.do("POST", at, `{"@id": "x:a", "x:p": "2"}`, "Content-Type: application/ld+json", "If-Match: "+first)
	a.want(w, 200, `"statements":2`)
	second := w.Header().Get("ETag")
	a.want(a.do("PUT", at, `<x:a> <x:p> "3" .`, turtle, "If-Match: "+first), 412, "read it again")
	a.want(a.do("PUT", at, `<x:a> <x:p> "3" .`, turtle, "If-None-Match: *"), 412)
	a.want(a.do("PUT", at, `<x:a> <x:p> "3" .`, turtle, "If-Match: nonsense"), 400)
	for accept, want := range map[string]string{
		"": `"@id": "x:a"`, "text/turtle": "<x:a> <x:p> \"1\",\n\t\t\"2\" .", "application/n-triples, text/turtle;q=0.5": "<x:a> <x:p> \"1\" .\n", "application/n-quads": "<x:p>", "*/*": "x:p",
	} {
		w := a.do("GET", at, "", "Accept: "+accept)
		a.want(w, 200, want)
		if w.Header().Get("ETag") != second || w.Header().Get("Vary") != "Accept" {
			t.Error(w.Header())
		}
	}
	a.want(a.do("GET", at, "", "Accept: image/png"), 406)
	a.want(a.do("GET", at, "", "If-None-Match: "+second), 304)
	a.want(a.do("GET", at+"/metrics", ""), 200, `"reads":`, `"writes":2`)
	a.want(a.do("GET", "/subgraphs_versions", ""), 200, `"node1.example/cart/1":`+strings.Trim(second, `"`))
	a.want(a.do("DELETE", at, "", "If-Match: "+first), 412)
	a.want(a.do("DELETE", at, ""), 204)
	a.want(a.do("GET", at, ""), 404)
	a.want(a.do("GET", at+"/metrics", ""), 404)
	a.want(a.do("DELETE", at, ""), 404)
	a.want(a.do("GET", "/subgraph/a/b/c", ""), 404, "%2F")
}

// latest returns the value 7 for every series.
type latest struct{}

func (latest) Latest(_ context.Context, quads []graph.Quad, only graph.Term) (out []graph.Quad, err error) {
	for _, s := range own.SeriesOf(quads, only) {
		out = append(out, own.Latest(s, 7, time.Unix(0, 0))...)
	}
	return out, nil
}

func TestLatest(t *testing.T) {
	a := newAPI(t)
	a.want(a.do("PUT", "/subgraph/x:g", `<x:d> <urn:reckon:ns#series> <x:s> . <x:s> <urn:reckon:ns#query> "up" .`, "Content-Type: text/turtle"), 200)
	text := a.want(a.do("GET", "/subgraph/x:g?values=latest", "", "Accept: text/turtle"), 200, "rk:latestValue 7", "rk:latestTime", `rk:query "up"`)
	if plain := a.want(a.do("GET", "/subgraph/x:g", "", "Accept: text/turtle"), 200); strings.Contains(plain, "latest") || plain == text {
		t.Error("a value that nobody asked for:", plain)
	}
	w := a.do("GET", "/subgraph/x:g?values=latest", "", `If-None-Match: *`)
	if w.Code != 200 || w.Header().Get("ETag") != "" || w.Header().Get("Cache-Control") != "no-store" {
		t.Error("the version says nothing of values:", w.Code, w.Header())
	}
	a.want(a.do("GET", "/subgraph/x:g?values=all", ""), 400, "latest")
	a.want(a.do("GET", "/subgraph/x:none?values=latest", ""), 404)
	h, _ := graphapi.New(graphapi.Options{Store: a.store})
	a.h = h
	a.want(a.do("GET", "/subgraph/x:g?values=latest", ""), 501, "no series")
}

func TestGraphStoreProtocol(t *testing.T) {
	a := newAPI(t)
	at := "/graphstore?graph=" + url.QueryEscape("https://e.example/g#1")
	a.want(a.do("PUT", at, `<> <x:p> <#b> .`, turtle), 200)
	a.want(a.do("GET", at, "", "Accept: application/n-triples"), 200, "<https://e.example/g#1> <x:p> <https://e.example/g#b> .")
	a.want(a.do("HEAD", at, ""), 200)
	a.want(a.do("POST", at, "<x:a> <x:p> 1 .", turtle), 200)
	a.want(a.do("GET", "/subgraph/"+url.PathEscape("https://e.example/g#1"), "", "Accept: text/turtle"), 200, "<x:a> <x:p> 1 .")
	a.want(a.do("DELETE", at, ""), 204)
	a.want(a.do("GET", at, ""), 404)
	a.want(a.do("GET", "/graphstore?default", ""), 404, "no default graph")
	a.want(a.do("GET", "/graphstore", ""), 400, "graph")
	a.want(a.do("PUT", "/graphstore?graph=relative", "", turtle), 400)
}

func TestBadInput(t *testing.T) {
	a := newAPI(t)
	const ld = "Content-Type: application/ld+json"
	deep := strings.Repeat(`{"x:p":`, 1000) + "1" + strings.Repeat("}", 1000)
	var bomb strings.Builder
	for i := range 14 {
		for j := range 14 {
			if i != j {
				bomb.WriteString("_:a" + string(rune('a'+i)) + " <x:p> _:a" + string(rune('a'+j)) + " .\n")
			}
		}
	}
	for _, c := range []struct {
		body, kind string
		status     int
		want       string
	}{
		{"{\n\"@id\": \"x:a\",\n}", ld, 400, "line 3"},
		{`{"@context": "https://evil.example/ctx"}`, ld, 400, "never fetched"},
		{deep, ld, 400, "brackets"},
		{bomb.String(), "Content-Type: application/n-triples", 400, "too much alike"},
		{`<x:a b> <x:p> 1 .`, turtle, 400, "percent-encode"},
		{`<x:a> <x:p> .`, turtle, 400, `a term is missing before \".\"`},
		{`<x:a> <x:p> "1" <x:other> .`, "Content-Type: application/n-quads", 400, "of the graph <x:other>, the address of"},
		{"<x:a\u0001> <x:p> 1 .", turtle, 400, "percent-encode"},
		{`<x:a> <x:p> "` + strings.Repeat("x", 1<<20) + `" .`, turtle, 400, "longer than"},
		{strings.Repeat(" ", 32<<20+1), turtle, 413, "32 MiB"},
		{"<x:a> <x:p> 1 <x:g> .\n<x:a> <x:p> 1 <x:h> .", "Content-Type: application/n-quads", 400, ""},
		{"<x:a> <x:p> \"1\" <x:g> .\n<x:a> <x:p> \"1\" <x:h> .", "Content-Type: application/n-quads", 400, "several graphs"},
		{"<a>x</a>", "Content-Type: application/rdf+xml", 415, "text/turtle"},
		{`<x:w> a <` + own.Namespace + `Workload> ; <` + own.Namespace + `kind> "job" .`, turtle, 422, "<x:w> is of the class rk:Workload and has no rk:name"},
		{"", "Content-Type: application/ld+json", 400, "line 1"},
	} {
		a.want(a.do("PUT", "/subgraph/bad", c.body, c.kind), c.status, c.want)
	}
	for _, id := range []string{"a%2F..%2Fb", "..%2F", "%0A", "%FF", strings.Repeat("x", graph.MaxID+1)} {
		if w := a.do("PUT", "/subgraph/"+id, "", turtle); w.Code < 400 || w.Code >= 500 {
			t.Errorf("the id %.20s: %d", id, w.Code)
		}
	}
	a.want(a.do("GET", "/subgraph/bad", ""), 404, "no such subgraph")
	a.want(a.do("PUT", "/subgraph/bad", "<x:a> <x:p> 1 .", turtle, "Reckon-Time: tomorrow"), 400)
	if list, err := a.store.List(context.Background()); err != nil || len(list) != 0 {
		t.Error("something of it was stored:", list, err)
	}
}

func TestSPARQL(t *testing.T) {
	a := newAPI(t)
	a.want(a.do("PUT", "/subgraph/x:g", `<x:a> <x:p> 1, "a,b"@en, <x:o>, [] .`, turtle), 200)
	ask := func(query string) string { return "/sparql?query=" + url.QueryEscape(query) }
	a.want(a.do("GET", ask("SELECT ?o { <x:a> <x:p> ?o FILTER(isLiteral(?o)) } ORDER BY ?o"), ""), 200, `"vars":["o"]`, `"xml:lang":"en"`, `"datatype":"`+graph.XSDInteger+`"`)
	a.want(a.do("GET", ask("SELECT ?o { <x:a> <x:p> ?o FILTER(isLiteral(?o)) } ORDER BY DESC(?o)"), "", "Accept: text/csv"), 200, "o\r\n1\r\n\"a,b\"\r\n")
	a.want(a.do("GET", ask("SELECT ?o { <x:a> <x:p> ?o FILTER(isIRI(?o)) }"), "", "Accept: text/tab-separated-values"), 200, "?o\n<x:o>\n")
	a.want(a.do("POST", "/sparql", "ASK { ?s ?p 1 }", "Content-Type: application/sparql-query"), 200, `"boolean":true`)
	a.want(a.do("POST", "/sparql", "query="+url.QueryEscape("ASK { ?s ?p 2 }"), "Content-Type: application/x-www-form-urlencoded"), 200, `"boolean":false`)
	a.want(a.do("GET", ask("SELECT * {"), ""), 400, "line 1")
	a.want(a.do("GET", ask("SELECT * { SERVICE <x:s> { ?s ?p ?o } }"), ""), 501, "SERVICE")
	construct := ask("CONSTRUCT { ?o <x:of> ?s } { ?s <x:p> ?o FILTER(isIRI(?o)) }")
	a.want(a.do("GET", construct, "", "Accept: text/turtle"), 200, "<x:o> <x:of> <x:a> .")
	a.want(a.do("GET", construct, "", "Accept: application/n-triples"), 200, "<x:o> <x:of> <x:a> .\n")
	a.want(a.do("GET", construct, "", "Accept: application/ld+json"), 200, `"@id": "x:o"`)
	a.want(a.do("GET", construct, "", "Accept: text/csv"), 406)
	a.want(a.do("GET", ask("DESCRIBE <x:a>"), "", "Accept: text/turtle"), 200, `"a,b"@en`, "<x:o>")
	a.want(a.do("GET", "/sparql", ""), 400, "missing")
	a.want(a.do("GET", ask("ASK {}")+"&default-graph-uri=x:g", ""), 501)
	a.want(a.do("POST", "/sparql", "x", "Content-Type: text/plain"), 415)
	a.want(a.do("POST", "/sparql", "INSERT DATA { GRAPH <x:g> { <x:b> <x:p> 5 } }", "Content-Type: application/sparql-update"), 204)
	a.want(a.do("GET", "/graph/links?iri=x:o", ""), 200, `"back":true`, `"to":"x:a"`)
	a.want(a.do("GET", "/graph/links?iri=a+b", ""), 400)
}

// A user sees their own subgraphs, a sender changes its own, and responses do not reveal that there are others.
func TestRoles(t *testing.T) {
	a := newAPI(t)
	a.want(a.do("PUT", "/subgraph/x:alice", `<x:a> <x:p> "alices" .`, turtle, "Reckon-Owner: alice"), 200)
	a.want(a.do("PUT", "/subgraph/x:bob", `<x:b> <x:p> "bobs" .`, turtle, "Reckon-Owner: bob"), 200)
	a.want(a.do("PUT", "/subgraph/x:node", `<x:n> <x:p> "nodes" .`, turtle, "Reckon-Owner: *"), 200)
	const all = "/sparql?query=SELECT+%3Fo+%7B+%3Fs+%3Fp+%3Fo+%7D"
	const described = "/sparql?query=DESCRIBE+%3Cx%3Aa%3E+%3Cx%3Ab%3E+%3Cx%3An%3E"
	const from = "/sparql?query=CONSTRUCT+FROM+%3Cx:alice%3E+FROM+%3Cx:bob%3E+FROM+%3Cx:node%3E+WHERE+%7B+%3Fs+%3Fp+%3Fo+%7D"
	for _, c := range []struct {
		v         access.Viewer
		sees, not []string
	}{
		{access.Viewer{Role: access.Support, Name: "s"}, []string{"alice", "bob", "node"}, nil},
		{access.Viewer{Role: access.User, Name: "alice"}, []string{"alice", "node"}, []string{"bob"}},
		{access.Viewer{Role: access.User, Name: "x", Owners: []string{"bob"}}, []string{"bob", "node"}, []string{"alice"}},
		{access.Viewer{Role: access.Public}, []string{"node"}, []string{"alice", "bob"}},
	} {
		a.as = c.v
		for _, path := range []string{"/subgraphs_versions", "/graph/list", all, described, from} {
			text := a.want(a.do("GET", path, ""), 200, c.sees...)
			for _, n := range c.not {
				if strings.Contains(text, n) {
					t.Errorf("%+v sees %s at %s", c.v, n, path)
				}
			}
		}
		for _, n := range c.not {
			unseen, none := a.do("GET", "/subgraph/x:"+n, ""), a.do("GET", "/subgraph/x:nobody", "")
			if unseen.Code != 404 || strings.ReplaceAll(unseen.Body.String(), n, "nobody") != none.Body.String() {
				t.Errorf("%s tells %s from what is not there", unseen.Body, none.Body)
			}
			a.want(a.do("GET", "/subgraph/x:"+n+"/metrics", ""), 404)
		}
		a.want(a.do("PUT", "/subgraph/x:new", "<x:a> <x:p> 1 .", turtle), 403)
		a.want(a.do("POST", "/sparql", "DROP GRAPH <x:alice>", "Content-Type: application/sparql-update"), 403)
	}
	a.as = access.Viewer{}
	a.want(a.do("GET", "/subgraphs_versions", ""), 401)
	a.as = access.Viewer{Name: "operator", Writes: &access.Scope{}}
	a.want(a.do("PUT", "/subgraph/x:mine", "<x:a> <x:p> 1 .", turtle), 200)
	a.want(a.do("GET", "/subgraph/x:mine", ""), 200)
	a.want(a.do("PUT", "/subgraph/x:bob", "<x:a> <x:p> 1 .", turtle), 403)
	a.want(a.do("DELETE", "/subgraph/x:bob", ""), 403)
	a.want(a.do("POST", "/sparql", "DROP GRAPH <x:bob>", "Content-Type: application/sparql-update"), 403)
	a.want(a.do("POST", "/sparql", "DROP GRAPH <x:mine>", "Content-Type: application/sparql-update"), 204)
}

// The calls of the exporter, the trade-off service and the clean-up of the metadata service, as these send them.
func TestMetadataService(t *testing.T) {
	a := newAPI(t)
	const jsonType = "Content-Type: application/json"
	doc := `{"@context": {"glc": "https://glaciation-heu.github.io/models/reference_model.turtle", "cluster": "https://kubernetes.local/#"},
"@graph": [{"@id": "cluster:n1", "@type": "glc:WorkProducingResource", "glc:hasDescription": "KubernetesWorkerNode", "glc:hasStatus": {"@id": "cluster:n1.Status", "@type": "glc:Status", "glc:hasDescription": "Ready"}}]}`
	a.want(a.do("PATCH", "/api/v0/graph", doc, jsonType), 200, `"Success - Inserted 5 triple(s) into graph <timestamp:1800000000000>."`)
	a.want(a.do("PATCH", "/api/v0/graph", strings.Replace(doc, "{", `{"@id": "urn:slice",`, 1), jsonType), 200, "urn:slice/timestamp:1800000000000")
	a.want(a.do("PATCH", "/api/v0/graph", "{}", jsonType), 400, "No triples could be extracted from JSON-LD.")
	a.want(a.do("PATCH", "/api/v0/graph", "[", jsonType), 422)
	get := func(path, query string) *httptest.ResponseRecorder {
		return a.do("GET", path+"?query="+url.QueryEscape(query), "", jsonType)
	}
	w := get("/api/v0/graph", `PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>
SELECT ?graphURI ?resource ?statusValue WHERE { { SELECT ?graphURI WHERE { GRAPH ?graphURI {} FILTER regex(str(?graphURI), "^timestamp:") } }
GRAPH ?graphURI { ?resource rdf:type <glc:WorkProducingResource>. ?resource <glc:hasStatus> ?status. ?status <glc:hasDescription> ?statusValue. FILTER NOT EXISTS{ ?status <glc:hasDescription> 'NotReady' }. } }`)
	var answer struct {
		Head    struct{ Vars []string }
		Results struct {
			Bindings []map[string]map[string]string
		}
	}
	if err := json.Unmarshal([]byte(a.want(w, 200)), &answer); err != nil || len(answer.Results.Bindings) != 1 {
		t.Fatalf("%v: %s", err, w.Body)
	}
	if b := answer.Results.Bindings[0]; b["resource"]["value"] != "https://kubernetes.local/#n1" || b["statusValue"]["datatype"] != graph.XSDString || len(answer.Head.Vars) != 3 {
		t.Error(answer)
	}
	a.want(get("/api/v0/graph", "SELECT"), 400, "Syntax error in query")
	a.want(get("/api/v0/graph", "ASK {}"), 500, "Expected a SELECT query")
	a.want(get("/api/v0/graph/update", "DROP GRAPH <timestamp:1800000000000>;\nDROP GRAPH <timestamp:5>;\n"), 200, `"Success"`)
	a.want(a.do("POST", "/api/v0/graph/update", `{"query": "DROP GRAPH <urn:slice/timestamp:1800000000000>"}`, jsonType), 200, `"Success"`)
	a.want(a.do("POST", "/api/v0/graph/update", `{"query": "x", "other": 1}`, jsonType), 400, "Request must contain only")
	a.want(a.do("POST", "/api/v0/graph/compact", ""), 200, `"Success"`)
	if list, err := a.store.List(context.Background()); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
}

func TestChanges(t *testing.T) {
	a := newAPI(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.h.ServeHTTP(w, r.WithContext(access.With(r.Context(), access.Viewer{Role: access.User, Name: "alice"})))
	}))
	defer server.Close()
	resp, err := server.Client().Get(server.URL + "/graph/changes")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	read := func(until string) string {
		var b strings.Builder
		one := make([]byte, 1)
		for !strings.HasSuffix(b.String(), until) {
			if _, err := io.ReadFull(resp.Body, one); err != nil {
				t.Fatalf("%v behind %q", err, b.String())
			}
			b.Write(one)
		}
		return b.String()
	}
	read("\n\n")
	a.do("PUT", "/subgraph/x:bob", "<x:a> <x:p> 1 .", turtle, "Reckon-Owner: bob")
	a.do("PUT", "/subgraph/x:alice", "<x:a> <x:p> 1 .", turtle, "Reckon-Owner: alice")
	if got := read("\n\n"); !strings.HasPrefix(got, "event: change\nid: ") || !strings.Contains(got, `"id":"x:alice"`) {
		t.Error(got)
	}
	if err := a.store.Close(); err != nil {
		t.Error(err)
	}
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestDescriptions(t *testing.T) {
	a := newAPI(t)
	var doc struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal([]byte(a.want(a.do("GET", "/graph/openapi.json", ""), 200)), &doc); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/subgraph/{id}", "/subgraphs_versions", "/graphstore", "/sparql", "/graph/changes", "/api/v0/graph"} {
		if doc.Paths[path] == nil {
			t.Errorf("%s is not described", path)
		}
	}
	a.want(a.do("GET", "/graph/context", ""), 200, own.Namespace)
	a.want(a.do("GET", "/graph/ontology", "", "Accept: text/turtle"), 200, "rk:Workload a rdfs:Class")
}

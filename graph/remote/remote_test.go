package remote_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"reckon/catalogue/database"
	"reckon/graph"
	"reckon/graph/embedded"
	"reckon/graph/graphtest"
	"reckon/graph/remote"
)

// graphStore is the Graph Store Protocol as specified, over documents of N-Triples in memory.
type graphStore struct {
	mu     sync.Mutex
	graphs map[string]string
	status int // of every response, if not 0
	puts   int
	user   string
}

func (g *graphStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.user, _, _ = r.BasicAuth()
	name := r.URL.Query().Get("graph")
	if g.status != 0 {
		w.WriteHeader(g.status)
		return
	}
	_, there := g.graphs[name]
	switch r.Method {
	case http.MethodGet:
		if !there {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, g.graphs[name])
	case http.MethodPut:
		raw, _ := io.ReadAll(r.Body)
		g.graphs[name] = string(raw)
		g.puts++
		w.WriteHeader(http.StatusNoContent)
	case http.MethodDelete:
		delete(g.graphs, name)
		w.WriteHeader(http.StatusNoContent)
	}
}

func registry(t *testing.T) graph.Store {
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
	return s
}

func open(t *testing.T, o remote.Options) *remote.Store {
	t.Helper()
	o.Registry = registry(t)
	s, err := remote.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	server := httptest.NewServer(&graphStore{graphs: map[string]string{}})
	defer server.Close()
	graphtest.Store(t, open(t, remote.Options{Store: server.URL}))
}

// TestPeer runs the suite on a third-party store, with its addresses in RECKON_GRAPH_STORE.
func TestPeer(t *testing.T) {
	address := os.Getenv("RECKON_GRAPH_STORE")
	if address == "" {
		t.Skip("RECKON_GRAPH_STORE names no graph store")
	}
	graphtest.Store(t, open(t, remote.Options{Store: address}))
}

// An unreachable store accepts nothing, and nothing is recorded as written; a repeated write afterwards arrives once.
func TestAway(t *testing.T) {
	g := &graphStore{graphs: map[string]string{}}
	server := httptest.NewServer(g)
	defer server.Close()
	s := open(t, remote.Options{Store: server.URL})
	p := graph.Put{Quads: []graph.Quad{{S: graph.Node("x:a"), P: graph.Node("x:p"), O: graph.Text("1")}}, IfVersion: graph.AnyVersion}
	for _, status := range []int{503, 500, 507} { // unavailable, broken, full
		g.status = status
		if _, _, err := s.Put(t.Context(), "x:g", p); !errors.Is(err, graph.ErrUnavailable) {
			t.Errorf("status %d: %v", status, err)
		}
		if err := s.Check(t.Context()); !errors.Is(err, graph.ErrUnavailable) {
			t.Error(err)
		}
		if _, _, err := s.Get(t.Context(), "x:g"); !errors.Is(err, graph.ErrNotFound) {
			t.Errorf("what was not written is there: %v", err)
		}
	}
	g.status = 0
	for i := range 3 {
		if _, changed, err := s.Put(t.Context(), "x:g", p); err != nil || changed != (i == 0) {
			t.Error(changed, err)
		}
	}
	if g.puts != 1 {
		t.Errorf("it was sent %d times", g.puts)
	}
	g.status = 503
	if _, err := s.Delete(t.Context(), "x:g", graph.AnyVersion); !errors.Is(err, graph.ErrUnavailable) {
		t.Error(err)
	}
	server.Close()
	if _, _, err := s.Get(t.Context(), "x:g"); !errors.Is(err, graph.ErrUnavailable) {
		t.Error(err)
	}
}

func TestAddresses(t *testing.T) {
	for _, bad := range []string{"", "h", "ftp://h/x", "http://u:secret@h/x", "http://u@h/x?password_file=/none/such"} {
		if _, err := remote.Open(remote.Options{Store: bad}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	g := &graphStore{graphs: map[string]string{}}
	server := httptest.NewServer(g)
	defer server.Close()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, remote.Options{Store: strings.Replace(server.URL, "http://", "http://alice@", 1) + "/data?password_file=" + url.QueryEscape(file)})
	if err := s.Check(t.Context()); err != nil || g.user != "alice" {
		t.Error(err, g.user)
	}
}

// A forwarded query keeps its parameters and loses our credentials.
func TestForward(t *testing.T) {
	var got *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = r }))
	defer server.Close()
	s := open(t, remote.Options{Store: server.URL, Query: server.URL + "/ds/sparql"})
	r := httptest.NewRequest("GET", "/sparql?query=ASK+%7B%7D", nil)
	r.Header.Set("Authorization", "Bearer ours")
	s.Forward(httptest.NewRecorder(), r)
	if got == nil || got.URL.Path != "/ds/sparql" || got.URL.Query().Get("query") != "ASK {}" || got.Header.Get("Authorization") != "" {
		t.Errorf("%+v", got)
	}
}

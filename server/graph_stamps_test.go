package server

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"reckon/graph"
	"reckon/graph/embedded"
)

// documents is a Graph Store that keeps what it gets.
type documents struct {
	mu    sync.Mutex
	graph map[string]string
	puts  int
	away  bool
}

func (d *documents) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := r.URL.Query().Get("graph")
	raw, _ := io.ReadAll(r.Body)
	switch {
	case d.away:
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.Method == http.MethodPut:
		d.graph[name] = string(raw)
		d.puts++
	case r.Method == http.MethodDelete:
		delete(d.graph, name)
	default:
		_, _ = io.WriteString(w, d.graph[name])
	}
}

func (d *documents) stamps() (out []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.graph {
		if strings.HasPrefix(name, "timestamp:") {
			out = append(out, name)
		}
	}
	return out
}

func (d *documents) of(name string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.graph[name]
}

// A remote store has our timestamp: graphs of the minutes in which something changed, the last of them always, and none older than 6 h.
func TestGraphStamps(t *testing.T) {
	remote := &documents{graph: map[string]string{}}
	store := httptest.NewServer(remote)
	defer store.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := Open(ctx, Config{Listen: "127.0.0.1:0", Data: t.TempDir(), Receive: true, OutOfOrder: time.Hour, Graph: Graph{Compatible: true, Store: store.URL}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	pushJob(t, "http://"+s.Addr())
	if _, err := s.builder.Advance(ctx); err != nil {
		t.Fatal(err)
	}
	w := &stamps{to: s.graph.graphStore(), from: s.graph.snapshots, changed: true}
	now := time.Now()
	step := func(what string, after time.Duration, changed, want int) {
		t.Helper()
		now = now.Add(after)
		w.add(changed)
		if err := w.write(ctx, now); err != nil {
			t.Error(what, err)
		}
		if _, err := embedded.DropTimestamps(ctx, s.graph.graphStore(), now.Add(-timestampRetention)); err != nil {
			t.Error(what, err)
		}
		if got := remote.stamps(); len(got) != want {
			t.Errorf("%s: %v, want %d", what, got, want)
		}
	}
	step("at the start", 0, 0, 1)
	for _, name := range remote.stamps() {
		if text := remote.of(name); !strings.Contains(text, "<https://kubernetes.local/#alice.4711>") || !strings.Contains(text, "<glc:hasMeasurement>") {
			t.Errorf("%.500s", text)
		}
	}
	step("nothing changed", time.Minute, 0, 1)
	step("something changed", time.Minute, 3, 2)
	remote.mu.Lock()
	remote.away = true
	remote.mu.Unlock()
	w.add(1)
	if err := w.write(ctx, now.Add(time.Minute)); err == nil {
		t.Error("a store that is away took a graph")
	}
	remote.mu.Lock()
	remote.away = false
	remote.mu.Unlock()
	step("it is back", 2*time.Minute, 0, 3)
	step("before the last is dropped", timestampRetention-3*time.Minute, 0, 2)
	step("after that", 3*time.Minute, 0, 1)
	if info, err := s.graph.graphStore().List(ctx); err != nil || !hasOwner(info, stampOrigin, "") {
		t.Error("everybody's work is for administrators:", info, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func hasOwner(list []graph.Info, origin, owner string) bool {
	for _, i := range list {
		if i.Origin == origin && i.Owner == owner {
			return true
		}
	}
	return false
}

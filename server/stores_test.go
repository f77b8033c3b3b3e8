package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"reckon/agent"
	"reckon/store/remote"
	"reckon/store/storetest"
	"reckon/web/client"
)

// eventually asks until it is so. The limit is one that only a hang reaches.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(2 * time.Minute); time.Now().Before(limit); <-tick.C {
		if ok() {
			return
		}
	}
	t.Fatal(what)
}

// TestStoresElsewhere runs a server with its series in a Prometheus and its catalogue in
// PostgreSQL, and takes the former away: answers report what they lack, nothing hangs, and what
// was measured meanwhile arrives.
func TestStoresElsewhere(t *testing.T) {
	fresh, start := storetest.Postgres(t, "pgx")
	start()
	to := storetest.Forward(storetest.Prometheus(t))
	var away atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			panic(http.ErrAbortHandler)
		}
		to.ServeHTTP(w, r)
	}))
	defer srv.Close()
	s, err := Open(t.Context(), Config{
		Listen: "127.0.0.1:0", Data: t.TempDir(), Store: srv.URL, Catalogue: fresh(t), Retention: time.Hour,
		Agent: &agent.Config{Node: "n1", Source: "procfs", Exits: "none", Tick: 200 * time.Millisecond, Export: time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	c, err := client.New("http://" + s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	list := func() (l client.WorkloadList) {
		l, _ = c.Workloads(t.Context(), client.Filter{Limit: 5}) // not ready at first
		return l
	}
	eventually(t, "no workloads in the catalogue", func() bool { return list().Total > 0 })
	if l := list(); len(l.Missing) != 0 {
		t.Errorf("missing although all is there: %v", l.Missing)
	}
	id := list().Workloads[0].ID
	d, err := c.Workload(t.Context(), id, client.Range{})
	if err != nil || len(d.Missing) != 0 {
		t.Fatalf("%v, missing %v", err, d.Missing)
	}

	away.Store(true)
	eventually(t, "nothing says that the store is away", func() bool { return len(list().Missing) == 1 })
	if m := list().Missing[0]; !strings.Contains(m, "events after 20") || !strings.Contains(m, srv.URL) {
		t.Errorf("missing %q", m)
	}
	if d, err := c.Workload(t.Context(), id, client.Range{}); err != nil || d.ID != id || len(d.Missing) == 0 {
		t.Errorf("one workload while the store is away: %v, missing %v", err, d.Missing)
	}
	if l, err := c.Nodes(t.Context()); err != nil || len(l.Missing) != 1 {
		t.Errorf("nodes while the store is away: %v, missing %v", err, l.Missing)
	}
	if _, err := c.Query(t.Context(), "up", time.Time{}); err == nil || !strings.Contains(err.Error(), "store is not available") {
		t.Errorf("PromQL while the store is away: %v", err)
	}
	eventually(t, "nothing waits to be sent", func() bool { n, _ := s.samples.(*remote.Store).Waiting(); return n > 1 })

	away.Store(false)
	eventually(t, "the store is there again and nobody notices", func() bool { return len(list().Missing) == 0 })
	eventually(t, "what waited was not sent", func() bool { n, _ := s.samples.(*remote.Store).Waiting(); return n <= 1 })
	if _, lost := s.samples.(*remote.Store).Waiting(); lost != 0 {
		t.Errorf("%d samples lost", lost)
	}
}

func TestStoreAddresses(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{Store: "localhost:9090"}, "--store"},
		{Config{Catalogue: "mysql://h/db"}, "--catalogue"},
		{Config{Retention: time.Hour, History: time.Minute}, "history"},
	} {
		c.config.Listen, c.config.Data = "127.0.0.1:0", t.TempDir()
		if _, err := Open(t.Context(), c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

package server

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"reckon/agent"
	"reckon/store"
	"reckon/web/client"
)

// start runs a server with an agent on this machine until the test ends, or until the
// returned function is called.
func start(t *testing.T, data string) (*Server, func()) {
	t.Helper()
	return startExporting(t, data, 300*time.Millisecond)
}

// startExporting is [start] with an interval of exports.
func startExporting(t *testing.T, data string, export time.Duration) (*Server, func()) {
	t.Helper()
	s, err := Open(t.Context(), Config{
		Listen: "127.0.0.1:0", Data: data, Site: "lab", Version: "test",
		Agent: &agent.Config{Node: "n1", Source: "procfs", Tick: 100 * time.Millisecond, Export: export},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	ended := false
	stop := func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	select {
	case <-s.First():
	case <-time.After(2 * time.Minute):
		t.Fatal("no workload in the catalogue after two minutes")
	}
	return s, stop
}

func get(t *testing.T, s *Server, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + s.Addr() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// TestWholePipeline asks the running composition everything that people ask.
func TestWholePipeline(t *testing.T) {
	s, _ := start(t, t.TempDir())
	c, err := client.New("http://" + s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.Workloads(t.Context(), client.Filter{Kinds: []string{"other"}})
	if err != nil || list.Total != 1 {
		t.Fatalf("workloads of kind other: %d, error %v, want one", list.Total, err)
	}
	w := list.Workloads[0]
	if w.ID != "other/n1" || w.Site != "lab" || w.CPUSeconds == nil || !w.Running {
		t.Errorf("other/n1 is %+v", w)
	}
	// Whose the processor time is depends on what runs here, and in the first export there may be none.
	for end, used := time.Now().Add(2*time.Minute), 0.0; used <= 0; <-time.After(20 * time.Millisecond) {
		all, err := c.Workloads(t.Context(), client.Filter{})
		if err != nil || time.Now().After(end) {
			t.Fatalf("all workloads used %v s of processor time after two minutes, error %v", used, err)
		}
		for _, w := range all.Workloads {
			if w.CPUSeconds != nil {
				used += *w.CPUSeconds
			}
		}
	}
	d, err := c.Workload(t.Context(), "other/n1", client.Range{})
	if err != nil || len(d.Profile) == 0 || len(d.Parts) != 1 {
		t.Errorf("detail of other/n1: %d curves, %d parts, error %v", len(d.Profile), len(d.Parts), err)
	}
	nodes, err := c.Nodes(t.Context())
	if err != nil || len(nodes.Nodes) != 1 || nodes.Nodes[0].Node != "n1" || !nodes.Nodes[0].Up {
		t.Errorf("nodes: %+v, error %v", nodes, err)
	}
	for path, want := range map[string]string{
		"/healthz": "ok",
		"/readyz":  "ready",
		"/metrics": `reckon_sensor_up{`,
		"/api/v1/query?query=" + url.QueryEscape(`count(reckon_workload_info{node="n1",site="lab"})`): `"status":"success"`,
		"/api/v1/metadata?metric=reckon_workload_cpu_seconds_total":                                   `"unit":"seconds"`,
		"/api/v1/labels":           `"workload"`,
		"/api/reckon/openapi.json": `"3.1.`,
		"/":                        "<title>",
	} {
		if code, body := get(t, s, path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("GET %s: %d, no %q in %.300s", path, code, want, body)
		}
	}
	if code, body := get(t, s, "/api/v1/status/tsdb"); code != http.StatusOK || !strings.Contains(body, `"chunkCount":`) || strings.Contains(body, `"chunkCount":-`) {
		t.Errorf("the state of the store: %d %s", code, body)
	}
	if code, body := get(t, s, "/api/reckon/v1/workloads/slurm/4294967294"); code != http.StatusNotFound || !json.Valid([]byte(body)) {
		t.Errorf("an unknown workload gives %d %s", code, body)
	}
}

func TestSecondServerIsRefused(t *testing.T) {
	data := t.TempDir()
	s, _ := start(t, data)
	if _, err := Open(t.Context(), Config{Listen: s.Addr(), Data: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "is taken") {
		t.Errorf("a taken address: %v", err)
	}
	if _, err := Open(t.Context(), Config{Listen: "127.0.0.1:0", Data: data}); err == nil || !strings.Contains(err.Error(), "is in use") {
		t.Errorf("a directory in use: %v", err)
	}
	if _, err := Rebuild(t.Context(), Places{Data: data}, nil, nil); err == nil || !strings.Contains(err.Error(), "is in use") {
		t.Errorf("a rebuild beside a server: %v", err)
	}
}

// TestRestartAndRebuild keeps the list over a restart, and finds the same again from the
// series alone.
func TestRestartAndRebuild(t *testing.T) {
	data := t.TempDir()
	_, stop := start(t, data)
	stop()
	n, err := Rebuild(t.Context(), Places{Data: data}, nil, nil)
	if err != nil || n < 2 {
		t.Fatalf("rebuilt %d rows, error %v", n, err)
	}
	s, _ := start(t, data)
	c, err := client.New("http://" + s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.Workloads(t.Context(), client.Filter{IDs: []string{"other/n1"}})
	if err != nil || list.Total != 1 {
		t.Errorf("after the rebuild other/n1 is there %d times, error %v", list.Total, err)
	}
}

// TestFirstIsOfThisRun: what an earlier run of the server left goes through the catalogue again before anything is measured,
// and is not what a newcomer is shown.
func TestFirstIsOfThisRun(t *testing.T) {
	data := t.TempDir()
	seen := func(s *Server) time.Time {
		t.Helper()
		c, err := client.New("http://" + s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		list, err := c.Workloads(t.Context(), client.Filter{IDs: []string{"other/n1"}})
		if err != nil || len(list.Workloads) != 1 {
			t.Fatalf("other/n1 is %+v, error %v", list, err)
		}
		return list.Workloads[0].Seen
	}
	s, stop := start(t, data)
	for first := seen(s); seen(s).Sub(first) < 2*time.Second; { // several rounds, so that the next run's begin with some of it
		<-time.After(100 * time.Millisecond)
	}
	stop()
	began := time.Now()
	s, _ = startExporting(t, data, 2*time.Second)
	if last := seen(s); last.Before(began) {
		t.Errorf("what was measured last is of %v, the server was started at %v", last, began)
	}
}

// TestHistoryAnswersAtOnce: after a start what the catalogue holds is answered before the
// first workloads are measured, with a word on the gaps; a new one is not ready.
func TestHistoryAnswersAtOnce(t *testing.T) {
	dir := t.TempDir()
	ask := func() (client.WorkloadList, error) {
		t.Helper()
		s, err := Open(t.Context(), Config{Listen: "127.0.0.1:0", Data: dir, Agent: &agent.Config{Node: "n1", Source: "procfs", Exits: "none"}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.close(); err != nil {
				t.Error(err)
			}
		}()
		c, err := client.New("", client.WithHTTP(s.InProcessClient()))
		if err != nil {
			t.Fatal(err)
		}
		list, err := c.Workloads(t.Context(), client.Filter{})
		if err == nil {
			return list, nil
		}
		now := time.Now()
		if err := s.catalogue.Upsert(t.Context(), []store.Workload{{ID: "slurm/1", Kind: "slurm", Start: now.Add(-time.Hour), Seen: now}}); err != nil {
			t.Fatal(err)
		}
		if err := s.catalogue.SetWatermark(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		return list, err
	}
	if _, err := ask(); err == nil || !strings.Contains(err.Error(), "are being measured") {
		t.Errorf("a new server: %v", err)
	}
	list, err := ask()
	if err != nil || list.Total != 1 || len(list.Missing) != 1 || !strings.Contains(list.Missing[0],
		"has just started; the last minutes appear soon") {
		t.Errorf("after a start: %+v, %v", list, err)
	}
}

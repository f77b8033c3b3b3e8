package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/figure"
	"reckon/store"
	"reckon/web/client"
)

// TestStoreAway asks everything that the catalogue can answer while the store of series is
// down or is broken: what is known comes, with a word on what is missing. That a store which
// shows nothing is given up after some seconds is a test of package remote.
func TestStoreAway(t *testing.T) {
	for name, store := range map[string]http.HandlerFunc{
		"down": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"broken": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "out of order", http.StatusInternalServerError)
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(store)
			defer srv.Close()
			askAway(t, srv.URL)
		})
	}
}

func askAway(t *testing.T, address string) {
	s, err := Open(t.Context(), Config{Listen: "127.0.0.1:0", Data: t.TempDir(), Store: address, Retention: 24 * time.Hour, Receive: true})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Second)
	hour := now.Truncate(time.Hour)
	begin := now.Add(-2 * time.Hour)
	err = s.catalogue.Upsert(t.Context(), []store.Workload{
		{Site: "s", ID: "slurm/1", Kind: "slurm", Owner: "a", Name: "train", Command: "python", Nodes: []string{"n1"}, Submit: begin.Add(-time.Minute), Start: begin, End: begin.Add(time.Hour), Seen: begin.Add(time.Hour),
			State: "completed", Row: figure.Row{CPUSeconds: new(3600.0), CoresMean: new(1.0), CoresP95: new(1.0), RequestCores: new(4.0), RequestMemoryBytes: new(1e9)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.catalogue.ReplaceHours(t.Context(), hour.Add(-2*time.Hour), hour,
		[]store.Use{{At: hour.Add(-2 * time.Hour), Site: "s", Kind: "slurm", Owner: "a", Used: store.Used{CPUSeconds: new(3600.0)}}},
		[]store.NodeUse{{At: hour.Add(-2 * time.Hour), Site: "s", Node: "n1", Capacity: figure.Capacity{UpSeconds: new(3600.0), CoreSeconds: new(8 * 3600.0), NodeMemoryByteSeconds: new(16e9 * 3600)}}})
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
	// said checks that an answer shows what it lacks.
	said := func(what string, missing []string, err error, words ...string) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		for _, w := range append(words, address) {
			if !slices.ContainsFunc(missing, func(m string) bool { return strings.Contains(m, w) }) {
				t.Errorf("%s: missing %q, which says nothing of %q", what, missing, w)
			}
		}
	}
	fit, err := c.Fit(t.Context(), client.FitQuery{Cores: 4})
	said("fit", fit.Missing, err, "which nodes are up")
	if len(fit.Places) != 1 {
		t.Fatalf("fit: %+v", fit)
	}
	if p := fit.Places[0]; p.Fits == nil || !*p.Fits || *p.Cores != 8 || *p.MemoryBytes != 16e9 || p.Up != nil || p.FreeNow != nil || p.Comparable != 1 || *p.WaitP50 != 60 {
		t.Errorf("fit: %+v", p)
	}
	scale, err := c.Scale(t.Context(), "slurm/1", client.Range{})
	said("scale", scale.Missing, err, "over time")
	if len(scale.Resources) != 1 || *scale.Resources[0].Held != 4 || len(scale.Runs) != 1 || len(scale.Verdicts) == 0 {
		t.Errorf("scale: %+v", scale)
	}
	job, err := c.Workload(t.Context(), "slurm/1", client.Range{})
	said("job", job.Missing, err)
	list, err := c.Workloads(t.Context(), client.Filter{})
	said("jobs", list.Missing, err, "recent events")
	if list.Total != 1 || *job.CPUSeconds != 3600 {
		t.Errorf("jobs: %+v, job: %+v", list, job)
	}
	nodes, err := c.Nodes(t.Context())
	said("nodes", nodes.Missing, err, "all nodes")
	for _, by := range [][]string{{"owner"}, {"partition"}, {"node"}} {
		usage, err := c.Usage(t.Context(), client.UsageQuery{Since: hour.Add(-3 * time.Hour), Until: hour, Span: "whole", By: by})
		said("usage by "+by[0], usage.Missing, err, "recent events")
		if len(usage.Rows) == 0 || usage.Total.CPUSeconds == nil && by[0] != "node" {
			t.Errorf("usage by %s: %+v", by, usage)
		}
	}
	report, err := c.Report(t.Context(), "week", time.Time{}, false)
	said("report", report.Missing, err, "recent events")
	if _, err := c.Findings(t.Context(), client.FindingFilter{}); err != nil {
		t.Errorf("findings: %v", err)
	}
	// What is only in the series is refused, with a reason.
	for _, path := range []string{"/api/v1/query?query=up", "/api/v1/labels", "/api/reckon/v1/data?series=up&since=1h"} {
		resp, err := http.Get("http://" + s.Addr() + path)
		if err != nil {
			t.Error(err)
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode < 400 {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
}

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"reckon/web/client"
)

// TestSiteFeed: the server of a site has no stream: recent data of its nodes is used instead.
func TestSiteFeed(t *testing.T) {
	queries := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api/reckon/v1/nodes":
			fmt.Fprint(w, `{"nodes":[{"node":"n1","site":"lab","up":true,"cores":16,"cores_used":4,"memory_bytes":64,"memory_used_bytes":8},
				{"node":"n2","site":"lab","up":true,"cores":16,"cores_used":null,"memory_bytes":64,"memory_used_bytes":16},
				{"node":"n3","site":"lab","up":false,"cores":null}]}`)
		case "/api/reckon/v1/workloads":
			fmt.Fprint(w, `{"total":3,"workloads":[{"id":"slurm/7","name":"train","owner":"alice","nodes":["n1"],"start":"2026-11-21T10:00:00Z","cpu_seconds":3600,"memory_peak_bytes":9},
				{"id":"unit/a.service","name":"a.service","owner":"root","nodes":["n2"],"start":"2026-11-21T09:00:00Z","cpu_seconds":null},
				{"id":"slurm/8","state":"pending","nodes":[],"start":"2026-11-21T09:00:00Z"}]}`)
		case "/api/v1/query":
			queries++
			v := ""
			switch q := r.FormValue("query"); {
			case strings.Contains(q, "cpu_seconds_total"):
				v = `{"metric":{"workload":"slurm/7"},"value":[1,"3.5"]},{"metric":{"workload":"slurm/99"},"value":[1,"1"]}`
			case strings.Contains(q, "memory_bytes"):
				v = `{"metric":{"workload":"slurm/7"},"value":[1,"5"]},{"metric":{"workload":"unit/a.service"},"value":[1,"2"]}`
			}
			fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, v)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":"this server runs no agent"}`)
		}
	}))
	defer s.Close()
	c, err := client.New(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	feed, source, err := openFeed(t.Context(), &globals{deps: deps{getenv: func(string) string { return "" }}, connection: connection{server: s.URL}}, c, false)
	if err != nil || source != c.Server() {
		t.Fatalf("source %q, error %v", source, err)
	}
	var f feedMsg
	select {
	case f = <-feed:
	case <-time.After(2 * time.Minute):
		t.Fatal("no tick came")
	}
	if f.err != nil {
		t.Fatal(f.err)
	}
	l := f.live
	if l.Node != "lab, 2 nodes" || l.Cores != 32 || *l.CoresUsed != 4 || *l.Memory != 128 || *l.MemUsed != 24 || len(l.Workloads) != 2 {
		t.Fatalf("got %+v", l)
	}
	if w := l.Workloads[0]; w.Cores != 3.5 || *w.MemoryBytes != 5 || w.ReadRate != nil || w.CPUSeconds != 3600 || w.Owner != "alice" {
		t.Errorf("slurm/7 is %+v", w)
	}
	if queries != 13 {
		t.Errorf("%d queries", queries)
	}
}

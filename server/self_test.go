package server

import (
	"bufio"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"reckon/metric"
	"reckon/sensor/sensortest"
	"reckon/transport/push"
)

// scrape reads /metrics: values by name and labels.
func scrape(t *testing.T, s *Server) map[string]float64 {
	t.Helper()
	got, err := s.InProcessClient().Get("http://x/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusOK {
		t.Fatal(got.Status)
	}
	out := map[string]float64{}
	for in := bufio.NewScanner(got.Body); in.Scan(); {
		if line := in.Text(); !strings.HasPrefix(line, "#") {
			at := strings.LastIndex(line, " ")
			if out[line[:at]], err = strconv.ParseFloat(line[at+1:], 64); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
	return out
}

// A server without an agent reports on /metrics what it takes, refuses, needs and how far it is,
// and writes the same into its store.
func TestSelf(t *testing.T) {
	s := opened(t, Config{Listen: "127.0.0.1:0", Data: filepath.Join(t.TempDir(), "data"), Receive: true, Retention: 90 * 24 * time.Hour, Version: "test"})
	p, err := push.Open(push.Config{Endpoints: []push.Endpoint{{URL: "http://" + s.Addr()}}, Labels: map[string]string{"node": "n1"}, QueueDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	series := metric.NewSeries(&metric.Desc{Name: "g", Kind: metric.Gauge, Help: "x"})
	for _, at := range []time.Time{time.Now(), time.Now().Add(-30 * 24 * time.Hour)} {
		b := &metric.Batch{Time: at}
		b.Add(series, 1)
		if err := p.Put(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		p.Flush(t.Context())
	}
	if _, err := s.builder.Advance(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := s.InProcessClient().Get("http://x/api/v1/query?query=1"); err != nil {
		t.Fatal(err)
	} else {
		r.Body.Close()
	}
	got := scrape(t, s)
	for name, want := range map[string][2]float64{
		`reckon_server_ingest_samples_total{protocol="remote_write"}`:                 {1, 1},
		`reckon_server_ingest_requests_total{protocol="remote_write",status="204"}`:   {1, 1},
		`reckon_server_ingest_requests_total{protocol="remote_write",status="400"}`:   {1, 2},
		`reckon_server_ingest_refused_samples_total{reason="too_old",sender="local"}`: {1, 1},
		`reckon_server_store_ready`:                   {1, 1},
		`reckon_server_store_series{state="live"}`:    {1, 1e6},
		`reckon_server_disk_free_bytes`:               {1, 1e18},
		`reckon_server_disk_size_bytes`:               {1, 1e18},
		`reckon_server_memory_bytes{kind="resident"}`: {1 << 20, 1e12},
		`reckon_server_cpu_seconds_total`:             {1e-3, 1e9},
		`reckon_server_catalogue_lag_seconds`:         {0, 60},
		`reckon_server_rollup_lag_seconds`:            {0, 2 * 3600},
		`reckon_server_dirty_rollups`:                 {0, 1},
		`reckon_server_proof_differences_total`:       {0, 0},
		`reckon_server_requests_running`:              {1, 1},
		`reckon_server_start_time_seconds`:            {1.7e9, 1e11},
	} {
		key := name
		v, ok := got[key]
		if !ok { // the order of labels is the writer's
			for k := range got {
				if sameSeries(k, key) {
					v, ok = got[k], true
				}
			}
		}
		if !ok || v < want[0] || v > want[1] {
			t.Errorf("%s is %g, %t; want %g to %g", name, v, ok, want[0], want[1])
		}
	}
	b := &metric.Batch{Time: time.Now()}
	s.gatherSelf(t.Context(), b, b.Time)
	seen := map[*metric.Desc]bool{}
	for i := range b.Samples {
		seen[b.Samples[i].Series.Desc] = true
	}
	for d := range seen {
		found := false
		for _, x := range Descs() {
			found = found || x == d
		}
		if !found {
			t.Errorf("%s is not described", d.Name)
		}
	}
	if err := s.series.Append(t.Context(), map[string]string{"server": "x"}, b); err != nil {
		t.Error(err)
	}
}

func sameSeries(a, b string) bool {
	part := func(s string) (string, map[string]bool) {
		name, rest, _ := strings.Cut(strings.TrimSuffix(s, "}"), "{")
		set := map[string]bool{}
		for _, l := range strings.Split(rest, ",") {
			set[l] = true
		}
		return name, set
	}
	an, as := part(a)
	bn, bs := part(b)
	if an != bn || len(as) != len(bs) {
		return false
	}
	for l := range as {
		if !bs[l] {
			return false
		}
	}
	return true
}

func TestSelfNames(t *testing.T) {
	for _, d := range Descs() {
		for _, problem := range sensortest.Lint(d, false) {
			t.Errorf("%s: %s", d.Name, problem)
		}
	}
}

// What is asked is one of few words, whatever the path.
func TestQuestionOf(t *testing.T) {
	for path, want := range map[string]string{
		"/api/reckon/v1/workloads/slurm/1": "workloads", "/api/reckon/v1/usage": "usage", "/api/reckon/v1/xyz": "other", "/api/v1/query_range": "query",
		"/api/v1/write": "ingest", "/v1/metrics": "ingest", "/api/v1/read": "remote_read", "/api/v1/labels": "prometheus", "/metrics": "health",
		"/alertmanager/api/v2/alerts": "alertmanager", "/auth/login": "sign_in", "/nodes": "page", "/": "page",
	} {
		if got := requestKind(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

package server

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/catalogue"
	"reckon/metric"
	"reckon/web/client"
)

// A server proves its usage on demand, keeps the proof and reports it with usage.
func TestProof(t *testing.T) {
	config := Config{Listen: "127.0.0.1:0", Data: filepath.Join(t.TempDir(), "data"), Receive: true, Retention: 90 * 24 * time.Hour, Version: "test"}
	hours := 0
	t.Run("running", func(t *testing.T) { hours = proveRunning(t, opened(t, config)) })
	if p, err := Verify(t.Context(), Places{Data: config.Data}, client.ProofQuery{}, slog.New(slog.DiscardHandler)); err != nil || p.Differing != 0 || p.Hours != hours {
		t.Errorf("stopped: %+v, %v", p, err)
	}
	t.Run("again", func(t *testing.T) {
		var p client.Proof
		askProof(t, opened(t, config), "GET", "/api/reckon/v1/proof", &p)
		if p.Made == nil || p.Hours != hours {
			t.Errorf("after a restart: %+v", p)
		}
	})
}

func askProof(t *testing.T, s *Server, method, path string, into any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://x"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.InProcessClient().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", path, got.Status)
	}
	if err := json.NewDecoder(got.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
}

func proveRunning(t *testing.T, s *Server) (hours int) {
	cpu := metric.NewSeries(&metric.Desc{Name: "reckon_workload_cpu_seconds_total", Kind: metric.Counter, Help: "x", Labels: []string{"workload", "kind", "mode"}}, "unit/a", "unit", "user")
	begin := time.Now().Add(-3 * time.Hour).Truncate(time.Minute)
	for i := range 180 {
		b := &metric.Batch{Time: begin.Add(time.Duration(i) * time.Minute)}
		b.Add(cpu, float64(i)*30)
		if err := s.series.Append(t.Context(), map[string]string{"node": "n1"}, b); err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	if _, err := s.builder.Advance(ctx); err != nil {
		t.Fatal(err)
	}
	hour := begin.Truncate(time.Hour).Add(time.Hour)
	if _, err := s.builder.Prove(ctx, catalogue.ProofOptions{}); err != nil { // makes the missing hours
		t.Fatal(err)
	}
	if err := s.catalogue.ReplaceHours(ctx, hour, hour.Add(time.Hour), nil, nil); err != nil {
		t.Fatal(err)
	}
	ask := func(method, path string, into any) { t.Helper(); askProof(t, s, method, path, into) }
	var p client.Proof
	ask("GET", "/api/reckon/v1/proof", &p)
	if p.Made != nil || p.Summary(time.Now()) != "not checked yet" {
		t.Errorf("before the first: %+v", p)
	}
	ask("POST", "/api/reckon/v1/prove?mend=true", &p)
	if p.Differing != 2 || !p.Mended || p.Accounted > 0.9 || p.Differences[0].Node != "" || p.Differences[1].Node != "n1" || !p.Differences[1].Hour.Equal(hour) {
		t.Errorf("an hour that is lost: %+v", p)
	}
	if text := p.Summary(time.Now()); !strings.Contains(text, "2 figures of hours differed and were mended") {
		t.Errorf("%s", text)
	}
	var u client.UsageList
	ask("GET", "/api/reckon/v1/usage", &u)
	if !strings.Contains(u.Proof, "mended") {
		t.Errorf("usage says %q", u.Proof)
	}
	ask("POST", "/api/reckon/v1/prove?mend=false", &p)
	if p.Differing != 0 || p.Accounted != 1 || !strings.HasSuffix(p.Summary(time.Now()), ", 100.00 % accounted for") {
		t.Errorf("mended: %+v", p)
	}
	return p.Hours
}

func TestNextProof(t *testing.T) {
	zone := time.FixedZone("x", 3600)
	for now, want := range map[string]string{"2026-03-01T02:59:59": "2026-03-01T03:00:00", "2026-03-01T03:00:00": "2026-03-02T03:00:00", "2026-12-31T23:00:00": "2027-01-01T03:00:00"} {
		at, err := time.ParseInLocation("2006-01-02T15:04:05", now, zone)
		if err != nil {
			t.Fatal(err)
		}
		if got := nextProofTime(at).Format("2006-01-02T15:04:05"); got != want {
			t.Errorf("after %s comes %s, want %s", now, got, want)
		}
	}
}

// Hundred percent is stated only where nothing differs.
func TestPercent(t *testing.T) {
	for _, tt := range []struct {
		p    client.Proof
		want string
	}{
		{client.Proof{Accounted: 1}, "100.00 %"}, {client.Proof{Accounted: 1, Differing: 1}, "99.99 %"},
		{client.Proof{Accounted: 0.99999, Differing: 1}, "99.99 %"}, {client.Proof{Accounted: 0.5, Differing: 3}, "50.00 %"}, {client.Proof{Accounted: 0.66666, Differing: 3}, "66.66 %"},
	} {
		if got := tt.p.Percent(); got != tt.want {
			t.Errorf("%+v is %s, want %s", tt.p, got, tt.want)
		}
	}
}

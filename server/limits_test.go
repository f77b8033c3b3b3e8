package server

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/prompb"

	"reckon/access"
	"reckon/access/auth"
)

// posted sends n series of one sample each.
func posted(t *testing.T, s *Server, token, site, name string, n int) (int, http.Header, string) {
	t.Helper()
	var req prompb.WriteRequest
	for i := range n {
		req.Timeseries = append(req.Timeseries, prompb.TimeSeries{
			Labels:  []prompb.Label{{Name: "__name__", Value: name}, {Name: "i", Value: strconv.Itoa(i)}, {Name: "site", Value: site}},
			Samples: []prompb.Sample{{Timestamp: time.Now().UnixMilli(), Value: 1}},
		})
	}
	raw, err := proto.Marshal(&req)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.Addr()+"/api/v1/write", bytes.NewReader(s2.EncodeSnappy(nil, raw)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, text.String()
}

// TestLimits: one sender, site or viewer that takes too much is held back alone.
func TestLimits(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "limits.yml")
	const text = `
senders: {samples_per_second: 0.001}
sites: {small: {series: 3}}
labels: {value_bytes: 100}
queries: {user: {samples: 10, at_once: 1}, "*": {samples: 1000}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	k := users(t, dir)
	token := func(b access.Bound) string {
		t.Helper()
		text, err := k.AddToken(t.Context(), auth.Token{Kind: auth.Agent, Bound: b})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	s := opened(t, Config{Listen: "127.0.0.1:0", Data: dir, Access: Access{Limits: file}})

	slow := token(access.Bound{})
	if code, _, text := posted(t, s, slow, "lab", "node_load1", 50); code != http.StatusNoContent {
		t.Fatalf("the first request: %d %s", code, text)
	}
	code, h, said := posted(t, s, slow, "lab", "node_load1", 1)
	wait, err := strconv.Atoi(h.Get("Retry-After"))
	if code != http.StatusTooManyRequests || err != nil || wait < 1 || !strings.Contains(said, "0.001 samples per second") {
		t.Errorf("too fast: %d, wait %q, %s", code, h.Get("Retry-After"), said)
	}
	free := token(access.Bound{SamplesPerSecond: -1})
	for range 3 {
		if code, _, text := posted(t, s, free, "lab", "node_load5", 50); code != http.StatusNoContent {
			t.Errorf("a token without bound: %d %s", code, text)
		}
	}
	if code, _, text := posted(t, s, free, "small", "node_load1", 5); code != http.StatusBadRequest || !strings.Contains(text, "2 samples refused, 3 stored: site small has 3 series") {
		t.Errorf("a small site: %d %s", code, text)
	}
	few := token(access.Bound{Series: 2, SamplesPerSecond: -1})
	if code, _, text := posted(t, s, few, "lab", "node_load15", 3); code != http.StatusBadRequest || !strings.Contains(text, "1 samples refused, 2 stored: sender agent") {
		t.Errorf("a token of few series: %d %s", code, text)
	}
	if code, _, text := posted(t, s, free, strings.Repeat("x", 101), "node_load1", 1); code != http.StatusBadRequest || !strings.Contains(text, "the label site has 101 bytes, more than 100") {
		t.Errorf("a long label: %d %s", code, text)
	}

	if err := k.AddUser(t.Context(), auth.User{Name: "alice", Role: access.User}, password); err != nil {
		t.Fatal(err)
	}
	if err := k.AddUser(t.Context(), auth.User{Name: "root", Role: access.Admin}, password); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"alice": http.StatusUnprocessableEntity, "root": http.StatusOK} {
		target := fmt.Sprintf("http://%s/api/v1/query?query=node_load5", s.Addr())
		if code, text := asked(t, http.DefaultClient, target, "Authorization", basicAuth(name, password)); code != want {
			t.Errorf("50 samples for %s: %d %s", name, code, text)
		}
	}

	if err := os.WriteFile(file, []byte("queries: {user: {memory: 1}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), Config{Listen: "127.0.0.1:0", Data: t.TempDir(), Access: Access{Limits: file}})
	if err == nil || !strings.Contains(err.Error(), "limits "+file) || !strings.Contains(err.Error(), "field memory not found") {
		t.Errorf("a wrong file: %v", err)
	}
}

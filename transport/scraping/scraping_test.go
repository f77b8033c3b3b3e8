package scraping

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/metadata"

	"reckon/store/tsdb"
)

// has reports whether the store has a series that matches.
func has(t *testing.T, s *tsdb.Store, pairs ...string) bool {
	t.Helper()
	q, err := s.Querier(0, time.Now().Add(time.Hour).UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	var ms []*labels.Matcher
	for i := 0; i < len(pairs); i += 2 {
		ms = append(ms, labels.MustNewMatcher(labels.MatchEqual, pairs[i], pairs[i+1]))
	}
	return q.Select(t.Context(), false, nil, ms...).Next()
}

// wait asks again until it holds; only a hang reaches the limit.
func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	limit := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-again.C:
		case <-limit:
			t.Fatal("waited two minutes for " + what)
		}
	}
}

func TestScraping(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "# HELP shop_orders_total Orders taken.\n# TYPE shop_orders_total counter\nshop_orders_total{kind=\"x\"} 7\n")
	}))
	defer target.Close()
	host := strings.TrimPrefix(target.URL, "http://")
	found := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode([]map[string]any{{"targets": []string{host}, "labels": map[string]string{"by": "http"}}})
	}))
	defer found.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "scrape.yaml")
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
	text := `global: {scrape_interval: 1s}
scrape_configs:
  - job_name: shop
    static_configs: [{targets: ['` + host + `'], labels: {by: static, site: lab}}]
  - job_name: files
    file_sd_configs: [{files: ['targets/*.yaml']}]
  - job_name: asked
    http_sd_configs: [{url: '` + found.URL + `'}]
`
	write("scrape.yaml", text)
	if err := os.Mkdir(filepath.Join(dir, "targets"), 0o700); err != nil {
		t.Fatal(err)
	}
	store, err := tsdb.Open(tsdb.Options{Dir: filepath.Join(dir, "series"), OutOfOrder: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var mu sync.Mutex
	told := map[string]metadata.Metadata{}
	s, err := Open(Options{File: file, Store: store, Reread: 50 * time.Millisecond, Settle: 50 * time.Millisecond,
		Describe: func(name string, m metadata.Metadata) error {
			mu.Lock()
			defer mu.Unlock()
			told[name] = m
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	if s.Jobs() != 3 {
		t.Errorf("%d jobs", s.Jobs())
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	for _, by := range []string{"static", "http"} {
		wait(t, "the target found by "+by, func() bool {
			return has(t, store, "__name__", "shop_orders_total", "kind", "x", "instance", host, "by", by)
		})
	}
	if !has(t, store, "__name__", "up", "job", "shop", "site", "lab") {
		t.Error("there is no up")
	}
	write("targets/a.yaml", "- targets: ['"+host+"']\n  labels: {by: file}\n")
	wait(t, "the target found by a file", func() bool { return has(t, store, "__name__", "shop_orders_total", "by", "file", "job", "files") })
	mu.Lock()
	if m := told["shop_orders_total"]; m.Help != "Orders taken." || m.Type != "counter" {
		t.Errorf("%+v", told)
	}
	mu.Unlock()
	if n := len(s.TargetsActive()["shop"]); n != 1 {
		t.Errorf("%d active targets", n)
	}

	// A wrong file changes nothing, a right one does.
	write("scrape.yaml", "scrape_configs: 7\n")
	write("scrape.yaml", strings.Replace(text, "by: static", "by: again", 1))
	wait(t, "the changed file", func() bool { return has(t, store, "__name__", "shop_orders_total", "by", "again") })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestConfigurationErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scrape.yaml")
	for want, text := range map[string]string{
		"names no job":                                     "global: {}\n",
		"rule_files has no meaning here":                   "rule_files: [x]\nscrape_configs: [{job_name: a}]\n",
		"remote_write has no meaning here":                 "remote_write: [{url: x}]\n",
		"external_labels says nothing":                     "global: {external_labels: {a: b}}\nscrape_configs: [{job_name: a}]\n",
		"job 1 (a): kubernetes_sd_configs is not built in": "scrape_configs: [{job_name: a, kubernetes_sd_configs: [{role: pod}]}]\n",
		"is no list of jobs":                               "scrape_configs: 7\n",
		"line 1":                                           "scrape_configs: [\n",
		"found multiple scrape configs":                    "scrape_configs: [{job_name: a}, {job_name: a}]\n",
		"field scrape_intervall not found":                 "scrape_configs: [{job_name: a, scrape_intervall: 3s}]\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Options{File: file}); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "scrape-config "+file+": ") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := Open(Options{File: "/nowhere"}); err == nil || !strings.Contains(err.Error(), "scrape-config: open /nowhere") {
		t.Error(err)
	}
}

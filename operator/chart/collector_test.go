package chart

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// received is what a place of logs got over OTLP: how often each line came, and of which pod.
type received struct {
	mu    sync.Mutex
	lines map[string]int
	pods  map[string]bool
}

func (r *received) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var m struct {
		ResourceLogs []struct {
			Resource struct {
				Attributes []struct {
					Key   string
					Value struct{ StringValue string }
				}
			}
			ScopeLogs []struct {
				LogRecords []struct {
					Body struct{ StringValue string }
				}
			}
		}
	}
	text, err := io.ReadAll(req.Body)
	if err != nil || req.URL.Path != "/otlp/v1/logs" || json.Unmarshal(text, &m) != nil {
		http.Error(w, "no logs", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rl := range m.ResourceLogs {
		at := map[string]string{}
		for _, a := range rl.Resource.Attributes {
			at[a.Key] = a.Value.StringValue
		}
		r.pods[at["k8s.namespace.name"]+"/"+at["k8s.pod.name"]+"/"+at["k8s.container.name"]] = true
		for _, sl := range rl.ScopeLogs {
			for _, l := range sl.LogRecords {
				r.lines[l.Body.StringValue]++
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "{}")
}

func (r *received) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.lines)
}

// collect runs the collector with the configuration of the chart over the logs in a folder, until the test ends or it is stopped.
func collect(t *testing.T, program, logs, state string, to *received) (stop func()) {
	t.Helper()
	server := httptest.NewServer(to)
	t.Cleanup(server.Close)
	objects := rendered(t, "logs: {loki: {url: '"+server.URL+"'}, collector: {enabled: true}}")
	text := get[corev1.ConfigMap](t, objects, "ConfigMap", "reckon-logs").Data["collector.yaml"]
	text = strings.NewReplacer("/var/log/pods", logs, "directory: /state", "directory: "+state).Replace(text)
	var config map[string]any
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	// There is no API server for the names of owners, and the answers are read here.
	delete(config, "processors")
	config["service"].(map[string]any)["pipelines"].(map[string]any)["logs"].(map[string]any)["processors"] = []any{}
	exporter := config["exporters"].(map[string]any)["otlphttp"].(map[string]any)
	exporter["encoding"], exporter["compression"] = "json", "none"
	raw, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "collector.yaml")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	c := exec.CommandContext(ctx, program, "--config="+file)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 30 * time.Second
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			_ = c.Wait()
			if t.Failed() {
				t.Logf("%.3000s", out.String())
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// write appends lines as the runtime does, every 100th in two parts, with a pause after each hundred.
func write(t *testing.T, file string, from, to int) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b bytes.Buffer
	for i := from; i < to; i++ {
		stamp := time.Now().UTC().Format(time.RFC3339Nano)
		if i%100 == 0 {
			fmt.Fprintf(&b, "%s stdout P line %d be\n%s stdout F gins\n", stamp, i, stamp)
		} else {
			fmt.Fprintf(&b, "%s stdout F line %d\n", stamp, i)
		}
		if i%100 == 99 || i == to-1 {
			if _, err := f.Write(b.Bytes()); err != nil {
				t.Fatal(err)
			}
			b.Reset()
			<-time.After(5 * time.Millisecond)
		}
	}
}

func expected(i int) string {
	if i%100 == 0 {
		return fmt.Sprintf("line %d begins", i)
	}
	return fmt.Sprintf("line %d", i)
}

// settled waits until all lines are there, or no more have come for a while.
func settled(r *received, want int) {
	last, since := -1, time.Now()
	for last < want && time.Since(since) < 20*time.Second {
		if n := r.count(); n != last {
			last, since = n, time.Now()
		}
		<-time.After(100 * time.Millisecond)
	}
}

// TestCollector: the real collector (test/e2e/beds/k8s/build.sh otelcol) with the configuration of the chart loses nothing of logs
// that are rotated as the kubelet does, by another name (pkg/kubelet/logs), nor when it is stopped meanwhile; what is lost where a log is copied and
// truncated is measured.
func TestCollector(t *testing.T) {
	program := filepath.Join(os.Getenv("K8SBED_CACHE"), "otelcol/otelcol")
	if _, err := os.Stat(program); err != nil {
		t.Skipf("no collector: %v; test/e2e/beds/k8s/build.sh otelcol builds it where K8SBED_CACHE says", err)
	}
	const total, each = 40_000, 5_000
	folder := func(t *testing.T) (logs, file string) {
		logs = t.TempDir()
		dir := filepath.Join(logs, "shop_cart-5d4-x_0b7c2a55-3d0c-4b0e-9d8e-1a2b3c4d5e6f/app")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		return logs, filepath.Join(dir, "0.log")
	}
	check := func(t *testing.T, r *received) (missing, twice int) {
		for i := range total {
			switch r.lines[expected(i)] {
			case 0:
				missing++
			case 1:
			default:
				twice++
			}
		}
		if !r.pods["shop/cart-5d4-x/app"] || len(r.pods) != 1 {
			t.Errorf("of %v", r.pods)
		}
		t.Logf("%d of %d lines missing, %d more than once", missing, total, twice)
		return missing, twice
	}
	t.Run("renamed", func(t *testing.T) {
		logs, file := folder(t)
		got := &received{lines: map[string]int{}, pods: map[string]bool{}}
		state := t.TempDir()
		stop := collect(t, program, logs, state, got)
		for i := 0; i < total; i += each {
			if i == total/2 { // it is updated: what is written meanwhile is read by the next
				stop()
				stop = collect(t, program, logs, state, got)
			}
			write(t, file, i, i+each)
			if i+each < total {
				if err := os.Rename(file, fmt.Sprintf("%s.20261122-%06d", file, i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		settled(got, total)
		stop()
		if missing, twice := check(t, got); missing > 0 || twice > 0 {
			t.Errorf("%d lines are missing, %d came more than once", missing, twice)
		}
	})
	t.Run("copied and truncated", func(t *testing.T) { // not what the kubelet does
		logs, file := folder(t)
		got := &received{lines: map[string]int{}, pods: map[string]bool{}}
		stop := collect(t, program, logs, t.TempDir(), got)
		for i := 0; i < total; i += each {
			write(t, file, i, i+each)
			if i+each < total {
				if err := os.Truncate(file, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		settled(got, total)
		stop()
		if missing, _ := check(t, got); missing == total {
			t.Error("nothing came")
		}
	})
}

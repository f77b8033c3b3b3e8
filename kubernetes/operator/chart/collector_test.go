package chart

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// received is the log that a place got over OTLP: how often each line came, and from which pod.
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

// receiverHost is the place where a test server listens: it reads what it receives; a real Loki's lines are not read here.
const receiverHost = "127.0.0.1:"

// receive starts a place of logs and returns its address.
func receive(t *testing.T) (*received, string) {
	t.Helper()
	r := &received{lines: map[string]int{}, pods: map[string]bool{}}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return r, server.URL
}

func (r *received) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.lines)
}

// collect runs the collector with the configuration of the chart over the logs in a folder, until the test ends or it is stopped.
func collect(t *testing.T, program, logs, state, to string) (stop func()) {
	t.Helper()
	objects := rendered(t, "logs: {loki: {url: '"+to+"'}, collector: {enabled: true}}")
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
	if strings.HasPrefix(to, "http://"+receiverHost) {
		exporter["encoding"], exporter["compression"] = "json", "none"
	}
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

// lokiConfig is Loki as one process with its data in a folder, which answers with 50,000 lines at once.
const lokiConfig = `
auth_enabled: false
server: {http_listen_address: 127.0.0.1, http_listen_port: PORT, grpc_listen_address: 127.0.0.1, grpc_listen_port: GRPC, grpc_server_max_recv_msg_size: 67108864, grpc_server_max_send_msg_size: 67108864, log_level: warn}
common:
  instance_addr: 127.0.0.1
  path_prefix: DIR
  replication_factor: 1
  ring: {kvstore: {store: inmemory}}
  storage: {filesystem: {chunks_directory: DIR/chunks, rules_directory: DIR/rules}}
schema_config:
  configs: [{from: 2024-01-01, store: tsdb, object_store: filesystem, schema: v13, index: {prefix: index_, period: 24h}}]
limits_config: {allow_structured_metadata: true, ingestion_rate_mb: 64, ingestion_burst_size_mb: 128, per_stream_rate_limit: 64MB, per_stream_rate_limit_burst: 128MB, max_entries_limit_per_query: 50000}
analytics: {reporting_enabled: false}
`

// startLoki runs a real Loki until the end of the test.
func startLoki(t *testing.T, program string) (url string) {
	t.Helper()
	var ports [2]string
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports[i] = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
		l.Close()
	}
	port, dir := ports[0], t.TempDir()
	file := filepath.Join(dir, "loki.yaml")
	if err := os.WriteFile(file, []byte(strings.NewReplacer("PORT", port, "GRPC", ports[1], "DIR", dir).Replace(lokiConfig)), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, "-config.file="+file, "-target=all")
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Logf("%.3000s", out.String())
		}
	})
	url = "http://localhost:" + port
	for end := time.Now().Add(2 * time.Minute); ; <-time.After(500 * time.Millisecond) {
		resp, err := http.Get(url + "/ready")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return url
			}
		}
		if time.Now().After(end) {
			t.Fatalf("Loki is not ready: %v", err)
		}
	}
}

// inLoki returns how often each line is there that the selector which the chart gives the server finds.
func inLoki(t *testing.T, url string, since time.Time) map[string]int {
	t.Helper()
	q := url + "/loki/api/v1/query_range?limit=50000&direction=forward&query=" + neturl.QueryEscape(`{k8s_namespace_name="shop",k8s_pod_name=~"cart-5d4-x"}`) +
		"&start=" + strconv.FormatInt(since.UnixNano(), 10) + "&end=" + strconv.FormatInt(time.Now().UnixNano(), 10)
	resp, err := (&http.Client{Timeout: time.Minute}).Get(q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct {
			Result []struct{ Values [][2]string }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatalf("%s: %v", resp.Status, err)
	}
	lines := map[string]int{}
	for _, s := range answer.Data.Result {
		for _, v := range s.Values {
			lines[v[1]]++
		}
	}
	return lines
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
	count := func(t *testing.T, lines map[string]int) (missing, twice int) {
		for i := range total {
			switch lines[expected(i)] {
			case 0:
				missing++
			case 1:
			default:
				twice++
			}
		}
		t.Logf("%d of %d lines missing, %d more than once", missing, total, twice)
		return missing, twice
	}
	check := func(t *testing.T, r *received) (missing, twice int) {
		if !r.pods["shop/cart-5d4-x/app"] || len(r.pods) != 1 {
			t.Errorf("of %v", r.pods)
		}
		return count(t, r.lines)
	}
	// rotated writes all lines, in files that are renamed, while the collector is stopped and started in the middle.
	rotated := func(t *testing.T, logs, file, to string) (stop func()) {
		state := t.TempDir()
		stop = collect(t, program, logs, state, to)
		for i := 0; i < total; i += each {
			if i == total/2 { // it is updated: the next one reads the lines of the meantime
				stop()
				stop = collect(t, program, logs, state, to)
			}
			write(t, file, i, i+each)
			if i+each < total {
				if err := os.Rename(file, fmt.Sprintf("%s.20261122-%06d", file, i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		return stop
	}
	t.Run("renamed", func(t *testing.T) {
		logs, file := folder(t)
		got, to := receive(t)
		stop := rotated(t, logs, file, to)
		settled(got, total)
		stop()
		if missing, twice := check(t, got); missing > 0 || twice > 0 {
			t.Errorf("%d lines are missing, %d came more than once", missing, twice)
		}
	})
	t.Run("into Loki", func(t *testing.T) {
		loki := filepath.Join(os.Getenv("K8SBED_CACHE"), "loki/loki")
		if _, err := os.Stat(loki); err != nil {
			t.Skipf("no Loki: %v; test/e2e/beds/k8s/build.sh loki builds it where K8SBED_CACHE says", err)
		}
		began := time.Now().Add(-time.Minute)
		url := startLoki(t, loki)
		logs, file := folder(t)
		stop := rotated(t, logs, file, url)
		var lines map[string]int
		for last, since := -1, time.Now(); len(lines) < total && time.Since(since) < 20*time.Second; <-time.After(time.Second) {
			if lines = inLoki(t, url, began); len(lines) != last {
				last, since = len(lines), time.Now()
			}
		}
		stop()
		if missing, twice := count(t, lines); missing > 0 || twice > 0 {
			t.Errorf("%d lines are missing, %d are there more than once", missing, twice)
		}
	})
	t.Run("copied and truncated", func(t *testing.T) { // not what the kubelet does
		logs, file := folder(t)
		got, to := receive(t)
		stop := collect(t, program, logs, t.TempDir(), to)
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

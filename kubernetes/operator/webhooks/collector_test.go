package webhooks

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
)

// sink is a place of logs that speaks OTLP over HTTP, as Loki does: the lines that came, and of which pod.
type sink struct {
	mu    sync.Mutex
	lines map[string]int
	pods  map[string]bool
	path  string
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ResourceLogs []struct {
			Resource  struct{ Attributes []attribute }
			ScopeLogs []struct {
				LogRecords []struct{ Body struct{ StringValue string } }
			}
		}
	}
	text, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(text, &m) != nil {
		http.Error(w, "no logs", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.path = r.URL.Path
	for _, rl := range m.ResourceLogs {
		for _, a := range rl.Resource.Attributes {
			s.pods[a.Key+"="+a.Value.StringValue] = true
		}
		for _, sl := range rl.ScopeLogs {
			for _, l := range sl.LogRecords {
				s.lines[l.Body.StringValue]++
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "{}")
}

type attribute struct {
	Key   string
	Value struct{ StringValue string }
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lines)
}

// TestRealCollector gives the configuration that is made of annotations to a real collector (test/e2e/beds/k8s/build.sh otelcol): it is
// taken, each line of a pod arrives once, and so do those that were written just before the end of the application.
func TestRealCollector(t *testing.T) {
	program := filepath.Join(os.Getenv("K8SBED_CACHE"), "otelcol/otelcol")
	if _, err := os.Stat(program); err != nil {
		t.Skipf("no collector: %v; test/e2e/beds/k8s/build.sh otelcol builds it where K8SBED_CACHE says", err)
	}
	for name, annotations := range map[string]func(dir string, at *url.URL) map[string]string{
		"ours": func(dir string, at *url.URL) map[string]string {
			return map[string]string{"logs.reckon/injection": "enabled", "logs.reckon/application-log-dir": dir, "logs.reckon/endpoint": at.String() + "/otlp"}
		},
		"fluentd": func(dir string, at *url.URL) map[string]string {
			p := "fluentd-sidecar-injector.h3poteto.dev/"
			return map[string]string{p + "injection": "enabled", p + "application-log-dir": dir, p + "aggregator-host": at.Hostname(), p + "aggregator-port": at.Port(), p + "tag-prefix": "app.${env:HOME}",
				p + "time-key": "time", p + "time-format": "%Y-%m-%dT%H:%M:%S%z", p + "send-timeout": "60s", p + "refresh-interval": "60", p + "custom-env": "A=b"}
		},
		"fluent-bit": func(dir string, at *url.URL) map[string]string {
			p := "fluentd-sidecar-injector.h3poteto.dev/"
			return map[string]string{p + "injection": "enabled", p + "collector": "fluent-bit", p + "application-log-dir": dir, p + "aggregator-host": at.Hostname(), p + "aggregator-port": at.Port()}
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := &sink{lines: map[string]int{}, pods: map[string]bool{}}
			server := httptest.NewServer(got)
			defer server.Close()
			at, err := url.Parse(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			pod := &core.Pod{Spec: core.PodSpec{Containers: []core.Container{{Name: "web"}}}}
			pod.Annotations = annotations(dir, at)
			if _, err := (&Logs{Image: "otelcol"}).addCollector(pod); err != nil {
				t.Fatal(err)
			}
			stop := startCollector(t, program, &pod.Spec.InitContainers[0])
			write := func(file, text string, n int) {
				var b strings.Builder
				for i := range n {
					fmt.Fprintf(&b, "{\"time\":\"2026-11-22T20:30:00+0000\",\"message\":\"%s %d\"}\n", text, i)
				}
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755); err != nil {
					t.Fatal(err)
				}
				f, err := os.OpenFile(filepath.Join(dir, file), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if _, err := f.WriteString(b.String()); err != nil {
					t.Fatal(err)
				}
			}
			write("a.log", "early", 500)
			for end := time.After(time.Minute); got.count() < 500; {
				select {
				case <-end:
					t.Fatalf("%d lines", got.count())
				case <-time.After(100 * time.Millisecond):
				}
			}
			write("a.log", "late", 499)
			write("sub/b.log", "other file", 1)
			stop()
			for line, n := range got.lines {
				if n != 1 {
					t.Errorf("%d times %s", n, line)
				}
			}
			if want := map[string]string{"ours": "/otlp/v1/logs"}[name]; len(got.lines) != 1000 || !got.pods["k8s.pod.name=web-0"] || !got.pods["k8s.namespace.name=shop"] || want != "" && got.path != want {
				t.Errorf("%d of 1000 lines, of %v, at %s", len(got.lines), got.pods, got.path)
			}
		})
	}
}

// startCollector runs the container of a collector here. stop ends it as the kubelet does when the application has ended: after its preStop.
func startCollector(t *testing.T, program string, c *core.Container) (stop func()) {
	t.Helper()
	run := exec.Command(program, c.Args...)
	run.Env = os.Environ()
	for _, e := range c.Env {
		value := e.Value
		if e.ValueFrom != nil {
			value = map[string]string{"metadata.name": "web-0", "metadata.namespace": "shop", "spec.nodeName": "node0"}[e.ValueFrom.FieldRef.FieldPath]
		}
		if e.Name == configVariable { // the answers are read here
			var config map[string]any
			if err := json.Unmarshal([]byte(value), &config); err != nil {
				t.Fatal(err)
			}
			exporter := config["exporters"].(map[string]any)["otlphttp"].(map[string]any)
			exporter["encoding"], exporter["compression"] = "json", "none"
			text, err := json.Marshal(config)
			if err != nil {
				t.Fatal(err)
			}
			value = string(text)
		}
		run.Env = append(run.Env, e.Name+"="+value)
	}
	var out strings.Builder
	run.Stdout, run.Stderr = &out, &out
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		pause := time.NewTimer(time.Duration(c.Lifecycle.PreStop.Sleep.Seconds) * time.Second)
		<-pause.C
		_ = run.Process.Signal(os.Interrupt)
		if err := run.Wait(); err != nil || t.Failed() {
			t.Errorf("%v\n%.3000s", err, out.String())
		}
	}
	t.Cleanup(stop)
	return stop
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	registration "k8s.io/api/admissionregistration/v1"
	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lokiConfig is Loki as one process, with the limits that it has by default.
const lokiConfig = `
auth_enabled: false
server: {http_listen_address: 10.199.0.1, http_listen_port: 3100, grpc_listen_port: 3195, log_level: warn}
common:
  path_prefix: %[1]s
  replication_factor: 1
  ring: {instance_addr: 127.0.0.1, kvstore: {store: inmemory}}
  storage: {filesystem: {chunks_directory: %[1]s/chunks, rules_directory: %[1]s/rules}}
schema_config:
  configs: [{from: 2024-01-01, store: tsdb, object_store: filesystem, schema: v13, index: {prefix: index_, period: 24h}}]
analytics: {reporting_enabled: false}
`

// TestBedLogs: an annotated pod of the bed gets the collector, and what its application writes into a file is in a real Loki, each line once, to
// the last line before its end, and beside a line of ten megabytes, which Loki does not take. The pod ends.
func TestBedLogs(t *testing.T) {
	b, kubeconfig := bedOf(t)
	cache := os.Getenv("K8SBED_CACHE")
	for _, p := range []string{"otelcol/otelcol", "loki/loki"} {
		if _, err := os.Stat(filepath.Join(cache, p)); err != nil {
			t.Skipf("%v: test/e2e/beds/k8s/build.sh otelcol loki", err)
		}
	}
	if out, err := exec.Command(filepath.Join(scripts, "load.sh"), "example.local/otelcol:1", filepath.Join(cache, "otelcol/otelcol")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	runLoki(t, filepath.Join(cache, "loki/loki"))
	s := &server{t: t, c: b.c, kubeconfig: kubeconfig, port: freePort(t)}
	s.hooks()
	t.Cleanup(func() {
		_ = b.c.Delete(context.Background(), &registration.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "v"}})
		_ = b.c.Delete(context.Background(), &registration.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "m"}})
	})
	s.operator("--logs-image=example.local/otelcol:1", "--logs-endpoint=http://10.199.0.1:3100/otlp")
	const script = `f=/logs/app.log; i=0; while [ $i -lt 500 ]; do echo "line $i of the application" >> $f; i=$((i+1)); done; sleep 1
head -c 10000000 /dev/zero | tr '\0' x >> $f; echo >> $f; sleep 1; echo "after the long line" >> $f; echo "the last line" >> $f`
	for prefix, more := range map[string]string{"logs.reckon/": "", "fluentd-sidecar-injector.h3poteto.dev/": "collector: fluent-bit"} {
		pod := &core.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("writes-%d", time.Now().UnixMilli()), Annotations: map[string]string{prefix + "injection": "enabled", prefix + "application-log-dir": "/logs"}},
			Spec:       core.PodSpec{RestartPolicy: core.RestartPolicyNever, Containers: []core.Container{{Name: "app", Image: "k8sbed.local/busybox:1", Command: []string{"sh", "-c", script}}}},
		}
		if key, value, ok := strings.Cut(more, ": "); ok {
			pod.Annotations[prefix+key] = value
		}
		b.until("a pod with the collector", time.Minute, func() bool {
			_ = b.c.Delete(t.Context(), pod)
			p := pod.DeepCopy()
			return b.c.Create(t.Context(), p) == nil && len(p.Spec.InitContainers) == 1
		})
		t.Cleanup(func() { _ = b.c.Delete(context.Background(), pod) })
		b.until("the end of the pod", 2*time.Minute, func() bool {
			return b.c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod) == nil && (pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed)
		})
		app, collector := pod.Status.ContainerStatuses[0].State.Terminated, pod.Status.InitContainerStatuses[0].State.Terminated
		t.Logf("%s: %s, the collector ended %s after the application with %d, restarted %d times", prefix, pod.Status.Phase, collector.FinishedAt.Sub(app.FinishedAt.Time), collector.ExitCode, pod.Status.InitContainerStatuses[0].RestartCount)
		var lines map[string]int
		var longest int
		b.until("the last line in Loki", time.Minute, func() bool { lines, longest = inLoki(t, pod.Name); return lines["the last line"] > 0 })
		for i := range 500 {
			if n := lines[fmt.Sprintf("line %d of the application", i)]; n != 1 {
				t.Fatalf("line %d is there %d times; %d lines", i, n, len(lines))
			}
		}
		if lines["after the long line"] != 1 || lines["the last line"] != 1 || pod.Status.Phase != core.PodSucceeded || pod.Status.InitContainerStatuses[0].RestartCount != 0 {
			t.Errorf("after the long line %d, the last line %d, %s", lines["after the long line"], lines["the last line"], pod.Status.Phase)
		}
		t.Logf("the longest line in Loki has %d bytes", longest)
	}
}

// runLoki runs Loki until the test ends.
func runLoki(t *testing.T, program string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "loki.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, lokiConfig, dir), 0o600); err != nil {
		t.Fatal(err)
	}
	run := exec.Command(program, "-config.file="+file, "-target=all")
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Process.Kill(); _ = run.Wait() })
	web := http.Client{Timeout: 10 * time.Second}
	for end := time.After(2 * time.Minute); ; {
		resp, err := web.Get("http://10.199.0.1:3100/ready")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-end:
			t.Fatal("Loki is not ready within two minutes")
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// inLoki counts the lines of a pod, and returns the length of the longest.
func inLoki(t *testing.T, pod string) (lines map[string]int, longest int) {
	t.Helper()
	lines = map[string]int{}
	web := http.Client{Timeout: 20 * time.Second}
	resp, err := web.Get("http://10.199.0.1:3100/loki/api/v1/query_range?" + url.Values{"query": {`{service_name="` + pod + `"}`}, "limit": {"5000"}, "since": {"1h"}}.Encode())
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
		t.Fatal(err)
	}
	for _, stream := range answer.Data.Result {
		for _, v := range stream.Values {
			lines[v[1]]++
			longest = max(longest, len(v[1]))
		}
	}
	return lines, longest
}

//go:build e2e_k8s

package k8s

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// lokiAddress is the address of Loki in the cluster, which has no DNS.
const lokiAddress = "10.96.0.99"

// lokiConfig is Loki as one process with its data in a folder, as its documentation has it for tests.
const lokiConfig = `
auth_enabled: false
server: {http_listen_port: 3100, log_level: warn}
common:
  path_prefix: /data
  replication_factor: 1
  ring: {instance_addr: 127.0.0.1, kvstore: {store: inmemory}}
  storage: {filesystem: {chunks_directory: /data/chunks, rules_directory: /data/rules}}
schema_config:
  configs: [{from: 2024-01-01, store: tsdb, object_store: filesystem, schema: v13, index: {prefix: index_, period: 24h}}]
limits_config: {allow_structured_metadata: true, ingestion_rate_mb: 64, ingestion_burst_size_mb: 128, per_stream_rate_limit: 64MB, per_stream_rate_limit_burst: 128MB, volume_enabled: false}
analytics: {reporting_enabled: false}
`

// program makes an image of a program of the bed's cache, false where the bed has none.
func (b *bed) program(t *testing.T, image, path string) bool {
	t.Helper()
	file := filepath.Join(b.cache, path)
	if _, err := os.Stat(file); err != nil {
		t.Logf("%v: test/e2e/beds/k8s/build.sh %s builds it", err, filepath.Base(path))
		return false
	}
	b.load(true, image, file)
	return true
}

// loki runs Loki in the cluster.
func (b *bed) loki(t *testing.T) {
	const name = "loki"
	b.apply(
		object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": name, "namespace": "shop"}, "data": object{"loki.yaml": lokiConfig}},
		named("Service", "v1", name, object{"clusterIP": lokiAddress, "selector": object{"app": name}, "ports": []object{{"port": 3100}}}),
		named("Deployment", "apps/v1", name, object{"replicas": 1, "selector": selector(name), "template": template(name, object{
			"nodeSelector": onFirst, "terminationGracePeriodSeconds": 0,
			"containers": []object{{"name": name, "image": "k8sbed.local/loki:1", "args": []string{"-config.file=/etc/loki/loki.yaml", "-target=all"},
				"readinessProbe": object{"httpGet": object{"path": "/ready", "port": 3100}, "periodSeconds": 2},
				"volumeMounts":   []object{{"name": "config", "mountPath": "/etc/loki"}, {"name": "data", "mountPath": "/data"}}}},
			"volumes": []object{{"name": "config", "configMap": object{"name": name}}, {"name": "data", "emptyDir": object{}}},
		})}),
	)
	b.must("kubectl", "-n", "shop", "rollout", "status", "deployment/"+name, "--timeout=170s")
}

// logs: the collector of the chart, as a DaemonSet, sends what containers write to a real Loki, and `reckon job --logs` prints it of a
// workload: each line once, parts of a line joined, and the lines of a pod that is gone.
func (b *bed) logs(t *testing.T, install []string) {
	if !b.program(t, "k8sbed.local/otelcol:1", "otelcol/otelcol") || !b.program(t, "k8sbed.local/loki:1", "loki/loki") {
		t.Skip("the bed has no collector and no Loki")
	}
	b.loki(t)
	b.must("helm", append([]string{"upgrade", "--set", "logs.loki.url=http://" + lokiAddress + ":3100",
		"--set", "logs.collector.enabled=true", "--set", "logs.collector.image=k8sbed.local/otelcol:1", "--set", "logs.collector.nodeSelector.kubernetes\\.io/hostname=" + b.node,
		"--set", "logs.collector.stateDir=/var/lib/reckon-logs-e2e/" + fmt.Sprint(time.Now().Unix())}, install...)...)
	b.must("kubectl", "-n", "reckon", "rollout", "status", "daemonset/reckon-logs", "--timeout=170s")
	b.must("kubectl", "-n", "reckon", "rollout", "status", "statefulset/reckon", "--timeout=170s")
	const n, long = 2000, 40_000 // the runtime cuts a line after 16 KiB
	script := fmt.Sprintf(`i=0; while [ $i -lt %d ]; do echo "line $i of talker"; i=$((i+1)); done; head -c %d /dev/zero | tr '\0' x; echo; echo the end of talker`, n, long)
	b.apply(named("Job", "batch/v1", "talker", object{"backoffLimit": 0, "template": object{"spec": pod("Never", container("main", script))}}))
	b.must("kubectl", "-n", "shop", "wait", "--for=condition=Complete", "job/talker", "--timeout=120s")
	b.until(2*time.Minute, "the logs of a Job from Loki", func() string {
		out, err := b.reckon("job", "job/shop/talker", "--logs")
		if err != nil {
			return err.Error()
		}
		if !strings.Contains(out, "the end of talker") {
			return fmt.Sprintf("%.600s", out)
		}
		return ""
	})
	b.must("kubectl", "-n", "shop", "delete", "job", "talker", "--wait")
	out, err := b.reckon("job", "job/shop/talker", "--logs")
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if got := strings.Count(out, fmt.Sprintf("line %d of talker", i)); got != 1 {
			t.Fatalf("line %d is there %d times:\n%.600s", i, got, out)
		}
	}
	if !strings.Contains(out, strings.Repeat("x", long)) {
		t.Error("the long line is not whole")
	}
	b.logLinks(t)
	b.must("kubectl", "-n", "shop", "delete", "deployment/loki", "service/loki", "--wait")
}

// logLinks: the graph leads from a Deployment to its log store and the query there, which finds lines.
func (b *bed) logLinks(t *testing.T) {
	b.apply(named("Deployment", "apps/v1", "writer", object{"replicas": 1, "selector": selector("writer"), "template": template("writer", pod("Always", container("main", "while :; do echo words; sleep 1; done")))}))
	defer func() { _, _ = b.command(time.Minute, "", "kubectl", "-n", "shop", "delete", "deployment", "writer") }()
	b.until(2*time.Minute, "lines of a Deployment by the links of the graph", func() string {
		out, err := b.reckon("graph", "query", `PREFIX rk: <urn:reckon:ns#> SELECT ?url ?query { ?w a rk:Workload ; rk:kind "Deployment" ; rk:name "writer" ;
			rk:telemetry/rk:hasLogs ?l . ?l rk:source/rk:url ?url ; rk:query ?query }`, "--format", "json")
		if err != nil {
			return err.Error()
		}
		var r struct {
			Results struct {
				Bindings []map[string]struct{ Value string }
			}
		}
		if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Results.Bindings) != 1 {
			return out
		}
		link := r.Results.Bindings[0]
		got, err := b.command(time.Minute, "", "kubectl", "-n", "shop", "exec", "bare", "--", "wget", "-q", "-O", "-",
			link["url"].Value+"/loki/api/v1/query_range?limit=5&query="+url.QueryEscape(link["query"].Value))
		if err != nil || !strings.Contains(got, "words") {
			return fmt.Sprint(link, err, got)
		}
		return ""
	})
}

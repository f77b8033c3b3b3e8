//go:build e2e_k8s

package k8s

import (
	"encoding/csv"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// metricset: the chart's operator, with the rights of the chart, runs a MetricSet whose pods nothing is added to: the agent of the node
// exports them each second, and the samples stand in the run that the server keeps.
func (b *bed) metricset(t *testing.T, install []string) {
	dir := t.TempDir()
	program := filepath.Join(dir, "usr/bin/reckon-operator")
	if out, err := b.command(10*time.Minute, "", "env", "CGO_ENABLED=0", "go", "-C", "../../../operator", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "./cmd/reckon-operator"); err != nil {
		t.Fatalf("build the operator: %v\n%s", err, out)
	}
	tar := filepath.Join(t.TempDir(), "reckon-operator.tar")
	b.must(filepath.Join(scripts, "mkimage.sh"), dir, "localhost/reckon/reckon-operator:"+version, tar, "/usr/bin/reckon-operator")
	b.load(true, tar)
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := b.command(20*time.Second, "", "kubectl", "-n", "reckon", "logs", "deployment/reckon-operator", "--tail=30")
			more, _ := b.command(20*time.Second, "", "kubectl", "-n", "shop", "get", "metricsets", "-o", "yaml")
			t.Log(out, more)
		}
	})
	// The cluster has no DNS.
	b.must("helm", append([]string{"upgrade", "--set", "operator.enabled=true", "--set", `operator.nodeSelector.kubernetes\.io/hostname=` + b.node, "--set", "operator.extraArgs={--server=https://" + address + ":9870}"}, install...)...)
	b.must("kubectl", "-n", "reckon", "rollout", "status", "deployment/reckon-operator", "--timeout=170s")
	b.must("kubectl", "-n", "reckon", "rollout", "status", "statefulset/reckon", "--timeout=170s")
	b.must("kubectl", "-n", "reckon", "rollout", "status", "daemonset/reckon-agent", "--timeout=170s")
	const samples = 10 // at least: the agent begins to export the pod that often once the kubelet lists its annotation
	const script = "j=0; while [ $j -lt 200 ]; do i=0; while [ $i -lt 4000 ]; do i=$((i+1)); done; sleep 0.1; j=$((j+1)); done"
	b.apply(object{"apiVersion": "flux-framework.org/v1alpha2", "kind": "MetricSet", "metadata": object{"name": "quick", "namespace": "shop"}, "spec": object{
		"metrics": []object{{"name": "perf-sysstat", "options": object{"rate": 1},
			"addons": []object{{"name": "application", "options": object{"image": "k8sbed.local/busybox:1", "command": "sh -c '" + script + "'"}}}}}}})
	t.Cleanup(func() { _, _ = b.command(time.Minute, "", "kubectl", "-n", "shop", "delete", "metricsets", "--all") })
	b.until(4*time.Minute, "the end of the set", func() string {
		state, err := b.command(20*time.Second, "", "kubectl", "-n", "shop", "get", "metricset", "quick", "-o", `jsonpath={.status.conditions[?(@.type=="Complete")].status} {.status}`)
		if err != nil || !strings.HasPrefix(state, "True") {
			return fmt.Sprint(state, err)
		}
		return ""
	})
	if pods := b.must("kubectl", "-n", "shop", "get", "pods", "-l", "metricset-name=quick", "-o", "jsonpath={.items[*].spec['initContainers','containers'][*].name}"); len(strings.Fields(pods)) != 1 {
		t.Errorf("containers of the pod: %s", pods)
	}
	b.until(time.Minute, "the samples of the run", func() string {
		out, err := b.reckon("runs", "show", "shop/"+b.must("kubectl", "-n", "shop", "get", "metricset", "quick", "-o", "jsonpath={.status.run}"), "--format", "csv")
		if err != nil {
			return err.Error()
		}
		rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		if err != nil || len(rows) < samples {
			return fmt.Sprintf("%d rows, %v: %.500s", len(rows), err, out)
		}
		t.Logf("%d rows of samples, such as %v %v", len(rows)-1, rows[0], rows[len(rows)-1])
		return ""
	})
	table, err := b.reckon("runs", "--namespace", "shop", "--format", "csv")
	if err != nil || !strings.Contains(table, ",quick,perf-sysstat,Finished,") {
		t.Errorf("%v: %s", err, table)
	}
}

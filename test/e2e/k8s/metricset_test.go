//go:build e2e_k8s

package k8s

import (
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// metricset: the chart's operator, with the rights of the chart, runs a MetricSet with pods that nothing is added to: the agent of the node
// exports them each second, and the samples stand in the run that the server keeps.
func (b *bed) metricset(t *testing.T, install []string) {
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
	if os.Getenv("RECKON_MEASURE") != "" {
		b.agentOverhead(t)
	}
}

// agentOverhead runs the same work as a pod that the agent exports as often as others, and as one that a MetricSet has it export each second, in turn,
// and prints processor time: the work's, and the agent's meanwhile. (The goal: 0.5 % of the work.) It judges nothing: on a busy machine the work
// takes longer and the agent does more beside it.
func (b *bed) agentOverhead(t *testing.T) {
	id := b.must("kubectl", "-n", "reckon", "get", "pods", "-l", "app.kubernetes.io/component=agent", "--field-selector", "spec.nodeName="+b.node, "-o", "jsonpath={.items[0].status.containerStatuses[0].containerID}")
	_, id, _ = strings.Cut(id, "://")
	counters, err := exec.Command("find", "/sys/fs/cgroup", "-path", "*"+id+"*", "-name", "cpuacct.usage").Output()
	file := strings.TrimSpace(strings.SplitN(string(counters), "\n", 2)[0])
	if err != nil || file == "" {
		t.Log("the agent's control group has no counter of version 1: its overhead is not measured")
		return
	}
	agent := func() float64 {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
		if err != nil {
			t.Fatal(err)
		}
		return n / 1e9
	}
	const work = "i=0; while [ $i -lt 18000000 ]; do i=$((i+1)); done; times > /dev/termination-log"
	var used, cost, wall [2]float64 // plain, each second
	for i := range 3 {
		plain, quick := fmt.Sprintf("plain-%d", i), fmt.Sprintf("busy-%d", i)
		spec := pod("Never", container("main", work))
		spec["nodeSelector"] = onFirst
		for way, object := range []object{named("Pod", "v1", plain, spec), {"apiVersion": "flux-framework.org/v1alpha2", "kind": "MetricSet", "metadata": object{"name": quick, "namespace": "shop"}, "spec": object{
			"pod":     object{"nodeSelector": onFirst},
			"metrics": []object{{"name": "perf-sysstat", "options": object{"rate": 1}, "addons": []object{{"name": "application", "options": object{"image": "k8sbed.local/busybox:1", "command": "sh -c '" + work + "'"}}}}}}}} {
			b.apply(object)
			selector := []string{"pod", plain, "-o", "jsonpath={.status.%s}"}
			if way == 1 {
				selector = []string{"pods", "-l", "metricset-name=" + quick, "-o", "jsonpath={.items[0].status.%s}"}
			}
			field := func(path string) string {
				args := append([]string{"-n", "shop", "get"}, selector...)
				args[len(args)-1] = fmt.Sprintf(args[len(args)-1], path)
				out, _ := b.command(20*time.Second, "", "kubectl", args...)
				return out
			}
			b.until(time.Minute, "the work begins", func() string {
				return strings.TrimPrefix(field("phase"), "Running") + map[bool]string{true: "none"}[field("phase") == ""]
			})
			began, before := time.Now(), agent()
			b.until(15*time.Minute, "the work ends", func() string { return strings.TrimPrefix(field("phase"), "Succeeded") })
			spent := agent() - before
			line, _, _ := strings.Cut(field("containerStatuses[0].state.terminated.message"), "\n")
			seconds := 0.0
			for _, f := range strings.Fields(line) {
				d, err := time.ParseDuration(f)
				if err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				seconds += d.Seconds()
			}
			t.Logf("pair %d, %s: work %.2f s, agent %.3f s in %.1f s", i, []string{"as often as others", "each second"}[way], seconds, spent, time.Since(began).Seconds())
			used[way], cost[way], wall[way] = used[way]+seconds, cost[way]+spent, wall[way]+time.Since(began).Seconds()
		}
	}
	more := cost[1]/wall[1] - cost[0]/wall[0]
	t.Logf("MEASURED three pairs: the work took %+.2f %% of processor time; the agent %.4f cores instead of %.4f, %.2f %% of the work more", 100*(used[1]/used[0]-1), cost[1]/wall[1], cost[0]/wall[0], 100*more*wall[1]/used[1])
}

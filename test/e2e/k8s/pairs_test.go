//go:build e2e_k8s

package k8s

import (
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/web/client"
)

// standalone runs MetricSets over two pods that find each other by their names: the probe of the network, a pair of ranks that count themselves,
// and Debian's Open MPI. What reckon has of them lies within 2 % of their own count.
func (b *bed) standalone(t *testing.T, install []string) {
	b.must("helm", append([]string{"upgrade", "--set", "operator.enabled=true"}, install...)...)
	for _, what := range []string{"statefulset/reckon", "daemonset/reckon-agent", "deployment/reckon-operator"} {
		b.must("kubectl", "-n", "reckon", "rollout", "status", what, "--timeout=170s")
	}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := b.command(20*time.Second, "", "kubectl", "-n", "reckon", "logs", "deployment/reckon-operator", "--tail=30")
			more, _ := b.command(20*time.Second, "", "kubectl", "-n", "shop", "get", "metricsets,pods", "-o", "wide")
			t.Log(out, more)
		}
		_, _ = b.command(time.Minute, "", "kubectl", "-n", "shop", "delete", "metricsets", "--all")
	})
	mpi := "localhost/reckon/mpi:1"
	if out, err := exec.Command("env", "K8SBED_CACHE="+b.cache, "K8SBED_STATE="+b.state, filepath.Join(scripts, "mpi.sh"), mpi).CombinedOutput(); err != nil {
		t.Logf("no MPI: %v\n%s", err, out)
		mpi = ""
	}
	set := func(name string, metric object) {
		b.apply(object{"apiVersion": "flux-framework.org/v1alpha2", "kind": "MetricSet", "metadata": object{"name": name, "namespace": "shop"},
			"spec": object{"pods": 2, "metrics": []object{metric}}})
	}
	set("probe", object{"name": "network-probe", "options": object{"trials": 1000, "seconds": 20}})
	probe := b.run(t, "probe")
	b.probed(t, probe)
	set("pair", object{"name": "perf-sysstat", "options": object{"rate": 1, "attach": "sidecar"}, "addons": []object{{"name": "application",
		"options": object{"image": peerImage, "command": "/peer pair pair-perf-sysstat-0-0-0.ms.shop.svc 7070 4000000 60"}}}})
	b.paired(t, b.run(t, "pair"))
	if mpi == "" {
		return
	}
	set("pipe", object{"name": "app-custom", "image": mpi, "options": object{"soleTenancy": "false",
		"command": "mpirun --hostfile ./hostlist.txt --allow-run-as-root -np 2 -map-by ppr:1:node NPopenmpi -u 1024 -o /tmp/np.out"}})
	run := b.run(t, "pipe")
	for _, p := range run.Pods {
		if strings.Contains(p.Name, "-w-") {
			continue
		}
		if !strings.Contains(p.Text, "1024 bytes") || *p.ExitCode != 0 {
			t.Errorf("NetPIPE: %+v", p)
		}
	}
}

// run waits for the end of a set and returns its run, which lasted from the start of its first pod to the end of its last.
func (b *bed) run(t *testing.T, name string) *client.MetricRun {
	t.Helper()
	b.until(6*time.Minute, "the end of "+name, func() string {
		state, err := b.command(20*time.Second, "", "kubectl", "-n", "shop", "get", "metricset", name, "-o", `jsonpath={.status.conditions[?(@.type=="Complete")].status} {.status}`)
		if err != nil || !strings.HasPrefix(state, "True") {
			return fmt.Sprint(state, err)
		}
		return ""
	})
	out, err := b.reckon("runs", "show", "shop/"+b.must("kubectl", "-n", "shop", "get", "metricset", name, "-o", "jsonpath={.status.run}"), "--format", "json")
	if err != nil {
		t.Fatal(err)
	}
	run := &client.MetricRun{}
	if err := json.Unmarshal([]byte(out), run); err != nil {
		t.Fatalf("%v: %.300s", err, out)
	}
	if run.Outcome != "Finished" || run.Finished == nil || len(run.Pods) != 2 {
		t.Fatalf("%s: %.2000s", name, out)
	}
	for _, p := range run.Pods {
		worker := strings.Contains(p.Name, "-w-") // ended when the launcher has
		if p.Started == nil || !worker && p.Finished == nil || p.Started.Before(run.Started) || p.Finished != nil && p.Finished.After(run.Finished.Add(time.Second)) {
			t.Errorf("%s: from %v to %v, its pod %s from %v to %v", name, run.Started, run.Finished, p.Name, p.Started, p.Finished)
		}
	}
	if url := b.must("kubectl", "-n", "shop", "get", "metricset", name, "-o", "jsonpath={.status.runURL}"); len(b.open([]string{url})) > 0 {
		t.Errorf("%s does not open", url)
	}
	return run
}

// within reports a figure that is more than 2 % from what was counted.
func within(t *testing.T, what string, got, want float64) {
	t.Helper()
	if off := math.Abs(got-want) / want; !(off <= 0.02) {
		t.Errorf("%s: %.6g, counted %.6g (%+.2f %%)", what, got, want, 100*(got-want)/want)
	} else {
		t.Logf("%s: %.6g, counted %.6g (%+.3f %%)", what, got, want, 100*(got-want)/want)
	}
}

// probed: the bytes that the probe moved are those that the kernel counted for its pods.
func (b *bed) probed(t *testing.T, run *client.MetricRun) {
	var result *client.ProbeResult
	for _, p := range run.Pods {
		if p.Result != nil {
			result = p.Result
		}
	}
	if result == nil || len(result.Pairs) != 2 {
		t.Fatalf("no figures of two pairs: %+v", result)
	}
	<-time.After(35 * time.Second) // two exports
	for _, pair := range result.Pairs {
		from, _, _ := strings.Cut(pair.From, ".")
		i := slices.IndexFunc(run.Pods, func(p client.MetricRunPod) bool { return p.Name[:strings.LastIndex(p.Name, "-")] == from })
		if i < 0 {
			t.Fatalf("%s is none of %+v", from, run.Pods)
		}
		within(t, "network-probe "+from+", bytes a second", pair.BytesPerSecond, b.counted("probe", run.Pods[i].Name, "transmit")/20)
	}
}

// counted returns the bytes that reckon has of a pod.
func (b *bed) counted(set, pod, direction string) float64 {
	b.t.Helper()
	query := fmt.Sprintf(`sum by (workload) (last_over_time(reckon_workload_network_bytes_total{workload="jobset/shop/%s",part=~"%s/.*",protocol="tcp",direction="%s"}[20m]))`, set, pod, direction)
	return b.numbers(query, "workload")["jobset/shop/"+set]
}

// paired: processor time of the samples, and bytes, beside what each rank counted of itself.
func (b *bed) paired(t *testing.T, run *client.MetricRun) {
	<-time.After(35 * time.Second) // two exports
	for _, p := range run.Pods {
		var own struct {
			Rank         string
			Out, In      float64
			Seconds, CPU float64
		}
		text := b.must("kubectl", "-n", "shop", "logs", p.Name, "-c", "app-addon")
		if err := json.Unmarshal([]byte(text[strings.Index(text, "{"):]), &own); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if p.Samples < 59 || p.Incomplete != "" || p.Total.CPUSeconds == nil {
			t.Errorf("%s: %d samples, %s, %+v", p.Name, p.Samples, p.Incomplete, p.Total)
			continue
		}
		within(t, "rank "+own.Rank+", seconds of processor time", *p.Total.CPUSeconds, own.CPU)
		within(t, "rank "+own.Rank+", bytes sent", b.counted("pair", p.Name, "transmit"), own.Out)
		within(t, "rank "+own.Rank+", bytes received", b.counted("pair", p.Name, "receive"), own.In)
	}
}

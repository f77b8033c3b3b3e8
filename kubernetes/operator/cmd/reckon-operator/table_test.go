package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	reckon "reckon/web/client"
)

// The goals of doc/benchmarks.md (MetricSets), on the bed. Times of the kubelet are whole seconds.

// TestBedFirstSample measures the time from the application of a set to its first sample, and to the count of it in the status.
func TestBedFirstSample(t *testing.T) {
	b := onBed(t)
	for range 3 {
		began := time.Now()
		key := b.apply(`
metadata: {name: first}
spec: {metrics: [{name: perf-sysstat, options: {attach: sidecar, rate: 1, completions: 3}, addons: [{name: application, options: {image: "k8sbed.local/busybox:1", command: sleep 8}}]}]}
`)
		b.until("a sample in the status", time.Minute, func() bool { return b.set(key).Status.Samples > 0 })
		counted := time.Since(began)
		p := b.run(key, time.Minute).Pods[0]
		first := p.Series[0].To.Sub(began)
		t.Logf("applied to first sample %.1f s, to its count in the status %.1f s; %d samples", first.Seconds(), counted.Seconds(), p.Samples)
		if p.Samples != 3 {
			t.Errorf("%d samples", p.Samples)
		}
	}
}

// TestBedShortProcesses runs processes of 50 ms, each between two readings that are five seconds apart, and compares the total with the
// control group.
func TestBedShortProcesses(t *testing.T) {
	b := onBed(t)
	key := b.apply(`
metadata: {name: short}
spec:
  metrics:
    - name: perf-sysstat
      options: {attach: sidecar, rate: 5, completions: 5}
      addons: [{name: application, options: {image: "k8sbed.local/busybox:1", command: "sh -c 'i=0; while [ $i -lt 120 ]; do timeout 0.05 sha256sum /dev/zero; sleep 0.2; i=$((i+1)); done'"}}]
`)
	times, used := b.usage(key, 33*time.Second)
	p := b.run(key, 2*time.Minute).Pods[0]
	probe, group := 0.0, 0.0
	for _, s := range p.Series {
		a, ok := interpolate(times, used, s.From.Time)
		e, ok2 := interpolate(times, used, s.To.Time)
		if ok && ok2 {
			probe, group = probe+s.Use["cpu_seconds"], group+e-a
		}
	}
	t.Logf("processes of 50 ms: probe %.3f s, control group %.3f s", probe, group)
	if group < 0.5 || math.Abs(probe/group-1) > 0.05 {
		t.Errorf("they are not in the total")
	}
}

// interpolate is a counter between two of its readings; false outside of them.
func interpolate(times []time.Time, used []float64, when time.Time) (float64, bool) {
	i, _ := slices.BinarySearchFunc(times, when, time.Time.Compare)
	if i == 0 || i == len(times) {
		return 0, false
	}
	share := when.Sub(times[i-1]).Seconds() / times[i].Sub(times[i-1]).Seconds()
	return used[i-1] + (used[i]-used[i-1])*share, true
}

// TestBedJobsEnd runs OPERATOR_JOBS pods (20; the goal is of 100) with the sidecar, ten at a time, and holds that each ends within two
// seconds of its application.
func TestBedJobsEnd(t *testing.T) {
	b := onBed(t)
	n, err := strconv.Atoi(os.Getenv("OPERATOR_JOBS"))
	if err != nil {
		n = 20
	}
	var took []time.Duration
	for range n / 10 {
		key := b.apply(`
metadata: {name: ends}
spec: {pods: 10, metrics: [{name: perf-sysstat, options: {attach: sidecar, rate: 1}, addons: [{name: application, options: {image: "k8sbed.local/busybox:1", command: sleep 3}}]}]}
`)
		b.run(key, 3*time.Minute)
		var jobs batch.JobList
		var pods core.PodList
		labels := client.MatchingLabels{"metricset-name": key.Name}
		if err := b.c.List(t.Context(), &pods, client.InNamespace(key.Namespace), labels); err != nil || len(pods.Items) != 10 {
			t.Fatal(err, len(pods.Items))
		}
		for _, p := range pods.Items {
			app, probe := p.Status.ContainerStatuses[0].State.Terminated, p.Status.InitContainerStatuses[0].State.Terminated
			if p.Status.Phase != core.PodSucceeded || app == nil || probe == nil {
				t.Errorf("%s is %s", p.Name, p.Status.Phase)
				continue
			}
			took = append(took, probe.FinishedAt.Sub(app.FinishedAt.Time))
		}
		if err := b.c.List(t.Context(), &jobs, client.InNamespace(key.Namespace), client.MatchingLabels{"jobset.sigs.k8s.io/jobset-name": key.Name}); err != nil || len(jobs.Items) != 1 || jobs.Items[0].Status.Succeeded != 10 {
			t.Errorf("the job: %v %+v", err, jobs.Items)
		}
		if err := b.c.Delete(t.Context(), b.set(key)); err != nil {
			t.Error(err)
		}
	}
	slices.Sort(took)
	t.Logf("%d pods: the sidecar ended %s after its application, the slowest %s", len(took), took[len(took)/2], took[len(took)-1])
	if took[len(took)-1] > 2*time.Second {
		t.Errorf("not within 2 s: %v", took)
	}
}

// TestBedPrograms runs one file of each family with a program in Debian, in images of Debian.
func TestBedPrograms(t *testing.T) {
	b := onBed(t)
	for image, programs := range map[string][]string{"fio": {"fio"}, "sysstat": {"iostat"}, "hwloc": {"lstopo", "hwloc-ls"}} {
		for _, p := range programs {
			if _, err := exec.LookPath(p); err != nil {
				t.Skipf("%v: apt-get install fio sysstat hwloc", err)
			}
		}
		if out, err := exec.Command(filepath.Join(scripts, "debian.sh"), append([]string{"example.local/debian-" + image + ":1"}, programs...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	const volume = "addons: [{name: volume-empty, options: {name: data, path: /data}}]"
	for name, c := range map[string]struct{ spec, want string }{
		"fio":     {"{name: io-fio, image: 'example.local/debian-fio:1', options: {size: 4M, directory: /data}, " + volume + "}", `"jobname" : "test"`},
		"iostat":  {"{name: io-sysstat, image: 'example.local/debian-sysstat:1', options: {rate: 1, completions: 2}, " + volume + "}", `"sysstat"`},
		"hwloc":   {"{name: sys-hwloc, image: 'example.local/debian-hwloc:1', listOptions: {commands: [hwloc-ls]}}", "Machine ("},
		"machine": {"{name: sys-hwloc, image: 'example.local/debian-hwloc:1'}", "METRICS OPERATOR COLLECTION END"},
	} {
		key := b.apply("metadata: {name: " + name + "}\nspec: {metrics: [" + c.spec + "]}\n")
		run := b.run(key, 3*time.Minute)
		log := b.log(key)
		if run.Outcome != "Finished" || !strings.Contains(log, c.want) || !strings.Contains(log, "METADATA START {") || !strings.Contains(log, "METRICS OPERATOR COLLECTION END") {
			t.Errorf("%s: %s\n%.3000s", name, run.Outcome, log)
		}
		if kept := run.Pods[0].Log; !strings.Contains(kept, c.want) || strings.Contains(kept, "\r") || run.Pods[0].Incomplete != "" {
			t.Errorf("%s: the run keeps %d bytes of the log; %s", name, len(kept), run.Pods[0].Incomplete)
		}
		if name == "iostat" && strings.Count(log, "METRICS OPERATOR TIMEPOINT") != 2 {
			t.Errorf("%d reports of iostat", strings.Count(log, "METRICS OPERATOR TIMEPOINT"))
		}
	}
}

const scripts = "../../../../test/e2e/beds/k8s"

// kubectl is the bed's.
func (b *bed) kubectl(args ...string) string {
	b.t.Helper()
	out, err := exec.Command(filepath.Join(os.Getenv("K8SBED_CACHE"), "k8s-1.34/kubectl"), args...).CombinedOutput()
	if err != nil {
		b.t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func (b *bed) log(key types.NamespacedName) string {
	return b.kubectl("logs", "-n", key.Namespace, "-l", "metricset-name="+key.Name, "--tail=-1", "--all-containers")
}

// TestBedOverhead runs the same work alone and with the probe beside it, in turn, and compares processor time: that of the work, and that
// of the probe, which is compared without its start.
func TestBedOverhead(t *testing.T) {
	b := onBed(t)
	const work = "i=0; while [ $i -lt 18000000 ]; do i=$((i+1)); done; times > /dev/termination-log"
	var alone, beside, probe, begin float64
	for i := range 2 {
		pod := &core.Pod{Spec: core.PodSpec{RestartPolicy: core.RestartPolicyNever, Containers: []core.Container{{Name: "app", Image: "k8sbed.local/busybox:1", Command: []string{"sh", "-c", work}}}}}
		pod.Namespace, pod.Name = "default", fmt.Sprintf("alone-%d-%d", i, time.Now().UnixMilli())
		if err := b.c.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.c.Delete(context.Background(), pod) })
		b.until("the work alone", 2*time.Minute, func() bool {
			return b.c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod) == nil && pod.Status.Phase == core.PodSucceeded
		})
		a := shellTimes(t, pod.Status.ContainerStatuses[0].State.Terminated.Message)
		key := b.apply(`
metadata: {name: beside}
spec: {metrics: [{name: perf-sysstat, options: {attach: sidecar, rate: 1}, addons: [{name: application, options: {image: "k8sbed.local/busybox:1", command: "sh -c '` + work + `'"}}]}]}
`)
		start, cost := b.probeUsage(key)
		b.run(key, 2*time.Minute)
		var pods core.PodList
		if err := b.c.List(t.Context(), &pods, client.InNamespace(key.Namespace), client.MatchingLabels{"metricset-name": key.Name}); err != nil || len(pods.Items) != 1 {
			t.Fatal(err, len(pods.Items))
		}
		s := shellTimes(t, pods.Items[0].Status.ContainerStatuses[0].State.Terminated.Message)
		t.Logf("work alone %.2f s, beside the probe %.2f s, the probe itself %.3f s, of which %.3f s until its first sample", a, s, cost, start)
		alone, beside, probe, begin = alone+a, beside+s, probe+cost, begin+start
	}
	t.Logf("in all: %+.2f %% of the work's processor time, of which the probe itself %.2f %%, without its start %.2f %%", 100*((beside+probe)/alone-1), 100*probe/alone, 100*(probe-begin)/alone)
	if (probe-begin)/alone > 0.02 {
		t.Error("the probe takes more than 2 %")
	}
}

// shellTimes adds up the first line of the shell's builtin times: user and system time of the shell itself.
func shellTimes(t *testing.T, text string) (seconds float64) {
	t.Helper()
	line, _, _ := strings.Cut(text, "\n")
	for _, f := range strings.Fields(line) {
		d, err := time.ParseDuration(f)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		seconds += d.Seconds()
	}
	return seconds
}

// probeUsage is the use of a set's probe by its first sample and at its end, by its control group.
func (b *bed) probeUsage(key types.NamespacedName) (first, seconds float64) {
	b.t.Helper()
	var file string
	b.until("the group of the probe", 2*time.Minute, func() bool {
		var pods core.PodList
		if err := b.c.List(b.t.Context(), &pods, client.InNamespace(key.Namespace), client.MatchingLabels{"metricset-name": key.Name}); err != nil || len(pods.Items) == 0 || len(pods.Items[0].Status.InitContainerStatuses) == 0 {
			return false
		}
		_, id, _ := strings.Cut(pods.Items[0].Status.InitContainerStatuses[0].ContainerID, "://")
		file = groupFile(id)
		return file != ""
	})
	for {
		st := b.set(key).Status
		if meta.IsStatusConditionTrue(st.Conditions, "Complete") {
			return first, seconds
		}
		if text, err := os.ReadFile(file); err == nil {
			n, _ := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
			seconds = n / 1e9
		}
		if st.Samples == 0 {
			first = seconds
		}
		<-time.After(100 * time.Millisecond)
	}
}

// groupFile is the file of the counter of processor time of a container, of control groups of version 1.
func groupFile(id string) string {
	if id == "" {
		return ""
	}
	out, _ := exec.Command("find", "/sys/fs/cgroup", "-type", "d", "-name", "*"+id+"*").Output()
	for _, dir := range strings.Fields(string(out)) {
		if _, err := os.Stat(filepath.Join(dir, "cpuacct.usage")); err == nil {
			return filepath.Join(dir, "cpuacct.usage")
		}
	}
	return ""
}

// TestBedNetwork holds the network probe against a plain TCP ping-pong in the namespaces and control groups of the same two pods, just before
// the probe begins: it waits for the names of the pods, which this test answers for.
func TestBedNetwork(t *testing.T) {
	b := onBed(t)
	names := b.names()
	key := b.apply(`
metadata: {name: net}
spec: {pods: 2, metrics: [{name: network-probe, options: {trials: 100000, seconds: 3}}]}
`)
	var pods core.PodList
	b.until("two pods", time.Minute, func() bool {
		return b.c.List(t.Context(), &pods, client.InNamespace(key.Namespace), client.MatchingLabels{"metricset-name": key.Name}) == nil && len(pods.Items) == 2 &&
			!slices.ContainsFunc(pods.Items, func(p core.Pod) bool { return p.Status.Phase != core.PodRunning || p.Status.PodIP == "" })
	})
	slices.SortFunc(pods.Items, func(x, y core.Pod) int { return strings.Compare(x.Spec.Hostname, y.Spec.Hostname) }) // launcher, worker
	median, rate := pingPong(t, &pods.Items[0], &pods.Items[1])
	names.set(pods.Items)
	p := b.run(key, 3*time.Minute).Pods
	var result reckon.ProbeResult
	for _, q := range p {
		if q.Result != "" {
			if err := json.Unmarshal([]byte(q.Result), &result); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(result.Pairs) != 2 || result.Pairs[0].Error != "" {
		t.Fatalf("%+v", result)
	}
	pair := result.Pairs[0]
	t.Logf("%s to %s: median round trip %.1f us by the probe, %.1f us plain (%+.1f %%); %.2f and %.2f GB/s (%+.1f %%)", pair.From, pair.To, pair.MedianSeconds*1e6, median*1e6, 100*(pair.MedianSeconds/median-1),
		pair.BytesPerSecond/1e9, rate/1e9, 100*(pair.BytesPerSecond/rate-1))
	if math.Abs(pair.MedianSeconds/median-1) > 0.1 {
		t.Error("not within 10 %")
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"reckon/kubernetes/operator/api/metricrun"
	"reckon/kubernetes/operator/api/v1alpha2"
)

// bed is a real cluster with a node on this kernel (test/e2e/beds/k8s, K8SBED_NODES=1 K8SBED_JOBSET=1).
type bed struct {
	t *testing.T
	c client.Client
}

// bedOf finds the cluster, or skips.
func bedOf(t *testing.T) (b *bed, kubeconfig string) {
	t.Helper()
	state := os.Getenv("K8SBED_STATE")
	kubeconfig = filepath.Join(state, "admin.kubeconfig")
	if _, err := os.Stat(kubeconfig); state == "" || err != nil {
		t.Skip("K8SBED_STATE names no bed that runs: K8SBED_NODES=1 K8SBED_JOBSET=1 test/e2e/beds/k8s/up.sh")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha2.AddToScheme, metricrun.AddToScheme, jobset.AddToScheme, apiextensions.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	return &bed{t, c}, kubeconfig
}

// onBed builds the probe and a load, gives them to the nodes and starts the operator.
func onBed(t *testing.T) *bed {
	t.Helper()
	b, _ := bedOf(t)
	loaded.Do(func() { programs(t) })
	var o options
	if err := newFlags(&o, os.Stderr).Parse([]string{"--health=0", "--crds", "--ephemeral", "--probe-image=example.local/reckon-agent:operator"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runManager(ctx, o, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return b
}

// loaded is done once for all tests of the bed.
var loaded sync.Once

// programs builds ours and gives them to the nodes.
func programs(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for _, program := range []string{"reckon-agent", "reckon"} {
		build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, program), "./cmd/"+program)
		build.Dir, build.Env = "../../../..", append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", program, err, out)
		}
		if out, err := exec.Command("../../../../test/e2e/beds/k8s/load.sh", "example.local/"+program+":operator", filepath.Join(dir, program)).CombinedOutput(); err != nil {
			t.Fatalf("load %s: %v\n%s", program, err, out)
		}
	}
}

// apply makes a set; one of that name from an earlier run is taken away first.
func (b *bed) apply(spec string) types.NamespacedName {
	b.t.Helper()
	u := object(b.t, "apiVersion: flux-framework.org/v1alpha2\nkind: MetricSet\n"+spec)
	u.SetName(u.GetName() + "-" + strconv.FormatInt(time.Now().UnixMilli()%1e6, 36))
	b.until("the set is taken", time.Minute, func() bool { return b.c.Create(b.t.Context(), u) == nil })
	b.t.Cleanup(func() { _ = b.c.Delete(context.Background(), u) })
	return client.ObjectKeyFromObject(u)
}

func (b *bed) until(what string, limit time.Duration, done func() bool) time.Duration {
	b.t.Helper()
	began, deadline := time.Now(), time.After(limit)
	for !done() {
		select {
		case <-deadline:
			b.t.Fatalf("%s: not within %s", what, limit)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return time.Since(began)
}

func (b *bed) set(key types.NamespacedName) *v1alpha2.MetricSet {
	ms := &v1alpha2.MetricSet{}
	if err := b.c.Get(b.t.Context(), key, ms); err != nil {
		b.t.Fatal(err)
	}
	return ms
}

// run waits for the end of a set and returns its run.
func (b *bed) run(key types.NamespacedName, limit time.Duration) *metricrun.Run {
	b.t.Helper()
	b.until("the end of "+key.Name, limit, func() bool { return meta.IsStatusConditionTrue(b.set(key).Status.Conditions, "Complete") })
	run := &metricrun.MetricRun{}
	if err := b.c.Get(b.t.Context(), types.NamespacedName{Namespace: key.Namespace, Name: b.set(key).Status.Run}, run); err != nil {
		b.t.Fatal(err)
	}
	return &run.Run
}

// TestBedKnownLoad measures a load of 0.30 cores by a sidecar: exactly so many samples, each near what the
// control group of the application reports at the same two times. (Bounds are the issue's: 0.02 cores, 1 %.)
func TestBedKnownLoad(t *testing.T) {
	b := onBed(t)
	key := b.apply(`
metadata: {name: known}
spec:
  metrics:
    - name: perf-sysstat
      options: {attach: sidecar, rate: 1, completions: 30}
      addons:
        - name: application
          options: {image: "example.local/reckon:operator", command: "/reckon stress --cpu 30% --for 60s", workdir: /tmp}
`)
	times, used := b.usage(key, 45*time.Second)
	run := b.run(key, 3*time.Minute)
	p := run.Pods[0]
	if p.Samples != 30 || len(p.Series) != 30 || p.ExitCode == nil || *p.ExitCode != 0 || p.Images["app-addon"] == "" {
		t.Errorf("%d samples, %d rows, %+v", p.Samples, len(p.Series), p)
	}
	compared, probe, group, worst := 0, 0.0, 0.0, 0.0
	for _, s := range p.Series {
		a, ok := interpolate(times, used, s.From.Time)
		e, ok2 := interpolate(times, used, s.To.Time)
		if !ok || !ok2 {
			continue
		}
		compared++
		probe, group = probe+s.Use["cpu_seconds"], group+e-a
		worst = max(worst, math.Abs(s.Use["cpu_seconds"]-(e-a))/s.To.Sub(s.From.Time).Seconds())
	}
	t.Logf("%d samples compared: probe %.3f s, control group %.3f s, worst sample %.4f cores off", compared, probe, group, worst)
	if compared < 15 || math.Abs(probe/group-1) > 0.01 || worst > 0.02 {
		t.Errorf("not within 1 %% and 0.02 cores")
	}
}

// usage reads the control group of an application for a while: times and seconds used.
func (b *bed) usage(key types.NamespacedName, d time.Duration) (times []time.Time, used []float64) {
	b.t.Helper()
	id := ""
	b.until("the application", 2*time.Minute, func() bool {
		var pods core.PodList
		if err := b.c.List(b.t.Context(), &pods, client.InNamespace(key.Namespace), client.MatchingLabels{"metricset-name": key.Name}); err != nil || len(pods.Items) == 0 || len(pods.Items[0].Status.ContainerStatuses) == 0 {
			return false
		}
		_, id, _ = strings.Cut(pods.Items[0].Status.ContainerStatuses[0].ContainerID, "://")
		return id != ""
	})
	file := groupFile(id)
	if file == "" {
		b.t.Skip("the node has no control groups of version 1, whose counters this test reads")
	}
	for end := time.After(d); ; {
		text, err := os.ReadFile(file)
		if err != nil {
			return times, used
		}
		n, err := strconv.ParseFloat(string(bytes.TrimSpace(text)), 64)
		if err != nil {
			b.t.Fatal(err)
		}
		times, used = append(times, time.Now()), append(used, n/1e9)
		select {
		case <-end:
			return times, used
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestBedFamilies runs a storage metric, pods that run already, an application that fails and one without
// an image, and looks at what becomes of them.
func TestBedFamilies(t *testing.T) {
	b := onBed(t)
	storage := b.apply(`
metadata: {name: disk}
spec: {metrics: [{name: io-probe, options: {size: 4Mi, seconds: 1}, addons: [{name: volume-empty, options: {name: data, path: /data}}]}]}
`)
	failing := b.apply(`
metadata: {name: fails}
spec:
  metrics:
    - name: perf-sysstat
      options: {attach: sidecar, rate: 1}
      addons: [{name: application, options: {image: "k8sbed.local/busybox:1", command: "sh -c 'i=0; while [ $i -lt 40 ]; do timeout 0.05 sha256sum /dev/zero; i=$((i+1)); done; exit 3'"}}]
`)
	missing := b.apply(`
metadata: {name: none}
spec: {metrics: [{name: perf-sysstat, options: {attach: sidecar}, addons: [{name: application, options: {image: "example.invalid/none:1", command: sleep 1}}]}]}
`)
	b.until("ImageMissing", 30*time.Second, func() bool {
		c := meta.FindStatusCondition(b.set(missing).Status.Conditions, "Degraded")
		return c != nil && c.Reason == "ImageMissing"
	})
	var result struct{ Figures map[string]float64 }
	if p := b.run(storage, 3*time.Minute).Pods[0]; json.Unmarshal([]byte(p.Result), &result) != nil || result.Figures["write_bytes_per_second"] <= 0 {
		t.Errorf("storage: %+v", p)
	}
	run := b.run(failing, 3*time.Minute)
	p := run.Pods[0]
	if run.Outcome != "Failed" || p.ExitCode == nil || *p.ExitCode != 3 || p.Ended != "application" || p.Total["cpu_seconds"] < 0.5 || p.Incomplete != "" {
		t.Errorf("failing: %s %+v", run.Outcome, p)
	}
	if took := b.sidecarEnd(failing); took > 2*time.Second {
		t.Errorf("the sidecar ended %s after its application", took)
	}
	web := &core.Pod{Spec: core.PodSpec{Containers: []core.Container{{Name: "web", Image: "k8sbed.local/busybox:1", Command: []string{"sh", "-c", "while true; do timeout 0.2 sha256sum /dev/zero; sleep 0.3; done"}}}, TerminationGracePeriodSeconds: new(int64)}}
	web.Namespace, web.Name, web.Labels = "default", fmt.Sprintf("web-%d", time.Now().UnixMilli()), map[string]string{"app": "web-of-test"}
	if err := b.c.Create(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.c.Delete(context.Background(), web) })
	b.until("a pod to look at", time.Minute, func() bool {
		return b.c.Get(t.Context(), client.ObjectKeyFromObject(web), web) == nil && web.Status.Phase == core.PodRunning
	})
	live := b.apply(`
metadata: {name: live}
spec: {metrics: [{name: perf-sysstat, options: {selector: app=web-of-test, rate: 1, completions: 5, pids: "true"}}]}
`)
	if p := b.run(live, 2*time.Minute).Pods[0]; p.Samples != 5 || p.Name != web.Name || p.Total["cpu_seconds"] <= 0 {
		t.Errorf("a pod that runs already: %+v", p)
	}
}

// sidecarEnd is the time from the end of an application to the end of the probe beside it.
func (b *bed) sidecarEnd(key types.NamespacedName) time.Duration {
	b.t.Helper()
	var pods core.PodList
	if err := b.c.List(b.t.Context(), &pods, client.InNamespace(key.Namespace), client.MatchingLabels{"metricset-name": key.Name}); err != nil || len(pods.Items) != 1 {
		b.t.Fatal(err, len(pods.Items))
	}
	st := pods.Items[0].Status
	app, probe := st.ContainerStatuses[0].State.Terminated, st.InitContainerStatuses[0].State.Terminated
	if app == nil || probe == nil {
		b.t.Fatal("not ended")
	}
	return probe.FinishedAt.Sub(app.FinishedAt.Time)
}

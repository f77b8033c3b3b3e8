package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"reckon/kubernetes/operator/api/v1alpha2"
	"reckon/kubernetes/operator/jobs"
)

// TestManySets measures the program with OPERATOR_SCALE sets of ten pods each (the goal: 1000) on a real API server. The pods are
// objects without a kubelet, as kwok's are.
func TestManySets(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("OPERATOR_SCALE"))
	if err != nil {
		t.Skip("OPERATOR_SCALE is no number of sets")
	}
	s := startServer(t)
	run, log := s.process("--crds", "--health=0")
	s.until("the definitions", func() bool {
		return s.c.List(t.Context(), &v1alpha2.MetricSetList{}) == nil
	})
	began := time.Now()
	each(t, n, func(i int) error {
		return s.c.Create(t.Context(), object(t, strings.Replace(demo, "name: demo", fmt.Sprintf("name: set-%d", i), 1)))
	})
	created := time.Since(began)
	wait(t, "JobSets", func() bool {
		var list jobset.JobSetList
		return s.c.List(t.Context(), &list) == nil && len(list.Items) == n
	})
	t.Logf("%d sets were created in %s, the last JobSet was there after %s", n, created.Round(time.Second), time.Since(began).Round(time.Second))
	each(t, 10*n, func(i int) error {
		name := fmt.Sprintf("set-%d", i/10)
		return s.c.Create(t.Context(), &core.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%s-perf-sysstat-0-0-%d", name, i%10), Labels: map[string]string{jobs.LabelManaged: jobs.Manager, jobs.LabelSet: name, jobs.LabelMetric: "perf-sysstat-0"}},
			Spec:       core.PodSpec{Containers: []core.Container{{Name: "app", Image: "busybox", Env: []core.EnvVar{{Name: "X", Value: strings.Repeat("x", 500)}}}}},
		})
	})
	counts := map[int]int{} // of sets by the pods in their status
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("sets by pods in the status: %v\n%s", counts, lastLines(log.String()))
		}
	})
	wait(t, "pods in the status", func() bool {
		var list v1alpha2.MetricSetList
		if err := s.c.List(t.Context(), &list, client.InNamespace("default")); err != nil {
			t.Log(err)
			return false
		}
		clear(counts)
		for _, ms := range list.Items {
			counts[len(ms.Status.Pods)]++
		}
		return counts[10] == n
	})
	t.Logf("%d pods are in the status after %s", 10*n, time.Since(began).Round(time.Second))
	atRest(t, run.Process.Pid)
	if bytes.Contains(log.Bytes(), []byte("level=ERROR")) {
		t.Errorf("%.2000s", log.Bytes())
	}
}

func lastLines(text string) string { return text[max(0, len(text)-4000):] }

// TestGraphMemory measures the program with --graph in a cluster of OPERATOR_PODS pods (the goal: 10,000 within 100 MB) on 1,000 nodes, once
// as they come and once started beside them. The graph takes every subgraph and keeps none.
func TestGraphMemory(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("OPERATOR_PODS"))
	if err != nil {
		t.Skip("OPERATOR_PODS is no number of pods")
	}
	s := startServer(t)
	var written atomic.Int64
	graph := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodPut {
			written.Add(1)
		}
		_, _ = io.WriteString(w, "{}")
	}))
	defer graph.Close()
	args := []string{"--crds", "--health=0", "--graph=" + graph.URL, "--graph-loki=http://loki:3100"}
	run, _ := s.process(args...)
	each(t, 1000, func(i int) error {
		return s.c.Create(t.Context(), &core.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%04d", i)}})
	})
	each(t, n, func(i int) error {
		name := fmt.Sprintf("cart-%d-5d4f-%05d", i/20, i)
		return s.c.Create(t.Context(), &core.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "cart", "pod-template-hash": "5d4f"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: fmt.Sprintf("cart-%d-5d4f", i/20), UID: types.UID(fmt.Sprint(i / 20))}}},
			Spec: core.PodSpec{NodeName: fmt.Sprintf("node-%04d", i%1000), Containers: []core.Container{{Name: "app", Image: "example.local/app:1", Env: []core.EnvVar{{Name: "X", Value: strings.Repeat("x", 2000)}},
				Resources: core.ResourceRequirements{Requests: core.ResourceList{core.ResourceCPU: quantity.MustParse("250m"), core.ResourceMemory: quantity.MustParse("1Gi")}}}}},
		})
	})
	wait(t, "subgraphs", func() bool { return written.Load() >= int64(n+1000) })
	atRest(t, run.Process.Pid)
	_ = run.Process.Kill()
	written.Store(0)
	run, _ = s.process(args...)
	wait(t, "subgraphs after a start", func() bool { return written.Load() >= int64(n+1000) })
	atRest(t, run.Process.Pid)
}

// process builds and runs the program until the test ends.
func (s *server) process(args ...string) (run *exec.Cmd, log *bytes.Buffer) {
	s.t.Helper()
	program := filepath.Join(s.t.TempDir(), "reckon-operator")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	log = &bytes.Buffer{}
	run = exec.Command(program, args...)
	run.Env, run.Stdout, run.Stderr = append(os.Environ(), "KUBECONFIG="+s.kubeconfig), io.Discard, log
	if err := run.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = run.Process.Kill()
		_ = run.Wait()
	})
	return run, log
}

// atRest logs what a process takes in a minute in which nothing happens.
func atRest(t *testing.T, pid int) {
	t.Helper()
	settle := time.NewTimer(20 * time.Second)
	<-settle.C
	before, at := processorTime(t, pid), time.Now()
	settle.Reset(time.Minute)
	<-settle.C
	cores := (processorTime(t, pid) - before).Seconds() / time.Since(at).Seconds()
	t.Logf("at rest: %.4f cores, %s resident (%s of it pages of the program), peak %s", cores, statusLine(t, pid, "VmRSS"), statusLine(t, pid, "RssFile"), statusLine(t, pid, "VmHWM"))
}

// each calls do for each number, eight at a time.
func each(t *testing.T, n int, do func(int) error) {
	t.Helper()
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := w; i < n; i += 8 {
				if err := do(i); err != nil {
					t.Errorf("%d: %v", i, err)
					return
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	// A list of all sets costs the API server as much as the work that is waited for.
	deadline, tick := time.After(10*time.Minute), time.NewTicker(5*time.Second)
	defer tick.Stop()
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("%s: not within ten minutes", what)
		case <-tick.C:
		}
	}
}

// processorTime is the CPU time of a process, by /proc/PID/stat.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var ticks int64
	for _, f := range fields[11:13] {
		v, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += v
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

func statusLine(t *testing.T, pid int, name string) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"reckon/operator/api/v1alpha2"
	"reckon/operator/jobs"
)

// TestManySets measures the program with OPERATOR_SCALE sets of ten pods each (the goal: 1000) on a real API server. The pods are
// objects without a kubelet, as kwok's are.
func TestManySets(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("OPERATOR_SCALE"))
	if err != nil {
		t.Skip("OPERATOR_SCALE is no number of sets")
	}
	s := startServer(t)
	program := filepath.Join(t.TempDir(), "reckon-operator")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var log bytes.Buffer
	run := exec.Command(program, "--crds", "--health=0")
	run.Env, run.Stdout, run.Stderr = append(os.Environ(), "KUBECONFIG="+s.kubeconfig), io.Discard, &log
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = run.Process.Kill()
		_ = run.Wait()
	}()
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
	wait(t, "pods in the status", func() bool {
		var list v1alpha2.MetricSetList
		if s.c.List(t.Context(), &list, client.InNamespace("default")) != nil {
			return false
		}
		for _, ms := range list.Items {
			if len(ms.Status.Pods) != 10 {
				return false
			}
		}
		return true
	})
	t.Logf("%d pods are in the status after %s", 10*n, time.Since(began).Round(time.Second))
	settle := time.NewTimer(20 * time.Second)
	<-settle.C
	before, at := processorTime(t, run.Process.Pid), time.Now()
	settle.Reset(time.Minute)
	<-settle.C
	cores := (processorTime(t, run.Process.Pid) - before).Seconds() / time.Since(at).Seconds()
	t.Logf("at rest: %.4f cores, %s resident, peak %s", cores, statusLine(t, run.Process.Pid, "VmRSS"), statusLine(t, run.Process.Pid, "VmHWM"))
	if bytes.Contains(log.Bytes(), []byte("level=ERROR")) {
		t.Errorf("%.2000s", log.Bytes())
	}
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
	deadline, tick := time.After(10*time.Minute), time.NewTicker(time.Second)
	defer tick.Stop()
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("%s: not within ten minutes", what)
		case <-tick.C:
		}
	}
}

// processorTime is what a process has used, by /proc/PID/stat.
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

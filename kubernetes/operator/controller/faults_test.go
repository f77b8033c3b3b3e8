package controller

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"reckon/kubernetes/operator/jobs"
)

// TestDrained: the node of a pod is drained in the middle of a run, and the Job makes another pod elsewhere. Samples of both stand in
// the run, each once, and it means that the first did not come to its end.
func TestDrained(t *testing.T) {
	c := newCluster(t, set(t, "a", sidecar))
	c.look("a")
	first := pod("a")
	if err := c.client.Create(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	c.probe.add(10)
	c.until("ten samples", func() bool { return c.look("a").Status.Samples == 10 })
	if err := c.client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	c.look("a")
	c.probe.mu.Lock()
	c.probe.start, c.probe.samples = c.probe.start.Add(time.Minute), nil
	c.probe.mu.Unlock()
	second := pod("a")
	second.Name, second.UID, second.Spec.NodeName, second.ResourceVersion = "a-perf-sysstat-0-0-0-fghij", "pod-a-again", "node1", ""
	if err := c.client.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	c.probe.add(30)
	c.probe.end()
	c.until("the others", func() bool {
		c.look("a")
		return len(c.run(c.look("a")).Pods) == 2 && c.run(c.look("a")).Pods[1].Samples == 30
	})
	c.complete("a", string(jobset.JobSetCompleted))
	run := c.run(c.look("a"))
	if run.Outcome != "Finished" || len(run.Pods) != 2 {
		t.Fatalf("%s with %d pods", run.Outcome, len(run.Pods))
	}
	for i, want := range []struct {
		name, node string
		samples    int64
	}{{first.Name, "node0", 10}, {second.Name, "node1", 30}} {
		if p := run.Pods[i]; p.Name != want.name || p.Node != want.node || p.Samples != want.samples || len(p.Series) != int(want.samples) {
			t.Errorf("pod %d: %s on %s, %d samples, %d rows", i, p.Name, p.Node, p.Samples, len(p.Series))
		}
	}
	if run.Pods[0].Incomplete == "" || run.Pods[1].Incomplete != "" {
		t.Errorf("incomplete: %q and %q", run.Pods[0].Incomplete, run.Pods[1].Incomplete)
	}
}

// TestNamespaceDeleted: a namespace that is being deleted takes no new objects. Its sets show that and are not tried in a loop, and once they
// are gone nothing is left to do; sets of other namespaces do not notice.
func TestNamespaceDeleted(t *testing.T) {
	c := newCluster(t, set(t, "late", sidecar), set(t, "runs", sidecar))
	running := c.look("runs")
	if err := c.client.Create(t.Context(), pod("runs")); err != nil {
		t.Fatal(err)
	}
	c.probe.add(5)
	c.until("five samples", func() bool { return c.look("runs").Status.Samples == 5 })
	terminating := interceptor.NewClient(c.client.(client.WithWatch), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			err := apierrors.NewForbidden(schema.GroupResource{Resource: "jobsets"}, o.GetName(), context.Canceled)
			err.ErrStatus.Message = "unable to create new content in namespace demo because it is being terminated"
			return err
		}})
	kept := c.r.Client
	c.r.Client = terminating
	wantCondition(t, c.look("late"), "Accepted", false, "NotAllowed") // look fails the test where it is to be tried again at once
	c.r.Client = kept
	// The namespace controller deletes what is in it, in any order.
	for _, o := range []client.Object{pod("runs"), running} {
		if err := c.client.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	c.probe.end()
	c.look("runs")
	c.until("nothing is read any more", func() bool { return !c.r.Collect.Reads(client.ObjectKeyFromObject(running)) })
	var pods core.PodList
	if err := c.client.List(t.Context(), &pods); err != nil || len(pods.Items) != 0 {
		t.Errorf("%d pods, %v", len(pods.Items), err)
	}
	if got := c.run(running); got.Pods[0].Samples != 5 || !strings.Contains("Deleted Running", got.Outcome) {
		t.Errorf("the run has %d samples, %s", got.Pods[0].Samples, got.Outcome)
	}
}

// TestCacheBehind: a JobSet that was made a moment ago is not in the cache yet. Its set is not complete.
func TestCacheBehind(t *testing.T) {
	c := newCluster(t, set(t, "a", sidecar))
	c.r.Client = interceptor.NewClient(c.client.(client.WithWatch), interceptor.Funcs{Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if _, ok := o.(*jobset.JobSet); ok {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "jobsets"}, key.Name)
		}
		return w.Get(ctx, key, o, opts...)
	}})
	if ms := c.look("a"); isFinished(ms) {
		t.Errorf("%+v", ms.Status.Conditions)
	}
}

// TestQuota: pods that a quota keeps from being made are a condition that names it, and go away with it. The answers of the API server are
// only in events of the Jobs; those of other sets and of earlier ones of the same name do not count.
func TestQuota(t *testing.T) {
	c := newCluster(t, set(t, "a", sidecar))
	js := &jobset.JobSet{}
	c.look("a")
	if err := c.client.Get(t.Context(), types.NamespacedName{Namespace: "demo", Name: "a"}, js); err != nil {
		t.Fatal(err)
	}
	js.CreationTimestamp = metav1.NewTime(time.Now().Add(-slowStart / 2))
	if err := c.client.Update(t.Context(), js); err != nil {
		t.Fatal(err)
	}
	event := func(name, job, message string, at time.Time) {
		e := &core.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}, InvolvedObject: core.ObjectReference{Kind: "Job", Name: job}, Reason: "FailedCreate", Message: message, LastTimestamp: metav1.NewTime(at)}
		if err := c.client.Create(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	event("other", "b-perf-sysstat-0-0", "Error creating: exceeded quota: other", time.Now())
	event("old", "a-perf-sysstat-0-0", "Error creating: exceeded quota: old", time.Now().Add(-time.Hour))
	wantCondition(t, c.look("a"), "Degraded", false, "AsExpected")
	later := func() { // as ten seconds do
		c.r.refusals.mu.Lock()
		defer c.r.refusals.mu.Unlock()
		clear(c.r.refusals.of)
	}
	event("new", "a-perf-sysstat-0-0", `Error creating: pods "a-perf-sysstat-0-0-0-x" is forbidden: exceeded quota: tight, requested: pods=1, used: pods=2, limited: pods=2`, time.Now())
	wantCondition(t, c.look("a"), "Degraded", false, "AsExpected") // read a moment ago
	later()
	ms := c.look("a")
	wantCondition(t, ms, "Degraded", true, "QuotaExceeded")
	if m := meta.FindStatusCondition(ms.Status.Conditions, "Degraded").Message; !strings.Contains(m, "exceeded quota: tight, requested: pods=1, used: pods=2, limited: pods=2") {
		t.Error(m)
	}
	event("psa", "a-perf-sysstat-0-0", `Error creating: pods "a-perf-sysstat-0-0-0-x" is forbidden: violates PodSecurity "restricted:latest"`, time.Now().Add(time.Second))
	later()
	wantCondition(t, c.look("a"), "Degraded", true, "NotAllowed")
	if err := c.client.Create(t.Context(), pod("a")); err != nil {
		t.Fatal(err)
	}
	wantCondition(t, c.look("a"), "Degraded", false, "AsExpected")
}

// TestClocksApart: the clock of a node is a minute behind or before that of the operator. Samples are distinguished by their number and keep
// the times of their node; none is lost, and the run ends.
func TestClocksApart(t *testing.T) {
	for _, apart := range []time.Duration{-time.Minute, time.Minute} {
		t.Run(apart.String(), func(t *testing.T) {
			c := newCluster(t, set(t, "a", sidecar))
			c.look("a")
			c.probe.start = c.probe.start.Add(apart)
			if err := c.client.Create(t.Context(), pod("a")); err != nil {
				t.Fatal(err)
			}
			c.probe.add(15)
			c.until("half of the samples", func() bool { return c.look("a").Status.Samples == 15 })
			c.operator() // another one, whose clock the samples do not know either
			c.probe.add(15)
			c.probe.end()
			c.until("all samples", func() bool { return c.look("a").Status.Samples == 30 })
			c.complete("a", string(jobset.JobSetCompleted))
			p := c.run(c.look("a")).Pods[0]
			if p.Samples != 30 || len(p.Series) != 30 || p.Incomplete != "" || math.Abs(p.Total["cpu_seconds"]-9) > 1e-9 {
				t.Fatalf("%d samples, %d rows, %g s, incomplete %q", p.Samples, len(p.Series), p.Total["cpu_seconds"], p.Incomplete)
			}
			if got, want := p.Series[29].To.Time, c.probe.start.Add(30*time.Second); !got.Equal(want.Truncate(time.Microsecond)) {
				t.Errorf("the last sample is of %s, on its node it was %s", got, want)
			}
		})
	}
}

// TestAfterTheEnd: an operator that comes when a pod has ended has the times of the kubelet, the result that the probe left in the status of its
// container, and how many samples nobody read.
func TestAfterTheEnd(t *testing.T) {
	c := newCluster(t, set(t, "a", "{name: io-probe, addons: [{name: volume-empty, options: {name: d, path: /d}}]}"))
	c.look("a")
	began, ended := metav1.NewTime(time.Now().Add(-time.Minute).Truncate(time.Second)), metav1.NewTime(time.Now().Add(-40*time.Second).Truncate(time.Second))
	p := pod("a")
	p.Labels[jobs.LabelMetric] = "io-probe-0"
	p.Spec.InitContainers, p.Status.InitContainerStatuses = nil, nil
	p.Spec.Containers = []core.Container{{Name: "storage", Ports: []core.ContainerPort{{Name: "probe", ContainerPort: 9878}}}}
	p.Status.Phase = core.PodSucceeded
	p.Status.ContainerStatuses = []core.ContainerStatus{{Name: "storage", State: core.ContainerState{Terminated: &core.ContainerStateTerminated{StartedAt: began, FinishedAt: ended,
		Message: `{"start":"2026-01-01T00:00:00Z","kernel":"6.1","rate_seconds":1,"wanted":5,"ended":true,"reason":"completions","samples":[],"last":5,"result":{"metric":"io-probe","from":"2026-01-01T00:00:00Z","to":"2026-01-01T00:00:05Z","figures":{"write_bytes_per_second":17}}}`}}}}
	if err := c.client.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	c.complete("a", string(jobset.JobSetCompleted))
	run := c.run(c.look("a"))
	if !run.Started.Equal(&began) || !run.Finished.Equal(&ended) {
		t.Errorf("from %v to %v, the pod ran from %v to %v", run.Started, run.Finished, began, ended)
	}
	have := run.Pods[0]
	if !strings.Contains(have.Result, `"write_bytes_per_second":17`) || have.Kernel != "6.1" || !strings.HasPrefix(have.Incomplete, "5 of 5 samples") {
		t.Errorf("%+v", have)
	}
}

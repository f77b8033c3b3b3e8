package controller

import (
	"context"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// TestDrained: the node of a pod is drained in the middle of a run, and the Job makes another pod elsewhere. Samples of both stand in
// the run, each once, and it says that the first did not come to its end.
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

// TestNamespaceDeleted: a namespace that is being deleted takes no new objects. Its sets say so and are not tried in a loop, and once they
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
	if ms := c.look("a"); finished(ms) {
		t.Errorf("%+v", ms.Status.Conditions)
	}
}

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestBedQuota: a quota of pods, and PodSecurity, are named in the condition within half a minute, and the set goes on when they are lifted.
func TestBedQuota(t *testing.T) {
	b := onBed(t)
	for name, c := range map[string]struct {
		labels       map[string]string
		quota        string
		reason, want string
	}{
		"quota":    {nil, "1", "QuotaExceeded", "exceeded quota: tight"},
		"security": {map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}, "", "NotAllowed", `violates PodSecurity "restricted`},
	} {
		t.Run(name, func(t *testing.T) {
			b := &bed{t, b.c}
			ns := &core.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "refused-", Labels: c.labels}}
			if err := b.c.Create(t.Context(), ns); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = b.c.Delete(context.Background(), ns) })
			quota := &core.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "tight"}, Spec: core.ResourceQuotaSpec{Hard: core.ResourceList{core.ResourcePods: resource.MustParse("1")}}}
			if c.quota != "" {
				if err := b.c.Create(t.Context(), quota); err != nil {
					t.Fatal(err)
				}
			}
			u := object(t, `
apiVersion: flux-framework.org/v1alpha2
kind: MetricSet
metadata: {name: wide}
spec: {pods: 2, metrics: [{name: perf-sysstat, options: {attach: sidecar, rate: 1}, addons: [{name: application, options: {image: "k8sbed.local/busybox:1", command: sleep 5}}]}]}
`)
			u.SetNamespace(ns.Name)
			b.until("the set is taken", time.Minute, func() bool { return b.c.Create(t.Context(), u) == nil })
			key, condition := types.NamespacedName{Namespace: ns.Name, Name: "wide"}, func() *metav1.Condition {
				return meta.FindStatusCondition(b.set(types.NamespacedName{Namespace: ns.Name, Name: "wide"}).Status.Conditions, "Degraded")
			}
			took := b.until(c.reason, 30*time.Second, func() bool {
				d := condition()
				return d != nil && d.Reason == c.reason && strings.Contains(d.Message, c.want)
			})
			t.Logf("%s after %.0f s: %s", c.reason, took.Seconds(), condition().Message)
			if c.quota != "" {
				raised := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"hard":{"pods":"5"}}}`))
				if err := b.c.Patch(t.Context(), quota, raised); err != nil {
					t.Fatal(err)
				}
			} else {
				allowed := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`))
				if err := b.c.Patch(t.Context(), ns, allowed); err != nil {
					t.Fatal(err)
				}
			}
			run := b.run(key, 4*time.Minute) // the Job controller waits longer from time to time
			if d := condition(); run.Outcome != "Finished" || len(run.Pods) != 2 || d.Status != metav1.ConditionFalse {
				t.Errorf("afterwards: %s, %d pods, %+v", run.Outcome, len(run.Pods), d)
			}
		})
	}
}

package main

import (
	"reflect"
	"testing"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"reckon/kubernetes/operator/api/v1alpha2"
	"reckon/kubernetes/operator/jobs"
)

// TestSlim: what the cache keeps of a pod is what the operator looks at; a MetricSet, which is written back, is whole.
func TestSlim(t *testing.T) {
	managed := []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	port := []core.ContainerPort{{Name: "probe", ContainerPort: 9878}}
	running := core.ContainerState{Running: &core.ContainerStateRunning{}}
	unschedulable := core.PodCondition{Type: core.PodScheduled, Status: core.ConditionFalse, Reason: "Unschedulable"}
	p := &core.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "demo", UID: "u", ResourceVersion: "7", ManagedFields: managed, Annotations: map[string]string{"x": "y"},
			Labels: map[string]string{jobs.LabelManaged: jobs.Manager, jobs.LabelSet: "s", jobs.LabelMetric: "m-0", "other": "z"}},
		Spec: core.PodSpec{NodeName: "n0", Volumes: []core.Volume{{Name: "v"}}, InitContainers: []core.Container{{Name: "reckon-probe", Ports: port, Args: []string{"probe"}}},
			Containers: []core.Container{{Name: "app", Image: "i", Env: []core.EnvVar{{Name: "X"}}}}},
		Status: core.PodStatus{Phase: core.PodPending, PodIP: "10.0.0.1", Conditions: []core.PodCondition{{Type: core.PodReady, Status: core.ConditionFalse}, unschedulable},
			ContainerStatuses: []core.ContainerStatus{{Name: "app", Image: "i", ImageID: "sha256:a", State: running, Ready: true}}},
	}
	want := &core.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "demo", UID: "u", ResourceVersion: "7", Labels: map[string]string{jobs.LabelManaged: jobs.Manager, jobs.LabelSet: "s", jobs.LabelMetric: "m-0"}},
		Spec:       core.PodSpec{NodeName: "n0", InitContainers: []core.Container{{Name: "reckon-probe", Ports: port}}, Containers: []core.Container{{Name: "app"}}},
		Status: core.PodStatus{Phase: core.PodPending, PodIP: "10.0.0.1", Conditions: []core.PodCondition{unschedulable},
			ContainerStatuses: []core.ContainerStatus{{Name: "app", Image: "i", ImageID: "sha256:a", State: running}}},
	}
	if got, err := slimObject(p); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%+v\nwant\n%+v", err, got, want)
	}
	js := &jobset.JobSet{ObjectMeta: metav1.ObjectMeta{Name: "s", ManagedFields: managed}, Spec: jobset.JobSetSpec{ReplicatedJobs: make([]jobset.ReplicatedJob, 2)}, Status: jobset.JobSetStatus{Restarts: 1}}
	if _, err := slimObject(js); err != nil || js.Name != "s" || js.Status.Restarts != 1 || js.Spec.ReplicatedJobs != nil ||
		js.ManagedFields != nil {
		t.Errorf("%v %+v", err, js)
	}
	pods := int32(3)
	ms := &v1alpha2.MetricSet{ObjectMeta: metav1.ObjectMeta{Name: "s", ManagedFields: managed, Annotations: map[string]string{"x": "y"}}, Spec: v1alpha2.MetricSetSpec{Pods: &pods}}
	if _, err := slimObject(ms); err != nil || ms.ManagedFields != nil || ms.Annotations["x"] != "y" || ms.Spec.Pods == nil {
		t.Errorf("%v %+v", err, ms)
	}
}

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	"reckon/kubernetes/operator/chart"
)

type request struct{ path, token, owner, body string }

// graphServer takes subgraphs.
func graphServer(t *testing.T) (address string, got <-chan request) {
	t.Helper()
	out := make(chan request, 1000)
	graph := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, "{}")
			return
		}
		body, _ := io.ReadAll(r.Body)
		select {
		case out <- request{r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("Reckon-Owner"), string(body)}:
		default:
		}
	}))
	t.Cleanup(graph.Close)
	return graph.URL, out
}

// TestGraph holds that the program describes the cluster where --graph reports, with the token and the links of its options.
func TestGraph(t *testing.T) {
	s := startServer(t)
	graph, got := graphServer(t)
	s.operator("--graph="+graph, "--graph-site=edge", "--graph-url=https://reckon.example")
	if err := s.c.Create(t.Context(), &core.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(2 * time.Minute)
	for {
		select {
		case r := <-got:
			if r.path != "/subgraph/urn:reckon:site/edge/kubernetes/node/n1" {
				continue
			}
			if r.owner != "*" || r.token != "" || !strings.Contains(r.body, `"https://reckon.example"`) || !strings.Contains(r.body, `{node=\"n1\",site=\"edge\"}`) {
				t.Errorf("%+v", r)
			}
			return
		case <-deadline:
			t.Fatal("the node was not described")
		}
	}
}

// TestGraphOnly holds that the program describes all kinds with no other rights than the chart gives it, in a cluster without definitions
// of MetricSets.
func TestGraphOnly(t *testing.T) {
	s := startServer(t)
	graph, got := graphServer(t)
	c, err := chart.Load("../../../../deploy/helm/reckon")
	if err != nil {
		t.Fatal(err)
	}
	objects, _, err := (&chart.Release{Name: "reckon", Namespace: "reckon", Kubernetes: "v1.34.4", Values: map[string]any{}}).Render(c)
	if err != nil {
		t.Fatal(err)
	}
	role := &rbac.ClusterRole{}
	for _, o := range objects {
		if o.Kind() == "ClusterRole" && o.Name() == "reckon-graph" {
			raw, err := yaml.Marshal(o)
			if err == nil {
				err = yaml.Unmarshal(raw, role)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	template := core.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: core.PodSpec{RestartPolicy: core.RestartPolicyNever,
		Containers: []core.Container{{Name: "c", Image: "i", Resources: core.ResourceRequirements{Requests: core.ResourceList{core.ResourceCPU: resource.MustParse("250m")}}}}}}
	job := batch.JobSpec{Template: template}
	at := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "default"} }
	for _, o := range []client.Object{role,
		&rbac.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "reckon-graph"}, RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "reckon-graph"},
			Subjects: []rbac.Subject{{Kind: rbac.UserKind, APIGroup: rbac.GroupName, Name: "describer"}}},
		&core.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, &core.Pod{ObjectMeta: at("p1"), Spec: template.Spec},
		&batch.CronJob{ObjectMeta: at("c1"), Spec: batch.CronJobSpec{Schedule: "0 0 1 1 *", JobTemplate: batch.JobTemplateSpec{Spec: job}}},
		&jobset.JobSet{ObjectMeta: at("s1"), Spec: jobset.JobSetSpec{ReplicatedJobs: []jobset.ReplicatedJob{
			{Name: "a", Replicas: 1, Template: batch.JobTemplateSpec{Spec: job}}, {Name: "b", Replicas: 1, Template: batch.JobTemplateSpec{Spec: job}}}}},
	} {
		if err := s.c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	config, err := clientcmd.LoadFromFile(s.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.AuthInfos["a"].Impersonate = "describer"
	s.kubeconfig = filepath.Join(t.TempDir(), "describer")
	if err := clientcmd.WriteToFile(*config, s.kubeconfig); err != nil {
		t.Fatal(err)
	}
	s.operator("--graph-only", "--graph="+graph, "--graph-site=edge")
	want := map[string]string{"node/n1": "Node", "pod/default/p1/": `"2.5E-1"`, "cronjob/default/c1/": `"2.5E-1"`, "jobset/default/s1/": `"5.0E-1"`}
	deadline := time.After(2 * time.Minute)
	for len(want) > 0 {
		select {
		case r := <-got:
			for begin, text := range want {
				if !strings.HasPrefix(r.path, "/subgraph/urn:reckon:site/edge/kubernetes/"+begin) {
					continue
				}
				if !strings.Contains(r.body, text) {
					t.Errorf("%s lacks %s:\n%s", begin, text, r.body)
				}
				delete(want, begin)
			}
		case <-deadline:
			t.Fatalf("not described: %v", want)
		}
	}
}

// TestUnscheduled holds that a pod without a node is reported as a sample with the scheduler's reason, also after a restart of the
// program. Once the pod is gone its series is marked as ended.
func TestUnscheduled(t *testing.T) {
	s := startServer(t)
	graph, got := graphServer(t)
	pod := &core.Pod{ObjectMeta: metav1.ObjectMeta{Name: "big", Namespace: "default"}, Spec: core.PodSpec{Containers: []core.Container{{Name: "c", Image: "i"}}}}
	if err := s.c.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	pod.Status.Conditions = []core.PodCondition{{Type: core.PodScheduled, Status: core.ConditionFalse, Reason: core.PodReasonUnschedulable,
		Message: "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 No preemption victims found."}}
	if err := s.c.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	created, stale := fmt.Sprintf(`"asDouble":%d`, pod.CreationTimestamp.Unix()), `"flags":1`
	await := func(value string) {
		t.Helper()
		for deadline := time.After(2 * time.Minute); ; {
			select {
			case r := <-got:
				if r.path != "/v1/metrics" {
					continue
				}
				for _, text := range []string{"reckon_pod_unscheduled_since_seconds", "pod/default/big", "default", "edge", string(pod.UID), "Unschedulable",
					"0/3 nodes are available: 3 Insufficient cpu"} {
					if !strings.Contains(r.body, text) {
						t.Errorf("the request lacks %q: %q", text, r.body)
					}
				}
				if strings.Contains(r.body, "preemption") {
					t.Errorf("the request has the preemption: %q", r.body)
				}
				if strings.Contains(r.body, value) {
					return
				}
			case <-deadline:
				t.Fatalf("no request with %s", value)
			}
		}
	}
	stop := s.operator("--graph-only", "--graph="+graph, "--graph-site=edge")
	await(created)
	if err := stop(); err != nil {
		t.Error(err)
	}
	s.operator("--graph-only", "--graph="+graph, "--graph-site=edge")
	await(created)
	if err := s.c.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	await(stale)
}

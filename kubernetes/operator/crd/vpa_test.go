package crd

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// autoscaler is the module whose definition of the VerticalPodAutoscaler a cluster has.
const autoscaler = "k8s.io/autoscaler/vertical-pod-autoscaler@v1.4.1"

// TestVPAIsApplied: an API server with the definition takes the output of `reckon rightsize --format vpa` by strict validation. It keeps
// the advice in spec, where the recommender reads it. It updates no pod.
func TestVPAIsApplied(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS names no folder with etcd and kube-apiserver: make e2e-operator")
	}
	out, err := exec.Command("go", "mod", "download", "-json", autoscaler).Output()
	var module struct{ Dir string }
	if err != nil || json.Unmarshal(out, &module) != nil || module.Dir == "" {
		t.Skipf("%s is not to be had: %v", autoscaler, err)
	}
	env := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join(module.Dir, "deploy/vpa-v1-crd-gen.yaml")}, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: 3 * time.Minute, ControlPlaneStopTimeout: time.Minute}
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	strict := client.WithFieldValidation(c, "Strict")
	written, err := os.ReadFile("testdata/vpa.json") // the output, held by the tests of package rightsize
	if err != nil {
		t.Fatal(err)
	}
	texts := strings.Split(strings.TrimSpace(string(written)), "\n")
	for i, k := range []struct{ kind, target string }{{"deployment", "Deployment"}, {"statefulset", "StatefulSet"}, {"daemonset", "DaemonSet"}} {
		text := texts[i]
		o := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(text), o); err != nil {
			t.Fatal(err)
		}
		// What kubectl apply --server-side does, with --validate=strict.
		if err := strict.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("kubectl"), client.ForceOwnership); err != nil {
			t.Fatalf("%s: %v\n%s", k.kind, err, text)
		}
		got := &unstructured.Unstructured{}
		got.SetGroupVersionKind(o.GroupVersionKind())
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: k.kind + "-cart"}, got); err != nil {
			t.Fatal(err)
		}
		at := func(path ...string) string { s, _, _ := unstructured.NestedString(got.Object, path...); return s }
		policies, _, _ := unstructured.NestedSlice(got.Object, "spec", "resourcePolicy", "containerPolicies")
		if at("spec", "updatePolicy", "updateMode") != "Off" || at("spec", "targetRef", "kind") != k.target || len(policies) != 2 {
			t.Fatalf("%s: %v", k.kind, got.Object)
		}
		if _, ok, _ := unstructured.NestedMap(got.Object, "status"); ok {
			t.Errorf("%s has a status", k.kind)
		}
		for i, want := range []map[string]any{{"cpu": "250m", "memory": "300Mi"}, {"memory": "300Mi"}} {
			for _, bound := range []string{"minAllowed", "maxAllowed"} {
				have, _ := policies[i].(map[string]any)[bound].(map[string]any)
				if len(have) != len(want) || have["cpu"] != want["cpu"] || have["memory"] != want["memory"] {
					t.Errorf("%s: %s of container %d is %v, want %v", k.kind, bound, i, have, want)
				}
			}
		}
	}
	// A field that the definition does not have is refused, so that the test would see one.
	bad := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(texts[0]), bad); err != nil {
		t.Fatal(err)
	}
	bad.SetName("bad")
	if err := unstructured.SetNestedField(bad.Object, "x", "spec", "recommendation"); err != nil {
		t.Fatal(err)
	}
	if err := strict.Create(t.Context(), bad); err == nil {
		t.Error("a field that there is not was taken")
	}
}

package chart

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	registration "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const logs = "operator: {enabled: true, logs: {enabled: true, image: example.org/otelcol:1, endpoint: 'http://loki:3100/otlp'}}"

// TestOperatorGraph: the cluster is described where that is asked for, with the rights for it, a token of its own and an account that the
// server lets in.
func TestOperatorGraph(t *testing.T) {
	objects := rendered(t, "{site: lab, operator: {enabled: true, graph: true}}")
	pod := get[appsv1.Deployment](t, objects, "Deployment", "reckon-operator").Spec.Template.Spec
	for _, arg := range []string{"--graph=https://reckon.reckon.svc:9870", "--graph-site=lab", "--graph-token-file=/var/run/secrets/reckon/token", "--graph-ca-file=/etc/reckon/ca/ca.crt"} {
		if !slices.Contains(pod.Containers[0].Args, arg) {
			t.Errorf("%s is missing in %v", arg, pod.Containers[0].Args)
		}
	}
	if len(pod.Volumes) != 2 || len(pod.Containers[0].VolumeMounts) != 2 || pod.Volumes[0].Projected.Sources[0].ServiceAccountToken.Audience != "reckon" {
		t.Errorf("%+v", pod.Volumes)
	}
	role := get[rbacv1.ClusterRole](t, objects, "ClusterRole", "reckon-operator")
	if !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
		return slices.Equal(r.Resources, []string{"jobs", "cronjobs"}) && slices.Equal(r.Verbs, []string{"list", "watch"})
	}) {
		t.Error("the operator may not read Jobs")
	}
	accounts := get[corev1.ConfigMap](t, objects, "ConfigMap", "reckon").Data["kubernetes.yaml"]
	if !strings.Contains(accounts, "describers: [reckon/reckon-operator]") {
		t.Error(accounts)
	}
	if without := get[corev1.ConfigMap](t, rendered(t, "{graph: {enabled: false}, operator: {enabled: true}}"), "ConfigMap", "reckon").Data["kubernetes.yaml"]; strings.Contains(without, "describers") {
		t.Error(without)
	}
	// By default a program of its own does it, and the operator where it is there.
	alone := rendered(t, "{site: lab, logs: {loki: {url: 'http://loki:3100'}}}")
	args := get[appsv1.Deployment](t, alone, "Deployment", "reckon-graph").Spec.Template.Spec.Containers[0].Args
	for _, arg := range []string{"--graph-only", "--graph=https://reckon.reckon.svc:9870", "--graph-loki=http://loki:3100", "--graph-site=lab",
		"--graph-token-file=/var/run/secrets/reckon/token"} {
		if !slices.Contains(args, arg) {
			t.Errorf("%s is missing in %v", arg, args)
		}
	}
	if all := rendered(t, "operator: {enabled: true}"); slices.Contains(has(all, "Deployment"), "reckon-graph") ||
		!slices.Contains(get[appsv1.Deployment](t, all, "Deployment", "reckon-operator").Spec.Template.Spec.Containers[0].Args, "--graph=https://reckon.reckon.svc:9870") {
		t.Error("two programs describe the cluster, or none")
	}
	if _, _, err := render(t, "{operator: {enabled: true, graph: true}, server: {enabled: false}, agent: {metrics: {enabled: true}}}"); err == nil || !strings.Contains(err.Error(), "operator.graph") {
		t.Errorf("a graph without a server: %v", err)
	}
}

// TestOperatorObjects: the operator is there when it is asked for, with objects that have only fields which
// Kubernetes has, and the definitions are the files of kubernetes/operator/crd.
func TestOperatorObjects(t *testing.T) {
	without, with := rendered(t, ""), rendered(t, logs)
	if len(with) != len(without)+7 {
		t.Errorf("%d objects more", len(with)-len(without))
	}
	for _, name := range []string{"metricsets", "metricruns"} {
		ours, err := os.ReadFile("../crd/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		charts, err := os.ReadFile(filepath.Join(dir, "files", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(ours, charts) {
			t.Errorf("the chart has another %s.yaml: cp kubernetes/operator/crd/*.yaml deploy/helm/reckon/files/", name)
		}
	}
	for _, name := range []string{"metricsets.flux-framework.org", "metricruns.metrics.reckon"} { // people's results go with their definitions
		if d := get[apiextensions.CustomResourceDefinition](t, with, "CustomResourceDefinition", name); d.Annotations["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s goes with the release: %v", name, d.Annotations)
		}
	}
	pod := get[appsv1.Deployment](t, with, "Deployment", "reckon-operator").Spec.Template.Spec
	c := pod.Containers[0]
	if s := c.SecurityContext; !*pod.SecurityContext.RunAsNonRoot || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || fmt.Sprint(s.Capabilities.Drop) != "[ALL]" || pod.SecurityContext.SeccompProfile.Type != "RuntimeDefault" {
		t.Errorf("not restricted: %+v %+v", pod.SecurityContext, s)
	}
	for _, arg := range []string{"--server=https://reckon.reckon.svc:9870", "--server-token-file=/var/run/secrets/reckon/token", "--server-ca=/etc/reckon/ca/ca.crt", "--webhooks", "--logs-image=example.org/otelcol:1", "--own-namespace=reckon"} {
		if !slices.Contains(c.Args, arg) {
			t.Errorf("%s is missing in %v", arg, c.Args)
		}
	}
	// The server lets the operator keep runs, and nobody else; the operator reaches it where a policy stands before it.
	if text := get[corev1.ConfigMap](t, with, "ConfigMap", "reckon").Data["kubernetes.yaml"]; !strings.Contains(text, "runs: [reckon/reckon-operator]") {
		t.Errorf("accounts %s", text)
	}
	if text := get[corev1.ConfigMap](t, without, "ConfigMap", "reckon").Data["kubernetes.yaml"]; strings.Contains(text, "runs:") {
		t.Errorf("accounts without an operator %s", text)
	}
	policy := get[networking.NetworkPolicy](t, rendered(t, "{operator: {enabled: true}, networkPolicy: {enabled: true}}"), "NetworkPolicy", "reckon")
	if from := policy.Spec.Ingress[0].From; len(from) != 2 || from[1].PodSelector.MatchLabels["app.kubernetes.io/component"] != "operator" {
		t.Errorf("who reaches the server: %+v", from)
	}
	if _, _, err := render(t, "operator: {enabled: true, logs: {enabled: true}}"); err == nil || !strings.Contains(err.Error(), "operator.logs.image") {
		t.Errorf("a collector without an image: %v", err)
	}
	if objects := rendered(t, "{operator: {enabled: true, crds: false}, server: {enabled: false}, agent: {metrics: {enabled: true}}}"); slices.Contains(has(objects, "CustomResourceDefinition"), "metricsets.flux-framework.org") ||
		strings.Contains(strings.Join(get[appsv1.Deployment](t, objects, "Deployment", "reckon-operator").Spec.Template.Spec.Containers[0].Args, " "), "--server") {
		t.Error("definitions or a server that were not asked for")
	}
}

// TestOperatorRights: no secrets, no exec, ephemeral containers and the whole cluster only where that is
// chosen.
func TestOperatorRights(t *testing.T) {
	rights := func(rules []rbacv1.PolicyRule) (out []string) {
		for _, r := range rules {
			for _, resource := range r.Resources {
				out = append(out, resource+" "+strings.Join(r.Verbs, ","))
			}
		}
		return out
	}
	all := get[rbacv1.ClusterRole](t, rendered(t, "{graph: {enabled: false}, "+logs+"}"), "ClusterRole", "reckon-operator")
	want := []string{"metricsets get,list,watch", "metricsets/status update", "metricsets/finalizers update", "metricruns get,list,create,update", "jobsets get,list,watch,create",
		"pods get,list,watch", "pods/log get", "services get,create,update", "configmaps get,create", "persistentvolumeclaims get", "events list", "events create,patch"}
	if got := rights(all.Rules); !slices.Equal(got, want) {
		t.Errorf("the operator may\n%s", strings.Join(got, "\n"))
	}
	objects := rendered(t, "operator: {enabled: true, namespace: bench, ephemeral: true, nodeSelector: {pool: system}, tolerations: [{operator: Exists}]}")
	one := get[rbacv1.Role](t, objects, "Role", "reckon-operator")
	if one.Namespace != "bench" || !slices.Contains(rights(one.Rules), "pods/ephemeralcontainers update") || slices.Contains(has(objects, "ClusterRole"), "reckon-operator") {
		t.Errorf("role of one namespace: %+v", one)
	}
	if spec := get[appsv1.Deployment](t, objects, "Deployment", "reckon-operator").Spec.Template.Spec; spec.NodeSelector["pool"] != "system" || len(spec.Tolerations) != 1 {
		t.Errorf("it runs on nodes with %v, %v", spec.NodeSelector, spec.Tolerations)
	}
	cluster := get[rbacv1.ClusterRole](t, objects, "ClusterRole", "reckon-operator-cluster")
	for _, r := range cluster.Rules {
		if len(r.ResourceNames) == 0 || slices.Contains(r.Verbs, "create") || slices.Contains(r.Verbs, "list") {
			t.Errorf("in the whole cluster: %+v", r)
		}
	}
}

// TestOperatorWebhooks: nothing waits for them, and no pod of the operator's own namespace passes them.
func TestOperatorWebhooks(t *testing.T) {
	objects := rendered(t, logs)
	mutating := get[registration.MutatingWebhookConfiguration](t, objects, "MutatingWebhookConfiguration", "reckon-operator")
	if len(mutating.Webhooks) != 2 {
		t.Fatalf("%d webhooks", len(mutating.Webhooks))
	}
	for _, w := range mutating.Webhooks {
		if *w.FailurePolicy != registration.Ignore {
			t.Errorf("%s fails", w.Name)
		}
	}
	pods := mutating.Webhooks[1]
	if e := pods.NamespaceSelector.MatchExpressions[0]; e.Operator != "NotIn" || e.Values[0] != "reckon" || len(pods.MatchConditions) != 1 {
		t.Errorf("selector %+v", pods.NamespaceSelector)
	}
	if w := get[registration.MutatingWebhookConfiguration](t, rendered(t, "operator: {enabled: true}"), "MutatingWebhookConfiguration", "reckon-operator"); len(w.Webhooks) != 1 {
		t.Error("pods are changed though nobody asked for logs")
	}
	get[registration.ValidatingWebhookConfiguration](t, objects, "ValidatingWebhookConfiguration", "reckon-operator")
}

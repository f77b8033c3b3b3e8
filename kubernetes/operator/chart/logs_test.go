package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// TestLogs: who may read logs, and what the server and the collector are reported. By default nobody reads any.
func TestLogs(t *testing.T) {
	server := func(objects []Object) []string {
		return get[appsv1.StatefulSet](t, objects, "StatefulSet", "reckon").Spec.Template.Spec.Containers[0].Args
	}
	for _, a := range server(rendered(t, "")) {
		if strings.Contains(a, "loki") || strings.Contains(a, "logs") {
			t.Errorf("by default: %s", a)
		}
	}
	if args := server(rendered(t, "logs: {loki: {url: 'http://loki:3100'}}")); !slices.Contains(args, "--set=loki=http://loki:3100") || strings.Contains(fmt.Sprint(args), "selector") {
		t.Errorf("with a Loki that has its own labels: %s", args)
	}
	if args := server(rendered(t, "logs: {loki: {url: 'http://loki:3100', selector: '{a=\"{{.Pods}}\"}'}, collector: {enabled: true}}")); !slices.Contains(args, `--set=loki-selector={a="{{.Pods}}"}`) {
		t.Errorf("with a selector: %s", args)
	}
	objects := rendered(t, "logs: {loki: {url: 'http://loki:3100/'}, pods: true, collector: {enabled: true, image: 'x:1'}}")
	if args := server(objects); !slices.Contains(args, "--set=pod-logs=true") || !slices.Contains(args, `--set=loki-selector={k8s_namespace_name="{{.Namespace}}",k8s_pod_name=~"{{.Pods}}"}`) {
		t.Errorf("with the collector: %s", args)
	}
	role := get[rbacv1.ClusterRole](t, objects, "ClusterRole", "reckon-pod-logs")
	if got := fmt.Sprint(role.Rules); got != fmt.Sprint([]rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}}}) {
		t.Errorf("the server may %s", got)
	}
	role = get[rbacv1.ClusterRole](t, objects, "ClusterRole", "reckon-logs")
	for _, r := range role.Rules {
		if fmt.Sprint(r.Verbs) != "[get list watch]" || slices.Contains(r.Resources, "secrets") || slices.Contains(r.Resources, "*") {
			t.Errorf("the collector may %+v", r)
		}
	}
	pod := get[appsv1.DaemonSet](t, objects, "DaemonSet", "reckon-logs").Spec.Template.Spec
	s := pod.Containers[0].SecurityContext
	if pod.HostPID || pod.HostNetwork || *s.Privileged || !*s.ReadOnlyRootFilesystem || fmt.Sprint(s.Capabilities.Drop, s.Capabilities.Add) != "[ALL] []" {
		t.Errorf("the collector runs with %+v", s)
	}
	for _, m := range pod.Containers[0].VolumeMounts {
		if m.Name != "state" && !m.ReadOnly {
			t.Errorf("%s is writable", m.Name)
		}
	}
	var config struct {
		Receivers struct {
			Filelog struct {
				Exclude   []string
				Storage   string
				Operators []struct{ Type string }
			}
		}
		Exporters struct {
			Otlphttp struct{ Endpoint string }
		}
	}
	text := get[corev1.ConfigMap](t, objects, "ConfigMap", "reckon-logs").Data["collector.yaml"]
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	f := config.Receivers.Filelog
	if config.Exporters.Otlphttp.Endpoint != "http://loki:3100/otlp" || f.Storage != "file_storage" || len(f.Operators) != 1 || f.Operators[0].Type != "container" ||
		!slices.Contains(f.Exclude, "/var/log/pods/reckon_reckon-logs-*_*/*/*") {
		t.Errorf("%+v", config)
	}
}

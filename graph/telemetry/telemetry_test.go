package telemetry_test

import (
	"testing"

	"reckon/graph/telemetry"
)

// TestLogs: the query of logs has the labels of the selector by which the server asks the same store.
func TestLogs(t *testing.T) {
	const service, bare = `namespace="shop",pod=~"cart-.*"`, `namespace="shop",pod="pod=1"`
	for template, want := range map[string][2]string{
		"": {"{" + service + "}", "{" + bare + "}"},
		`{k8s_namespace_name="{{.Namespace}}",k8s_pod_name=~"{{.Pods}}"}`: {`{k8s_namespace_name="shop",k8s_pod_name=~"cart-.*"}`, `{k8s_namespace_name="shop",k8s_pod_name="pod=1"}`},
		`{ns = "{{ .Namespace }}", app="x"}`:                              {`{ns="shop",pod=~"cart-.*"}`, `{ns="shop",pod="pod=1"}`},
	} {
		l := telemetry.Links{Loki: "http://loki:3100", LogSelector: template}
		if a, b := l.Logs(service), l.Logs(bare); a.Query != want[0] || b.Query != want[1] {
			t.Errorf("%s: %s and %s, want %v", template, a.Query, b.Query, want)
		}
	}
}

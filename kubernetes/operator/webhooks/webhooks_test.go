package webhooks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	admission "k8s.io/api/admission/v1"
	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	admissionhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"
)

func request(t *testing.T, object, old string) admissionhook.Request {
	t.Helper()
	req := admissionhook.Request{AdmissionRequest: admission.AdmissionRequest{Operation: admission.Create, Namespace: "demo"}}
	raw, err := yaml.YAMLToJSON([]byte(object))
	if err != nil {
		t.Fatal(err)
	}
	req.Object = runtime.RawExtension{Raw: raw}
	if old != "" {
		if raw, err = yaml.YAMLToJSON([]byte(old)); err != nil {
			t.Fatal(err)
		}
		req.Operation, req.OldObject = admission.Update, runtime.RawExtension{Raw: raw}
	}
	return req
}

const good = "metadata: {name: a}\nspec: {metrics: [{name: sys-hwloc}]}\n"

func TestValidate(t *testing.T) {
	running := good + "status: {specHash: x}\n"
	for name, c := range map[string]struct{ object, old, want string }{
		"right":                      {good, "", ""},
		"wrong":                      {"metadata: {name: a}\nspec: {metrics: [{name: perf-top}]}\n", "", "spec.metrics[0].name: there is no metric"},
		"a label of one that runs":   {"metadata: {name: a, labels: {b: c}}\nspec: {metrics: [{name: sys-hwloc}]}\n", running, ""},
		"the spec of one that runs":  {"metadata: {name: a}\nspec: {pods: 2, metrics: [{name: sys-hwloc}]}\n", running, "cannot change; delete the set"},
		"the spec of one that waits": {"metadata: {name: a}\nspec: {pods: 2, metrics: [{name: sys-hwloc}]}\n", good, ""},
	} {
		r := handleValidate(t.Context(), request(t, c.object, c.old))
		if r.Allowed != (c.want == "") || c.want != "" && !strings.Contains(r.Result.Message, c.want) {
			t.Errorf("%s: %v, %+v", name, r.Allowed, r.Result)
		}
	}
	r := handleValidate(t.Context(), request(t, "metadata: {name: a}\nspec: {metrics: [{name: perf-sysstat, options: {color: 'true'}, addons: [{name: application, options: {image: a, command: b}}]}]}", ""))
	if !r.Allowed || len(r.Warnings) != 1 {
		t.Errorf("%+v", r)
	}
}

func TestConvert(t *testing.T) {
	r := handleConvert(t.Context(), request(t, "metadata: {name: a}\nspec: {application: {image: ubuntu, command: sleep 10}, metrics: [{name: perf-sysstat, rate: 2}]}", ""))
	text, _ := json.Marshal(r.Patches)
	if !r.Allowed || len(r.Warnings) != 2 || !strings.Contains(string(text), "/spec/application") || !strings.Contains(string(text), "addons") {
		t.Errorf("%s %v", text, r.Warnings)
	}
	if r := handleConvert(t.Context(), request(t, good, "")); len(r.Patches) > 0 {
		t.Errorf("%v", r.Patches)
	}
}

func annotated(annotations map[string]string) *core.Pod {
	return &core.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Spec: core.PodSpec{Containers: []core.Container{{Name: "web"}, {Name: "other"}}}}
}

// fluent are all annotations of fluentd-sidecar-injector (its README).
func fluent(more ...string) map[string]string {
	out := map[string]string{"injection": "enabled", "application-log-dir": "/var/log/nginx"}
	for i := 0; i+1 < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	pre := map[string]string{}
	for k, v := range out {
		pre[prefixFluent+k] = v
	}
	return pre
}

func TestLogs(t *testing.T) {
	l := &Logs{Image: "example.org/otelcol:1", Endpoint: "http://loki:3100/otlp", Namespace: "reckon"}
	pod := annotated(fluent("collector", "fluentd", "docker-image", "fluent/fluentd", "aggregator-host", "logs.example.org", "aggregator-port", "4318", "tag-prefix", "pro$d", "custom-env", "A=1,B=$(x)", "expose-port", "24220",
		"memory-request", "100Mi", "memory-limit", "300Mi", "cpu-request", "50m", "cpu-limit", "1", "send-timeout", "30", "recover-wait", "10s", "hard-timeout", "120s", "time-key", "ts", "time-format", "%s", "log-format", "json", "refresh-interval", "5", "rotate-wait", "5"))
	warnings, err := l.addCollector(pod)
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 6 {
		t.Errorf("warnings %q", warnings)
	}
	c := pod.Spec.InitContainers[0]
	if c.Name != LogContainer || *c.RestartPolicy != core.ContainerRestartPolicyAlways || c.Image != "example.org/otelcol:1" || c.Ports[0].ContainerPort != 24220 || *c.SecurityContext.AllowPrivilegeEscalation {
		t.Errorf("%+v", c)
	}
	if r := c.Resources; r.Requests.Cpu().String() != "50m" || r.Requests.Memory().String() != "100Mi" || r.Limits.Cpu().String() != "1" || r.Limits.Memory().String() != "300Mi" {
		t.Errorf("resources %+v", r)
	}
	var config struct {
		Receivers struct {
			Filelog struct {
				Include      []string          `json:"include"`
				Attributes   map[string]string `json:"attributes"`
				PollInterval string            `json:"poll_interval"`
				Operators    []map[string]any  `json:"operators"`
			} `json:"filelog"`
		} `json:"receivers"`
		Exporters map[string]map[string]any `json:"exporters"`
	}
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	if err := json.Unmarshal([]byte(env[configVariable]), &config); err != nil {
		t.Fatal(err)
	}
	f := config.Receivers.Filelog
	if f.Include[0] != "/var/log/nginx/*.log" || f.Attributes["tag"] != "pro$$d" || f.PollInterval != "200ms" || c.Lifecycle.PreStop.Sleep.Seconds != 1 || f.Operators[0]["type"] != "json_parser" {
		t.Errorf("%+v", f)
	}
	if e := config.Exporters["otlphttp"]; e["endpoint"] != "http://logs.example.org:4318" || e["timeout"] != "30s" {
		t.Errorf("%+v", e)
	}
	if env["B"] != "$$(x)" || env["AGGREGATOR_HOST"] != "logs.example.org" {
		t.Errorf("variables %v", env)
	}
	for i := range pod.Spec.Containers {
		if m := pod.Spec.Containers[i].VolumeMounts; len(m) != 1 || m[0].MountPath != "/var/log/nginx" || m[0].ReadOnly {
			t.Errorf("mounts %+v", m)
		}
	}
	if !c.VolumeMounts[0].ReadOnly || len(pod.Spec.Volumes) != 1 {
		t.Errorf("%+v %+v", c.VolumeMounts, pod.Spec.Volumes)
	}
	if _, err := l.addCollector(pod); err != nil || len(pod.Spec.InitContainers) != 1 {
		t.Error("a second look changes the pod")
	}
}

// TestLogsOurs: our annotations, a folder that is mounted already, and the endpoint of the operator.
func TestLogsOurs(t *testing.T) {
	l := &Logs{Image: "o", Endpoint: "http://loki:3100/otlp"}
	pod := annotated(map[string]string{prefixOurs + "injection": "enabled", prefixOurs + "application-log-dir": "/logs/"})
	pod.Spec.Volumes = []core.Volume{{Name: "mine"}}
	pod.Spec.Containers[0].VolumeMounts = []core.VolumeMount{{Name: "mine", MountPath: "/logs", SubPath: "web"}}
	if warnings, err := l.addCollector(pod); err != nil || len(warnings) > 0 {
		t.Fatal(warnings, err)
	}
	c := pod.Spec.InitContainers[0]
	if m := c.VolumeMounts[0]; m.Name != "mine" || m.SubPath != "web" || len(pod.Spec.Volumes) != 1 {
		t.Errorf("%+v", m)
	}
	if text := c.Env[len(c.Env)-1].Value; !strings.Contains(text, `"endpoint":"http://loki:3100/otlp"`) || strings.Contains(text, "json_parser") || !strings.Contains(text, `"max_log_size":"16MiB"`) {
		t.Errorf("%s", text)
	}
	if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
		t.Error("no limits are set")
	}
}

// TestLogsRefused: a pod that cannot be served is left as it is, with a warning.
func TestLogsRefused(t *testing.T) {
	l := &Logs{Image: "o", Namespace: "reckon"}
	for name, annotations := range map[string]map[string]string{
		"no folder":    {prefixFluent + "injection": "enabled"},
		"the root":     fluent("application-log-dir", "/"),
		"a variable":   fluent("application-log-dir", "/${env:HOME}", "aggregator-host", "a"),
		"no address":   fluent(),
		"bad port":     fluent("aggregator-host", "a", "aggregator-port", "many"),
		"bad format":   fluent("aggregator-host", "a", "log-format", "ltsv"),
		"bad limit":    fluent("aggregator-host", "a", "memory-limit", "big"),
		"bad variable": fluent("aggregator-host", "a", "custom-env", "A B"),
		"no volume":    fluent("config-volume", "none"),
	} {
		raw, _ := json.Marshal(annotated(annotations))
		r := l.Handle(t.Context(), admissionhook.Request{AdmissionRequest: admission.AdmissionRequest{Namespace: "demo", Object: runtime.RawExtension{Raw: raw}}})
		if !r.Allowed || len(r.Patches) > 0 || len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], "no logs are collected: ") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	raw, _ := json.Marshal(annotated(fluent("aggregator-host", "a")))
	for namespace, patched := range map[string]bool{"reckon": false, "demo": true} {
		r := l.Handle(t.Context(), admissionhook.Request{AdmissionRequest: admission.AdmissionRequest{Namespace: namespace, Object: runtime.RawExtension{Raw: raw}}})
		if (len(r.Patches) > 0) != patched {
			t.Errorf("%s: %v", namespace, r.Patches)
		}
	}
	raw, _ = json.Marshal(annotated(nil))
	if r := l.Handle(t.Context(), admissionhook.Request{AdmissionRequest: admission.AdmissionRequest{Object: runtime.RawExtension{Raw: raw}}}); len(r.Patches) > 0 || len(r.Warnings) > 0 {
		t.Errorf("a pod that asks for nothing: %+v", r)
	}
}

// TestCertificate: a client that trusts the bundle speaks to the server, before and after a renewal.
func TestCertificate(t *testing.T) {
	now := time.Now()
	c := &Certificate{Names: []string{"reckon-operator.reckon.svc"}, Now: func() time.Time { return now }}
	if _, err := c.Get(nil); err == nil {
		t.Error("a certificate before there is one")
	}
	handshake := func(ca []byte) error {
		a, b := net.Pipe()
		defer a.Close()
		defer b.Close()
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(ca)
		go func() { _ = tls.Server(b, &tls.Config{GetCertificate: c.Get}).HandshakeContext(context.Background()) }()
		return tls.Client(a, &tls.Config{RootCAs: pool, ServerName: c.Names[0], Time: func() time.Time { return now }}).Handshake()
	}
	for _, step := range []struct {
		after time.Duration
		made  bool
	}{{0, true}, {certValidity/3*2 - time.Minute, false}, {2 * time.Minute, true}} {
		now = now.Add(step.after)
		old := c.ca
		made, err := c.Renew()
		if err != nil || made != step.made {
			t.Errorf("after %s: %v, %v", step.after, made, err)
		}
		if err := handshake(c.ca); err != nil {
			t.Errorf("after %s: %v", step.after, err)
		}
		if step.made && len(old) > 0 && !strings.Contains(string(c.ca), string(old)) {
			t.Error("the bundle has lost the certificate before")
		}
	}
}

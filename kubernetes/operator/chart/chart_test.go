package chart

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const dir = "../../../deploy/helm/reckon"

var update = flag.Bool("update", false, "write deploy/kustomize/base/reckon.yaml anew")

// render renders a release called reckon in the namespace reckon of a cluster of today.
func render(t *testing.T, values string, change ...func(*Release)) ([]Object, string, error) {
	t.Helper()
	c, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := &Release{Name: "reckon", Namespace: "reckon", Kubernetes: "v1.34.4", Values: map[string]any{}}
	if err := yaml.Unmarshal([]byte(values), &r.Values); err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(r)
	}
	return r.Render(c)
}

func rendered(t *testing.T, values string, change ...func(*Release)) []Object {
	t.Helper()
	out, _, err := render(t, values, change...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// get decodes the object of a kind and name as its type: a field that the type has not is an error.
func get[T any](t *testing.T, objects []Object, kind, name string) *T {
	t.Helper()
	i := slices.IndexFunc(objects, func(o Object) bool { return o.Kind() == kind && o.Name() == name })
	if i < 0 {
		t.Fatalf("no %s %s", kind, name)
	}
	return decode[T](t, objects[i])
}

func decode[T any](t *testing.T, o Object) *T {
	t.Helper()
	raw, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	out := new(T)
	if err := yaml.UnmarshalStrict(raw, out); err != nil {
		t.Fatalf("%s %s: %v\n%s", o.Kind(), o.Name(), err, raw)
	}
	return out
}

func has(objects []Object, kind string) (names []string) {
	for _, o := range objects {
		if o.Kind() == kind {
			names = append(names, o.Name())
		}
	}
	return names
}

// everything switches on whatever the chart can do.
const everything = `
site: lab
image: {registry: registry.example.org/, tag: 1.2.3, pullSecrets: [{name: pull}]}
tls: {extraNames: [reckon.example.org], extraIPs: [192.0.2.1]}
serviceAccountTokens: {admins: [ops/root], support: [ops/desk]}
server:
  retention: 90d0h
  extraArgs: [--set=public=true]
  service: {type: LoadBalancer, annotations: {a: b}}
  persistence: {storageClass: fast, size: 100Gi}
agent:
  compat: [cadvisor, kube]
  podAccountLabels: [team]
  ownMetrics: {pods: {}}
  extraArgs: [--verbose]
  metrics: {enabled: true}
  hostAliases: [{ip: 192.0.2.1, hostnames: [reckon.example.org]}]
  priorityClassName: system-node-critical
logs: {loki: {url: 'http://loki.monitoring:3100'}, pods: true, collector: {enabled: true}}
podMonitor: {enabled: true, labels: {release: prometheus}}
networkPolicy: {enabled: true, serverFrom: [{namespaceSelector: {}}], metricsFrom: [{namespaceSelector: {}}]}
`

// TestObjects: whatever is rendered has only fields that Kubernetes has, with the defaults, with
// everything switched on, and on the oldest cluster.
func TestObjects(t *testing.T) {
	for name, test := range map[string]struct {
		values, kubernetes string
		count              int
	}{
		"defaults": {kubernetes: "v1.34.4", count: 14}, "everything": {strings.Replace(everything, "90d0h", "2160h", 1), "v1.34.4", 25}, "old": {"", "v1.26.0", 14},
		"agents only":  {"{server: {enabled: false}, agent: {push: {url: 'https://reckon.example.org:9870', tokenSecret: t, caConfigMap: c}}}", "v1.34.4", 4},
		"scraped only": {"{server: {enabled: false}, agent: {metrics: {enabled: true}}}", "v1.34.4", 4},
		"without TLS":  {"{insecure: true, tls: {enabled: false}}", "v1.34.4", 12},
		"no kubelet":   {"{agent: {kubelet: {enabled: false}}, server: {persistence: {enabled: false}}}", "v1.34.4", 12},
		"no graph":     {"graph: {enabled: false}", "v1.34.4", 10},
	} {
		objects := rendered(t, test.values, func(r *Release) { r.Kubernetes = test.kubernetes })
		if len(objects) != test.count {
			t.Errorf("%s: %d objects, want %d", name, len(objects), test.count)
		}
		for _, o := range objects {
			switch o.Kind() {
			case "ServiceAccount":
				decode[corev1.ServiceAccount](t, o)
			case "Service":
				decode[corev1.Service](t, o)
			case "Secret":
				decode[corev1.Secret](t, o)
			case "ConfigMap":
				decode[corev1.ConfigMap](t, o)
			case "ClusterRole":
				decode[rbacv1.ClusterRole](t, o)
			case "ClusterRoleBinding":
				decode[rbacv1.ClusterRoleBinding](t, o)
			case "DaemonSet":
				decode[appsv1.DaemonSet](t, o)
			case "Deployment":
				decode[appsv1.Deployment](t, o)
			case "StatefulSet":
				decode[appsv1.StatefulSet](t, o)
			case "NetworkPolicy":
				decode[networkingv1.NetworkPolicy](t, o)
			case "PodMonitor": // a resource of the Prometheus Operator
			default:
				t.Errorf("%s: a %s is not checked", name, o.Kind())
			}
		}
	}
}

// TestRights: the agent has what it needs and no more; the permission that is root on every pod is
// asked for by nobody who did not ask for it.
func TestRights(t *testing.T) {
	objects := rendered(t, "")
	role := get[rbacv1.ClusterRole](t, objects, "ClusterRole", "reckon-agent")
	if got := fmt.Sprint(role.Rules); got != fmt.Sprint([]rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes/pods"}, Verbs: []string{"get"}}}) {
		t.Errorf("the agent may %s", got)
	}
	if roles := slices.Concat(has(objects, "Role"), has(objects, "ClusterRole")); !slices.Equal(roles, []string{"reckon-agent", "reckon-graph"}) {
		t.Errorf("roles %v", roles)
	}
	for _, r := range get[rbacv1.ClusterRole](t, objects, "ClusterRole", "reckon-graph").Rules {
		if !slices.Equal(r.Verbs, []string{"list", "watch"}) || slices.Contains(r.Resources, "secrets") {
			t.Errorf("the description of the cluster may %v", r)
		}
	}
	old := get[rbacv1.ClusterRole](t, rendered(t, "agent: {kubelet: {nodesProxy: true}}"), "ClusterRole", "reckon-agent")
	if got := fmt.Sprint(old.Rules[0].Resources); got != "[nodes/proxy]" {
		t.Errorf("by choice: %s", got)
	}
	pod := get[appsv1.DaemonSet](t, objects, "DaemonSet", "reckon-agent").Spec.Template.Spec
	c := pod.Containers[0]
	s := c.SecurityContext
	switch {
	case !pod.HostPID || pod.HostNetwork || pod.HostIPC:
		t.Errorf("namespaces of the host: pid %v, network %v, ipc %v", pod.HostPID, pod.HostNetwork, pod.HostIPC)
	case *s.Privileged || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem:
		t.Errorf("security: %+v", s)
	case fmt.Sprint(s.Capabilities.Drop, s.Capabilities.Add) != "[ALL] [BPF PERFMON SYS_PTRACE DAC_READ_SEARCH]":
		t.Errorf("capabilities: %+v", s.Capabilities)
	}
	for _, m := range c.VolumeMounts {
		if m.Name != "state" && !m.ReadOnly {
			t.Errorf("%s is writable", m.Name)
		}
	}
	var node bool
	for _, e := range c.Env {
		node = node || e.Name == "NODE_NAME" && e.ValueFrom.FieldRef.FieldPath == "spec.nodeName"
	}
	if !node || !slices.Contains(c.Args, "--node=$(NODE_NAME)") {
		t.Errorf("the name of the node is not that of Kubernetes: %v %v", c.Args, c.Env)
	}
	server := get[appsv1.StatefulSet](t, objects, "StatefulSet", "reckon").Spec.Template.Spec
	if s := server.SecurityContext; !*s.RunAsNonRoot || server.HostPID || len(server.Containers[0].SecurityContext.Capabilities.Add) > 0 {
		t.Errorf("the server: %+v", s)
	}
}

// TestToken: agents show a projected token, made for the server alone, over TLS only, and the
// server lets their account in.
func TestToken(t *testing.T) {
	objects := rendered(t, "site: lab")
	pod := get[appsv1.DaemonSet](t, objects, "DaemonSet", "reckon-agent").Spec.Template.Spec
	args := strings.Join(pod.Containers[0].Args, " ")
	for _, want := range []string{"--push=https://reckon.reckon.svc:9870", "--push-token-file=/var/run/secrets/reckon/token", "--set=push-ca=/etc/reckon/ca/ca.crt", "--site=lab"} {
		if !strings.Contains(args, want) {
			t.Errorf("no %s in %s", want, args)
		}
	}
	var audience string
	for _, v := range pod.Volumes {
		if v.Name == "token" {
			audience = v.Projected.Sources[0].ServiceAccountToken.Audience
		}
		if v.Secret != nil {
			t.Errorf("the agents mount the Secret %s", v.Secret.SecretName)
		}
	}
	var config struct {
		Audience string   `json:"audience"`
		Agents   []string `json:"agents"`
		Describe []string `json:"describers"`
		Admins   []string `json:"admins"`
		Site     string   `json:"site"`
		AnyNode  bool     `json:"any_node"`
	}
	text := get[corev1.ConfigMap](t, objects, "ConfigMap", "reckon").Data["kubernetes.yaml"]
	if err := yaml.UnmarshalStrict([]byte(text), &config); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if got := fmt.Sprint(config, audience, pod.ServiceAccountName); got != "{reckon [reckon/reckon-agent] [reckon/reckon-graph] [reckon/reckon] lab false}reckonreckon-agent" {
		t.Error(got)
	}
	plain := get[appsv1.DaemonSet](t, rendered(t, "{insecure: true, tls: {enabled: false}}"), "DaemonSet", "reckon-agent").Spec.Template.Spec
	if args := strings.Join(plain.Containers[0].Args, " "); strings.Contains(args, "token") || !strings.Contains(args, "--push=http://reckon.reckon.svc:9870") {
		t.Errorf("without TLS: %s", args)
	}
	// Somebody else's server gets the token that was made for it, or none: never the cluster's.
	for values, want := range map[string]bool{
		"{server: {enabled: false}, agent: {push: {url: 'https://x:1', tokenSecret: t}}}": true,
		"{server: {enabled: false}, agent: {push: {url: 'https://x:1'}}}":                 false,
		"{agent: {push: {url: 'https://x:1'}}}":                                           false,
	} {
		pod := get[appsv1.DaemonSet](t, rendered(t, values), "DaemonSet", "reckon-agent").Spec.Template.Spec
		if got := strings.Contains(strings.Join(pod.Containers[0].Args, " "), "--push-token-file"); got != want {
			t.Errorf("%s: sends a token: %v", values, got)
		}
		for _, v := range pod.Volumes {
			if v.Name == "token" && v.Secret == nil {
				t.Errorf("%s: the token of the service account goes to somebody else", values)
			}
		}
	}
}

// certificate checks that the certificate of a rendering is for the names of the server and signed by
// the authority that the agents trust, and returns it.
func certificate(t *testing.T, objects []Object, names ...string) string {
	t.Helper()
	secret := get[corev1.Secret](t, objects, "Secret", "reckon-tls")
	pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(get[corev1.ConfigMap](t, objects, "ConfigMap", "reckon-ca").Data["ca.crt"])) {
		t.Fatal("the ConfigMap holds no authority")
	}
	for _, name := range names {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: pool}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(secret.Data) != 3 {
		t.Errorf("the Secret holds %d things; the key of the authority must not be kept", len(secret.Data))
	}
	return base64.StdEncoding.EncodeToString(secret.Data["tls.crt"])
}

// TestCertificate: it is made at the first install, kept by an upgrade, and recreated when the names
// change.
func TestCertificate(t *testing.T) {
	first := rendered(t, "")
	usual := []string{"reckon.reckon.svc", "reckon.reckon", "reckon", "localhost", "127.0.0.1"}
	was := certificate(t, first, usual...)
	there := func(r *Release) { r.Cluster = first }
	if again := certificate(t, rendered(t, "server: {service: {port: 443}}", there), usual...); again != was {
		t.Error("an upgrade made another certificate")
	}
	more := rendered(t, "tls: {extraNames: [reckon.example.org], extraIPs: [192.0.2.1]}", there)
	if certificate(t, more, append(usual, "reckon.example.org", "192.0.2.1")...) == was {
		t.Error("with more names the old certificate stays")
	}
	sum := func(objects []Object) string {
		return get[appsv1.DaemonSet](t, objects, "DaemonSet", "reckon-agent").Spec.Template.Annotations["checksum/ca"]
	}
	if sum(first) == "" || sum(first) != sum(rendered(t, "", there)) || sum(first) == sum(more) {
		t.Error("agents are not started again when, and only when, the authority changes")
	}
	own := rendered(t, "tls: {existingSecret: mine, existingCAConfigMap: mine-ca}")
	if n := has(own, "Secret"); len(n) > 0 {
		t.Errorf("beside one's own Secret the chart makes %v", n)
	}
}

// TestMistakes: what does not go together, or is no value, is refused with what to write.
func TestMistakes(t *testing.T) {
	for values, want := range map[string]string{
		"tls: {enabled: false}":    "insecure=true",
		"insecure: true":           "tls.enabled=false",
		"tls: {existingSecret: x}": "existingCAConfigMap",
		"server: {enabled: false}": "agent.push.url",
		"{server: {enabled: false}, agent: {push: {url: 'http://x:1', tokenSecret: t}}}": "https://",
		"podMonitor: {enabled: true}":                    "agent.metrics.enabled",
		"logs: {collector: {enabled: true}}":             "logs.loki.url",
		"logs: {loki: {url: 'loki:3100'}}":               "url",
		"agent: {tolerance: []}":                         "tolerance",
		"agent: {compat: [cadviser]}":                    "compat",
		"agent: {export: 15}":                            "export",
		"serviceAccountTokens: {expirationSeconds: 599}": "expirationSeconds",
		"serviceAccountTokens: {admins: [root]}":         "admins",
		"server: {persistence: {size: big}}":             "size",
		"image: {registry: registry.example.org}":        "registry",
	} {
		if _, _, err := render(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want a word about %s", values, err, want)
		}
	}
	if _, _, err := render(t, "serviceAccountTokens: {expirationSeconds: 600}"); err != nil {
		t.Error(err)
	}
}

// TestNotes: the text after the install names the commands, and what an old cluster lacks.
func TestNotes(t *testing.T) {
	notes := func(values, version string) string {
		_, text, err := render(t, values, func(r *Release) { r.Kubernetes = version })
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	now := notes("", "v1.34.4")
	if !strings.Contains(now, "kubectl -n reckon exec reckon-0 -- reckon jobs") || strings.Contains(now, "older") {
		t.Error(now)
	}
	for version, want := range map[string][2]bool{"v1.33.0": {}, "v1.32.9": {true, false}, "v1.30.0": {true, false}, "v1.29.9": {true, true}} {
		text := notes("", version)
		if got := [2]bool{strings.Contains(text, "nodesProxy=true"), strings.Contains(text, "anyNode=true")}; got != want {
			t.Errorf("%s: %v, want %v", version, got, want)
		}
	}
}

// TestLint: helm lint has nothing to report.
func TestLint(t *testing.T) {
	for _, m := range lint.RunAll(dir, map[string]any{}, "reckon").Messages {
		if m.Severity > support.InfoSev {
			t.Error(m)
		}
	}
}

// TestKustomize: deploy/kustomize is what the chart renders by its values.
func TestKustomize(t *testing.T) {
	const folder = "../../../deploy/kustomize"
	values, err := os.ReadFile(filepath.Join(folder, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	text.WriteString("# Rendered from deploy/helm/reckon by values.yaml: go test ./chart -run TestKustomize -update in kubernetes/operator/.\n")
	for _, o := range rendered(t, string(values)) {
		raw, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString("---\n" + string(raw))
	}
	file := filepath.Join(folder, "reckon.yaml")
	if *update {
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != text.String() {
		t.Error("deploy/kustomize/reckon.yaml is not what the chart renders; run this test with -update")
	}
}

// TestKustomizeBuilds: with the certificates of its script, `kubectl apply -k` gets what the chart
// would install, in the namespace, and the certificate is right.
func TestKustomizeBuilds(t *testing.T) {
	for _, c := range []string{"bash", "openssl"} {
		if _, err := exec.LookPath(c); err != nil {
			t.Skipf("%s is not installed", c)
		}
	}
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS("../../../deploy/kustomize")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(folder, "certificates")); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "bash", filepath.Join(folder, "certificates.sh"), "reckon.example.org", "192.0.2.1", "2001:db8::1").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	var objects []Object
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var o Object
		if err := yaml.UnmarshalStrict([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	certificate(t, objects, "reckon.reckon.svc", "localhost", "127.0.0.1", "reckon.example.org", "192.0.2.1", "2001:db8::1")
	if ns := get[corev1.Namespace](t, objects, "Namespace", "reckon"); ns.Labels["pod-security.kubernetes.io/enforce"] != "privileged" {
		t.Errorf("the namespace: %v", ns.Labels)
	}
	pod := get[appsv1.DaemonSet](t, objects, "DaemonSet", "reckon-agent").Spec.Template.Spec
	if !slices.Contains(pod.Containers[0].Args, "--push=https://reckon.reckon.svc:9870") {
		t.Error(pod.Containers[0].Args)
	}
}

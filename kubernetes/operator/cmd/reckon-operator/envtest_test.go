package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	registration "k8s.io/api/admissionregistration/v1"
	core "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	"reckon/kubernetes/operator/api/metricrun"
	"reckon/kubernetes/operator/api/v1alpha2"
	"reckon/kubernetes/operator/crd"
	"reckon/kubernetes/operator/webhooks"
)

// server is a real API server with etcd behind it, and nothing else: no controller, no kubelet.
type server struct {
	t          *testing.T
	c          client.Client
	kubeconfig string
	port       int // of the webhooks
}

func startServer(t *testing.T) *server {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS names no folder with etcd and kube-apiserver: make e2e-operator")
	}
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/jobset").Output()
	if err != nil {
		t.Fatal(err)
	}
	env := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join(strings.TrimSpace(string(module)), "config/components/crd/bases")}, ErrorIfCRDPathMissing: true,
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
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha2.AddToScheme, metricrun.AddToScheme, jobset.AddToScheme, apiextensions.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{"a": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"a": {ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}},
		Contexts:  map[string]*clientcmdapi.Context{"a": {Cluster: "a", AuthInfo: "a"}}, CurrentContext: "a",
	}, file); err != nil {
		t.Fatal(err)
	}
	return &server{t: t, c: c, kubeconfig: file, port: freePort(t)}
}

// freePort is a port that nobody listens on.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// operator runs the program until the returned function is called.
func (s *server) operator(args ...string) (stop func() error) {
	s.t.Helper()
	s.t.Setenv("KUBECONFIG", s.kubeconfig)
	var o options
	f := newFlags(&o, io.Discard)
	if err := f.Parse(append([]string{"--health=0", "--crds", "--webhooks", "--webhook-service=localhost", "--own-namespace=reckon", "--validating-config=v", "--mutating-config=m", "--logs-image=example.org/otelcol:1"}, args...)); err != nil {
		s.t.Fatal(err)
	}
	o.webhookPort = s.port
	ctx, cancel := context.WithCancel(s.t.Context())
	failed := make(chan error, 1)
	go func() { failed <- runManager(ctx, o, slog.New(slog.DiscardHandler)) }()
	done := false
	end := func() error {
		if done {
			return nil
		}
		done = true
		cancel()
		return <-failed
	}
	s.t.Cleanup(func() { _ = end() })
	return end
}

// hooks registers the webhooks, as the chart does, at an address instead of a service.
func (s *server) hooks() {
	s.t.Helper()
	at := func(path string) registration.WebhookClientConfig {
		u := (&net.TCPAddr{Port: s.port}).String()
		u = "https://localhost" + u + path
		return registration.WebhookClientConfig{URL: &u, CABundle: []byte{}}
	}
	ignore, none := registration.Ignore, registration.SideEffectClassNone
	rule := func(group, version, resource string) []registration.RuleWithOperations {
		return []registration.RuleWithOperations{{Operations: []registration.OperationType{"CREATE", "UPDATE"}, Rule: registration.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}}}}
	}
	v := &registration.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Webhooks: []registration.ValidatingWebhook{
		{Name: "v.metrics.reckon", ClientConfig: at(webhooks.PathValidate), Rules: rule("flux-framework.org", "*", "metricsets"), FailurePolicy: &ignore, SideEffects: &none, AdmissionReviewVersions: []string{"v1"}}}}
	m := &registration.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Webhooks: []registration.MutatingWebhook{
		{Name: "c.metrics.reckon", ClientConfig: at(webhooks.PathConvert), Rules: rule("flux-framework.org", "*", "metricsets"), FailurePolicy: &ignore, SideEffects: &none, AdmissionReviewVersions: []string{"v1"}},
		{Name: "l.metrics.reckon", ClientConfig: at(webhooks.PathLogs), Rules: rule("", "v1", "pods"), FailurePolicy: &ignore, SideEffects: &none, AdmissionReviewVersions: []string{"v1"}}}}
	for _, o := range []client.Object{v, m} {
		if err := s.c.Create(s.t.Context(), o); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *server) until(what string, done func() bool) {
	s.t.Helper()
	deadline := time.After(2 * time.Minute)
	for !done() {
		select {
		case <-deadline:
			s.t.Fatalf("%s: not within two minutes", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetNamespace("default")
	return u
}

func (s *server) get(name string) *v1alpha2.MetricSet {
	s.t.Helper()
	ms := &v1alpha2.MetricSet{}
	if err := s.c.Get(s.t.Context(), types.NamespacedName{Namespace: "default", Name: name}, ms); err != nil {
		s.t.Fatal(err)
	}
	return ms
}

// TestOnAPIServer runs the whole program against a real API server.
func TestOnAPIServer(t *testing.T) {
	s := startServer(t)
	s.foreignDefinition()
	s.hooks()
	stop := s.operator()
	s.until("the webhooks", func() bool {
		err := s.c.Create(t.Context(), object(t, "{apiVersion: flux-framework.org/v1alpha2, kind: MetricSet, metadata: {name: bad}, spec: {metrics: [{name: perf-top}]}}"), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), `spec.metrics[0].name: there is no metric "perf-top"`)
	})
	s.published()
	s.converted()
	s.runs()
	if err := stop(); err != nil {
		t.Errorf("the operator ended: %v", err)
	}
	s.restarted()
}

// foreignDefinition: a definition that somebody else installed is left alone unless --adopt is given.
func (s *server) foreignDefinition() {
	d, err := crd.MetricSets()
	if err != nil {
		s.t.Fatal(err)
	}
	d.Labels = nil
	if err := s.c.Create(s.t.Context(), d); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	log := slog.New(slog.DiscardHandler)
	if err := checkDefinitions(ctx, s.c, true, false, log); err == nil || !strings.Contains(err.Error(), "--adopt") {
		s.t.Errorf("a definition of somebody else: %v", err)
	}
	if err := checkDefinitions(ctx, s.c, true, true, log); err != nil {
		s.t.Fatal(err)
	}
	if err := checkDefinitions(ctx, s.c, true, false, log); err != nil {
		s.t.Errorf("our own definition: %v", err)
	}
}

// published: every file that the metrics-operator published is stored or refused as without a server.
func (s *server) published() {
	want, err := os.ReadFile("../../metricset/testdata/published.golden")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, block := range strings.Split(string(want), "\n") {
		if !strings.HasSuffix(block, ".yaml") {
			continue
		}
		_, rest, _ := strings.Cut(string(want), block+"\n")
		refused := strings.HasPrefix(rest, "  refused: ")
		text, err := os.ReadFile("../../metricset/testdata/published/" + block)
		if err != nil {
			s.t.Fatal(err)
		}
		err = s.c.Create(s.t.Context(), object(s.t, string(text)), client.DryRunAll, client.FieldValidation("Strict"))
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "spec.") {
			s.t.Errorf("%s: refused %v, want %v: %v", block, err != nil, refused, err)
		}
	}
}

// converted: an old file is stored as it runs.
func (s *server) converted() {
	old := object(s.t, "{apiVersion: flux-framework.org/v1alpha1, kind: MetricSet, metadata: {name: old}, spec: {application: {image: ubuntu, command: sleep 10}, metrics: [{name: perf-sysstat, rate: 2}]}}")
	if err := s.c.Create(s.t.Context(), old); err != nil {
		s.t.Fatal(err)
	}
	ms := s.get("old")
	if ms.Spec.Application != nil || ms.Spec.Metrics[0].Rate != nil || ms.Spec.Metrics[0].Options["rate"].IntVal != 2 || ms.Spec.Metrics[0].Addons[0].Name != "application" || *ms.Spec.Pods != 1 {
		s.t.Errorf("stored %+v", ms.Spec)
	}
	s.until("no server for the agent", func() bool {
		c := meta.FindStatusCondition(s.get("old").Status.Conditions, "Accepted")
		return c != nil && c.Reason == "NoServer"
	})
}

const demo = "{apiVersion: flux-framework.org/v1alpha2, kind: MetricSet, metadata: {name: demo}, spec: {pods: 2, metrics: [{name: app-lammps}, {name: perf-sysstat, options: {attach: sidecar, rate: 1}, addons: [{name: application, options: {image: busybox, command: sleep 30}}]}]}}"

// runs: the objects of a set are taken by the API server as they are, and the set cannot change.
func (s *server) runs() {
	if err := s.c.Create(s.t.Context(), object(s.t, demo)); err != nil {
		s.t.Fatal(err)
	}
	began := time.Now()
	s.until("the JobSet", func() bool {
		return s.c.Get(s.t.Context(), types.NamespacedName{Namespace: "default", Name: "demo"}, &jobset.JobSet{}) == nil
	})
	s.t.Logf("JobSet after %s", time.Since(began).Round(time.Millisecond))
	js := &jobset.JobSet{}
	if err := s.c.Get(s.t.Context(), types.NamespacedName{Namespace: "default", Name: "demo"}, js); err != nil {
		s.t.Fatal(err)
	}
	if len(js.Spec.ReplicatedJobs) != 3 || js.Spec.ReplicatedJobs[1].DependsOn[0].Status != jobset.DependencyReady || !metav1.IsControlledBy(js, s.get("demo")) {
		s.t.Errorf("%+v", js.Spec)
	}
	// Its pods are such as the API server takes.
	for _, r := range js.Spec.ReplicatedJobs {
		pod := &core.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "try-" + r.Name, Labels: r.Template.Spec.Template.Labels}, Spec: r.Template.Spec.Template.Spec}
		if err := s.c.Create(s.t.Context(), pod, client.DryRunAll); err != nil {
			s.t.Errorf("%s: %v", r.Name, err)
		}
	}
	s.until("the run", func() bool { return s.get("demo").Status.Run != "" })
	run := &metricrun.MetricRun{}
	if err := s.c.Get(s.t.Context(), types.NamespacedName{Namespace: "default", Name: s.get("demo").Status.Run}, run); err != nil || run.Run.Outcome != "Running" {
		s.t.Errorf("run %+v, %v", run, err)
	}
	ms := s.get("demo")
	n := int32(3)
	ms.Spec.Pods = &n
	if err := s.c.Update(s.t.Context(), ms); err == nil || !strings.Contains(err.Error(), "cannot change") {
		s.t.Errorf("a set that runs was changed: %v", err)
	}
	pod := object(s.t, "{apiVersion: v1, kind: Pod, metadata: {name: web, annotations: {fluentd-sidecar-injector.h3poteto.dev/injection: enabled, fluentd-sidecar-injector.h3poteto.dev/application-log-dir: /logs, fluentd-sidecar-injector.h3poteto.dev/aggregator-host: loki}}, spec: {containers: [{name: web, image: nginx}]}}")
	if err := s.c.Create(s.t.Context(), pod); err != nil {
		s.t.Fatal(err)
	}
	if init, _, _ := unstructured.NestedSlice(pod.Object, "spec", "initContainers"); len(init) != 1 {
		s.t.Errorf("no collector was added: %v", pod.Object["spec"])
	}
}

// restarted: another operator continues with the objects that exist, and makes nothing twice.
func (s *server) restarted() {
	before := &jobset.JobSet{}
	if err := s.c.Get(s.t.Context(), types.NamespacedName{Namespace: "default", Name: "demo"}, before); err != nil {
		s.t.Fatal(err)
	}
	if err := s.c.Create(s.t.Context(), object(s.t, strings.Replace(demo, "name: demo", "name: later", 1))); err != nil {
		s.t.Fatalf("while no operator is there: %v", err)
	}
	s.operator()
	s.until("the set that came meanwhile", func() bool { return s.get("later").Status.Run != "" })
	after := &jobset.JobSet{}
	if err := s.c.Get(s.t.Context(), types.NamespacedName{Namespace: "default", Name: "demo"}, after); err != nil || after.UID != before.UID || after.ResourceVersion != before.ResourceVersion {
		s.t.Errorf("the JobSet was touched: %v", err)
	}
	var runs metricrun.MetricRunList
	if err := s.c.List(s.t.Context(), &runs, client.InNamespace("default")); err != nil || len(runs.Items) != 2 {
		s.t.Errorf("%d runs, %v", len(runs.Items), err)
	}
}

package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"
	"unique"

	core "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"reckon/kubernetes/operator/api/metricrun"
	"reckon/kubernetes/operator/api/v1alpha2"
	"reckon/kubernetes/operator/controller"
	"reckon/kubernetes/operator/crd"
	"reckon/kubernetes/operator/graphfeed"
	"reckon/kubernetes/operator/jobs"
	"reckon/kubernetes/operator/webhooks"
)

const (
	defaultProbe       = "localhost/reckon/reckon-agent:latest"
	defaultTTL         = 24 * 60 * 60
	probePort    int32 = 9878
)

// options are the flags.
type options struct {
	namespace, own, probe, service string
	validating, mutating           string
	logsImage, logsEndpoint        string
	metricsAddress, healthAddress  string
	webhookPort, workers, ttl      int
	server, serverToken, serverCA  string
	serverURL, site                string
	ephemeral, hooks, definite     bool
	adopt, election, graphOnly     bool
	graph                          graphfeed.Options
}

func (o *options) register(f *flag.FlagSet) {
	f.StringVar(&o.namespace, "namespace", "", "look at this namespace only; empty: all")
	f.StringVar(&o.own, "own-namespace", "reckon", "namespace of the operator")
	f.StringVar(&o.probe, "probe-image", defaultProbe, "image with reckon-agent, for probes in pods")
	f.StringVar(&o.server, "server", "",
		"`URL` of the reckon server that keeps runs and whose agents measure pods (attach: agent); empty: runs are MetricRuns in their "+
			"namespaces")
	f.StringVar(&o.serverToken, "server-token-file", "", "file with the token that is shown to the server, read anew for each request")
	f.StringVar(&o.serverCA, "server-ca", "", "file with the authority that the server is checked against; empty: the system's")
	f.StringVar(&o.serverURL, "server-url", "", "`URL` of the server as people reach it, for status.runURL; empty: that of --server")
	f.StringVar(&o.site, "site", "", "site that runs are kept under in the server")
	f.BoolVar(&o.ephemeral, "ephemeral", false, "allow probes to be added to pods that run already (needs pods/ephemeralcontainers)")
	f.BoolVar(&o.definite, "crds", false, "install and update the custom resource definitions")
	f.BoolVar(&o.adopt, "adopt", false, "take over definitions of MetricSet that somebody else installed")
	f.BoolVar(&o.election, "leader-elect", false, "let one of several operators act")
	f.BoolVar(&o.hooks, "webhooks", false, "answer the API server's questions")
	f.IntVar(&o.webhookPort, "webhook-port", 9443, "port of the webhooks")
	f.StringVar(&o.service, "webhook-service", "reckon-operator", "service of the webhooks, for the certificate")
	f.StringVar(&o.validating, "validating-config", "", "name of the ValidatingWebhookConfiguration to write the certificate into")
	f.StringVar(&o.mutating, "mutating-config", "", "name of the MutatingWebhookConfiguration to write the certificate into")
	f.StringVar(&o.logsImage, "logs-image", "", "image of the OpenTelemetry collector for annotated pods; empty: none is added")
	f.StringVar(&o.logsEndpoint, "logs-endpoint", "", "OTLP address of Loki, such as http://loki:3100/otlp")
	f.StringVar(&o.metricsAddress, "metrics", "0", "address of the operator's own metrics; 0: none")
	f.StringVar(&o.healthAddress, "health", ":9440", "address of /healthz and /readyz")
	f.IntVar(&o.workers, "workers", 4, "sets that are worked on at once")
	f.StringVar(&o.graph.Server, "graph", "",
		"address of a reckon server with a knowledge graph that describes the cluster, such as https://reckon:9870; empty: none")
	f.BoolVar(&o.graphOnly, "graph-only", false, "describe the cluster by --graph and do nothing else: no MetricSets, no right to write")
	f.StringVar(&o.graph.TokenFile, "graph-token-file", "", "file with the token that the server is shown")
	f.StringVar(&o.graph.CAFile, "graph-ca-file", "", "authorities that the server is checked against; empty: the system's")
	f.StringVar(&o.graph.Base, "graph-base", "", "what ids begin with, as the server has it (--graph-base)")
	f.StringVar(&o.graph.Site, "graph-site", "", "the server's name for the site of this cluster; empty where it has no sites")
	f.StringVar(&o.graph.Links.URL, "graph-url", "", "address of the server for those who read the graph; empty: --graph's")
	f.StringVar(&o.graph.Links.Pages, "graph-pages", "",
		"address of the server's pages for people who read the graph; empty: --graph-url's")
	f.StringVar(&o.graph.Links.LogSelector, "graph-loki-selector", "",
		"LogQL for them with {{.Namespace}} and {{.Pods}}; empty: labels namespace and pod")
	f.StringVar(&o.graph.Links.Loki, "graph-loki", "", "address of Loki for those who read the graph; empty: there is none")
	f.IntVar(&o.ttl, "ttl", defaultTTL, "seconds that a finished JobSet is kept")
}

// runManager runs until ctx ends.
func runManager(ctx context.Context, o options, log *slog.Logger) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 400 // the API server shares itself out between its clients
	if o.graphOnly {
		return runDescribeOnly(ctx, config, o, log)
	}
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha2.AddToScheme, metricrun.AddToScheme, jobset.AddToScheme,
		apiextensions.AddToScheme} {
		if err := add(types); err != nil {
			return err
		}
	}
	direct, err := client.New(config, client.Options{Scheme: types})
	if err != nil {
		return err
	}
	if err := checkDefinitions(ctx, direct, o.definite, o.adopt, log); err != nil {
		return err
	}
	cert := &webhooks.Certificate{Names: []string{o.service + "." + o.own + ".svc", o.service + "." + o.own, o.service},
		Validating: o.validating, Mutating: o.mutating, Client: direct, Log: log}
	if _, err := cert.Renew(); err != nil {
		return err
	}
	hooks := webhook.NewServer(webhook.Options{Port: o.webhookPort,
		TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.GetCertificate = cert.Get }}})
	m, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: types, Cache: cacheOptions(o.namespace), Metrics: metrics.Options{BindAddress: o.metricsAddress},
		HealthProbeBindAddress: o.healthAddress,
		LeaderElection:         o.election, LeaderElectionID: "reckon-operator", LeaderElectionNamespace: o.own, WebhookServer: hooks,
		// Runs are large, and volumes and services are looked at once: they are not kept in memory.
		Client: client.Options{
			Cache: &client.CacheOptions{
				DisableFor: []client.Object{&metricrun.MetricRun{}, &core.Service{}, &core.ConfigMap{}, &core.PersistentVolumeClaim{}}}},
	})
	if err != nil {
		return err
	}
	if err := addParts(m, o, cert, hooks, log); err != nil {
		return err
	}
	if err := describeCluster(m, o, log); err != nil {
		return err
	}
	return m.Start(ctx)
}

// describeCluster adds the writer of the cluster to the knowledge graph of a server.
func describeCluster(m manager.Manager, o options, log *slog.Logger) error {
	if o.graph.Server == "" {
		return nil
	}
	f, err := newFeed(m.GetConfig(), o, log)
	if err != nil {
		return err
	}
	return m.Add(manager.RunnableFunc(f.Run))
}

func newFeed(config *rest.Config, o options, log *slog.Logger) (*graphfeed.Feed, error) {
	o.graph.Namespace, o.graph.Log, o.graph.Links.URL = o.namespace, log, cmp.Or(o.graph.Links.URL, o.graph.Server)
	f, err := graphfeed.New(config, o.graph)
	if err != nil {
		return nil, fmt.Errorf("--graph: %w", err)
	}
	return f, nil
}

// runDescribeOnly describes the cluster until ctx ends. It needs no definitions, no webhooks and no right to write.
func runDescribeOnly(ctx context.Context, config *rest.Config, o options, log *slog.Logger) error {
	if o.graph.Server == "" {
		return errors.New("--graph-only needs --graph, the address of a reckon server")
	}
	f, err := newFeed(config, o, log)
	if err != nil {
		return err
	}
	health := &http.Server{Addr: o.healthAddress, ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })}
	failed := make(chan error, 1)
	if o.healthAddress != "0" {
		go func() { failed <- health.ListenAndServe() }()
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case err := <-failed:
			stop(fmt.Errorf("--health: %w", err))
		case <-ctx.Done():
		}
	}()
	err = f.Run(ctx)
	_ = health.Close() // nothing waits for its answers
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return err
}

// addParts adds the controller, the collector and the webhooks to the manager.
func addParts(m manager.Manager, o options, cert *webhooks.Certificate, hooks webhook.Server, log *slog.Logger) error {
	runs, err := runStore(m, &o)
	if err != nil {
		return err
	}
	cluster, err := kubernetes.NewForConfig(rest.CopyConfig(m.GetConfig()))
	if err != nil {
		return err
	}
	collect := &controller.Collector{Runs: runs, Port: probePort, Log: log,
		ReadLog: func(ctx context.Context, pod types.NamespacedName, container string) (string, error) {
			return readLog(ctx, cluster, pod, container)
		}}
	sweep := manager.RunnableFunc(func(ctx context.Context) error {
		tick := time.NewTicker(time.Minute)
		defer tick.Stop()
		for {
			if err := runs.Sweep(ctx, o.namespace); err != nil && ctx.Err() == nil {
				log.Warn("look for runs of deleted sets", "error", err)
			}
			debug.FreeOSMemory() // Return memory that a burst of sets needed. This takes 0.1 s of CPU time with 10,000 pods.
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	})
	r := &controller.Reconciler{
		Client: m.GetClient(), Live: m.GetAPIReader(), Events: m.GetEventRecorder("reckon-operator"),
		Jobs:   jobs.Config{ProbeImage: o.probe, ProbePort: probePort, TTL: int32(o.ttl)},
		Server: o.server != "", ServerURL: cmp.Or(o.serverURL, o.server), Ephemeral: o.ephemeral, Collect: collect,
	}
	errs := []error{m.Add(manager.RunnableFunc(collect.Start)), m.Add(sweep), r.Setup(m, o.workers),
		m.AddHealthzCheck("ping", healthz.Ping), m.AddReadyzCheck("ping", healthz.Ping)}
	if o.hooks {
		var logs *webhooks.Logs
		if o.logsImage != "" {
			logs = &webhooks.Logs{Image: o.logsImage, Endpoint: o.logsEndpoint, Namespace: o.own}
		}
		webhooks.Register(hooks, logs)
		errs = append(errs, m.Add(hooks), m.Add(cert))
	}
	return errors.Join(errs...)
}

// readLog reads at most 2 MiB from the end of a log.
func readLog(ctx context.Context, cluster kubernetes.Interface, pod types.NamespacedName, container string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	most := int64(2 << 20)
	text, err := cluster.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name,
		&core.PodLogOptions{Container: container, LimitBytes: &most}).DoRaw(ctx)
	return string(text), err
}

// runStore returns the store of runs: a reckon server, or the cluster itself.
func runStore(m manager.Manager, o *options) (controller.Runs, error) {
	if o.server == "" {
		return &controller.Objects{Client: m.GetClient(), Live: m.GetAPIReader()}, nil
	}
	c, err := controller.NewServer(controller.ServerOptions{URL: o.server, TokenFile: o.serverToken, CAFile: o.serverCA})
	if err != nil {
		return nil, err
	}
	return &controller.Server{Client: c, Cached: m.GetClient(), Live: m.GetAPIReader(), Site: o.site}, nil
}

// cacheOptions limits the cache to our objects and to the fields in use, so that 1,000 sets with 10,000 pods fit into 100 MB.
func cacheOptions(namespace string) cache.Options {
	ours := labels.SelectorFromSet(labels.Set{jobs.LabelManaged: jobs.Manager})
	out := cache.Options{DefaultTransform: slimObject, ByObject: map[client.Object]cache.ByObject{
		&core.Pod{}:      {Label: ours, Field: fields.Everything()},
		&jobset.JobSet{}: {Label: ours, Field: fields.Everything()},
	}}
	if namespace != "" {
		out.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	return out
}

// slimObject drops the unused parts of an object and shares strings that many pods have.
func slimObject(object any) (any, error) {
	o, ok := object.(client.Object)
	if !ok {
		return object, nil
	}
	o.SetManagedFields(nil)
	switch o := o.(type) {
	case *jobset.JobSet:
		o.Spec, o.Annotations = jobset.JobSetSpec{}, nil
	case *core.Pod:
		slimPod(o)
	}
	return object, nil
}

func slimPod(p *core.Pod) {
	meta := metav1.ObjectMeta{Name: p.Name, Namespace: intern(p.Namespace), UID: p.UID, ResourceVersion: p.ResourceVersion,
		CreationTimestamp: p.CreationTimestamp, DeletionTimestamp: p.DeletionTimestamp, Labels: map[string]string{}}
	for _, key := range []string{jobs.LabelManaged, jobs.LabelSet, jobs.LabelMetric} {
		if value, ok := p.Labels[key]; ok {
			meta.Labels[key] = intern(value)
		}
	}
	status := core.PodStatus{Phase: core.PodPhase(intern(string(p.Status.Phase))), PodIP: p.Status.PodIP,
		InitContainerStatuses: slimStatuses(p.Status.InitContainerStatuses), ContainerStatuses: slimStatuses(p.Status.ContainerStatuses)}
	for _, c := range p.Status.Conditions {
		if c.Type == core.PodScheduled && c.Status == core.ConditionFalse {
			status.Conditions = append(status.Conditions, c)
		}
	}
	spec := core.PodSpec{NodeName: intern(p.Spec.NodeName), InitContainers: slimContainers(p.Spec.InitContainers),
		Containers: slimContainers(p.Spec.Containers)}
	*p = core.Pod{ObjectMeta: meta, Spec: spec, Status: status}
}

func slimContainers(list []core.Container) (out []core.Container) {
	for _, c := range list {
		out = append(out, core.Container{Name: intern(c.Name), Ports: c.Ports, Resources: c.Resources})
	}
	return out
}

func slimStatuses(list []core.ContainerStatus) (out []core.ContainerStatus) {
	for _, c := range list {
		out = append(out, core.ContainerStatus{Name: intern(c.Name), Image: intern(c.Image), ImageID: intern(c.ImageID), State: c.State})
	}
	return out
}

// intern returns the shared copy of a text.
func intern(s string) string { return unique.Make(s).Value() }

// checkDefinitions checks that the custom resource definitions are ours, and installs them if requested.
func checkDefinitions(ctx context.Context, c client.Client, install, adopt bool, log *slog.Logger) error {
	for _, read := range []func() (*apiextensions.CustomResourceDefinition, error){crd.MetricSets, crd.MetricRuns} {
		want, err := read()
		if err != nil {
			return err
		}
		// The API server writes their status meanwhile.
		err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			return checkDefinition(ctx, c, want.DeepCopy(), install, adopt, log)
		})
		if err != nil {
			return err
		}
		if err := awaitEstablished(ctx, c, want.Name); err != nil {
			return err
		}
	}
	return nil
}

func checkDefinition(ctx context.Context, c client.Client, want *apiextensions.CustomResourceDefinition, install, adopt bool,
	log *slog.Logger) error {
	have := &apiextensions.CustomResourceDefinition{}
	err := c.Get(ctx, client.ObjectKey{Name: want.Name}, have)
	switch {
	case apierrors.IsNotFound(err) && install:
		return c.Create(ctx, want)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the definition %s is missing: install it by the chart, or start with --crds", want.Name)
	case err != nil:
		return err
	case have.Labels[crd.Label] != crd.LabelValue && !adopt:
		return fmt.Errorf("the definition %s was installed by somebody else: remove the other operator, and start with --adopt", want.Name)
	case install || have.Labels[crd.Label] != crd.LabelValue:
		log.Info("update definition", "name", want.Name)
		want.ResourceVersion = have.ResourceVersion
		return c.Update(ctx, want)
	}
	return nil
}

// awaitEstablished waits until the API server serves a definition.
func awaitEstablished(ctx context.Context, c client.Client, name string) error {
	for {
		have := &apiextensions.CustomResourceDefinition{}
		if err := c.Get(ctx, client.ObjectKey{Name: name}, have); err != nil {
			return err
		}
		for _, cond := range have.Status.Conditions {
			if cond.Type == apiextensions.Established && cond.Status == apiextensions.ConditionTrue {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

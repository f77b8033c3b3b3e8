package graphfeed

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"reckon/graph/telemetry"
	"reckon/kubernetes/operator/cutoff"
)

// cluster is a real API server and etcd, a real reckon server, and the feed between them, which reaches the API server through a relay that
// can be cut. There are no controllers: the test makes the ReplicaSets and pods of its Deployments itself.
type cluster struct {
	t      *testing.T
	c      *kubernetes.Clientset
	config *rest.Config
	relay  *cutoff.Relay
	graph  string // address of the reckon server
}

// TestClusterEqualsGraph applies, scales and deletes Deployments in a cluster of many nodes. The graph then has what the cluster has, also
// after the operator was cut off until its watches were too old to go on.
func TestClusterEqualsGraph(t *testing.T) {
	k := startCluster(t)
	nodes, deployments := size("RECKON_TEST_NODES", 50), size("RECKON_TEST_DEPLOYMENTS", 20)
	k.each(nodes, func(ctx context.Context, i int) error { return k.node(ctx, i) })
	stop := k.feed()
	k.each(deployments, func(ctx context.Context, i int) error { return k.deploy(ctx, i, 2, nodes) })
	k.settle("after Deployments were applied")
	k.each(deployments, func(ctx context.Context, i int) error { return k.scale(ctx, i, 2, 4, nodes) })
	k.settle("after they were scaled")
	k.each(deployments/2, func(ctx context.Context, i int) error { return k.remove(ctx, i, 4) })
	k.settle("after half of them were deleted")

	before := k.versions()
	for range 3 { // a cluster that rests, but for heartbeats
		k.heartbeat(nodes)
	}
	k.settle("after heartbeats")
	if now := k.versions(); !equal(before, now) {
		t.Error("the graph of a cluster that rests was written")
	}

	k.relay.Cut()
	old := k.version()
	k.each(deployments/4, func(ctx context.Context, i int) error { return k.remove(ctx, deployments/2+i, 4) })
	k.each(deployments/4, func(ctx context.Context, i int) error { return k.deploy(ctx, deployments+i, 3, nodes) })
	k.relay.RestartAPIServer(t, func() bool {
		_, err := k.c.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{Limit: 1})
		return err == nil
	})
	k.gone(old)
	k.relay.Restore()
	k.settle("after the watches were too old")

	stop() // an operator that was away while objects came and went
	k.each(deployments/4, func(ctx context.Context, i int) error { return k.remove(ctx, deployments+i, 3) })
	before = k.versions()
	k.feed()
	k.settle("after a restart")
	kept := 0
	for id, v := range k.versions() {
		if before[id] == v {
			kept++
		} else {
			t.Error("a restart wrote again", id)
		}
	}
	if kept == 0 {
		t.Error("nothing is left of the graph")
	}
	k.predictor()
}

func size(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS names no folder with etcd and kube-apiserver: make e2e-operator")
	}
	env := &envtest.Environment{ControlPlaneStartTimeout: 3 * time.Minute, ControlPlaneStopTimeout: time.Minute}
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Log(err) // the first API server was killed
		}
	})
	config.QPS, config.Burst = 1000, 1000
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	k := &cluster{t: t, c: c, config: config}
	k.relay = cutoff.New(t, strings.Trim(strings.TrimPrefix(config.Host, "https:"), "/"))
	k.graph = k.server()
	return k
}

// server builds and starts a reckon server.
func (k *cluster) server() string {
	k.t.Helper()
	dir := k.t.TempDir()
	program := filepath.Join(dir, "reckon")
	build := exec.Command("go", "build", "-trimpath", "-o", program, "./cmd/reckon")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		k.t.Fatalf("build reckon: %v\n%s", err, out)
	}
	addr := freeAddress(k.t)
	serve := exec.Command(program, "serve", "--listen", addr, "--data", filepath.Join(dir, "data"))
	if err := serve.Start(); err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() {
		_ = serve.Process.Signal(syscall.SIGTERM)
		_ = serve.Wait()
	})
	k.until("the server answers", time.Minute, func() bool {
		res, err := http.Get("http://" + addr + "/subgraphs_versions")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return "http://" + addr
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// feed runs a feed until the returned function is called.
func (k *cluster) feed() (stop func()) {
	k.t.Helper()
	config := rest.CopyConfig(k.config)
	config.Host = "https://" + k.relay.Addr()
	f, err := New(config, Options{Server: k.graph, Links: telemetry.Links{URL: k.graph, Loki: "http://loki:3100"}, Log: slog.New(slog.NewTextHandler(k.t.Output(), nil))})
	if err != nil {
		k.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			k.t.Error(err)
		}
	})
	k.t.Cleanup(stop)
	return stop
}

func (k *cluster) until(what string, limit time.Duration, done func() bool) {
	k.t.Helper()
	if !k.within(limit, done) {
		k.t.Fatalf("%s: not within %s", what, limit)
	}
}

func (k *cluster) within(limit time.Duration, done func() bool) bool {
	deadline := time.After(limit)
	for wait := 100 * time.Millisecond; !done(); wait = min(2*wait, 5*time.Second) { // the question itself takes time
		select {
		case <-deadline:
			return false
		case <-time.After(wait):
		}
	}
	return true
}

// each does n things, eight at once.
func (k *cluster) each(n int, do func(ctx context.Context, i int) error) {
	k.t.Helper()
	next, errs := make(chan int), make(chan error, n)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range next {
				errs <- do(k.t.Context(), i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			k.t.Fatal(err)
		}
	}
}

const namespace = "default"

func nodeName(i int) string { return fmt.Sprintf("node-%04d", i) }

func (k *cluster) node(ctx context.Context, i int) error {
	n, err := k.c.CoreV1().Nodes().Create(ctx, &core.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	n.Status.Allocatable = core.ResourceList{core.ResourceCPU: quantity.MustParse("1930m"), core.ResourceMemory: quantity.MustParse("1Ti")}
	n.Status.Conditions = []core.NodeCondition{{Type: core.NodeReady, Status: core.ConditionTrue, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now()}}
	_, err = k.c.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
	return err
}

// heartbeat reports about every node that it is as it was.
func (k *cluster) heartbeat(nodes int) {
	k.each(nodes, func(ctx context.Context, i int) error {
		n, err := k.c.CoreV1().Nodes().Get(ctx, nodeName(i), metav1.GetOptions{})
		if err != nil {
			return err
		}
		n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(n.Status.Conditions[0].LastHeartbeatTime.Add(time.Second))
		_, err = k.c.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
		return err
	})
}

func deploymentName(i int) string { return fmt.Sprintf("d%04d", i) }

const hash = "5d4f"

func (k *cluster) deploy(ctx context.Context, i, replicas, nodes int) error {
	name := deploymentName(i)
	labels := map[string]string{"app": name, "pod-template-hash": hash}
	template := core.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: core.PodSpec{Containers: []core.Container{{
		Name: "main", Image: "example.local/none:1", Resources: core.ResourceRequirements{Requests: core.ResourceList{core.ResourceCPU: quantity.MustParse("250m")}},
	}}}}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	d, err := k.c.AppsV1().Deployments(namespace).Create(ctx, &apps.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: apps.DeploymentSpec{Selector: selector, Template: template}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	owner := *metav1.NewControllerRef(d, apps.SchemeGroupVersion.WithKind("Deployment"))
	rs := &apps.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + hash, Labels: labels, OwnerReferences: []metav1.OwnerReference{owner}}, Spec: apps.ReplicaSetSpec{Selector: selector, Template: template}}
	if _, err := k.c.AppsV1().ReplicaSets(namespace).Create(ctx, rs, metav1.CreateOptions{}); err != nil {
		return err
	}
	return k.scale(ctx, i, 0, replicas, nodes)
}

func podName(i, j int) string { return fmt.Sprintf("%s-%s-x%d", deploymentName(i), hash, j) }

func (k *cluster) scale(ctx context.Context, i, from, to, nodes int) error {
	rs, err := k.c.AppsV1().ReplicaSets(namespace).Get(ctx, deploymentName(i)+"-"+hash, metav1.GetOptions{})
	if err != nil {
		return err
	}
	owner := *metav1.NewControllerRef(rs, apps.SchemeGroupVersion.WithKind("ReplicaSet"))
	for j := from; j < to; j++ {
		p := &core.Pod{ObjectMeta: metav1.ObjectMeta{Name: podName(i, j), Labels: rs.Labels, OwnerReferences: []metav1.OwnerReference{owner}}, Spec: rs.Spec.Template.Spec}
		p.Spec.NodeName = nodeName((i*7 + j) % nodes)
		if p, err = k.c.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
			return err
		}
		now := metav1.Now()
		p.Status.Phase, p.Status.StartTime = core.PodRunning, &now
		if _, err := k.c.CoreV1().Pods(namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (k *cluster) remove(ctx context.Context, i, replicas int) error {
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	for j := range replicas {
		if err := k.c.CoreV1().Pods(namespace).Delete(ctx, podName(i, j), now); err != nil {
			return err
		}
	}
	if err := k.c.AppsV1().ReplicaSets(namespace).Delete(ctx, deploymentName(i)+"-"+hash, now); err != nil {
		return err
	}
	return k.c.AppsV1().Deployments(namespace).Delete(ctx, deploymentName(i), now)
}

func (k *cluster) get(path string, into any) {
	k.t.Helper()
	res, err := http.Get(k.graph + path)
	if err != nil {
		k.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		k.t.Fatalf("%s: %s, %v: %s", path, res.Status, err, raw)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		k.t.Fatal(err)
	}
}

// versions are those of all subgraphs of the operator.
func (k *cluster) versions() map[string]int64 {
	var all map[string]int64
	k.get("/subgraphs_versions", &all)
	for id := range all {
		if !strings.Contains(id, "/kubernetes/") {
			delete(all, id)
		}
	}
	return all
}

func equal(a, b map[string]int64) bool {
	if len(a) != len(b) {
		return false
	}
	for id, v := range a {
		if b[id] != v {
			return false
		}
	}
	return true
}

// query answers rows as one line of text each.
func (k *cluster) query(text string) (out []string) {
	k.t.Helper()
	var answer struct {
		Head    struct{ Vars []string }
		Results struct {
			Bindings []map[string]struct{ Value string }
		}
	}
	k.get("/sparql?query="+url.QueryEscape(text), &answer)
	for _, b := range answer.Results.Bindings {
		var line []string
		for _, v := range answer.Head.Vars {
			line = append(line, b[v].Value)
		}
		out = append(out, strings.Join(line, " "))
	}
	slices.Sort(out)
	return out
}

const prefix = "PREFIX rk: <urn:reckon:ns#> PREFIX qudt: <http://qudt.org/schema/qudt/> "

// settle waits until the graph has what the cluster has: every Deployment, ReplicaSet, pod and node, where pods run, what they belong to
// and what they ask for.
func (k *cluster) settle(when string) {
	k.t.Helper()
	var want []string
	add := func(kind, uid, on, of, asks string) {
		want = append(want, strings.Join([]string{kind, uid, on, of, asks}, " "))
	}
	ctx := k.t.Context()
	deployments, err := k.c.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	k.must(err)
	for _, d := range deployments.Items {
		add("Deployment", string(d.UID), "", "", "2.5E-1")
	}
	sets, err := k.c.AppsV1().ReplicaSets("").List(ctx, metav1.ListOptions{})
	k.must(err)
	for _, s := range sets.Items {
		add("ReplicaSet", string(s.UID), "", string(s.OwnerReferences[0].UID), "2.5E-1")
	}
	pods, err := k.c.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	k.must(err)
	for _, p := range pods.Items {
		add("Pod", string(p.UID), p.Spec.NodeName, string(p.OwnerReferences[0].UID), "2.5E-1")
	}
	slices.Sort(want)
	nodes, err := k.c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	k.must(err)
	var machines []string
	for _, n := range nodes.Items {
		machines = append(machines, n.Name+" Ready 1.93E0")
	}
	slices.Sort(machines)
	began := time.Now()
	var got, have []string
	same := k.within(time.Minute+time.Duration(len(want))*200*time.Millisecond, func() bool {
		got = k.query(prefix + `SELECT ?kind ?uid ?on ?of ?asks WHERE { ?w a rk:Workload ; rk:kind ?kind ; rk:uid ?uid . FILTER(?kind IN ("Deployment", "ReplicaSet", "Pod"))
			OPTIONAL { ?w rk:runsOn ?n . ?n rk:name ?on } OPTIONAL { ?w rk:partOf ?o . ?o rk:uid ?of } OPTIONAL { ?w rk:request ?r . ?r rk:resource "CPU" ; qudt:numericValue ?v BIND(str(?v) AS ?asks) } }`)
		have = k.query(prefix + `SELECT ?name ?state ?cpu WHERE { ?n a rk:Node ; rk:name ?name ; rk:state ?state ; rk:allocatable ?a . ?a rk:resource "CPU" ; qudt:numericValue ?v BIND(str(?v) AS ?cpu) FILTER(STRSTARTS(?name, "node-")) }`)
		return slices.Equal(got, want) && slices.Equal(have, machines)
	})
	if !same {
		k.t.Fatalf("%s: the graph has not what the cluster has:\n%s", when, firstDifference(append(got, have...), append(want, machines...)))
	}
	k.t.Logf("%s: %d workloads and %d nodes after %s", when, len(want), len(machines), time.Since(began).Round(100*time.Millisecond))
}

func firstDifference(got, want []string) string {
	for i := range max(len(got), len(want)) {
		a, b := "nothing", "nothing"
		if i < len(got) {
			a = got[i]
		}
		if i < len(want) {
			b = want[i]
		}
		if a != b {
			return fmt.Sprintf("%d lines, want %d; line %d is %q, want %q", len(got), len(want), i, a, b)
		}
	}
	return ""
}

func (k *cluster) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

// version is the newest of the cluster.
func (k *cluster) version() string {
	list, err := k.c.CoreV1().Pods("").List(k.t.Context(), metav1.ListOptions{})
	k.must(err)
	return list.ResourceVersion
}

// gone holds that nobody can watch from a version any more.
func (k *cluster) gone(version string) {
	k.t.Helper()
	w, err := k.c.CoreV1().Pods("").Watch(k.t.Context(), metav1.ListOptions{ResourceVersion: version})
	if err == nil {
		defer w.Stop()
		err = apierrors.FromObject((<-w.ResultChan()).Object)
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		k.t.Fatalf("a watch from version %s is answered %v, want 410 Gone", version, err)
	}
}

// predictor walks from a Deployment to the query of its processor time, and knows nothing else.
func (k *cluster) predictor() {
	k.t.Helper()
	rows := k.query(prefix + `SELECT ?name ?type ?url ?query WHERE { ?w rk:kind "Deployment" ; rk:name ?name ; rk:telemetry/rk:hasMetrics ?m . ?m rk:source ?s . ?s rk:sourceType ?type ; rk:url ?url .
		?m rk:series ?f . ?f rk:metricName "reckon_workload_cpu_seconds_total" ; rk:query ?query }`)
	if len(rows) == 0 {
		k.t.Fatal("no Deployment has metrics")
	}
	for _, row := range rows {
		f := strings.SplitN(row, " ", 4)
		if want := `sum(rate(reckon_workload_cpu_seconds_total{workload="deployment/default/` + f[0] + `"}[5m]))`; f[1] != "prometheus" || f[2] != k.graph || f[3] != want {
			k.t.Error(row)
		}
		var answer struct{ Status string }
		if k.get("/api/v1/query?query="+url.QueryEscape(f[3]), &answer); answer.Status != "success" {
			k.t.Error(row, answer)
		}
	}
}

package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"reckon/kubernetes/operator/api/metricrun"
	"reckon/kubernetes/operator/api/v1alpha2"
	"reckon/kubernetes/operator/jobs"
	"reckon/kubernetes/operator/metricset"
	reckon "reckon/web/client"
)

// probe is the wire of a probe: pages over HTTP. The real one is `reckon-agent probe`.
type probe struct {
	mu      sync.Mutex
	start   time.Time
	samples []reckon.ProbeSample
	ended   bool
	kept    int64 // the highest that a reader said it kept
	asked   int
	result  *reckon.ProbeResult
}

func (p *probe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	after, _ := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	kept, _ := strconv.ParseInt(r.URL.Query().Get("kept"), 10, 64)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept, p.asked = max(p.kept, kept), p.asked+1
	page := reckon.ProbePage{Start: p.start, Kernel: "6.18.0", Last: int64(len(p.samples)), Ended: p.ended, Reason: map[bool]string{true: "completions"}[p.ended], Result: p.result, Samples: []reckon.ProbeSample{}}
	for _, s := range p.samples {
		if s.Seq > after {
			page.Samples = append(page.Samples, s)
		}
	}
	_ = json.NewEncoder(w).Encode(page)
}

// add measures n more samples of 0.3 s of processor time each.
func (p *probe) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range n {
		i := len(p.samples)
		cpu, rss := 0.3, float64(1<<20+i)
		s := reckon.ProbeSample{Seq: int64(i + 1), From: p.start.Add(time.Duration(i) * time.Second), To: p.start.Add(time.Duration(i+1) * time.Second), Total: reckon.ProbeUse{CPUSeconds: &cpu, ResidentBytes: &rss}}
		s.Commands = []reckon.ProbeRow{{Command: "stress", ProbeUse: reckon.ProbeUse{CPUSeconds: &cpu}}}
		p.samples = append(p.samples, s)
	}
}

func (p *probe) end() { p.mu.Lock(); p.ended = true; p.mu.Unlock() }

// cluster is an API server in memory with one operator.
type cluster struct {
	t      *testing.T
	client client.Client
	r      *Reconciler
	stop   context.CancelFunc
	probe  *probe
	server *httptest.Server
	keep   func() Runs // nil: MetricRuns
}

func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha2.AddToScheme, metricrun.AddToScheme, jobset.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	c := &cluster{t: t, probe: &probe{start: time.Now().Truncate(time.Microsecond).Add(1500)}} // nanoseconds, as a probe has them and a MetricRun not
	c.client = fake.NewClientBuilder().WithScheme(s).WithIndex(&core.Pod{}, podSetIndex, indexPodBySet).
		WithIndex(&core.Event{}, "involvedObject.kind", func(o client.Object) []string { return []string{o.(*core.Event).InvolvedObject.Kind} }).
		WithIndex(&core.Event{}, "reason", func(o client.Object) []string { return []string{o.(*core.Event).Reason} }).
		WithStatusSubresource(&v1alpha2.MetricSet{}, &jobset.JobSet{}, &core.Pod{}).WithObjects(objects...).Build()
	c.server = httptest.NewServer(c.probe)
	t.Cleanup(c.server.Close)
	c.operator()
	return c
}

// operator starts an operator in place of the one before, which is ended at once.
func (c *cluster) operator() {
	if c.stop != nil {
		c.stop()
	}
	ctx, stop := context.WithCancel(c.t.Context())
	c.stop = stop
	var runs Runs = &Objects{Client: c.client, Live: c.client}
	if c.keep != nil {
		runs = c.keep()
	}
	collect := &Collector{Runs: runs, Port: 9878, Log: slog.New(slog.DiscardHandler), Flush: 20 * time.Millisecond,
		Address: func(*core.Pod) string { return strings.TrimPrefix(c.server.URL, "http://") }}
	collect.ctx = ctx
	c.r = &Reconciler{Client: c.client, Live: c.client, Jobs: jobs.Config{ProbeImage: "agent", ProbePort: 9878, TTL: 60}, Collect: collect}
}

func (c *cluster) look(name string) *v1alpha2.MetricSet {
	c.t.Helper()
	key := types.NamespacedName{Namespace: "demo", Name: name}
	if _, err := c.r.Reconcile(c.t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		c.t.Fatal(err)
	}
	ms := &v1alpha2.MetricSet{}
	if err := c.client.Get(c.t.Context(), key, ms); err != nil && client.IgnoreNotFound(err) != nil {
		c.t.Fatal(err)
	}
	return ms
}

// until looks again until a condition of the test holds.
func (c *cluster) until(what string, done func() bool) {
	c.t.Helper()
	deadline := time.After(20 * time.Second)
	for !done() {
		select {
		case <-deadline:
			c.t.Fatalf("%s: not within 20 s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (c *cluster) run(ms *v1alpha2.MetricSet) *metricrun.Run {
	c.t.Helper()
	run := &metricrun.MetricRun{}
	if err := c.client.Get(c.t.Context(), types.NamespacedName{Namespace: "demo", Name: runName(ms)}, run); err != nil {
		c.t.Fatal(err)
	}
	return &run.Run
}

func set(t *testing.T, name, metrics string) *v1alpha2.MetricSet {
	t.Helper()
	sets, err := metricset.Decode(strings.NewReader("apiVersion: flux-framework.org/v1alpha2\nkind: MetricSet\nmetadata: {name: " + name + "}\nspec:\n  metrics: [" + metrics + "]\n"))
	if err != nil {
		t.Fatal(err)
	}
	sets[0].Namespace, sets[0].UID, sets[0].Generation = "demo", types.UID("uid-"+name), 1
	return sets[0]
}

const sidecar = "{name: perf-sysstat, options: {attach: sidecar, rate: 1, completions: 30}, addons: [{name: application, options: {image: busybox, command: sleep 30}}]}"

// pod is the pod that the JobSet controller and a kubelet make of a set.
func pod(name string) *core.Pod {
	always := core.ContainerRestartPolicyAlways
	running := core.ContainerState{Running: &core.ContainerStateRunning{StartedAt: metav1.Now()}}
	return &core.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name + "-perf-sysstat-0-0-0-abcde", UID: types.UID("pod-" + name), Labels: map[string]string{jobs.LabelManaged: jobs.Manager, jobs.LabelSet: name, jobs.LabelMetric: "perf-sysstat-0"}},
		Spec: core.PodSpec{NodeName: "node0",
			InitContainers: []core.Container{{Name: jobs.ProbeContainer, RestartPolicy: &always, Ports: []core.ContainerPort{{Name: "probe", ContainerPort: 9878}}}},
			Containers:     []core.Container{{Name: "app-addon"}}},
		Status: core.PodStatus{Phase: core.PodRunning, PodIP: "127.0.0.1",
			InitContainerStatuses: []core.ContainerStatus{{Name: jobs.ProbeContainer, State: running, ImageID: "sha256:b"}},
			ContainerStatuses:     []core.ContainerStatus{{Name: "app-addon", State: running}}}, // its image is known later
	}
}

func (c *cluster) complete(name, condition string) {
	c.t.Helper()
	js := &jobset.JobSet{}
	if err := c.client.Get(c.t.Context(), types.NamespacedName{Namespace: "demo", Name: name}, js); err != nil {
		c.t.Fatal(err)
	}
	js.Status.Conditions = []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue, Reason: "AllJobsCompleted", LastTransitionTime: metav1.Now()}}
	if err := c.client.Status().Update(c.t.Context(), js); err != nil {
		c.t.Fatal(err)
	}
}

func wantCondition(t *testing.T, ms *v1alpha2.MetricSet, kind string, on bool, reason string) {
	t.Helper()
	c := meta.FindStatusCondition(ms.Status.Conditions, kind)
	if c == nil || (c.Status == metav1.ConditionTrue) != on || reason != "" && c.Reason != reason {
		t.Errorf("condition %s is %+v, want %v %s", kind, c, on, reason)
	}
}

func TestLife(t *testing.T) {
	c := newCluster(t, set(t, "a", sidecar))
	ms := c.look("a")
	wantCondition(t, ms, "Accepted", true, "Accepted")
	wantCondition(t, ms, "Running", false, "PodsPending")
	js := &jobset.JobSet{}
	if err := c.client.Get(t.Context(), types.NamespacedName{Namespace: "demo", Name: "a"}, js); err != nil {
		t.Fatal(err)
	}
	if !metav1.IsControlledBy(js, ms) || *js.Spec.TTLSecondsAfterFinished != 60 {
		t.Errorf("JobSet %+v", js)
	}
	if err := c.client.Create(t.Context(), pod("a")); err != nil {
		t.Fatal(err)
	}
	c.probe.add(3)
	wantCondition(t, c.look("a"), "Running", true, "PodsRunning")
	c.until("three samples", func() bool { return c.look("a").Status.Samples == 3 })
	c.probe.add(27)
	c.probe.end()
	p := pod("a")
	if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
		t.Fatal(err)
	}
	p.Status.Phase = core.PodSucceeded
	p.Status.ContainerStatuses[0].ImageID = "sha256:a"
	p.Status.ContainerStatuses[0].State = core.ContainerState{Terminated: &core.ContainerStateTerminated{ExitCode: 3, StartedAt: metav1.Now(), FinishedAt: metav1.Now()}}
	if err := c.client.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	c.complete("a", string(jobset.JobSetCompleted))
	ms = c.look("a")
	wantCondition(t, ms, "Complete", true, "Finished")
	wantCondition(t, ms, "Running", false, "")
	wantCondition(t, ms, "Degraded", false, "")
	run := c.run(ms)
	if run.Outcome != "Finished" || run.Finished == nil || len(run.Pods) != 1 || run.Metrics[0].Options["rate"] != "1" {
		t.Fatalf("run %+v", run)
	}
	have := run.Pods[0]
	if have.Samples != 30 || len(have.Series) != 30 || have.Kernel != "6.18.0" || have.Images["app-addon"] != "sha256:a" || have.Node != "node0" || *have.ExitCode != 3 || have.Ended != "completions" {
		t.Errorf("pod %+v", have)
	}
	if cpu := have.Total["cpu_seconds"]; math.Abs(cpu-9) > 1e-9 {
		t.Errorf("%g s in all", cpu)
	}
	if cpu := have.Commands[0].Use["cpu_seconds"]; math.Abs(cpu-9) > 1e-9 {
		t.Errorf("%g s of stress", cpu)
	}
	c.probe.mu.Lock()
	defer c.probe.mu.Unlock()
	if c.probe.kept != 30 {
		t.Errorf("the probe knows that %d samples are kept", c.probe.kept)
	}
}

// TestOperatorKilled ends the operator again and again while samples come: none is lost, none is there
// twice, and there is one JobSet.
func TestOperatorKilled(t *testing.T) {
	c := newCluster(t, set(t, "a", sidecar))
	c.look("a")
	if err := c.client.Create(t.Context(), pod("a")); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		c.probe.add(3)
		c.look("a")
		asked := func() int { c.probe.mu.Lock(); defer c.probe.mu.Unlock(); return c.probe.asked }
		before := asked()
		c.until("a question to the probe", func() bool { return asked() > before })
		if i%2 == 1 { // and not only between reading and keeping
			c.until("samples in the run", func() bool {
				return len(c.run(c.look("a")).Pods) > 0 && c.run(c.look("a")).Pods[0].Samples == int64(3*(i+1))
			})
		}
		if i < 9 {
			c.operator()
		}
	}
	c.probe.end()
	c.complete("a", string(jobset.JobSetCompleted))
	ms := c.look("a")
	run := c.run(ms)
	if n := len(run.Pods[0].Series); n != 30 || run.Pods[0].Samples != 30 {
		t.Fatalf("%d samples of %d", n, run.Pods[0].Samples)
	}
	for i, s := range run.Pods[0].Series {
		if want := c.probe.samples[i].From.Truncate(time.Microsecond); s.Seq != int64(i+1) || !s.From.Time.Equal(want) {
			t.Errorf("sample %d is %d from %v, want %v", i+1, s.Seq, s.From, want)
		}
	}
	if why := run.Pods[0].Incomplete; why != "" {
		t.Errorf("incomplete: %s", why)
	}
	if cpu := run.Pods[0].Total["cpu_seconds"]; math.Abs(cpu-9) > 1e-9 {
		t.Errorf("%g s in all", cpu)
	}
	var list jobset.JobSetList
	if err := c.client.List(t.Context(), &list); err != nil || len(list.Items) != 1 {
		t.Errorf("%d JobSets, %v", len(list.Items), err)
	}
}

// TestProbeRestarted: a probe that was started again counts anew. Nothing is taken twice, exactly so many
// samples are kept, and the run states that something is missing.
func TestProbeRestarted(t *testing.T) {
	c := newCluster(t, set(t, "a", sidecar))
	c.look("a")
	if err := c.client.Create(t.Context(), pod("a")); err != nil {
		t.Fatal(err)
	}
	c.probe.add(10)
	c.until("ten samples", func() bool { return c.look("a").Status.Samples == 10 })
	c.probe.mu.Lock()
	c.probe.start, c.probe.samples = c.probe.start.Add(time.Minute), nil
	c.probe.mu.Unlock()
	c.probe.add(30)
	c.probe.end()
	c.until("the others", func() bool { return c.look("a").Status.Samples >= 30 })
	c.complete("a", string(jobset.JobSetCompleted))
	p := c.run(c.look("a")).Pods[0]
	if len(p.Series) != 30 || p.Samples != 30 || p.Offset != 10 || !strings.Contains(p.Incomplete, "started again") {
		t.Errorf("%d samples, %d, offset %d, %q", len(p.Series), p.Samples, p.Offset, p.Incomplete)
	}
}

func TestRefusals(t *testing.T) {
	const volume = "{name: io-probe, addons: [{name: volume-pvc, options: {name: d, path: /d, claimName: missing}}]}"
	c := newCluster(t, set(t, "bad", "{name: perf-top}"), set(t, "agent", strings.Replace(sidecar, "sidecar", "agent", 1)), set(t, "volume", volume),
		set(t, "live", `{name: perf-sysstat, options: {selector: "app=web", completions: 3}}`), set(t, "taken", sidecar), set(t, "a", sidecar),
		&jobset.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "taken"}})
	for name, reason := range map[string]string{"bad": "Invalid", "agent": "NoServer", "volume": "VolumeNotFound", "live": "NotAllowed", "taken": "NameTaken"} {
		ms := c.look(name)
		wantCondition(t, ms, "Accepted", false, reason)
		if ms.Status.Run != "" || ms.Status.SpecHash != "" {
			t.Errorf("%s was begun", name)
		}
	}
	// The volume appears, and the condition goes away.
	if err := c.client.Create(t.Context(), &core.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "missing"}}); err != nil {
		t.Fatal(err)
	}
	wantCondition(t, c.look("volume"), "Accepted", true, "Accepted")
	c.r.Server = true
	wantCondition(t, c.look("agent"), "Accepted", true, "Accepted")
	// A set that runs cannot change.
	ms := c.look("a")
	ms.Spec.Metrics[0].Name = "sys-hwloc"
	if err := c.client.Update(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
	wantCondition(t, c.look("a"), "Accepted", false, "SpecChanged")
	// Sets share the service, and each owns it; the one whose name was taken had got as far.
	service := &core.Service{}
	if err := c.client.Get(t.Context(), types.NamespacedName{Namespace: "demo", Name: "ms"}, service); err != nil || len(service.OwnerReferences) != 4 {
		t.Errorf("%v, %d owners", err, len(service.OwnerReferences))
	}
}

func TestDegraded(t *testing.T) {
	c := newCluster(t, set(t, "a", sidecar))
	c.look("a")
	p := pod("a")
	p.Status.Phase = core.PodPending
	p.Status.InitContainerStatuses[0].State = core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: "PodInitializing"}}
	p.Status.ContainerStatuses[0].State = core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}
	p.Status.ContainerStatuses[0].Image = "example.org/none:1"
	if err := c.client.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	ms := c.look("a")
	wantCondition(t, ms, "Degraded", true, "ImageMissing")
	if m := meta.FindStatusCondition(ms.Status.Conditions, "Degraded").Message; !strings.Contains(m, "example.org/none:1") || !strings.Contains(m, p.Name) {
		t.Errorf("message %q", m)
	}
	p.Status.ContainerStatuses = nil
	p.Status.Conditions = []core.PodCondition{{Type: core.PodScheduled, Status: core.ConditionFalse, Reason: core.PodReasonUnschedulable, Message: "0/3 nodes are available"}}
	if err := c.client.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	wantCondition(t, c.look("a"), "Degraded", true, "Unschedulable")
	c.complete("a", string(jobset.JobSetFailed))
	ms = c.look("a")
	wantCondition(t, ms, "Complete", true, "Failed")
	if run := c.run(ms); run.Outcome != "Failed" {
		t.Errorf("outcome %s", run.Outcome)
	}
}

// TestDeleted: the run outlives its set.
func TestDeleted(t *testing.T) {
	c := newCluster(t, set(t, "a", sidecar))
	ms := c.look("a")
	if err := c.client.Create(t.Context(), pod("a")); err != nil {
		t.Fatal(err)
	}
	c.probe.add(5)
	c.until("five samples", func() bool { return c.look("a").Status.Samples == 5 })
	if err := c.client.Delete(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
	c.probe.end()
	c.look("a")
	c.until("the end of the run", func() bool { return c.run(ms).Outcome == "Deleted" })
	if p := c.run(ms).Pods[0]; p.Samples != 5 {
		t.Errorf("%d samples", p.Samples)
	}
}

// TestSweep: an operator ends the runs of sets that were deleted while none was there, and no others.
func TestSweep(t *testing.T) {
	c := newCluster(t, set(t, "gone", sidecar), set(t, "here", sidecar))
	gone, here := c.look("gone"), c.look("here")
	if err := c.client.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	c.operator()
	runs := &Objects{Client: c.client, Live: c.client}
	for range 2 {
		if err := runs.Sweep(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		if a, b := c.run(gone).Outcome, c.run(here).Outcome; a != "Deleted" || b != "Running" {
			t.Errorf("the run of the deleted set %s, of the other %s", a, b)
		}
	}
}

// TestProgramLog: what a program in an image of its own printed is in its run when the pod is gone, and no more than fits; that of an
// application that is measured is not read.
func TestProgramLog(t *testing.T) {
	const fio = "{name: io-fio, addons: [{name: volume-empty, options: {name: d, path: /tmp}}]}"
	c := newCluster(t, set(t, "a", fio), set(t, "b", sidecar))
	asked := map[string]string{}
	c.r.Collect.ReadLog = func(_ context.Context, pod types.NamespacedName, container string) (string, error) {
		asked[pod.Name] = container
		return "METADATA START {}\r\n" + strings.Repeat("x", 300<<10) + "\nMETRICS OPERATOR COLLECTION END\n", nil
	}
	for name, metric := range map[string]string{"a": "io-fio-0", "b": "perf-sysstat-0"} {
		c.look(name)
		p := pod(name)
		p.Labels[jobs.LabelMetric] = metric
		if name == "a" {
			p.Spec.InitContainers, p.Status.InitContainerStatuses = nil, nil
			p.Spec.Containers[0].Name, p.Status.ContainerStatuses[0].Name = "storage", "storage"
		}
		if err := c.client.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		c.look(name)
		c.probe.end()
		c.complete(name, string(jobset.JobSetCompleted))
	}
	run := c.run(c.look("a"))
	p := run.Pods[0]
	if len(p.Log) > metricrun.MaxBytes/2 || len(p.Log) < 100<<10 || !strings.HasSuffix(p.Log, "\nMETRICS OPERATOR COLLECTION END\n") || p.Incomplete == "" {
		t.Errorf("%d bytes of the log, incomplete %q", len(p.Log), p.Incomplete)
	}
	if other := c.run(c.look("b")).Pods[0]; other.Log != "" || len(asked) != 1 || asked[p.Name] != "storage" {
		t.Errorf("asked for %v", asked)
	}
}

// TestWaiting: a pod that has a node and no containers after a while is named, with the Secret that it mounts.
func TestWaiting(t *testing.T) {
	c := newCluster(t, set(t, "a", "{name: io-probe, addons: [{name: volume-empty, options: {name: d, path: /d}}, {name: volume-secret, options: {name: s, path: /s, secretName: keys}}]}"))
	c.look("a")
	p := pod("a")
	p.Labels[jobs.LabelMetric], p.Status = "io-probe-0", core.PodStatus{Phase: core.PodPending}
	if err := c.client.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	wantCondition(t, c.look("a"), "Degraded", false, "AsExpected")
	c.r.Collect.mu.Lock()
	for uid, s := range c.r.Collect.seen {
		s.first = s.first.Add(-slowStart)
		c.r.Collect.seen[uid] = s
	}
	c.r.Collect.mu.Unlock()
	ms := c.look("a")
	wantCondition(t, ms, "Degraded", true, "PodsPending")
	if m := meta.FindStatusCondition(ms.Status.Conditions, "Degraded").Message; !strings.Contains(m, "it mounts the Secret keys") {
		t.Error(m)
	}
}

// TestBound: a run fits into one object whatever was measured, and its sums stay exact.
func TestBound(t *testing.T) {
	p := &probe{start: time.Now()}
	p.add(5000)
	run := metricrun.Run{Pods: []Pod{{Name: "a"}}}
	b := sampleBatch{}
	for i := range p.samples {
		p.samples[i].Processes = []reckon.ProbeRow{{PID: 1, Command: fmt.Sprint("command ", i)}}
	}
	b.addPage(reckon.ProbePage{Start: p.start, Samples: p.samples}, 0)
	if err := b.mergeInto(&run.Pods[0]); err != nil {
		t.Fatal(err)
	}
	again := b
	if err := again.mergeInto(&run.Pods[0]); err != nil || len(run.Pods[0].Series) != 5000 {
		t.Fatalf("%d samples, %v", len(run.Pods[0].Series), err)
	}
	if err := shrinkRun(&run, metricrun.MaxBytes); err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(run)
	if len(text) > metricrun.MaxBytes || len(text) < metricrun.MaxBytes/4 {
		t.Errorf("%d bytes", len(text))
	}
	sum := 0.0
	for _, s := range run.Pods[0].Series {
		sum += s.Use["cpu_seconds"]
	}
	if math.Abs(sum-1500) > 1e-6 || math.Abs(run.Pods[0].Total["cpu_seconds"]-1500) > 1e-6 || run.Pods[0].Samples != 5000 || !run.TablesLeftOut || run.Joined < 2 {
		t.Errorf("sum %g, %+v", sum, run.Pods[0].Total)
	}
	if last := run.Pods[0].Series[len(run.Pods[0].Series)-1]; last.Seq != 5000 || !last.To.Time.Equal(p.samples[4999].To) {
		t.Errorf("last %+v", last)
	}
}

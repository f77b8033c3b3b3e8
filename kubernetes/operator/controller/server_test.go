package controller

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"reckon/kubernetes/operator/api/metricrun"
	"reckon/kubernetes/operator/jobs"
	reckon "reckon/web/client"
)

// keeping is the wire of a reckon server: it takes updates of runs and answers what it has. That a server keeps nothing twice
// is tested there (answer).
type keeping struct {
	mu      sync.Mutex
	away    bool
	token   string
	runs    map[string]reckon.MetricRun
	samples map[string]map[int64]int // by pod and number, how often they came
	asked   int
}

func (k *keeping) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	refuse := func(status int, text string) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(reckon.Error{Error: text})
	}
	switch {
	case k.away:
		refuse(http.StatusServiceUnavailable, "away")
		return
	case r.Header.Get("Authorization") != "Bearer "+k.token:
		refuse(http.StatusUnauthorized, "who is it")
		return
	}
	name, keep := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/api/reckon/v1/runs/"), "/keep")
	if !keep {
		var list reckon.MetricRunList
		for _, run := range k.runs {
			list.Runs = append(list.Runs, run)
		}
		_ = json.NewEncoder(w).Encode(list)
		return
	}
	var u reckon.MetricRunUpdate
	if err := json.NewDecoder(r.Body).Decode(&u); err != nil {
		refuse(http.StatusBadRequest, err.Error())
		return
	}
	run, there := k.runs[name]
	if !there && u.Run.Set == "" {
		refuse(http.StatusNotFound, "no such run")
		return
	}
	if u.Run.Set != "" {
		pods := run.Pods
		run = u.Run
		run.Namespace, run.Name, _ = strings.Cut(name, "/")
		run.Pods = pods
	} else if u.Run.Outcome != "" {
		run.Outcome, run.Finished = u.Run.Outcome, u.Run.Finished
	}
	for _, p := range u.Run.Pods {
		run.Pods = append(run.Pods, p)
	}
	k.runs[name] = run
	if k.samples[u.Pod] == nil {
		k.samples[u.Pod] = map[int64]int{}
	}
	for _, s := range u.Samples {
		k.samples[u.Pod][s.Seq]++
	}
	kept := reckon.MetricRunKept{Samples: int64(len(k.samples[u.Pod]))}
	for _, p := range run.Pods {
		if p.UID == u.Pod && p.Probe != nil {
			kept.Start = *p.Probe
		}
	}
	_ = json.NewEncoder(w).Encode(kept)
}

func (k *keeping) do(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

// withServer has a cluster keep its runs in a server.
func withServer(t *testing.T, objects ...client.Object) (*cluster, *keeping) {
	t.Helper()
	k := &keeping{token: "secret", runs: map[string]reckon.MetricRun{}, samples: map[string]map[int64]int{}}
	web := httptest.NewServer(k)
	t.Cleanup(web.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, objects...)
	server, err := NewServer(ServerOptions{URL: web.URL, TokenFile: token})
	if err != nil {
		t.Fatal(err)
	}
	c.keep = func() Runs { return &Server{Client: server, Cached: c.client, Live: c.client, Site: "lab"} }
	c.serve()
	return c, k
}

// serve starts an operator that has a server.
func (c *cluster) serve() {
	c.operator()
	c.r.Server, c.r.ServerURL = true, "https://reckon.example"
}

// TestServerKeepsRuns: samples reach the server, also those of a time in which it or the operator was away; none is sent that it
// has acknowledged, no MetricRun is made, and the status leads to the page of the run.
func TestServerKeepsRuns(t *testing.T) {
	c, k := withServer(t, set(t, "a", sidecar))
	k.do(func() { k.away = true })
	ms := c.look("a")
	wantCondition(t, ms, "Accepted", true, "Accepted")
	wantCondition(t, ms, "Degraded", true, "ServerAway")
	if err := c.client.Create(t.Context(), pod("a")); err != nil {
		t.Fatal(err)
	}
	c.probe.add(15)
	wantCondition(t, c.look("a"), "Running", true, "PodsRunning")
	k.do(func() { k.away = false })
	c.until("the server", func() bool { return !meta.IsStatusConditionTrue(c.look("a").Status.Conditions, "Degraded") })
	got := func() (n int) { k.do(func() { n = len(k.samples["pod-a"]) }); return n }
	c.until("samples of the time before", func() bool { return got() == 15 })
	c.serve() // the one before is killed
	c.probe.add(15)
	c.look("a")
	c.until("samples of the next operator", func() bool { return got() == 30 })
	k.do(func() {
		for seq, n := range k.samples["pod-a"] {
			if n != 1 {
				t.Errorf("sample %d was sent %d times", seq, n)
			}
		}
	})
	c.probe.end()
	c.complete("a", string(jobset.JobSetCompleted))
	k.do(func() { k.away = true })
	key := types.NamespacedName{Namespace: "demo", Name: "a"}
	if _, err := c.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err == nil {
		t.Error("ended without a server")
	}
	if err := c.client.Get(t.Context(), key, ms); err != nil {
		t.Fatal(err)
	}
	wantCondition(t, ms, "Complete", false, "") // the run is kept before anybody hears that it is complete
	wantCondition(t, ms, "Degraded", true, "ServerAway")
	k.do(func() { k.away = false })
	c.until("the end", func() bool { return isFinished(c.look("a")) })
	ms = c.look("a")
	k.do(func() {
		run := k.runs["demo/"+ms.Status.Run]
		if run.Outcome != "Finished" || run.Finished == nil || run.Site != "lab" || run.Origin != "operator" || run.Metrics[0].Job != "perf-sysstat-0" {
			t.Errorf("run %+v", run)
		}
		if last := run.Pods[len(run.Pods)-1]; last.Started == nil || last.Node != "node0" || last.Images["probe"] == "" && last.Images[jobs.ProbeContainer] == "" {
			t.Errorf("pod %+v", last)
		}
	})
	if want := "https://reckon.example/run?name=" + ms.Status.Run + "&namespace=demo"; ms.Status.RunURL != want {
		t.Errorf("status leads to %s, want %s", ms.Status.RunURL, want)
	}
	var objects metricrun.MetricRunList
	if err := c.client.List(t.Context(), &objects); err != nil || len(objects.Items) > 0 {
		t.Errorf("%d MetricRuns beside the server, %v", len(objects.Items), err)
	}
}

// TestServerSweep: the run of a set that was deleted while no operator was there ends; what nobody of ours made stays.
func TestServerSweep(t *testing.T) {
	c, k := withServer(t, set(t, "here", sidecar))
	old := time.Now().Add(-time.Hour)
	here := "demo/" + c.look("here").Status.Run
	k.do(func() {
		one := k.runs[here]
		one.Started = old
		k.runs[here] = one
		k.runs["demo/gone-1"] = reckon.MetricRun{Namespace: "demo", Name: "gone-1", Set: "gone", SetUID: "x", Origin: "operator", Outcome: "Running", Started: old}
		k.runs["demo/log-1"] = reckon.MetricRun{Namespace: "demo", Name: "log-1", Set: "gone", Origin: "metricset-log", Outcome: "Running", Started: old}
	})
	if err := c.keep().Sweep(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	k.do(func() {
		for name, want := range map[string]string{"demo/gone-1": "Deleted", "demo/log-1": "Running", here: "Running"} {
			if got := k.runs[name].Outcome; got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	})
}

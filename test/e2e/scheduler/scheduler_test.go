//go:build e2e

package scheduler

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"reckon/answer"
	"reckon/catalogue/database"
	"reckon/figure"
	"reckon/store"
	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

const (
	nodeCount, podCount = 10, 100
	nodeCores           = 16.0
)

// measured is the nodes as the views list them.
type measured []client.Node

func (m measured) NodesAsOf(_ context.Context, now time.Time) ([]client.Node, time.Time, error) {
	return m, now, nil
}

// reckon serves rankings of ten nodes of 16 cores; node i draws 100 W when idle and 5 W more for each core than node i-1.
func reckon(t *testing.T) *httptest.Server {
	t.Helper()
	c, err := database.Open(filepath.Join(t.TempDir(), "c.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	now := time.Now().UTC()
	v := func(x float64) *float64 { return &x }
	var nodes measured
	var hours []store.NodeUse
	from := now.AddDate(0, 0, -3).Truncate(time.Hour)
	to := from.Add(72 * time.Hour)
	for i := range nodeCount {
		name := fmt.Sprintf("n%d", i)
		nodes = append(nodes, client.Node{Node: name, Agent: true, Up: true, Seen: now, Cores: v(nodeCores), CoresUsed: v(1), MemoryBytes: v(64 << 30), MemoryUsed: v(1 << 30)})
		for h := range 72 {
			used := float64(h%10) / 10
			hours = append(hours, store.NodeUse{At: from.Add(time.Duration(h) * time.Hour), Node: name, Capacity: figure.Capacity{UpSeconds: v(3600), CoreSeconds: v(3600 * nodeCores),
				CoreUsedSeconds: v(3600 * nodeCores * used), NodeJoules: v(3600 * (100 + nodeCores*used*5*float64(i+1)))}})
		}
	}
	if err := c.ReplaceHours(t.Context(), from, to, nil, hours); err != nil {
		t.Fatal(err)
	}
	r := &answer.Ranks{Views: nodes, Rollups: c, Forecasts: c, Gone: 20 * time.Minute, Clock: time.Now}
	if err := r.Fit(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(api.New(api.Options{Backend: apitest.Site(now), Ranks: r}))
	t.Cleanup(s.Close)
	return s
}

// object is one of Kubernetes.
type object map[string]any

// place creates the pods one after the other, and reports on which node each was bound.
func (b *bed) place() map[string]string {
	b.t.Helper()
	for i := range podCount {
		b.must(http.MethodPost, "/api/v1/namespaces/default/pods", object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": fmt.Sprintf("p%03d", i)},
			"spec": object{"containers": []object{{"name": "c", "image": "none", "resources": object{"requests": object{"cpu": "1", "memory": "64Mi"}}}}}}, nil)
	}
	on := map[string]string{}
	b.until("all pods are bound", 5*time.Minute, func() bool {
		var list struct {
			Items []struct {
				Metadata struct{ Name string }
				Spec     struct{ NodeName string }
			}
		}
		b.must(http.MethodGet, "/api/v1/namespaces/default/pods", nil, &list)
		clear(on)
		for _, p := range list.Items {
			if p.Spec.NodeName != "" {
				on[p.Metadata.Name] = p.Spec.NodeName
			}
		}
		return len(on) == podCount
	})
	b.must(http.MethodDelete, "/api/v1/namespaces/default/pods", object{"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}, nil)
	b.until("all pods are gone", time.Minute, func() bool {
		var list struct{ Items []object }
		b.must(http.MethodGet, "/api/v1/namespaces/default/pods", nil, &list)
		return len(list.Items) == 0
	})
	return on
}

// schedule runs a scheduler with a configuration while the pods are placed. Nothing but the ranking scores.
func (b *bed) schedule(program, config string) map[string]string {
	b.t.Helper()
	b.write("scheduler.yaml", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nleaderElection: {leaderElect: false}\nclientConnection: {kubeconfig: "+b.path("kubeconfig")+"}\n"+config)
	stop := b.start("scheduler", program, "--config", b.path("scheduler.yaml"), "--secure-port", fmt.Sprint(freePort(b.t)), "--bind-address", "127.0.0.1", "--cert-dir", b.path("scheduler-certs"))
	defer stop()
	return b.place()
}

// TestAlike: the plugin and the extender place a hundred pods on the same nodes, the cheapest first and none beyond nine tenths of it; with the
// server down both place all of them, wherever.
func TestAlike(t *testing.T) {
	b := newBed(t)
	ours := b.path("reckon-scheduler")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", ours, ".")
	build.Dir = "../../../kubernetes/scheduler"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for i := range nodeCount {
		room := object{"cpu": fmt.Sprint(nodeCores), "memory": "64Gi", "pods": "110"}
		b.must(http.MethodPost, "/api/v1/nodes", object{"apiVersion": "v1", "kind": "Node", "metadata": object{"name": fmt.Sprintf("n%d", i)},
			"status": object{"capacity": room, "allocatable": room, "conditions": []object{{"type": "Ready", "status": "True"}}}}, nil)
	}
	plugin := func(url string, timeout int) string {
		return fmt.Sprintf("profiles:\n- schedulerName: default-scheduler\n  plugins:\n    multiPoint: {enabled: [{name: ReckonRank}]}\n    score: {disabled: [{name: '*'}], enabled: [{name: ReckonRank, weight: 1}]}\n  pluginConfig:\n  - name: ReckonRank\n    args: {url: %s, timeoutMilliseconds: %d}\n", url, timeout)
	}
	extender := func(url, timeout string) string {
		return fmt.Sprintf("profiles:\n- schedulerName: default-scheduler\n  plugins:\n    score: {disabled: [{name: '*'}]}\nextenders:\n- urlPrefix: %s/api/reckon/v1/rank\n  prioritizeVerb: prioritize\n  weight: 1\n  nodeCacheCapable: true\n  ignorable: true\n  httpTimeout: %s\n", url, timeout)
	}
	stock := filepath.Join(b.programs, "kube-scheduler")

	// The machine of the test may be busy: what is compared is where pods go, not how soon an answer comes.
	byPlugin := b.schedule(ours, plugin(reckon(t).URL, 5000))
	byExtender := b.schedule(stock, extender(reckon(t).URL, "5s"))
	if !maps.Equal(byPlugin, byExtender) {
		t.Errorf("placed by the plugin %v, by the extender %v", count(byPlugin), count(byExtender))
	}
	// Nine tenths of 16 cores with one in use, are 13 pods.
	for node, n := range count(byPlugin) {
		if want := map[string]int{"n7": 9, "n8": 0, "n9": 0}; node <= "n6" && n != 13 || node > "n6" && n != want[node] {
			t.Errorf("%d pods on %s: %v", n, node, count(byPlugin))
		}
	}

	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, on := range map[string]map[string]string{"plugin": b.schedule(ours, plugin(gone.URL, 20)), "extender": b.schedule(stock, extender(gone.URL, "20ms"))} {
		if len(on) != podCount {
			t.Errorf("%s, without a server: %d pods placed", name, len(on))
		}
	}
}

func count(on map[string]string) map[string]int {
	out := map[string]int{}
	for _, node := range on {
		out[node]++
	}
	return out
}

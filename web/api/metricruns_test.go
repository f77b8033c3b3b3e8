package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"reckon/answer"
	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

// fakeRuns has one run, in the namespace alice.
type fakeRuns struct{ kept []string }

func (f *fakeRuns) Keep(_ context.Context, namespace, name string, u client.MetricRunUpdate) (client.MetricRunKept, error) {
	f.kept = append(f.kept, namespace+"/"+name)
	return client.MetricRunKept{Samples: int64(len(u.Samples))}, nil
}

func aRun() client.MetricRun {
	return client.MetricRun{Namespace: "alice", Name: "demo-1", Set: "demo", Outcome: "Finished", Started: now.Add(-time.Hour), Pods: []client.MetricRunPod{{Name: "p", UID: "u", Job: "perf-sysstat-0"}}}
}

func (f *fakeRuns) List(_ context.Context, q client.MetricRunFilter) (client.MetricRunList, error) {
	if len(q.Namespaces) > 0 && q.Namespaces[0] != "alice" {
		return client.MetricRunList{Runs: []client.MetricRun{}}, nil
	}
	return client.MetricRunList{Runs: []client.MetricRun{aRun()}, Total: 1}, nil
}

func (f *fakeRuns) Run(_ context.Context, namespace, name string) (client.MetricRun, error) {
	if namespace+"/"+name != "alice/demo-1" && namespace != "{namespace}" {
		return client.MetricRun{}, answer.NoMetricRun(namespace, name)
	}
	return aRun(), nil
}

func (f *fakeRuns) Samples(context.Context, string, string) (client.MetricRunSamples, error) {
	one := 1.0
	return client.MetricRunSamples{Pods: []client.MetricRunSeries{{Pod: "p", UID: "u", Job: "perf-sysstat-0", Samples: []client.ProbeSample{{Seq: 1, From: now, To: now.Add(time.Second), Total: client.ProbeUse{CPUSeconds: &one}}}}}}, nil
}

func (f *fakeRuns) Compare(_ context.Context, a, b []string) (client.MetricRunComparison, error) {
	return client.MetricRunComparison{A: a, B: b, Figures: []client.MetricRunDifference{}, Differs: []client.MetricRunCondition{}}, nil
}

// TestRunsBelongToTheirNamespace: viewers neither see nor update runs of other namespaces, and cannot detect whether one exists.
func TestRunsBelongToTheirNamespace(t *testing.T) {
	runs := &fakeRuns{}
	h := asViewer(api.Options{Backend: apitest.Site(now), MetricRuns: runs})
	update := `{"run": {"set": "demo"}}`
	for _, c := range []struct {
		viewer, method, target string
		status                 int
		has                    string
	}{
		{"alice", "GET", "/api/reckon/v1/runs", 200, "demo-1"},
		{"carol", "GET", "/api/reckon/v1/runs", 200, `"runs":[]`},
		{"carol", "GET", "/api/reckon/v1/runs?namespace=alice", 200, `"runs":[]`},
		{"support", "GET", "/api/reckon/v1/runs", 200, "demo-1"},
		{"alice", "GET", "/api/reckon/v1/runs/alice/demo-1", 200, "perf-sysstat-0"},
		{"carol", "GET", "/api/reckon/v1/runs/alice/demo-1", 404, "no such run: alice/demo-1"},
		{"carol", "GET", "/api/reckon/v1/runs/alice/demo-2", 404, "no such run: alice/demo-2"},
		{"carol", "GET", "/api/reckon/v1/runs/alice/demo-1/samples", 404, ""},
		{"carol", "GET", "/api/reckon/v1/compare/runs?a=carol/x&b=alice/demo-1", 404, ""},
		{"alice", "GET", "/api/reckon/v1/compare/runs?a=alice/demo-1&b=alice/demo-1", 200, ""},
		{"alice", "GET", "/api/reckon/v1/compare/runs?a=alice/demo-1", 400, "two sides"},
		{"public", "GET", "/api/reckon/v1/runs", 403, ""},
		{"", "GET", "/api/reckon/v1/runs", 401, ""},
		{"alice", "POST", "/api/reckon/v1/runs/alice/demo-1/keep", 200, ""},
		{"carol", "POST", "/api/reckon/v1/runs/alice/demo-1/keep", 403, "may not keep runs of the namespace alice"},
		{"support", "POST", "/api/reckon/v1/runs/alice/demo-1/keep", 403, ""},
		{"admin", "POST", "/api/reckon/v1/runs/erin/demo-1/keep", 200, ""},
		{"operator", "POST", "/api/reckon/v1/runs/dora/demo-1/keep", 200, ""},
		{"operator", "GET", "/api/reckon/v1/runs", 200, "demo-1"},
		{"operator", "GET", "/api/reckon/v1/runs/alice/demo-1", 401, ""},
		{"", "POST", "/api/reckon/v1/runs/alice/demo-1/keep", 401, ""},
	} {
		w := send(t, h, c.method, c.target, update, "X-Test-Viewer", c.viewer)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.has) {
			t.Errorf("%s %s %s: %d %s, want %d with %q", c.viewer, c.method, c.target, w.Code, w.Body, c.status, c.has)
		}
	}
	if got := strings.Join(runs.kept, " "); got != "alice/demo-1 erin/demo-1 dora/demo-1" {
		t.Errorf("kept %s", got)
	}
	if w := send(t, h, http.MethodPost, "/api/reckon/v1/runs/alice/demo-1/keep", "not JSON", "X-Test-Viewer", "alice"); w.Code != 400 || !json.Valid(w.Body.Bytes()) {
		t.Errorf("not JSON: %d %s", w.Code, w.Body)
	}
}

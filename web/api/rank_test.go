package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

// fakeRanks returns the nodes of the query; placed records the reported placements.
type fakeRanks struct{ placed *[]string }

func (fakeRanks) Rank(_ context.Context, q client.RankQuery) (client.Ranking, error) {
	out := client.Ranking{Nodes: []client.RankedNode{}}
	for i, n := range q.Nodes {
		out.Nodes = append(out.Nodes, client.RankedNode{Node: n, Tier: "room", Score: 100 - 15*i, Why: []string{}, Watts: &q.Cores, Headroom: &q.MemoryBytes})
	}
	return out, nil
}

func (f fakeRanks) Placed(_ context.Context, _, node string, removed bool, q client.RankQuery) error {
	if f.placed != nil {
		*f.placed = append(*f.placed, fmt.Sprint(node, " ", q.Work, " ", q.Cores, " ", q.MemoryBytes, " ", removed))
	}
	return nil
}

func TestRank(t *testing.T) {
	h := asViewer(api.Options{Backend: apitest.Site(now), Ranks: fakeRanks{}})
	post := func(h http.Handler, path, viewer string, form url.Values) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/api/reckon/v1/"+path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("X-Test-Viewer", viewer)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	q := client.RankQuery{Cores: 4, MemoryBytes: 8 << 30, GPUs: 1, UseCores: 2, GPUWatts: 50, Hours: 3, Site: "lab", Nodes: []string{"n2", "n1"}, Limit: 5}
	got := decode[client.Ranking](t, post(h, "rank", "public", q.Query()), 200)
	if len(got.Nodes) != 2 || got.Nodes[0].Node != "n2" || *got.Nodes[0].Watts != 4 || *got.Nodes[0].Headroom != 8<<30 {
		t.Errorf("%+v", got)
	}
	for _, c := range []struct {
		path, viewer, form string
		status             int
	}{
		{"rank", "", "cores=1", 401}, {"rank", "public", "cores=-1", 400}, {"rank", "public", "cores=x", 400}, {"rank", "public", "core=1", 400}, {"rank", "public", "", 200},
		{"rank/placed", "support", "node=n1&cores=1", 403}, {"rank/placed", "admin", "node=n1&cores=1", 200},
	} {
		form, _ := url.ParseQuery(c.form)
		if w := post(h, c.path, c.viewer, form); w.Code != c.status {
			t.Errorf("%s %s %s: %d %s", c.path, c.viewer, c.form, w.Code, w.Body)
		}
	}
	if w := post(api.New(api.Options{Backend: apitest.Site(now)}), "rank", "admin", nil); w.Code != 404 {
		t.Errorf("a server that ranks none answers %d", w.Code)
	}
}

// TestPrioritize sends requests as kube-scheduler 1.34 sends them to an extender, with names and with whole nodes.
func TestPrioritize(t *testing.T) {
	var placed []string
	h := asViewer(api.Options{Backend: apitest.Site(now), Ranks: fakeRanks{&placed}})
	post := func(viewer, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/api/reckon/v1/rank/prioritize?site=lab", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Test-Viewer", viewer)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	const pod = `{"Pod":{"metadata":{"name":"a","uid":"u-1"},"spec":{"initContainers":[{"resources":{"requests":{"cpu":"3"}}},{"restartPolicy":"Always","resources":{"requests":{"cpu":"250m"}}}],"containers":[{"resources":{"requests":{"cpu":"1500m","memory":"1Gi"}}},{"resources":{}},{"resources":{"requests":{"cpu":"1"}}}],"overhead":{"memory":"16Mi"}}},`
	names, whole := pod+`"Nodes":null,"NodeNames":["n1","n2"]}`, pod+`"Nodes":{"items":[{"metadata":{"name":"n1"}},{"metadata":{"name":"n2"}}]},"NodeNames":null}`
	for _, body := range []string{names, whole} {
		w := post("admin", body)
		if got := strings.TrimSpace(w.Body.String()); w.Code != 200 || got != `[{"Host":"n1","Score":10},{"Host":"n2","Score":8}]` {
			t.Errorf("%d %s", w.Code, got)
		}
	}
	// The init container requests more than all others together: 3, against 2.5 plus 0.25 of a sidecar.
	if want := "n1 u-1 3 1.090519e+09 false"; len(placed) != 2 || !strings.HasPrefix(placed[0], "n1 u-1 3 1.0905") || !slices.Equal(placed[:1], placed[1:]) {
		t.Errorf("%q, want %q", placed, want)
	}
	if w := post("public", names); w.Code != 200 || len(placed) != 2 {
		t.Errorf("%d, and the public placed %d", w.Code, len(placed)-2)
	}
	if w := post("admin", pod+`"NodeNames":[]}`); strings.TrimSpace(w.Body.String()) != "[]" {
		t.Errorf("no nodes: %s", w.Body)
	}
	for body, status := range map[string]int{"": 400, "[]": 400, "{": 400} {
		if w := post("admin", body); w.Code != status {
			t.Errorf("%q: %d", body, w.Code)
		}
	}
}

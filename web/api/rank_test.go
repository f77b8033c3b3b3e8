package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"reckon/client"
	"reckon/web/api"
	"reckon/web/api/apitest"
)

// fakeRanks answers with the nodes that it was asked about.
type fakeRanks struct{}

func (fakeRanks) Rank(_ context.Context, q client.RankQuery) (client.Ranking, error) {
	out := client.Ranking{Nodes: []client.RankedNode{}}
	for _, n := range q.Nodes {
		out.Nodes = append(out.Nodes, client.RankedNode{Node: n, Tier: "room", Why: []string{}, Watts: &q.Cores, Headroom: &q.MemoryBytes})
	}
	return out, nil
}

func (fakeRanks) Placed(context.Context, string, string, client.RankQuery) error { return nil }

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

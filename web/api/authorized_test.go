package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"reckon/access"
	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

// asViewer serves the site to the viewer named by the header X-Test-Viewer; without
// it the sender is anonymous.
func asViewer(o api.Options) http.Handler {
	viewers := map[string]access.Viewer{
		"alice": {Role: access.User, Name: "alice"}, "carol": {Role: access.User, Name: "carol"},
		"nobodyspecial": {Role: access.User, Name: "nobodyspecial"},
		"public":        {Role: access.Public}, "support": {Role: access.Support, Name: "sue"}, "admin": {Role: access.Admin, Name: "root"},
		"operator": {Name: "service account reckon/operator", Runs: true}, "": {},
	}
	o.Viewer = func(r *http.Request) (access.Viewer, error) {
		v, ok := viewers[r.Header.Get("X-Test-Viewer")]
		if !ok {
			return v, errors.New("the token is not known")
		}
		return v, nil
	}
	return api.New(o)
}

// others are words that occur only in the work of users other than alice.
var others = []string{"bob", "carol", "slurm/4712", "cart", "nginx", "812-1795255200", "shop"}

func TestUserSeesOwnOnly(t *testing.T) {
	h := asViewer(api.Options{Backend: apitest.Site(now)})
	const base = "/api/reckon/v1/workloads"
	for target, status := range map[string]int{
		base: 200, base + "?owner=bob": 200, base + "?owner=bob,alice": 200, base + "?name=*": 200, base + "?name=cart": 200,
		base + "?kind=unit":           200,
		base + "?node=n1&sort=-owner": 200, base + "?format=csv": 200, base + "?id=slurm/4712": 200, base + "?limit=100000&sort=name": 200,
		base + "?command=*":  200,
		base + "/slurm/4711": 200, base + "/4711": 200, base + "/train": 200, // bob's train does not make it ambiguous
		base + "/slurm/4712": 404, base + "/4712": 404, base + "/slurm%2F4712": 404, base + "/cart": 404, base + "/nginx": 404,
		base + "/nginx.servic": 404,
		base + "/slurm/471":    404, base + "/../workloads/slurm/4712": 307,
	} {
		w := get(t, h, target, "X-Test-Viewer", "alice")
		if w.Code != status {
			t.Errorf("%s: status %d, want %d: %s", target, w.Code, status, w.Body)
		}
		asked, _ := url.QueryUnescape(target)
		for _, word := range others {
			if body := w.Body.String(); w.Code != 307 && strings.Contains(body, word) && !strings.Contains(asked, word) {
				t.Errorf("%s shows %q:\n%s", target, word, body)
			}
		}
		// Work of others is indistinguishable from work that does not exist.
		if status == 404 {
			if absent := get(t, h, base+"/slurm/999999", "X-Test-Viewer",
				"alice"); w.Header().Get("Content-Type") != absent.Header().Get("Content-Type") || absent.Code != 404 {
				t.Errorf("%s can be distinguished from what does not exist", target)
			}
		}
	}
	list := decode[client.WorkloadList](t, get(t, h, base, "X-Test-Viewer", "alice"), 200)
	if list.Total != 2 || len(list.Workloads) != 2 {
		t.Errorf("alice has two workloads and sees %d of %d", len(list.Workloads), list.Total)
	}
	if list := decode[client.WorkloadList](t, get(t, h, base+"?owner=bob", "X-Test-Viewer", "alice"), 200); list.Total != 0 {
		t.Errorf("the total counts others: %d", list.Total)
	}
	if list := decode[client.WorkloadList](t, get(t, h, base, "X-Test-Viewer", "nobodyspecial"), 200); list.Total != 0 {
		t.Errorf("who owns nothing sees %d", list.Total)
	}
}

// TestIdGivenAgain: a job id that was alice's is bob's now.
func TestIdGivenAgain(t *testing.T) {
	b := apitest.Site(now)
	older := b.Details[0]
	older.Start, older.Owner = older.Start.Add(-1000*time.Hour), "alice"
	b.Details[0].Owner = "bob"
	b.Details = append(b.Details, older)
	h := asViewer(api.Options{Backend: b})
	if w := get(t, h, "/api/reckon/v1/workloads/slurm/4711", "X-Test-Viewer", "alice"); w.Code == 200 &&
		strings.Contains(w.Body.String(), "bob") {
		t.Errorf("alice sees bob's job under an id that was hers: %s", w.Body)
	}
}

// pseudonym is the public form of an id; its random digits may contain an id's by chance.
var pseudonym = regexp.MustCompile(`\b([a-z]+)/[0-9a-f]{16}\b`)

func TestPublicSeesNoNames(t *testing.T) {
	site := apitest.Site(now)
	site.Details[1].EndedBy, site.Details[1].EndedByUser = "user", "alice"
	h := asViewer(api.Options{Backend: site})
	const base = "/api/reckon/v1/workloads"
	words := append([]string{"alice", "train", "4711", "python3", "root", `"ml"`}, others...)
	for target, status := range map[string]int{
		base: 200, base + "?kind=slurm&sort=-cpu_seconds": 200, base + "?format=csv": 200, base + "?partition=gpu": 200,
		"/api/reckon/v1/nodes": 200,
		base + "?owner=alice":  403, base + "?name=train": 403, base + "?id=slurm/4711": 403, base + "?sort=owner": 403,
		base + "?sort=-name": 403, base + "?account=ml": 403, base + "?command=python3": 403,
		base + "/slurm/4711": 403, base + "/train": 403, "/metrics": 404, base + "?family=slurm/4711": 403,
		"/api/reckon/v1/members/4711": 403,
	} {
		w := get(t, h, target, "X-Test-Viewer", "public")
		if w.Code != status {
			t.Errorf("%s: status %d, want %d: %s", target, w.Code, status, w.Body)
		}
		body := pseudonym.ReplaceAllString(w.Body.String(), "$1/")
		for _, word := range words {
			if status == 200 && strings.Contains(body, word) {
				t.Errorf("%s shows %q:\n%s", target, word, w.Body)
			}
		}
	}
	first := decode[client.WorkloadList](t, get(t, h, base, "X-Test-Viewer", "public"), 200)
	again := decode[client.WorkloadList](t, get(t, h, base, "X-Test-Viewer", "public"), 200)
	seen := map[string]bool{}
	for i, w := range first.Workloads {
		if w.ID != again.Workloads[i].ID || seen[w.ID] || !strings.HasPrefix(w.ID, w.Kind+"/") {
			t.Errorf("pseudonym %q", w.ID)
		}
		seen[w.ID] = true
	}
}

// TestReasonsOfNodes: what administrators write about a node is not shown to the public;
// others see it with the node.
func TestReasonsOfNodes(t *testing.T) {
	b := apitest.Site(now)
	for i := range b.Machine {
		b.Machine[i].Batch = &client.NodeBatch{State: "drained", Reason: "bob broke it", Partitions: []string{"cpu"}}
	}
	h := asViewer(api.Options{Backend: b})
	for _, c := range []struct {
		viewer string
		want   string
	}{{"public", ""}, {"alice", "bob broke it"}, {"public", ""}, {"support", "bob broke it"}} {
		list := decode[client.NodeList](t, get(t, h, "/api/reckon/v1/nodes", "X-Test-Viewer", c.viewer), 200)
		for _, n := range list.Nodes {
			if n.Batch == nil || n.Batch.State != "drained" || n.Batch.Reason != c.want {
				t.Errorf("%s: %+v", c.viewer, n.Batch)
			}
		}
	}
}

func TestSupportSeesAll(t *testing.T) {
	h := asViewer(api.Options{Backend: apitest.Site(now),
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "m 1\n") })})
	for viewer, status := range map[string]int{"support": 200, "admin": 200, "alice": 403, "public": 403, "": 401} {
		if w := get(t, h, "/metrics", "X-Test-Viewer", viewer); w.Code != status {
			t.Errorf("/metrics for %q: %d, want %d", viewer, w.Code, status)
		}
	}
	for _, viewer := range []string{"support", "admin"} {
		if list := decode[client.WorkloadList](t, get(t, h, "/api/reckon/v1/workloads", "X-Test-Viewer", viewer), 200); list.Total != 6 {
			t.Errorf("%s sees %d workloads", viewer, list.Total)
		}
	}
}

// TestEveryRouteAsks: every route except those declared free requires a viewer, and
// a route without a role requires support.
func TestEveryRouteAsks(t *testing.T) {
	said := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	h := asViewer(api.Options{Backend: apitest.Site(now), Hub: &api.Hub{}, Prometheus: said, Metrics: said})
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(get(t, h, "/api/reckon/openapi.json").Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	free := map[string]bool{"/healthz": true, "/readyz": true, "/-/healthy": true, "/-/ready": true, "/api/reckon/openapi.json": true}
	for path := range doc.Paths {
		method := http.MethodGet
		if doc.Paths[path]["post"] != nil {
			method = http.MethodPost
		}
		target := strings.NewReplacer("{", "", "}", "").Replace(target(path))
		get := func(t *testing.T, h http.Handler, target string, header ...string) *httptest.ResponseRecorder {
			return send(t, h, method, target, "", header...)
		}
		w := get(t, h, target)
		if open := w.Code != http.StatusUnauthorized; open != free[path] {
			t.Errorf("%s answers nobody with %d", path, w.Code)
		}
		if w := get(t, h, target, "X-Test-Viewer", "forged"); w.Code != http.StatusUnauthorized ||
			!strings.Contains(w.Body.String(), "token is not known") {
			t.Errorf("%s answers a wrong token with %d", path, w.Code)
		}
	}
	if len(doc.Paths) < 7 {
		t.Errorf("%d paths", len(doc.Paths))
	}
}

func TestLiveHidesOthers(t *testing.T) {
	var hub api.Hub
	tick := apitest.Tick(now, 9)
	hub.Subscribe(t.Context()) // the hub keeps its tick while there is a reader
	hub.Publish(tick)
	h := asViewer(api.Options{Backend: apitest.Site(now), Hub: &hub})
	for viewer, want := range map[string]int{"alice": 4, "public": 1, "support": 9} {
		ctx, cancel := context.WithCancel(t.Context())
		r, w := newStream(ctx, "/api/reckon/v1/live")
		r.Header.Set("X-Test-Viewer", viewer)
		done := make(chan struct{})
		go func() { defer close(done); h.ServeHTTP(w, r) }()
		var l client.Live
		if err := json.Unmarshal(w.event(t), &l); err != nil {
			t.Fatal(err)
		}
		cancel()
		<-done
		if len(l.Workloads) != want {
			t.Errorf("%s sees %d workloads, want %d", viewer, len(l.Workloads), want)
		}
		cores, processes := 0.0, 0
		for _, x := range l.Workloads {
			cores, processes = cores+x.Cores, processes+x.Processes
			if x.Owner == "bob" && viewer != "support" {
				t.Errorf("%s sees bob", viewer)
			}
		}
		wantCores, wantProcesses := 0.0, 0
		for _, x := range tick.Workloads {
			wantCores, wantProcesses = wantCores+x.Cores, wantProcesses+x.Processes
		}
		if diff := cores - wantCores; diff > 1e-9 || diff < -1e-9 || processes != wantProcesses {
			t.Errorf("%s: the others do not add up: %g cores of %g", viewer, cores, wantCores)
		}
	}
}

package api_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"reckon/answer"
	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func get(t *testing.T, h http.Handler, target string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder, status int) T {
	t.Helper()
	var v T
	if w.Code != status {
		t.Fatalf("status %d, want %d: %s", w.Code, status, w.Body)
	}
	dec := json.NewDecoder(w.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("decode: %v", err)
	}
	return v
}

func TestListParameters(t *testing.T) {
	backend := apitest.Site(now)
	h := api.New(api.Options{Backend: backend})
	yes := true
	for query, want := range map[string]client.Filter{
		"":                                   {Limit: 1000},
		"owner=alice&owner=bob,carol":        {Owners: []string{"alice", "bob", "carol"}, Limit: 1000},
		"kind=statefulset,daemonset":         {Kinds: []string{"statefulset", "daemonset"}, Limit: 1000},
		"kind=notebook":                      {Kinds: []string{"notebook"}, Limit: 1000}, // of an operator
		"kind=slurm&node=n1":                 {Kinds: []string{"slurm"}, Nodes: []string{"n1"}, Limit: 1000},
		"name=tr*&min_cpu=1.5&running=true":  {Name: "tr*", MinCPU: 1.5, Running: &yes, Limit: 1000},
		"since=2026-11-21T10:00:00%2B02:00":  {Since: time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC), Limit: 1000},
		"until=1795255200.5":                 {Until: time.Unix(1795255200, 5e8), Limit: 1000},
		"sort=-cpu_seconds&limit=7&offset=2": {Sort: "-cpu_seconds", Limit: 7, Offset: 2},
	} {
		list := decode[client.WorkloadList](t, get(t, h, "/api/reckon/v1/workloads?"+query), 200)
		asked := backend.Asked()
		got := asked[len(asked)-1]
		if !got.Since.Equal(want.Since) || !got.Until.Equal(want.Until) {
			t.Errorf("%s: since %v until %v", query, got.Since, got.Until)
		}
		got.Since, got.Until, want.Since, want.Until = time.Time{}, time.Time{}, time.Time{}, time.Time{}
		if a, b := fmt.Sprintf("%+v", got.Query()), fmt.Sprintf("%+v", want.Query()); a != b {
			t.Errorf("%s: filter %s, want %s", query, a, b)
		}
		if list.Workloads == nil {
			t.Errorf("%s: workloads is null", query)
		}
	}
}

func TestRefusals(t *testing.T) {
	h := api.New(api.Options{Backend: apitest.Site(now)})
	const list = "/api/reckon/v1/workloads"
	for _, c := range []struct {
		target string
		status int
		err    string
		hint   string
	}{
		{list + "?onwer=alice", 400, `unknown parameter "onwer"`, "did you mean owner?"},
		{list + "?limit=ten", 400, `parameter limit: "ten"`, "whole number from 1 to 100000"},
		{list + "?limit=0", 400, `parameter limit: "0"`, "from 1"},
		{list + "?limit=1&limit=2", 400, "parameter limit is given 2 times", "once"},
		{list + "?offset=-1", 400, "parameter offset", "from 0"},
		{list + "?min_cpu=NaN", 400, "parameter min_cpu", "a number, 0 or more"},
		{list + "?min_cpu=-3", 400, "parameter min_cpu", "0 or more"},
		{list + "?running=yes", 400, `parameter running: "yes"`, "true or false"},
		{list + "?since=2126-01-01", 400, `parameter since: "2126-01-01"`, "it is in the future"},
		{list + "?since=yestrday", 400, `parameter since: "yestrday"`, "RFC 3339"},
		{list + "?since=", 400, "parameter since", "leave the parameter out"},
		{list + "?owner=a,,b", 400, "parameter owner", "separated by commas"},
		{list + "?since=1h&until=2h", 400, "parameter until", "after since"},
		{list + "?name=[a", 400, "parameter name", "shell pattern"},
		{list + "?state=bogus", 400, `parameter state: "bogus"`, "give some of pending, running"},
		{list + "?kind=slrum", 400, `parameter kind: "slrum"`, "give some of slurm, pbs"},
		{list + "/812", 404, `no workload "812"`, "reckon jobs --command NAME"},
		{list + "?sort=size", 400, `parameter sort: "size"`, "cpu_seconds"},
		{list + "?format=xml", 400, "parameter format", "json or csv"},
		{list + "?owner=%zz", 400, "query string", "escape"},
		{list + "?owner=a;b=c", 400, "query string", "escape"},
		{list + "/slurm/4711?step=0s", 400, "parameter step", "above 0"},
		{list + "/slurm/4711?step=10ms", 400, "parameter step", "1s or more"},
		{list + "/slurm/4711?step=1s&from=30d", 400, "parameter step", "longer step"},
		{list + "/slurm/4711?from=1h&to=2h", 400, "parameter to", "after from"},
		{list + "/slurm/4711?at=1h", 400, "unknown parameter", "from, to, step"},
		{list + "/slurm/9999", 404, `no workload "slurm/9999"`, "GET /api/reckon/v1/workloads"},
		{list + "/slurm/4713", 404, `no workload "slurm/4713"`, "did you mean slurm/4711, slurm/4712?"},
		{list + "/train", 409, `"train" can be several workloads`, "slurm/4711, slurm/4712"},
		{"/api/reckon/v1/nodes?node=n1", 400, "unknown parameter", "format"},
		{"/api/reckon/v1/nodez", 404, "no such address", "openapi.json"},
		{"/api/reckon/v1/live", 404, "runs no agent", "reckon up"},
	} {
		e := decode[client.Error](t, get(t, h, c.target), c.status)
		if !strings.Contains(e.Error, c.err) || !strings.Contains(e.Hint, c.hint) {
			t.Errorf("%s:\n error %q, want %q\n hint %q, want %q", c.target, e.Error, c.err, e.Hint, c.hint)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodDelete, list, nil))
	if e := decode[client.Error](t, w, 405); w.Header().Get("Allow") != "GET, HEAD" || !strings.Contains(e.Error, "DELETE") {
		t.Errorf("DELETE: %v %+v", w.Header(), e)
	}
}

func TestWorkloadIDs(t *testing.T) {
	h := api.New(api.Options{Backend: apitest.Site(now)})
	for asked, want := range map[string]string{
		"slurm/4711":                         "slurm/4711",
		"slurm%2F4711":                       "slurm/4711",
		"4711":                               "slurm/4711",
		"deployment/shop/cart":               "deployment/shop/cart",
		"deployment%2Fshop%2Fcart":           "deployment/shop/cart",
		"cart":                               "deployment/shop/cart",
		"shop/cart":                          "deployment/shop/cart",
		"nginx":                              "unit/nginx.service",
		"unit/nginx.service/":                "unit/nginx.service",
		url.PathEscape("alice/3"):            "session/alice/3",
		"group/n2/812-1795255200":            "group/n2/812-1795255200",
		url.PathEscape("unit/nginx.service"): "unit/nginx.service",
	} {
		d := decode[client.WorkloadDetail](t, get(t, h, "/api/reckon/v1/workloads/"+asked), 200)
		if d.ID != want {
			t.Errorf("%s gives %s, want %s", asked, d.ID, want)
		}
		if d.Profile == nil || d.Commands == nil || d.Nodes == nil {
			t.Errorf("%s: a list is null", asked)
		}
	}
}

// TestOldID: a name that matches 5,000 newer workloads must not hide an old id, and the other
// way round.
func TestOldID(t *testing.T) {
	b := &apitest.Backend{}
	for i := range 6000 {
		b.Details = append(b.Details, client.WorkloadDetail{Workload: client.Workload{ID: fmt.Sprintf("slurm/%d", i), Kind: "slurm", Name: "x", Seen: now.Add(time.Duration(i) * time.Second)}})
	}
	h := api.New(api.Options{Backend: b})
	if d := decode[client.WorkloadDetail](t, get(t, h, "/api/reckon/v1/workloads/17"), 200); d.ID != "slurm/17" {
		t.Errorf("17 gives %s", d.ID)
	}
}

func TestCSV(t *testing.T) {
	h := api.New(api.Options{Backend: apitest.Site(now)})
	for _, target := range []string{"/api/reckon/v1/workloads", "/api/reckon/v1/nodes"} {
		byName, byAccept := get(t, h, target+"?format=csv"), get(t, h, target, "Accept", "text/csv;q=0.9, application/json;q=0.1")
		if byName.Body.String() != byAccept.Body.String() {
			t.Errorf("%s: format=csv and Accept differ", target)
		}
		if ct := byName.Header().Get("Content-Type"); !strings.HasPrefix(ct, "text/csv") {
			t.Errorf("%s: content type %q", target, ct)
		}
		rows, err := csv.NewReader(byName.Body).ReadAll()
		if err != nil || len(rows) < 3 {
			t.Errorf("%s: %d rows, %v", target, len(rows), err)
		}
		if byJSON := get(t, h, target, "Accept", "application/json, text/csv"); byJSON.Header().Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("%s: the first accepted type is not taken", target)
		}
	}
}

func TestHeadersAndCompression(t *testing.T) {
	h := api.New(api.Options{Backend: apitest.Site(now)})
	w := get(t, h, "/api/reckon/v1/workloads", "Accept-Encoding", "gzip")
	if w.Header().Get("Content-Encoding") != "gzip" {
		t.Fatal("not compressed")
	}
	zr, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	var list client.WorkloadList
	if err := json.NewDecoder(zr).Decode(&list); err != nil || list.Total != 6 {
		t.Errorf("total %d, %v", list.Total, err)
	}
	for _, target := range []string{"/", "/static/landing.js", "/api/reckon/v1/nodes", "/nowhere", "/healthz"} {
		head := get(t, h, target).Header()
		csp := head.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || head.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers %v", target, head)
		}
	}
}

func TestLandingPage(t *testing.T) {
	h := api.New(api.Options{Backend: apitest.Site(now), Version: `<b>1`})
	page := get(t, h, "/").Body.String()
	if strings.Contains(page, "<b>1") || !strings.Contains(page, "&lt;b&gt;1") {
		t.Error("the version is not escaped")
	}
	for _, bad := range []string{"onclick", "style=", "<style", "javascript:", "http://", "https://"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	for _, ref := range []string{"/static/landing.js", "/static/landing.css", "/static/icon.svg"} {
		if w := get(t, h, ref); !strings.Contains(page, ref) || w.Code != 200 {
			t.Errorf("%s: status %d", ref, w.Code)
		}
	}
	if get(t, h, "/static/").Code != 404 || get(t, h, "/x").Code != 404 {
		t.Error("unknown files are served")
	}
}

func TestReadiness(t *testing.T) {
	reason := errors.New("the store replays its log")
	h := api.New(api.Options{Backend: apitest.Site(now), Ready: func() error { return reason }})
	if w := get(t, h, "/readyz"); w.Code != 503 || !strings.Contains(w.Body.String(), "replays its log") || w.Header().Get("Retry-After") == "" {
		t.Errorf("/readyz: %d %s", w.Code, w.Body)
	}
	if w := get(t, h, "/healthz"); w.Code != 200 {
		t.Errorf("/healthz: %d", w.Code)
	}
	e := decode[client.Error](t, get(t, h, "/api/reckon/v1/nodes"), 503)
	if !strings.Contains(e.Error, "replays its log") {
		t.Errorf("error %q", e.Error)
	}
	reason = nil
	if w := get(t, h, "/readyz"); w.Code != 200 {
		t.Errorf("/readyz: %d", w.Code)
	}
}

type panicking struct{ *apitest.Backend }

func (panicking) Nodes(context.Context) (client.NodeList, error) { panic("boom") }

func TestBackendFaults(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h := api.New(api.Options{Backend: panicking{apitest.Site(now)}, Logger: logger})
	if e := decode[client.Error](t, get(t, h, "/api/reckon/v1/nodes"), 500); e.Error == "" || strings.Contains(e.Error, "boom") {
		t.Errorf("error %q", e.Error)
	}
	if !strings.Contains(log.String(), "boom") || !strings.Contains(log.String(), "status=500") {
		t.Errorf("log: %s", log.String())
	}
	for err, status := range map[error]int{
		errors.New("disk is gone"):                       500,
		fmt.Errorf("list: %w", context.DeadlineExceeded): 504,
		fmt.Errorf("x: %w", answer.ErrNotFound):          404,
	} {
		h := api.New(api.Options{Backend: &apitest.Backend{Err: err}})
		decode[client.Error](t, get(t, h, "/api/reckon/v1/workloads"), status)
	}
}

func TestMissingIsTold(t *testing.T) {
	b := apitest.Site(now)
	b.Missing = []string{"site west: connection refused"}
	h := api.New(api.Options{Backend: b})
	if l := decode[client.WorkloadList](t, get(t, h, "/api/reckon/v1/workloads"), 200); len(l.Missing) != 1 {
		t.Errorf("missing %v", l.Missing)
	}
	if w := get(t, h, "/api/reckon/v1/workloads?format=csv"); w.Header().Get("Reckon-Missing") == "" {
		t.Error("the CSV does not say what is missing")
	}
}

func TestLiveStream(t *testing.T) {
	hub := new(api.Hub)
	server := httptest.NewServer(api.New(api.Options{Backend: apitest.Site(now), Hub: hub}))
	defer server.Close()
	hub.Publish(apitest.Tick(now, 3))
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/api/reckon/v1/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "gzip") // must not delay events
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Content-Encoding") != "" {
		t.Errorf("headers %v", resp.Header)
	}
	lines := bufio.NewScanner(resp.Body)
	next := func() client.Live {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var l client.Live
				if err := json.Unmarshal([]byte(data), &l); err != nil {
					t.Fatal(err)
				}
				return l
			}
		}
		t.Fatalf("the stream ended: %v", lines.Err())
		return client.Live{}
	}
	if l := next(); len(l.Workloads) != 3 { // the latest tick comes at once
		t.Errorf("%d workloads, want 3", len(l.Workloads))
	}
	hub.Publish(apitest.Tick(now.Add(time.Second), 4))
	if l := next(); len(l.Workloads) != 4 {
		t.Errorf("%d workloads, want 4", len(l.Workloads))
	}
	cancel() // the client goes away
	for hub.Subscribers() != 0 {
		select {
		case <-t.Context().Done():
			t.Fatal("the subscription was not given back")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestLiveEndsWithHub(t *testing.T) {
	hub := new(api.Hub)
	server := httptest.NewServer(api.New(api.Options{Backend: apitest.Site(now), Hub: hub}))
	defer server.Close()
	resp, err := http.Get(server.URL + "/api/reckon/v1/live") //nolint:noctx // the server ends it
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	hub.Close()
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Errorf("the stream did not end cleanly: %v", err)
	}
}

func BenchmarkWorkloads(b *testing.B) {
	backend := &apitest.Backend{}
	for i := range 1000 {
		backend.Details = append(backend.Details, apitest.Site(now).Details[i%6])
	}
	h := api.New(api.Options{Backend: backend})
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/reckon/v1/workloads", nil)) //nolint:noctx // a recorder has no connection
		if w.Code != 200 {
			b.Fatal(w.Code)
		}
	}
}

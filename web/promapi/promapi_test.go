package promapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	promclient "github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"reckon/access"
	"reckon/query"
	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/promapi"
)

func options(t testing.TB) promapi.Options {
	t.Helper()
	s := promqltest.LoadedStorage(t, `
load 15s
  reckon_workload_cpu_seconds_total{workload="slurm/4711",owner="alice",mode="user"} 0+15x240
  reckon_workload_cpu_seconds_total{workload="slurm/4712",owner="bob",mode="user"} 0+3x120 _x120
  reckon_workload_info{workload="slurm/4711",name="train \"x\" / ü"} 1x240
`)
	return promapi.Options{
		Engine:    promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute}),
		Queryable: s, Exemplars: s, Version: "1.2.3",
		Metadata: func() map[string]metadata.Metadata {
			return map[string]metadata.Metadata{
				"reckon_workload_cpu_seconds_total": {Type: model.MetricTypeCounter, Unit: "seconds", Help: "CPU time."},
				"reckon_workload_info":              {Type: model.MetricTypeGauge, Help: "Facts."},
			}
		},
	}
}

// serve mounts the handler as the server does, behind the middleware of web/api.
func serve(t *testing.T, o promapi.Options) string {
	t.Helper()
	s := httptest.NewServer(api.New(api.Options{Backend: &apitest.Backend{}, Prometheus: promapi.Handler(o)}))
	t.Cleanup(s.Close)
	return s.URL
}

// admin is the context of a request of someone who sees all.
func admin(t *testing.T) context.Context {
	return access.With(t.Context(), access.Viewer{Role: access.Admin})
}

// TestClientGolang uses Prometheus's own client.
func TestClientGolang(t *testing.T) {
	c, err := promclient.NewClient(promclient.Config{Address: serve(t, options(t))})
	if err != nil {
		t.Fatal(err)
	}
	a, ctx := promv1.NewAPI(c), t.Context()
	at := time.Unix(1800, 0)

	v, warnings, err := a.Query(ctx, `round(sum by (owner) (rate(reckon_workload_cpu_seconds_total[1m])), 0.01)`, at)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	if got := v.String(); !strings.Contains(got, `{owner="alice"} => 1 @`) || !strings.Contains(got, `{owner="bob"} => 0.2 @`) {
		t.Errorf("query: %s", got)
	}
	v, _, err = a.QueryRange(ctx, `reckon_workload_cpu_seconds_total{owner="bob"}`, promv1.Range{Start: at, End: at.Add(30 * time.Minute), Step: time.Minute})
	if m, ok := v.(model.Matrix); err != nil || !ok || len(m) != 1 || len(m[0].Values) >= 31 {
		t.Errorf("query_range: %v, %v; want one series with a gap at its end", v, err)
	}
	series, _, err := a.Series(ctx, []string{`{workload="slurm/4711"}`}, time.Unix(0, 0), at)
	if err != nil || len(series) != 2 {
		t.Errorf("series: %v, %v", series, err)
	}
	names, _, err := a.LabelNames(ctx, nil, time.Unix(0, 0), at)
	if err != nil || fmt.Sprint(names) != "__name__, mode, name, owner, workload" {
		t.Errorf("labels: %v, %v", names, err)
	}
	values, _, err := a.LabelValues(ctx, "name", nil, time.Unix(0, 0), at)
	if err != nil || len(values) != 1 || string(values[0]) != `train "x" / ü` {
		t.Errorf("label values: %v, %v", values, err)
	}
	md, err := a.Metadata(ctx, "", "")
	if err != nil || len(md) != 2 || md["reckon_workload_cpu_seconds_total"][0] != (promv1.Metadata{Type: "counter", Unit: "seconds", Help: "CPU time."}) {
		t.Errorf("metadata: %v, %v", md, err)
	}
	if md, err = a.Metadata(ctx, "reckon_workload_info", "1"); err != nil || len(md) != 1 {
		t.Errorf("metadata of one metric: %v, %v", md, err)
	}
	tm, err := a.TargetsMetadata(ctx, "", "reckon_workload_info", "")
	if err != nil || len(tm) != 1 || tm[0].Help != "Facts." {
		t.Errorf("targets metadata: %v, %v", tm, err)
	}
	build, err := a.Buildinfo(ctx)
	if err != nil || build.Version != "1.2.3" {
		t.Errorf("build info: %v, %v", build, err)
	}
	for name, call := range map[string]func() error{
		"targets":       func() error { _, err := a.Targets(ctx); return err },
		"alertmanagers": func() error { _, err := a.AlertManagers(ctx); return err },
		"rules":         func() error { _, err := a.Rules(ctx, nil); return err },
		"alerts":        func() error { _, err := a.Alerts(ctx); return err },
		"config":        func() error { _, err := a.Config(ctx); return err },
		"flags":         func() error { _, err := a.Flags(ctx); return err },
		"runtimeinfo":   func() error { _, err := a.Runtimeinfo(ctx); return err },
		"exemplars":     func() error { _, err := a.QueryExemplars(ctx, "reckon_workload_info", at, at); return err },
	} {
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var refused *promv1.Error
	if _, _, err := a.Query(ctx, "sum(", at); !errors.As(err, &refused) || refused.Type != promv1.ErrBadData {
		t.Errorf("a wrong expression: %v", err)
	}
	if err := a.DeleteSeries(ctx, []string{"{a=~\".*\"}"}, at, at); err == nil {
		t.Error("series can be deleted by HTTP")
	}
	if _, err := a.TSDB(ctx); !errors.As(err, &refused) || !strings.Contains(refused.Detail, "no blocks") {
		t.Errorf("status of a store without blocks: %v", err)
	}
}

// TestGrafana sends what Grafana's Prometheus data source sends.
func TestGrafana(t *testing.T) {
	base := serve(t, options(t))
	post := func(path string, form url.Values) string {
		t.Helper()
		resp, err := http.PostForm(base+path, form) //nolint:noctx // a test server
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("POST %s: %d %s %v", path, resp.StatusCode, body, err)
		}
		return string(body)
	}
	get := func(path string) string {
		t.Helper()
		resp, err := http.Get(base + path) //nolint:noctx // a test server
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("GET %s: %d %s %v", path, resp.StatusCode, body, err)
		}
		return string(body)
	}
	if got := post("/api/v1/query", url.Values{"query": {"1+1"}, "time": {"1700000000"}}); !strings.Contains(got, `"result":[1700000000,"2"]`) { // the health check of the data source
		t.Errorf("health check: %s", got)
	}
	if got := post("/api/v1/query_range", url.Values{"query": {`rate(reckon_workload_cpu_seconds_total{owner=~"$|alice"}[1m0s])`}, "start": {"900"}, "end": {"1800"}, "step": {"60"}}); !strings.Contains(got, `"owner":"alice"`) {
		t.Errorf("panel: %s", got)
	}
	if got := get("/api/v1/label/__name__/values?start=0&end=1800"); got != `{"status":"success","data":["reckon_workload_cpu_seconds_total","reckon_workload_info"]}` {
		t.Errorf("metric names: %s", got)
	}
	if got := post("/api/v1/labels", url.Values{"match[]": {`reckon_workload_info`}}); !strings.Contains(got, `"workload"`) {
		t.Errorf("labels: %s", got)
	}
	if got := post("/api/v1/series", url.Values{"match[]": {`{owner="bob"}`}}); !strings.Contains(got, "slurm/4712") {
		t.Errorf("series: %s", got)
	}
	if got := get("/api/v1/metadata?limit_per_metric=1"); !strings.Contains(got, `"unit":"seconds"`) {
		t.Errorf("metadata: %s", got)
	}
	if got := get("/api/v1/status/buildinfo"); !strings.Contains(got, `"version":"1.2.3"`) {
		t.Errorf("buildinfo: %s", got)
	}
	get("/api/v1/rules")
}

func TestEveryAddressAnswers(t *testing.T) {
	h := promapi.Handler(options(t))
	for _, target := range []string{
		"/api/v1/notifications", "/api/v1/notifications/live", "/api/v1/features", "/api/v1/scrape_pools",
		"/api/v1/targets?state=dropped", "/api/v1/targets/metadata", "/api/v1/status/self_metrics", "/api/v1/format_query?query=a",
		"/api/v1/parse_query?query=a", "/api/v1/status/tsdb", "/api/v1/status/tsdb/blocks", "/api/v1/status/walreplay",
		"/api/v1/search/metric_names?query=a", "/api/v1/targets/relabel_steps", "/api/v1/scrape_pools/config?pool=reckon",
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(admin(t), http.MethodGet, target, nil)) // a panic fails the test
		if w.Code == 404 && !strings.Contains(w.Body.String(), `"status"`) {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(admin(t), http.MethodGet, "/api/v1/openapi.yaml", nil))
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "/query_range") {
		t.Errorf("the description of the API: %d %.200s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(admin(t), http.MethodPost, "/api/v1/admin/tsdb/snapshot", nil))
	if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "reckon backup") {
		t.Errorf("the administrative API, which is switched off: %d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(admin(t), http.MethodPost, "/api/v1/write", strings.NewReader("x")))
	if w.Code != 404 {
		t.Errorf("remote write is switched off and answers %d", w.Code)
	}
	r := httptest.NewRequestWithContext(admin(t), http.MethodGet, "/api/v1/labels", nil)
	r.Header.Set("Origin", "http://evil.example")
	w = httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Error("another origin may read")
	}
}

func TestNotReady(t *testing.T) {
	o := options(t)
	o.Ready = func() error { return errors.New("the store replays its log") }
	w := httptest.NewRecorder()
	promapi.Handler(o).ServeHTTP(w, httptest.NewRequestWithContext(admin(t), http.MethodGet, "/api/v1/query?query=1", nil))
	var e struct{ Status, ErrorType, Error string }
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != 503 || e.ErrorType != "unavailable" || !strings.Contains(e.Error, "replays its log") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// stuck is a store with queries that wait until they are let go.
type stuck struct {
	storage.SampleAndChunkQueryable
	entered, release chan struct{}
}

func (s stuck) Querier(mint, maxt int64) (storage.Querier, error) {
	q, err := s.SampleAndChunkQueryable.Querier(mint, maxt)
	return stuckQuerier{q, s}, err
}

type stuckQuerier struct {
	storage.Querier
	s stuck
}

func (q stuckQuerier) LabelNames(ctx context.Context, h *storage.LabelHints, m ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	q.s.entered <- struct{}{}
	<-q.s.release
	return q.Querier.LabelNames(ctx, h, m...)
}

func TestConcurrencyIsBounded(t *testing.T) {
	o := options(t)
	s := stuck{o.Queryable, make(chan struct{}), make(chan struct{})}
	o.Queryable, o.MaxConcurrent, o.MaxWait = s, 2, time.Millisecond
	h := promapi.Handler(o)
	call := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(admin(t), http.MethodGet, path, nil))
		return w
	}
	done := make(chan int, 2)
	for range 2 {
		go func() { done <- call("/api/v1/labels").Code }()
	}
	<-s.entered
	<-s.entered
	if w := call("/api/v1/labels"); w.Code != 503 || !strings.Contains(w.Body.String(), "2 queries are being answered") {
		t.Errorf("the third query: %d %s", w.Code, w.Body)
	}
	if w := call("/api/v1/status/buildinfo"); w.Code != 200 {
		t.Errorf("a status page waits for queries: %d", w.Code)
	}
	close(s.release)
	for range 2 {
		if code := <-done; code != 200 {
			t.Errorf("a query that was let in: %d", code)
		}
	}
}

// One viewer who asks much does not keep others waiting.
func TestViewersAreBounded(t *testing.T) {
	o := options(t)
	s := stuck{o.Queryable, make(chan struct{}), make(chan struct{})}
	o.Queryable, o.MaxConcurrent, o.MaxWait = s, 4, time.Millisecond
	o.AtOnce = func(access.Viewer) int { return 1 }
	h := promapi.Handler(o)
	call := func(name string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		ctx := access.With(t.Context(), access.Viewer{Role: access.Admin, Name: name})
		h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/labels", nil))
		return w
	}
	done := make(chan int, 2)
	go func() { done <- call("alice").Code }()
	<-s.entered
	if w := call("alice"); w.Code != 503 || !strings.Contains(w.Body.String(), "1 queries of yours are being answered") {
		t.Errorf("her second query: %d %s", w.Code, w.Body)
	}
	go func() { done <- call("bob").Code }()
	<-s.entered
	close(s.release)
	for range 2 {
		if code := <-done; code != 200 {
			t.Errorf("a query that was let in: %d", code)
		}
	}
	go func() { <-s.entered }()
	if w := call("alice"); w.Code != 200 {
		t.Errorf("her next query: %d %s", w.Code, w.Body)
	}
}

// TestPromtool lets Prometheus's tool ask.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed; Debian's package prometheus has it")
	}
	base := serve(t, options(t))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"query", "instant", "--time=1800", base, "sum(reckon_workload_info)"}, "{} => 1 @"},
		{[]string{"query", "range", "--start=900", "--end=960", "--step=60s", base, "reckon_workload_info"}, "1 @[960]"},
		{[]string{"query", "series", "--match=reckon_workload_info", "--start=0", "--end=1800", base}, "slurm/4711"},
		{[]string{"query", "labels", "--start=0", "--end=1800", base, "owner"}, "bob"},
	} {
		out, err := exec.CommandContext(t.Context(), promtool, c.args...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("promtool %v: %v\n%s", c.args, err, out)
		}
	}
}

// One query of a subquery in steps of a millisecond took 62 GB and killed the server,
// whatever the bounds on samples were.
func TestQueryTooLarge(t *testing.T) {
	e := query.NewEngine(query.EngineOptions{MaxSamples: 1000})
	o := options(t)
	o.Engine, o.Parser = e, e.Parser()
	h := promapi.Handler(o)
	for _, path := range []string{"query?query=max_over_time(vector(1)[90d:1ms])", "query_range?start=0&end=60&step=60&query=max_over_time(vector(1)[90d:1ms])", "format_query?query=" + strings.Repeat("(", 40_000)} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(admin(t), "GET", "/api/v1/"+path, nil))
		if w.Code != 400 || !strings.Contains(w.Body.String(), "too much at once") {
			t.Errorf("%.40s: %d %.200s", path, w.Code, w.Body)
		}
	}
}

// Remote read: a request with some queries is answered, one with millions is refused at once.
func TestReadTooLarge(t *testing.T) {
	h := promapi.Handler(options(t))
	for n, want := range map[int]int{1: 200, 100: 200, 101: 400, 1_000_000: 400, 3_000_000: 400} {
		body := s2.EncodeSnappy(nil, bytes.Repeat([]byte{1<<3 | 2, 0}, n))
		r := httptest.NewRequestWithContext(admin(t), "POST", "/api/v1/read", bytes.NewReader(body))
		r.Header.Set("Content-Encoding", "snappy")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%d queries: %d %.200s", n, w.Code, w.Body)
		}
	}
}

// Each selector of a request for series sorts all that it selects.
func TestManySelectors(t *testing.T) {
	h := promapi.Handler(options(t))
	for _, path := range []string{"series", "labels", "label/job/values"} {
		for n, want := range map[int]int{1: 200, 100: 200, 101: 400} {
			r := httptest.NewRequestWithContext(admin(t), "GET", "/api/v1/"+path+"?start=0&end=60"+strings.Repeat("&match[]=up", n), nil)
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != want {
				t.Errorf("%s with %d selectors: %d %.200s", path, n, w.Code, w.Body)
			}
		}
	}
}

// Answers of a kilobyte and more are packed for those who take that, and smaller ones and those of others are not.
func TestPacked(t *testing.T) {
	server := serve(t, options(t))
	for _, c := range []struct {
		query, accept string
		want          bool
	}{{"vector(1)", "gzip", false}, {"vector(1)[5m:1s]", "gzip", true}, {"vector(1)[5m:1s]", "identity", false}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server+"/api/v1/query?query="+url.QueryEscape(c.query), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", c.accept)
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if packed := resp.Header.Get("Content-Encoding") == "gzip"; resp.StatusCode != http.StatusOK || packed != c.want {
			t.Errorf("%s to who takes %s: %d, packed: %v", c.query, c.accept, resp.StatusCode, packed)
		}
	}
}

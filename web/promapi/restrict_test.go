package promapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"

	"reckon/access"
	"reckon/web/promapi"
)

// site has work of alice, of bob, of nobody, and machines.
func site(t testing.TB) http.Handler {
	t.Helper()
	s := promqltest.LoadedStorage(t, `
load 15s
  reckon_workload_cpu_seconds_total{workload="slurm/1",owner="alice",node="n1"} 0+15x240
  reckon_workload_cpu_seconds_total{workload="slurm/2",owner="bob",node="n1",secret="bobs"} 0+30x240
  reckon_workload_info{workload="slurm/2",owner="bob",name="bobsjob"} 1x240
  reckon_workload_cpu_seconds_total{workload="other/n1",node="n1"} 0+1x240
  container_cpu_usage_seconds_total{pod="bobspod",namespace="bobsns"} 0+1x240
  bobs_metric{x="bobs"} 1x240
  node_load1{node="n1"} 2x240
  node_user_total{node="n1",user="bob"} 2x240
`)
	return promapi.Handler(promapi.Options{Engine: promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: 1e11}), Queryable: s, Exemplars: s})
}

var alice = access.Viewer{Role: access.User, Name: "alice"}

func ask(t *testing.T, h http.Handler, v access.Viewer, method, target string, body io.Reader, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(access.With(t.Context(), v), method, target, body)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestNoQueryShowsOthers tries to get at the work of bob as alice and as the public.
// Nothing that is answered may hold a word that only his series hold, or a sum with
// his in it.
func TestNoQueryShowsOthers(t *testing.T) {
	h := site(t)
	queries := []string{
		`{__name__=~".+"}`, `{__name__!=""}`, `{owner="bob"}`, `{owner=~"bob|alice"}`, `{owner=~".*"}`, `{owner!="alice"}`, `{owner!~"alice|"}`,
		`{__name__=~".+",owner="alice"} or {owner="bob"}`, `{secret!=""}`, `reckon_workload_cpu_seconds_total{secret="bobs"} offset 1m`,
		`sum by (owner) (reckon_workload_cpu_seconds_total)`, `sum by (workload,secret) (reckon_workload_cpu_seconds_total)`,
		`count_values("v", reckon_workload_info)`, `label_replace({__name__=~".+"}, "owner", "alice", "", "")`,
		`label_join(reckon_workload_info, "all", ",", "owner", "name")`, `group by (name, owner) (reckon_workload_info)`,
		`reckon_workload_cpu_seconds_total * on(workload) group_left(name) reckon_workload_info`,
		`max_over_time((sum by (secret) (reckon_workload_cpu_seconds_total))[30m:1m])`, `topk(10, {__name__=~"reckon.*"})`,
		`{__name__=~".+"} @ 1800`, `timestamp({__name__=~".+"})`, `container_cpu_usage_seconds_total`, `bobs_metric`, `node_user_total`,
		`{__name__=~"bobs.*"}`, `{"reckon_workload_info"}`, `sort_desc({owner=~"b.b"})`, `node_load1 * on(node) group_left(secret) reckon_workload_cpu_seconds_total{owner!="alice"}`,
	}
	for _, v := range []access.Viewer{alice, {Role: access.Public}} {
		for _, q := range queries {
			for _, target := range []string{
				"/api/v1/query?time=1800&query=" + url.QueryEscape(q),
				"/api/v1/query_range?start=900&end=1800&step=60&stats=all&query=" + url.QueryEscape(q),
				"/api/v1/series?start=0&end=3600&match[]=" + url.QueryEscape(q),
				"/api/v1/labels?start=0&end=3600&match[]=" + url.QueryEscape(q),
				"/api/v1/label/workload/values?start=0&end=3600&match[]=" + url.QueryEscape(q),
				"/api/v1/label/__name__/values?start=0&end=3600&match[]=" + url.QueryEscape(q),
				"/api/v1/query_exemplars?start=0&end=3600&query=" + url.QueryEscape(q),
			} {
				w := ask(t, h, v, http.MethodGet, target, nil)
				leaks(t, v, target, q, w.Body.String())
			}
			form := strings.NewReader(url.Values{"query": {q}, "time": {"1800"}}.Encode())
			w := ask(t, h, v, http.MethodPost, "/api/v1/query", form, "Content-Type", "application/x-www-form-urlencoded")
			leaks(t, v, "POST query", q, w.Body.String())
		}
		for _, target := range []string{
			"/api/v1/labels?start=0&end=3600", "/api/v1/label/owner/values?start=0&end=3600", "/api/v1/label/workload/values", "/api/v1/label/secret/values",
			"/api/v1/label/__name__/values", "/api/v1/label/name/values", "/api/v1/label/pod/values", "/api/v1/label/user/values",
			"/api/v1/metadata", "/api/v1/status/tsdb", "/api/v1/targets", "/api/v1/rules", "/api/v1/alerts", "/api/v1/status/config",
			"/api/v1/label/owner/values?limit=1", "/api/v1/series?match[]=%7B__name__%3D~%22.%2B%22%7D&limit=3&start=0&end=3600", "/api/v1/../v1/status/tsdb", "/api/v1/status/tsdb/",
			"/api/v1/query/../status/tsdb", "/api/v1/read/../status/tsdb",
		} {
			leaks(t, v, target, "", ask(t, h, v, http.MethodGet, target, nil).Body.String())
		}
	}
}

func leaks(t *testing.T, v access.Viewer, target, query, body string) {
	t.Helper()
	for _, word := range []string{"bob", "slurm/2", "other/n1", "bobs"} {
		if query != "" {
			body = strings.ReplaceAll(body, query, "") // an error may repeat what was asked
			if strings.Contains(query, word) && strings.Contains(body, `"status":"error"`) {
				continue
			}
		}
		if strings.Contains(body, word) && !strings.Contains(body, `"error":"a viewer of role`) {
			t.Errorf("%s sees %q at %s (%s):\n%s", v.Role, word, target, query, body)
		}
	}
}

// TestSumsHoldOwnOnly: totals over all series hold what the viewer may see.
func TestSumsHoldOwnOnly(t *testing.T) {
	h := site(t)
	for _, c := range []struct {
		v     access.Viewer
		query string
		want  string
	}{
		{alice, `sum(reckon_workload_cpu_seconds_total)`, `[{"metric":{},"value":[1800,"1800"]}]`},
		{access.Viewer{Role: access.Support}, `sum(reckon_workload_cpu_seconds_total)`, `[{"metric":{},"value":[1800,"5520"]}]`},
		{access.Viewer{Role: access.User, Name: "dave", Owners: []string{"alice", "bob"}}, `sum(reckon_workload_cpu_seconds_total)`, `[{"metric":{},"value":[1800,"5400"]}]`},
		{access.Viewer{Role: access.Public}, `sum(reckon_workload_cpu_seconds_total)`, `[]`},
		{access.Viewer{Role: access.Public}, `node_load1`, `[{"metric":{"__name__":"node_load1","node":"n1"},"value":[1800,"2"]}]`},
		{alice, `count({__name__=~".+"})`, `[{"metric":{},"value":[1800,"2"]}]`},
		{access.Viewer{Role: access.User, Name: "ali.e"}, `sum(reckon_workload_cpu_seconds_total)`, `[]`}, // a name is no pattern
		{access.Viewer{Role: access.User, Name: "x|bob"}, `sum(reckon_workload_cpu_seconds_total)`, `[]`},
		{access.Viewer{Role: access.User}, `sum(reckon_workload_cpu_seconds_total)`, `[]`},
	} {
		w := ask(t, h, c.v, http.MethodGet, "/api/v1/query?time=1800&query="+url.QueryEscape(c.query), nil)
		var a struct {
			Data struct{ Result json.RawMessage }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || string(a.Data.Result) != c.want {
			t.Errorf("%+v: %s: %s, want %s", c.v, c.query, w.Body, c.want)
		}
	}
}

// TestNobodyIsRefused: without a viewer nothing is answered.
func TestNobodyIsRefused(t *testing.T) {
	h := site(t)
	for _, target := range []string{"/api/v1/query?query=1", "/api/v1/series?match[]=node_load1", "/api/v1/status/buildinfo", "/api/v1/read"} {
		if w := ask(t, h, access.Viewer{}, http.MethodGet, target, nil); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
}

// TestRemoteRead reads as Prometheus does, in both forms of the answer.
func TestRemoteRead(t *testing.T) {
	h := site(t)
	for _, form := range []prompb.ReadRequest_ResponseType{prompb.ReadRequest_SAMPLES, prompb.ReadRequest_STREAMED_XOR_CHUNKS} {
		for v, want := range map[*access.Viewer]bool{{Role: access.Support}: true, {Role: access.User, Name: "alice"}: false, {Role: access.Public}: false} {
			req := &prompb.ReadRequest{AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{form}, Queries: []*prompb.Query{{
				StartTimestampMs: 0, EndTimestampMs: 3_600_000, Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_RE, Name: "__name__", Value: ".+"}},
			}}}
			raw, err := req.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			w := ask(t, h, *v, http.MethodPost, "/api/v1/read", bytes.NewReader(snappy.Encode(nil, raw)), "Content-Encoding", "snappy", "Content-Type", "application/x-protobuf", "X-Prometheus-Remote-Read-Version", "0.1.0")
			body := w.Body.Bytes()
			if form == prompb.ReadRequest_SAMPLES {
				if body, err = snappy.Decode(nil, body); err != nil {
					t.Fatalf("%d %s: %v", w.Code, w.Body, err)
				}
			}
			if w.Code != 200 || bytes.Contains(body, []byte("bob")) != want || !bytes.Contains(body, []byte("node_load1")) {
				t.Errorf("%s %v: status %d, %d bytes; bob in it: %v", v.Role, form, w.Code, len(body), !want)
			}
		}
	}
}

// TestNamesOfLabels: users find the names and values of labels of what they see, at any
// time, and of nothing else.
func TestNamesOfLabels(t *testing.T) {
	// A day after 1970, where nothing was at the time 0.
	late := promqltest.LoadedStorage(t, "load 1d\n"+
		`  reckon_workload_info{workload="slurm/1",owner="alice"} _ 1`+"\n"+
		`  reckon_workload_info{workload="slurm/2",owner="bob",secret="bobs"} _ 1`+"\n"+
		`  node_load1{node="n1"} _ 1`+"\n")
	h := promapi.Handler(promapi.Options{Engine: promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: 1e11}), Queryable: late, Exemplars: late})
	for _, c := range []struct {
		v            access.Viewer
		target, want string
	}{
		{alice, "labels?start=80000&end=90000", `["__name__","node","owner","workload"]`},
		{alice, "labels", `["__name__","node","owner","workload"]`},
		{alice, "label/owner/values?start=80000&end=90000", `["alice"]`},
		{alice, "label/workload/values", `["slurm/1"]`},
		{alice, "label/secret/values", `[]`},
		{alice, "label/__name__/values", `["node_load1","reckon_workload_info"]`},
		{alice, "label/owner/values?start=10&end=20", `[]`},
		{access.Viewer{Role: access.Public}, "label/__name__/values", `["node_load1"]`},
		{access.Viewer{Role: access.Public}, "labels", `["__name__","node"]`},
	} {
		var a struct{ Data json.RawMessage }
		w := ask(t, h, c.v, http.MethodGet, "/api/v1/"+c.target, nil)
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || string(a.Data) != c.want {
			t.Errorf("%s %s: %s, want %s", c.v.Role, c.target, w.Body, c.want)
		}
	}
}

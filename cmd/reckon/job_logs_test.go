package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"reckon/answer"
	"reckon/web/client"
)

// lokiServer responds like Loki: at most limit lines from start on, without end, of two streams.
type lokiServer struct {
	lines   []int64 // times, in order
	queries []string
	status  int
}

func (l *lokiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	l.queries = append(l.queries, q.Get("query"))
	if l.status != 0 {
		http.Error(w, "parse error: unexpected IDENTIFIER", l.status)
		return
	}
	from, _ := strconv.ParseInt(q.Get("start"), 10, 64)
	to, _ := strconv.ParseInt(q.Get("end"), 10, 64)
	limit, _ := strconv.Atoi(q.Get("limit"))
	if r.URL.Path != "/loki/api/v1/query_range" || q.Get("direction") != "forward" {
		http.NotFound(w, r)
		return
	}
	var values [2][]string
	for i, at := range l.lines {
		if at >= from && at < to && limit > 0 {
			values[i%2] = append(values[i%2], fmt.Sprintf(`["%d","line %d"]`, at, i))
			limit--
		}
	}
	fmt.Fprintf(w, `{"status":"success","data":{"resultType":"streams","result":[{"stream":{"pod":"cart-a","container":"app"},"values":[%s]},{"stream":{"pod":"cart-b","container":"app"},"values":[%s]}]}}`,
		strings.Join(values[0], ","), strings.Join(values[1], ","))
}

// TestJobLogs: the command queries Loki for the pods of a workload and its time range, or prints how to view the logs.
func TestJobLogs(t *testing.T) {
	start := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	answers := map[string]string{
		"deployment/shop/cart": `"owner":"shop","parts":[{"node":"n1","part":"cart.1-a/app"},{"node":"n1","part":"cart.1-a"},{"node":"n2","part":"cart-b/app"}]`,
		"pod/shop/bare":        `"owner":"shop","parts":[{"node":"n1","part":"main"}]`,
		"job/shop/known":       `"owner":"shop","parts":[{"node":"n1","part":"known-x/app"}]`,
		"unit/nginx.service":   `"owner":"root","parts":[{"node":"n1","part":""}]`,
		"slurm/4711":           `"owner":"alice","parts":[{"node":"n1","part":"0"}]`,
	}
	reckon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id, ok := strings.CutPrefix(r.URL.Path, "/api/reckon/v1/logs/"); ok && id == "job/shop/known" {
			q := r.URL.Query()
			if q.Get("order") != "first" || q.Get("limit") != "5000" || q.Get("start") != start.Format(time.RFC3339) {
				t.Errorf("asked %v", q)
			}
			fmt.Fprintf(w, `{"id":%q,"source":"kubernetes","lines":[{"time":"2026-11-22T09:00:01Z","pod":"known-x","container":"app","text":"hello\u001b[2J"}],"missing":["known-y/app"]}`, id)
			return
		}
		id, ok := strings.CutPrefix(r.URL.Path, "/api/reckon/v1/workloads/")
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":%q,"start":%q,"end":%q,%s}`, id, start.Format(time.RFC3339), start.Add(time.Minute).Format(time.RFC3339), answers[id])
	}))
	defer reckon.Close()
	loki := &lokiServer{lines: []int64{start.UnixNano(), start.Add(30 * time.Second).UnixNano(), start.Add(2 * time.Minute).UnixNano()}}
	server := httptest.NewServer(loki)
	defer server.Close()
	for what, tt := range map[string]struct {
		args  []string
		out   string
		errs  string
		query string
		code  int
	}{
		"from Loki": {[]string{"deployment/shop/cart", "--loki", server.URL}, "2026-11-22T09:00:00.000Z cart-a/app line 0\n2026-11-22T09:00:30.000Z cart-b/app line 1\n", "",
			`{namespace="shop",pod=~"cart-b|cart\\.1-a"}`, 0},
		"of the server":      {[]string{"job/shop/known"}, "2026-11-22T09:00:01.000Z known-x/app hello", "known-y/app", "", 0},
		"other labels":       {[]string{"pod/shop/bare", "--loki", server.URL, "--loki-selector", `{k8s_pod="{{.Pods}}"} |= "x"`}, "line 0", "", `{k8s_pod="bare"} |= "x"`, 0},
		"an unknown label":   {[]string{"pod/shop/bare", "--loki", server.URL, "--loki-selector", `{{.Pod}}`}, "", "it may have {{.Namespace}}", "", 2},
		"without Loki":       {[]string{"deployment/shop/cart"}, "kubectl -n shop logs cart.1-a --all-containers --prefix --timestamps --since-time=2026-11-22T08:59:58Z\n", "", "", 0},
		"a unit":             {[]string{"unit/nginx.service"}, "journalctl --unit=nginx.service --since=", "", "", 0},
		"a unit, from Loki":  {[]string{"unit/nginx.service", "--loki", server.URL}, "", "the labels of units in Loki", "", 2},
		"a job of Slurm":     {[]string{"slurm/4711"}, "", "the log location of slurm/4711 is unknown", "", 1},
		"no address":         {[]string{"pod/shop/bare", "--loki", "loki:3100"}, "", "write it like http://loki:3100", "", 2},
		"nothing there":      {[]string{"pod/shop/bare", "--loki", "http://127.0.0.1:1"}, "", "ask Loki: dial tcp", "", 1},
		"two kinds of print": {[]string{"pod/shop/bare", "--format", "json"}, "", "[format logs]", "", 1},
	} {
		t.Run(what, func(t *testing.T) {
			loki.queries = nil
			out, errs, code := call(t, append([]string{"job", "--logs", "--server", reckon.URL}, tt.args...)...)
			if code != tt.code || !strings.Contains(out, tt.out) || !strings.Contains(errs, tt.errs) || tt.query != "" && !slices.Contains(loki.queries, tt.query) {
				t.Errorf("exit %d\n%s%s%q", code, out, errs, loki.queries)
			}
		})
	}
	loki.status = http.StatusBadRequest
	if _, errs, code := call(t, "job", "--logs", "--server", reckon.URL, "pod/shop/bare", "--loki", server.URL); code != 1 || !strings.Contains(errs, "400 Bad Request: parse error") {
		t.Errorf("refused: exit %d %s", code, errs)
	}
}

// TestLogCommands: names are quoted for a shell, and a running run is shown until now.
func TestLogCommands(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	d := &client.WorkloadDetail{Workload: client.Workload{ID: "job/shop/it's", Owner: "shop", Start: now.Add(-time.Hour)}, Parts: []client.Part{{Node: "n1", Part: "it's/app"}}}
	s, err := answer.FindLogPlace(d, now)
	if err != nil || !s.To.Equal(now) {
		t.Errorf("%+v, %v", s, err)
	}
	var b strings.Builder
	if err := printLogCommands(&b, &s, ""); err != nil || !strings.Contains(b.String(), `logs 'it'\''s' --all`) {
		t.Errorf("%s %v", b.String(), err)
	}
}

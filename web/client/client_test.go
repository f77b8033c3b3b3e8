package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestAddresses(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "http://127.0.0.1:9870",
		"n1":                         "http://n1:9870",
		"n1:80":                      "http://n1:80",
		":9999":                      "http://127.0.0.1:9999",
		" http://n1:9870/ ":          "http://n1:9870",
		"https://reckon.example":     "https://reckon.example",
		"https://example/reckon/":    "https://example/reckon",
		"http://n1":                  "http://n1",
		"[::1]:9870":                 "http://[::1]:9870",
		"::1":                        "http://[::1]:9870",
		"fe80::1":                    "http://[fe80::1]:9870",
		"0.0.0.0:9870":               "http://127.0.0.1:9870",
		"127.0.0.1":                  "http://127.0.0.1:9870",
		"http://user:secret@n1:9870": "http://user:xxxxx@n1:9870",
	} {
		c, err := client.New(in)
		if err != nil {
			t.Errorf("%q: %v", in, err)
		} else if c.Server() != want {
			t.Errorf("%q becomes %s, want %s", in, c.Server(), want)
		}
	}
	for in, want := range map[string]string{
		"ftp://n1":       "the scheme ftp is not http or https",
		"http://":        "there is no host",
		"http://n1:port": "invalid port",
		"http://n1/?q=1": "must end with the host or a path",
		"http://n 1":     "invalid character",
	} {
		if _, err := client.New(in); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "write it as") {
			t.Errorf("%q: error %v, want %q", in, err, want)
		}
	}
}

func serve(t *testing.T, h http.Handler) *client.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := client.New(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAgainstServer queries the real handlers behind a path prefix, as behind a proxy.
func TestAgainstServer(t *testing.T) {
	h := api.New(api.Options{Backend: apitest.Site(now)})
	mux := http.NewServeMux()
	mux.Handle("/behind/", http.StripPrefix("/behind", h))
	s := httptest.NewServer(mux)
	defer s.Close()
	c, err := client.New(s.URL + "/behind")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	yes := true
	list, err := c.Workloads(ctx, client.Filter{Owners: []string{"alice"}, Running: &yes, Since: now.Add(-time.Hour), Sort: "-cpu_seconds", Limit: 1})
	if err != nil || list.Total != 2 || len(list.Workloads) != 1 || list.Workloads[0].ID != "slurm/4711" {
		t.Errorf("list %+v, %v", list, err)
	}
	d, err := c.Workload(ctx, "deployment/shop/cart", client.Range{From: now.Add(-time.Hour), To: now, Step: time.Minute})
	if err != nil || d.Name != "cart" || d.StepSeconds != 60 || len(d.Profile) == 0 {
		t.Errorf("detail %+v, %v", d.Workload, err)
	}
	nodes, err := c.Nodes(ctx)
	if err != nil || len(nodes.Nodes) != 2 || nodes.Nodes[1].CoresUsed != nil {
		t.Errorf("nodes %+v, %v", nodes, err)
	}
	var refused *client.APIError
	if _, err := c.Workload(ctx, "slurm/4713", client.Range{}); !errors.As(err, &refused) || refused.Status != 404 || !strings.Contains(err.Error(), "; did you mean slurm/4711") {
		t.Errorf("error %v", err)
	}
	if _, err := c.Workload(ctx, "no such/thing?#%", client.Range{}); !errors.As(err, &refused) || !strings.Contains(err.Error(), `no such/thing?#%`) {
		t.Errorf("error %v", err)
	}
}

// TestErrorsSayWhatToDo covers common answers of a wrong address.
func TestErrorsSayWhatToDo(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>hello") }))
	defer plain.Close()
	missing := httptest.NewServer(http.NotFoundHandler())
	defer missing.Close()
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer slow.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, c := range []struct {
		name, address, want string
		patience            time.Duration // none: as long as it takes
	}{
		{"nothing listens", gone.URL, "no reckon server at " + gone.URL + ": connection refused; start one with `reckon up`, or name one with --server or RECKON_SERVER", 0},
		{"another program", plain.URL, "did not answer with reckon's JSON", 0},
		{"another API", missing.URL, "is this a reckon server? name one with --server", 0},
		{"plain http", strings.Replace(plain.URL, "http:", "https:", 1), "it speaks http, not https; write " + plain.URL, 0},
		{"no such name", "nothing.invalid", "check --server or RECKON_SERVER", 0},
		{"too slow", slow.URL, "no answer in time", 500 * time.Millisecond},
	} {
		x, err := client.New(c.address, client.WithHTTP(&http.Client{Timeout: c.patience}))
		if err != nil {
			t.Fatal(err)
		}
		_, err = x.Nodes(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

func TestCancelled(t *testing.T) {
	c := serve(t, http.NotFoundHandler())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Nodes(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestQuery(t *testing.T) {
	var form string
	answer := ""
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		form = r.Method + " " + r.URL.Path + " " + r.PostFormValue("query") + " " + r.PostFormValue("step")
		if strings.Contains(answer, "error") {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
		fmt.Fprint(w, answer)
	}))
	for body, want := range map[string]string{
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1.5,"+Inf"]}]}}`:                          `[{"metric":{"a":"b"},"samples":[{"time":"1970-01-01T00:00:01.5Z","value":"+Inf"}]}]`,
		`{"status":"success","data":{"resultType":"scalar","result":[2,"NaN"]}}`:                                                            `[{"metric":{},"samples":[{"time":"1970-01-01T00:00:02Z","value":"NaN"}]}]`,
		`{"status":"success","data":{"resultType":"string","result":[2,"hi"]}}`:                                                             `[{"metric":{},"samples":[{"time":"1970-01-01T00:00:02Z","value":"hi"}]}]`,
		`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"1"],[2,"2"]]}]}}`:                           `[{"metric":{},"samples":[{"time":"1970-01-01T00:00:01Z","value":"1"},{"time":"1970-01-01T00:00:02Z","value":"2"}]}]`,
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"histogram":[1,{"count":"7","sum":"3","buckets":[]}]}]}}`: `[{"metric":{},"samples":[{"time":"1970-01-01T00:00:01Z","value":"7","histogram":{"count":"7","sum":"3","buckets":[]}}]}]`,
		`{"status":"success","data":{"resultType":"vector","result":[]}}`:                                                                   `[]`,
	} {
		answer = body
		res, err := c.Query(t.Context(), "up", time.Time{})
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if got, _ := json.Marshal(res.Series); string(got) != want {
			t.Errorf("%s gives\n%s, want\n%s", body, got, want)
		}
	}
	if _, err := c.QueryRange(t.Context(), "up+1", now.Add(-time.Hour), now, 1500*time.Millisecond); err != nil {
		t.Error(err)
	}
	if form != "POST /api/v1/query_range up+1 1.5" {
		t.Errorf("request %q", form)
	}
	answer = `{"status":"error","errorType":"bad_data","error":"parse error: unexpected end"}`
	if _, err := c.Query(t.Context(), "sum(", now); err == nil || err.Error() != "parse error: unexpected end" {
		t.Errorf("error %v", err)
	}
}

func TestLive(t *testing.T) {
	hub := new(api.Hub)
	hub.Publish(apitest.Tick(now, 2))
	c := serve(t, api.New(api.Options{Backend: apitest.Site(now), Hub: hub}))
	n := 2
	for l, err := range c.Live(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if len(l.Workloads) != n {
			t.Errorf("%d workloads, want %d", len(l.Workloads), n)
		}
		if n++; n == 5 {
			break
		}
		hub.Publish(apitest.Tick(now, n))
	}
}

// TestLiveReconnects breaks the stream after each tick.
func TestLiveReconnects(t *testing.T) {
	calls := 0
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, ": hello\n\nevent: other\ndata: {}\n\nevent: live\ndata: {\"node\":\ndata: \"n%d\"}\n\nevent: live\ndata: {cut", calls)
	}))
	var seen []string
	for l, err := range c.Live(t.Context()) {
		if err != nil {
			seen = append(seen, "lost")
			continue
		}
		if seen = append(seen, l.Node); len(seen) > 2 {
			break
		}
	}
	if got := strings.Join(seen, " "); got != "n1 lost n2" {
		t.Errorf("ticks %q, want n1 lost n2", got)
	}
}

func TestLiveWithoutAgentEnds(t *testing.T) {
	c := serve(t, api.New(api.Options{Backend: apitest.Site(now)}))
	n := 0
	for _, err := range c.Live(t.Context()) {
		n++
		if err == nil || !strings.Contains(err.Error(), "runs no agent") {
			t.Errorf("error %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d messages, want one error and the end", n)
	}
}

func Example() {
	// In your own program: client.New("reckon.example:9870").
	server := httptest.NewServer(api.New(api.Options{Backend: apitest.Site(now)}))
	defer server.Close()
	c, err := client.New(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	list, err := c.Workloads(context.Background(), client.Filter{Owners: []string{"alice"}, Sort: "-cpu_seconds"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, w := range list.Workloads {
		if w.CPUSeconds != nil { // nil is "not measured", which is not zero
			fmt.Printf("%s used %.1f core hours\n", w.ID, *w.CPUSeconds/3600)
		}
	}
	// Output:
	// slurm/4711 used 6.4 core hours
	// session/alice/3 used 0.5 core hours
}

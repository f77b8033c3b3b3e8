package api_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"

	"reckon/access"
	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
	"reckon/web/promapi"
)

// computing counts the queries that are computed.
type computing struct {
	promql.QueryEngine
	n atomic.Int32
}

func (c *computing) NewInstantQuery(ctx context.Context, q storage.Queryable, o promql.QueryOpts, s string, at time.Time) (promql.Query, error) {
	c.n.Add(1)
	return c.QueryEngine.NewInstantQuery(ctx, q, o, s, at)
}

// Pages of those who see all share an answer; others, other questions and those who do not ask for it have their own.
// Each look into what people run is in the log.
func TestSharedAnswers(t *testing.T) {
	s := promqltest.LoadedStorage(t, "load 15s\n  reckon_workload_cpu_seconds_total{workload=\"slurm/2\",owner=\"bob\"} 0+30x240\n")
	e := &computing{QueryEngine: promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})}
	var who access.Viewer
	looks, nodes := 0, &counting{Backend: apitest.Site(time.Now())}
	h := api.New(api.Options{
		Viewer:     func(*http.Request) (access.Viewer, error) { return who, nil },
		Backend:    nodes,
		Usage:      nodes,
		Audit:      func(*http.Request, string, string, string) { looks++ },
		Prometheus: promapi.Handler(promapi.Options{Engine: e, Queryable: s, Exemplars: s}),
	})
	boss, help := access.Viewer{Role: access.Admin, Name: "boss"}, access.Viewer{Role: access.Admin, Name: "help"}
	alice := access.Viewer{Role: access.User, Name: "alice", Owners: []string{"alice"}}
	const question, list = "/api/v1/query?query=reckon_workload_cpu_seconds_total&time=600", "/api/reckon/v1/nodes"
	shared := []string{"Cache-Control", "max-age=15"}
	first := map[string]string{}
	for _, c := range []struct {
		who      access.Viewer
		target   string
		header   []string
		computed int32 // of queries and lists of nodes
		bob      bool
	}{
		{boss, question, shared, 1, true},
		{help, question, shared, 1, true},
		{access.Viewer{Role: access.Support, Name: "help"}, question, shared, 2, true}, // of another role
		{boss, question, nil, 3, true},
		{boss, question + "0", shared, 4, false},
		{alice, question, shared, 5, false},
		{boss, "/api/v1/query?query=oops(&time=600", shared, 6, false},
		{boss, "/api/v1/query?query=oops(&time=600", shared, 7, false},
		{boss, list, shared, 8, false},
		{help, list, shared, 8, false},
		{help, list, append([]string{"If-None-Match", `W/"x"`}, shared...), 9, false},
		{help, list, append([]string{"Accept-Encoding", "gzip"}, shared...), 10, false},
		{boss, list, append([]string{"Accept-Encoding", "gzip"}, shared...), 10, false},
		{boss, list, nil, 11, false},
		{boss, "/api/reckon/v1/usage?since=2h&by=owner", shared, 12, false},
		{help, "/api/reckon/v1/usage?since=2h&by=owner", shared, 12, false},
		{alice, "/api/reckon/v1/usage?since=2h&by=owner", shared, 13, false},
		{boss, "/api/reckon/v1/workloads", shared, 13, true},
	} {
		who = c.who
		w := get(t, h, c.target, c.header...)
		if got := e.n.Load() + nodes.n.Load(); got != c.computed {
			t.Errorf("%s as %s %v: %d computed, want %d", c.target, c.who.Name, c.header, got, c.computed)
		}
		if c.who.Name == "alice" && strings.Contains(w.Body.String(), "bob") {
			t.Errorf("alice sees %s", w.Body)
		}
		if c.bob && !strings.Contains(w.Body.String(), "bob") {
			t.Errorf("%s as %s: %d %s", c.target, c.who.Name, w.Code, w.Body)
		}
		key := c.target + strings.Join(c.header, " ")
		if have, ok := first[key]; ok && (c.target == list || c.bob) && w.Body.String() != have {
			t.Errorf("%s as %s: %s, first %s", c.target, c.who.Name, w.Body, have)
		}
		first[key] = w.Body.String()
		if c.target == list && (!strings.HasPrefix(w.Header().Get("ETag"), `W/"`) || !strings.HasPrefix(w.Header().Get("Content-Type"), "application/json")) {
			t.Errorf("%v as %s: %v", c.header, c.who.Name, w.Header())
		}
	}
	if looks != 6 {
		t.Errorf("%d looks are in the log: a shared answer is a look too", looks)
	}
}

// counting counts how often the list of nodes and usage are made.
type counting struct {
	*apitest.Backend
	n atomic.Int32
}

func (c *counting) Nodes(ctx context.Context) (client.NodeList, error) {
	c.n.Add(1)
	return c.Backend.Nodes(ctx)
}

func (c *counting) Usage(context.Context, client.UsageQuery) (client.UsageList, error) {
	c.n.Add(1)
	return client.UsageList{}, nil
}

// An answer is shared for 15 s, and nothing runs for it afterwards: a timer that looks for old answers cost more than a tenth of what a
// server at rest uses.
func TestSharedAnswersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := &counting{Backend: apitest.Site(time.Now())}
		h := api.New(api.Options{Backend: nodes})
		for i, want := range []int32{1, 1, 2} {
			get(t, h, "/api/reckon/v1/nodes", "Cache-Control", "max-age=15")
			if got := nodes.n.Load(); got != want {
				t.Errorf("question %d: %d computed, want %d", i, got, want)
			}
			<-time.After(8 * time.Second)
		}
		<-time.After(8 * time.Second)
	})
}

package promapi_test

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
	"reckon/web/promapi"
)

// counted counts the queries that are computed.
type counted struct {
	promql.QueryEngine
	n atomic.Int32
}

func (c *counted) NewInstantQuery(ctx context.Context, q storage.Queryable, o promql.QueryOpts, s string, at time.Time) (promql.Query, error) {
	c.n.Add(1)
	return c.QueryEngine.NewInstantQuery(ctx, q, o, s, at)
}

// Pages of those who see all share an answer; others, other questions and those who do not ask for it have their own.
func TestSharedAnswers(t *testing.T) {
	s := promqltest.LoadedStorage(t, "load 15s\n  reckon_workload_cpu_seconds_total{workload=\"slurm/2\",owner=\"bob\"} 0+30x240\n")
	e := &counted{QueryEngine: promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})}
	h := promapi.Handler(promapi.Options{Engine: e, Queryable: s, Exemplars: s})
	boss, help := access.Viewer{Role: access.Admin, Name: "boss"}, access.Viewer{Role: access.Support, Name: "help"}
	const question = "/api/v1/query?query=reckon_workload_cpu_seconds_total&time=600"
	var first string
	for _, c := range []struct {
		who      access.Viewer
		target   string
		header   []string
		computed int32
		bob      bool
	}{
		{boss, question, []string{"Cache-Control", "max-age=15"}, 1, true},
		{help, question, []string{"Cache-Control", "max-age=15"}, 1, true},
		{boss, question, []string{"Cache-Control", "max-age=15", "Accept-Encoding", "gzip"}, 1, false}, // packed, as it is short it is not
		{boss, question, nil, 2, true},
		{boss, question + "0", []string{"Cache-Control", "max-age=15"}, 3, false},
		{alice, question, []string{"Cache-Control", "max-age=15"}, 4, false},
		{boss, "/api/v1/query?query=oops(&time=600", []string{"Cache-Control", "max-age=15"}, 5, false},
		{boss, "/api/v1/query?query=oops(&time=600", []string{"Cache-Control", "max-age=15"}, 6, false},
	} {
		w := ask(t, h, c.who, http.MethodGet, c.target, nil, c.header...)
		if got := e.n.Load(); got != c.computed {
			t.Errorf("%s as %s %v: %d computed, want %d", c.target, c.who.Name, c.header, got, c.computed)
		}
		if c.who.Name == "alice" && strings.Contains(w.Body.String(), "bob") {
			t.Errorf("alice sees %s", w.Body)
		}
		if c.bob && !strings.Contains(w.Body.String(), "bob") {
			t.Errorf("%s as %s: %d %s", c.target, c.who.Name, w.Code, w.Body)
		}
		if c.target == question && c.bob {
			if first == "" {
				first = w.Body.String()
			}
			if w.Body.String() != first || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("as %s: %v %s, first %s", c.who.Name, w.Header(), w.Body, first)
			}
		}
	}
}

// An answer is shared for 15 s, and nothing runs for it afterwards: a timer that looks for old answers cost more than a tenth of what a
// server at rest uses.
func TestSharedAnswersEnd(t *testing.T) {
	s := promqltest.LoadedStorage(t, "load 15s\n  reckon_workload_cpu_seconds_total{workload=\"slurm/2\",owner=\"bob\"} 0+30x240\n")
	synctest.Test(t, func(t *testing.T) {
		e := &counted{QueryEngine: promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})}
		h := promapi.Handler(promapi.Options{Engine: e, Queryable: s, Exemplars: s})
		for i, want := range []int32{1, 1, 2} {
			ask(t, h, access.Viewer{Role: access.Admin}, http.MethodGet, "/api/v1/query?query=reckon_workload_cpu_seconds_total&time=600", nil,
				"Cache-Control", "max-age=15")
			if got := e.n.Load(); got != want {
				t.Errorf("question %d: %d computed, want %d", i, got, want)
			}
			<-time.After(8 * time.Second)
		}
		<-time.After(8 * time.Second)
	})
}

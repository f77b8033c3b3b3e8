package query_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"

	"reckon/query"
)

// TestQueryBounds: queries that would exhaust memory or take a minute to parse are refused before they
// run; each bound is tested on both sides.
func TestQueryBounds(t *testing.T) {
	const samples = 20_000
	e := query.NewEngine(query.EngineOptions{MaxSamples: samples})
	none := storage.QueryableFunc(func(int64, int64) (storage.Querier, error) { return storage.NoopQuerier(), nil })
	end := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		name, query string
		span        time.Duration // of a range query with 60 s steps; 0 for an instant query
		refused     bool
	}{
		{"a subquery of 7.8e9 steps", "max_over_time(vector(1)[90d:1ms])", 0, true},
		{"as many steps as the API gives a range", "max_over_time(x[10999s:1s])", 0, false},
		{"one more", "max_over_time(vector(1)[11000s:1s])", 0, true},
		{"the span of a range query counts", "max_over_time(vector(1)[7000s:1s])", 3 * time.Hour, true},
		{"and is not too much when short", "max_over_time(x[7000s:1s])", time.Hour, false},
		{"a subquery in a subquery has both ranges", "max_over_time(max_over_time(vector(1)[10000s:1s])[10001s:1h])", 0, true},
		{"two that are small enough each", "max_over_time(vector(1)[6000s:1s]) or max_over_time(vector(1)[6000s:1s])", 0, true},
		{"without a step it is a minute", "max_over_time(x[7d:])", 0, false},
		{"a minute over eight days", "max_over_time(vector(1)[8d:])", 0, true},
		{"brackets", strings.Repeat("(", 4_000) + "1" + strings.Repeat(")", 4_000), 0, false},
		{"more brackets", strings.Repeat("(", 4_001) + "1" + strings.Repeat(")", 4_001), 0, true},
		{"signs", "1" + strings.Repeat("+1", 4_001), 0, true},
		{"words", "vector(1)" + strings.Repeat(" or vector(1)", 2_000), 0, true},
		{"brackets in strings", `label_replace(vector(1), "a", "` + strings.Repeat("(", 9_000) + `", "b", "x")`, 0, false},
		{"brackets in comments", "1 # " + strings.Repeat("(", 9_000), 0, false},
		{"a label that doubles eight times", strings.Repeat("label_join(", 8) + "vector(1)" + strings.Repeat(`, "a", "", "a", "a")`, 8), 0, false},
		{"ten times", strings.Repeat("label_join(", 10) + "vector(1)" + strings.Repeat(`, "a", "", "a", "a")`, 10), 0, true},
		{"by a replacement", strings.Repeat("label_replace(", 10) + "vector(1)" + strings.Repeat(`, "a", "$1${1}", "a", "(.*)")`, 10), 0, true},
		{"labels that add up", strings.Repeat("label_replace(", 30) + "vector(1)" + strings.Repeat(`, "a", "`+strings.Repeat("x", 2184)+`", "", "")`, 30), 0, false},
		{"and a little more", strings.Repeat("label_replace(", 30) + "vector(1)" + strings.Repeat(`, "a", "`+strings.Repeat("x", 2185)+`", "", "")`, 30), 0, true},
		{"between brackets", `label_replace(vector(1), "a", ("` + strings.Repeat("x", 70_000) + `"), "", "")`, 0, true},
		{"length", "1 #" + strings.Repeat(" ", 256<<10), 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var q promql.Query
			var err error
			if c.span == 0 {
				q, err = e.NewInstantQuery(t.Context(), none, nil, c.query, end)
			} else {
				q, err = e.NewRangeQuery(t.Context(), none, nil, c.query, end.Add(-c.span), end, time.Minute)
			}
			if errors.Is(err, query.ErrTooLarge) != c.refused || (err != nil) != c.refused {
				t.Fatalf("error %v, want refused %v", err, c.refused)
			}
			if err != nil {
				return
			}
			defer q.Close()
			if r := q.Exec(t.Context()); r.Err != nil {
				t.Errorf("it was taken, and then: %v", r.Err)
			}
		})
	}
}

// TestWrongQuery: parse errors keep the wording of the engine.
func TestWrongQuery(t *testing.T) {
	_, err := query.NewEngine(query.EngineOptions{}).NewInstantQuery(t.Context(), nil, nil, "sum(", time.Now())
	if err == nil || errors.Is(err, query.ErrTooLarge) || !strings.Contains(err.Error(), "parse error") {
		t.Errorf("got %v, want a parse error", err)
	}
}

package sparql_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"reckon/graph"
	"reckon/graph/sparql"
)

func TestUnsupported(t *testing.T) {
	for text, construct := range map[string]string{
		"SELECT * { SERVICE <x:s> { ?s ?p ?o } }": "SERVICE",
		"SELECT * { ?s ?p ?o FILTER(<x:f>(?o)) }": "the function <x:f>",
		"SELECT (PERCENTILE(1) AS ?x) {\n}":       "PERCENTILE",
	} {
		_, err := sparql.Parse(text)
		var u *sparql.UnsupportedError
		if !errors.As(err, &u) || u.Construct != construct || u.Line != 1 {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, construct := range map[string]string{
		"INSERT { ?s ?p 1 } WHERE { ?s ?p ?o }": "INSERT", "DELETE WHERE { ?s ?p ?o }": "DELETE", "CLEAR ALL": "CLEAR", "LOAD <x:a>": "LOAD", "DROP ALL": "DROP ALL",
	} {
		_, err := sparql.ParseUpdate(text)
		var u *sparql.UnsupportedError
		if !errors.As(err, &u) || u.Construct != construct {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	for text, want := range map[string]string{
		"": "line 1, column 1", "SELECT": "names no column", "SELECT * {\n ?s ?p }": "line 2", "SELECT * { ?s ?p ?o": "no end",
		"SELECT * { ?s x:p ?o }": "\"x\" is not declared", "SELECT * { ?s <p> ?o }": "relative", "SELECT ?x { ?x ?p ?o } GROUP BY ?p": "neither a key",
		"SELECT * { ?s ?p ?o } GROUP BY ?p": "do not go together", "SELECT * { ?s ?p ?o BIND(1 AS ?s) }": "bound before", "SELECT * { ?s ?p ?o } LIMIT -1": "LIMIT",
		"SELECT * { FILTER(COUNT(?x) > 1) }": "outside of a group", "SELECT * { ?s ?p \"a }": "no end", "ASK {} x": "after the end", "SELECT * { ?s ?p ?o FILTER(1 < ) }": "expression",
		"SELECT * " + strings.Repeat("{", 101): "nested", "SELECT * { FILTER(" + strings.Repeat("(", 101): "nested", "SELECT * { FILTER(" + strings.Repeat("!", 200) + "true) }": "nested",
		"SELECT * { VALUES ?x { ?y } }": "terms", strings.Repeat(" ", 1<<20+1): "longer",
	} {
		if _, err := sparql.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
}

func TestUpdate(t *testing.T) {
	u, err := sparql.ParseUpdate(`PREFIX e: <urn:e:> DROP GRAPH <timestamp:1>; DROP SILENT GRAPH <timestamp:2>;
INSERT DATA { GRAPH <x:g> { e:a e:p 1, "b" . [] e:q e:c } } ; DELETE DATA { GRAPH <x:g> { e:a e:p 2 } };`)
	if err != nil || len(u) != 4 || u[0].Drop != "timestamp:1" || u[0].Silent || !u[1].Silent || len(u[2].Insert) != 3 || len(u[3].Delete) != 1 {
		t.Fatal(u, err)
	}
	if u[2].Insert[0].G != graph.Node("x:g") || u[2].Insert[2].S.Kind != graph.Blank {
		t.Error(u[2].Insert)
	}
	for _, bad := range []string{"", "INSERT DATA { ?x <x:p> 1 }", "INSERT DATA { <x:a> <x:p>/<x:q> 1 }", "DELETE DATA { _:a <x:p> 1 }", "DROP GRAPH", "INSERT DATA { GRAPH ?g { <x:a> <x:b> 1 } }", "SELECT * {}"} {
		if _, err := sparql.ParseUpdate(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// ring is n things in a circle, each with a number.
func ring(n int) *sparql.Memory {
	var quads []graph.Quad
	for i := range n {
		s := graph.Node(fmt.Sprintf("x:n%d", i))
		quads = append(quads, graph.Quad{S: s, P: graph.Node("x:next"), O: graph.Node(fmt.Sprintf("x:n%d", (i+1)%n)), G: graph.Node("x:g")},
			graph.Quad{S: s, P: graph.Node("x:n"), O: graph.Integer(int64(i)), G: graph.Node("x:g")})
	}
	return sparql.NewMemory(quads)
}

func TestLimits(t *testing.T) {
	data := ring(100)
	run := func(text string, l sparql.Limits) error {
		q, err := sparql.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = q.Run(context.Background(), data, l)
		return err
	}
	const cross = "SELECT * { ?a <x:n> ?b . ?c <x:n> ?d }" // 10,000 rows
	for _, c := range []struct {
		l  sparql.Limits
		ok bool
	}{{sparql.Limits{Rows: 10_000}, true}, {sparql.Limits{Rows: 9_999}, false}, {sparql.Limits{Cells: 50_000}, true}, {sparql.Limits{Cells: 49_999}, false}} {
		if err := run(cross, c.l); (err == nil) != c.ok || err != nil && !errors.Is(err, sparql.ErrTooMuch) {
			t.Errorf("%+v: %v", c.l, err)
		}
	}
	began := time.Now()
	err := run("SELECT * { ?a <x:n> ?b . ?c <x:n> ?d . ?e <x:n> ?f . ?g <x:n> ?h }", sparql.Limits{Rows: 1 << 30, Cells: 1 << 30, Time: 50 * time.Millisecond})
	if !errors.Is(err, sparql.ErrTooMuch) || time.Since(began) > 20*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	q, err := sparql.Parse(cross)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Run(ctx, data, sparql.Limits{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestHugeNumbersAndTexts(t *testing.T) {
	// Each BIND squares: without a limit the last would have 2^64 digits.
	text := "SELECT ?x64 { BIND(10 AS ?x0) "
	for i := range 64 {
		text += fmt.Sprintf("BIND(?x%d * ?x%d AS ?x%d) ", i, i, i+1)
	}
	q, err := sparql.Parse(text + "}")
	if err != nil {
		t.Fatal(err)
	}
	r, err := q.Run(context.Background(), ring(1), sparql.Limits{})
	if err != nil || len(r.Rows) != 1 || !r.Rows[0][0].IsZero() {
		t.Errorf("%v, %v", r, err)
	}
	text = "SELECT ?x64 { BIND(\"0123456789\" AS ?x0) "
	for i := range 64 {
		text += fmt.Sprintf("BIND(CONCAT(?x%d, ?x%d) AS ?x%d) ", i, i, i+1)
	}
	if q, err = sparql.Parse(text + "}"); err != nil {
		t.Fatal(err)
	}
	if r, err = q.Run(context.Background(), ring(1), sparql.Limits{}); err != nil || !r.Rows[0][0].IsZero() {
		t.Errorf("%v, %v", r, err)
	}
}

// A condition does not see bindings of an outer group, wherever the optimiser moves it.
func TestScopes(t *testing.T) {
	data := ring(3)
	for text, rows := range map[string]int{
		"SELECT * { ?s <x:n> ?n { ?t <x:n> ?m FILTER(?n = 1) } }":                           0,
		"SELECT * { ?s <x:n> ?n . ?t <x:n> ?m FILTER(?n = 1) }":                             3,
		"SELECT * { ?s <x:n> ?n OPTIONAL { ?s <x:next> ?t FILTER(?n = 1) } }":               3,
		"SELECT * { ?s <x:n> ?n OPTIONAL { ?s <x:next> ?t } FILTER(BOUND(?t)) }":            3,
		"SELECT * { { ?s <x:n> 0 } OPTIONAL { ?t <x:n> 1 } OPTIONAL { ?t <x:n> ?n } }":      1,
		"SELECT * { ?s <x:n> ?n { SELECT (COUNT(?n) AS ?c) { ?x <x:n> ?n } } }":             3,
		"SELECT * { GRAPH ?g { ?s <x:n> ?n } GRAPH ?h { ?s <x:next> ?o } FILTER(?g = ?h) }": 3,
		"SELECT * { GRAPH <x:nowhere> { ?s ?p ?o } }":                                       0,
		"SELECT * { ?s <x:n> ?n FILTER NOT EXISTS { ?t <x:n> ?m FILTER(?m > ?n) } }":        1,
	} {
		q, err := sparql.Parse(text)
		if err != nil {
			t.Fatal(text, err)
		}
		r, err := q.Run(context.Background(), data, sparql.Limits{})
		if err != nil || len(r.Rows) != rows {
			t.Errorf("%s: %d rows, %v, want %d", text, len(r.Rows), err, rows)
		}
	}
}

func FuzzQuery(f *testing.F) {
	f.Add("SELECT ?s (COUNT(*) AS ?n) { ?s <x:n> ?o OPTIONAL { ?s <x:next>/<x:n> ?q FILTER(?q > 1) } } GROUP BY ?s HAVING(?n > 0) ORDER BY DESC(?n) LIMIT 5")
	f.Add("PREFIX x: <x:> ASK { GRAPH ?g { ?a x:next* ?b } { SELECT DISTINCT ?a { ?a ?p ?o } } UNION { VALUES (?a ?c) { (x:n1 UNDEF) } } }")
	f.Add("SELECT * { BIND(IF(1 = 1.0, replace(\"abc\", \"(b)\", \"$1\"), -2) AS ?x) FILTER(?x IN (1, \"a\"@en) || regex(?x, \"a\", \"i\")) }")
	data := ring(4)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 400 {
			return
		}
		q, err := sparql.Parse(text)
		if err != nil {
			return
		}
		_, _ = q.Run(context.Background(), data, sparql.Limits{Rows: 2000, Cells: 100_000, Time: time.Second})
	})
}

func FuzzUpdate(f *testing.F) {
	f.Add("PREFIX x: <x:> INSERT DATA { GRAPH x:g { x:a x:b [ x:c 1 ] } }; DROP GRAPH <x:g>")
	f.Fuzz(func(_ *testing.T, text string) { _, _ = sparql.ParseUpdate(text) })
}

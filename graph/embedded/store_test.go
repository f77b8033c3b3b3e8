package embedded_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"reckon/catalogue/database"
	"reckon/graph"
	"reckon/graph/embedded"
	"reckon/graph/graphtest"
	"reckon/graph/sparql"
	"reckon/store/storetest"
)

func open(t testing.TB, c *database.Catalogue, o embedded.Options) *embedded.Store {
	t.Helper()
	shared := c.Shared()
	o.DB, o.Write, o.Postgres, o.Explain = shared.DB, shared.Write, shared.Postgres, shared.Explain
	s, err := embedded.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sqlite(t testing.TB, file string) *database.Catalogue {
	t.Helper()
	c, err := database.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func fresh(t testing.TB) *embedded.Store {
	c := sqlite(t, filepath.Join(t.TempDir(), "c.db"))
	s := open(t, c, embedded.Options{})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestSQLite(t *testing.T) { graphtest.Store(t, fresh(t)) }

func TestPostgres(t *testing.T) {
	address, start := storetest.Postgres(t, "pgx")
	defer start()()
	c, err := database.OpenURL(context.Background(), address(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := open(t, c, embedded.Options{})
	graphtest.Store(t, s)
	// A second server on the same database sees writes of the first.
	other := open(t, c, embedded.Options{})
	for i := range 3 {
		write(t, s, "x:shared", "n"+strconv.Itoa(i))
		if got := ask(t, other, "SELECT ?o { GRAPH <x:shared> { ?s ?p ?o } }"); got != `"n`+strconv.Itoa(i)+`"` {
			t.Error(got)
		}
	}
}

func write(t testing.TB, s *embedded.Store, id string, values ...string) graph.Info {
	t.Helper()
	var quads []graph.Quad
	for _, v := range values {
		quads = append(quads, graph.Quad{S: graph.Node("x:" + v), P: graph.Node("x:p"), O: graph.Text(v)})
	}
	info, _, err := s.Put(context.Background(), id, graph.Put{Quads: quads, Owner: strings.TrimPrefix(id, "x:"), IfVersion: graph.AnyVersion})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func ask(t testing.TB, s *embedded.Store, query string) string {
	t.Helper()
	return askAs(t, s, query, nil)
}

func askAs(t testing.TB, s *embedded.Store, query string, visible func(graph.Info) bool) string {
	t.Helper()
	r, err := s.Query(context.Background(), query, sparql.Limits{}, visible)
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, row := range r.Rows {
		var cells []string
		for _, c := range row {
			cells = append(cells, c.String())
		}
		rows = append(rows, strings.Join(cells, " "))
	}
	return strings.Join(rows, "\n")
}

// Written statements are in the result of the next query, also when much of the index has changed.
func TestQueryFollowsChanges(t *testing.T) {
	s := fresh(t)
	const count = "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"
	want := func(n int) {
		t.Helper()
		if got := ask(t, s, count); got != graph.Integer(int64(n)).String() {
			t.Errorf("%s statements, want %d", got, n)
		}
	}
	want(0)
	for i := range 300 {
		values := make([]string, 50)
		for j := range values {
			values[j] = fmt.Sprintf("%d-%d", i, j)
		}
		write(t, s, fmt.Sprintf("x:%d", i), values...)
		if i%100 == 0 {
			want(50 * (i + 1))
		}
	}
	want(15000)
	write(t, s, "x:7", "one")
	want(14951)
	if _, err := s.Delete(context.Background(), "x:7", graph.AnyVersion); err != nil {
		t.Fatal(err)
	}
	want(14950)
	if err := s.Compact(context.Background()); err != nil {
		t.Fatal(err)
	}
	write(t, s, "x:7", "two")
	want(14951)
	if got := ask(t, s, "SELECT ?o { GRAPH <x:7> { ?s ?p ?o } }"); got != `"two"` {
		t.Error(got)
	}
	if got := ask(t, s, "SELECT (COUNT(?g) AS ?n) { GRAPH ?g {} }"); got != graph.Integer(300).String() {
		t.Error(got)
	}
}

// A query sees nothing of graphs that the viewer may not see: not their statements, not their names, not by joins,
// paths or NOT EXISTS.
func TestVisible(t *testing.T) {
	s := fresh(t)
	write(t, s, "x:alice", "a", "both")
	write(t, s, "x:bob", "b", "both")
	alice := func(i graph.Info) bool { return i.Owner == "alice" }
	for query, want := range map[string]string{
		"SELECT ?g { GRAPH ?g {} }":                                           "<x:alice>",
		"SELECT ?o { ?s ?p ?o } ORDER BY ?o":                                  "\"a\"\n\"both\"",
		"SELECT ?o { GRAPH <x:bob> { ?s ?p ?o } }":                            "",
		"SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?s <x:p> ?o } }":                graph.Integer(2).String(),
		"SELECT ?x { VALUES ?x { 1 } FILTER NOT EXISTS { ?s ?p \"b\" } }":     graph.Integer(1).String(),
		"SELECT ?x { <x:b> <x:p>+ ?x }":                                       "",
		"SELECT ?o { { ?s ?p ?o FILTER(?o = \"b\") } UNION { <x:b> ?p ?o } }": "",
	} {
		if got := askAs(t, s, query, alice); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	if got := askAs(t, s, "SELECT ?o { ?s ?p ?o }", func(graph.Info) bool { return false }); got != "" {
		t.Error(got)
	}
}

func TestUpdate(t *testing.T) {
	s := fresh(t)
	do := func(text string) error {
		u, err := sparql.ParseUpdate(text)
		if err != nil {
			t.Fatal(err)
		}
		return s.Update(context.Background(), u, graph.Put{}, func(id string) error {
			if id == "x:locked" {
				return fmt.Errorf("locked")
			}
			return nil
		})
	}
	for _, text := range []string{"INSERT DATA { GRAPH <x:g> { <x:a> <x:p> 1, 2 } GRAPH <x:h> { <x:a> <x:p> 3 } }", "DELETE DATA { GRAPH <x:g> { <x:a> <x:p> 2 } GRAPH <x:none> { <x:a> <x:p> 2 } }", "DROP GRAPH <x:h>; DROP SILENT GRAPH <x:h>"} {
		if err := do(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if got := ask(t, s, "SELECT ?g ?o { GRAPH ?g { ?s ?p ?o } }"); got != "<x:g> "+graph.Integer(1).String() {
		t.Error(got)
	}
	for _, text := range []string{"DROP GRAPH <x:h>", "INSERT DATA { <x:a> <x:p> 1 }", "INSERT DATA { GRAPH <x:locked> { <x:a> <x:p> 1 } }", "DROP SILENT GRAPH <x:locked>"} {
		if err := do(text); err == nil {
			t.Errorf("%s is done", text)
		}
	}
}

// Versions rise when an older database replaces the present one, and when the clock jumps back.
func TestVersionsRiseOverRestore(t *testing.T) {
	dir := t.TempDir()
	file, copied, state := filepath.Join(dir, "c.db"), filepath.Join(dir, "copy.db"), filepath.Join(dir, "graph.state")
	now := time.UnixMilli(1_800_000_000_000)
	c := sqlite(t, file)
	o := embedded.Options{State: state, Now: func() time.Time { return now }}
	s := open(t, c, o)
	first := write(t, s, "x:a", "1")
	if err := c.Snapshot(context.Background(), copied); err != nil {
		t.Fatal(err)
	}
	now = now.Add(-time.Hour)
	second := write(t, s, "x:a", "2")
	if second.Version <= first.Version {
		t.Errorf("the clock jumped back and so did the version: %d after %d", second.Version, first.Version)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	version := func(file string, o embedded.Options) int64 {
		c := sqlite(t, file)
		defer c.Close()
		s := open(t, c, o)
		info, _, err := s.Get(context.Background(), "x:a")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return info.Version
	}
	if got := version(file, o); got != second.Version {
		t.Errorf("opening again changed the version from %d to %d", second.Version, got)
	}
	now = now.Add(2 * time.Hour)
	if got := version(copied, o); got <= second.Version {
		t.Errorf("the backup has version %d, and %d was seen", got, second.Version)
	}
	o.State = filepath.Join(dir, "elsewhere.state") // a new data directory
	if got := version(file, o); got <= second.Version {
		t.Errorf("a restored directory has version %d, and %d was seen", got, second.Version)
	}
}

type minutes struct{ made []int64 }

func (m *minutes) Times(context.Context) ([]int64, error) {
	return []int64{60_000, 120_000, 180_000}, nil
}

func (m *minutes) At(_ context.Context, ms int64, _ func(graph.Info) bool) ([]graph.Quad, error) {
	m.made = append(m.made, ms)
	return []graph.Quad{{S: graph.Node("x:n"), P: graph.Node("x:at"), O: graph.Integer(ms)}, {S: graph.Node("x:n"), P: graph.Node("x:p"), O: graph.Text("stored")}}, nil
}

// Only the snapshots that pass the filter on their names are built.
func TestSnapshots(t *testing.T) {
	c := sqlite(t, filepath.Join(t.TempDir(), "c.db"))
	defer c.Close()
	m := &minutes{}
	s := open(t, c, embedded.Options{Snapshots: m})
	write(t, s, "timestamp:120000", "stored") // takes precedence over the built one
	const query = `PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
SELECT ?g ?o WHERE {
  { SELECT ?g ?t WHERE { GRAPH ?g {} FILTER(regex(str(?g), "^timestamp:")) BIND(xsd:integer(replace(str(?g), "^timestamp:", "")) AS ?t) } }
  FILTER(?t >= 100000 && ?t < 200000)
  GRAPH ?g { SELECT ?s ?o WHERE { ?s ?p ?o } }
} ORDER BY ?g ?o`
	want := "<timestamp:120000> \"stored\"\n<timestamp:180000> " + graph.Integer(180000).String() + "\n<timestamp:180000> \"stored\""
	if got := ask(t, s, query); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if len(m.made) != 1 || m.made[0] != 180_000 {
		t.Error("made", m.made)
	}
	// A term of the query that is in no stored graph is found in a snapshot.
	if got := ask(t, s, "SELECT ?o { GRAPH <timestamp:60000> { <x:n> <x:at> ?o } }"); got != graph.Integer(60000).String() {
		t.Error(got)
	}
	if got := ask(t, s, "SELECT ?o { ?s <x:at> ?o }"); got != "" {
		t.Error("snapshots are in the union of all graphs:", got)
	}
}

func TestTooManyStatements(t *testing.T) {
	c := sqlite(t, filepath.Join(t.TempDir(), "c.db"))
	defer c.Close()
	s := open(t, c, embedded.Options{MaxQuads: 3})
	write(t, s, "x:a", "1", "2", "3")
	ask(t, s, "ASK { ?s ?p ?o }")
	write(t, s, "x:b", "4")
	if _, err := s.Query(context.Background(), "ASK { ?s ?p ?o }", sparql.Limits{}, nil); err == nil {
		t.Error("four statements are three")
	}
}

func TestCopyTo(t *testing.T) {
	from, to := fresh(t), fresh(t)
	write(t, from, "x:a", "1")
	write(t, from, "x:a", "2")
	write(t, from, "x:gone", "3")
	if _, err := from.Delete(context.Background(), "x:gone", graph.AnyVersion); err != nil {
		t.Fatal(err)
	}
	for range 2 { // repeating it does no harm
		if n, err := from.CopyTo(context.Background(), to); err != nil || n != 2 {
			t.Fatal(n, err)
		}
	}
	a, _, err := from.Get(context.Background(), "x:a")
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := to.Get(context.Background(), "x:a")
	if err != nil || b.Version < a.Version || b.Owner != a.Owner || b.Quads != 1 {
		t.Errorf("%+v, %v, of %+v", b, err, a)
	}
	if again := write(t, to, "x:gone", "4"); again.Version <= a.Version {
		t.Errorf("a deleted subgraph begins at %d again", again.Version)
	}
}

func TestDropTimestamps(t *testing.T) {
	s := fresh(t)
	for _, id := range []string{"timestamp:1000", "timestamp:2000", "x:node/timestamp:1999", "x:a-timestamp:1", "timestamp:x"} {
		write(t, s, id, "v")
	}
	if n, err := embedded.DropTimestamps(context.Background(), s, time.UnixMilli(2000)); err != nil || n != 2 {
		t.Error(n, err)
	}
	if got := ask(t, s, "SELECT ?g { GRAPH ?g {} } ORDER BY ?g"); got != "<timestamp:2000>\n<timestamp:x>\n<x:a-timestamp:1>" {
		t.Error(got)
	}
}

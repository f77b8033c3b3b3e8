package graph_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/graph"
)

func TestTurtle(t *testing.T) {
	const doc = `@prefix ex: <http://example.org/> .
PREFIX : <http://example.org/default#>
@base <http://example.org/base/> .
# a comment
ex:a a ex:Class ; ex:p 1, -2.5, 1e3, true, "text", 'it''s'@EN-gb ; ;
  :q <relative>, """long "quoted"
text""", "5"^^ex:type .
[] ex:p [ ex:q ( 1 ex:b ) ] .
_:x ex:p ex:with\,comma, ex:a%20b, ex:a.b .
`
	// 'it''s' is two literals in Turtle, so the document is wrong there; see below.
	if _, err := graph.ReadTurtle(strings.NewReader(doc), "", graph.Limits{}); err == nil {
		t.Error("two literals without a comma were read")
	}
	quads, err := graph.ReadTurtle(strings.NewReader(strings.Replace(doc, "'it''s'", `'it\'s'`, 1)), "", graph.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, q := range quads {
		got[q.String()] = true
	}
	const ex = "<http://example.org/"
	for _, want := range []string{
		ex + "a> <" + graph.RDFType + "> " + ex + "Class> .",
		ex + `a> ` + ex + `p> "1"^^<` + graph.XSDInteger + "> .",
		ex + `a> ` + ex + `p> "-2.5"^^<` + graph.XSDDecimal + "> .",
		ex + `a> ` + ex + `p> "1e3"^^<` + graph.XSDDouble + "> .",
		ex + `a> ` + ex + `p> "true"^^<` + graph.XSDBoolean + "> .",
		ex + `a> ` + ex + `p> "it's"@en-gb .`,
		ex + `a> ` + ex + `default#q> ` + ex + `base/relative> .`,
		ex + `a> ` + ex + `default#q> "long \"quoted\"\ntext" .`,
		ex + `a> ` + ex + `default#q> "5"^^` + ex + `type> .`,
		`_:ux ` + ex + `p> ` + ex + `with,comma> .`,
		`_:ux ` + ex + `p> ` + ex + `a%20b> .`,
		`_:ux ` + ex + `p> ` + ex + `a.b> .`,
	} {
		if !got[want] {
			t.Errorf("missing %s", want)
		}
	}
	if len(quads) != 19 {
		t.Errorf("%d statements, want 19", len(quads))
	}
}

func TestRoundTrips(t *testing.T) {
	quads := []graph.Quad{
		{S: graph.Node("http://e/a"), P: graph.Node("http://e/p"), O: graph.Text("a\"b\\c\n\r\t\u0001\u007fü€😀"), G: graph.Node("http://e/g")},
		{S: graph.BlankNode("x"), P: graph.Node("http://e/p"), O: graph.BlankNode("y")},
		{S: graph.Node("http://e/a"), P: graph.Node(graph.RDFType), O: graph.Typed("5", graph.XSDInteger)},
		{S: graph.Node("http://e/a"), P: graph.Node("http://e/p"), O: graph.Typed("-", graph.XSDInteger)},
		{S: graph.Node("http://e/a"), P: graph.Node("http://e/p-"), O: graph.InLanguage("x", "de-AT")},
		{S: graph.Node("urn:x:%20"), P: graph.Node("http://e/1a"), O: graph.Node("http://e/a.")},
		{S: graph.Node("urn:x"), P: graph.Node("http://e/t"), O: graph.DateTime(time.Unix(0, 0))},
	}
	var b strings.Builder
	if err := graph.WriteNQuads(&b, quads); err != nil {
		t.Fatal(err)
	}
	back, err := graph.ReadNQuads(strings.NewReader(b.String()), graph.Limits{})
	if err != nil || !slices.Equal(back, quads) {
		t.Errorf("N-Quads come back as %v, %v", back, err)
	}
	b.Reset()
	plain := slices.Clone(quads)
	plain[0].G = graph.Term{}
	if err := graph.WriteTurtle(&b, quads, []graph.Prefix{{Name: "e", IRI: "http://e/"}, {Name: "xsd", IRI: graph.XSD}}); err != nil {
		t.Fatal(err)
	}
	back, err = graph.ReadTurtle(strings.NewReader(b.String()), "", graph.Limits{})
	if err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	if same, err := graph.Isomorphic(back, plain); !same || err != nil {
		t.Errorf("Turtle comes back as other statements (%v):\n%s", err, b.String())
	}
}

func TestBadDocuments(t *testing.T) {
	for _, c := range []struct{ doc, place string }{
		{"<http://e/a> <http://e/p> \"x\" .\n<http://e/a b> <http://e/p> \"x\" .", "line 2, column 1"},
		{"<a> <http://e/p> \"x\" .", "line 1"},
		{"<http://e/a> \"p\" \"x\" .", "line 1"},
		{"<http://e/a> <http://e/p> \"x\"", "line 1"},
		{"<http://e/a> <http://e/p> \"\\q\" .", "line 1"},
		{"<http://e/a> <http://e/p> \"\\ud800\" .", "line 1"},
		{"<http://e/a> <http://e/p> \"\\u0000\" .", "zero"},
		{"<http://e/a> <http://e/p> \"x\"@ .", "line 1"},
		{"_: <http://e/p> \"x\" .", "line 1"},
		{"<http://e/a> <http://e/p> \"x\" . more", "line 1"},
		{"<http://e/\u0001> <http://e/p> \"x\" .", "line 1"},
	} {
		if _, err := graph.ReadNQuads(strings.NewReader(c.doc), graph.Limits{}); err == nil || !strings.Contains(err.Error(), c.place) {
			t.Errorf("N-Quads %q: %v", c.doc, err)
		}
		if _, err := graph.ReadTurtle(strings.NewReader(c.doc), "", graph.Limits{}); err == nil || !strings.Contains(err.Error(), c.place) {
			t.Errorf("Turtle %q: %v", c.doc, err)
		}
	}
	const one = "<http://e/a> <http://e/p> \"123\" .\n"
	for limits, ok := range map[graph.Limits]bool{{}: true, {Quads: 2}: true, {Quads: 1}: false, {Literal: 3}: true, {Literal: 2}: false} {
		_, err := graph.ReadNQuads(strings.NewReader(one+one), limits)
		_, err2 := graph.ReadTurtle(strings.NewReader(one+one), "", limits)
		if (err == nil) != ok || (err2 == nil) != ok {
			t.Errorf("limits %+v: %v, %v", limits, err, err2)
		}
		if limits.Quads == 1 && (!errors.Is(err, graph.ErrTooLarge) || !errors.Is(err2, graph.ErrTooLarge)) {
			t.Errorf("%v and %v are not ErrTooLarge", err, err2)
		}
	}
	for depth, ok := range map[int]bool{128: true, 129: false} {
		doc := "<x:a> <x:p> " + strings.Repeat("[<x:p> ", depth) + "1" + strings.Repeat("]", depth) + "."
		if _, err := graph.ReadTurtle(strings.NewReader(doc), "", graph.Limits{}); (err == nil) != ok {
			t.Errorf("depth %d: %v", depth, err)
		}
	}
}

func FuzzNQuads(f *testing.F) {
	f.Add("<http://e/a> <http://e/p> \"x\\u00e9\"^^<http://e/t> <http://e/g> . # c")
	f.Add("_:a <x:p> \"x\"@en-GB .\n\n_:a.b <x:p> _:c .")
	f.Fuzz(func(t *testing.T, doc string) {
		quads, err := graph.ReadNQuads(strings.NewReader(doc), graph.Limits{Quads: 100})
		if err != nil {
			return
		}
		again(t, quads)
	})
}

// again writes quads and reads them back.
func again(t *testing.T, quads []graph.Quad) {
	var b strings.Builder
	if err := graph.WriteNQuads(&b, quads); err != nil {
		t.Fatal(err)
	}
	back, err := graph.ReadNQuads(strings.NewReader(b.String()), graph.Limits{})
	if err != nil || !slices.Equal(back, quads) {
		t.Fatalf("%q comes back as %v, %v", b.String(), back, err)
	}
}

func FuzzTurtle(f *testing.F) {
	f.Add("@prefix e: <http://e/> . e:a a e:b ; e:p 1.5, ( 1 [] ), '''x''' .")
	f.Add("BASE <http://e/>\n<a> <b> \"x\"@en ; <c> .1e5 .")
	f.Fuzz(func(t *testing.T, doc string) {
		quads, err := graph.ReadTurtle(strings.NewReader(doc), "http://base.example/x", graph.Limits{Quads: 100})
		if err != nil {
			return
		}
		again(t, quads)
		var b strings.Builder
		if err := graph.WriteTurtle(&b, quads, []graph.Prefix{{Name: "e", IRI: "http://e/"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := graph.ReadTurtle(strings.NewReader(b.String()), "", graph.Limits{}); err != nil {
			t.Fatalf("%v in %q, from %q", err, b.String(), doc)
		}
	})
}

package jsonld_test

import (
	"errors"
	"strings"
	"testing"

	"reckon/graph"
	"reckon/graph/jsonld"
	"reckon/graph/own"
)

func TestReadAndWrite(t *testing.T) {
	quads := []graph.Quad{
		{S: graph.Node("urn:reckon:node/a"), P: graph.Node(graph.RDFType), O: graph.Node(own.Namespace + "Node")},
		{S: graph.Node("urn:reckon:node/a"), P: graph.Node(own.Namespace + "name"), O: graph.Text("a")},
		{S: graph.Node("urn:reckon:node/a"), P: graph.Node(own.Namespace + "name"), O: graph.InLanguage("ä", "de")},
		{S: graph.Node("urn:reckon:node/a"), P: graph.Node(own.Namespace + "x"), O: graph.BlankNode("b0")},
		{S: graph.BlankNode("b0"), P: graph.Node("x:p"), O: graph.Integer(5)},
		{S: graph.BlankNode("b0"), P: graph.Node("x:p"), O: graph.Double(2.5), G: graph.Node("x:g")},
	}
	for name, context := range map[string]map[string]any{"expanded": nil, "compact": own.Context()} {
		var b strings.Builder
		if err := jsonld.Write(&b, quads, context); err != nil {
			t.Fatal(err)
		}
		back, err := jsonld.Read(strings.NewReader(b.String()), nil, graph.Limits{})
		if err != nil {
			t.Fatalf("%s: %v in %s", name, err, b.String())
		}
		if same, err := graph.Isomorphic(quads, back); err != nil || !same {
			t.Errorf("%s comes back as %v (%v): %s", name, back, err, b.String())
		}
	}
}

func TestBuiltInContext(t *testing.T) {
	contexts := jsonld.Contexts{own.ContextIRI: map[string]any{"@context": own.Context()}}
	doc := `{"@context": "` + own.ContextIRI + `", "@id": "x:a", "rk:name": "n"}`
	quads, err := jsonld.Read(strings.NewReader(doc), contexts, graph.Limits{})
	if err != nil || len(quads) != 1 || quads[0].P.Value != own.Namespace+"name" {
		t.Errorf("%v, %v", quads, err)
	}
}

func TestBadDocuments(t *testing.T) {
	deep := func(n int) string {
		return strings.Repeat(`{"@id":"x:a","x:p":`, n) + "1" + strings.Repeat("}", n)
	}
	for doc, want := range map[string]string{
		"{\n \"@id\": }": "line 2, column 9", "": "line 1", "5": "line 1",
		`{"@context": "https://evil.example/c", "@id": "x:a"}`: "never fetched",
		`{"@id": "x:a b", "x:p": 1}`:                           "percent-encode",
		`{"@id": "x:a", "@type": 5}`:                           "type",
		`{"@id": "x:a", "x:p": {"@value": {}}}`:                "value",
		`{"@context": {"@import": 5}}`:                         "import",
		deep(1000):                                             "brackets",
		deep(201):                                              "brackets",
	} {
		_, err := jsonld.Read(strings.NewReader(doc), nil, graph.Limits{})
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), want) {
			t.Errorf("%.60s: %v, want %q", doc, err, want)
		}
	}
	if _, err := jsonld.Read(strings.NewReader(deep(200)), nil, graph.Limits{}); err != nil {
		t.Error(err)
	}
	const two = `{"@id":"x:a","x:p":["ab","cd"]}`
	for limits, ok := range map[graph.Limits]bool{{Quads: 2, Literal: 2}: true, {Quads: 1}: false, {Literal: 1}: false} {
		if _, err := jsonld.Read(strings.NewReader(two), nil, limits); (err == nil) != ok {
			t.Errorf("%+v: %v", limits, err)
		} else if limits.Quads == 1 && !errors.Is(err, graph.ErrTooLarge) {
			t.Error(err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"@context": {"a": {"@id": "x:a", "@type": "@id", "@container": "@list"}}, "@graph": [{"@id": "x:b", "a": ["x:c"]}]}`)
	f.Add(`{"@id":"_:a","x:p":{"@value":"v","@language":"en"},"@reverse":{"x:q":{"@id":"x:z"}}}`)
	f.Fuzz(func(t *testing.T, doc string) {
		quads, err := jsonld.Read(strings.NewReader(doc), nil, graph.Limits{Quads: 1000})
		if err != nil {
			return
		}
		for _, q := range quads {
			if err := q.Check(0); err != nil {
				t.Fatal(err)
			}
		}
	})
}

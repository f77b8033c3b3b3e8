package sparql_test

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"reckon/graph"
	"reckon/graph/sparql"
)

// claimed are the groups of the W3C tests for SPARQL 1.1 (https://github.com/w3c/rdf-tests, folder sparql/sparql11) that
// the store claims. None leaves the list; a test that fails is named in testdata/w3c.txt with its reason.
var claimed = []string{"aggregates", "bind", "bindings", "cast", "construct", "csv-tsv-res", "exists", "functions", "grouping", "json-res",
	"negation", "project-expression", "property-path", "subquery", "syntax-query"}

const w3cBase = "http://w3c.example/"

// TestW3C runs the tests in the folder RECKON_W3C_SPARQL, which is not part of the repository.
func TestW3C(t *testing.T) {
	root := os.Getenv("RECKON_W3C_SPARQL")
	if root == "" {
		t.Skip("RECKON_W3C_SPARQL names no folder sparql/sparql11 of github.com/w3c/rdf-tests")
	}
	reasons := map[string]string{}
	raw, err := os.ReadFile("testdata/w3c.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if name, reason, ok := strings.Cut(strings.TrimSpace(line), "  "); ok && name[0] != '#' {
			reasons[name] = strings.TrimSpace(reason)
		}
	}
	total, passed, syntax, syntaxPassed := 0, 0, 0, 0
	for _, group := range claimed {
		for _, c := range w3cCases(t, root, group) {
			err := c.run(root)
			switch reason := reasons[c.name]; {
			case err != nil && reason == "":
				t.Errorf("%s: %v", c.name, err)
			case err == nil && reason != "":
				t.Errorf("%s passes; take it out of testdata/w3c.txt", c.name)
			}
			if group == "syntax-query" {
				syntax++
			} else {
				total++
			}
			if err == nil && group == "syntax-query" {
				syntaxPassed++
			} else if err == nil {
				passed++
			}
			delete(reasons, c.name)
		}
	}
	for name := range reasons {
		t.Errorf("testdata/w3c.txt names %s, which is no test", name)
	}
	if t.Logf("%d of %d evaluation tests and %d of %d syntax tests pass", passed, total, syntaxPassed, syntax); total < 232 || syntax < 94 {
		t.Error("tests are missing")
	}
}

type w3cCase struct {
	name, kind, query, result string
	data                      []string // for the default graph
	graphs                    []string
}

func w3cRead(root, iri string) ([]graph.Quad, error) {
	f, err := os.Open(filepath.Join(root, strings.TrimPrefix(iri, w3cBase)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if strings.HasSuffix(iri, ".rdf") {
		return w3cRDF(f, iri)
	}
	return graph.ReadTurtle(f, iri, graph.Limits{})
}

// w3cRDF reads the little RDF/XML that the tests have: descriptions, typed or not, with one level of properties.
func w3cRDF(f io.Reader, base string) (out []graph.Quad, err error) {
	attribute := func(e xml.StartElement, name string) (string, bool) {
		for _, a := range e.Attr {
			if a.Name.Space == graph.RDF && a.Name.Local == name {
				return a.Value, true
			}
		}
		return "", false
	}
	d := xml.NewDecoder(f)
	var subject, predicate, object graph.Term
	text := ""
	for depth := 0; ; {
		token, err := d.Token()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		switch e := token.(type) {
		case xml.StartElement:
			text = ""
			switch depth++; depth {
			case 2:
				subject = graph.BlankNode(fmt.Sprintf("r%d", len(out)))
				if about, ok := attribute(e, "about"); ok {
					subject = graph.Node(about)
				}
				if e.Name.Space+e.Name.Local != graph.RDF+"Description" {
					out = append(out, graph.Quad{S: subject, P: graph.Node(graph.RDFType), O: graph.Node(e.Name.Space + e.Name.Local)})
				}
			case 3:
				predicate, object = graph.Node(e.Name.Space+e.Name.Local), graph.Term{}
				if to, ok := attribute(e, "resource"); ok {
					object = graph.Node(cmp.Or(to, base))
				} else if datatype, ok := attribute(e, "datatype"); ok {
					object.Datatype = datatype
				}
			}
		case xml.CharData:
			text += string(e)
		case xml.EndElement:
			if depth == 3 {
				if object.IsZero() {
					object = graph.Typed(text, object.Datatype)
				}
				out = append(out, graph.Quad{S: subject, P: predicate, O: object})
			}
			depth--
		}
	}
}

func w3cCases(t *testing.T, root, group string) (out []w3cCase) {
	t.Helper()
	const mf, qt = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#", "http://www.w3.org/2001/sw/DataAccess/tests/test-query#"
	quads, err := w3cRead(root, w3cBase+group+"/manifest.ttl")
	if err != nil {
		t.Fatal(group, err)
	}
	of := func(s graph.Term, p string) (values []graph.Term) {
		for _, q := range quads {
			if q.S == s && q.P.Value == p {
				values = append(values, q.O)
			}
		}
		return append(values, graph.Term{})
	}
	for _, q := range quads {
		if q.P.Value != graph.RDFType || !strings.Contains(q.O.Value, "Test") {
			continue
		}
		_, short, _ := strings.Cut(q.S.Value, "#")
		action := of(q.S, mf+"action")[0]
		c := w3cCase{name: group + "/" + short, kind: strings.TrimPrefix(q.O.Value, mf),
			query: cmp.Or(of(action, qt+"query")[0].Value, action.Value), result: of(q.S, mf+"result")[0].Value}
		for _, d := range of(action, qt+"data") {
			if !d.IsZero() {
				c.data = append(c.data, d.Value)
			}
		}
		for _, d := range of(action, qt+"graphData") {
			if !d.IsZero() {
				c.graphs = append(c.graphs, cmp.Or(of(d, qt+"graph")[0].Value, d.Value))
			}
		}
		out = append(out, c)
	}
	return out
}

// w3cData has a default graph of its own, as the tests want it; the union of all graphs is what the store has.
type w3cData struct {
	*sparql.Memory
	first sparql.ID
	names []sparql.ID
}

func (d *w3cData) Graphs(context.Context) ([]sparql.ID, error) { return d.names, nil }
func (d *w3cData) Unlisted(g sparql.ID) bool                   { return g == d.first }
func (d *w3cData) Match(ctx context.Context, p sparql.Pattern, yield func(sparql.Quad) bool) error {
	if p.G == 0 {
		p.G = d.first
	}
	return d.Memory.Match(ctx, p, yield)
}

func (c w3cCase) dataset(root string) (*w3cData, error) {
	var all []graph.Quad
	add := func(list []string, graphName func(string) graph.Term) error {
		for i, iri := range list {
			quads, err := w3cRead(root, iri)
			if err != nil {
				return err
			}
			for _, q := range quads {
				for _, x := range []*graph.Term{&q.S, &q.O} {
					if x.Kind == graph.Blank {
						x.Value = fmt.Sprintf("f%dx%s", i, x.Value)
					}
				}
				q.G = graphName(iri)
				all = append(all, q)
			}
		}
		return nil
	}
	err := cmp.Or(add(c.data, func(string) graph.Term { return graph.Node("urn:default") }), add(c.graphs, graph.Node))
	d := &w3cData{Memory: sparql.NewMemory(all)}
	found, _ := d.Find(context.Background(), []graph.Term{graph.Node("urn:default")})
	if d.first = found[0]; d.first == 0 {
		d.first = 1 << 30
	}
	all2, _ := d.Memory.Graphs(context.Background())
	for _, g := range all2 {
		if g != d.first {
			d.names = append(d.names, g)
		}
	}
	return d, err
}

func (c w3cCase) run(root string) error {
	raw, err := os.ReadFile(filepath.Join(root, strings.TrimPrefix(c.query, w3cBase)))
	if err != nil {
		return err
	}
	q, err := sparql.Parse("BASE <" + c.query + ">\n" + string(raw))
	switch {
	case strings.HasPrefix(c.kind, "NegativeSyntaxTest"):
		if err == nil {
			return fmt.Errorf("accepted though it is not SPARQL")
		}
		return nil
	case err != nil, strings.HasPrefix(c.kind, "PositiveSyntaxTest"):
		return err
	}
	if len(c.data) == 0 && strings.Contains(string(raw), "FROM <") {
		_, name, _ := strings.Cut(string(raw), "FROM <")
		name, _, _ = strings.Cut(name, ">")
		c.graphs = append(c.graphs, c.query[:strings.LastIndexByte(c.query, '/')+1]+name)
	}
	data, err := c.dataset(root)
	if err != nil {
		return err
	}
	got, err := q.Run(context.Background(), data, sparql.Limits{})
	if err != nil {
		return err
	}
	want, lexical, err := w3cResult(root, c.result)
	if err != nil {
		return err
	}
	a, b := w3cQuads(got, lexical), w3cQuads(want, lexical)
	if got.Graph != nil {
		a, b = got.Graph, want.Graph
	}
	same, err := graph.Isomorphic(a, b)
	if err == nil && !same {
		err = fmt.Errorf("got %v\nwant %v", rowsOf(got), rowsOf(want))
	}
	return err
}

// w3cQuads writes rows as statements about a blank node each, so that they are compared without regard to the names of
// blank nodes; values of numbers, not their forms.
func w3cQuads(r *sparql.Result, lexical bool) (out []graph.Quad) {
	if r.Ask != nil {
		return []graph.Quad{{S: graph.Node("urn:ask"), P: graph.Node("urn:is"), O: graph.Boolean(*r.Ask)}}
	}
	for i, row := range r.Rows {
		s := graph.BlankNode("row" + strconv.Itoa(i))
		out = append(out, graph.Quad{S: s, P: graph.Node("urn:row"), O: graph.Text("")})
		for j, x := range row {
			switch {
			case x.IsZero():
				continue
			case lexical && x.Kind != graph.Blank:
				x = graph.Text(x.Value)
			case x.Kind == graph.Literal && x.Datatype != "":
				x = graph.Text(byValue(x))
			}
			out = append(out, graph.Quad{S: s, P: graph.Node("urn:var:" + r.Vars[j]), O: x})
		}
	}
	return out
}

// w3cResult reads the expected result; lexical means that it has no types.
func w3cResult(root, iri string) (r *sparql.Result, lexical bool, err error) {
	raw, err := os.ReadFile(filepath.Join(root, strings.TrimPrefix(iri, w3cBase)))
	if err != nil {
		return nil, false, err
	}
	switch filepath.Ext(iri) {
	case ".srx":
		r, err = w3cXML(raw)
	case ".srj":
		r, err = w3cJSON(raw)
	case ".csv", ".tsv":
		lexical = filepath.Ext(iri) == ".csv"
		r, err = w3cTable(raw, lexical)
	default:
		var quads []graph.Quad
		quads, err = w3cRead(root, iri)
		r = w3cSet(quads)
	}
	return r, lexical, err
}

// w3cSet reads a result set that is written as a graph, or else the graph itself.
func w3cSet(quads []graph.Quad) *sparql.Result {
	const rs = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#"
	r := &sparql.Result{Graph: quads}
	of := func(s graph.Term, p string) (values []graph.Term) {
		for _, q := range quads {
			if q.S == s && q.P.Value == rs+p {
				values = append(values, q.O)
			}
		}
		return values
	}
	for _, q := range quads {
		if q.P.Value != rs+"solution" {
			continue
		}
		r.Graph = nil
		var row []graph.Term
		for _, b := range of(q.O, "binding") {
			name, at := of(b, "variable")[0].Value, -1
			for i, v := range r.Vars {
				if v == name {
					at = i
				}
			}
			if at < 0 {
				at, r.Vars = len(r.Vars), append(r.Vars, name)
			}
			for len(row) <= at {
				row = append(row, graph.Term{})
			}
			row[at] = of(b, "value")[0]
		}
		r.Rows = append(r.Rows, row)
	}
	return r
}

func w3cTable(raw []byte, isCSV bool) (*sparql.Result, error) {
	if isCSV {
		lines, err := csv.NewReader(strings.NewReader(string(raw))).ReadAll()
		if err != nil {
			return nil, err
		}
		r := &sparql.Result{Vars: lines[0]}
		for _, line := range lines[1:] {
			row := make([]graph.Term, len(line))
			for i, cell := range line {
				if label, ok := strings.CutPrefix(cell, "_:"); ok {
					row[i] = graph.BlankNode(label)
				} else if cell != "" {
					row[i] = graph.Text(cell)
				}
			}
			r.Rows = append(r.Rows, row)
		}
		return r, nil
	}
	r := &sparql.Result{}
	for i, line := range strings.Split(strings.TrimRight(string(raw), "\r\n"), "\n") {
		var row []graph.Term
		for _, cell := range strings.Split(strings.TrimRight(line, "\r"), "\t") {
			switch {
			case i == 0:
				r.Vars = append(r.Vars, strings.TrimPrefix(cell, "?"))
			case cell == "":
				row = append(row, graph.Term{})
			default:
				quads, err := graph.ReadTurtle(strings.NewReader("<urn:s> <urn:p> "+cell+" ."), "", graph.Limits{})
				if err != nil {
					return nil, err
				}
				if row = append(row, quads[0].O); strings.HasPrefix(cell, "_:") {
					row[len(row)-1] = graph.BlankNode(cell[2:])
				}
			}
		}
		if i > 0 {
			r.Rows = append(r.Rows, row)
		}
	}
	return r, nil
}

type w3cTerm struct {
	Type     string `json:"type"`
	Value    string `json:"value"`
	Language string `json:"xml:lang"`
	Datatype string `json:"datatype"`
}

func (t w3cTerm) term() graph.Term {
	switch {
	case t.Type == "uri":
		return graph.Node(t.Value)
	case t.Type == "bnode":
		return graph.BlankNode(t.Value)
	case t.Language != "":
		return graph.InLanguage(t.Value, t.Language)
	}
	return graph.Typed(t.Value, t.Datatype)
}

func w3cJSON(raw []byte) (*sparql.Result, error) {
	var in struct {
		Head    struct{ Vars []string }
		Boolean *bool
		Results struct{ Bindings []map[string]w3cTerm }
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, err
	}
	r := &sparql.Result{Vars: in.Head.Vars, Ask: in.Boolean}
	for _, b := range in.Results.Bindings {
		row := make([]graph.Term, len(r.Vars))
		for i, v := range r.Vars {
			if x, ok := b[v]; ok {
				row[i] = x.term()
			}
		}
		r.Rows = append(r.Rows, row)
	}
	return r, nil
}

func w3cXML(raw []byte) (*sparql.Result, error) {
	var in struct {
		Vars []struct {
			Name string `xml:"name,attr"`
		} `xml:"head>variable"`
		Boolean *bool `xml:"boolean"`
		Results []struct {
			Bindings []struct {
				Name    string  `xml:"name,attr"`
				URI     *string `xml:"uri"`
				Blank   *string `xml:"bnode"`
				Literal *struct {
					Value    string `xml:",chardata"`
					Datatype string `xml:"datatype,attr"`
					Language string `xml:"http://www.w3.org/XML/1998/namespace lang,attr"`
				} `xml:"literal"`
			} `xml:"binding"`
		} `xml:"results>result"`
	}
	if err := xml.Unmarshal(raw, &in); err != nil {
		return nil, err
	}
	r := &sparql.Result{Ask: in.Boolean}
	at := map[string]int{}
	for i, v := range in.Vars {
		at[v.Name] = i
		r.Vars = append(r.Vars, v.Name)
	}
	for _, result := range in.Results {
		row := make([]graph.Term, len(r.Vars))
		for _, b := range result.Bindings {
			switch {
			case b.URI != nil:
				row[at[b.Name]] = graph.Node(*b.URI)
			case b.Blank != nil:
				row[at[b.Name]] = graph.BlankNode(*b.Blank)
			case b.Literal != nil:
				row[at[b.Name]] = w3cTerm{Value: b.Literal.Value, Language: b.Literal.Language, Datatype: b.Literal.Datatype}.term()
			}
		}
		r.Rows = append(r.Rows, row)
	}
	return r, nil
}

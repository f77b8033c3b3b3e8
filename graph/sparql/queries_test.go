package sparql_test

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"reckon/graph"
	"reckon/graph/sparql"
)

func readData(t testing.TB, keep func(graph.Quad) bool) *sparql.Memory {
	t.Helper()
	f, err := os.Open("testdata/data.nq")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	quads, err := graph.ReadNQuads(f, graph.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return sparql.NewMemory(slices.DeleteFunc(quads, func(q graph.Quad) bool { return !keep(q) }))
}

// byValue normalises numbers: other stores preserve the value of a literal, not its form.
func byValue(t graph.Term) string {
	name, ok := strings.CutPrefix(t.Datatype, graph.XSD)
	if ok && slices.Contains([]string{"integer", "decimal", "double", "float"}, name) {
		if f, err := strconv.ParseFloat(t.Value, 64); err == nil {
			return strconv.FormatFloat(f, 'g', -1, 64) + " " + name
		}
	}
	return t.String()
}

func rowsOf(r *sparql.Result) (out []string) {
	if r.Ask != nil {
		return []string{strconv.FormatBool(*r.Ask)}
	}
	for _, q := range r.Graph {
		out = append(out, strings.Join([]string{q.S.String(), q.P.String(), byValue(q.O)}, "\t"))
	}
	for _, row := range r.Rows {
		cells := make([]string, len(row))
		for i, t := range row {
			cells[i] = byValue(t)
		}
		out = append(out, strings.Join(cells, "\t"))
	}
	return out
}

// expected returns the rows of the file unchanged.
func expected(t *testing.T, data []byte) (out []string) {
	t.Helper()
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "true" || line == "false" {
			out = append(out, line)
			continue
		}
		cells := strings.Split(line, "\t")
		for i, c := range cells {
			if c == "" {
				continue
			}
			q, err := graph.ReadNQuads(strings.NewReader("<x:s> <x:p> "+c+" ."), graph.Limits{})
			if err != nil {
				t.Fatal(line, err)
			}
			cells[i] = byValue(q[0].O)
		}
		out = append(out, strings.Join(cells, "\t"))
	}
	return out
}

// The queries of real clients and of our own return the same rows as other stores: see the head of the file.
func TestQueries(t *testing.T) {
	file, err := txtar.ParseFile("testdata/queries.txtar")
	if err != nil {
		t.Fatal(err)
	}
	all := readData(t, func(graph.Quad) bool { return true })
	one := readData(t, func(q graph.Quad) bool { return q.G.Value != "timestamp:2000" && q.G.Value != "timestamp:5000" })
	if len(file.Files) < 2*80 {
		t.Fatal(len(file.Files), "files")
	}
	for i := 0; i+1 < len(file.Files); i += 2 {
		name := strings.TrimSuffix(file.Files[i].Name, ".rq")
		t.Run(name, func(t *testing.T) {
			q, err := sparql.Parse(string(file.Files[i].Data))
			if err != nil {
				t.Fatal(err)
			}
			data := all
			if strings.HasSuffix(name, "-one") {
				data = one
			}
			r, err := q.Run(context.Background(), data, sparql.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			got, want := rowsOf(r), expected(t, file.Files[i+1].Data)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s\n%d rows, want %d\ngot\n%s\nwant\n%s", file.Files[i].Data, len(got), len(want), strings.Join(got[:min(len(got), 12)], "\n"), strings.Join(want[:min(len(want), 12)], "\n"))
			}
		})
	}
}

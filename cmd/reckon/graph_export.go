package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"reckon/graph"
	"reckon/graph/glaciation"
	"reckon/graph/jsonld"
	"reckon/graph/own"
	"reckon/web/client"
)

func newGraphExport(g *globals) *cobra.Command {
	var format, vocabulary *choice
	cmd := &cobra.Command{
		Use: "export", Short: "Print the whole graph", Args: cobra.NoArgs,
		Long: `export prints all that you may see. In the vocabulary of GLACIATION that is the graph
of the latest minute; the server has to run with the setting graph-compatible.`,
		Example: `  reckon graph export --format nquads > graph.nq
  reckon graph export --vocabulary glaciation --format jsonld`,
		RunE: g.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			from := fetchSubgraphs
			if vocabulary.value == "glaciation" {
				from = fetchSnapshot
			}
			quads, err := from(ctx, c)
			if err != nil {
				return err
			}
			return writeGraph(g.stdout, quads, format.value, vocabulary.value)
		}),
	}
	format = g.shared.addFormatFlag(cmd, "nquads", "turtle", "jsonld", "ntriples")
	vocabulary = &choice{value: "own", words: []string{"own", "glaciation"}}
	cmd.Flags().Var(vocabulary, "vocabulary", "words of the graph: own, glaciation")
	completeWords(cmd, "vocabulary", "own", "glaciation")
	return cmd
}

func fetchSubgraphs(ctx context.Context, c *client.Client) (out []graph.Quad, err error) {
	list, err := c.Subgraphs(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		doc, err := c.Subgraph(ctx, s.ID, mediaTypes["ntriples"], false)
		var refused *client.APIError
		if errors.As(err, &refused) && refused.Status == 404 {
			continue // deleted in the meantime
		}
		if err != nil {
			return nil, err
		}
		quads, err := graph.ReadNQuads(bytes.NewReader(doc), graph.Limits{})
		if err != nil {
			return nil, fmt.Errorf("the subgraph %s: %w", s.ID, err)
		}
		for _, q := range quads {
			q.G = graph.Node(graph.Name(s.ID))
			out = append(out, q)
		}
	}
	return out, nil
}

func fetchSnapshot(ctx context.Context, c *client.Client) ([]graph.Quad, error) {
	answer, err := c.SPARQL(ctx, `PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> SELECT ?g ?s ?p ?o WHERE {
{ SELECT ?g WHERE { GRAPH ?g {} FILTER regex(str(?g), "^timestamp:") } ORDER BY DESC(xsd:integer(replace(str(?g), "^timestamp:", ""))) LIMIT 1 }
GRAPH ?g { ?s ?p ?o } }`)
	if err != nil {
		return nil, err
	}
	if len(answer.Results.Bindings) == 0 {
		return nil, errors.New("there is no graph of GLACIATION; start the server with the setting graph-compatible")
	}
	var out []graph.Quad
	for _, b := range answer.Results.Bindings {
		out = append(out, graph.Quad{S: toTerm(b["s"]), P: toTerm(b["p"]), O: toTerm(b["o"]), G: toTerm(b["g"])})
	}
	return out, nil
}

func toTerm(t client.GraphTerm) graph.Term {
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

func writeGraph(w io.Writer, quads []graph.Quad, format, vocabulary string) error {
	quads = graph.Sorted(quads)
	switch format {
	case "turtle":
		return graph.WriteTurtle(w, quads, own.Prefixes())
	case "ntriples":
		return graph.WriteNTriples(w, quads)
	case "jsonld":
		context := own.Context()
		if vocabulary == "glaciation" {
			context = glaciation.New("").Context()
			delete(context, "glc") // it is not a prefix; names that look like one are IRIs
		}
		return jsonld.Write(w, quads, context)
	}
	return graph.WriteNQuads(w, quads)
}

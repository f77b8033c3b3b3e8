package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"reckon/internal/term"
	"reckon/web/client"
)

func newGraph(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "graph",
		Short: "Query and change the knowledge graph of the site",
		Long: `The knowledge graph describes workloads, nodes and sites as linked data: placement,
parts, data read, and the queries for figures and logs. The server writes it; others may
add to it.`,
		Example: `  reckon graph ls
  reckon graph walk urn:reckon:site/default`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newGraphList(g), newGraphGet(g), newGraphPut(g), newGraphRemove(g), newGraphQuery(g), newGraphWalk(g), newGraphExport(g))
	return cmd
}

func newGraphList(g *globals) *cobra.Command {
	var format *choice
	cmd := &cobra.Command{
		Use: "ls", Short: "List the subgraphs that you may see", Args: cobra.NoArgs,
		Example: `  reckon graph ls
  reckon graph ls --format json`,
		RunE: g.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			list, err := c.Subgraphs(ctx)
			if err != nil {
				return err
			}
			if format.value == "json" {
				return writeJSON(g.stdout, orEmpty(list))
			}
			t := term.TableOf("SUBGRAPH:s24|OWNER:s8|ORIGIN:s8|CHANGED|VERSION:r|STATEMENTS:r")
			for _, s := range list {
				n := "-"
				if s.Statements >= 0 {
					n = strconv.Itoa(s.Statements)
				}
				t.Add(s.ID, s.Owner, s.Origin, s.Time.Local().Format("2006-01-02 15:04:05"), strconv.FormatInt(s.Version, 10), n)
			}
			return t.Print(g.screen())
		}),
	}
	format = g.shared.addFormatFlag(cmd, "table", "json")
	return cmd
}

// mediaTypes are the media types of documents, by value of --format.
var mediaTypes = map[string]string{"turtle": "text/turtle", "jsonld": "application/ld+json", "ntriples": "application/n-triples",
	"nquads": "application/n-quads"}

func newGraphGet(g *globals) *cobra.Command {
	var format *choice
	var values bool
	cmd := &cobra.Command{
		Use: "get ID", Short: "Print a subgraph", Args: cobra.ExactArgs(1),
		Long: `get prints the statements of a subgraph. They refer to series and hold no measurement;
with --values each series is shown with its latest value and that value's time.`,
		Example: `  reckon graph get urn:reckon:site/default
  reckon graph get urn:reckon:site/default --format jsonld
  reckon graph get urn:reckon:site/default --values`,
		RunE: g.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			doc, err := c.Subgraph(ctx, args[0], mediaTypes[format.value], values)
			if err != nil {
				return err
			}
			_, err = g.stdout.Write(doc)
			return err
		}),
	}
	format = g.shared.addFormatFlag(cmd, "turtle", "jsonld", "ntriples")
	cmd.Flags().BoolVar(&values, "values", false, "add the latest value of each series")
	return cmd
}

func newGraphPut(g *globals) *cobra.Command {
	var format *choice
	var add bool
	var version string
	cmd := &cobra.Command{
		Use: "put ID [FILE]", Short: "Replace a subgraph by a document, or add to it", Args: cobra.RangeArgs(1, 2),
		Long: `put writes the subgraph ID from FILE, or from standard input. Where nothing changes
nothing is written.`,
		Example: `  reckon graph put urn:example:dataset/maps maps.ttl
  reckon graph put urn:example:dataset/maps --add < more.ttl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			in := g.stdin
			if len(args) > 1 && args[1] != "-" {
				f, err := os.Open(args[1])
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
			}
			c, err := g.newClient()
			if err != nil {
				return err
			}
			return c.PutSubgraph(cmd.Context(), args[0], mediaTypes[format.value], in, add, version)
		},
	}
	format = g.shared.addFormatFlag(cmd, "turtle", "jsonld", "ntriples")
	cmd.Flags().BoolVar(&add, "add", false, "add the statements to those that are there")
	cmd.Flags().StringVar(&version, "if-version", "", "only if the subgraph is at this version")
	return cmd
}

func newGraphRemove(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "rm ID...", Short: "Delete subgraphs", Args: cobra.MinimumNArgs(1),
		Example: `  reckon graph rm urn:example:dataset/maps`,
		RunE: g.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			for _, id := range args {
				if err := c.DeleteSubgraph(ctx, id); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

func newGraphQuery(g *globals) *cobra.Command {
	var format *choice
	cmd := &cobra.Command{
		Use: "query 'SPARQL'", Short: "Query the graph in SPARQL", Args: cobra.ExactArgs(1),
		Long: `query asks in SPARQL 1.1: SELECT and ASK print rows or yes or no, CONSTRUCT and DESCRIBE
statements. reckon docs graph lists what the embedded store leaves out.`,
		Example: `  reckon graph query 'PREFIX rk: <urn:reckon:ns#> SELECT ?name ?node { ?w rk:name ?name ; rk:runsOn/rk:name ?node }'
  reckon graph query 'ASK { ?s ?p ?o }'
  reckon graph query 'DESCRIBE <urn:reckon:site/default>' --format jsonld`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runGraphQuery(cmd.Context(), g, args[0], format.value)
		},
	}
	format = g.shared.addFormatFlag(cmd, "table", "json", "csv", "tsv", "turtle", "jsonld", "ntriples")
	return cmd
}

func runGraphQuery(ctx context.Context, g *globals, query, format string) error {
	c, err := g.newClient()
	if err != nil {
		return err
	}
	media := mediaTypes[format]
	switch format {
	case "csv":
		media = "text/csv"
	case "tsv":
		media = "text/tab-separated-values"
	}
	if media != "" {
		text, err := c.SPARQLText(ctx, query, media)
		if err == nil {
			_, err = g.stdout.Write(text)
		}
		return err
	}
	answer, err := c.SPARQL(ctx, query)
	if err != nil {
		return err
	}
	switch {
	case answer.Turtle != "":
		_, err := io.WriteString(g.stdout, answer.Turtle)
		return err
	case format == "json":
		return writeJSON(g.stdout, answer)
	case answer.Boolean != nil:
		_, err := fmt.Fprintln(g.stdout, map[bool]string{true: "yes", false: "no"}[*answer.Boolean])
		return err
	}
	var columns []term.Column
	for _, v := range answer.Head.Vars {
		columns = append(columns, term.Column{Title: strings.ToUpper(v), Shrink: 12})
	}
	t := term.NewTable(columns...)
	for _, b := range answer.Results.Bindings {
		var cells []string
		for _, v := range answer.Head.Vars {
			cells = append(cells, b[v].Value)
		}
		t.Add(cells...)
	}
	return t.Print(g.screen())
}

func newGraphWalk(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "walk IRI", Short: "Show the connections of an entity, in both directions", Args: cobra.ExactArgs(1),
		Example: `  reckon graph walk urn:reckon:site/default`,
		RunE: g.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			links, err := c.GraphLinks(ctx, args[0])
			if err != nil {
				return err
			}
			if len(links) == 0 {
				return fmt.Errorf("the graph has no %s, or none that you may see; `reckon graph ls` lists subgraphs", args[0])
			}
			return printLinks(g.screen(), links)
		}),
	}
}

func printLinks(screen term.Screen, links []client.GraphLink) error {
	t := term.TableOf("|RELATION:s12|THING:s24|NAME:s8")
	for _, l := range links {
		arrow, to := "->", l.To
		if l.Back {
			arrow = "<-"
		}
		if to == "" {
			to = strconv.Quote(l.Value)
		}
		relation := l.Relation
		if at := strings.LastIndexAny(relation, "#/"); at >= 0 {
			relation = relation[at+1:]
		}
		t.Add(arrow, relation, to, l.Name)
	}
	return t.Print(screen)
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"reckon/internal/term"
	"reckon/web/client"
)

func newRank(g *globals) *cobra.Command {
	var q client.RankQuery
	var memory, length string
	var explain bool
	var format *choice
	cmd := &cobra.Command{
		Use:   "rank",
		Short: "Rank the nodes for a workload by the watts that it adds",
		Long: `Rank the nodes for one workload. First come nodes with room and a known load, by the
watts that the workload adds there: from the power curve of the node at the expected
load. Then come nodes made tight by the forecast, memory or waiting tasks, and nodes
without recent data. With --explain, nodes without room come last.`,
		Example: `  reckon rank --cores 4 --memory 8GiB
  reckon rank --cores 4 --memory 8GiB --explain
  reckon rank --gpus 1 --time 8h --format json | jq -r '.nodes[0].node'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := parseRankAmounts(&q, memory, length); err != nil {
				return err
			}
			return runRank(cmd.Context(), g, q, explain, format.value)
		},
	}
	f := cmd.Flags()
	f.Float64Var(&q.Cores, "cores", 0, "cores requested")
	g.shared.addFlag(cmd, "memory", &memory)
	f.Float64Var(&q.GPUs, "gpus", 0, "GPUs requested")
	f.Float64Var(&q.UseCores, "use", 0, "cores that it is expected to use, if not all")
	f.Float64Var(&q.GPUWatts, "gpu-watts", 0, "watts of each GPU that it keeps busy; by default the power that a busy GPU adds on the node")
	g.shared.addFlag(cmd, "time", &length)
	g.shared.addFlag(cmd, "site", &q.Site)
	g.shared.addListFlag(cmd, "node", &q.Nodes)
	f.StringSliceVar(&q.Data, "data", nil, "data that it reads, as the knowledge graph names it: an IRI, or KIND/NAMESPACE/NAME")
	f.IntVar(&q.Limit, "limit", 0, "at most this many, 0 for all")
	f.BoolVar(&q.WattsOnly, "watts-only", false,
		"the watts alone decide: nodes with GPUs or large memory that it leaves unused do not come last")
	f.BoolVar(&explain, "explain", false, "explain each rank, nodes that it does not fit on included")
	format = g.shared.addFormatFlag(cmd, "table", "json", "csv")
	return cmd
}

func parseRankAmounts(q *client.RankQuery, memory, length string) error {
	var err error
	if q.MemoryBytes, err = parseByteFlag("memory", memory); err != nil {
		return err
	}
	stay, err := parseSpan("time", length)
	if err != nil {
		return err
	}
	q.Hours = stay.Hours()
	if q.Cores < 0 || q.GPUs < 0 || q.UseCores < 0 || q.GPUWatts < 0 || q.Limit < 0 {
		return &usageError{
			fmt.Errorf("--cores %g, --gpus %g, --use %g, --gpu-watts %g, --limit %d: give 0 or more", q.Cores, q.GPUs, q.UseCores,
				q.GPUWatts, q.Limit)}
	}
	return nil
}

func runRank(ctx context.Context, g *globals, q client.RankQuery, explain bool, format string) error {
	return printAnswer(ctx, g, format, func(ctx context.Context, c *client.Client) (output, error) {
		list, err := c.Rank(ctx, q)
		return output{json: list, csv: csvOf(list.Nodes), rows: len(list.Nodes), missing: list.Missing,
			empty: "no node has reported; start an agent with `reckon up` or reckon-agent",
			print: func(s term.Screen) error {
				if err := printRanking(g, s, list, explain); err != nil {
					return err
				}
				return printAsOf(g, s, list.AsOf)
			}}, err
	})
}

func printRanking(g *globals, s term.Screen, list client.Ranking, explain bool) error {
	heads := ":r|NODE:s8|SITE:s6o1|ADDS:r|HEADROOM:r|ROOM"
	if explain {
		heads += "|POWER:o2|WHY:s12"
	}
	t := term.TableOf(heads)
	words := map[string]string{"room": "yes", "tight": "tight", "unknown": "unknown", "none": "no"}
	left := 0
	for i, n := range list.Nodes {
		if n.Tier == "none" && !explain {
			left++
			continue
		}
		place := fmt.Sprint(i + 1)
		if n.Tier == "none" {
			place = "-"
		}
		adds := term.Watts(n.Watts)
		if n.Curve == "none" && n.Watts != nil {
			adds = "(" + adds + ")" // the highest of the other nodes
		}
		cells := []string{place, n.Node, n.Site, adds, term.Percent(n.Headroom), words[n.Tier]}
		if explain {
			cells = append(cells, n.Curve, cmp.Or(strings.Join(n.Why, ", "), "-"))
		}
		t.Add(cells...)
	}
	if t.Len() == 0 {
		fmt.Fprintf(g.stderr, "it fits on none of %d nodes; --explain shows why\n", left)
		return nil
	}
	return t.Print(s)
}

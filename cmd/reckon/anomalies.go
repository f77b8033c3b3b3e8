package main

import (
	"github.com/spf13/cobra"

	"reckon/analysis/misuse"
)

// newAnomalies returns `reckon anomalies`, which shows the findings of one rule.
func newAnomalies(g *globals) *cobra.Command {
	o := findingsOptions{by: &choice{}}
	cmd := &cobra.Command{
		Use:   "anomalies",
		Short: "Show unprecedented behaviour of sites, nodes and services",
		Long: `List unusual behaviour of the last day: of sites, nodes, running services and owners of
services. An event is a value outside the band of the preceding days, a level shift,
memory that climbs towards its limit, or a node with other power than nodes like it.
Each is one finding: ` + "`reckon findings`" + ` explains, mutes and acknowledges it by its id.`,
		Example: `  reckon anomalies
  reckon anomalies --node n1
  reckon anomalies --all --since 7d`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.filter.Rules = []string{misuse.Anomaly}
			return runFindings(cmd, g, o)
		},
	}
	f := cmd.Flags()
	g.shared.addListFlag(cmd, "owner", &o.filter.Owners)
	g.shared.addFlag(cmd, "node", &o.filter.Node)
	g.shared.addFlag(cmd, "since", &o.since)
	f.BoolVar(&o.all, "all", false, "in every state, those that are muted too")
	f.IntVar(&o.filter.Limit, "limit", 0, "at most this many (default 1000)")
	o.format = g.shared.addFormatFlag(cmd, "table", "json", "csv")
	return cmd
}

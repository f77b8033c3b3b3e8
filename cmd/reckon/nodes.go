package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/client"
	"reckon/internal/term"
)

func newNodes(g *globals) *cobra.Command {
	var format *choice
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "List machines, how busy they are, and what could not be read",
		Long: `List the machines of the site: cores and memory in use, pressure, disk and
network, and how many workloads run. Below the table stands what sensors could
not read on them and why.`,
		Example: `  reckon nodes
  reckon nodes --format csv
  reckon nodes --format json | jq '.[] | select(.up | not) | .node'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runNodes(cmd.Context(), g, format.value) },
	}
	format = addFormat(cmd, "table", "json", "csv")
	return cmd
}

func runNodes(ctx context.Context, g *globals, format string) error {
	c, err := g.client()
	if err != nil {
		return err
	}
	list, err := c.Nodes(ctx)
	if err != nil {
		return err
	}
	g.partial(list.Missing)
	switch format {
	case "json":
		return writeJSON(g.stdout, orEmpty(list.Nodes))
	case "csv":
		return client.WriteCSV(g.stdout, list.Nodes)
	}
	if len(list.Nodes) == 0 {
		fmt.Fprintln(g.stderr, "no node has reported yet; wait for the first export, or start an agent with `reckon up` or reckon-agent")
		return nil
	}
	s := g.screen()
	if err := nodesTable(s, list.Nodes, g.now()).Print(s); err != nil {
		return err
	}
	return printMissing(s, list.Nodes)
}

func nodesTable(s term.Screen, nodes []client.Node, now time.Time) *term.Table {
	t := term.NewTable(
		term.Column{Title: "NODE", Shrink: 8},
		term.Column{Title: "STATE"},
		term.Column{Title: "CORES USED", Right: true},
		term.Column{Title: "", Optional: 1},
		term.Column{Title: "MEMORY USED", Right: true},
		term.Column{Title: "", Optional: 1},
		term.Column{Title: "PRESSURE", Right: true, Optional: 3},
		term.Column{Title: "LOAD", Right: true, Optional: 4},
		term.Column{Title: "POWER", Right: true, Optional: 2},
		term.Column{Title: "DISK", Right: true, Optional: 5},
		term.Column{Title: "NETWORK", Right: true, Optional: 5},
		term.Column{Title: "WORKLOADS", Right: true},
		term.Column{Title: "UP SINCE", Optional: 6},
		term.Column{Title: "KERNEL", Shrink: 8, Optional: 7},
	)
	for _, n := range nodes {
		status := "up"
		if !n.Up {
			status = "down since " + term.Clock(n.Seen, now)
		}
		boot := term.Unknown
		if n.Boot != nil {
			boot = term.Clock(*n.Boot, now)
		}
		t.Add(n.Node, status,
			usedOf(term.Cores, n.CoresUsed, n.Cores), s.Bar(share(n.CoresUsed, n.Cores), 8),
			usedOf(term.Bytes, n.MemoryUsed, n.MemoryBytes), s.Bar(share(n.MemoryUsed, n.MemoryBytes), 8),
			term.Percent(n.CPUPressure), term.Cores(n.Load1), power(n), term.Rate(n.DiskBytes), term.Rate(n.NetworkBytes),
			fmt.Sprint(n.Workloads), boot, cmp.Or(n.KernelRelease, term.Unknown))
	}
	return t
}

// power is what the node draws; a figure of a model is marked.
func power(n client.Node) string {
	if n.Watts != nil && n.PowerMethod != "measured" {
		return "~" + term.Watts(n.Watts)
	}
	return term.Watts(n.Watts)
}

func usedOf(format func(*float64) string, used, of *float64) string {
	return format(used) + " of " + format(of)
}

// share is a part of a whole, nil when either is unknown.
func share(part, whole *float64) *float64 {
	if part == nil || whole == nil || *whole <= 0 {
		return nil
	}
	v := *part / *whole
	return &v
}

// printMissing lists sensors that do not work, the same reason on many nodes once.
func printMissing(s term.Screen, nodes []client.Node) error {
	type gap struct{ sensor, reason string }
	where := map[gap][]string{}
	for _, n := range nodes {
		for _, x := range n.Sensors {
			if !x.Up {
				g := gap{x.Sensor, x.Reason}
				where[g] = append(where[g], n.Node)
			}
		}
	}
	if len(where) == 0 {
		return nil
	}
	gaps := make([]gap, 0, len(where))
	for g := range where {
		gaps = append(gaps, g)
	}
	slices.SortFunc(gaps, func(a, b gap) int {
		return cmp.Or(cmp.Compare(a.sensor, b.sensor), cmp.Compare(a.reason, b.reason))
	})
	if _, err := fmt.Fprintf(s, "\n%s\n", s.Paint(term.Bold, "Not measured")); err != nil {
		return err
	}
	for _, g := range gaps {
		on := ""
		if len(nodes) > 1 {
			on = " on " + strings.Join(where[g], ", ")
			if n := len(where[g]); n > 3 {
				on = fmt.Sprintf(" on %d nodes", n)
			}
		}
		line := term.Safe(fmt.Sprintf("  %s%s: %s", g.sensor, on, cmp.Or(g.reason, "no reason was given")))
		if _, err := fmt.Fprintln(s, line); err != nil {
			return err
		}
	}
	return nil
}

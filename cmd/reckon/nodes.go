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
		Use:   "nodes [NODE]",
		Short: "List machines: state, load now, last day and week, and room for what waits",
		Long: `List the machines of the site: their state, cores and memory in use now, the share
of their cores that was used in the last day and week while they were up (a machine
that is down is not idle), what of them nobody used, and how many jobs waited in
the last day although the node had room for them: for all that they asked for on
one node, in one of their partitions, for a quarter of an hour and more. Where a
batch system gives nodes out, room is what no job holds, however little is used.

Below the table stands what sensors could not read and why. With the name of a node
it tells of that one: its day hour by hour, and the workloads on it now and over the
day. Machines are those with an agent.`,
		Example: `  reckon nodes
  reckon nodes gpu17
  reckon nodes --format csv
  reckon nodes --format json | jq '.[] | select(.up | not) | .node'`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return completeNodes(cmd.Context(), g)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return runNode(cmd.Context(), g, args[0], format.value)
			}
			return runNodes(cmd.Context(), g, format.value)
		},
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
	if len(list.Nodes) == 0 && len(list.Missing) > 0 {
		return nil // that said it
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
		term.Column{Title: "STATE", Shrink: 24},
		term.Column{Title: "CORES USED", Right: true},
		term.Column{Title: "", Optional: 8},
		term.Column{Title: "DAY", Right: true},
		term.Column{Title: "WEEK", Right: true},
		term.Column{Title: "HELD", Right: true, Optional: 3},
		term.Column{Title: "MEMORY USED", Right: true, Optional: 1},
		term.Column{Title: "", Optional: 8},
		term.Column{Title: "UP, WEEK", Right: true, Optional: 4},
		term.Column{Title: "UNUSED, DAY", Right: true, Optional: 5},
		term.Column{Title: "ROOM FOR", Right: true, Optional: 2},
		term.Column{Title: "GPUS", Right: true, Optional: 7},
		term.Column{Title: "POWER", Right: true, Optional: 5},
		term.Column{Title: "WORKLOADS", Right: true, Optional: 6},
		term.Column{Title: "PRESSURE", Right: true, Optional: 9},
		term.Column{Title: "LOAD", Right: true, Optional: 10},
		term.Column{Title: "DISK", Right: true, Optional: 11},
		term.Column{Title: "NETWORK", Right: true, Optional: 11},
		term.Column{Title: "UP SINCE", Optional: 12},
		term.Column{Title: "KERNEL", Shrink: 8, Optional: 13},
	)
	for i := range nodes {
		n := &nodes[i]
		boot := term.Unknown
		if n.Boot != nil {
			boot = term.Clock(*n.Boot, now)
		}
		day, week := spanOrNone(n.Day), spanOrNone(n.Week)
		t.Add(n.Node, nodeState(n, now),
			usedOf(term.Cores, n.CoresUsed, n.Cores), s.Bar(share(n.CoresUsed, n.Cores), 8),
			term.Percent(day.CPUShare), term.Percent(week.CPUShare), heldOf(n),
			usedOf(term.Bytes, n.MemoryUsed, n.MemoryBytes), s.Bar(share(n.MemoryUsed, n.MemoryBytes), 8),
			term.Seconds(week.UpSeconds), coreHours(day.UnusedCoreSeconds), hadRoomFor(n.Waiting), term.Number(n.GPUs), power(*n), fmt.Sprint(n.Workloads),
			term.Percent(n.CPUPressure), term.Cores(n.Load1), term.Rate(n.DiskBytes), term.Rate(n.NetworkBytes),
			boot, cmp.Or(n.KernelRelease, term.Unknown))
	}
	return t
}

func spanOrNone(s *client.NodeSpan) client.NodeSpan {
	if s == nil {
		return client.NodeSpan{}
	}
	return *s
}

// nodeState is down when its agent is silent; else what the batch system says, or up.
func nodeState(n *client.Node, now time.Time) string {
	switch b := n.Batch; {
	case !n.Up:
		return "down since " + term.Clock(n.Seen, now)
	case b == nil:
		return "up"
	case len(b.Flags) > 0:
		return b.State + ", " + strings.Join(b.Flags, ", ")
	default:
		return cmp.Or(b.State, "up")
	}
}

// heldOf is what jobs hold of the cores that the batch system gives out.
func heldOf(n *client.Node) string {
	if n.Batch == nil || n.Batch.Cores == nil {
		return term.Unknown
	}
	return usedOf(term.Cores, n.Batch.CoresHeld, n.Batch.Cores)
}

func coreHours(seconds *float64) string {
	if seconds == nil {
		return term.Unknown
	}
	h := *seconds / 3600
	return term.Number(&h) + " core h"
}

func hadRoomFor(w *client.NodeWaiting) string {
	switch {
	case w == nil:
		return term.Unknown
	case w.Jobs == 1:
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", w.Jobs)
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

package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/figure"
	"reckon/internal/term"
	"reckon/web/client"
)

type nodesOptions struct {
	nodes, partitions, states []string
	columns                   []string
	format                    *choice
}

func newNodes(g *globals) *cobra.Command {
	var o nodesOptions
	cmd := &cobra.Command{
		Use:   "nodes [NODE]",
		Short: "List nodes: state, load, last day and week, room for pending jobs",
		Long: `List the machines of the site: state, cores and memory in use, the share of cores used
in the last day and week, unused cores, and pending jobs. Shares are of the time that a
machine was up. Pending jobs count if this node had room for them for a quarter of an
hour in the last day: for their whole request on one node, in one of their partitions.
Where a batch system allocates nodes, room means unallocated.

With the name of a node it shows that node: its day hour by hour, and its workloads now
and over the day. Machines without an agent have only Slurm's data (--slurm of the
server). Sensor errors and Slurm's reasons for drained and down nodes follow the table.`,
		Example: `  reckon nodes
  reckon nodes gpu17
  reckon nodes -p gpu -s idle,drained         of a partition, as with sinfo
  reckon nodes -o node,cores,cores_used,power_watts
  reckon nodes --format csv
  reckon nodes --format json | jq '.[] | select(.up | not) | .node'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: firstArg(g, completeNodes),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return runNode(cmd.Context(), g, args[0], o.format.value)
			}
			return runNodes(cmd.Context(), g, o)
		},
	}
	f := cmd.Flags()
	g.shared.addListFlag(cmd, "node", &o.nodes)
	g.shared.addListFlag(cmd, "partition", &o.partitions)
	f.StringSliceVarP(&o.states, "state", "s", nil,
		"in these states: up, down, or a word of the batch system such as idle, mixed, allocated, drain")
	addColumns[client.Node](g.shared, cmd, &o.columns)
	o.format = g.shared.addFormatFlag(cmd, "table", "json", "csv")
	completeWords(cmd, "state", "up", "down", "idle", "mixed", "allocated", "drain", "drained")
	return cmd
}

func runNodes(ctx context.Context, g *globals, o nodesOptions) error {
	columns, err := resolveColumns[client.Node](o.columns, nodeAliases())
	if err != nil {
		return err
	}
	return printAnswer(ctx, g, o.format.value, func(ctx context.Context, c *client.Client) (output, error) {
		list, err := c.Nodes(ctx)
		if err != nil {
			return output{}, err
		}
		nodes, err := o.selectNodes(list.Nodes)
		return output{json: orEmpty(nodes), csv: csvOf(nodes, columns...), rows: len(nodes), missing: list.Missing,
			empty: "no node has reported yet; wait for the first export, or start an agent with `reckon up` or reckon-agent",
			print: func(s term.Screen) error {
				if len(columns) > 0 {
					return printColumns(g, s, nodes, columns, nil)
				}
				if err := printNodes(s, nodes, g.now()); err != nil {
					return err
				}
				if slices.ContainsFunc(list.Nodes, func(n client.Node) bool { return !n.Agent }) {
					const latest = 500
					jobs, err := c.Workloads(ctx, client.Filter{Since: g.now().Add(-24 * time.Hour), Limit: latest})
					if err != nil {
						return err
					}
					for _, line := range findAliases(list.Nodes, jobs.Workloads) {
						fmt.Fprintln(s, line)
					}
				}
				return printAsOf(g, s, list.AsOf)
			}}, err
	})
}

// selectNodes keeps the selected nodes. A name, partition or state that no node has is an error.
func (o *nodesOptions) selectNodes(nodes []client.Node) ([]client.Node, error) {
	keep := func(what string, wanted []string, of func(*client.Node) []string) error {
		var met []string
		for i := range nodes {
			met = append(met, of(&nodes[i])...)
		}
		for _, w := range wanted {
			if !slices.Contains(met, strings.ToLower(w)) && len(nodes) > 0 {
				slices.Sort(met)
				return &usageError{fmt.Errorf("no node with %s %q%s", what, w, suggestWord(w, slices.Compact(met)))}
			}
		}
		if len(wanted) > 0 {
			nodes = slices.DeleteFunc(nodes, func(n client.Node) bool {
				return !slices.ContainsFunc(of(&n), func(word string) bool {
					return slices.ContainsFunc(wanted, func(w string) bool { return strings.EqualFold(w, word) })
				})
			})
		}
		return nil
	}
	lower := func(words ...string) []string {
		for i := range words {
			words[i] = strings.ToLower(words[i])
		}
		return words
	}
	if err := keep("the name", o.nodes, func(n *client.Node) []string { return lower(n.Node, n.Site+"/"+n.Node) }); err != nil {
		return nil, err
	}
	if err := keep("the partition", o.partitions, func(n *client.Node) []string {
		if n.Batch == nil {
			return nil
		}
		return lower(slices.Clone(n.Batch.Partitions)...)
	}); err != nil {
		return nil, err
	}
	err := keep("the state", o.states, func(n *client.Node) []string {
		words := []string{map[bool]string{true: "up", false: "down"}[n.Up]}
		if n.Batch != nil {
			words = append(append(words, n.Batch.State), n.Batch.Flags...)
		}
		return lower(words...)
	})
	return nodes, err
}

func printNodes(s term.Screen, nodes []client.Node, now time.Time) error {
	if err := nodesTable(s, nodes, now).Print(s); err != nil {
		return err
	}
	if err := printClosed(s, nodes); err != nil {
		return err
	}
	if err := printSenders(s, nodes, now); err != nil {
		return err
	}
	if err := printHeldBack(s, nodes, ""); err != nil {
		return err
	}
	return printMissing(s, nodes)
}

// printHeldBack lists the data of each node that a limit leaves without rows. If short is set, it lists only that short work.
func printHeldBack(s term.Screen, nodes []client.Node, short string) error {
	text := ""
	for i := range nodes {
		for _, b := range nodes[i].Bounds {
			in := "short/" + b.Owner + "/" + nodes[i].Node
			if short != "" && short != in {
				continue
			}
			why := map[string]string{"process groups": "what they use is in " + in + " until they do more",
				"file systems": "those nearly full have one",
				"new series":   "they were refused, and are taken again within an hour; the log of the server has one of them"}[b.Kind]
			text += fmt.Sprintf("\n  %s: %s %s of %s have no row of their own: %s", nodes[i].Node, term.Number(&b.Count), b.Kind,
				cmp.Or(b.Owner, "the node"), why)
		}
	}
	if text == "" {
		return nil
	}
	_, err := fmt.Fprintf(s, "\n%s%s\n", s.Paint(term.Bold, "Held back"), term.Safe(text))
	return err
}

// printClosed lists why a batch system assigns no jobs to nodes, each reason once.
func printClosed(s term.Screen, nodes []client.Node) error {
	where := map[string][]string{}
	for i := range nodes {
		if b := nodes[i].Batch; b != nil && !b.Open {
			reason := cmp.Or(b.Reason, "no reason was given") + " (" + batchState(b) + ")"
			where[reason] = append(where[reason], nodes[i].Node)
		}
	}
	if len(where) == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(s, "\n%s\n", s.Paint(term.Bold, "Not accepting jobs")); err != nil {
		return err
	}
	for _, reason := range slices.Sorted(maps.Keys(where)) {
		names := where[reason]
		on := strings.Join(names, ", ")
		if n := len(names); n > 3 {
			on = fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), n-3)
		}
		if _, err := fmt.Fprintln(s, term.Safe("  "+on+": "+reason)); err != nil {
			return err
		}
	}
	return nil
}

// batchState formats the state in the terms of the batch system, with its flags.
func batchState(b *client.NodeBatch) string {
	words := []string{cmp.Or(b.State, "state unknown")}
	for _, f := range b.Flags {
		if f != b.State {
			words = append(words, f)
		}
	}
	return strings.Join(words, ", ")
}

func nodesTable(s term.Screen, nodes []client.Node, now time.Time) *term.Table {
	t := term.TableOf("NODE:s8|STATE:s24|CORES USED:r|:o8|DAY:r|WEEK:r|CORES ALLOC:ro3|MEMORY USED:ro1|:o8|UP, WEEK:ro4|UNUSED, DAY:ro5" +
		"|HAD ROOM:ro2|GPUS:ro7|POWER:ro5|WORKLOADS:ro6|PRESSURE:ro9|LOAD:ro10|DISK:ro11|NETWORK:ro11|UP SINCE:o12|KERNEL:s8o13" +
		"|INTERCONNECT:ro11x|MEM TRAFFIC:ro10x|GPUS USED:rx|GPU MEM:ro5x|GPU WATTS:ro5x")
	for i := range nodes {
		n := &nodes[i]
		boot := term.Unknown
		if n.Boot != nil {
			boot = term.Clock(*n.Boot, now)
		}
		day, week := spanOrZero(n.Day), spanOrZero(n.Week)
		t.Add(n.Node, nodeState(n, now),
			formatUsed(term.Cores, n.CoresUsed, n.Cores), s.Bar(figure.Ratio(n.CoresUsed, n.Cores), 8),
			term.Percent(day.CPUShare), term.Percent(week.CPUShare), formatAllocatedCores(n),
			formatUsed(term.Bytes, n.MemoryUsed, n.MemoryBytes), s.Bar(figure.Ratio(n.MemoryUsed, n.MemoryBytes), 8),
			term.Seconds(week.UpSeconds), term.CoreHours(day.UnusedCoreSeconds), formatWaiting(n.Waiting), term.Number(n.GPUs),
			powerText(*n),
			formatRunning(n),
			term.Percent(n.CPUPressure), term.Cores(n.Load1), term.Rate(n.DiskBytes), term.Rate(n.NetworkBytes),
			boot, cmp.Or(n.KernelRelease, term.Unknown), term.Rate(n.InterconnectBytes), term.Rate(n.MemoryTraffic),
			formatShare(term.Cores, n.GPUsUsed, n.GPUs), formatShare(term.Bytes, n.GPUMemoryUsed, n.GPUMemory), term.Watts(n.GPUWatts))
	}
	return t
}

// formatShare formats "used of amount", or the sign for an unknown figure if used is unknown.
func formatShare(format func(*float64) string, used, of *float64) string {
	if used == nil {
		return term.Unknown
	}
	return formatUsed(format, used, of)
}

// formatRunning formats the number of workloads on the node; without an agent it is unknown.
func formatRunning(n *client.Node) string {
	if !n.Agent {
		return term.Unknown
	}
	return fmt.Sprint(n.Workloads)
}

func spanOrZero(s *client.NodeSpan) client.NodeSpan {
	if s == nil {
		return client.NodeSpan{}
	}
	return *s
}

// skewShown is the smallest clock difference that is displayed.
const skewShown = 5 * time.Second

// printSenders prints which nodes are two machines with the same name, and which have a wrong clock.
func printSenders(s term.Screen, nodes []client.Node, now time.Time) error {
	var lines []string
	for i := range nodes {
		n := &nodes[i]
		if n.Sender == nil {
			continue
		}
		if o := n.Sender.Other; o != nil {
			what := "another machine"
			if o.SameMachine {
				what = "a clone of it or a second agent on it"
			}
			lines = append(
				lines, fmt.Sprintf(
					"  %s: %s (from %s) sends under the same name and has been rejected since %s; its measurements are buffered there. "+
						"Give it a name of its own with --node, or `reckon node replace %s`",
					n.Node, what, o.Address, term.Clock(o.First, now), n.Node))
		}
		if skew := time.Duration(n.Sender.ClockAheadSeconds * float64(time.Second)); skew.Abs() >= skewShown {
			word := "ahead of"
			if skew < 0 {
				word = "behind"
			}
			seconds := skew.Abs().Seconds()
			lines = append(lines, fmt.Sprintf("  %s: its clock is %s %s the server's", n.Node, term.Seconds(&seconds), word))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(s, "\n%s\n%s\n", s.Paint(term.Bold, "Senders"), term.Safe(strings.Join(lines, "\n")))
	return err
}

// nodeState returns down if its agent is silent, otherwise the state in the batch system, or up.
func nodeState(n *client.Node, now time.Time) string {
	b := n.Batch
	switch {
	case b != nil && !n.Agent:
		return batchState(b) + "; no agent"
	case !n.Up && b != nil:
		return "down since " + term.Clock(n.Seen, now) + "; " + batchState(b)
	case !n.Up:
		return "down since " + term.Clock(n.Seen, now)
	case b == nil:
		return "up"
	}
	return batchState(b)
}

// formatAllocatedCores formats the allocated cores of a node that a batch system schedules.
func formatAllocatedCores(n *client.Node) string {
	if n.Batch == nil || n.Batch.Cores == nil {
		return term.Unknown
	}
	return formatUsed(term.Cores, n.Batch.CoresHeld, n.Batch.Cores)
}

func formatWaiting(w *client.NodeWaiting) string {
	switch {
	case w == nil:
		return term.Unknown
	case w.Jobs == 1:
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", w.Jobs)
}

// powerText formats the power of the node; a modelled figure is marked.
func powerText(n client.Node) string {
	if n.Watts != nil && n.PowerMethod != "measured" {
		return "~" + term.Watts(n.Watts)
	}
	return term.Watts(n.Watts)
}

func formatUsed(format func(*float64) string, used, of *float64) string {
	return format(used) + " of " + format(of)
}

// printMissing lists the sensors that do not work, with each reason once for many nodes.
func printMissing(s term.Screen, nodes []client.Node) error {
	type gap struct{ sensor, reason string }
	where, absent := map[gap][]string{}, map[string]bool{}
	for _, n := range nodes {
		for _, x := range n.Sensors {
			if g := (gap{x.Sensor, x.Reason}); !x.Up {
				where[g] = append(where[g], n.Node)
				absent[x.Sensor] = absent[x.Sensor] || isAbsent(x.Reason)
			}
		}
	}
	if len(where) == 0 {
		return nil
	}
	maps.DeleteFunc(absent, func(_ string, is bool) bool { return !is })
	if len(absent) <= 3 { // each has a line
		clear(absent)
	}
	maps.DeleteFunc(where, func(g gap, _ []string) bool { return absent[g.sensor] && isAbsent(g.reason) })
	gaps := slices.Collect(maps.Keys(where))
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
	if len(absent) == 0 {
		return nil
	}
	line := fmt.Sprintf("  not there, or not set up (--format json has the reasons): %s",
		strings.Join(slices.Sorted(maps.Keys(absent)), ", "))
	_, err := fmt.Fprintln(s, s.Fold(term.Safe(line), 4))
	return err
}

// isAbsent reports whether a sensor has nothing to read, because the hardware is absent or not set up. The reasons of
// such sensors start with one of these prefixes. Other reasons name an obstacle.
func isAbsent(reason string) bool {
	return slices.ContainsFunc([]string{"no ", "not a ", "the kernel shows no "},
		func(s string) bool { return strings.HasPrefix(reason, s) })
}

// printAsOf prints the time of a list of nodes if it was read before the question.
func printAsOf(g *globals, s term.Screen, at *time.Time) error {
	if at == nil {
		return nil
	}
	_, err := fmt.Fprintf(s, "\n%s\n", s.Paint(term.Quiet, "The list of nodes was read "+term.Ago(*at, g.now())+"."))
	return err
}

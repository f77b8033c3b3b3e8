package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/internal/term"
	"reckon/web/client"
)

// nodeDetail is a node with the work that ran on it.
type nodeDetail struct {
	client.Node
	Hours []client.Usage    `json:"hours"`   // of the last day
	Now   []client.Workload `json:"now"`     // running on it, in descending order of CPU time
	Past  []client.Workload `json:"day_top"` // of the last day, those with the highest use over all their nodes
	Ran   int               `json:"day_workloads"`
	// Devices is the activity of its disks, network file systems and interconnects; nil if the server has none.
	Devices *client.NodeDevices `json:"devices,omitempty"`
}

const maxOnNode = 10

func completeNodes(ctx context.Context, g *globals, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := g.newClient()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := c.Nodes(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for i := range list.Nodes {
		names = append(names, list.Nodes[i].Node)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func runNode(ctx context.Context, g *globals, name, format string) error {
	c, err := g.newClient()
	if err != nil {
		return err
	}
	list, err := c.Nodes(ctx)
	if err != nil {
		return err
	}
	g.reportMissing(list.Missing)
	var found []client.Node
	var names []string
	for _, n := range list.Nodes {
		if n.Node == name || n.Site+"/"+n.Node == name {
			found = append(found, n)
		}
		names = append(names, n.Node)
	}
	switch {
	case len(found) > 1:
		var sites []string
		for i := range found {
			sites = append(sites, found[i].Site+"/"+name)
		}
		return &usageError{fmt.Errorf("several sites have a node %q; give %s", name, strings.Join(sites, " or "))}
	case len(found) == 0 && len(list.Missing) > 0:
		return fmt.Errorf("no node %q in the incomplete list of nodes; try again when the list is complete", name)
	case len(found) == 0 && len(names) == 0:
		return fmt.Errorf("no node %q: no node has reported in the last day; start an agent with `reckon up` or reckon-agent", name)
	case len(found) == 0:
		slices.Sort(names)
		if near := client.Nearest(name, names, 3); len(near) > 0 {
			return &usageError{fmt.Errorf("no node %q reported in the last day; did you mean %s?", name, strings.Join(near, " or "))}
		}
		if len(names) > 10 {
			names = append(names[:10], fmt.Sprintf("and %d more", len(names)-10))
		}
		return &usageError{fmt.Errorf("no node %q reported in the last day; there are %s", name, strings.Join(names, ", "))}
	}
	d := nodeDetail{Node: found[0], Hours: []client.Usage{}}
	if format == "csv" {
		return client.WriteCSV(g.stdout, found)
	}
	if err := d.fetchDetail(ctx, c, g.now()); err != nil {
		return err
	}
	if format == "json" {
		return writeJSON(g.stdout, d)
	}
	return d.printDetail(g.screen(), g.now())
}

func (d *nodeDetail) fetchDetail(ctx context.Context, c *client.Client, now time.Time) error {
	running, day := true, now.AddDate(0, 0, -1)
	list, err := c.Workloads(ctx, client.Filter{Nodes: []string{d.Node.Node}, Running: &running, Sort: "-cpu_seconds", Limit: maxOnNode})
	if err != nil {
		return err
	}
	d.Now = orEmpty(list.Workloads)
	d.Workloads = list.Total
	if list, err = c.Workloads(ctx,
		client.Filter{Nodes: []string{d.Node.Node}, Since: day, Until: now, Sort: "-cpu_seconds", Limit: maxOnNode}); err != nil {
		return err
	}
	d.Past, d.Ran = orEmpty(list.Workloads), list.Total
	if d.Devices, err = fetchDevices(ctx, c, &d.Node); err != nil {
		return err
	}
	q := client.UsageQuery{Since: day, Until: now, Span: "hour", By: []string{"node"}, Nodes: []string{d.Node.Node}}
	if d.Site != "" {
		q.By, q.Sites = []string{"node", "site"}, []string{d.Site}
	}
	hours, err := c.Usage(ctx, q)
	var none *client.APIError
	if errors.As(err, &none) && none.Status == http.StatusNotFound {
		return nil // the server has no history
	}
	if err != nil {
		return err
	}
	d.Hours = orEmpty(hours.Rows)
	return nil
}

func (d *nodeDetail) printDetail(s term.Screen, now time.Time) error {
	n := &d.Node
	var b strings.Builder
	line := func(title, format string, args ...any) {
		fmt.Fprintf(&b, "  %-10s %s\n", title, term.Safe(fmt.Sprintf(format, args...)))
	}
	fmt.Fprintf(&b, "%s  %s\n", s.Paint(term.Bold, term.Safe(n.Node)), term.Safe(cmp.Or(n.Site, "")))
	state := nodeState(n, now)
	if n.Batch != nil && n.Batch.Reason != "" {
		state += " (" + n.Batch.Reason + ")"
	}
	line("state", "%s", state)
	if n.Up && n.Boot != nil {
		line("up", "since %s, %s", term.Clock(*n.Boot, now), term.Ago(*n.Boot, now))
	}
	if n.Batch != nil && len(n.Batch.Partitions) > 0 {
		line("partitions", "%s", strings.Join(n.Batch.Partitions, ", "))
	}
	line("cores", "%s used%s, load %s, pressure %s", formatUsed(term.Cores, n.CoresUsed, n.Cores),
		formatAllocated(n.Batch, func(x *client.NodeBatch) (*float64, *float64) { return x.CoresHeld, x.Cores }, term.Cores),
		term.Cores(n.Load1),
		term.Percent(n.CPUPressure))
	line("memory", "%s used%s", formatUsed(term.Bytes, n.MemoryUsed, n.MemoryBytes),
		formatAllocated(n.Batch, func(x *client.NodeBatch) (*float64, *float64) { return x.MemoryHeld, x.MemoryBytes }, term.Bytes))
	if n.MemoryTraffic != nil {
		line("traffic", "%s between processors and memory", term.Rate(n.MemoryTraffic))
	}
	if n.GPUs != nil && *n.GPUs > 0 {
		line("GPUs", "%s%s", term.Number(n.GPUs),
			formatAllocated(n.Batch, func(x *client.NodeBatch) (*float64, *float64) { return x.GPUsHeld, x.GPUs }, term.Number))
	}
	if n.Watts != nil {
		line("power", "%s, %s without work (%s)", powerText(*n), term.Watts(n.WattsIdle), n.PowerMethod)
	}
	for _, x := range []struct {
		title string
		*client.NodeSpan
	}{{"day", n.Day}, {"week", n.Week}} {
		if x.NodeSpan == nil {
			line(x.title, "no data yet")
			continue
		}
		energy := ""
		if x.EnergyJoules != nil {
			energy = ", " + term.Energy(x.EnergyJoules)
		}
		line(x.title, "known to be up for %s; cores used %s (%s on average), memory %s; unused %s%s", term.Seconds(x.UpSeconds),
			term.Percent(x.CPUShare), term.Cores(x.CoresUsed),
			term.Percent(x.MemoryShare), term.CoreHours(x.UnusedCoreSeconds), energy)
	}
	if w := n.Waiting; w != nil {
		line("room", "for %s that waited in the last day (%s free while they waited), for %d of those that wait now", formatWaiting(w),
			term.CoreHours(&w.CoreSeconds), w.Now)
	}
	if chart := d.hourlyCores(now); chart != nil {
		top := 0.0 // of the busiest hour
		if n.Cores != nil {
			top = *n.Cores
		}
		line("by hour", "%s  cores used, of %s, the last 24 hours (a dot: down or unknown)", s.SparkTo(chart, 24, top), term.Cores(n.Cores))
	}
	if _, err := fmt.Fprint(s, b.String()); err != nil {
		return err
	}
	for _, x := range []struct {
		title, empty string
		list         []client.Workload
		total        int
	}{
		{"Workloads now", "none runs on it", d.Now, d.Workloads},
		{"Workloads of the day", "none ran on it", d.Past, d.Ran},
	} {
		if err := printWorkloads(s, x.title, x.empty, x.list, x.total, now); err != nil {
			return err
		}
	}
	if err := printDevices(s, d.Devices); err != nil {
		return err
	}
	return printMissing(s, []client.Node{*n})
}

// formatAllocated formats the allocated amount of a resource, if a batch system schedules the node.
func formatAllocated(b *client.NodeBatch, of func(*client.NodeBatch) (*float64, *float64), format func(*float64) string) string {
	if b == nil {
		return ""
	}
	has, all := of(b)
	if has == nil || all == nil {
		return ""
	}
	return ", " + formatUsed(format, has, all) + " held by jobs"
}

// hourlyCores returns the cores used in each of the last 24 hours; nil if no hour is known.
func (d *nodeDetail) hourlyCores(now time.Time) []*float64 {
	out := make([]*float64, 24)
	begin, any := now.UTC().Truncate(time.Hour).Add(-23*time.Hour), false
	for i := range d.Hours {
		u := &d.Hours[i]
		if u.From == nil || u.CoreUsedSeconds == nil || u.UpSeconds == nil || *u.UpSeconds <= 0 {
			continue
		}
		if h := int(u.From.Sub(begin) / time.Hour); h >= 0 && h < len(out) && !u.From.Before(begin) {
			v := *u.CoreUsedSeconds / *u.UpSeconds
			out[h], any = &v, true
		}
	}
	if !any {
		return nil
	}
	return out
}

func printWorkloads(s term.Screen, title, empty string, list []client.Workload, total int, now time.Time) error {
	if total > len(list) && len(list) > 0 {
		title += fmt.Sprintf(" (%d of %d, the most CPU time first)", len(list), total)
	}
	if _, err := fmt.Fprintf(s, "\n%s\n", s.Paint(term.Bold, title)); err != nil {
		return err
	}
	if len(list) == 0 {
		_, err := fmt.Fprintf(s, "  %s\n", empty)
		return err
	}
	t := term.TableOf("NAME:s8|WORKLOAD|OWNER:s6|STATE|START|CORES:r|CPU TIME:r|MEMORY PEAK:ro1|NODES:ro3")
	for i := range list {
		w := &list[i]
		t.Add(workloadTitle(*w), w.ID, cmp.Or(w.Owner, term.Unknown), formatState(*w), term.Clock(w.Start, now), term.Cores(w.CoresMean),
			term.Seconds(w.CPUSeconds), term.Bytes(w.MemoryPeakBytes), fmt.Sprint(len(w.Nodes)))
	}
	return t.Print(s)
}

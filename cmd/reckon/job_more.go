package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"reckon/figure"
	"reckon/internal/term"
	"reckon/web/client"
	"reckon/workload"
)

// maxListed is the maximum number of nodes, parts, programs or events on a page.
const maxListed = 20

// commandCores is the metric of profile lines by command.
const commandCores = "command_cores"

// noteOtherRuns prints that the id was reused, and how to select the other runs.
func (p *page) noteOtherRuns(d client.WorkloadDetail, now time.Time) {
	if len(d.Runs) < 2 {
		return
	}
	var others []string
	for _, l := range d.Runs {
		if l.Start.Equal(d.Start) {
			continue
		}
		if len(others) == 3 {
			others = append(others, "...")
			break
		}
		others = append(others, "--start "+l.Start.UTC().Format(time.RFC3339)+" ("+term.Safe(l.Owner)+")")
	}
	which := "an earlier one"
	if d.Runs[0].Start.Equal(d.Start) {
		which = "the latest"
	}
	p.printf("%-11s %d with this id, this is %s; others: %s", "Runs", len(d.Runs), which, strings.Join(others, ", "))
}

// printEvents lists the events that affected the workload.
func (p *page) printEvents(d client.WorkloadDetail, now time.Time) {
	if len(d.Events) == 0 {
		return
	}
	p.printf("\n%s", p.Paint(term.Bold, "Events"))
	nodes := len(d.Nodes) > 1
	for i, e := range d.Events {
		if i == maxListed {
			p.printf("and %d more; --format json lists them", len(d.Events)-i)
			break
		}
		what := "throttled for " + term.Seconds(&e.Value)
		sign, style := severityMark("warning")
		if e.Kind == "oom_kill" {
			what = "killed for lack of memory: " + term.Number(&e.Value) + " processes"
			if e.Value == 1 {
				what = "killed for lack of memory: 1 process"
			}
			sign, style = severityMark("critical")
		}
		where := ""
		if nodes {
			where = " on " + term.Safe(e.Node)
		}
		if e.Part != "" {
			where += ", part " + term.Safe(e.Part)
		}
		p.printWrapped(3, "%s %s to %s  %s%s", p.Paint(style, sign), term.Clock(e.From, now), term.Clock(e.To, now), what, where)
	}
}

// printSplits draws one line per node, part or command on a common scale.
func (p *page) printSplits(profile []client.Profile, by string) {
	width := cmp.Or(p.Width, 80)
	metrics := []struct{ metric, title string }{{"cores", "Cores by "}, {"memory_bytes", "Memory by "}, {"gpus", "GPUs by "}}
	if by == "command" {
		metrics = []struct{ metric, title string }{{commandCores, "Cores by "}}
	}
	some := false
	for _, m := range metrics {
		some = p.printSplit(profile, m.metric, m.title+by, by, min(width, 100)) || some
	}
	if !some {
		p.printf("\nNothing was measured by %s.", by)
	}
}

func (p *page) printSplit(profile []client.Profile, metric, title, by string, width int) bool {
	type row struct {
		name      string
		values    []*float64
		mean, max *float64
	}
	var rows []row
	top := 0.0
	unit := ""
	for _, pr := range profile {
		if pr.Metric != metric {
			continue
		}
		unit = pr.Unit
		r := row{name: map[string]string{"node": pr.Node, "command": pr.Command, "part": pr.Node + " " + cmp.Or(pr.Part, term.Unknown)}[by]}
		sum, n := 0.0, 0.0
		for i := range pr.Points {
			v := pr.Points[i].Value
			r.values = append(r.values, v)
			if v != nil {
				sum, n, top = sum+*v, n+1, max(top, *v)
				if r.max == nil || *v > *r.max {
					r.max = v
				}
			}
		}
		if n > 0 {
			sum /= n
			r.mean = &sum
			rows = append(rows, r)
		}
	}
	if len(rows) == 0 || top == 0 {
		return false
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(*b.mean, *a.mean) })
	format := unitFormatter(unit)
	wide := 0
	shown := rows[:min(len(rows), maxListed)]
	for _, r := range shown {
		wide = min(max(wide, term.Width(term.Safe(r.name))), 24)
	}
	p.printf("\n%s %s", p.Paint(term.Bold, title), fmt.Sprintf("(height: %s)", format(&top)))
	for _, r := range shown {
		name := term.Pad(term.Cut(term.Safe(r.name), wide, p.ASCII), wide, false, p.ASCII)
		p.printf("%s %s  mean %s  max %s", name, p.Paint(term.Cyan, p.SparkTo(r.values, max(width-wide-30, 10), top)),
			term.Pad(format(r.mean), 8, true, p.ASCII), format(r.max))
	}
	if more := len(rows) - len(shown); more > 0 {
		p.printf("and %d more, which used less; --format json has all", more)
	}
	return true
}

// printBalance compares the nodes with their mean.
func (p *page) printBalance(d client.WorkloadDetail) error {
	type node struct {
		name     string
		cpu, gpu *float64
		mem      *float64
	}
	var nodes []node
	at := map[string]int{}
	add := func(to **float64, v *float64, join func(a, b float64) float64) {
		switch {
		case v == nil:
		case *to == nil:
			x := *v
			*to = &x
		default:
			x := join(**to, *v)
			*to = &x
		}
	}
	sum := func(a, b float64) float64 { return a + b }
	for _, x := range d.Parts {
		i, ok := at[x.Node]
		if !ok {
			i, at[x.Node] = len(nodes), len(nodes)
			nodes = append(nodes, node{name: x.Node})
		}
		add(&nodes[i].cpu, x.CPUSeconds, sum)
		add(&nodes[i].gpu, x.GPUSeconds, sum)
		add(&nodes[i].mem, x.MemoryPeakBytes, func(a, b float64) float64 { return max(a, b) })
	}
	if len(nodes) < 2 {
		return nil
	}
	mean := 0.0
	for _, n := range nodes {
		if n.cpu != nil {
			mean += *n.cpu / float64(len(nodes))
		}
	}
	slices.SortStableFunc(nodes, func(a, b node) int {
		return cmp.Or(cmp.Compare(orZero(b.cpu), orZero(a.cpu)), strings.Compare(a.name, b.name))
	})
	t := term.TableOf("NODE:s8|CPU TIME:r|OF THE MEAN:r|:o1|PEAK MEM:r|GPU TIME:rx")
	shown := nodes
	if len(nodes) > maxListed { // the extremes are the most informative
		shown = append(slices.Clone(nodes[:maxListed/2]), nodes[len(nodes)-maxListed/2:]...)
	}
	most := max(orZero(nodes[0].cpu), mean)
	for _, n := range shown {
		t.Add(n.name, term.Seconds(n.cpu), term.Percent(figure.Ratio(n.cpu, &mean)), p.Bar(figure.Ratio(n.cpu, &most), 16),
			term.Bytes(n.mem), term.Seconds(n.gpu))
	}
	if err := p.printTable(t); err != nil {
		return err
	}
	if more := len(nodes) - len(shown); more > 0 {
		p.printf("and %d more nodes between them; --format json lists all", more)
	}
	return nil
}

func orZero(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// printNextRun prints the recommended request for the next run, or the reason why a process group has none.
func (p *page) printNextRun(d *client.WorkloadDetail) {
	if d.NoAdvice != nil && workload.Kind(d.Kind).Group() {
		why := d.NoAdvice.Text
		p.printf("")
		p.printWrapped(0, "%s", strings.ToUpper(why[:1])+why[1:])
	}
	p.printAdvice(d.Advice)
}

// printAdvice prints the recommended request for the next run.
func (p *page) printAdvice(a *client.Advice) {
	if a == nil || len(a.Why) == 0 {
		return
	}
	width := cmp.Or(p.Width, 80)
	runs := "this run"
	if a.Runs > 1 {
		runs = fmt.Sprintf("%d runs of this name", a.Runs)
	}
	heading := "Next time, by " + runs
	if len(a.Containers) > 0 {
		heading = "Recommended requests, from its daily use"
	}
	p.printf("\n%s", p.Paint(term.Bold, heading))
	for _, why := range a.Why {
		for i, text := range wrapText(term.Safe(why), min(width, 100)-3) {
			if i == 0 {
				text = "-  " + text
			} else {
				text = "   " + text
			}
			p.printf("%s", text)
		}
	}
	if a.Paste != "" {
		p.printf("")
		for _, line := range strings.Split(a.Paste, "\n") {
			p.printf("    %s", term.Safe(line))
		}
	}
}

// maxDisks is the number of disks that a line names.
const maxDisks = 3

// formatDisks lists the disks that a workload waited for, the longest wait first. It omits waits below a tenth of a
// second. It adds the remaining storage wait, which includes network file systems, if that is a tenth of all or more.
func formatDisks(waits []client.DiskWait, all *float64) string {
	var words []string
	rest := 0.0
	if all != nil {
		rest = *all
	}
	for i, w := range waits {
		rest -= w.Seconds
		if i < maxDisks && w.Seconds >= 0.1 {
			words = append(words, term.Safe(w.Device)+" "+term.Seconds(&w.Seconds))
		}
	}
	if len(words) == 0 {
		return ""
	}
	if all != nil && rest >= 0.1 && rest >= *all/10 {
		words = append(words, "no known disk "+term.Seconds(&rest))
	}
	return " (" + strings.Join(words, ", ") + ")"
}

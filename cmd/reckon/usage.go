package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/figure"
	"reckon/internal/term"
	"reckon/web/client"
)

type usageOptions struct {
	query        client.UsageQuery
	since, until string
	sinceSet     bool
	bySet        bool
	span         *choice
	heatmap      *choice
	sort         *choice
	figures      []string
	limit        int
	columns      []string
	format       *choice
}

func newUsage(g *globals) *cobra.Command {
	var o usageOptions
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Show usage over days, months and years",
		Long: `Report usage over long periods (30 days unless --since is given) and how full the
machines were. --by takes owner, account, partition, node, program, kind, QOS, size
(allocated cores), gpus (allocated), length (run time) or any of these together. OF USED
is the share of all use. OF CAPACITY is the share of capacity while machines were up. A
partition has the capacity of its nodes where Slurm reports them.

Each program has its own CPU time. Memory, GPU, disk, network and energy are measured
for workloads as a whole; they go to the program that used most CPU time in it. "-"
means not measured. Times are UTC.`,
		Example: `  reckon usage                                     owners, the last 30 days
  reckon usage --by account,owner --since 365d --per month
  reckon usage --by command,owner --since 2026-01-01  who ran which software
  reckon usage --by node --since 7d                how full each machine was
  reckon usage --figure network,io-wait            who moved most, who waited
  reckon usage --by size,length --since 365d       what kinds of jobs there are
  reckon usage --by node,owner --since 7d          who was on which machine
  reckon usage --heatmap hour-of-week --since 90d
  reckon usage --heatmap hour-of-week --by owner --figure held
  reckon usage --by owner --per month --since 365d --format csv > year.csv`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.sinceSet, o.bySet = cmd.Flags().Changed("since"), cmd.Flags().Changed("by")
			if len(o.figures) > 0 && !cmd.Flags().Changed("sort") {
				o.sort.value = o.figures[0]
			}
			return runUsage(cmd.Context(), g, o)
		},
	}
	o.since = "30d"
	f := cmd.Flags()
	f.StringSliceVar(&o.query.By, "by", []string{"owner"},
		"grouped by: "+strings.Join(client.UsageDimensions(), ", ")+"; several with commas")
	o.span = &choice{value: "whole", words: []string{"whole", "hour", "day", "week", "month"}}
	f.Var(o.span, "per", "one row for each hour, day, week or month; whole: for all the time together")
	g.shared.addFlag(cmd, "since", &o.since)
	g.shared.addFlag(cmd, "until", &o.until)
	o.heatmap = &choice{words: []string{"hour-of-week"}}
	f.Var(o.heatmap, "heatmap", "hour-of-week: how busy the hours of the week are; with --by, of each group")
	g.shared.addListFlag(cmd, "owner", &o.query.Owners)
	g.shared.addListFlag(cmd, "account", &o.query.Accounts)
	g.shared.addListFlag(cmd, "partition", &o.query.Partitions)
	g.shared.addListFlag(cmd, "kind", &o.query.Kinds)
	g.shared.addListFlag(cmd, "node", &o.query.Nodes)
	g.shared.addListFlag(cmd, "site", &o.query.Sites)
	g.shared.addFlag(cmd, "command", &o.query.Command)
	o.sort = &choice{value: "cpu",
		words: []string{"cpu", "memory", "gpu", "read", "write", "network", "energy", "held", "wait", "started", "name"}}
	f.Var(o.sort, "sort", "by "+strings.Join(o.sort.words, ", ")+", most first within each stretch of time")
	f.StringSliceVar(&o.figures, "figure", nil,
		"only these figures, each with its share of the total: network, read, write, io-wait, energy, cpu, cpu-wait, memory, gpu, "+
			"processes, held, started, wait, or a key of the API")
	f.IntVar(&o.limit, "limit", 0, "at most this many rows for each stretch of time in a table, 0 for all")
	addColumns[client.Usage](g.shared, cmd, &o.columns)
	o.format = g.shared.addFormatFlag(cmd, "table", "json", "csv")
	completeWords(cmd, "by", client.UsageDimensions()...)
	completeWords(cmd, "per", o.span.words...)
	completeWords(cmd, "heatmap", o.heatmap.words...)
	completeWords(cmd, "sort", o.sort.words...)
	completeWords(cmd, "figure", slices.Sorted(maps.Keys(usedWords()))...)
	return cmd
}

func (o *usageOptions) buildQuery(now time.Time) (client.UsageQuery, error) {
	q := o.query
	var err error
	if q.Until, err = parseTime("until", o.until, now); err != nil {
		return q, err
	}
	if q.Until.IsZero() {
		q.Until = now
	}
	at := now
	if !o.sinceSet {
		at = q.Until
	}
	if q.Since, err = parseTime("since", o.since, at); err != nil {
		return q, err
	}
	if !q.Since.Before(q.Until) {
		return q, &usageError{fmt.Errorf("--until %s is not after --since %s; give a later time", cmp.Or(o.until, "now"), o.since)}
	}
	for _, by := range q.By {
		if !slices.Contains(client.UsageDimensions(), by) {
			return q, &usageError{fmt.Errorf("unknown --by %q; use %s", by, strings.Join(client.UsageDimensions(), ", "))}
		}
	}
	if o.limit < 0 {
		return q, &usageError{fmt.Errorf("--limit %d is below 0; give 0 for all", o.limit)}
	}
	q.Span = o.span.value
	if o.heatmap.value != "" {
		if q.Span = "hour-of-week"; !o.bySet {
			q.By = nil
		}
	}
	return q, nil
}

func runUsage(ctx context.Context, g *globals, o usageOptions) error {
	q, err := o.buildQuery(g.now())
	if err != nil {
		return err
	}
	places := make([]int, len(o.figures))
	for i, name := range o.figures {
		if places[i], err = usageFigure(name); err != nil {
			return err
		}
	}
	columns, err := resolveColumns[client.Usage](o.columns, usageAliases())
	if err != nil {
		return err
	}
	return printAnswer(ctx, g, o.format.value, func(ctx context.Context, c *client.Client) (output, error) {
		list, err := c.Usage(ctx, q)
		if err == nil && len(list.Rows) == 0 {
			err = checkNames(ctx, c, g.now(),
				filterValues{"owner": q.Owners, "account": q.Accounts, "partition": q.Partitions, "node": q.Nodes, "site": q.Sites})
		}
		sortUsage(list.Rows, o.sort.value)
		return output{json: list, csv: csvOf(list.Rows, columns...), rows: len(list.Rows), missing: list.Missing,
			empty: "nothing was used that matches; a longer --since or fewer filters show more",
			print: func(s term.Screen) error {
				if q.Span == "hour-of-week" {
					return printWeek(s, list, o.sort.value == "held", o.limit)
				}
				if len(columns) > 0 {
					return printColumns(g, s, list.Rows, columns, func(u *client.Usage) figure.Degrees { return u.Exactness })
				}
				m := marked{}
				table := m.usageTable
				if len(places) > 0 {
					table = func(list client.UsageList, limit int) *term.Table { return m.figures(list, places, limit) }
				}
				if hasUse(&list.Total) {
					if err := table(list, o.limit).Print(s); err != nil {
						return err
					}
				}
				return m.printTotals(s, list)
			}}, err
	})
}

// hasUse reports whether anything but starts was counted.
func hasUse(u *client.Usage) bool {
	for i, f := range figure.InScope(figure.Hours) {
		if v := *u.UsageFigures.At(i); f.Key != "started" && v != nil && *v > 0 {
			return true
		}
	}
	return false
}

// sortUsage sorts the rows of each interval.
func sortUsage(rows []client.Usage, by string) {
	at, err := usageFigure(by)
	if err != nil { // name: in the server's order
		return
	}
	value := func(u *client.Usage) float64 {
		if v := *u.UsageFigures.At(at); v != nil {
			return *v
		}
		return -1
	}
	slices.SortStableFunc(rows, func(a, b client.Usage) int {
		if a.From != nil && b.From != nil && !a.From.Equal(*b.From) {
			return a.From.Compare(*b.From)
		}
		return cmp.Compare(value(&b), value(&a))
	})
}

// groupColumns returns the columns that name the group of a row.
func groupColumns(list client.UsageList) (columns []term.Column) {
	if list.Span != "whole" {
		columns = append(columns, term.Column{Title: "FROM (UTC)"})
	}
	for _, by := range list.By {
		columns = append(columns, term.Column{Title: strings.ToUpper(by), Shrink: 8})
	}
	return columns
}

func (m marked) usageTable(list client.UsageList, limit int) *term.Table {
	columns := append(groupColumns(list),
		term.Columns(
			"CPU HOURS:r|OF USED:ro8|OF CAPACITY:r|CORE-H ALLOC:ro4|MEM GiB h:ro1|GPU HOURS:ro2|GPU-H ALLOC:ro4x|"+
				"READ:ro5|WRITTEN:ro5|NETWORK:ro6|ENERGY:ro3")...)
	node := slices.Contains(list.By, "node")
	if node {
		columns = append(columns, term.Columns("UP:r|BUSY:r|MEM BUSY:ro2")...)
	} else {
		columns = append(columns, term.Columns("STARTED:ro7|MEAN WAIT:ro7")...)
	}
	t := term.NewTable(columns...)
	for r, cells := range usageRows(list, limit) {
		is := func(key, text string) string { return m.figure(r.Exactness, key, text) }
		cells = append(cells, is("cpu_seconds", term.Hours(r.CPUSeconds)), is("cpu_seconds", term.Percent(r.UsedShare)),
			is("cpu_seconds", term.Percent(r.CapacityShare)),
			is("held_core_seconds", term.Hours(r.HeldCoreSeconds)),
			is("memory_byte_seconds", term.Hours(divideBy(r.MemoryByteSeconds, 1<<30))), is("gpu_seconds", term.Hours(r.GPUSeconds)),
			is("held_gpu_seconds", term.Hours(r.HeldGPUSeconds)),
			is("io_read_bytes", term.Bytes(r.ReadBytes)),
			is("io_write_bytes", term.Bytes(r.WriteBytes)), is("network_bytes", term.Bytes(r.NetworkBytes)),
			is("energy_joules", term.Energy(r.EnergyJoules)))
		if node {
			cells = append(cells, term.Seconds(r.UpSeconds), term.Percent(figure.Ratio(r.CoreUsedSeconds, r.CoreSeconds)),
				term.Percent(figure.Ratio(r.NodeMemoryUsedByteSeconds, r.NodeMemoryByteSeconds)))
		} else {
			cells = append(cells, term.Number(r.Started), term.Seconds(figure.Ratio(r.WaitSeconds, r.StartedWithSubmit)))
		}
		t.Add(cells...)
	}
	return t
}

func formatSpan(span string, t *time.Time) string {
	switch {
	case t == nil:
		return term.Unknown
	case span == "hour":
		return t.Format("2006-01-02 15:00")
	case span == "month":
		return t.Format("2006-01")
	}
	return t.Format(time.DateOnly)
}

func divideBy(v *float64, by float64) *float64 {
	if v == nil {
		return nil
	}
	x := *v / by
	return &x
}

// printTotals prints the meaning of the marks, the utilisation of the machines, and the pending work.
func (m marked) printTotals(s term.Screen, list client.UsageList) error {
	t := &list.Total
	cpu := func(text string) string { return m.figure(t.Exactness, "cpu_seconds", text) }
	if legend := m.legend(); legend != "" {
		fmt.Fprintln(s, legend)
	}
	until := list.Until
	if list.AsOf != nil && list.AsOf.After(list.Since) {
		until = *list.AsOf
	}
	used := "no CPU time is counted yet"
	if hours := cpu(term.Hours(t.CPUSeconds)); hours != term.Unknown {
		used = hours + " CPU-hours by workloads"
	}
	line := fmt.Sprintf("\nFrom %s to %s UTC: %s", list.Since.UTC().Format("2006-01-02 15:04"),
		until.UTC().Format("2006-01-02 15:04"), used)
	if t.CoreSeconds != nil && *t.CoreSeconds >= 1 { // less is a single reading of an import
		line += fmt.Sprintf(", %s of the %s core-hours that machines were up; by the kernel's count %s were busy",
			cpu(term.Percent(figure.Ratio(t.CPUSeconds, t.CoreSeconds))), term.Hours(t.CoreSeconds),
			term.Percent(figure.Ratio(t.CoreUsedSeconds, t.CoreSeconds)))
	}
	if t.NodeJoules != nil {
		line += fmt.Sprintf("; the machines took %s", term.Energy(t.NodeJoules))
	}
	if _, err := fmt.Fprintln(s, line+"."); err != nil {
		return err
	}
	if t.StartedWithSubmit != nil && *t.StartedWithSubmit > 0 {
		text := fmt.Sprintf("Starts: %s, after a mean wait of %s", term.Number(t.StartedWithSubmit),
			term.Seconds(figure.Ratio(t.WaitSeconds, t.StartedWithSubmit)))
		if t.WaitCoreSeconds != nil {
			text += fmt.Sprintf("; waits times requested cores: %s core-hours", term.Hours(t.WaitCoreSeconds))
		}
		if _, err := fmt.Fprintln(s, text+"."); err != nil {
			return err
		}
	}
	if list.Proof != "" {
		if _, err := fmt.Fprintf(s, "Usage against the counters: %s.\n", list.Proof); err != nil {
			return err
		}
	}
	if p := list.Pending; p != nil {
		gpus := ""
		if p.RequestGPUs != nil && *p.RequestGPUs > 0 {
			gpus = " and " + term.Number(p.RequestGPUs) + " GPUs"
			if *p.RequestGPUs == 1 {
				gpus = " and 1 GPU"
			}
		}
		wait, cores := "wait", "cores"
		if p.Workloads == 1 {
			wait = "waits"
		}
		if p.RequestCores != nil && *p.RequestCores == 1 {
			cores = "core"
		}
		_, err := fmt.Fprintf(s, "%d %s now, for %s %s%s, the longest for %s.\n", p.Workloads, wait, term.Number(p.RequestCores), cores,
			gpus, term.Seconds(p.LongestSeconds))
		return err
	}
	return nil
}

// printWeek draws each hour of the week: the used share of capacity or, for a group, the mean number of cores in use.
// It draws the mean number of allocated cores if held is set, and for imported time without measurements of machines.
func printWeek(s term.Screen, list client.UsageList, held bool, limit int) error {
	held = held || list.Total.CoreSeconds == nil
	groups, order := map[string]*[7 * 24]*float64{}, []string{}
	sums := map[string]float64{}
	var times [7 * 24]float64
	for at := list.Since; at.Before(list.Until); at = at.Add(time.Hour) {
		times[(int(at.UTC().Weekday())+6)%7*24+at.UTC().Hour()]++
	}
	most := 1.0
	for r, cells := range usageRows(list, 0) {
		at := int(r.From.Sub(time.Date(1970, 1, 5, 0, 0, 0, 0, time.UTC)) / time.Hour)
		if at < 0 || at >= len(times) || times[at] == 0 {
			continue
		}
		v := divideBy(r.HeldCoreSeconds, 3600*times[at])
		switch {
		case held:
		case len(list.By) > 0:
			v = divideBy(r.CPUSeconds, 3600*times[at])
		default:
			if v = figure.Ratio(r.CoreUsedSeconds, r.CoreSeconds); v == nil {
				v = r.CapacityShare
			}
			v = divideBy(v, 0.01)
		}
		name := strings.Join(cells[1:], ", ")
		if groups[name] == nil {
			groups[name] = &[7 * 24]*float64{}
			order = append(order, name)
		}
		groups[name][at] = v
		if v != nil {
			most, sums[name] = max(most, *v), sums[name]+*v
		}
	}
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(sums[b], sums[a]) })
	text := "Mean of the cores in use"
	switch {
	case held:
		text = "Mean of the cores allocated"
	case len(list.By) == 0:
		text, most = "Share of capacity: of the cores that were up in use, in per cent", 100
	}
	fmt.Fprintln(s, text+", by hour of the week (UTC)")
	if len(order) == 0 {
		groups[""], order = &[7 * 24]*float64{}, []string{""}
	}
	width := max(3, len(fmt.Sprintf("%.0f", most))+1)
	for i, name := range order {
		if limit = cmp.Or(limit, 5); i >= limit {
			fmt.Fprintf(s, "%d more: --limit %d\n", len(order)-limit, len(order))
			break
		}
		fmt.Fprintf(s, "%-5s", "")
		for h := range 24 {
			fmt.Fprintf(s, "%*d", width, h)
		}
		fmt.Fprintln(s, strings.TrimRight("  "+name, " "))
		printDays(s, groups[name], width, most)
	}
	why := "in which no machine was up or measured"
	if held {
		why = "in which nothing is known to have been allocated"
	}
	_, err := fmt.Fprintln(s, "- marks hours "+why)
	return err
}

// printDays draws the hours of a week in a line for each day.
func printDays(s term.Screen, cells *[7 * 24]*float64, width int, most float64) {
	for d, day := range []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"} {
		fmt.Fprintf(s, "%-5s", day)
		for h := range 24 {
			v := cells[d*24+h]
			if v == nil {
				fmt.Fprintf(s, "%*s", width, term.Unknown)
				continue
			}
			fmt.Fprint(s, s.Paint(term.Level(*v/most), fmt.Sprintf("%*.0f", width, min(*v, most))))
		}
		fmt.Fprintln(s)
	}
}

// usageRows yields the rows of a table of usage, at most limit per interval, each with the cells that identify its subject.
func usageRows(list client.UsageList, limit int) iter.Seq2[*client.Usage, []string] {
	return func(yield func(*client.Usage, []string) bool) {
		var last time.Time
		n := 0
		for i := range list.Rows {
			r := &list.Rows[i]
			if r.From != nil && !r.From.Equal(last) {
				last, n = *r.From, 0
			}
			if n++; limit > 0 && n > limit {
				continue
			}
			var cells []string
			if list.Span != "whole" {
				cells = append(cells, formatSpan(list.Span, r.From))
			}
			for _, by := range list.By {
				cells = append(
					cells, cmp.Or(map[string]string{"site": r.Site, "owner": r.Owner, "account": r.Account, "partition": r.Partition,
						"node": r.Node, "command": r.Command, "kind": r.Kind, "qos": r.QOS, "size": r.Size, "gpus": r.GPUs,
						"length": r.Length}[by], term.Unknown))
			}
			if !yield(r, cells) {
				return
			}
		}
	}
}

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/figure"
	"reckon/internal/term"
	"reckon/web/client"
	"reckon/workload"
)

type jobsOptions struct {
	filter       client.Filter
	since, until string
	sinceSet     bool
	running      bool
	runningSet   bool
	sort         string
	limit        int
	limitSet     bool
	columns      []string
	format       *choice
}

// sortAliases returns short names for common sort keys in descending order.
func sortAliases() map[string]string {
	return map[string]string{
		"cpu": "-cpu_seconds", "cores": "-cores_mean", "memory": "-memory_peak_bytes", "start": "-start",
		"end": "-end", "seen": "-seen", "read": "-io_read_bytes", "write": "-io_write_bytes", "network": "-network_bytes",
		"gpu": "-gpu_seconds", "energy": "-energy_joules", "wait": "-cpu_wait_seconds", "processes": "-processes",
	}
}

func newJobs(g *globals) *cobra.Command {
	var o jobsOptions
	cmd := &cobra.Command{
		Use:     "jobs",
		Aliases: []string{"ls"},
		Short:   "List workloads and their use",
		Long: `List workloads and their use: jobs, pods, services, login sessions and
process groups, those that used the most CPU time first.

Without --since it covers the 24 hours before now, or before --until. CPU time,
bytes and energy are of this time, in JSON and CSV as "within"; means and peaks
are of whole runs. "-" means not measured.
` + "`reckon job ID`" + ` shows one of them in full.`,
		Example: `  reckon jobs                                  the last day
  reckon jobs --since 1h --running             what is running now
  reckon jobs --owner alice --sort memory      by peak memory, page cache included
  reckon jobs --kind slurm --name 'train*' --since 2026-11-01
  reckon jobs --since 7d --min-cpu 3600 --format csv > week.csv
  reckon jobs -u alice -S 7d -s F,OOM,TO       as with sacct: what failed in a week
  reckon jobs -j 4711 -o id,state,elapsed,cores_p95,memory_needed_peak_bytes
  reckon jobs --format json | jq '.[].id'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			changed := cmd.Flags().Changed
			o.sinceSet, o.runningSet, o.limitSet = changed("since"), changed("running"), changed("limit")
			return runJobs(cmd.Context(), g, o)
		},
	}
	o.since = "24h"
	f := cmd.Flags()
	g.shared.addListFlag(cmd, "owner", &o.filter.Owners)
	f.StringSliceVarP(&o.filter.IDs, "id", "j", nil, "with these ids, every run of them: slurm/4711, or the number of a batch job")
	g.shared.addListFlag(cmd, "kind", &o.filter.Kinds)
	g.shared.addListFlag(cmd, "node", &o.filter.Nodes)
	g.shared.addFlag(cmd, "name", &o.filter.Name)
	g.shared.addFlag(cmd, "command", &o.filter.Command)
	g.shared.addListFlag(cmd, "account", &o.filter.Accounts)
	g.shared.addListFlag(cmd, "partition", &o.filter.Partitions)
	g.shared.addListFlag(cmd, "site", &o.filter.Sites)
	f.StringSliceVarP(&o.filter.States, "state", "s", nil,
		"in these states of the batch system: pending, running, completed, failed, cancelled, timeout, out_of_memory and the like; "+
			"Slurm's abbreviations such as OOM will do")
	g.shared.addFlag(cmd, "since", &o.since)
	g.shared.addFlag(cmd, "until", &o.until)
	f.Float64Var(&o.filter.MinCPU, "min-cpu", 0, "that used at least this many CPU seconds")
	f.BoolVar(&o.running, "running", false, "only those that run; --running=false: only those that ended")
	f.StringVar(&o.sort, "sort", "cpu",
		"by cpu, cores, memory, start, end, seen, read, write, gpu, energy, wait, processes, or any key of the JSON (- in front: "+
			"descending)")
	f.IntVar(&o.limit, "limit", 50, "at most this many, 0 for all (default 50 in a table, all in json and csv)")
	f.Lookup("limit").DefValue = "0"
	addColumns[client.Workload](g.shared, cmd, &o.columns)
	o.format = g.shared.addFormatFlag(cmd, "table", "json", "csv")
	completeWords(cmd, "state", client.States()...)
	words := slices.AppendSeq(client.SortKeys(), maps.Keys(sortAliases()))
	slices.Sort(words)
	completeWords(cmd, "sort", slices.Compact(words)...)
	return cmd
}

// completeJobID returns the id of a workload; a batch job may be given by its number.
func completeJobID(id string) string {
	if id == "" || strings.Contains(id, "/") {
		return id
	}
	return string(workload.JobID(id))
}

const maxRows = 100_000 // the server's maximum

func (o *jobsOptions) buildFilter(now time.Time) (client.Filter, error) {
	f := o.filter
	f.IDs = slices.Clone(f.IDs)
	for i, id := range f.IDs {
		f.IDs[i] = completeJobID(id)
	}
	var err error
	if f.Until, err = parseTime("until", o.until, now); err != nil {
		return f, err
	}
	if !o.sinceSet && !f.Until.IsZero() {
		now = f.Until // the default counts back from the end
	}
	if f.Since, err = parseTime("since", o.since, now); err != nil {
		return f, err
	}
	if len(f.IDs) > 0 && !o.sinceSet {
		f.Since = time.Time{} // a job given by name is listed whenever it ran
	}
	if !f.Until.IsZero() && f.Until.Before(f.Since) {
		return f, &usageError{fmt.Errorf("--until %s is before --since %s; give a later time", o.until, o.since)}
	}
	if o.runningSet {
		f.Running = &o.running
	}
	if f.MinCPU < 0 {
		return f, &usageError{fmt.Errorf("--min-cpu %g is below 0; give CPU seconds", f.MinCPU)}
	}
	f.Sort = o.sort
	if s, ok := sortAliases()[o.sort]; ok {
		f.Sort = s
	} else if !slices.Contains(client.SortKeys(), strings.TrimPrefix(o.sort, "-")) {
		return f, &usageError{
			fmt.Errorf(
				"unknown --sort %q; use cpu, cores, memory, start, end, seen, read, write, gpu, energy, wait, processes, or a key of "+
					"--format json", o.sort)}
	}
	f.Limit, f.Within = o.limit, !f.Since.IsZero()
	switch {
	case o.limit < 0 || o.limit > maxRows:
		return f, &usageError{fmt.Errorf("--limit %d is out of range; give 0 (all) to %d", o.limit, maxRows)}
	case o.limit == 0, !o.limitSet && o.format.value != "table":
		f.Limit = maxRows
	}
	return f, nil
}

func runJobs(ctx context.Context, g *globals, o jobsOptions) error {
	f, err := o.buildFilter(g.now())
	if err != nil {
		return err
	}
	columns, err := resolveColumns[client.Workload](o.columns, columnAliases())
	if err != nil {
		return err
	}
	return printAnswer(ctx, g, o.format.value, func(ctx context.Context, c *client.Client) (output, error) {
		list, err := c.Workloads(ctx, f)
		if err == nil && len(list.Workloads) == 0 {
			err = checkNames(ctx, c, g.now(),
				filterValues{"owner": f.Owners, "account": f.Accounts, "partition": f.Partitions, "node": f.Nodes, "site": f.Sites,
					"id": f.IDs})
		}
		empty := "no workload matches; a longer --since or fewer filters show more"
		if byCommand := f; err == nil && len(list.Workloads) == 0 && f.Name != "" && f.Command == "" {
			byCommand.Name, byCommand.Command, byCommand.Limit = "", f.Name, 1
			if ran, bad := c.Workloads(ctx, byCommand); bad == nil && len(ran.Workloads) > 0 {
				empty = fmt.Sprintf("no workload has such a name, but some ran such a program: --command '%s' lists them", f.Name)
			}
		}
		return output{json: orEmpty(list.Workloads), rows: len(list.Workloads), missing: list.Missing, empty: empty,
			csv:   func(w io.Writer) error { return client.WriteCSV(w, list.Workloads, columns...) },
			print: func(s term.Screen) error { return printJobs(g, s, list, columns) }}, err
	})
}

func printJobs(g *globals, s term.Screen, list client.WorkloadList, columns []string) error {
	now, marks, across := g.now(), marked{}, false
	for i := range list.Workloads {
		w := &list.Workloads[i]
		for k, f := range figure.InScope(figure.Hours) {
			if at := figure.Index(figure.Runs, f.Key); w.Within != nil && at >= 0 && f.Key != "gpu_seconds" { // which is shown as a mean
				p, v := w.Row.At(at), *w.Within.At(k)
				across = across || *p != nil && v != nil && **p != *v
				*p, w.Exactness = v, w.Within.Exactness
			}
		}
	}
	table := marks.jobTable
	switch {
	case len(columns) > 0:
		table = func(list []client.Workload, now time.Time) *term.Table {
			return newColumnTable(marks, list, columns, func(w *client.Workload) figure.Degrees { return w.Exactness }, now)
		}
	case !slices.ContainsFunc(list.Workloads, func(w client.Workload) bool { return !isPending(w) }):
		table = waitingTable
	}
	if err := table(list.Workloads, now).Print(s); err != nil {
		return err
	}
	if text := marks.legend(); text != "" {
		fmt.Fprintln(g.stderr, text)
	}
	if across {
		fmt.Fprintln(g.stderr, "CPU time, bytes and energy are of the time that is listed; wall time, means and peaks are of whole runs")
	}
	if list.Total > len(list.Workloads) {
		fmt.Fprintf(g.stderr, "%d of %d workloads; --limit 0 shows all\n", len(list.Workloads), list.Total)
	}
	return nil
}

func (m marked) jobTable(list []client.Workload, now time.Time) *term.Table {
	t := term.TableOf("NAME:s8|WORKLOAD|OWNER:s8|NODES:s8o7|START:o4|WALL:r|CPU TIME:r|CORES:r|P95:ro2|MEM NEEDED:r|READ:ro5" +
		"|WRITTEN:ro5|NETWORK:ro8|ENERGY:ro3|PROCS:ro6|GPU:rx|GPU MEM:ro1x|GPU WATTS:ro5x|STATE")
	for _, w := range list {
		is := func(key, text string) string { return m.figure(w.Exactness, key, text) }
		t.Add(workloadTitle(w), w.ID, formatUsers(&w), formatNodes(w.Nodes), formatStart(w, now),
			is("wall_seconds", term.Seconds(&w.WallSeconds)), is("cpu_seconds", term.Seconds(w.CPUSeconds)),
			is("cores_mean", term.Cores(w.CoresMean)), is("cores_p95", term.Cores(w.CoresP95)),
			m.formatMemoryCell(&w), is("io_read_bytes", term.Bytes(w.ReadBytes)),
			is("io_write_bytes", term.Bytes(w.WriteBytes)),
			is("network_bytes", term.Bytes(w.NetworkBytes)), is("energy_joules", term.Energy(w.EnergyJoules)),
			is("processes", term.Number(w.Processes)), is("gpu_seconds", term.Cores(meanGPUs(w.GPUSeconds, &w))),
			is("gpu_memory_peak_bytes", term.Bytes(w.GPUMemoryPeak)), is("energy_joules", term.Watts(meanGPUs(w.GPUEnergyJoules, &w))),
			formatState(w))
	}
	return t
}

// formatUsers returns the owner of a workload. For a process group of several users it adds the number of other users.
func formatUsers(w *client.Workload) string {
	switch n := len(w.Users); {
	case w.Partial && n < 2:
		return w.Owner + " (share)"
	case n > 1:
		return fmt.Sprintf("%s +%d", w.Owner, n-1)
	}
	return w.Owner
}

// meanGPUs returns the mean use of GPUs by a workload; nil if it had none open.
func meanGPUs(total *float64, w *client.Workload) *float64 {
	if total == nil || w.WallSeconds <= 0 || (w.GPUSeconds == nil || *w.GPUSeconds == 0) && w.GPUMemoryPeak == nil &&
		w.AllocatedGPUs == nil {
		return nil
	}
	return new(*total / w.WallSeconds)
}

// workloadTitle returns the display name of a workload: its name, its command, or the last segment of its id. Sums that
// are listed beside a node's workloads have the titles of the web pages.
func workloadTitle(w client.Workload) string {
	return cmp.Or(workload.Kind(w.Kind).Title(), w.Name, w.Command, w.ID[strings.LastIndex(w.ID, "/")+1:])
}

// shortName returns the name of a workload, or an empty string if the id ends with the name.
func shortName(w client.Workload) string {
	if strings.HasSuffix(w.ID, "/"+w.Name) || w.Name == "" {
		return ""
	}
	return w.Name
}

func formatNodes(nodes []string) string {
	if len(nodes) > 3 {
		return fmt.Sprintf("%s and %d more", nodes[0], len(nodes)-1)
	}
	return strings.Join(nodes, ",")
}

// formatState returns the state in one word. It is the batch system's state, unless an exit code is more specific.
func formatState(w client.Workload) string {
	failed := w.ExitCode != nil && *w.ExitCode != 0
	switch {
	case w.State == "pending" && (w.Running || w.CPUSeconds != nil):
		return "running" // it started since the last report of the batch system
	case w.State == "pending" && w.Reason != "":
		return "pending: " + w.Reason
	case w.State != "" && !(w.State == "failed" && failed):
		return w.State
	case w.Running:
		return "running"
	case failed:
		return fmt.Sprintf("exit %d", *w.ExitCode)
	case w.End == nil:
		return "unseen" // no end was recorded, and there are no recent samples
	}
	return "ended"
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// reportMissing reports the missing parts of an answer on standard error.
func (g *globals) reportMissing(missing []string) {
	for _, m := range missing {
		fmt.Fprintln(g.stderr, "incomplete: "+term.Safe(m))
	}
}

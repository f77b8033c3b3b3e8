package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"reckon/interop/loki"
	"reckon/web/client"
	"reckon/workload"
)

type jobOptions struct {
	id             string
	from, to, step string
	start, site    string
	oneStep        string // of a job, instead of the job
	by             *choice
	format         *choice
	trace          *choice
	mail, seff     bool
	logs           logOptions
	find           client.Filter
	finds          bool // select jobs by find instead of by id
}

func newJob(g *globals) *cobra.Command {
	var o jobOptions
	cmd := &cobra.Command{
		Use:   "job [ID]",
		Short: "Show what happened with one workload",
		Long: `Show what happened to one workload: its total and peak use,
a verdict in words, how much of its request it used, its profile over time, and which
programs and nodes did the work.

For a workload on several nodes it shows how the work was spread over them, and at
the end what to ask for next time, from this run and earlier ones of its name.

The ID is the one that ` + "`reckon jobs`" + ` prints, such as slurm/4711. The name
alone will do when it is unique. When an id was used more than once, the latest is
shown, unless --start (or ID@TIME) selects another by its start time; --last finds the
latest by owner and name instead.`,
		Example: `  reckon job slurm/4711
  reckon job 4711                        the same, when no other workload is called so
  reckon job unit/nginx.service --from 2h --step 1m
  reckon job 4711.1                      one step of it
  reckon job 4800                        a job array or a heterogeneous job as a whole
  reckon job '4800_[1-4]'                these tasks of it
  reckon job slurm/4711 --format json | jq .memory_peak_bytes
  reckon job slurm/4711 --by node        the profile of each node; or command, part
  reckon job slurm/4711@2026-08-20       an earlier run of an id that was given again
  reckon job 4711 --site alpha           where several clusters gave the same number
  reckon job --last 3 --owner alice      the three started last
  reckon job slurm/4711 --seff           the lines of Slurm's seff
  reckon job job/train/resnet --logs --loki http://loki:3100
  reckon job slurm/4711 --email-text | mail -s "your job" alice
  reckon job slurm/4711 --step 1s --trace csv > job.csv     for reckon stress --trace`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: firstArg(g, completeIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range []string{"last", "owner", "name"} {
				o.finds = o.finds || cmd.Flags().Changed(name)
			}
			switch {
			case len(args) == 0 && !o.finds:
				return &usageError{errors.New("no ID was given; give one that `reckon jobs` lists, or --last N, --owner or --name")}
			case len(args) > 0 && o.finds:
				return &usageError{
					fmt.Errorf("%q names one job, and --last, --owner and --name look for others; give one or the other", args[0])}
			case o.finds && (o.find.Limit < 1 || o.find.Limit > 100):
				return &usageError{fmt.Errorf("--last %d is out of range; give 1 to 100", o.find.Limit)}
			case o.finds && o.trace.value != "" && o.find.Limit > 1:
				return &usageError{errors.New("--trace writes one job; give its ID, or --last 1")}
			case o.finds && o.start != "":
				return &usageError{errors.New("--start names a run of one id; give the ID, not --last, --owner or --name")}
			case len(args) > 0:
				o.id = args[0]
			}
			return runJob(cmd.Context(), g, o)
		},
	}
	cmd.Flags().StringVar(&o.from, "from", "", "start of the profile (default: the start of the workload)")
	cmd.Flags().StringVar(&o.to, "to", "", "end of the profile (default: the end of the workload, or now)")
	cmd.Flags().StringVar(&o.step, "step", "", "length of a step of the profile, 1s or more")
	g.shared.addFlag(cmd, "start", &o.start)
	g.shared.addFlag(cmd, "site", &o.site)
	o.by = &choice{words: []string{"node", "command", "part"}}
	cmd.Flags().Var(o.by, "by", "the profile of each: node, command, part")
	completeWords(cmd, "by", o.by.words...)
	o.format = g.shared.addFormatFlag(cmd, "table", "json", "csv")
	o.trace = &choice{words: []string{"csv", "json"}}
	cmd.Flags().Var(o.trace, "trace", "write its use over time as a trace for reckon stress: csv, json")
	completeWords(cmd, "trace", o.trace.words...)
	cmd.Flags().BoolVar(&o.mail, "email-text", false, "plain text for a mail: 72 columns, no charts, ASCII")
	cmd.Flags().BoolVar(&o.seff, "seff", false, "the lines of Slurm's seff, in its order")
	cmd.Flags().IntVar(&o.find.Limit, "last", 1, "the last N started, 1 to 100")
	g.shared.addListFlag(cmd, "owner", &o.find.Owners)
	g.shared.addFlag(cmd, "name", &o.find.Name)
	cmd.Flags().BoolVar(&o.logs.show, "logs", false,
		"its logs from Loki, or the commands that show them, if no Loki is configured, by --loki or on the server")
	cmd.Flags().StringVar(&o.logs.loki, "loki", "", "address of Loki for --logs, such as http://loki:3100 (default RECKON_LOKI)")
	cmd.Flags().StringVar(&o.logs.selector, "loki-selector", "",
		"LogQL for --logs, with {{.Namespace}}, {{.Pods}}, {{.Unit}} and {{.Nodes}} (default '"+loki.DefaultSelector+"')")
	cmd.MarkFlagsMutuallyExclusive("trace", "format", "email-text", "seff", "logs")
	for _, other := range []string{"trace", "email-text", "seff", "logs"} {
		cmd.MarkFlagsMutuallyExclusive("by", other)
	}
	return cmd
}

// queryRange returns the time range of the query. It removes the run and the step from the id of the job.
func (o *jobOptions) queryRange(now time.Time) (client.Range, error) {
	r := client.Range{Site: o.site}
	var err error
	if r.From, err = parseTime("from", o.from, now); err != nil {
		return r, err
	}
	if r.To, err = parseTime("to", o.to, now); err != nil {
		return r, err
	}
	if r.Step, err = parseSpan("step", o.step); err != nil {
		return r, err
	}
	if o.id, r.Start, err = parseRunID(o.id, o.start, now); err != nil {
		return r, err
	}
	o.id, o.oneStep = splitStepID(o.id)
	if o.oneStep != "" && (o.mail || o.seff || o.trace.value != "" || o.by.value != "" || o.format.value == "csv") {
		return r, &usageError{
			fmt.Errorf("%s.%s is a step; --email-text, --seff, --trace, --by and --format csv are of whole jobs", o.id, o.oneStep)}
	}
	switch r.By = o.by.value; {
	case o.oneStep != "":
		r.By = "part"
	case r.By == "" && o.format.value == "table":
		r.By = "total"
	}
	return r, nil
}

func runJob(ctx context.Context, g *globals, o jobOptions) error {
	now := g.now()
	r, err := o.queryRange(now)
	if err != nil {
		return err
	}
	c, err := g.newClient()
	if err != nil {
		return err
	}
	jobs := []client.Workload{{ID: o.id, Start: r.Start, Site: r.Site}}
	if !o.finds && o.oneStep == "" {
		if m, found, err := findMembers(ctx, c, o); err != nil || found {
			if err != nil {
				return err
			}
			if !o.seff {
				return writeMembers(g, o, m, now)
			}
			jobs = m.Members // seff is of one job: the tasks one after the other
		}
	}
	if o.finds {
		if jobs, err = fetchLastRuns(ctx, c, o.find, o.site); err != nil {
			return err
		}
	}
	var details []client.WorkloadDetail
	var rows []client.Workload
	for i, job := range jobs {
		r.Start, r.Site = job.Start, job.Site
		d, err := c.Workload(ctx, job.ID, r)
		if err != nil {
			return printUnlisted(ctx, g, c, job.ID, err)
		}
		g.reportMissing(d.Missing)
		if o.format.value == "csv" {
			rows = append(rows, d.Workload)
			continue
		}
		if o.finds && o.format.value == "json" {
			details = append(details, d)
			continue
		}
		if i > 0 {
			fmt.Fprintln(g.stdout)
		}
		if o.logs.show {
			if err := showLogs(ctx, g, c, o.logs, &d, now); err != nil {
				return err
			}
			continue
		}
		if err := writeJob(g, o, d, now); err != nil {
			return err
		}
		if err := writeNextRun(ctx, g, c, o, d); err != nil {
			return err
		}
	}
	if rows != nil {
		return client.WriteCSV(g.stdout, rows) // the columns of reckon jobs
	}
	if details != nil {
		return writeJSON(g.stdout, details)
	}
	return nil
}

func writeJob(g *globals, o jobOptions, detail client.WorkloadDetail, now time.Time) error {
	if o.oneStep != "" {
		step, err := findStep(detail, o.oneStep)
		if err != nil {
			return err
		}
		if o.format.value == "json" {
			return writeJSON(g.stdout, step)
		}
		return printStep(g.screen(), detail, step, now)
	}
	switch {
	case o.trace.value != "":
		return writeTrace(g, detail, o.trace.value)
	case o.format.value == "json":
		return writeJSON(g.stdout, detail)
	case o.seff:
		return printSeff(g.stdout, detail)
	case o.mail:
		return printMail(g.stdout, detail, now)
	}
	return printJob(g.screen(), detail, o.by.value, now)
}

// printUnlisted writes data without rows: of the owner of short work, and of all owners if a workload does not exist.
func printUnlisted(ctx context.Context, g *globals, c *client.Client, id string, err error) error {
	list, bad := c.Nodes(ctx)
	switch {
	case bad != nil: // it is only more about the error
		return err
	case err != nil:
		id = ""
	}
	return cmp.Or(err, printHeldBack(g.screen(), list.Nodes, id))
}

// writeNextRun writes the forecast of the next run below an ended batch job, if the server has forecasts. For short work,
// it writes the processes that are still running.
func writeNextRun(ctx context.Context, g *globals, c *client.Client, o jobOptions, detail client.WorkloadDetail) error {
	if workload.Kind(detail.Kind).Folded() && o.format.value == "table" {
		return printUnlisted(ctx, g, c, detail.ID, nil)
	}
	if !workload.Kind(detail.Kind).Scheduled() || detail.Running || o.format.value != "table" || o.oneStep != "" || o.trace.value != "" ||
		o.seff || o.mail {
		return nil
	}
	list, err := c.Forecast(ctx, client.ForecastQuery{Workload: detail.ID, Site: detail.Site})
	if err != nil || len(list.Next) == 0 {
		return ctx.Err() // it is optional: a server without forecasts returns 404
	}
	fmt.Fprintln(g.stdout)
	return printNext(g, list.Next)
}

// fetchLastRuns returns the runs that started last, including each run of a reused id. It returns pending jobs only if there
// is no other run. It omits the waiting part of an array, because that record never starts.
func fetchLastRuns(ctx context.Context, c *client.Client, f client.Filter, site string) ([]client.Workload, error) {
	const more = 200 // read at a time: many may be pending
	want := f.Limit
	var began, wait []client.Workload
	f.Sort, f.Limit = "-start", want+more
	for {
		list, err := c.Workloads(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, w := range list.Workloads {
			switch {
			case site != "" && w.Site != site, w.State == "started":
			case w.State == "pending":
				wait = append(wait, w)
			default:
				began = append(began, w)
			}
		}
		f.Offset += len(list.Workloads)
		if len(began) >= want || len(list.Workloads) < f.Limit {
			break
		}
	}
	if len(began) == 0 {
		began = wait
	}
	if len(began) == 0 {
		return nil, errors.New("no job matches; `reckon jobs --since 30d` lists the jobs of 30 days")
	}
	return began[:min(want, len(began))], nil
}

package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/client"
)

type jobOptions struct {
	id             string
	from, to, step string
	format         *choice
	trace          *choice
}

func newJob(g *globals) *cobra.Command {
	var o jobOptions
	cmd := &cobra.Command{
		Use:   "job ID",
		Short: "Tell what happened with one workload",
		Long: `Tell what happened with one workload: what it used in total and at its peak,
what of its request it used, its profile over time, and which programs and nodes
did the work.

The ID is the one that ` + "`reckon jobs`" + ` prints, such as slurm/4711. The name alone will
do when it is unique.`,
		Example: `  reckon job slurm/4711
  reckon job 4711                        the same, when no other workload is called so
  reckon job unit/nginx.service --from 2h --step 1m
  reckon job slurm/4711 --format json | jq .memory_peak_bytes
  reckon job slurm/4711 --step 1s --trace csv > job.csv     for reckon stress --trace`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return completeIDs(cmd.Context(), g, prefix)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = args[0]
			return runJob(cmd.Context(), g, o)
		},
	}
	cmd.Flags().StringVar(&o.from, "from", "", "begin of the profile (default: the start of the workload)")
	cmd.Flags().StringVar(&o.to, "to", "", "end of the profile (default: the end of the workload, or now)")
	cmd.Flags().StringVar(&o.step, "step", "", "length of a step of the profile, 1s or more")
	o.format = addFormat(cmd, "table", "json")
	o.trace = &choice{words: []string{"csv", "json"}}
	cmd.Flags().Var(o.trace, "trace", "write what it used over time as a program for reckon stress: csv, json")
	complete(cmd, "trace", o.trace.words...)
	cmd.MarkFlagsMutuallyExclusive("trace", "format")
	return cmd
}

func runJob(ctx context.Context, g *globals, o jobOptions) error {
	now := g.now()
	var r client.Range
	var err error
	if r.From, err = moment("from", o.from, now); err != nil {
		return err
	}
	if r.To, err = moment("to", o.to, now); err != nil {
		return err
	}
	if r.Step, err = span("step", o.step); err != nil {
		return err
	}
	c, err := g.client()
	if err != nil {
		return err
	}
	d, err := c.Workload(ctx, o.id, r)
	if err != nil {
		return err
	}
	if o.trace.value != "" {
		return writeTrace(g, d, o.trace.value)
	}
	if o.format.value == "json" {
		return writeJSON(g.stdout, d)
	}
	return printJob(g.screen(), d, now)
}

// completeIDs offers the ids of workloads in the shell, the latest first.
func completeIDs(ctx context.Context, g *globals, prefix string) ([]string, cobra.ShellCompDirective) {
	const flags = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	c, err := g.client()
	if err != nil {
		return nil, flags
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	list, err := c.Workloads(ctx, client.Filter{Sort: "-seen", Limit: 500})
	if err != nil {
		return nil, flags // a shell has no place for an error
	}
	var ids []string
	for _, w := range list.Workloads {
		if strings.HasPrefix(w.ID, prefix) {
			about := w.Owner
			if name := shortName(w); name != "" {
				about = name + ", " + w.Owner
			}
			ids = append(ids, cobra.CompletionWithDesc(w.ID, about))
		}
	}
	return ids, flags
}

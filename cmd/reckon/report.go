package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"reckon/client"
	"reckon/web/report"
)

func newReport(g *globals) *cobra.Command {
	var period, format *choice
	var until, output, site string
	var public bool
	table := &choice{value: "owners", words: reportTables}
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Write a page on how the site was used in a month, week or year",
		Long: `Write one HTML page on how the site was used: utilisation, busy hours, owners,
software, waste, energy and up-time. The page needs nothing else and no network,
follows light and dark, and prints. --public removes names of owners, accounts,
programs and nodes.`,
		Example: `  reckon report --period month -o november.html
  reckon report --period month --until 2026-11-01 --public -o october.html
  reckon report --period year --format json | jq .total
  reckon report --period week --format csv > owners.csv
  reckon report --format csv --table software > software.csv`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("table") && format.value != "csv" {
				return &usageError{fmt.Errorf("--table %s is for --format csv; html and json hold all tables", table.value)}
			}
			return runReport(cmd.Context(), g, period.value, format.value, table.value, until, output, site, public)
		},
	}
	f := cmd.Flags()
	period = &choice{value: "month", words: client.Periods()}
	f.Var(period, "period", "length of time up to its end: "+strings.Join(period.words, ", "))
	f.StringVar(&until, "until", "", "end of the period (default now)")
	f.BoolVar(&public, "public", false, "remove names")
	f.StringVar(&site, "title", "", "name of the site in the heading")
	f.StringVarP(&output, "output", "o", "", "write into this file (default standard output)")
	format = addFormat(cmd, "html", "json", "csv")
	f.Var(table, "table", "with --format csv: "+strings.Join(table.words, ", "))
	complete(cmd, "period", period.words...)
	complete(cmd, "table", table.words...)
	return cmd
}

// reportTables are the tables of a report that can be had one by one. Each has what was
// used, what was held (the difference is waste), capacity, energy and up-time.
var reportTables = []string{"owners", "accounts", "software", "kinds", "nodes", "time", "week", "total"}

func reportTable(r *client.Report, table string) []client.Usage {
	return map[string][]client.Usage{
		"owners": r.Owners, "accounts": r.Accounts, "software": r.Commands, "kinds": r.Kinds, "nodes": r.Nodes, "time": r.Steps, "week": r.Week, "total": {r.Total},
	}[table]
}

func runReport(ctx context.Context, g *globals, period, format, table, until, output, site string, public bool) (err error) {
	at, err := moment("until", until, g.now())
	if err != nil {
		return err
	}
	c, err := g.client()
	if err != nil {
		return err
	}
	r, err := c.Report(ctx, period, at, public)
	if err != nil {
		return err
	}
	g.partial(r.Missing)
	w := g.stdout
	if output != "" && output != "-" {
		f, failed := os.Create(output)
		if failed != nil {
			return fmt.Errorf("write the report: %w", failed)
		}
		defer func() {
			if e := f.Close(); err == nil && e != nil {
				err = fmt.Errorf("write the report: %w", e)
			}
		}()
		w = f
	}
	switch format {
	case "json":
		return writeJSON(w, r)
	case "csv":
		return client.WriteCSV(w, reportTable(&r, table))
	}
	return report.Write(w, &r, site)
}

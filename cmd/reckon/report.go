package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"reckon/web/client"
	"reckon/web/report"
)

func newReport(g *globals) *cobra.Command {
	var period, format *choice
	var since, until, output, site, owner string
	var public bool
	table := &choice{value: "owners", words: reportTables}
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Write a page on how the site was used in a month, week or year",
		Long: `Write one HTML page on how the site was used: utilisation, busy hours, owners,
software, waste, energy and up-time. The page needs nothing else and no network,
follows light and dark, and prints. --public removes names of owners, accounts,
programs and nodes.

With --owner the page is about one owner and the last week, or the time from --since on:
use, allocation and losses against the period before, failures, requests for the next
runs, and findings. --format text fits a mail. The server shows the same at /report, and
mails it weekly (setting digest).`,
		Example: `  reckon report --period month -o november.html
  reckon report --period month --until 2026-11-01 --public -o october.html
  reckon report --period year --format json | jq .total
  reckon report --owner alice -o alice.html     one owner, the last week, to be mailed
  reckon report --period week --format csv > owners.csv
  reckon report --format csv --table software > software.csv`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("table") && format.value != "csv" {
				return &usageError{fmt.Errorf("--table %s is for --format csv; html and json hold all tables", table.value)}
			}
			if format.value == "html" && output == "" && g.screen().Width > 0 {
				return &usageError{errors.New("a page is not for a terminal: give -o FILE.html, or --format csv or, with --owner, text")}
			}
			if owner != "" {
				if cmd.Flags().Changed("period") || public || format.value == "csv" {
					return &usageError{errors.New("--owner takes --since and --until, in html, text or json")}
				}
				return runOwnerReport(cmd.Context(), g, owner, since, until, format.value, output)
			}
			if format.value == "text" || cmd.Flags().Changed("since") {
				return &usageError{errors.New("--since and --format text are for --owner")}
			}
			return runReport(cmd.Context(), g, period.value, format.value, table.value, until, output, site, public)
		},
	}
	since = "7d"
	f := cmd.Flags()
	period = &choice{value: "month", words: client.Periods()}
	f.Var(period, "period", "length of time up to its end: "+strings.Join(period.words, ", "))
	g.shared.addFlag(cmd, "owner", &owner)
	g.shared.addFlag(cmd, "since", &since)
	g.shared.addFlag(cmd, "until", &until)
	f.BoolVar(&public, "public", false, "remove names")
	f.StringVar(&site, "title", "", "name of the site in the heading")
	g.shared.addFlag(cmd, "output", &output)
	format = g.shared.addFormatFlag(cmd, "html", "json", "csv", "text")
	f.Var(table, "table", "with --format csv: "+strings.Join(table.words, ", "))
	completeWords(cmd, "period", period.words...)
	completeWords(cmd, "table", table.words...)
	return cmd
}

// reportTables lists the tables of a report that can be printed individually. Each has usage, allocation (allocation
// minus usage is waste), capacity, energy and uptime.
var reportTables = []string{"owners", "accounts", "software", "kinds", "nodes", "time", "week", "total"}

func reportTable(r *client.Report, table string) []client.Usage {
	return map[string][]client.Usage{
		"owners": r.Owners, "accounts": r.Accounts, "software": r.Commands, "kinds": r.Kinds, "nodes": r.Nodes, "time": r.Steps,
		"week": r.Week, "total": {r.Total},
	}[table]
}

func runReport(ctx context.Context, g *globals, period, format, table, until, output, site string, public bool) (err error) {
	at, err := parseTime("until", until, g.now())
	if err != nil {
		return err
	}
	c, err := g.newClient()
	if err != nil {
		return err
	}
	r, err := c.Report(ctx, period, at, public)
	if err != nil {
		return err
	}
	g.reportMissing(r.Missing)
	w, done, err := g.openOutput(output)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, done()) }()
	switch format {
	case "json":
		return writeJSON(w, r)
	case "csv":
		return client.WriteCSV(w, reportTable(&r, table))
	}
	return report.Write(w, &r, site)
}

// openOutput opens the destination of a report: a file, or standard output without a name. The returned function closes it.
func (g *globals) openOutput(name string) (io.Writer, func() error, error) {
	if name == "" || name == "-" {
		return g.stdout, func() error { return nil }, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, nil, fmt.Errorf("write the report: %w", err)
	}
	return f, func() error {
		if err := f.Close(); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
		return nil
	}, nil
}

// runOwnerReport writes the report on one owner.
func runOwnerReport(ctx context.Context, g *globals, owner, since, until, format, output string) (err error) {
	r, err := fetchOwnerReport(ctx, g, owner, since, until)
	if err != nil {
		return err
	}
	g.reportMissing(r.Missing)
	w, done, err := g.openOutput(output)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, done()) }()
	switch format {
	case "json":
		return writeJSON(w, r)
	case "text":
		_, err := io.WriteString(w, report.Text(&r))
		return err
	}
	return report.WriteOwner(w, &r)
}

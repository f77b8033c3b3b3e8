package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"reckon/client"
	"reckon/internal/report"
)

func newReport(g *globals) *cobra.Command {
	var period, format *choice
	var until, output, site string
	var public bool
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
  reckon report --period week --format csv > owners.csv      the owners`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runReport(cmd.Context(), g, period.value, format.value, until, output, site, public)
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
	complete(cmd, "period", period.words...)
	return cmd
}

func runReport(ctx context.Context, g *globals, period, format, until, output, site string, public bool) (err error) {
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
		return client.WriteCSV(w, r.Owners)
	}
	return report.Write(w, &r, site)
}

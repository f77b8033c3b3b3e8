package main

import (
	"cmp"
	"context"
	"fmt"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/web/client"
	"reckon/web/report"
)

func newMe(g *globals) *cobra.Command {
	var owner, since, until string
	var format *choice
	cmd := &cobra.Command{
		Use:   "me",
		Short: "Show your work: used, lost, running, failed; recommended requests",
		Long: `Your own work of the last week at a glance: core-hours, GPU-hours and energy used and
allocated compared with the week before, what is running, what is pending and why, what
failed, which work was over-allocated and the recommended request of its next run, and
the findings.

It covers the user the server identifies you as: the Unix user on a shared machine, else
the owner of the token. With -u it covers another user whom you may see.`,
		Example: `  reckon me
  reckon me -S 30d
  reckon me -u alice --format json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := fetchOwnerReport(cmd.Context(), g, owner, since, until)
			if err != nil {
				return err
			}
			if format.value == "json" {
				return writeJSON(g.stdout, r)
			}
			fmt.Fprint(g.stdout, report.Text(&r))
			g.reportMissing(r.Missing)
			return nil
		},
	}
	since = "7d"
	g.shared.addFlag(cmd, "owner", &owner)
	g.shared.addFlag(cmd, "since", &since)
	g.shared.addFlag(cmd, "until", &until)
	format = g.shared.addFormatFlag(cmd, "table", "json")
	return cmd
}

// fetchOwnerReport fetches the report on an owner; without a name, on the user that the server identifies.
func fetchOwnerReport(ctx context.Context, g *globals, owner, since, until string) (client.OwnerReport, error) {
	var none client.OwnerReport
	now := g.now()
	end, err := parseTime("until", until, now)
	if err != nil {
		return none, err
	}
	if end.IsZero() {
		end = now
	}
	begin, err := parseTime("since", since, end)
	if err != nil {
		return none, err
	}
	if !begin.Before(end) {
		return none, &usageError{fmt.Errorf("--until %s is not after --since %s; give a later time", cmp.Or(until, "now"), since)}
	}
	c, err := g.newClient()
	if err != nil {
		return none, err
	}
	name := owner
	if name == "" {
		if name, err = whoAmI(ctx, c); err != nil {
			return none, err
		}
	}
	r, err := c.OwnerReport(ctx, name, begin.Truncate(time.Hour), end)
	if err != nil {
		return r, err
	}
	if owner != "" && r.Used.CPUSeconds == nil && r.RunningTotal+r.WaitingTotal+r.FailedTotal == 0 {
		if err := checkNames(ctx, c, now, filterValues{"owner": {owner}}); err != nil {
			return r, err
		}
	}
	if strings.HasPrefix(c.Server(), "http") { // a socket is no address for a browser
		r.Server = c.Server()
	}
	return r, nil
}

// whoAmI returns the client's name on the server. An administrator without a name is the local user.
func whoAmI(ctx context.Context, c *client.Client) (string, error) {
	me, err := c.Me(ctx)
	if err != nil {
		return "", err
	}
	if me.Name != "" {
		return me.Name, nil
	}
	if me.Role == "public" {
		return "", &usageError{fmt.Errorf("the server cannot identify you; give a token with --token-file, or a name with -u")}
	}
	u, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("the user of this machine: %w; give a name with -u", err)
	}
	return u.Username, nil
}

package main

import (
	"context"
	"fmt"
	"maps"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/web/client"
)

// filterValues holds values of filters, by type of name: owner, account, partition, node, site, or id of a workload.
type filterValues map[string][]string

// namesAge is the time over which names are searched: a name that ever occurred is not an error.
const namesAge = 400 * 24 * time.Hour

// checkNames returns an error for the first name in a filter that the server does not know, with the most similar
// known name. Call it after an answer without rows. It ignores failed requests.
func checkNames(ctx context.Context, c *client.Client, now time.Time, of filterValues) error {
	for _, what := range slices.Sorted(maps.Keys(of)) {
		if len(of[what]) == 0 {
			continue
		}
		if what == "id" {
			for _, id := range of[what] {
				if _, err := c.Workload(ctx, id, client.Range{}); err != nil {
					return err
				}
			}
			continue
		}
		met := fetchNames(ctx, c, now, what)
		for _, name := range of[what] {
			if len(met) == 0 || slices.Contains(met, name) || what == "owner" && hasAccount(name) || hasWork(ctx, c, now, what, name) {
				continue
			}
			return &usageError{fmt.Errorf("no %s %q has been met here%s", what, name, suggestWord(name, met))}
		}
	}
	return nil
}

// hasWork reports whether a workload with this name exists, because fetchNames lacks usage that is not counted yet.
func hasWork(ctx context.Context, c *client.Client, now time.Time, kind, name string) bool {
	f := client.Filter{Since: now.Add(-namesAge), Limit: 1}
	of := map[string]*[]string{"owner": &f.Owners, "account": &f.Accounts, "partition": &f.Partitions, "node": &f.Nodes,
		"site": &f.Sites}[kind]
	if of == nil {
		return false
	}
	*of = []string{name}
	list, err := c.Workloads(ctx, f)
	return err == nil && len(list.Workloads) > 0
}

// hasAccount reports whether a user has an account on this machine.
func hasAccount(name string) bool {
	_, err := user.Lookup(name)
	return err == nil
}

// fetchNames returns the owners, accounts, partitions, nodes or sites that occur on the server.
func fetchNames(ctx context.Context, c *client.Client, now time.Time, kind string) []string {
	met := map[string]bool{}
	if list, err := c.Usage(ctx, client.UsageQuery{Since: now.Add(-namesAge), Until: now, Span: "whole", By: []string{kind}}); err == nil {
		for i := range list.Rows {
			r := &list.Rows[i]
			met[map[string]string{"owner": r.Owner, "account": r.Account, "partition": r.Partition, "node": r.Node,
				"site": r.Site}[kind]] = true
		}
	}
	// The last hour, and pending work, have no usage yet.
	if list, err := c.Workloads(ctx, client.Filter{Sort: "-seen", Limit: 1000}); err == nil {
		for i := range list.Workloads {
			w := &list.Workloads[i]
			switch kind {
			case "owner":
				met[w.Owner] = true
			case "account":
				met[w.Account] = true
			case "partition":
				met[w.Partition] = true
			case "site":
				met[w.Site] = true
			case "node":
				for _, n := range w.Nodes {
					met[n] = true
				}
			}
		}
	}
	delete(met, "")
	return slices.Sorted(maps.Keys(met))
}

// completeNames completes, for each of the flags, the names that occur on the server.
func completeNames(cmd *cobra.Command, g *globals, flags ...string) {
	for _, flag := range flags {
		err := cmd.RegisterFlagCompletionFunc(flag,
			func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
				c, err := g.newClient()
				if err != nil {
					return nil, cobra.ShellCompDirectiveNoFileComp // shell completion cannot show an error
				}
				ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
				defer cancel()
				names := fetchNames(ctx, c, g.now(), flag)
				return slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, prefix) }),
					cobra.ShellCompDirectiveNoFileComp
			})
		if err != nil {
			panic(err) // the flag does not exist: a bug of the program
		}
	}
}

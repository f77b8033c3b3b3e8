package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/web/client"
	"reckon/workload"
)

// completeIDs completes the ids of workloads in the shell, the latest first.
func completeIDs(ctx context.Context, g *globals, prefix string) ([]string, cobra.ShellCompDirective) {
	const flags = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	c, err := g.newClient()
	if err != nil {
		return nil, flags
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	list, err := c.Workloads(ctx, client.Filter{Sort: "-seen", Limit: 500})
	if err != nil {
		return nil, flags // shell completion cannot show an error
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

// firstArg completes the only argument of a command.
func firstArg(g *globals, words func(context.Context, *globals, string) ([]string, cobra.ShellCompDirective)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words(cmd.Context(), g, prefix)
	}
}

// kindWords returns the kinds of workload as strings.
func kindWords() []string {
	return workload.KindNames(workload.Kinds())
}

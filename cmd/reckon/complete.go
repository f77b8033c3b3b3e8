package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"reckon/client"
	"reckon/workload"
)

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

// completeOwners offers the owners of recent workloads for --owner.
func completeOwners(cmd *cobra.Command, g *globals) {
	err := cmd.RegisterFlagCompletionFunc("owner", func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		c, err := g.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
		defer cancel()
		list, err := c.Workloads(ctx, client.Filter{Sort: "-seen", Limit: 1000})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp // a shell has no place for an error
		}
		var owners []string
		for _, w := range list.Workloads {
			if strings.HasPrefix(w.Owner, prefix) {
				owners = append(owners, w.Owner)
			}
		}
		slices.Sort(owners)
		return slices.Compact(owners), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the flag does not exist: a mistake of the program
	}
}

// kindWords are the kinds of workload as words.
func kindWords() []string {
	var words []string
	for _, k := range workload.Kinds() {
		words = append(words, string(k))
	}
	return words
}

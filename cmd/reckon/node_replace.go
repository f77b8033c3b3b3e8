package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"reckon/web/client"
)

func newNode(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Manage the names of nodes",
		Long: `A node is one machine. Another machine that sends by its name, such as a clone of its
image, is rejected and buffers its measurements; "reckon nodes" shows it. A name
becomes free when its machine has been silent for ten minutes. "reckon nodes NAME"
shows one node.`,
		Example: `  reckon node replace gpu17`,
		Args:    cobra.NoArgs,
	}
	site := ""
	replace := &cobra.Command{
		Use:               "replace NODE",
		Short:             "Let another machine take the place of a node now",
		Long:              `replace gives the name of a node to the machine that was refused, or to whoever sends next.`,
		Example:           `  reckon node replace gpu17`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: firstArg(g, completeNodes),
		RunE: g.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			r, err := c.ReplaceNode(ctx, site, args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(g.stdout, "another machine may send as node %s\n", r.Node)
			return err
		}),
	}
	replace.Flags().StringVar(&site, "site", "", "site of the node")
	cmd.AddCommand(replace)
	return cmd
}

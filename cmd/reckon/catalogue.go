package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"reckon/server"
)

func newCatalogue(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "catalogue",
		Short: "Maintain the catalogue of workloads",
		Long: `The catalogue is the list behind "reckon jobs". It is a view of the series: it can be
dropped and built again from them, and nothing is lost by it.`,
		Example: `  reckon catalogue rebuild`,
		Args:    cobra.NoArgs,
	}
	var at server.Places
	rebuild := &cobra.Command{
		Use:   "rebuild",
		Short: "Build the catalogue again from the series",
		Long: `rebuild empties the catalogue and rebuilds it from the series. What is older than the
series, the roll-ups of years, stays as it is. The server must be stopped first.`,
		Example: `  reckon catalogue rebuild
  reckon catalogue rebuild --data /var/lib/reckon`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at.Data, at.Store, at.Catalogue = g.serverOptions.Data, g.stores.store, g.stores.catalogue
			return runRebuild(cmd.Context(), g, at)
		},
	}
	rebuild.Flags().AddFlag(g.serving.Flags.Lookup("data"))
	rebuild.Flags().AddFlagSet(g.stores.flags)
	cmd.AddCommand(rebuild)
	return cmd
}

func runRebuild(ctx context.Context, g *globals, from server.Places) error {
	log := slog.New(slog.NewTextHandler(g.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	began := time.Now()
	n, err := server.Rebuild(ctx, from, log, func(at time.Time, rows int) {
		fmt.Fprintf(g.stderr, "built up to %s: %d rows\n", at.UTC().Format(time.RFC3339), rows)
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(g.stdout, "wrote %d rows in %.1f s\n", n, time.Since(began).Seconds())
	return err
}

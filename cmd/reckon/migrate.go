package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"reckon/server"
	"reckon/server/migrate"
)

func newMigrate(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Copy the contents of a data directory to another store",
		Long: `migrate copies the series of a data directory to the store that --store names, and
the catalogue to the database that --catalogue names. Every sample is looked up there
before and afterwards: existing samples are not sent again, and sent ones must be there.
After an interruption, Ctrl-C included, it resumes where it stopped.

The server of the directory must be stopped. To lose no time, restore a backup
elsewhere, restart the server with --store, and migrate the copy while it runs.`,
		Example: `  reckon migrate --data /var/lib/reckon --store victoriametrics+http://vm:8428
  reckon migrate --catalogue 'postgres://reckon@db/reckon?password_file=pw'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runMigrate(cmd.Context(), g, g.serverOptions.Data, &g.stores)
		},
	}
	cmd.Flags().AddFlag(g.serving.Flags.Lookup("data"))
	cmd.Flags().AddFlagSet(g.stores.flags)
	return cmd
}

func runMigrate(ctx context.Context, g *globals, data string, to *storeFlags) error {
	if to.isEmpty() {
		return &usageError{errors.New("no destination: give --store for the series, --catalogue for the catalogue, or both")}
	}
	if err := to.check(); err != nil {
		return err
	}
	began, reported := time.Now(), time.Now()
	log := slog.New(slog.NewTextHandler(g.stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	m, err := server.Migrate(ctx, data, to.store, to.catalogue, log, func(r migrate.Result, end time.Time) {
		if time.Since(reported) > 5*time.Second {
			reported = time.Now()
			fmt.Fprintf(g.stderr, "copied up to %s of %s: %d samples\n", r.To.UTC().Format("2006-01-02 15:04"),
				end.UTC().Format("2006-01-02 15:04"), r.Samples)
		}
	})
	if r := m.Series; r != nil {
		fmt.Fprintf(g.stdout, "series: %d samples up to %s are in %s, each looked up there; %d of them sent\n", r.Samples,
			r.To.UTC().Format("2006-01-02 15:04:05Z"), server.HideParameters(to.store), r.Sent)
		if r.LeftOut > 0 {
			fmt.Fprintf(g.stdout, "left out: %d markers of the end of a series and other samples that it has no form for\n", r.LeftOut)
		}
	}
	switch {
	case err != nil && m.Series != nil:
		return fmt.Errorf("%w; run it again to go on from there", err)
	case err != nil:
		return err
	}
	if to.catalogue != "" {
		fmt.Fprintf(g.stdout, "catalogue: %d workloads, %d rows of roll-ups and %d findings are in %s\n", m.Workloads, m.Hours, m.Findings,
			server.HideParameters(to.catalogue))
	}
	_, err = fmt.Fprintf(g.stdout, "took %.1f s\n", time.Since(began).Seconds())
	return err
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"reckon/internal/term"
	"reckon/server"
	"reckon/web/client"
)

type verifyOptions struct {
	since, until string
	last, look   bool
	at           server.Places
	offline      bool
	format       *choice
}

func newVerify(g *globals) *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Verify usage against the counters",
		Long: `verify compares usage with the counters it was computed from, node by node and hour by
hour, and lists the differences. It covers the complete hours for which all samples
are present, and lists them. Hours that differ are recomputed. The server does the
same every night at 03:00; --last shows what it found.

With --data it reads the directory of a server that is stopped.`,
		Example: `  reckon verify
  reckon verify --since 7d
  reckon verify --last
  reckon verify --data /var/lib/reckon`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.offline = cmd.Flags().Changed("data") || !g.stores.isEmpty()
			return runVerify(cmd.Context(), g, o)
		},
	}
	f := cmd.Flags()
	g.shared.addFlag(cmd, "since", &o.since)
	g.shared.addFlag(cmd, "until", &o.until)
	f.BoolVar(&o.last, "last", false, "show the server's last verification")
	f.BoolVar(&o.look, "dry-run", false, "make no hour again")
	f.AddFlag(g.serving.Flags.Lookup("data"))
	f.AddFlagSet(g.stores.flags)
	o.format = g.shared.addFormatFlag(cmd, "table", "json")
	return cmd
}

// errUsageDiffers ends the program with an error if usage differs and was not corrected.
var errUsageDiffers = errors.New("usage differs from the counters that it was made of")

func runVerify(ctx context.Context, g *globals, o verifyOptions) error {
	p, err := o.fetchProof(ctx, g)
	if err != nil {
		return err
	}
	if o.format.value == "json" {
		err = writeJSON(g.stdout, p)
	} else {
		err = printProof(g, p)
	}
	if err == nil && p.Differing > 0 && !p.Mended {
		return errUsageDiffers
	}
	return err
}

func (o *verifyOptions) fetchProof(ctx context.Context, g *globals) (p client.Proof, err error) {
	q := client.ProofQuery{Mend: !o.look}
	if q.Since, err = parseTime("since", o.since, g.now()); err != nil {
		return p, err
	}
	if q.Until, err = parseTime("until", o.until, g.now()); err != nil {
		return p, err
	}
	if o.offline {
		o.at.Data, o.at.Store, o.at.Catalogue = g.serverOptions.Data, g.stores.store, g.stores.catalogue
		return server.Verify(ctx, o.at, q, slog.New(slog.NewTextHandler(g.stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	}
	c, err := g.newClient()
	if err != nil {
		return p, err
	}
	if o.last {
		return c.Proof(ctx)
	}
	return c.Prove(ctx, q)
}

func printProof(g *globals, proof client.Proof) error {
	fmt.Fprintln(g.stdout, proof.Summary(g.now()))
	if proof.From == nil {
		return nil
	}
	const minute = "2006-01-02 15:04"
	fmt.Fprintf(g.stdout, "compared: %d hours from %s to %s UTC, %d hours of single nodes\n", proof.Hours, proof.From.UTC().Format(minute),
		proof.To.UTC().Format(minute), proof.NodeHours)
	if len(proof.LeftOut) > 0 {
		fmt.Fprintf(g.stdout, "left out: %d hours with samples lost to corruption, the first is %s\n", len(proof.LeftOut),
			proof.LeftOut[0].UTC().Format(minute))
	}
	if len(proof.Differences) == 0 {
		return nil
	}
	t := term.TableOf("HOUR (UTC)|NODE:s8|FIGURE|USAGE:r|COUNTERS:r")
	for _, d := range proof.Differences {
		node := cmp.Or(d.Node, "all owners")
		t.Add(d.Hour.UTC().Format(minute), node, d.Figure, formatProofFigure(d.Usage), formatProofFigure(d.Raw))
	}
	if err := t.Print(g.screen()); err != nil {
		return err
	}
	if more := proof.Differing - len(proof.Differences); more > 0 {
		fmt.Fprintf(g.stdout, "and %d more\n", more)
	}
	return nil
}

func formatProofFigure(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.6g", *v)
}

package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"reckon/internal/term"
	"reckon/web/client"
)

// output is an answer of the server with the output formats of commands.
type output struct {
	json    any
	csv     func(io.Writer) error
	rows    int // of the table
	missing []string
	// empty is printed instead of a table without rows, unless missing parts explain it. If it is
	// empty, print is called even without rows.
	empty string
	print func(term.Screen) error
}

// csvOf writes rows as CSV, with all columns or the chosen ones.
func csvOf[R any](rows []R, columns ...string) func(io.Writer) error {
	return func(w io.Writer) error { return client.WriteCSV(w, rows, columns...) }
}

// printAnswer queries the server and writes the answer by format: table, json or csv.
func printAnswer(ctx context.Context, g *globals, format string, ask func(context.Context, *client.Client) (output, error)) error {
	c, err := g.newClient()
	if err != nil {
		return err
	}
	a, err := ask(ctx, c)
	if err != nil {
		return err
	}
	g.reportMissing(a.missing)
	switch {
	case format == "json":
		return writeJSON(g.stdout, a.json)
	case format == "csv":
		return a.csv(g.stdout)
	case a.rows == 0 && len(a.missing) > 0:
		return nil
	case a.rows == 0 && a.empty != "":
		fmt.Fprintln(g.stderr, a.empty)
		return nil
	}
	return a.print(g.screen())
}

// withClient returns the action of a command: it connects to the server and calls f.
func (g *globals) withClient(f func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := g.newClient()
		if err != nil {
			return err
		}
		return f(cmd.Context(), c, args)
	}
}

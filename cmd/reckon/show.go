package main

import (
	"context"
	"fmt"
	"io"

	"reckon/client"
	"reckon/internal/term"
)

// shown is an answer of the server in the forms that commands write.
type shown struct {
	json    any
	csv     func(io.Writer) error
	rows    int // of the table
	missing []string
	// empty stands in the place of a table without rows, unless what is missing explains it;
	// where there is none print is called for no rows too.
	empty string
	print func(term.Screen) error
}

// csvOf writes rows as CSV, all columns or those that were chosen.
func csvOf[R any](rows []R, columns ...string) func(io.Writer) error {
	return func(w io.Writer) error { return client.WriteCSV(w, rows, columns...) }
}

// show asks the server and writes the answer by format: table, json or csv.
func show(ctx context.Context, g *globals, format string, ask func(context.Context, *client.Client) (shown, error)) error {
	c, err := g.client()
	if err != nil {
		return err
	}
	a, err := ask(ctx, c)
	if err != nil {
		return err
	}
	g.partial(a.missing)
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

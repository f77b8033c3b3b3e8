// Package foresight compares forecasts, right-sized requests, placement and anomaly detection with their rivals on public data. The data
// is not in the repository, because not all of it may be redistributed. If it is missing, the program reports that.
package foresight

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"

	"reckon/test/bench/measure"
)

// Run measures each set that there are data for.
func Run(_ context.Context, e *measure.Env, args []string) error {
	f := flag.NewFlagSet("foresight", flag.ContinueOnError)
	dir := f.String("data", "../shared/data/foresight", "folder of the data")
	every := f.Int("every", 1, "take every n-th series")
	only := f.String("only", "", "sets to run, separated by commas: m4, bitbrains, cells, rightsize, placing, nab")
	if err := f.Parse(args); err != nil {
		return err
	}
	if _, err := os.Stat(*dir); err != nil {
		e.Printf("\nSkipped: no data in %s.\n", *dir)
		return nil
	}
	for _, set := range []struct {
		name string
		run  func() error
	}{
		{"m4", func() error { return benchM4(e, *dir, *every) }},
		{"bitbrains", func() error { return benchBitbrains(e, *dir, *every) }},
		{"cells", func() error { return benchCells(e, *dir) }},
		{"rightsize", func() error { return benchRightsizing(e, *dir) }},
		{"placing", func() error { return benchPlacing(e, *dir) }},
		{"nab", func() error { return benchNAB(e, *dir) }},
	} {
		if *only != "" && !strings.Contains(","+*only+",", ","+set.name+",") {
			continue
		}
		e.Printf("\n")
		if err := set.run(); err != nil {
			return fmt.Errorf("%s: %w", set.name, err)
		}
	}
	return nil
}

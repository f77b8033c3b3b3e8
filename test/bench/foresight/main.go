// Command foresight measures forecasts beside their rivals on public data, which stays where it is: not all of it
// may be redistributed. Without it the command says so and ends.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	dir := flag.String("data", "../shared/data/foresight", "folder of the data")
	every := flag.Int("every", 1, "take every n-th series")
	only := flag.String("only", "", "sets to run, separated by commas: m4, bitbrains, cells, rightsize, placing, nab")
	flag.Parse()
	if _, err := os.Stat(*dir); err != nil {
		fmt.Println("foresight: no data in", *dir, "- skipped")
		return
	}
	for _, set := range []struct {
		name string
		run  func() error
	}{
		{"m4", func() error { return m4(*dir, *every) }},
		{"bitbrains", func() error { return bitbrains(*dir, *every) }},
		{"cells", func() error { return cells(*dir) }},
		{"rightsize", func() error { return rightsizing(*dir) }},
		{"placing", func() error { return placing(*dir) }},
		{"nab", func() error { return nab(*dir) }},
	} {
		if *only != "" && !strings.Contains(","+*only+",", ","+set.name+",") {
			continue
		}
		if err := set.run(); err != nil {
			fmt.Fprintln(os.Stderr, "foresight:", set.name+":", err)
			os.Exit(1)
		}
	}
}

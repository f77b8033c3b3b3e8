package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// report is everything that one run measured.
type report struct {
	Date    time.Time
	Machine string
	Command string
	Missing []string
	Tables  []table
}

type table struct {
	Title     string
	Processes int // on the machine, kernel threads included
	Rows      []row
}

var columns = []string{"program", "CPU at rest", "CPU per scrape", "CPU, scraped every 15 s", "resident", "page", "series"}

// cells is the row as text. At rest is CPU time for one second of time: with readings
// once a second it is the cost of one pass.
func (r row) cells() []string {
	if r.Note != "" {
		return []string{r.Name, "not measured: " + r.Note, "", "", "", "", ""}
	}
	core := (r.Rest.Seconds() + r.Scrape.Seconds()/15) * 100
	return []string{
		r.Name, ms(r.Rest) + "/s", ms(r.Scrape), fmt.Sprintf("%.2f %% of a core", core),
		fmt.Sprintf("%.1f MB", float64(r.RSS)/1e6), fmt.Sprintf("%.0f kB", float64(r.Page)/1e3), fmt.Sprint(r.Series),
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d)/1e6) }

func (t *table) heading() string {
	return fmt.Sprintf("%s (%d in all, kernel threads included)", t.Title, t.Processes)
}

func (t *table) print(w io.Writer) error {
	fmt.Fprintf(w, "\n%s\n", t.heading())
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join(columns, "\t"))
	for _, r := range t.Rows {
		fmt.Fprintln(tw, strings.Join(r.cells(), "\t"))
	}
	return tw.Flush()
}

func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured %s on %s, by `%s`.\n\n", r.Date.UTC().Format("2006-01-02"), r.Machine, r.Command)
	b.WriteString("CPU at rest is CPU time for each second without a scrape; reckon reads the machine once a second, the\n" +
		"exporters only when they are asked. Each program ran alone, after three scrapes to warm up.\n")
	for _, m := range r.Missing {
		fmt.Fprintf(&b, "\nNot measured: %s.\n", m)
	}
	for _, t := range r.Tables {
		fmt.Fprintf(&b, "\n### %s\n\n| %s |\n|%s\n", t.heading(), strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
		for _, row := range t.Rows {
			fmt.Fprintf(&b, "| %s |\n", strings.ReplaceAll(strings.Join(row.cells(), " | "), "\n", " "))
		}
	}
	return b.String()
}

// replaceSection puts text between <!-- name begin --> and <!-- name end --> of a
// file, which is made, or given the section at its end, if need be. Other benchmarks
// keep theirs.
func replaceSection(path, name, text string) error {
	begin, end := "<!-- "+name+" begin -->", "<!-- "+name+" end -->"
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	old := string(data)
	if old == "" {
		old = "# Benchmarks\n"
	}
	before, rest, ok := strings.Cut(old, begin)
	_, after, closed := strings.Cut(rest, end)
	switch {
	case ok && !closed:
		return fmt.Errorf("%s: %s without %s", path, begin, end)
	case !ok:
		before, after = strings.TrimRight(old, "\n")+"\n\n", "\n"
	}
	return os.WriteFile(path, []byte(before+begin+"\n"+text+end+after), 0o644)
}

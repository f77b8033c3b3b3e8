// Command catalogue measures lists and usage over a catalogue of a million jobs.
//
//	go run ./test/bench/catalogue [-jobs 1000000] [-pages 200] [-all] [-dir FOLDER] [-markdown FILE]
//
// The jobs are made up, with a fixed seed: 400 owners of very different weight, each with a
// few accounts, partitions and programs, and figures that nobody measured left out. Each
// filter is asked for alone, in pairs and in threes, with sorts in turn (every sort with
// -all), a page of 100 and the total each time, and the slowest are printed. Writing and a
// year of usage by owner and month are measured too. Times are CPU time, which other work on
// the machine does not lengthen. Budgets: 100 ms a list, 300 ms a year, on two cores.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"reckon/catalogue/database"
	"reckon/store"
)

const (
	listBudget = 100 * time.Millisecond
	yearBudget = 300 * time.Millisecond
)

type config struct {
	jobs, cores, worst, pages int
	all                       bool
	dir, markdown             string
}

func main() {
	var c config
	flag.IntVar(&c.jobs, "jobs", 1_000_000, "jobs in the catalogue")
	flag.IntVar(&c.cores, "cores", 2, "processors to use")
	flag.IntVar(&c.worst, "worst", 10, "how many of the slowest lists to print")
	flag.IntVar(&c.pages, "pages", 200, "how many jobs to ask for the pages of; 0 for none")
	flag.BoolVar(&c.all, "all", false, "every sort with every filter: many minutes")
	flag.StringVar(&c.dir, "dir", "", "folder for the catalogue, kept and used again; empty: a temporary one")
	flag.StringVar(&c.markdown, "markdown", "", "also write what is printed to this file")
	flag.Parse()
	if flag.NArg() > 0 || c.jobs < 1000 || c.jobs > 20_000_000 || c.cores < 1 || c.worst < 1 || c.pages < 0 {
		fmt.Fprintln(os.Stderr, "catalogue: give -jobs 1000 to 20000000, -cores 1 or more, -worst 1 or more, -pages 0 or more, and no other words")
		os.Exit(2)
	}
	if err := run(context.Background(), c); err != nil {
		fmt.Fprintln(os.Stderr, "catalogue: "+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, c config) (err error) {
	if c.dir == "" {
		if c.dir, err = os.MkdirTemp("", "reckon-bench-catalogue-"); err != nil {
			return err
		}
		defer os.RemoveAll(c.dir)
	}
	runtime.GOMAXPROCS(c.cores)
	var text bytes.Buffer
	out := io.MultiWriter(os.Stdout, &text)
	path := filepath.Join(c.dir, "catalogue.db")
	fmt.Fprintf(out, "| what | measured, CPU time |\n|---|---|\n")
	if c.pages > 0 {
		if err := simulated(ctx, c.dir, out); err != nil {
			return err
		}
	}
	facts, err := database.Open(path, nil)
	if err != nil {
		return err
	}
	s := newSite(c.jobs)
	if err := errors.Join(s.fill(ctx, path, facts, out), facts.Close()); err != nil {
		return err
	}
	if facts, err = database.Open(path, nil); err != nil { // as a server that starts
		return err
	}
	err = errors.Join(questions(ctx, c, s, facts, out), facts.Close())
	if err == nil && c.pages > 0 {
		err = pages(ctx, c, out)
	}
	if err != nil {
		return err
	}
	if c.markdown == "" {
		return nil
	}
	return os.WriteFile(c.markdown, text.Bytes(), 0o644)
}

// questions measures what is asked of the catalogue alone.
func questions(ctx context.Context, c config, s *site, facts *database.Catalogue, out io.Writer) error {
	for _, step := range []func() error{
		func() error { return memory(ctx, facts, out) },
		func() error { return s.again(ctx, facts, out) },
		func() error { return year(ctx, facts, out) },
		func() error { return lists(ctx, c, s, facts, out) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// memory measures what it takes, at the start of a server, until lists are answered.
func memory(ctx context.Context, facts *database.Catalogue, out io.Writer) error {
	var before, after runtime.MemStats
	for range 3 { // what was closed before, and was pooled, goes
		runtime.GC()
	}
	runtime.ReadMemStats(&before)
	begin, clock := now(), time.Now()
	if _, _, err := facts.Workloads(ctx, store.Filter{Limit: 1}); err != nil {
		return err
	}
	took, waited := now()-begin, time.Since(clock)
	rows, bytes := facts.Held()
	if rows == 0 {
		fmt.Fprintf(out, "| lists | from the file: there are few jobs |\n")
		return nil
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	heap := int(after.HeapAlloc) - int(before.HeapAlloc)
	fmt.Fprintf(out, "| columns of %d jobs read, at the start | %.1f s CPU, %.1f s by the clock |\n| memory of the columns | %d MB, %d bytes a job (%d MB as the columns count it) |\n",
		rows, took.Seconds(), waited.Seconds(), heap>>20, heap/rows, bytes>>20)
	return nil
}

// question is one filter, or several together.
type question struct {
	name string
	set  []func(*store.Filter)
	dims []string
}

type measured struct {
	name         string
	took, waited time.Duration
	total        int
}

// lists asks for every filter alone, in pairs and in threes.
func lists(ctx context.Context, c config, s *site, facts *database.Catalogue, out io.Writer) error {
	single := s.questions()
	all := append([]question{{name: "all"}}, single...)
	for i, a := range single {
		for j, b := range single[i+1:] {
			two, ok := a.and(b)
			if !ok {
				continue
			}
			all = append(all, two)
			for _, d := range single[i+1+j+1:] {
				if three, ok := two.and(d); ok {
					all = append(all, three)
				}
			}
		}
	}
	sorts := database.SortFields()
	turn := 0
	var took []measured
	for _, q := range all {
		n := map[bool]int{true: len(sorts), false: 3}[c.all || len(q.set) < 2]
		for range n {
			f := store.Filter{Limit: 100, Sort: "-" + sorts[turn%len(sorts)]}
			turn++
			for _, set := range q.set {
				set(&f)
			}
			begin, clock := now(), time.Now()
			_, total, err := facts.Workloads(ctx, f)
			if err != nil {
				return fmt.Errorf("%s by %s: %w", q.name, f.Sort, err)
			}
			took = append(took, measured{q.name + " by " + f.Sort, now() - begin, time.Since(clock), total})
		}
	}
	for _, f := range []store.Filter{{Sort: "-cpu_seconds"}, {Sort: "name"}, {Sort: "id", Kinds: []string{"slurm"}}} {
		f.Limit, f.Offset = 100, c.jobs/2
		begin, clock := now(), time.Now()
		_, total, err := facts.Workloads(ctx, f)
		if err != nil {
			return err
		}
		took = append(took, measured{fmt.Sprintf("the page behind %d rows of %v by %s", f.Offset, f.Kinds, f.Sort), now() - begin, time.Since(clock), total})
	}
	slices.SortFunc(took, func(a, b measured) int { return int(b.took - a.took) })
	over := slices.IndexFunc(took, func(m measured) bool { return m.took <= listBudget })
	if over < 0 {
		over = len(took)
	}
	clock := make([]time.Duration, len(took))
	late := 0
	for i, m := range took {
		if clock[i] = m.waited; m.waited > listBudget {
			late++
		}
	}
	slices.SortFunc(clock, func(a, b time.Duration) int { return int(b - a) })
	n := len(took)
	fmt.Fprintf(out, "| %d lists of 1 to 3 filters: median, 95th and 99th percentile, slowest | %.1f, %.1f, %.1f, %.1f ms |\n| of them over %d ms | %d |\n"+
		"| the same by the clock, on a machine with %s of load | %.1f, %.1f, %.1f, %.1f ms |\n| of them over %d ms | %d |\n\n| the slowest | rows | CPU time |\n|---|---|---|\n",
		n, ms(took[n/2].took), ms(took[n/20].took), ms(took[n/100].took), ms(took[0].took), listBudget.Milliseconds(), over,
		load(), ms(clock[n/2]), ms(clock[n/20]), ms(clock[n/100]), ms(clock[0]), listBudget.Milliseconds(), late)
	for _, m := range took[:min(c.worst, n)] {
		fmt.Fprintf(out, "| %s | %d | %.1f ms |\n", m.name, m.total, ms(m.took))
	}
	return nil
}

// load is the load of the machine over the last minute, this program included.
func load() string {
	raw, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(raw), " ")
	return first
}

// now is the CPU time that this process has used: each question is one after the other, so
// it is what it takes on a machine that does nothing else, whatever else this one does.
func now() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// and joins two questions, if they are about different things.
func (q question) and(o question) (question, bool) {
	for _, d := range o.dims {
		if slices.Contains(q.dims, d) {
			return q, false
		}
	}
	return question{q.name + ", " + o.name, slices.Concat(q.set, o.set), slices.Concat(q.dims, o.dims)}, true
}

// year measures a year of usage by owner and month.
func year(ctx context.Context, facts *database.Catalogue, out io.Writer) error {
	begin := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	for d := range 365 {
		at := begin.AddDate(0, 0, d)
		var rows []store.Use
		for h := range 24 {
			for i := range 120 {
				g := (h*37 + d*11 + i*10) % 1200
				v := float64(g)
				rows = append(rows, store.Use{At: at.Add(time.Duration(h) * time.Hour), Site: "s", Kind: "slurm", Owner: fmt.Sprintf("user%03d", g%200),
					Account: fmt.Sprint("a", g%2), Command: fmt.Sprint("prog", g%3), Used: store.Used{CPUSeconds: &v, MemoryByteSeconds: &v, Started: &v}})
			}
		}
		if err := facts.ReplaceHours(ctx, at, at.AddDate(0, 0, 1), rows, nil); err != nil {
			return err
		}
	}
	var worst time.Duration
	for range 5 {
		t := now()
		rows, err := facts.Use(ctx, store.RollupQuery{From: begin.Add(5 * time.Hour), To: begin.AddDate(1, 0, 0), Span: store.SpanMonth, By: []string{"owner"}})
		if err != nil {
			return err
		}
		if len(rows) != 12*200 {
			return fmt.Errorf("a year of usage has %d rows, want %d", len(rows), 12*200)
		}
		worst = max(worst, now()-t)
	}
	fmt.Fprintf(out, "| a year of usage by owner and month (200 owners, 1,200 groups), slowest of 5; budget %d ms | %.0f ms |\n", yearBudget.Milliseconds(), ms(worst))
	return nil
}

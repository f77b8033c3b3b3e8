// Package stores measures the catalogue, the search for misuse, and the knowledge graph.
package stores

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"reckon/catalogue/database"
	"reckon/lab/simulate"
	"reckon/lab/simulation"
	"reckon/store"
	"reckon/test/bench/measure"
)

const (
	listBudget = 100 * time.Millisecond
	yearBudget = 300 * time.Millisecond
	siteJobs   = 4000 // jobs that have series: their pages are asked for
)

// benchCatalogue is the catalogue that is measured.
type benchCatalogue struct {
	e                  *measure.Env
	jobs, worst, pages int
	all                bool
	dir                string
	facts              *database.Catalogue
	row                func(string, ...any)
}

// Catalogue measures lists and usage over a catalogue with a million simulated jobs from a fixed seed. It runs each
// filter alone, in pairs and in threes, with various sort orders, a page of 100 rows and the total. It prints the
// slowest ones. It also measures writes, a year of usage by owner and month, and pages of jobs with series. Times are
// CPU time. On two cores, a list should take no more than 100 ms and a year no more than 300 ms.
func Catalogue(ctx context.Context, e *measure.Env, args []string) error {
	l := &benchCatalogue{e: e}
	f := flag.NewFlagSet("catalogue", flag.ContinueOnError)
	f.IntVar(&l.jobs, "jobs", 1_000_000, "jobs in the catalogue")
	cores := f.Int("cores", 2, "processors to use")
	f.IntVar(&l.worst, "worst", 10, "how many of the slowest lists to print")
	f.IntVar(&l.pages, "pages", 200, "how many jobs to ask for the pages of; 0 for none")
	f.BoolVar(&l.all, "all", false, "every sort with every filter: many minutes")
	f.StringVar(&l.dir, "dir", "", "folder for the catalogue, kept and used again; empty: a temporary one")
	if err := f.Parse(args); err != nil {
		return err
	}
	if l.jobs < 1000 || l.jobs > 20_000_000 || *cores < 1 || l.worst < 1 || l.pages < 0 {
		return errors.New("give -jobs 1000 to 20000000, -cores 1 or more, -worst 1 or more and -pages 0 or more")
	}
	if l.dir == "" {
		l.dir = e.Dir
	}
	runtime.GOMAXPROCS(*cores)
	l.row = e.Table("", "what", "measured, CPU time")
	if _, err := os.Stat(filepath.Join(l.dir, "series")); l.pages > 0 && err != nil {
		if err := l.simulateDay(ctx); err != nil {
			return err
		}
	}
	path := filepath.Join(l.dir, "catalogue.db")
	made := newJobMaker(l.jobs)
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return l.writeJobs(ctx, path, made) },
		l.measureMemory, l.rewriteRunning, l.measureYear,
		func(ctx context.Context) error { return l.measureLists(ctx, made) },
	} {
		facts, err := database.Open(path, nil) // as a server that starts
		if err != nil {
			return err
		}
		l.facts = facts
		if err := errors.Join(step(ctx), facts.Close()); err != nil {
			return err
		}
	}
	if l.pages == 0 {
		return nil
	}
	return l.measurePages(ctx)
}

// simulateDay writes a day of a site with its series. The other jobs exist only as rows.
func (l *benchCatalogue) simulateDay(ctx context.Context) error {
	s, err := simulate.New(simulate.Config{
		Nodes: 40, Jobs: min(siteJobs, l.jobs/5), GPUNodes: 5, Seed: 1, From: time.Now().Add(-26 * time.Hour).Truncate(time.Hour),
		For: 24 * time.Hour,
	})
	if err != nil {
		return err
	}
	done, err := simulation.WriteHistory(ctx, simulation.New(simulation.Config{Site: s, Version: "bench"}), l.dir, "made-up",
		slog.New(slog.DiscardHandler),
		simulation.Stretch{Until: s.End(), Tick: time.Minute, Export: time.Minute})
	if err != nil {
		return err
	}
	l.row("a day of %d nodes with its series | %d samples of %d workloads", s.Nodes, done.Samples, done.Workloads)
	return nil
}

// measureMemory measures the memory of a starting server until it can answer lists.
func (l *benchCatalogue) measureMemory(ctx context.Context) error {
	var before, after runtime.MemStats
	for range 3 { // collect closed stores and pooled memory
		runtime.GC()
	}
	runtime.ReadMemStats(&before)
	cpu, clock, err := measure.CPUTime(func() error {
		_, _, err := l.facts.Workloads(ctx, store.Filter{Limit: 1})
		return err
	})
	if err != nil {
		return err
	}
	rows, bytes := l.facts.Held()
	if rows == 0 {
		l.row("lists | from the file: there are few jobs")
		return nil
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	heap := int(after.HeapAlloc) - int(before.HeapAlloc)
	l.row("columns of %d jobs read, at the start | %.1f s, %.1f s by the clock", rows, cpu.Seconds(), clock.Seconds())
	l.row("memory of the columns | %d MB, %d bytes a job (%d MB as the columns count it)", heap>>20, heap/rows, bytes>>20)
	return nil
}

// rewriteRunning writes jobs that run once more, as every round does.
func (l *benchCatalogue) rewriteRunning(ctx context.Context) error {
	running := true
	rows, _, err := l.facts.Workloads(ctx, store.Filter{Running: &running})
	if err != nil {
		return err
	}
	const rounds = 10
	cpu, _, err := measure.CPUTime(func() error {
		for round := range rounds {
			for i := range rows {
				w := &rows[i]
				w.Seen = w.Seen.Add(15 * time.Second)
				for _, p := range []**float64{&w.CPUSeconds, &w.CPUUserSeconds, &w.CPUSystemSeconds, &w.MemoryByteSeconds, &w.ReadBytes,
					&w.WriteBytes} {
					if *p != nil {
						*p = new(**p + float64(round))
					}
				}
			}
			if err := l.facts.Upsert(ctx, rows); err != nil {
				return err
			}
		}
		return nil
	})
	l.row("rows of %d running jobs written again | %.0f rows/s", len(rows), rounds*float64(len(rows))/cpu.Seconds())
	return err
}

// measureYear measures a year of usage by owner and month.
func (l *benchCatalogue) measureYear(ctx context.Context) error {
	begin := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	for d := range 365 {
		at := begin.AddDate(0, 0, d)
		var rows []store.Use
		for h := range 24 {
			for i := range 120 {
				g := (h*37 + d*11 + i*10) % 1200
				v := float64(g)
				rows = append(rows, store.Use{At: at.Add(time.Duration(h) * time.Hour), Site: "s", Kind: "slurm",
					Owner:   fmt.Sprintf("user%03d", g%200),
					Account: fmt.Sprint("a", g%2), Command: fmt.Sprint("prog", g%3), Used: store.Used{CPUSeconds: &v,
						MemoryByteSeconds: &v, Started: &v}})
			}
		}
		if err := l.facts.ReplaceHours(ctx, at, at.AddDate(0, 0, 1), rows, nil); err != nil {
			return err
		}
	}
	var worst time.Duration
	for range 5 {
		cpu, _, err := measure.CPUTime(func() error {
			rows, err := l.facts.Use(ctx, store.RollupQuery{From: begin.Add(5 * time.Hour), To: begin.AddDate(1, 0, 0),
				Span: store.SpanMonth, By: []string{"owner"}})
			if err == nil && len(rows) < 12*200 {
				err = fmt.Errorf("a year of usage has %d rows, want %d", len(rows), 12*200)
			}
			return err
		})
		if err != nil {
			return err
		}
		worst = max(worst, cpu)
	}
	l.row("a year of usage by owner and month (200 owners, 1,200 groups), slowest of 5; budget %d ms | %.0f ms",
		yearBudget.Milliseconds(), measure.MS(worst))
	return nil
}

// filter is one filter, or several together.
type filter struct {
	name string
	set  []func(*store.Filter)
	dims []string
}

// combine joins two filters, if they are about different things.
func (q filter) combine(o filter) (filter, bool) {
	for _, d := range o.dims {
		if slices.Contains(q.dims, d) {
			return q, false
		}
	}
	return filter{q.name + ", " + o.name, slices.Concat(q.set, o.set), slices.Concat(q.dims, o.dims)}, true
}

type timedQuery struct {
	name       string
	cpu, clock time.Duration
	total      int
}

// measureLists queries every filter alone, in pairs and in threes.
func (l *benchCatalogue) measureLists(ctx context.Context, m *jobMaker) error {
	single := m.filters()
	all := append([]filter{{name: "all"}}, single...)
	for i, a := range single {
		for j, b := range single[i+1:] {
			two, ok := a.combine(b)
			if !ok {
				continue
			}
			all = append(all, two)
			for _, d := range single[i+1+j+1:] {
				if three, ok := two.combine(d); ok {
					all = append(all, three)
				}
			}
		}
	}
	var took []timedQuery
	ask := func(name string, f store.Filter) error {
		total := 0
		cpu, clock, err := measure.CPUTime(func() (err error) { _, total, err = l.facts.Workloads(ctx, f); return err })
		took = append(took, timedQuery{name, cpu, clock, total})
		return err
	}
	if _, _, err := l.facts.Workloads(ctx, store.Filter{Limit: 1}); err != nil { // the columns are read
		return err
	}
	sorts, turn := database.SortFields(), 0
	for _, q := range all {
		n := 3
		if l.all || len(q.set) < 2 {
			n = len(sorts)
		}
		for range n {
			f := store.Filter{Limit: 100, Sort: "-" + sorts[turn%len(sorts)]}
			turn++
			for _, set := range q.set {
				set(&f)
			}
			if err := ask(q.name+" by "+f.Sort, f); err != nil {
				return fmt.Errorf("%s by %s: %w", q.name, f.Sort, err)
			}
		}
	}
	for _, f := range []store.Filter{{Sort: "-cpu_seconds"}, {Sort: "name"}, {Sort: "id", Kinds: []string{"slurm"}}} {
		f.Limit, f.Offset = 100, l.jobs/2
		if err := ask(fmt.Sprintf("the page behind %d rows of %v by %s", f.Offset, f.Kinds, f.Sort), f); err != nil {
			return err
		}
	}
	for what, of := range map[string]func(timedQuery) time.Duration{"by CPU time": func(t timedQuery) time.Duration { return t.cpu },
		"by the clock, load " + measure.Load(): func(t timedQuery) time.Duration { return t.clock }} {
		var list []time.Duration
		over := 0
		for _, t := range took {
			if list = append(list, of(t)); of(t) > listBudget {
				over++
			}
		}
		l.row("%d lists of 1 to 3 filters %s: median, 95th and 99th percentile, slowest; over %d ms | %s, %s, %s, %s; %d", len(took),
			what, listBudget.Milliseconds(),
			measure.Quantile(list, 0.5), measure.Quantile(list, 0.95), measure.Quantile(list, 0.99), measure.Quantile(list, 1), over)
	}
	slices.SortFunc(took, func(a, b timedQuery) int { return int(b.cpu - a.cpu) })
	row := l.e.Table("", "the slowest", "rows", "CPU time")
	for _, m := range took[:min(l.worst, len(took))] {
		row("%s | %d | %.1f ms", m.name, m.total, measure.MS(m.cpu))
	}
	return nil
}

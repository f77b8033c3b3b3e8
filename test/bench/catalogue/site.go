package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"reckon/catalogue/database"
	"reckon/figure"
	"reckon/store"
)

// site makes up jobs.
type site struct {
	n      int
	rng    *rand.Rand
	start  time.Time
	owners []owner
}

// owner works for few accounts with few programs.
type owner struct {
	name                 string
	accounts, partitions []string
	commands             []string
	kind                 string
}

const owners = 400

func newSite(n int) *site {
	s := &site{n: n, rng: rand.New(rand.NewPCG(1, 1)), start: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)}
	for i := range owners {
		o := owner{name: fmt.Sprintf("user%03d", i), kind: "slurm"}
		if s.rng.IntN(5) == 0 {
			o.kind = []string{"group", "session", "container"}[s.rng.IntN(3)]
		}
		for range 1 + s.rng.IntN(3) {
			o.accounts = append(o.accounts, fmt.Sprintf("a%02d", int(s.rng.ExpFloat64()*10)))
			o.partitions = append(o.partitions, []string{"cpu", "cpu", "cpu", "gpu", "long"}[s.rng.IntN(5)])
		}
		for range 2 + s.rng.IntN(6) {
			o.commands = append(o.commands, fmt.Sprintf("prog%d", int(s.rng.ExpFloat64()*20)))
		}
		s.owners = append(s.owners, o)
	}
	return s
}

func one[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

func (s *site) job(i int) store.Workload {
	r := s.rng
	s.start = s.start.Add(time.Duration(r.IntN(60_000)) * time.Millisecond)
	length := time.Duration(r.ExpFloat64()*1800) * time.Second
	if r.IntN(100) == 0 {
		length = time.Duration(r.ExpFloat64()*48) * time.Hour
	}
	o := &s.owners[min(int(r.ExpFloat64()*40), owners-1)]
	pick := r.IntN(len(o.accounts))
	cores := float64(int(1) << r.IntN(7))
	v := func(scale float64) *float64 { x := r.ExpFloat64() * scale; return &x }
	w := store.Workload{
		Site: "s", ID: fmt.Sprintf("%s/%d", o.kind, i), Kind: o.kind, Owner: o.name, Account: o.accounts[pick], Partition: o.partitions[pick], Command: one(r, o.commands),
		Name: fmt.Sprintf("job-%d", r.IntN(50_000)), Nodes: []string{fmt.Sprintf("n%04d", r.IntN(500))}, Start: s.start, Seen: s.start.Add(length), End: s.start.Add(length),
		State: "completed", Row: figure.Row{CPUSeconds: v(length.Seconds() * cores / 2), CPUUserSeconds: v(length.Seconds()), CPUSystemSeconds: v(length.Seconds() / 10), CPUWaitSeconds: v(10), CoresMean: v(cores / 2), CoresP50: v(cores / 2), CoresP95: v(cores), CoresMax: v(cores), MemoryBytes: v(4e9), MemoryPeakBytes: v(8e9), MemoryByteSeconds: v(1e13), MemoryMeanBytes: v(4e9), ReadBytes: v(1e9), WriteBytes: v(1e8), NetworkBytes: v(1e7), Processes: v(50), Threads: v(100), RequestCores: &cores, RequestMemoryBytes: v(16e9), RequestSeconds: v(86400), RequestNodes: new(1.0), MajorFaults: v(10), ThrottledSeconds: v(1)},
	}
	if o.partitions[pick] == "gpu" {
		w.GPUSeconds, w.GPUMemoryPeak, w.RequestGPUs = v(length.Seconds()), v(4e10), v(4)
	}
	switch k := r.IntN(1000); {
	case k < 60:
		w.State = "failed"
	case k < 80:
		w.State = "timeout"
	case k < 82:
		w.State, w.OOMKills = "out_of_memory", v(1)
	}
	w.Submit = s.start.Add(-time.Duration(r.ExpFloat64()*1800) * time.Second)
	if i >= s.n-500 {
		w.End, w.State = time.Time{}, "running"
	}
	return w
}

// fill writes the jobs, unless they are there. Most are written without indexes, which are
// made afterwards; the last into the full catalogue, as a server does, and that is measured.
func (s *site) fill(ctx context.Context, path string, facts *database.Catalogue, out io.Writer) error {
	_, have, err := facts.Workloads(ctx, store.Filter{Limit: 1})
	if err != nil {
		return err
	}
	if have >= s.n {
		for i := range s.n { // so that time is where it was
			s.job(i)
		}
		return nil
	}
	last := min(5000, s.n/10)
	write := func(from, to int) error {
		rows := make([]store.Workload, 0, 5000)
		for i := from; i < to; i++ {
			if rows = append(rows, s.job(i)); len(rows) == cap(rows) || i == to-1 {
				if err := facts.Upsert(ctx, rows); err != nil {
					return err
				}
				rows = rows[:0]
			}
		}
		return nil
	}
	if err := withoutIndexes(ctx, path, func() error { return write(have, s.n-last) }); err != nil {
		return err
	}
	if _, _, err := facts.Workloads(ctx, store.Filter{Limit: 1}); err != nil { // so that the columns follow
		return err
	}
	begin := now()
	if err := write(s.n-last, s.n); err != nil {
		return err
	}
	fmt.Fprintf(out, "| %d new jobs written into a catalogue of %d, of %d owners | %.0f rows/s |\n", last, s.n, owners, float64(last)/(now()-begin).Seconds())
	return nil
}

// withoutIndexes runs f while the catalogue's table has no index but its key.
func withoutIndexes(ctx context.Context, path string, f func() error) error {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'workloads' AND sql IS NOT NULL")
	if err != nil {
		return err
	}
	defer rows.Close()
	made := map[string]string{}
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return err
		}
		made[name] = text
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for name := range made {
		if _, err := db.ExecContext(ctx, "DROP INDEX "+name); err != nil {
			return err
		}
	}
	if err := f(); err != nil {
		return err
	}
	for name, text := range made {
		if _, err := db.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("make %s again: %w", name, err)
		}
	}
	return nil
}

// again writes jobs that run once more, as every round does.
func (s *site) again(ctx context.Context, facts *database.Catalogue, out io.Writer) error {
	running := true
	rows, _, err := facts.Workloads(ctx, store.Filter{Running: &running})
	if err != nil {
		return err
	}
	begin, n := now(), 0
	for round := range 10 {
		for i := range rows {
			w := &rows[i]
			w.Seen = w.Seen.Add(15 * time.Second)
			for _, p := range []**float64{&w.CPUSeconds, &w.CPUUserSeconds, &w.CPUSystemSeconds, &w.MemoryByteSeconds, &w.ReadBytes, &w.WriteBytes} {
				v := **p + float64(round)
				*p = &v
			}
		}
		if err := facts.Upsert(ctx, rows); err != nil {
			return err
		}
		n += len(rows)
	}
	fmt.Fprintf(out, "| rows of %d running jobs written again | %.0f rows/s |\n", len(rows), float64(n)/(now()-begin).Seconds())
	return nil
}

// questions are the filters, each with a value that leaves many rows and, where it makes a
// difference, one that leaves few.
func (s *site) questions() []question {
	mid := s.start.AddDate(0, -3, 0)
	yes := true
	q := func(dim, name string, set func(*store.Filter)) question {
		return question{name, []func(*store.Filter){set}, []string{dim}}
	}
	return []question{
		q("owner", "biggest owner", func(f *store.Filter) { f.Owners = []string{"user000"} }),
		q("owner", "an owner", func(f *store.Filter) { f.Owners = []string{"user090"} }),
		q("kind", "a kind", func(f *store.Filter) { f.Kinds = []string{"slurm"} }),
		q("kind", "a small kind", func(f *store.Filter) { f.Kinds = []string{"session"} }),
		q("account", "an account", func(f *store.Filter) { f.Accounts = []string{"a03"} }),
		q("partition", "a partition", func(f *store.Filter) { f.Partitions = []string{"cpu"} }),
		q("partition", "the GPU partition", func(f *store.Filter) { f.Partitions = []string{"gpu"} }),
		q("state", "completed", func(f *store.Filter) { f.States = []string{"completed"} }),
		q("state", "failed", func(f *store.Filter) { f.States = []string{"failed", "timeout"} }),
		q("command", "a program", func(f *store.Filter) { f.Command = "prog3" }),
		q("command", "programs", func(f *store.Filter) { f.Command = "prog1*" }),
		q("node", "a node", func(f *store.Filter) { f.Nodes = []string{"n0042"} }),
		q("name", "a name", func(f *store.Filter) { f.Name = "job-4242" }),
		q("name", "names", func(f *store.Filter) { f.Name = "job-42*" }),
		q("time", "a day", func(f *store.Filter) { f.Since, f.Until = mid, mid.AddDate(0, 0, 1) }),
		q("time", "a month", func(f *store.Filter) { f.Since, f.Until = mid, mid.AddDate(0, 1, 0) }),
		q("time", "the last three months", func(f *store.Filter) { f.Since = mid }),
		q("running", "running", func(f *store.Filter) { f.Running = &yes }),
		q("cpu", "much CPU time", func(f *store.Filter) { f.MinCPU = 50_000 }),
	}
}

package stores

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"time"

	"reckon/figure"
	"reckon/store"
	"reckon/test/bench/measure"
)

// jobMaker generates jobs of 400 owners with very different numbers of jobs. Each owner has a few accounts, partitions
// and programs. Some jobs have figures that were not measured.
type jobMaker struct {
	n      int
	rng    *rand.Rand
	start  time.Time
	owners []jobOwner
}

// jobOwner works for few accounts with few programs.
type jobOwner struct {
	name, kind                     string
	accounts, partitions, commands []string
}

func newJobMaker(n int) *jobMaker {
	m := &jobMaker{n: n, rng: rand.New(rand.NewPCG(1, 1)), start: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)}
	for i := range 400 {
		o := jobOwner{name: fmt.Sprintf("user%03d", i), kind: "slurm"}
		if m.rng.IntN(5) == 0 {
			o.kind = []string{"group", "session", "container"}[m.rng.IntN(3)]
		}
		for range 1 + m.rng.IntN(3) {
			o.accounts = append(o.accounts, fmt.Sprintf("a%02d", int(m.rng.ExpFloat64()*10)))
			o.partitions = append(o.partitions, []string{"cpu", "cpu", "cpu", "gpu", "long"}[m.rng.IntN(5)])
		}
		for range 2 + m.rng.IntN(6) {
			o.commands = append(o.commands, fmt.Sprintf("prog%d", int(m.rng.ExpFloat64()*20)))
		}
		m.owners = append(m.owners, o)
	}
	return m
}

func (m *jobMaker) makeJob(i int) store.Workload {
	r := m.rng
	m.start = m.start.Add(time.Duration(r.IntN(60_000)) * time.Millisecond)
	length := time.Duration(r.ExpFloat64()*1800) * time.Second
	if r.IntN(100) == 0 {
		length = time.Duration(r.ExpFloat64()*48) * time.Hour
	}
	o := &m.owners[min(int(r.ExpFloat64()*40), len(m.owners)-1)]
	pick, cores, wall := r.IntN(len(o.accounts)), float64(int(1)<<r.IntN(7)), length.Seconds()
	v := func(scale float64) *float64 { x := r.ExpFloat64() * scale; return &x }
	w := store.Workload{
		Site: "s", ID: fmt.Sprintf("%s/%d", o.kind, i), Kind: o.kind, Owner: o.name, Account: o.accounts[pick],
		Partition: o.partitions[pick],
		Command:   o.commands[r.IntN(len(o.commands))], Name: fmt.Sprintf("job-%d", r.IntN(50_000)), Nodes: []string{fmt.Sprintf("n%04d",
			r.IntN(500))},
		Submit: m.start.Add(-time.Duration(r.ExpFloat64()*1800) * time.Second), Start: m.start, Seen: m.start.Add(length),
		End: m.start.Add(length), State: "completed",
		Row: figure.Row{
			CPUSeconds: v(wall * cores / 2), CPUUserSeconds: v(wall), CPUSystemSeconds: v(wall / 10), CPUWaitSeconds: v(10),
			CoresMean: v(cores / 2), CoresP50: v(cores / 2), CoresP95: v(cores), CoresMax: v(cores),
			MemoryBytes: v(4e9), MemoryPeakBytes: v(8e9), MemoryByteSeconds: v(1e13), MemoryMeanBytes: v(4e9),
			ReadBytes: v(1e9), WriteBytes: v(1e8), NetworkBytes: v(1e7), Processes: v(50), Threads: v(100), MajorFaults: v(10),
			ThrottledSeconds: v(1),
			RequestCores:     &cores, RequestMemoryBytes: v(16e9), RequestSeconds: v(86400), RequestNodes: new(1.0),
		},
	}
	if w.Partition == "gpu" {
		w.GPUSeconds, w.GPUMemoryPeak, w.RequestGPUs = v(wall), v(4e10), v(4)
	}
	switch k := r.IntN(1000); {
	case k < 60:
		w.State = "failed"
	case k < 80:
		w.State = "timeout"
	case k < 82:
		w.State, w.OOMKills = "out_of_memory", v(1)
	}
	if i >= m.n-500 {
		w.End, w.State = time.Time{}, "running"
	}
	return w
}

// filters each have a value that leaves many rows and, if that matters, one that leaves few.
func (m *jobMaker) filters() []filter {
	mid, yes := m.start.AddDate(0, -3, 0), true
	q := func(dim, name string, set func(*store.Filter)) filter {
		return filter{name, []func(*store.Filter){set}, []string{dim}}
	}
	return []filter{
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

// writeJobs writes the jobs unless they exist. It writes most of them before the indexes are created. It then adds the
// last ones to the full catalogue, as a server does, and measures the time for these.
func (l *benchCatalogue) writeJobs(ctx context.Context, path string, m *jobMaker) error {
	_, have, err := l.facts.Workloads(ctx, store.Filter{Limit: 1, Sites: []string{"s"}})
	if err != nil {
		return err
	}
	if have >= m.n {
		for i := range m.n { // advance the time as if the rows were written
			m.makeJob(i)
		}
		return nil
	}
	write := func(from, to int) error {
		rows := make([]store.Workload, 0, 5000)
		for i := from; i < to; i++ {
			if rows = append(rows, m.makeJob(i)); len(rows) == cap(rows) || i == to-1 {
				if err := l.facts.Upsert(ctx, rows); err != nil {
					return err
				}
				rows = rows[:0]
			}
		}
		return nil
	}
	last := min(5000, m.n/10)
	if err := withoutIndexes(ctx, path, func() error { return write(have, m.n-last) }); err != nil {
		return err
	}
	if _, _, err := l.facts.Workloads(ctx, store.Filter{Limit: 1}); err != nil { // so that the columns follow
		return err
	}
	cpu, _, err := measure.CPUTime(func() error { return write(m.n-last, m.n) })
	l.row("%d new jobs written into a catalogue of %d, of %d owners | %.0f rows/s", last, m.n, len(m.owners), float64(last)/cpu.Seconds())
	return err
}

// withoutIndexes runs f while the catalogue's table has no index but its key.
func withoutIndexes(ctx context.Context, path string, f func() error) error {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx,
		"SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'workloads' AND sql IS NOT NULL")
	if err != nil {
		return err
	}
	defer rows.Close()
	indexes := map[string]string{}
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return err
		}
		indexes[name] = text
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for name := range indexes {
		if _, err := db.ExecContext(ctx, "DROP INDEX "+name); err != nil {
			return err
		}
	}
	if err := f(); err != nil {
		return err
	}
	for name, text := range indexes {
		if _, err := db.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("make %s again: %w", name, err)
		}
	}
	return nil
}

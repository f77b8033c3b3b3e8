package catalogue

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"reckon/catalogue/database"
	"reckon/figure"
	"reckon/metric"
	"reckon/query"
	"reckon/store"
	"reckon/store/tsdb"
)

// site is a simulated site: nodes with an agent each, that export workloads every
// interval into a real store, and the truth about what was used.
type site struct {
	tb    failer
	s     *tsdb.Store
	c     *database.Catalogue
	now   time.Time
	ahead time.Duration // of the clock, beyond the time by which agents date begins and ends
	step  time.Duration
	truth []*truth
	live  []*piece
	batch map[string]*metric.Batch
	queue map[string][]*metric.Batch // of nodes without network
	cut   map[string]bool
}

// truth is the true course of one life of a workload.
type truth struct {
	id           string
	run          string // as its source calls it
	start        time.Time
	end          time.Time
	user, read   float64
	started      float64
	peak         map[partPlace]float64
	ticks        uint64
	nodes        map[string]bool
	lastExported time.Time
}

// piece is a part of a workload on a node, as its agent sees it.
type piece struct {
	*truth
	partPlace
	user, read, started float64 // since the agent began
	exported            float64 // last value of user
	mem                 float64
	hist                metric.Histogram
	whole               bool // the distribution is of all parts on the node, as agents send it
	series              map[string]*metric.Series
}

var workloadLabels = []string{"workload", "kind", "part", "owner"}

func desc(name string, kind metric.Kind, extra ...string) *metric.Desc {
	return &metric.Desc{Name: name, Help: "Simulated.", Kind: kind, Labels: append(slices.Clone(workloadLabels), extra...)}
}

var (
	simUser    = desc(figure.CPU, metric.Counter, "mode")
	simRead    = desc(figure.IO, metric.Counter, "direction")
	simStarted = desc("reckon_workload_processes_started_total", metric.Counter)
	simPeak    = desc("reckon_workload_memory_peak_bytes", metric.Gauge)
	simCores   = desc("reckon_workload_cores", metric.NativeHistogram)
	simStart   = desc(figure.StartTime, metric.Gauge)
	simRun     = desc(figure.StartTime, metric.Gauge, "run")
	simEnd     = desc(figure.EndTime, metric.Gauge)
	simInfo    = desc("reckon_workload_info", metric.Gauge, "name", "account", "partition", "command")
)

// failer is the common part of *testing.T and *rapid.T.
type failer interface {
	Helper()
	Error(...any)
	Errorf(string, ...any)
	Fatal(...any)
	Fatalf(string, ...any)
}

func newSite(tb failer, dir string, now time.Time) *site {
	tb.Helper()
	x := &site{tb: tb, now: now, step: 15 * time.Second, batch: map[string]*metric.Batch{}, queue: map[string][]*metric.Batch{}, cut: map[string]bool{}}
	var err error
	if x.s, err = tsdb.Open(tsdb.Options{Dir: filepath.Join(dir, "series"), Clock: func() time.Time { return x.now }}); err != nil {
		tb.Fatal(err)
	}
	if x.c, err = database.Open(filepath.Join(dir, "catalogue.db"), nil); err != nil {
		tb.Fatal(err)
	}
	return x
}

func (x *site) close() {
	if err := x.c.Close(); err != nil {
		x.tb.Error(err)
	}
	if err := x.s.Close(); err != nil {
		x.tb.Error(err)
	}
}

// begin starts a workload with parts at the given places.
func (x *site) begin(id string, places ...partPlace) *truth {
	t := &truth{id: id, start: x.now.Add(-x.ahead), peak: map[partPlace]float64{}, nodes: map[string]bool{}}
	x.truth = append(x.truth, t)
	for _, p := range places {
		t.nodes[p.Node] = true
		x.live = append(x.live, &piece{truth: t, partPlace: p, series: map[string]*metric.Series{}})
	}
	return t
}

// end ends a workload now: its pieces are exported a last time.
func (x *site) end(t *truth) {
	x.now = x.now.Add(time.Second)
	t.end = x.now.Add(-x.ahead)
	for _, p := range x.live {
		if p.truth == t {
			x.export(p, true)
		}
	}
	x.live = slices.DeleteFunc(x.live, func(p *piece) bool { return p.truth == t })
	x.send()
}

// restart begins the agents of a node anew: their counters are zero again. To be seen,
// a reset must make a counter fall, so pieces with little use are left alone.
func (x *site) restart(node string) {
	for _, p := range x.live {
		if p.Node == node && p.exported == p.user && p.user > 100 && p.read > 1<<20 && p.started > 1 {
			p.user, p.read, p.started, p.hist = 0, 0, 0, metric.Histogram{}
			p.series = map[string]*metric.Series{}
		}
	}
}

func (p *piece) get(d *metric.Desc, extra ...string) *metric.Series {
	if p.series[d.Name] == nil {
		kind, _, _ := strings.Cut(p.id, "/")
		part := p.Part
		if p.whole && d == simCores {
			part = ""
		}
		p.series[d.Name] = metric.NewSeries(d, append([]string{p.id, kind, part, "alice"}, extra...)...)
	}
	return p.series[d.Name]
}

// work lets time pass and every piece use something below 100 CPU seconds.
func (x *site) work(use func(p *piece) (cpu, read, mem float64)) {
	x.now = x.now.Add(x.step)
	for _, p := range x.live {
		cpu, read, mem := use(p)
		p.user, p.read, p.started = p.user+cpu, p.read+read, p.started+1
		p.truth.user, p.truth.read, p.truth.started = p.truth.user+cpu, p.truth.read+read, p.truth.started+1
		p.mem = mem
		p.peak[p.partPlace] = max(p.peak[p.partPlace], mem)
		p.hist.Observe(cpu / x.step.Seconds())
		p.ticks++
	}
}

func (x *site) exportAll() {
	for _, p := range x.live {
		x.export(p, false)
	}
	x.send()
}

func (x *site) export(p *piece, last bool) {
	b := x.batch[p.Node]
	if b == nil {
		b = &metric.Batch{Time: x.now}
		x.batch[p.Node] = b
	}
	add := func(s *metric.Series, v float64) {
		b.Samples = append(b.Samples, metric.Sample{Series: s, Value: v, Last: last})
	}
	add(p.get(simUser, "user"), p.user)
	add(p.get(simRead, "read"), p.read)
	add(p.get(simStarted), p.started)
	add(p.get(simPeak), p.peak[p.partPlace])
	if p.run == "" {
		add(p.get(simStart), float64(p.start.UnixMilli())/1000)
	} else {
		add(p.get(simRun, p.run), float64(p.start.UnixMilli())/1000)
	}
	add(p.get(simInfo, "train", "physics", "gpu", "python3"), 1)
	h := p.hist
	h.Buckets = slices.Clone(h.Buckets)
	b.Samples = append(b.Samples, metric.Sample{Series: p.get(simCores), Histogram: &h, Last: last})
	if last {
		add(p.get(simEnd), float64(p.truth.end.UnixMilli())/1000)
	}
	p.exported = p.user
	p.lastExported = x.now
}

// send brings the batches to the store, or to the queue of a node without network.
func (x *site) send() {
	for node, b := range x.batch {
		if x.queue[node] = append(x.queue[node], b); x.cut[node] {
			continue
		}
		for _, q := range x.queue[node] {
			if err := x.s.Append(context.Background(), map[string]string{"site": "s", "node": node}, q); err != nil {
				x.tb.Fatal(err)
			}
		}
		delete(x.queue, node)
	}
	clear(x.batch)
}

// flush lets all nodes send what they kept.
func (x *site) flush() {
	clear(x.cut)
	for node := range x.queue {
		if x.batch[node] == nil {
			x.batch[node] = &metric.Batch{Time: x.now}
		}
	}
	x.send()
}

// check compares the catalogue with the truth.
func (x *site) check(t failer, what string, rows []store.Workload, now time.Time) {
	byID := map[string][]store.Workload{}
	for _, r := range rows {
		byID[r.ID] = append(byID[r.ID], r)
	}
	want := 0
	for _, tr := range x.truth {
		if tr.lastExported.IsZero() {
			continue
		}
		want++
		i := slices.IndexFunc(byID[tr.id], func(r store.Workload) bool { return r.Start.Equal(tr.start.UTC()) })
		if i < 0 {
			t.Fatalf("%s: no row of %s begun %s in %v", what, tr.id, tr.start.UTC(), starts(byID[tr.id]))
		}
		x.compare(t, what, tr, byID[tr.id][i], now)
	}
	if len(rows) != want {
		t.Errorf("%s: %d rows, want %d: %v", what, len(rows), want, starts(rows))
	}
}

func starts(rows []store.Workload) []string {
	var out []string
	for _, r := range rows {
		out = append(out, r.ID+"@"+r.Start.Format(time.TimeOnly))
	}
	return out
}

func (x *site) compare(t failer, what string, tr *truth, r store.Workload, now time.Time) {
	same := func(name string, got *float64, want float64) {
		if got == nil || *got < want*(1-1e-9)-1e-9 || *got > want*(1+1e-9)+1e-9 {
			t.Errorf("%s: %s of %s is %s, want %g", what, name, tr.id, show(got), want)
		}
	}
	peak := 0.0
	for _, v := range tr.peak {
		peak += v
	}
	same("CPU time", r.CPUSeconds, tr.user)
	same("user time", r.CPUUserSeconds, tr.user)
	same("bytes read", r.ReadBytes, tr.read)
	same("processes", r.Processes, tr.started)
	same("memory peak", r.MemoryPeakBytes, peak)
	if r.CPUSystemSeconds != nil || r.EnergyJoules != nil || r.GPUSeconds != nil || r.MemoryBytes != nil {
		t.Errorf("%s: %s has figures that nobody measured", what, tr.id)
	}
	if len(r.Nodes) != len(tr.nodes) {
		t.Errorf("%s: %s ran on %v, want %d nodes", what, tr.id, r.Nodes, len(tr.nodes))
	}
	if r.Name != "train" || r.Account != "physics" || r.Owner != "alice" {
		t.Errorf("%s: facts of %s: %q %q %q", what, tr.id, r.Name, r.Account, r.Owner)
	}
	switch {
	case !tr.end.IsZero():
		if !r.End.Equal(tr.end) {
			t.Errorf("%s: %s ended %s, want %s", what, tr.id, r.End, tr.end)
		}
		if wall := tr.end.Sub(tr.start).Seconds(); wall > 0 {
			same("mean of cores", r.CoresMean, tr.user/wall)
		}
	case now.Sub(tr.lastExported) < 4*time.Minute && !r.End.IsZero():
		t.Errorf("%s: %s runs, but ended %s", what, tr.id, r.End)
	}
}

func show(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return fmt.Sprint(*v)
}

// TestTotalsEqualTheTruth runs random sites: workloads over several nodes and parts,
// ids used again, agents that start again, nodes without network for a while, and a
// builder that is stopped and started, with and without its state. Whatever happens,
// rows hold what was used, and a rebuild gives the same rows.
func TestTotalsEqualTheTruth(outer *testing.T) {
	// Hundreds of small stores are synced to disk and thrown away: in memory if possible.
	memory := outer.TempDir()
	if dir, err := os.MkdirTemp("/dev/shm", "reckon-query-"); err == nil {
		outer.Cleanup(func() { os.RemoveAll(dir) })
		memory = dir
	}
	rapid.Check(outer, func(t *rapid.T) {
		dir, err := os.MkdirTemp(memory, "reckon-query-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		x := newSite(t, dir, time.Date(2026, 3, 1, 11, 50, 0, 0, time.UTC))
		defer x.close()
		b := x.builder()
		ids := []string{"slurm/1", "slurm/2", "group/n1/7-7"}
		places := []partPlace{{Node: "n1"}, {Node: "n2"}, {Node: "n3", Part: "0"}}
		steps := rapid.IntRange(5, 60).Draw(t, "steps")
		for range steps {
			switch rapid.IntRange(0, 13).Draw(t, "event") {
			case 0, 1, 2:
				id := rapid.SampledFrom(ids).Draw(t, "id")
				if !slices.ContainsFunc(x.live, func(p *piece) bool { return p.id == id }) {
					x.now = x.now.Add(3 * time.Second)
					x.begin(id, places[:rapid.IntRange(1, 3).Draw(t, "places")]...)
				}
			case 3:
				if len(x.live) > 0 {
					if p := rapid.SampledFrom(x.live).Draw(t, "ends"); p.user > 0 {
						x.end(p.truth)
					}
				}
			case 4:
				x.restart(rapid.SampledFrom(places).Draw(t, "restarts").Node)
			case 5:
				x.cut[rapid.SampledFrom(places).Draw(t, "cut").Node] = true
			case 6:
				x.flush()
			case 7:
				if err := b.Save(context.Background()); err != nil {
					t.Fatal(err)
				}
				b = x.builder() // goes on from the state
			case 8:
				b = x.builder() // killed: from an older state, or none
			case 9:
				if _, err := b.Advance(context.Background()); err != nil {
					t.Fatal(err)
				}
			case 10: // what ended leaves memory: rounds pass over a block that they have read
				if err := x.s.Evict(); err != nil {
					t.Fatal(err)
				}
			default:
				x.work(func(*piece) (float64, float64, float64) {
					return rapid.Float64Range(0, 90).Draw(t, "cpu"), float64(rapid.IntRange(0, 1<<20).Draw(t, "read")), float64(rapid.IntRange(1, 1<<30).Draw(t, "memory"))
				})
				x.exportAll()
			}
		}
		x.flush()
		if _, err := b.Advance(context.Background()); err != nil {
			t.Fatal(err)
		}
		x.check(t, "kept up to date", x.rows(), x.now)
		b.roll.next = time.Time{}
		if _, err := b.Advance(context.Background()); err != nil {
			t.Fatal(err)
		}
		x.checkRollups(t, "kept up to date")
		if _, err := b.Rebuild(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		x.check(t, "rebuilt", x.rows(), x.now)
		x.checkRollups(t, "rebuilt")
		x.check(t, "at once", x.between(x.now.Add(-time.Hour), x.now), x.now)
		x.checkTicks(t)
	})
}

func (x *site) builder() *Builder {
	return NewBuilder(x.s, x.c, BuilderOptions{Clock: func() time.Time { return x.now }, Slice: 5 * time.Minute})
}

func (x *site) rows() []store.Workload {
	rows, _, err := x.c.Workloads(context.Background(), store.Filter{})
	if err != nil {
		x.tb.Fatal(err)
	}
	return rows
}

// between makes the rows of what has samples in an interval, without a catalogue.
func (x *site) between(from, to time.Time) (rows []store.Workload) {
	f := newFold(x.s)
	if err := f.foldSamples(context.Background(), from, to); err != nil {
		x.tb.Fatal(err)
	}
	var older []*account
	for _, a := range f.all() {
		if a.Start < from.UnixMilli() {
			older = append(older, a)
		}
	}
	if err := f.rereadRuns(context.Background(), listWanted(older), time.Time{}, to); err != nil {
		x.tb.Fatal(err)
	}
	for _, a := range f.all() {
		if a.lastSample() >= from.UnixMilli() {
			rows = append(rows, a.catalogueRow(to, 5*time.Minute))
		}
	}
	return rows
}

// checkTicks holds the distribution of cores against the ticks that were observed.
func (x *site) checkTicks(t *rapid.T) {
	latest := map[string]*truth{}
	for _, tr := range x.truth {
		if !tr.lastExported.IsZero() {
			latest[tr.id] = tr
		}
	}
	for id, tr := range latest {
		buckets, _, err := query.New(x.s, query.Options{}).CoresHistogram(context.Background(), query.Selection{ID: id, From: tr.start, To: x.now})
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, b := range buckets {
			sum += b.Seconds
		}
		if sum != float64(tr.ticks) {
			t.Errorf("%s has %g observations of cores, want %d", id, sum, tr.ticks)
		}
	}
}

// all lists the accounts in a fixed order.
func (f *fold) all() []*account {
	var out []*account
	for _, list := range f.accounts {
		out = append(out, list...)
	}
	return sortRuns(out)
}

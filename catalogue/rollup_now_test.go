package catalogue

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/storage"

	"reckon/figure"
	"reckon/metric"
	"reckon/store"
)

// TestHourUnderWay compares the hours under way, where each round reads the last minutes, with what a pass over the
// whole of them makes: while groups come and go, a node is without network, and samples come late.
func TestHourUnderWay(t *testing.T) {
	x := newSite(t, t.TempDir(), time.Date(2026, 3, 1, 10, 40, 0, 0, time.UTC))
	defer x.close()
	x.step = 30 * time.Second
	b := x.builder()
	x.begin("unit/a", partPlace{Node: "n1"}, partPlace{Node: "n2"})
	kept := 0            // rounds that read the last minutes only
	for i := range 150 { // until 11:55
		short := x.begin(fmt.Sprintf("group/n1/%d-7", i), partPlace{Node: "n1"})
		x.work(func(p *piece) (float64, float64, float64) { return float64(i % 7), 1000, 1 })
		x.machine("n1", 0, float64(i)*20, float64(i)*40, float64(simBegin.Unix()-1e6))
		x.exportAll()
		x.end(short)
		switch i {
		case 40:
			x.cut["n2"] = true
		case 60:
			x.flush() // ten minutes late
		case 100:
			x.restart("n1")
		}
		if i%10 == 9 { // a round that leaves the hours as they are, as they were made a moment ago
			b.roll.next = x.now.Add(time.Minute)
			before, err := b.Counted(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			advance(t, b)
			countedTo(t, b, before)
			b.roll.soon = x.now.Add(time.Millisecond)
			b.RequestRun()
			advance(t, b)
			countedTo(t, b, before) // it was made a moment ago
			b.roll.next, b.roll.soon = x.now.Add(time.Minute), x.now
			advance(t, b)
			countedTo(t, b, before) // nobody wants to know
			b.RequestRun()
			advance(t, b)
			countedTo(t, b, x.now)
		}
		b.roll.next = time.Time{}
		advance(t, b)
		countedTo(t, b, x.now)
		countedTo(t, x.builder(), x.now) // of a server that begins, or another one
		if b.roll.now.until.After(b.roll.now.from) {
			kept++
		}
		if i%10 == 9 {
			x.sameWhole(b, b.roll.done)
			x.sameInParts(b, b.roll.done)
		}
	}
	if kept < 120 {
		t.Errorf("%d of 150 rounds read the last minutes only", kept)
	}
}

// sameHours compares the roll-ups that were written of the hours from a time on with rows.
func (x *site) sameHours(from time.Time, use []store.Use, nodes []store.NodeUse) {
	q := store.RollupQuery{From: from, To: from.Add(3 * time.Hour), Span: store.SpanHour}
	q.By = []string{"kind", "owner", "command"}
	got, err := x.c.Use(x.tb.(*testing.T).Context(), q)
	if err != nil || len(got) != len(use) {
		x.tb.Fatalf("%d rows, want %d, %v", len(got), len(use), err)
	}
	for _, u := range use {
		i := slices.IndexFunc(got, func(g store.Use) bool {
			return g.At.Equal(u.At) && g.Kind == u.Kind && g.Owner == u.Owner && g.Command == u.Command
		})
		if i < 0 {
			x.tb.Fatalf("no row of %s, %s", u.At, u.Kind)
		}
		x.sameUse(u.At, &got[i].Used, &u.Used)
	}
	q.By = []string{"node"}
	gotNodes, err := x.c.NodeUse(x.tb.(*testing.T).Context(), q)
	if err != nil || len(gotNodes) != len(nodes) {
		x.tb.Fatalf("%d rows of nodes, want %d, %v", len(gotNodes), len(nodes), err)
	}
	for _, n := range nodes {
		i := slices.IndexFunc(gotNodes, func(g store.NodeUse) bool { return g.At.Equal(n.At) && g.Node == n.Node })
		if i < 0 {
			x.tb.Fatalf("no row of %s, %s", n.At, n.Node)
		}
		x.sameUse(n.At, &gotNodes[i].Used, &n.Used)
		for k := range n.Capacity.Len() {
			x.same(n.At, "capacity", k, *gotNodes[i].Capacity.At(k), *n.Capacity.At(k))
		}
	}
}

// sameWhole compares the hours from a time on with what a pass over the whole of them makes.
func (x *site) sameWhole(b *Builder, from time.Time) {
	p, back, err := b.roll.readPass(context.Background(), from, x.now.Truncate(time.Hour).Add(time.Hour), from, lookAround)
	if err != nil || !back.Equal(from) {
		x.tb.Fatal(back, err)
	}
	use, nodes := p.toRows()
	x.sameHours(from, use, nodes)
}

// sameInParts is sameWhole with a pass in parts of five minutes.
func (x *site) sameInParts(b *Builder, from time.Time) {
	kept := b.roll.groupsInPart
	b.roll.groupsInPart = 1
	x.sameWhole(b, from)
	b.roll.groupsInPart = kept
}

func (x *site) sameUse(at time.Time, got, want *store.Used) {
	for i := range want.Len() {
		x.same(at, "figure", i, *got.At(i), *want.At(i))
	}
}

func (x *site) same(at time.Time, what string, i int, got, want *float64) {
	if (got == nil) != (want == nil) || want != nil && math.Abs(*got-*want) > 1e-6*(1+math.Abs(*want)) {
		x.tb.Errorf("%s: %s %d of the hour of %s is %s, want %s", x.now, what, i, at, show(got), show(want))
	}
}

// TestLateSampleCountsBackwards: what the first of some late samples counted was used before it, in an hour that was made, or
// in minutes that rounds read no more, although no sample of these is late. A node is cut off at each of ten times and sends after
// each of some delays.
func TestLateSampleCountsBackwards(t *testing.T) {
	for first := range 10 { // the last sample before the cut is of 10:57:00, 10:57:30, ...
		for _, delay := range []int{9, 11, 12, 30} {
			x := newSite(t, t.TempDir(), time.Date(2026, 3, 1, 10, 40, 0, 0, time.UTC))
			x.step = 30 * time.Second
			b := x.builder()
			x.begin("unit/a", partPlace{Node: "n1"}, partPlace{Node: "n2"})
			for i := range 34 + first + delay + 3 {
				x.work(func(p *piece) (float64, float64, float64) { return 7, 1000, 1 })
				x.exportAll()
				switch i {
				case 33 + first:
					x.cut["n2"] = true
				case 33 + first + delay:
					x.flush()
				}
				b.roll.next = time.Time{}
				advance(t, b)
			}
			x.sameWhole(b, time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC))
			x.close()
			if t.Failed() {
				t.Fatalf("cut off at sample %d, for %d samples", 33+first, delay)
			}
		}
	}
}

// TestHourUnderWayOfOddNodes is the same with nodes that are cut off at any time, for any number of samples, and agents that begin
// anew: a round that reads less far back must find out when that was not enough.
func TestHourUnderWayOfOddNodes(t *testing.T) {
	for seed := range uint64(16) {
		r := rand.New(rand.NewPCG(seed, 7))
		x := newSite(t, t.TempDir(), time.Date(2026, 3, 1, 10, 30, 0, 0, time.UTC))
		x.step = []time.Duration{10, 15, 40, 90}[seed%4] * time.Second
		b := x.builder()
		if seed >= 8 {
			b.roll.groupsInPart = 1 // in parts of five minutes
		}
		nodes := []string{"n1", "n2", "n3"}
		x.begin("unit/a", partPlace{Node: "n1"}, partPlace{Node: "n2"}, partPlace{Node: "n3"})
		var ends []*truth
		for i := range 120 {
			node := nodes[r.IntN(3)]
			ends = append(ends, x.begin(fmt.Sprintf("group/%s/%d-7", node, i), partPlace{Node: node}))
			x.work(func(p *piece) (float64, float64, float64) { return float64(r.IntN(3)), float64(r.IntN(2) * 1000), 1 })
			x.machine("n1", 0, float64(i)*20, float64(i)*40, float64(simBegin.Unix()-1e6))
			x.exportAll()
			for len(ends) > 0 && r.IntN(4) > 0 {
				k := r.IntN(len(ends))
				x.end(ends[k])
				ends = slices.Delete(ends, k, k+1)
			}
			switch node := nodes[r.IntN(3)]; r.IntN(12) {
			case 0:
				x.cut[node] = true
			case 1, 2:
				x.flush()
			case 3:
				x.restart(node)
			}
			b.roll.next = time.Time{}
			if r.IntN(3) == 0 {
				b.roll.next = x.now.Add(time.Hour)
			}
			advance(t, b)
			if i%8 == 7 {
				b.roll.next = time.Time{}
				advance(t, b)
				x.sameWhole(b, b.roll.done)
				x.sameInParts(b, b.roll.done)
			}
		}
		x.close()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestGaugesAfterAPause: what a gauge holds counts over a pause of its samples of up to five minutes, although rounds read no more than
// the last minute: the memory of a machine with samples that pause for some steps of 15 s, at each of some times.
func TestGaugesAfterAPause(t *testing.T) {
	for first := range 4 {
		for _, pause := range []int{2, 5, 16, 19, 20, 24} {
			x := newSite(t, t.TempDir(), time.Date(2026, 3, 1, 10, 10, 0, 0, time.UTC))
			b := x.builder()
			x.begin("unit/a", partPlace{Node: "n2"})
			for i := range 30 + first + pause + 12 {
				x.machine("n2", 0, float64(i)*20, float64(i)*40, float64(simBegin.Unix()-1e6))
				if i < 30+first || i >= 30+first+pause {
					x.memory("n1")
				}
				x.work(steady)
				x.exportAll()
				b.roll.next = time.Time{}
				advance(t, b)
			}
			x.sameWhole(b, time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC))
			x.close()
			if t.Failed() {
				t.Fatalf("paused at sample %d, for %d samples", 30+first, pause)
			}
		}
	}
}

// TestCounterBegunLate: a workload that has run for long begins a counter with a zero as old as the workload and in the store from
// then on. What it counted belongs to the time since, and no round reads more than the last minute for that; unless it is of an
// hour that is settled, twice.
func TestCounterBegunLate(t *testing.T) {
	waited := desc(figure.IOWait, metric.Counter)
	for _, c := range []struct {
		age    int           // of the workload, steps
		since  time.Duration // the zero, before the counter's first sample; 0: the start of the workload
		wholes int           // rounds that read all
	}{{20, 0, 0}, {200, 0, 2}, {200, 100 * time.Second, 0}, {200, 45 * time.Minute, 2}} {
		x := newSite(t, t.TempDir(), time.Date(2026, 3, 1, 10, 40, 0, 0, time.UTC))
		b := x.builder()
		x.begin("unit/a", partPlace{Node: "n1"}, partPlace{Node: "n2"})
		began, wholes := x.now, 0
		var late *metric.Series
		for i := range c.age + 30 {
			x.work(steady)
			if x.exportAll(); i >= c.age {
				if late == nil {
					late = metric.NewSeries(waited, "unit/a", "unit", "", "alice")
					if late.Created = began.UnixMilli(); c.since != 0 {
						late.Created = x.now.Add(-c.since).UnixMilli()
					}
				}
				batch := &metric.Batch{Time: x.now}
				batch.Add(late, float64(400+i))
				x.append("n1", batch)
			}
			b.roll.next = time.Time{}
			read := &farReads{Queryable: x.s, now: x.now}
			b.roll.q = read
			advance(t, b)
			if i >= c.age && read.far > 0 {
				wholes++
			}
		}
		from := b.roll.done
		if c.wholes > 0 { // hours that were settled are made again
			from = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
		}
		x.sameWhole(b, from)
		if wholes != c.wholes {
			t.Errorf("%d rounds read all, want %d", wholes, c.wholes)
		}
		x.close()
		if t.Failed() {
			t.Fatalf("after %d steps, with a zero %v before", c.age, c.since)
		}
	}
}

// farReads counts the queries for all of the last ten minutes and more.
type farReads struct {
	storage.Queryable
	now time.Time
	far int
}

func (f *farReads) Querier(mint, maxt int64) (storage.Querier, error) {
	if now := f.now.UnixMilli(); mint < now-10*60_000 && maxt >= now {
		f.far++
	}
	return f.Queryable.Querier(mint, maxt)
}

// TestFirstUsage: usage of a new server is counted in the first round that finds some, and from then on once a minute.
func TestFirstUsage(t *testing.T) {
	x := newSite(t, t.TempDir(), time.Date(2026, 3, 1, 10, 5, 0, 0, time.UTC))
	defer x.close()
	b := x.builder()
	advance(t, b)
	x.begin("unit/a", partPlace{Node: "n1"})
	var counted time.Time
	for i := range 8 {
		x.work(steady)
		x.exportAll()
		advance(t, b)
		if i == 0 || i == 4 { // the first samples, and a minute later
			counted = x.now
		}
		countedTo(t, b, counted)
	}
}

// TestRoundReadsLittle: where samples come in time and near each other, a round makes the last two minutes again and not
// more; where they come late once, the next rounds expect that.
func TestRoundReadsLittle(t *testing.T) {
	x := newSite(t, t.TempDir(), time.Date(2026, 3, 1, 10, 5, 0, 0, time.UTC))
	defer x.close()
	b := x.builder()
	x.begin("unit/a", partPlace{Node: "n1"}, partPlace{Node: "n2"})
	rounds := func(n int) (longest time.Duration) {
		for range n {
			x.work(steady)
			x.exportAll()
			b.roll.next = time.Time{}
			advance(t, b)
			longest = max(longest, x.now.Sub(b.roll.now.until))
		}
		return longest
	}
	rounds(20)
	if d := rounds(20); d > 2*time.Minute {
		t.Errorf("the last %s are made again", d)
	}
	x.cut["n2"] = true
	rounds(8)
	x.flush()
	rounds(1)
	if x.begin("unit/b", partPlace{Node: "n1"}); rounds(20) < 3*time.Minute {
		t.Error("samples that were two minutes late are not expected again")
	}
}

func countedTo(t *testing.T, b *Builder, want time.Time) {
	t.Helper()
	if at, err := b.Counted(t.Context()); err != nil || !at.Equal(want) {
		t.Fatalf("counted up to %v, want %v; %v", at, want, err)
	}
}

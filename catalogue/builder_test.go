package catalogue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/prometheus/storage"

	"reckon/store"
	"reckon/store/tsdb"
)

var simBegin = time.Date(2026, 3, 1, 11, 50, 0, 0, time.UTC)

func steady(*piece) (float64, float64, float64) { return 15, 1, 1 }

func advance(t *testing.T, b *Builder) int {
	t.Helper()
	n, err := b.Advance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestSilentWorkloadEnds: a workload that is not seen for long has ended when it was
// last seen, until it comes back and goes on as the same one.
func TestSilentWorkloadEnds(t *testing.T) {
	x := newSite(t, t.TempDir(), simBegin)
	defer x.close()
	b := x.builder()
	tr := x.begin("unit/a", partPlace{Node: "n1"})
	for range 8 {
		x.work(steady)
		x.exportAll()
	}
	advance(t, b)
	if r := x.rows(); len(r) != 1 || !r[0].End.IsZero() {
		t.Fatalf("running workload: %v", r)
	}
	last := x.now
	for range 100 { // 25 minutes, rounds as usual
		x.now = x.now.Add(15 * time.Second)
		advance(t, b)
	}
	if r := x.rows(); len(r) != 1 || !r[0].End.Equal(last) {
		t.Fatalf("silent workload: ended %s, want %s", r[0].End, last)
	}
	x.work(steady)
	x.exportAll()
	advance(t, b)
	r := x.rows()
	if len(r) != 1 || !r[0].End.IsZero() || *r[0].CPUSeconds != tr.user {
		t.Fatalf("workload that came back: %d rows, ended %s, %g s of %g", len(r), r[0].End, *r[0].CPUSeconds, tr.user)
	}
}

// TestWorkloadsOfAnOutage: what began and ended while its node could not send is taken
// in when it comes, hours later.
func TestWorkloadsOfAnOutage(t *testing.T) {
	x := newSite(t, t.TempDir(), simBegin)
	defer x.close()
	b := x.builder()
	x.begin("unit/a", partPlace{Node: "n1"})
	x.cut["n2"] = true
	x.work(steady)
	x.exportAll()
	gone := x.begin("slurm/7", partPlace{Node: "n2"})
	for range 4 {
		x.work(steady)
		x.exportAll()
	}
	x.end(gone)
	for range 12 * 60 { // three hours
		x.work(steady)
		x.exportAll()
	}
	advance(t, b)
	if r := x.rows(); len(r) != 1 {
		t.Fatalf("%d rows before the node could send", len(r))
	}
	x.flush()
	x.now = x.now.Add(time.Second)
	advance(t, b)
	x.check(t, "after the outage", x.rows(), x.now)
}

// TestAdvanceReadsOnlyWhatIsNew: a steady round asks the store for minutes, however
// long the workload has run.
func TestAdvanceReadsOnlyWhatIsNew(t *testing.T) {
	x := newSite(t, t.TempDir(), simBegin)
	defer x.close()
	b := x.builder()
	x.begin("unit/a", partPlace{Node: "n1"})
	for range 4 * 60 * 3 {
		x.work(steady)
		x.exportAll()
	}
	advance(t, b)
	if err := b.Save(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, b := range []*Builder{b, x.builder()} { // going on, and begun anew with its state
		x.work(steady)
		x.exportAll()
		q := &watched{Store: x.s}
		b.q = q
		if b.fold != nil {
			b.fold.q = q
		}
		advance(t, b)
		if q.widest > 5*time.Minute {
			t.Errorf("a round read %s of history", q.widest)
		}
	}
}

// watched notes the widest interval that it is asked for.
type watched struct {
	*tsdb.Store
	widest time.Duration
}

func (w *watched) Querier(mint, maxt int64) (storage.Querier, error) {
	w.widest = max(w.widest, time.Duration(maxt-mint)*time.Millisecond)
	return w.Store.Querier(mint, maxt)
}

// failing is a catalogue that cannot be written.
type failing struct{ store.Catalogue }

var errFailing = errors.New("disk on fire")

func (failing) Upsert(context.Context, []store.Workload) error { return errFailing }

// TestFailedRoundIsRepeated: rows that could not be written are written by the next round.
func TestFailedRoundIsRepeated(t *testing.T) {
	x := newSite(t, t.TempDir(), simBegin)
	defer x.close()
	b := x.builder()
	x.begin("unit/a", partPlace{Node: "n1"})
	x.work(steady)
	x.exportAll()
	b.cat = failing{x.c}
	if _, err := b.Advance(t.Context()); !errors.Is(err, errFailing) {
		t.Fatalf("got %v", err)
	}
	b.cat = x.c
	if n := advance(t, b); n != 1 {
		t.Errorf("%d rows after the failure, want 1", n)
	}
	x.check(t, "after the failure", x.rows(), x.now)
}

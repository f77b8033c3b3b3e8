package catalogue

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"reckon/catalogue/database"
	"reckon/store"
	"reckon/store/tsdb"
)

// killed opens what a kill at this moment leaves: all files as they are now.
func (x *site) killed(t *testing.T, dir string) *site {
	t.Helper()
	to := t.TempDir()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		switch {
		case errors.Is(err, fs.ErrNotExist), e != nil && e.Name() == "lock", err == nil && !e.IsDir() && !e.Type().IsRegular():
			return nil
		case err != nil:
			return err
		case e.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o750)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), raw, 0o640)
	})
	if err != nil {
		t.Fatal(err)
	}
	y := newSite(t, to, x.now)
	y.truth, y.step = x.truth, x.step
	return y
}

// A node that could not send for hours sends, and the server is killed before the hours are
// made again: the next one makes them.
func TestKillAfterLateSamples(t *testing.T) {
	dir := t.TempDir()
	x := newSite(t, dir, simBegin)
	defer x.close()
	x.step = time.Minute
	b := x.builder()
	x.begin("unit/a", partPlace{Node: "n1"})
	x.begin("unit/b", partPlace{Node: "n2"})
	advance(t, b)
	x.cut["n2"] = true
	for range 100 { // less than what the database compacts, for files that change while they are copied are no kill
		x.work(steady)
		x.exportAll()
	}
	x.now = x.now.Add(time.Minute)
	advance(t, b)
	x.flush()
	y := x.killed(t, dir)
	defer y.close()
	advance(t, y.builder())
	y.checkRollups(t, "after the kill")
	if d, err := y.s.Dirty(); err != nil || len(d.Hours) != 0 {
		t.Errorf("hours that were made are dirty: %+v, %v", d, err)
	}
	// The same, when rows were made of late samples and the hours were not.
	b.roll.next = x.now.Add(time.Hour)
	advance(t, b)
	z := x.killed(t, dir)
	defer z.close()
	advance(t, z.builder())
	z.checkRollups(t, "after rows were made")
	z.check(t, "after rows were made", z.rows(), z.now)
	b.roll.next = time.Time{}
	advance(t, b)
	x.checkRollups(t, "without a kill")
}

// What cannot be noted in the journal is not committed, so that the sender sends it again.
func TestNoCommitWithoutJournal(t *testing.T) {
	dir := t.TempDir()
	x := newSite(t, dir, simBegin)
	defer x.close()
	x.begin("unit/a", partPlace{Node: "n1"})
	x.work(steady)
	x.exportAll()
	if err := os.Mkdir(filepath.Join(dir, "series", "dirty.json.tmp"), 0o750); err != nil {
		t.Fatal(err)
	}
	late := x.now.Add(-time.Hour)
	app := x.s.AppenderV2(t.Context())
	if _, err := app.Append(0, labels.FromStrings("__name__", "late"), 0, late.UnixMilli(), 1, nil, nil, storage.AOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := app.Commit(); err == nil {
		t.Error("committed without a note")
	}
	q, err := x.s.Querier(0, x.now.UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if set := q.Select(t.Context(), false, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", "late")); set.Next() {
		t.Error("the sample was committed")
	}
}

// An import that is cut off between the series and the catalogue is finished by the next start.
func TestKillAfterImport(t *testing.T) {
	dir := t.TempDir()
	x := newSite(t, dir, simBegin)
	defer x.close()
	x.begin("unit/a", partPlace{Node: "n1"})
	for range 4 {
		x.work(steady)
		x.exportAll()
	}
	b := x.builder()
	advance(t, b)
	if err := b.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	from := simBegin.Add(-72 * time.Hour)
	var h tsdb.History
	cpu := h.Series(labels.FromStrings("__name__", simUser.Name, "workload", "slurm/9", "kind", "slurm", "owner", "bob", "mode", "user", "node", "n7", "site", "s"))
	start := h.Series(labels.FromStrings("__name__", simStart.Name, "workload", "slurm/9", "kind", "slurm", "owner", "bob", "node", "n7", "site", "s"))
	for i := range 19 { // ten minutes apart, as sonar writes
		at := from.Add(time.Duration(i) * 10 * time.Minute).UnixMilli()
		if err := errors.Join(cpu.Add(at, float64(i)*600), start.Add(at, float64(from.Unix()))); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.s.ImportBlocks(t.Context(), &h); err != nil {
		t.Fatal(err)
	}
	advance(t, b) // the import goes on: nothing is done by halves
	if rows, _, err := x.c.Workloads(t.Context(), store.Filter{IDs: []string{"slurm/9"}}); err != nil || len(rows) != 0 {
		t.Fatalf("%v, %v", rows, err)
	}
	y := x.killed(t, dir)
	defer y.close()
	advance(t, y.builder())
	rows, _, err := y.c.Workloads(t.Context(), store.Filter{IDs: []string{"slurm/9"}})
	if err != nil || len(rows) != 1 || rows[0].CPUSeconds == nil || *rows[0].CPUSeconds != 18*600 || !rows[0].Start.Equal(from) {
		t.Errorf("%+v, %v", rows, err)
	}
	use, err := y.c.Use(t.Context(), store.RollupQuery{From: from.Add(-time.Hour), To: simBegin, Span: store.SpanWhole, Owners: []string{"bob"}})
	if err != nil || len(use) != 1 || use[0].CPUSeconds == nil || *use[0].CPUSeconds < 18*600*(1-1e-9) || *use[0].CPUSeconds > 18*600*(1+1e-9) {
		t.Errorf("%+v, %v", use, err)
	}
	if d, err := y.s.Dirty(); err != nil || len(d.Hours) != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

// What rows state that an earlier hour held is noted before the rows are written.
func TestKillAfterLateReport(t *testing.T) {
	x := newSite(t, t.TempDir(), simBegin)
	defer x.close()
	f := &failingUpsert{Catalogue: x.c}
	b := NewBuilder(x.s, f, BuilderOptions{Clock: func() time.Time { return x.now }})
	advance(t, b)
	b.roll.done = simBegin.Add(time.Hour)
	b.fold.addAccount(workloadKey{"s", "slurm/1"}, simBegin.UnixMilli())
	a := b.fold.accounts[workloadKey{"s", "slurm/1"}][0]
	a.Kind, a.touched, a.Tracks = "slurm", true, map[uint64]*track{1: {First: simBegin.UnixMilli(), T: simBegin.UnixMilli()}}
	f.fail = true
	if _, err := b.writeRows(t.Context(), simBegin.Add(time.Minute)); err == nil {
		t.Fatal("the test tests nothing")
	}
	r := NewBuilder(x.s, x.c, BuilderOptions{}).roll
	if err := r.loadPosition(t.Context(), simBegin); err != nil || !r.late.Equal(simBegin) {
		t.Errorf("noted %s, %v; want %s", r.late, err, simBegin)
	}
}

type failingUpsert struct {
	*database.Catalogue
	fail bool
}

func (f *failingUpsert) Upsert(ctx context.Context, rows []store.Workload) error {
	if f.fail {
		return errors.New("killed")
	}
	return f.Catalogue.Upsert(ctx, rows)
}

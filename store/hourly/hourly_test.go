package hourly

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/storage"
)

// minutes returns samples of a counter that grows by one a minute, every five minutes.
func minutes(from, to int64) (out []point) {
	for t := from; t < to; t += 5 * 60_000 {
		out = append(out, point{t: t, v: float64(t-t0) / 60_000})
	}
	return out
}

func spans(s *Store) string {
	var out []string
	for _, b := range s.blocks.all() {
		out = append(out, fmt.Sprintf("%d-%d", (b.MinTime()-t0)/day, (b.MaxTime()-t0)/day))
	}
	return strings.Join(out, " ")
}

// Days are made when they are over; days with late samples are made again, once; a second
// pass changes nothing.
func TestPass(t *testing.T) {
	r := openRaw(t)
	dir := t.TempDir()
	s := openStore(t, r, dir)
	pass(t, s)
	if !s.Through().IsZero() || len(kept(t, s, "c_total")) != 0 {
		t.Fatal("something was made of nothing")
	}
	r.append(lset("c_total"), minutes(t0, t0+2*day+5*hour)...)
	pass(t, s)
	if spans(s) != "" {
		t.Fatal("days that are in memory were made: ", spans(s))
	}
	r.seal(t0 + 2*day + 2*hour)
	pass(t, s)
	got := kept(t, s, "c_total")
	if spans(s) != "0-1 1-2" || len(got) != 49 || s.Through().UnixMilli() != t0+2*day {
		t.Fatalf("%s, %d samples, through %s", spans(s), len(got), s.Through())
	}
	for i, c := range got[1:] {
		if want := t0 + int64(i+1)*hour - 5*60_000; c.t != want || c.v != float64(want-t0)/60_000 {
			t.Fatalf("sample %d: %d %v, want %d", i, c.t-t0, c.v, want-t0)
		}
	}
	before := names(t, dir)
	pass(t, s)
	if !slices.Equal(names(t, dir), before) {
		t.Error("a second pass wrote something")
	}

	// Late: another series, and an hour that has a sample already.
	r.append(lset("late_total"), point{t: t0 + hour, v: 3}, point{t: t0 + 2*hour, v: 4})
	r.append(lset("c_total"), point{t: t0 + day - 1000, v: 1439.5})
	pass(t, s)
	if got := kept(t, s, "late_total"); len(got) != 0 {
		t.Fatal("what is in memory alone was made")
	}
	r.seal(t0 + 2*day + 2*hour)
	pass(t, s)
	got = kept(t, s, "c_total")
	if late := kept(t, s, "late_total"); len(late) != 2 || spans(s) != "0-1 1-2" || len(got) != 49 || got[24].v != 1439.5 {
		t.Errorf("late: %v, %s, %d samples, %v", late, spans(s), len(got), got[24])
	}
	if after := names(t, dir); !slices.Equal(after[1:2], before[1:2]) && !slices.Equal(after[0:1], before[1:2]) {
		t.Errorf("the other day was made again: %v, %v", before, after)
	}
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "0*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range list {
		out = append(out, filepath.Base(n))
	}
	return out
}

// Hours of deleted samples are kept, also after an import into those days, or when the
// state file is lost; a block that cannot be read is made again.
func TestLostSamples(t *testing.T) {
	r, dir := openRaw(t), t.TempDir()
	s := openStore(t, r, dir)
	r.append(lset("c_total"), minutes(t0, t0+2*day+5*hour)...)
	r.append(lset("g"), minutes(t0, t0+2*day+5*hour)...)
	r.seal(t0 + 2*day + 2*hour)
	pass(t, s)
	want := kept(t, s, "c_total")

	// Another database with the same directory: the first day is gone except for an import.
	other := openRaw(t)
	other.append(lset("c_total"), minutes(t0+day, t0+2*day+5*hour)...)
	other.append(lset("imported"), point{t: t0 + 30*60_000, v: 7})
	other.append(lset("g"), point{t: t0 + 59*60_000, v: 1000})
	other.seal(t0 + 2*day + 2*hour)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", stateFile} {
		if name != "" {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		s = openStore(t, other, dir)
		pass(t, s)
		got := kept(t, s, "c_total")
		// The first of the remaining samples looks like the start of a run, and is kept too.
		got = slices.DeleteFunc(got, func(x sample) bool { return x.t == t0+day })
		if len(got) != len(want) || spans(s) != "0-1 1-2" {
			t.Errorf("%q: %d samples, want %d; %s", name, len(got), len(want), spans(s))
		}
		if im := kept(t, s, "imported"); len(im) != 1 || im[0].v != 7 {
			t.Errorf("%q: imported %v", name, im)
		}
		if g := kept(t, s, "g"); len(g) != 48 || g[0].v != 1000 || g[1].v != 87.5 {
			t.Errorf("%q: gauge %d, %v", name, len(g), g[:2])
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}

	// A truncated index, and an unfinished block.
	list := names(t, dir)
	if err := os.Truncate(filepath.Join(dir, list[len(list)-1], "index"), 10); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, list[0]+".tmp-for-creation", "chunks"), 0o750); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, other, dir)
	pass(t, s)
	if got := names(t, dir); len(got) != 2 || spans(s) != "0-1 1-2" {
		t.Errorf("after damage: %v, %s", got, spans(s))
	}
}

// A crash between the appearance of a new block and the removal of the old one, and one in
// the middle of several days, leave the same result as one pass.
func TestCrash(t *testing.T) {
	r, dir := openRaw(t), t.TempDir()
	s := openStore(t, r, dir)
	r.append(lset("c_total"), minutes(t0, t0+3*day+5*hour)...)
	r.seal(t0 + 3*day + 2*hour)
	if err := s.findPendingDays(); err != nil {
		t.Fatal(err)
	}
	if got := s.completeUntil(); got != t0 {
		t.Errorf("ready before anything was made: %d", got-t0)
	}
	if _, err := s.buildFirstBlock(t.Context(), s.state.Pending); err != nil { // and the state does not record it
		t.Fatal(err)
	}
	first := names(t, dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// The old block reappears beside the one that replaces it.
	saved := t.TempDir()
	if err := os.CopyFS(filepath.Join(saved, first[0]), os.DirFS(filepath.Join(dir, first[0]))); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, r, dir)
	pass(t, s)
	want := kept(t, s, "c_total")
	if len(want) != 73 || spans(s) != "0-1 1-2 2-3" {
		t.Fatalf("%d samples, %s", len(want), spans(s))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, first[0]), os.DirFS(filepath.Join(saved, first[0]))); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, r, dir)
	if got := kept(t, s, "c_total"); len(got) != 73 || spans(s) != "0-1 1-2 2-3" || len(names(t, dir)) != 3 {
		t.Errorf("%d samples, %s, %v", len(got), spans(s), names(t, dir))
	}
}

// Blocks are compacted as they age, made again completely for late samples, and removed
// when they are too old or too many.
func TestJoinAndForget(t *testing.T) {
	r, dir := openRaw(t), t.TempDir()
	s := openStore(t, r, dir)
	s.ladder, s.settled = []int64{4 * day, 2 * day}, 2*day
	r.append(lset("c_total"), minutes(t0, t0+10*day)...)
	r.seal(t0 + 10*day - 2*hour)
	pass(t, s)
	if got := spans(s); got != "0-4 4-6 6-7 7-8 8-9" {
		t.Fatal(got)
	}
	got := kept(t, s, "c_total")
	if len(got) != 9*24+1 {
		t.Fatalf("%d samples", len(got))
	}
	r.append(lset("late_total"), point{t: t0 + day, v: 1}, point{t: t0 + 3*day, v: 2}, point{t: t0 + 5*day, v: 2})
	r.seal(t0 + 10*day - 2*hour)
	pass(t, s)
	if late := kept(t, s, "late_total"); len(late) != 3 || spans(s) != "0-4 4-6 6-7 7-8 8-9" || len(kept(t, s, "c_total")) != len(got) {
		t.Errorf("late: %v, %s", late, spans(s))
	}
	copied := filepath.Join(t.TempDir(), "copy")
	if err := s.Backup(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	again := openStore(t, r, copied)
	if len(kept(t, again, "c_total")) != len(got) || again.Through() != s.Through() {
		t.Error("the copy holds something else")
	}
	if s.Bytes() <= 0 {
		t.Error("it takes no room")
	}
	s.opts.Retention = 4 * 24 * time.Hour
	pass(t, s)
	if got := spans(s); got != "4-6 6-7 7-8 8-9" {
		t.Error("by age: ", got)
	}
	s.opts.MaxBytes = s.Bytes() - 1
	pass(t, s)
	if got := spans(s); got != "6-7 7-8 8-9" {
		t.Error("by bytes: ", got)
	}
	if at, ok := s.Oldest(); !ok || at.UnixMilli() != t0+6*day {
		t.Error("oldest: ", at)
	}
}

// Native histograms are kept, compacted and read.
func TestHistograms(t *testing.T) {
	r := openRaw(t)
	s := openStore(t, r, t.TempDir())
	var all []point
	for at := t0; at < t0+day+5*hour; at += 60_000 {
		n := (at-t0)/60_000 + 1
		if at >= t0+90*60_000 {
			n -= 90 // reset
		}
		all = append(all, point{t: at, h: &histogram.Histogram{
			Schema: 0, Count: uint64(n), Sum: float64(n),
			PositiveSpans: []histogram.Span{{Offset: 0, Length: 1}}, PositiveBuckets: []int64{n},
		}})
	}
	r.append(lset("h"), all...)
	r.seal(t0 + day + 2*hour)
	pass(t, s)
	if got := kept(t, s, "h"); len(got) != 27 { // 24, the first, and two around the reset
		t.Errorf("%d samples", len(got))
	}
	for _, q := range []string{"histogram_count(increase(h[4h]))", "histogram_quantile(0.5, rate(h[4h]))"} {
		want, _ := query(t, r, q, t0+4*hour, t0+day, 4*hour, 0)
		got, infos := query(t, s, q, t0+4*hour, t0+day, 4*hour, lookback)
		if len(want) != 1 || len(got) != 1 || len(got[0].Floats) != len(want[0].Floats) || len(infos) != 1 {
			t.Fatalf("%s: %v, want %v; %v", q, got, want, infos)
		}
		for i, p := range got[0].Floats {
			if w := want[0].Floats[i]; math.Abs(p.F-w.F) > 0.02*w.F {
				t.Errorf("%s at %d: %v, want %v", q, p.T-t0, p.F, w.F)
			}
		}
	}
}

// The queries that are answered from hours.
func TestSuits(t *testing.T) {
	for _, c := range []struct {
		h    storage.SelectHints
		want bool
	}{
		{storage.SelectHints{}, false},
		{storage.SelectHints{Step: hour}, false},
		{storage.SelectHints{Step: 2 * hour}, true},
		{storage.SelectHints{Step: 2 * hour, Func: "sum"}, true},
		{storage.SelectHints{Step: 2 * hour, Func: "timestamp"}, false},
		{storage.SelectHints{Step: 2 * hour, Range: hour, Func: "rate"}, false},
		{storage.SelectHints{Step: day, Range: day, Func: "rate"}, true},
		{storage.SelectHints{Step: day, Range: day, Func: "max_over_time"}, false},
		{storage.SelectHints{Range: day, Func: "rate"}, false},
		{storage.SelectHints{Range: 7 * day, Func: "rate"}, true},
		{storage.SelectHints{Step: 60_000, Range: 30 * day, Func: "increase"}, true},
		{storage.SelectHints{Range: 30 * day, Func: "quantile_over_time"}, false},
	} {
		if got := hoursSuffice(&c.h); got != c.want {
			t.Errorf("%+v: %v", c.h, got)
		}
	}
	if hoursSuffice(nil) {
		t.Error("without hints")
	}
}

// Where the store has no samples any more, hours are read whatever the step, and imports
// there unchanged; a query for labels covers both.
func TestGone(t *testing.T) {
	r := openRaw(t)
	s := openStore(t, r, t.TempDir())
	r.append(lset("c_total", "old", "yes"), minutes(t0, t0+day)...)
	r.append(lset("g"), minutes(t0, t0+2*day+5*hour)...)
	r.seal(t0 + 2*day + 2*hour)
	pass(t, s)
	if got, infos := query(t, s, "g", t0+10*hour, t0+34*hour, 15*60_000, 0); len(got) != 1 || len(infos) != 0 {
		t.Fatalf("while all samples are there: %v, %v", got, infos)
	}
	other := openRaw(t)
	other.append(lset("g"), minutes(t0+day, t0+2*day+5*hour)...)
	since := time.UnixMilli(t0 + day)
	other.since = &since
	s.raw = other
	// An import from years before does not hide that later samples were deleted.
	other.append(lset("imported"), point{t: t0 + 12*hour, v: 1})
	other.seal(t0 + 2*day + 2*hour)
	if err := s.findPendingDays(); err != nil { // it detects that the origins are others
		t.Fatal(err)
	}
	if !s.state.Lost {
		t.Fatal("nobody saw that samples are gone")
	}
	s.state.Pending = nil
	got, infos := query(t, s, "g", t0+10*hour, t0+34*hour, 15*60_000, s.Lookback(time.UnixMilli(t0+10*hour), 15*time.Minute))
	if len(got) != 1 || len(got[0].Floats) != 97 || len(infos) != 1 || !strings.Contains(infos[0], "hourly values were used") {
		t.Fatalf("%v %v", got, infos)
	}
	if at := s.Lookback(since.Add(time.Hour), time.Minute); at != 0 {
		t.Error("looks back where it need not: ", at)
	}
	if at := s.Lookback(since.Add(time.Hour), 2*time.Hour); at != lookback {
		t.Error("long steps look back ", at)
	}
	for _, c := range []struct{ from, to int64 }{{t0, t0 + 3*day}, {t0 + day, t0 + 3*day}, {math.MinInt64 / 2, t0 + 3*day}} {
		q, err := s.Querier(c.from, c.to)
		if err != nil {
			t.Fatal(err)
		}
		values, _, err := q.LabelValues(t.Context(), "__name__", nil)
		if err != nil {
			t.Fatal(err)
		}
		want := "[g imported]"
		if c.from == t0+day {
			want = "[g]"
		}
		if c.from == t0 {
			want = "[c_total g imported]"
		}
		labelNames, _, err := q.LabelNames(t.Context(), nil)
		if err != nil || fmt.Sprint(values) != want || slices.Contains(labelNames, "old") != (c.from == t0) {
			t.Errorf("from %d: %v, want %s; %v (%v)", c.from-t0, values, want, labelNames, err)
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
	}
	cq, err := s.ChunkQuerier(t0, t0+3*day)
	if err != nil {
		t.Fatal(err)
	}
	defer cq.Close()
	set, n := cq.Select(t.Context(), true, nil, all()...), 0
	for set.Next() {
		n++
	}
	if n != 3 || set.Err() != nil {
		t.Errorf("%d series by chunks (%v)", n, set.Err())
	}
}

// Queries continue while blocks are replaced.
func TestReadWhileMade(t *testing.T) {
	r := openRaw(t)
	s := openStore(t, r, t.TempDir())
	r.append(lset("c_total"), minutes(t0, t0+3*day+5*hour)...)
	r.seal(t0 + 3*day + 2*hour)
	pass(t, s)
	done := make(chan error, 1)
	go func() {
		for range 20 {
			if err := s.replaceBlocks(t.Context(), timeRange{t0, t0 + day}, s.blocks.all()[:1], []timeRange{{t0, t0 + day}}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for {
		got, _ := query(t, s, "increase(c_total[1d])", t0+day, t0+3*day, day, lookback)
		if len(got) != 1 || len(got[0].Floats) != 3 {
			t.Fatalf("%v", got)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
	}
}

// A full disk is an error that names the cause, and nothing is written.
func TestNoRoom(t *testing.T) {
	r := openRaw(t)
	s := openStore(t, r, t.TempDir())
	s.opts.Reserve = math.MaxInt64
	if err := s.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "retention-hourly") {
		t.Error(err)
	}
}

var _ Raw = (*raw)(nil)

package tsdb

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"reckon/metric"
)

// What the blocks are made of keeps its own times, however they are joined; samples in
// memory are no origin. What was imported is one, and no time from which on all is kept.
func TestOrigins(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	now := time.Now().Truncate(time.Second)
	s, err := Open(Options{Dir: dir, Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Sealed(); ok {
		t.Error("an empty store is sealed")
	}
	if _, ok := s.Since(); ok {
		t.Error("an empty store begins somewhere")
	}
	desc := &metric.Desc{Name: "live", Kind: metric.Gauge, Help: "x"}
	series := metric.NewSeries(desc)
	put := func(at time.Time) {
		t.Helper()
		b := &metric.Batch{Time: at}
		b.Add(series, 1)
		if err := s.Append(t.Context(), nil, b); err != nil {
			t.Fatal(err)
		}
	}
	begin := now.Add(-12 * time.Hour)
	s.db.DisableCompactions() // it would begin while samples are put
	for at := begin; at.Before(now); at = at.Add(10 * time.Minute) {
		put(at)
	}
	if list, err := s.Origins(); err != nil || len(list) != 0 {
		t.Errorf("in memory: %v (%v)", list, err)
	}
	if since, ok := s.Since(); !ok || !since.Equal(begin) {
		t.Errorf("it begins at %s, not %s", since, begin)
	}
	s.db.EnableCompactions()
	if err := s.db.Compact(context.Background()); err != nil {
		t.Fatal(err)
	}
	list, err := s.Origins()
	if err != nil || len(list) < 4 {
		t.Fatalf("%v (%v)", list, err)
	}
	sealed, _ := s.Sealed()
	for _, o := range list {
		// Six hours were joined, and each origin keeps its two.
		if o.To.Sub(o.From) > blockRange || o.To.After(sealed) || o.From.Before(begin) {
			t.Errorf("%+v, sealed %s", o, sealed)
		}
	}
	h := &History{}
	old := now.AddDate(-1, 0, 0)
	if err := h.Series(labels.FromStrings("__name__", "past")).Add(old.UnixMilli(), 1); err != nil {
		t.Fatal(err)
	}
	if err := s.ImportBlocks(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	after, err := s.Origins()
	if err != nil || len(after) != len(list)+1 {
		t.Errorf("with an import %d, before %d (%v)", len(after), len(list), err)
	}
	if since, ok := s.Since(); !ok || !since.Equal(begin) {
		t.Errorf("with an import it begins at %s, not %s", since, begin)
	}
	if err := s.Backup(t.Context(), filepath.Join(t.TempDir(), "copy")); err != nil {
		t.Error("a backup with an import:", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Origins(); err == nil {
		t.Error("a closed store tells origins")
	}
}

// What lies beside takes of the bytes that are allowed.
func TestBeside(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	beside := int64(0)
	s, err := Open(Options{Dir: filepath.Join(t.TempDir(), "s"), MaxBytes: 1 << 20, Beside: func() int64 { return beside }, Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	series := metric.NewSeries(&metric.Desc{Name: "live", Kind: metric.Gauge, Help: "x"})
	for at := now.Add(-12 * time.Hour); at.Before(now); at = at.Add(10 * time.Minute) {
		b := &metric.Batch{Time: at}
		b.Add(series, 1)
		if err := s.Append(t.Context(), nil, b); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if gone := s.blocksToDelete(s.db.Blocks()); len(s.db.Blocks()) == 0 || len(gone) != 0 {
		t.Fatalf("%d blocks, %d too many", len(s.db.Blocks()), len(gone))
	}
	beside = 1 << 20
	if gone := s.blocksToDelete(s.db.Blocks()); len(gone) != len(s.db.Blocks()) {
		t.Errorf("%d of %d blocks make room", len(gone), len(s.db.Blocks()))
	}
}

package tsdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"reckon/metric"
)

// Samples of years ago, those that overlap with the head, the same ones twice, and after
// the store was opened again: each is there once, and retention by age spares them.
func TestImportBlocks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	now := time.Now().Truncate(time.Second)
	open := func() *Store {
		s, err := Open(Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	desc := &metric.Desc{Name: "live", Kind: metric.Gauge, Help: "x"}
	b := &metric.Batch{Time: now}
	b.Add(metric.NewSeries(desc), 42)
	if err := s.Append(context.Background(), nil, b); err != nil {
		t.Fatal(err)
	}
	old := now.Add(-3 * 365 * 24 * time.Hour)
	history := func() *History {
		h := &History{}
		for i := range 3 {
			one := h.Series(labels.FromStrings("__name__", "past", "n", fmt.Sprint(i)))
			for k := range 1000 { // over three blocks and nine chunks
				if err := one.Add(old.Add(time.Duration(k)*3*time.Minute).UnixMilli(), float64(k)); err != nil {
					t.Fatal(err)
				}
			}
			if err := one.Add(now.Add(-time.Minute).UnixMilli(), 1e6); err != nil {
				t.Fatal(err)
			}
			if err := one.Add(0, 7); err != nil { // older than the one before: passed over
				t.Fatal(err)
			}
		}
		return h
	}
	check := func(when string) {
		t.Helper()
		for name, want := range map[string]int{"past": 3003, "live": 1} {
			q, err := s.Querier(0, math.MaxInt64)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			set := q.Select(context.Background(), false, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", name))
			for set.Next() {
				it := set.At().Iterator(nil)
				for it.Next() != chunkenc.ValNone {
					n++
				}
			}
			if set.Err() != nil || n != want {
				t.Errorf("%s: %d samples of %s, want %d (%v)", when, n, name, want, set.Err())
			}
			_ = q.Close()
		}
	}
	for _, when := range []string{"first", "again"} {
		if err := s.ImportBlocks(context.Background(), history()); err != nil {
			t.Fatal(err)
		}
		check(when)
	}
	if at, ok := s.Oldest(); !ok || at.After(old) {
		t.Errorf("oldest %v", at)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open()
	defer s.Close()
	check("opened again")
	db, err := s.acquire()
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Compact(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.gate.release()
	check("compacted")
}

// TestImportHistograms: distributions that grow new buckets, start again and end are read
// as they were added.
func TestImportHistograms(t *testing.T) {
	s, err := Open(Options{Dir: filepath.Join(t.TempDir(), "s")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	begin := time.Now().Add(-48 * time.Hour).UnixMilli()
	var h, other History
	one := other.Series(labels.FromStrings("__name__", "spread"))
	var d metric.Histogram
	var counts []uint64
	for k := range 500 {
		if k == 300 { // begun anew
			d = metric.Histogram{}
		}
		d.Observe(float64(1 + k%7*k%5*k%3))
		d.Observe(float64(k) / 10)
		counts = append(counts, d.Count)
		if err := one.AddHistogram(begin+int64(k)*60_000, &d); err != nil {
			t.Fatal(err)
		}
	}
	if err := one.AddHistogram(begin, &d); err != nil { // older: passed over
		t.Fatal(err)
	}
	h.Join(&other)
	if err := s.ImportBlocks(t.Context(), &h); err != nil {
		t.Fatal(err)
	}
	if err := s.ImportBlocks(t.Context(), &other); err != nil { // moved: there is nothing
		t.Fatal(err)
	}
	q, err := s.Querier(0, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", "spread"))
	n := 0
	for set.Next() {
		it := set.At().Iterator(nil)
		for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
			at, got := it.AtHistogram(nil)
			if want := begin + int64(n)*60_000; at != want || got.Count != counts[n] || got.Validate() != nil {
				t.Fatalf("sample %d: at %d with %d observations, want %d with %d", n, at, got.Count, want, counts[n])
			}
			n++
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
	}
	if set.Err() != nil || n != len(counts) {
		t.Fatalf("%d samples, want %d (%v)", n, len(counts), set.Err())
	}
}

// The list of imported blocks is damaged or missing: that is stated, and the blocks go on being kept for longer than others.
func TestDamagedListOfImportedBlocks(t *testing.T) {
	for name, do := range map[string]func(file string) error{
		"missing": os.Remove,
		"cut off": func(file string) error { return os.Truncate(file, 9) },
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			dir := t.TempDir()
			var log bytes.Buffer
			reopen := func() *Store {
				return open(t, Options{Dir: dir, Retention: 24 * time.Hour, Clock: func() time.Time { return now }, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
			}
			s := reopen()
			h := new(History)
			old := h.Series(labels.FromStrings(model.MetricNameLabel, "history", "node", "n1"))
			for at := now.Add(-100 * time.Hour); at.Before(now.Add(-99 * time.Hour)); at = at.Add(time.Minute) {
				if err := old.Add(at.UnixMilli(), 7); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(s.ImportBlocks(t.Context(), h), s.Close(), do(filepath.Join(dir, importedFile))); err != nil || log.Len() > 0 {
				t.Fatal(err, &log)
			}
			s = reopen()
			if !strings.Contains(log.String(), importedFile) || !strings.Contains(log.String(), "made again") {
				t.Errorf("the log has %s", &log)
			}
			for _, m := range s.db.BlockMetas() {
				if !s.imported.contains(dir, m) {
					t.Errorf("the block of %s is deleted for its age", time.UnixMilli(m.MinTime))
				}
			}
			if len(s.db.BlockMetas()) == 0 {
				t.Error("no block is left")
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			log.Reset()
			if reopen(); log.Len() > 0 {
				t.Errorf("it goes on: %s", &log)
			}
		})
	}
}

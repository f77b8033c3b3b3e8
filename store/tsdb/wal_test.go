package tsdb

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tsdbindex "github.com/prometheus/prometheus/tsdb/index"

	"reckon/metric"
	"reckon/store/storetest"
)

// fourSegments makes a store of nothing but a log of four segments, 25 minutes in each, and
// returns the begin of the first. With 120 samples they would be in chunks of the head too.
func fourSegments(t *testing.T, dir string) (from time.Time) {
	t.Helper()
	from = time.Now().Truncate(blockRange).Add(time.Minute) // all in the time of one chunk
	var b metric.Batch
	for i := range 4 {
		s, err := Open(Options{Dir: dir, Ahead: -1}) // begins a segment
		if err != nil {
			t.Fatal(err)
		}
		for k := range 25 {
			fill(&b, from.Add(time.Duration(i*25+k)*time.Minute), fleet(4), float64(i*25+k))
			if err := s.Append(t.Context(), external, &b); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return from
}

// What cannot be read of a log is left out, and nothing behind it: the database would delete all
// of that. It is stated about which time it is, whether the store was closed or killed.
func TestDamagedLogKeepsTheRest(t *testing.T) {
	segment := func(dir string, n string) string { return filepath.Join(dir, "wal", n) }
	flip := func(path string, at int64) error {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		one := make([]byte, 1)
		if _, err := f.ReadAt(one, at); err != nil {
			return err
		}
		one[0] ^= 8
		_, err = f.WriteAt(one, at)
		return err
	}
	for _, c := range []struct {
		name     string
		do       func(dir string) error
		killed   bool
		file     string
		from, to int // minutes of the gap
		most     int // of the minutes that are missing
		moved    bool
	}{
		{"a bit in the second segment", func(d string) error { return flip(segment(d, "00000001"), 700) }, false, "wal/00000001", 25, 50, 25, true},
		{"the same after a kill", func(d string) error { return flip(segment(d, "00000001"), 700) }, true, "wal/00000001", 25, 50, 25, true},
		{"the first bit, which defines the series", func(d string) error { return flip(segment(d, "00000000"), 20) }, false, "wal/00000000", 0, 99, 100, true},
		{"the second is missing", func(d string) error { return os.Remove(segment(d, "00000001")) }, false, "wal/00000001", 24, 50, 25, false},
		{"the last is missing", func(d string) error { return os.Remove(segment(d, "00000003")) }, false, "wal/00000003", 74, 99, 25, false},
		{"the last is cut", func(d string) error { return os.Truncate(segment(d, "00000003"), 700) }, false, "wal/00000003", 75, 99, 25, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			from := fourSegments(t, dir)
			if c.killed {
				if err := os.Remove(filepath.Join(dir, notedLogsFile)); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.do(dir); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			s := open(t, Options{Dir: dir, Ahead: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			missing := 100
			for _, p := range storetest.Read(t, s, from, from.Add(4*time.Hour), storetest.MatchName(cpuDesc.Name)) {
				missing = 100 - len(p)
				for _, x := range p {
					if at := time.UnixMilli(x.T).Sub(from).Minutes(); x.V != at {
						t.Errorf("minute %v has %v", at, x.V)
					}
				}
			}
			if missing == 0 || missing > c.most {
				t.Errorf("%d minutes are missing, at most %d should be", missing, c.most)
			}
			list := s.Gaps(from.Add(-time.Hour), from.Add(5*time.Hour))
			if len(list) != 1 || list[0].File != c.file || (list[0].Kept != "") != c.moved {
				t.Fatalf("gaps %v", list)
			}
			least, most := from.Add(time.Duration(c.from)*time.Minute), from.Add(time.Duration(c.to)*time.Minute).Add(time.Millisecond)
			if list[0].From.Before(least) && !list[0].From.IsZero() || list[0].To.After(most) {
				t.Errorf("the gap %v lies outside of minutes %d to %d", list[0], c.from, c.to)
			}
			if !strings.Contains(log.String(), c.file) {
				t.Errorf("nobody is notified:\n%s", &log)
			}
		})
	}
}

// Segments that are missing one after the other, the definitions of series among them, are gaps up to the last sample that
// cannot be assigned.
func TestFirstSegmentsAreMissing(t *testing.T) {
	dir := t.TempDir()
	from := fourSegments(t, dir)
	for _, n := range []string{"00000000", "00000001", "00000002"} {
		if err := os.Remove(filepath.Join(dir, "wal", n)); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, Options{Dir: dir, Ahead: -1})
	list := s.Gaps(from.Add(-time.Hour), from.Add(5*time.Hour))
	if got := storetest.Read(t, s, from, from.Add(4*time.Hour), storetest.MatchName(cpuDesc.Name)); len(got) != 0 || len(list) != 3 {
		t.Fatalf("%d series, gaps %v", len(got), list)
	}
	if first, last := list[0], list[2]; !first.From.IsZero() || first.To.Before(from) || last.To.Before(from.Add(99*time.Minute)) || last.To.After(from.Add(100*time.Minute)) {
		t.Errorf("gaps %v", list)
	}
}

// After a crash it is noticed, too, that segments are missing, empty or cut off between two records.
func TestLostLogAfterCrash(t *testing.T) {
	whole := t.TempDir()
	now := time.Now()
	from := now.Add(-100 * time.Minute)
	s := open(t, Options{Dir: whole, Ahead: -1, Clock: func() time.Time { return now }})
	var b metric.Batch
	for k := range 100 {
		fill(&b, from.Add(time.Duration(k)*time.Minute), fleet(4), float64(k))
		if err := s.Append(t.Context(), external, &b); err != nil {
			t.Fatal(err)
		}
	}
	s.withDB(s.noteOpen)                             // what the janitor does a minute after the start
	crashed := filepath.Join(t.TempDir(), "crashed") // what is on the disk now is what a kill leaves
	if err := os.CopyFS(crashed, os.DirFS(whole)); err != nil {
		t.Fatal(err)
	}
	segment := filepath.Join("wal", "00000000")
	for _, c := range []struct {
		name string
		do   func(dir string) error
		lost bool
	}{
		{"nothing", func(string) error { return nil }, false},
		{"missing", func(d string) error { return os.Remove(filepath.Join(d, segment)) }, true},
		{"the folder is missing", func(d string) error { return os.RemoveAll(filepath.Join(d, "wal")) }, true},
		{"empty", func(d string) error { return os.Truncate(filepath.Join(d, segment), 0) }, true},
		{"a torn end that was written later", func(d string) error {
			f, err := os.OpenFile(filepath.Join(d, segment), os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			_, err = f.Write([]byte{recordFull, 1, 0})
			return errors.Join(err, f.Close())
		}, false},
		{"replaced by a checkpoint", func(d string) error {
			return errors.Join(os.Mkdir(filepath.Join(d, "wal", "checkpoint.00000000"), 0o750),
				os.Rename(filepath.Join(d, segment), filepath.Join(d, "wal", "checkpoint.00000000", "00000000")))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "series")
			if err := os.CopyFS(dir, os.DirFS(crashed)); err != nil {
				t.Fatal(err)
			}
			if err := c.do(dir); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			s := open(t, Options{Dir: dir, Ahead: -1, Logger: slog.New(slog.NewTextHandler(&log, nil)), Clock: func() time.Time { return now }})
			left := len(storetest.Read(t, s, from, now, storetest.MatchName(cpuDesc.Name)))
			list := s.Gaps(from, now)
			if (left == 0) != c.lost || c.lost && len(list) != 1 {
				t.Fatalf("%d series are left, gaps %v\n%s", left, list, &log)
			}
			for _, g := range list { // of a torn end, too: what was in its last record is lost
				if g.File != segment || g.To.Before(now.Add(-2*time.Minute)) || !strings.Contains(log.String(), segment) {
					t.Errorf("gap %v\n%s", g, &log)
				}
			}
		})
	}
}

// The same of the log of samples out of order, where the database removes segments once they are in a block.
func TestLostLogOutOfOrderAfterCrash(t *testing.T) {
	whole := t.TempDir()
	now := time.Now()
	from := now.Add(-100 * time.Minute)
	o := Options{Dir: whole, Ahead: -1, Clock: func() time.Time { return now }}
	s := open(t, o)
	var b metric.Batch
	put := func(s *Store, at time.Time) {
		t.Helper()
		fill(&b, at, fleet(4), 1)
		if err := s.Append(t.Context(), external, &b); err != nil {
			t.Fatal(err)
		}
	}
	put(s, now.Add(-time.Minute))
	for k := range 40 {
		put(s, from.Add(time.Duration(k)*time.Minute))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, o) // which begins another segment
	put(s, from.Add(45*time.Minute))
	s.withDB(s.noteOpen)
	st, err := os.Stat(filepath.Join(whole, "wbl", "00000001"))
	if err != nil {
		t.Fatal(err)
	}
	early := st.Size()
	put(s, from.Add(-10*time.Minute)) // older than all that is noted so far
	s.withDB(s.noteOpen)              // a minute later
	crashed := filepath.Join(t.TempDir(), "crashed")
	if err := os.CopyFS(crashed, os.DirFS(whole)); err != nil {
		t.Fatal(err)
	}
	first, second := filepath.Join("wbl", "00000000"), filepath.Join("wbl", "00000001")
	for _, c := range []struct {
		name string
		do   func(dir string) error
		want string // the file that is reported; empty for none
	}{
		{"nothing", func(string) error { return nil }, ""},
		{"the first is missing", func(d string) error { return os.Remove(filepath.Join(d, first)) }, first},
		{"the last is missing", func(d string) error { return os.Remove(filepath.Join(d, second)) }, second},
		{"the folder is missing", func(d string) error { return os.RemoveAll(filepath.Join(d, "wbl")) }, first},
		{"empty", func(d string) error { return os.Truncate(filepath.Join(d, first), 0) }, first},
		{"the last is cut off", func(d string) error { return os.Truncate(filepath.Join(d, second), 0) }, second},
		{"its last minute is cut off", func(d string) error { return os.Truncate(filepath.Join(d, second), early) }, second},
		{"in a block since", func(d string) error { // the order in which the database does it
			return errors.Join(os.WriteFile(filepath.Join(d, "wbl", "00000002"), nil, 0o600),
				os.Remove(filepath.Join(d, first)), os.Remove(filepath.Join(d, second)))
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "series")
			if err := os.CopyFS(dir, os.DirFS(crashed)); err != nil {
				t.Fatal(err)
			}
			if err := c.do(dir); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			s := open(t, Options{Dir: dir, Ahead: -1, Logger: slog.New(slog.NewTextHandler(&log, nil)), Clock: func() time.Time { return now }})
			told := ""
			for _, g := range s.Gaps(from.Add(-10*time.Minute), now) {
				if told == "" {
					told = g.File
				}
				if g.From.After(from.Add(-10*time.Minute)) || g.To.Before(from.Add(45*time.Minute)) {
					t.Errorf("the gap %v does not hold all that may be lost", g)
				}
			}
			if told != c.want || !strings.Contains(log.String(), c.want) {
				t.Errorf("told of %q, not %q\n%s", told, c.want, &log)
			}
		})
	}
}

// A small file that is missing costs no sample; that it is, is reported once, and not in a new store.
func TestMissingFiles(t *testing.T) {
	dir := t.TempDir()
	reopen := func() string {
		t.Helper()
		var log bytes.Buffer
		s := open(t, Options{Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
		var b metric.Batch
		fill(&b, time.Now(), fleet(2), 1)
		if err := errors.Join(s.Append(t.Context(), external, &b), s.Close()); err != nil {
			t.Fatal(err)
		}
		return log.String()
	}
	if log := reopen(); log != "" {
		t.Fatalf("a new store says %s", log)
	}
	for _, name := range []string{manifestFile, "metadata.json"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if log := reopen(); strings.Count(log, "level=WARN") != 1 || !strings.Contains(log, name) {
			t.Errorf("%s is missing: %s", name, log)
		}
		if log := reopen(); log != "" {
			t.Errorf("%s was missing: %s", name, log)
		}
	}
}

// A flipped bit costs what lies on its page of the log and no more, although most pages begin with the rest of
// a record of the page before; two of them are two gaps.
func TestFlippedBitCostsItsPage(t *testing.T) {
	dir := t.TempDir()
	from := time.Now().Truncate(blockRange).Add(time.Minute)
	s := open(t, Options{Dir: dir, Ahead: -1})
	var b metric.Batch
	const minutes = 100
	for k := range minutes {
		fill(&b, from.Add(time.Duration(k)*time.Minute), fleet(1500), rand.Float64())
		if err := s.Append(t.Context(), external, &b); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "wal", "00000000")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pages := len(raw) / walPage
	if pages < 9 {
		t.Fatalf("%d pages", pages)
	}
	for _, page := range []int{pages / 2, pages - 2} {
		raw[page*walPage+walPage/2] ^= 1
	}
	if err := errors.Join(os.WriteFile(path, raw, 0o640), os.RemoveAll(filepath.Join(dir, "chunks_head"))); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s = open(t, Options{Dir: dir, Ahead: -1, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if n := strings.Count(log.String(), "\n"); n != 2 {
		t.Errorf("%d lines for two damages:\n%s", n, &log)
	}
	got := storetest.Read(t, s, from, from.Add(4*time.Hour), storetest.MatchName(cpuDesc.Name))
	missing := minutes
	for _, p := range got {
		missing = minutes - len(p)
		break
	}
	onPage := minutes/pages + 2
	if missing < 2 || missing > 2*onPage {
		t.Errorf("%d of %d minutes are missing; a page holds %d", missing, minutes, onPage)
	}
	list := s.Gaps(from, from.Add(4*time.Hour))
	if len(list) != 2 || !list[0].To.Before(list[1].From) {
		t.Errorf("gaps %v", list)
	}
}

// Gaps are remembered over restarts, warn those who ask about their time and nobody else, and end
// when a block is back.
func TestGapsAreRemembered(t *testing.T) {
	dir := t.TempDir()
	from, to := twoBlocks(t, dir)
	blocks, err := filepath.Glob(filepath.Join(dir, "01*"))
	if err != nil || len(blocks) < 2 {
		t.Fatal(blocks, err)
	}
	away := filepath.Join(t.TempDir(), "block")
	if err := os.Rename(blocks[0], away); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s := open(t, Options{Dir: dir})
		list := s.Gaps(from, to)
		if len(list) != 1 || list[0].File != filepath.Base(blocks[0]) || list[0].Why != "it is missing" || list[0].From.Before(from.Add(-blockRange)) || !list[0].To.Before(to) {
			t.Fatalf("gaps %v", list)
		}
		for _, c := range []struct {
			from, to time.Time
			want     int
		}{{from, to, 1}, {list[0].To, to, 0}} {
			q, err := s.Querier(c.from.UnixMilli(), c.to.UnixMilli())
			if err != nil {
				t.Fatal(err)
			}
			if w := q.Select(t.Context(), false, nil, storetest.MatchName(cpuDesc.Name)).Warnings(); len(w) != c.want {
				t.Errorf("%s to %s: warnings %v", c.from, c.to, w)
			}
			q.Close()
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(away, blocks[0]); err != nil {
		t.Fatal(err)
	}
	if list := open(t, Options{Dir: dir}).Gaps(from, to); len(list) != 0 {
		t.Errorf("the block is back, and there are gaps: %v", list)
	}
}

type indexBytes []byte

func (b indexBytes) Len() int                    { return len(b) }
func (b indexBytes) Range(start, end int) []byte { return b[start:end] }

// An index that cannot be read any more while the store is open is left out when it is asked
// for.
func TestDamageWhileOpen(t *testing.T) {
	dir := t.TempDir()
	from, to := twoBlocks(t, dir)
	s := open(t, Options{Dir: dir})
	metas := s.db.BlockMetas()
	index := filepath.Join(dir, metas[0].ULID.String(), "index")
	raw, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	toc, err := tsdbindex.NewTOCFromByteSlice(indexBytes(raw))
	if err != nil {
		t.Fatal(err)
	}
	for at := toc.Postings; at < toc.PostingsTable; at++ {
		raw[at] ^= 1
	}
	f, err := os.OpenFile(index, os.O_WRONLY, 0) // the same file, which is mapped
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(raw); err != nil {
		t.Fatal(err)
	}
	f.Close()
	ask := func() error {
		q, err := s.Querier(from.UnixMilli(), to.UnixMilli())
		if err != nil {
			return err
		}
		defer q.Close()
		set := q.Select(t.Context(), false, nil, storetest.MatchName(cpuDesc.Name))
		for set.Next() {
		}
		return set.Err()
	}
	if err := ask(); err == nil {
		t.Error("postings that were changed were read")
	}
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		if ask() == nil {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	if err := ask(); err != nil || len(s.Gaps(from, to)) != 1 {
		t.Errorf("%v, gaps %v", err, s.Gaps(from, to))
	}
}

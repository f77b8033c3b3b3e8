package tsdb

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"reckon/metric"
	"reckon/store/storetest"
)

// damagedStore is a closed store with files of every kind, and what it holds.
type damagedStore struct {
	dir      string
	from, to time.Time
	want     map[string][]storetest.Point
}

func (d *damagedStore) read(t *testing.T, s *Store) map[string][]storetest.Point {
	t.Helper()
	return storetest.Read(t, s, d.from, d.to, labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, "reckon_.*|history"))
}

// wholeStore makes blocks of the head, of ended series, of samples out of order and of imports,
// a checkpoint, several segments of both logs, and chunks of the head. It is closed, or as a kill leaves it a moment
// after the janitor's round.
func wholeStore(t *testing.T, killed bool) *damagedStore {
	t.Helper()
	d := &damagedStore{dir: filepath.Join(t.TempDir(), "series"), to: time.Now().Truncate(blockRange).Add(100 * time.Minute)}
	d.from = d.to.Add(-12 * time.Hour)
	var clock storetest.Clock
	now := clock.Set(d.from)
	open := func() *Store {
		t.Helper()
		s, err := Open(Options{Dir: d.dir, Clock: clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	series := fleet(40)
	var b metric.Batch
	for i := 0; !now.After(d.to); i, now = i+1, clock.Set(now.Add(15*time.Second)) {
		fill(&b, now, series, float64(now.Unix()%1000))
		if err := s.Append(t.Context(), external, &b); err != nil {
			t.Fatal(err)
		}
		if i%30 == 0 { // out of order
			fill(&b, now.Add(-20*time.Minute-time.Second), series[:5], float64(i))
			if err := s.Append(t.Context(), external, &b); err != nil && i > 200 {
				t.Fatal(err)
			}
		}
		if i%400 == 0 {
			ended(t, s, now, strconv.Itoa(i), 50)
			s.evictNow(s.db)
		}
		if i%500 == 0 { // segments begin when a store is opened
			if err := errors.Join(s.db.Compact(t.Context()), s.Close()); err != nil {
				t.Fatal(err)
			}
			s = open()
		}
	}
	h := new(History)
	old := h.Series(labels.FromStrings(model.MetricNameLabel, "history", "node", "n1"))
	for at := d.from; at.Before(d.from.Add(time.Hour)); at = at.Add(time.Minute) {
		if err := old.Add(at.UnixMilli(), 7); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.ImportBlocks(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	d.want = d.read(t, s)
	if killed {
		s.withDB(s.noteOpen)
		left := filepath.Join(t.TempDir(), "series")
		if out, err := exec.Command("cp", "-a", d.dir, left).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		d.dir = left
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestRandomDamage changes one file of a closed store at random. The store opens, takes samples and
// answers; no sample has another value; and each that is missing lies in a gap that is reported
// with its file.
func TestRandomDamage(t *testing.T) { randomDamage(t, wholeStore(t, false)) }

// TestRandomDamageAfterKill does the same to the files of one that was killed.
func TestRandomDamageAfterKill(t *testing.T) { randomDamage(t, wholeStore(t, true)) }

func randomDamage(t *testing.T, whole *damagedStore) {
	t.Helper()
	total := 0
	for _, p := range whole.want {
		total += len(p)
	}
	t.Logf("%d series, %d samples", len(whole.want), total)
	for seed := range storetest.Damages(t, os.Getenv(storetest.DamagesVariable), 20) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "series")
			if out, err := exec.Command("cp", "-a", whole.dir, dir).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			d := storetest.DamageRandomFile(t, dir, seed)
			var log bytes.Buffer
			now := whole.to.Add(time.Minute)
			s, err := Open(Options{Dir: dir, Clock: func() time.Time { return now }, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
			if err != nil {
				t.Fatalf("%s: it does not open: %v", d, err)
			}
			defer s.Close()
			missing, untold := whole.compare(t, s, d)
			if untold > 0 {
				t.Errorf("%s: %d of %d samples are missing, %d of them in no gap: %v\n%s", d, missing, total, untold, s.Gaps(time.Unix(0, 0), now), &log)
			}
			if missing > 0 && !strings.Contains(log.String(), strings.Split(d.File, "/")[0]) {
				t.Errorf("%s: nobody is notified of the file:\n%s", d, &log)
			}
			var b metric.Batch
			fill(&b, now, fleet(3), 5)
			if err := s.Append(t.Context(), external, &b); err != nil {
				t.Errorf("%s: it takes no samples: %v", d, err)
			}
			t.Logf("%s: %d samples missing, gaps %v", d, missing, s.Gaps(time.Unix(0, 0), now))
		})
	}
}

// compare returns how many samples are missing, and how many of these lie in no gap.
func (d *damagedStore) compare(t *testing.T, s *Store, what storetest.Damage) (missing, untold int) {
	t.Helper()
	got := d.read(t, s)
	for name, want := range d.want {
		have := map[int64]float64{}
		for _, p := range got[name] {
			have[p.T] = p.V
		}
		for _, p := range want {
			v, ok := have[p.T]
			switch at := time.UnixMilli(p.T); {
			case !ok:
				missing++
				if len(s.Gaps(at, at.Add(time.Millisecond))) == 0 {
					untold++
				}
			case v != p.V && (v == v || p.V == p.V):
				t.Errorf("%s: %s at %d is %v, not %v", what, name, p.T, v, p.V)
			}
			delete(have, p.T)
		}
		for at, v := range have {
			t.Errorf("%s: %s has %v at %d, where nothing was", what, name, v, at)
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("%s: %s came from nowhere", what, name)
	}
	return missing, untold
}

// The last segment is missing, and the clock is behind the samples: it was set back.
func TestMissingSegmentBehindTheClock(t *testing.T) {
	whole := wholeStore(t, true) // of samples up to 100 minutes ahead
	removed := removeLastSamples(t, filepath.Join(whole.dir, "wal"))
	s := open(t, Options{Dir: whole.dir, Clock: func() time.Time { return whole.to.Add(time.Minute) }})
	if missing, untold := whole.compare(t, s, storetest.Damage{File: removed, What: "removed"}); missing == 0 || untold > 0 {
		t.Errorf("%d samples are missing, %d of them in no gap: %v", missing, untold, s.Gaps(time.Unix(0, 0), whole.to.Add(time.Minute)))
	}
}

// removeLastSamples removes the last segment of a log that holds anything, and what follows it: the last one is empty where the
// store had just begun it.
func removeLastSamples(t *testing.T, dir string) (name string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "0*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Backward(found) {
		st, err := os.Stat(path)
		if err := errors.Join(err, os.Remove(path)); err != nil {
			t.Fatal(err)
		}
		if st.Size() > 0 {
			return filepath.Base(path)
		}
	}
	t.Fatal("no segment holds anything")
	return ""
}

// TestRemoveLastSamples: an empty segment at the end does not hide the one with samples before it.
func TestRemoveLastSamples(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int{"00000009": 7, "00000010": 7, "00000011": 0} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	name := removeLastSamples(t, dir)
	left, err := os.ReadDir(dir)
	if err != nil || name != "00000010" || len(left) != 1 || left[0].Name() != "00000009" {
		t.Errorf("%s was removed, %v are left: %v", name, left, err)
	}
}

// A checkpoint is never torn: after a kill, too, it is noticed when it is damaged or missing.
func TestDamagedCheckpointAfterKill(t *testing.T) {
	whole := wholeStore(t, true)
	for _, c := range []struct {
		name string
		do   func(segment string) error
	}{
		{"a bit", func(segment string) error {
			raw, err := os.ReadFile(segment)
			if err == nil {
				raw[300] ^= 1
				err = os.WriteFile(segment, raw, 0o600)
			}
			return err
		}},
		{"cut off", func(segment string) error { return os.Truncate(segment, 300) }},
		{"empty", os.Remove},
		{"missing", func(segment string) error { return os.RemoveAll(filepath.Dir(segment)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "series")
			if out, err := exec.Command("cp", "-a", whole.dir, dir).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			found, err := filepath.Glob(filepath.Join(dir, "wal", "checkpoint.*", "00000000"))
			if err != nil || len(found) != 1 {
				t.Fatal(found, err)
			}
			if err := c.do(found[0]); err != nil {
				t.Fatal(err)
			}
			file, err := filepath.Rel(dir, found[0])
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			s := open(t, Options{Dir: dir, Clock: func() time.Time { return whole.to.Add(time.Minute) }, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
			missing, untold := whole.compare(t, s, storetest.Damage{File: file, What: c.name})
			if missing == 0 || untold > 0 || !strings.Contains(log.String(), file) {
				t.Errorf("%d samples are missing, %d of them in no gap: %v\n%s", missing, untold, s.Gaps(time.Unix(0, 0), whole.to.Add(time.Minute)), &log)
			}
		})
	}
}

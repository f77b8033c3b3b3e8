package tsdb

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"reckon/metric"
	"reckon/store/storetest"
)

// damageSeeds is how many random damages are tried: 20, or what the variable says.
func damageSeeds(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("RECKON_DAMAGES"))
	if err != nil {
		return 20
	}
	return n
}

// damagedStore is a closed store with files of every kind, and what it holds.
type damagedStore struct {
	dir      string
	from, to time.Time
	want     map[string][]storetest.Point
}

func (d *damagedStore) read(t *testing.T, s *Store) map[string][]storetest.Point {
	t.Helper()
	return storetest.Read(t, s, d.from, d.to, labels.MustNewMatcher(labels.MatchRegexp, labels.MetricName, "reckon_.*|history"))
}

// wholeStore makes blocks of the head, of ended series, of samples out of order and of imports,
// a checkpoint, several segments of both logs, and chunks of the head.
func wholeStore(t *testing.T) *damagedStore {
	t.Helper()
	d := &damagedStore{dir: filepath.Join(t.TempDir(), "series"), to: time.Now().Truncate(blockRange).Add(100 * time.Minute)}
	d.from = d.to.Add(-12 * time.Hour)
	now := d.from
	open := func() *Store {
		t.Helper()
		s, err := Open(Options{Dir: d.dir, Clock: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	series := fleet(40)
	var b metric.Batch
	for i := 0; !now.After(d.to); i, now = i+1, now.Add(15*time.Second) {
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
	old := h.Series(labels.FromStrings(labels.MetricName, "history", "node", "n1"))
	for at := d.from; at.Before(d.from.Add(time.Hour)); at = at.Add(time.Minute) {
		if err := old.Add(at.UnixMilli(), 7); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.ImportBlocks(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	d.want = d.read(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return d
}

// A damage changes one file.
type damage struct {
	seed uint64
	file string // below the store
	what string
}

func (d damage) String() string { return fmt.Sprintf("seed %d: %s: %s", d.seed, d.file, d.what) }

// hurt damages a random file below dir; each kind of file is as likely as the others.
func hurt(t *testing.T, dir string, seed uint64) damage {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	kinds := map[string][]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "lock" {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		kind := rel
		switch parts := strings.Split(rel, string(filepath.Separator)); {
		case len(parts[0]) == 26:
			kind = strings.Join(parts[1:], "/")
		case len(parts) > 1:
			kind = filepath.Dir(rel)
		}
		kinds[kind] = append(kinds[kind], rel)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for k := range kinds {
		names = append(names, k)
	}
	slices.Sort(names)
	files := kinds[names[rng.IntN(len(names))]]
	d := damage{seed: seed, file: files[rng.IntN(len(files))]}
	path := filepath.Join(dir, d.file)
	raw, err := os.ReadFile(path)
	written, statErr := os.Stat(path)
	if err = errors.Join(err, statErr); err != nil {
		t.Fatal(err)
	}
	switch way := rng.IntN(4); {
	case way == 0 || len(raw) == 0:
		d.what = "removed"
		err = os.Remove(path)
	case way == 1:
		n := rng.IntN(len(raw))
		d.what = fmt.Sprintf("cut to %d of %d bytes", n, len(raw))
		err = os.WriteFile(path, raw[:n], 0o640)
	default:
		at, bit := rng.IntN(len(raw)), rng.IntN(8)
		raw[at] ^= 1 << bit
		d.what = fmt.Sprintf("bit %d of byte %d of %d flipped", bit, at, len(raw))
		err = os.WriteFile(path, raw, 0o640)
	}
	if err == nil && d.what != "removed" {
		err = os.Chtimes(path, written.ModTime(), written.ModTime()) // a disk that forgets does not say when
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestRandomDamage changes one file of a closed store at random. The store opens, takes samples and
// answers; no sample has another value; and each that is missing lies in a gap that is told
// with its file.
func TestRandomDamage(t *testing.T) {
	whole := wholeStore(t)
	total := 0
	for _, p := range whole.want {
		total += len(p)
	}
	t.Logf("%d series, %d samples", len(whole.want), total)
	for seed := range uint64(damageSeeds(t)) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "series")
			if out, err := exec.Command("cp", "-a", whole.dir, dir).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			d := hurt(t, dir, seed)
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
			if missing > 0 && !strings.Contains(log.String(), strings.Split(d.file, "/")[0]) {
				t.Errorf("%s: nobody is told of the file:\n%s", d, &log)
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
func (d *damagedStore) compare(t *testing.T, s *Store, what damage) (missing, untold int) {
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

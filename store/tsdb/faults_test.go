package tsdb

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reckon/metric"
	"reckon/store"
	"reckon/store/storetest"
)

func TestSecondOpenerIsTold(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Dir: dir})
	_, err := Open(Options{Dir: dir})
	if !errors.Is(err, store.ErrLocked) {
		t.Fatalf("got %v, want ErrLocked", err)
	}
	for _, want := range []string{dir, "process "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("message %q lacks %q", err, want)
		}
	}
	s.Close()
	open(t, Options{Dir: dir}) // free again
}

// twoBlocks makes a store with two blocks and a head, and returns the samples' times.
func twoBlocks(t *testing.T, dir string) (from, to time.Time) {
	t.Helper()
	to = storetest.Now()
	from = to.Add(-8 * time.Hour)
	s := open(t, Options{Dir: dir})
	series := fleet(3)
	var b metric.Batch
	for at := from; !at.After(to); at = at.Add(time.Minute) {
		fill(&b, at, series, float64(at.Unix()))
		if err := s.Append(t.Context(), external, &b); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(s.db.Blocks()) < 2 {
		t.Fatalf("%d blocks, want two at least", len(s.db.Blocks()))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return from, to
}

func TestCorruptBlocksAreMovedAside(t *testing.T) {
	for _, damage := range []struct {
		name string
		do   func(block string) error
	}{
		{"meta is torn", func(b string) error { return os.WriteFile(filepath.Join(b, "meta.json"), []byte(`{"ver`), 0o600) }},
		{"meta is gone", func(b string) error { return os.Remove(filepath.Join(b, "meta.json")) }},
		{"index is empty", func(b string) error { return os.Truncate(filepath.Join(b, "index"), 0) }},
		{"index is cut", func(b string) error { return os.Truncate(filepath.Join(b, "index"), 100) }},
		{"chunks are cut", func(b string) error { return os.Truncate(filepath.Join(b, "chunks", "000001"), 60) }},
		{"a chunk has a wrong byte", func(b string) error {
			name := filepath.Join(b, "chunks", "000001")
			raw, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			raw[len(raw)/2] ^= 0x40
			return os.WriteFile(name, raw, 0o600)
		}},
	} {
		t.Run(damage.name, func(t *testing.T) {
			dir := t.TempDir()
			from, to := twoBlocks(t, dir)
			blocks, err := filepath.Glob(filepath.Join(dir, "01*"))
			if err != nil || len(blocks) == 0 {
				t.Fatal("no blocks", err)
			}
			if err := damage.do(blocks[0]); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			s := open(t, Options{Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			kept, err := filepath.Glob(filepath.Join(dir, corruptDir, filepath.Base(blocks[0])+"-*"))
			if err != nil || len(kept) != 1 {
				t.Errorf("block is not in %s/: %v %v", corruptDir, kept, err)
			}
			if !strings.Contains(log.String(), "is left out") || !strings.Contains(log.String(), filepath.Base(blocks[0])) {
				t.Errorf("nothing said about the block:\n%s", &log)
			}
			n := 0
			for _, p := range storetest.Read(t, s, from, to, storetest.MatchName(cpuDesc.Name)) {
				n = len(p)
			}
			if n < 120 {
				t.Errorf("%d samples left per series; the other block and the head hold more", n)
			}
		})
	}
}

func TestLeftoversOfCompactionAreRemoved(t *testing.T) {
	dir := t.TempDir()
	from, to := twoBlocks(t, dir)
	for _, name := range []string{"01ARZ3NDEKTSV4RRFFQ69G5FAV.tmp-for-creation", "01ARZ3NDEKTSV4RRFFQ69G5FAW.tmp-for-deletion", "wal/checkpoint.00000001.tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "chunks"), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, Options{Dir: dir})
	for k, p := range storetest.Read(t, s, from, to, storetest.MatchName(cpuDesc.Name)) {
		if len(p) != 8*60+1 {
			t.Errorf("%s: %d samples, want %d", k, len(p), 8*60+1)
		}
	}
	left, _ := filepath.Glob(filepath.Join(dir, "*tmp*"))
	if len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestLogThatCanNotBeRepairedIsSetAside(t *testing.T) {
	dir := t.TempDir()
	from, to := twoBlocks(t, dir)
	// A checkpoint that is a file is nothing the database can repair.
	if err := os.WriteFile(filepath.Join(dir, "wal", "checkpoint.99999999"), []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s := open(t, Options{Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, p := range storetest.Read(t, s, from, to, storetest.MatchName(cpuDesc.Name)) {
		if len(p) < 120 {
			t.Errorf("%d samples left; the blocks hold more", len(p))
		}
	}
	var b metric.Batch
	fill(&b, to.Add(time.Minute), fleet(1), 1)
	if err := s.Append(t.Context(), external, &b); err != nil {
		t.Error(err)
	}
	t.Log(log.String())
}

func TestUnwritableDirectoryIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: filepath.Join(file, "store")}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v", err)
	}
}

// smallDisk mounts a file system of a few megabytes, which takes root.
func smallDisk(t *testing.T, bytes string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+bytes); err != nil {
		t.Skipf("mount a small file system: %v (needs root)", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

func TestReserveIsKeptFree(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Dir: dir, Reserve: 1 << 62})
	var b metric.Batch
	fill(&b, storetest.Now(), fleet(1), 1)
	err := s.Append(t.Context(), external, &b)
	if !errors.Is(err, store.ErrFull) || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v", err)
	}
}

// The disk fills to the last byte, so that the log is torn in the middle of a record,
// and has room again: nothing that was acknowledged is lost, neither before nor after.
func TestFullDisk(t *testing.T) {
	disk := smallDisk(t, "6m")
	dir := filepath.Join(disk, "store")
	s := open(t, Options{Dir: dir, Reserve: -1})
	series := fleet(2000)
	ballast := filepath.Join(disk, "ballast")
	var b metric.Batch
	at := storetest.Now().Add(-time.Hour)
	var acked []int64
	push := func() error {
		at = at.Add(time.Second)
		fill(&b, at, series, float64(at.UnixNano())/7)
		err := s.Append(t.Context(), external, &b)
		if err == nil {
			acked = append(acked, at.UnixMilli())
		}
		return err
	}
	for range 3 {
		if err := push(); err != nil {
			t.Fatal(err)
		}
	}
	fillDisk(t, ballast)
	var err error
	for range 100 {
		if err = push(); err != nil {
			break
		}
	}
	if !errors.Is(err, store.ErrFull) {
		t.Fatalf("full disk: %v, want ErrFull", err)
	}
	if !strings.Contains(err.Error(), dir) {
		t.Errorf("message %q does not name the directory", err)
	}
	if err := push(); !errors.Is(err, store.ErrFull) {
		t.Errorf("still full: %v, want ErrFull", err)
	}
	if got := storetest.Read(t, s, at.Add(-time.Hour), at, storetest.MatchName(cpuDesc.Name)); len(got) != len(series) {
		t.Errorf("queries while full: %d series", len(got))
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := push(); err != nil {
			t.Fatalf("after space was freed: %v", err)
		}
	}
	check := func(s *Store) {
		t.Helper()
		for k, p := range storetest.Read(t, s, at.Add(-time.Hour), at, storetest.MatchName(cpuDesc.Name)) {
			have := map[int64]bool{}
			for _, x := range p {
				have[x.T] = true
			}
			for _, want := range acked {
				if !have[want] {
					t.Fatalf("%s: acknowledged sample of %d is lost", k, want)
				}
			}
		}
	}
	check(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check(open(t, Options{Dir: dir, Reserve: -1}))
}

// fillDisk writes until there is no room left.
func fillDisk(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 4096)
	for {
		if _, err := f.Write(block); err != nil {
			var pe *fs.PathError
			if !errors.As(err, &pe) || !isDiskFull(err) {
				t.Fatal(err)
			}
			return
		}
	}
}

func TestRepairWaitsForQueries(t *testing.T) {
	s := open(t, Options{})
	var b metric.Batch
	fill(&b, storetest.Now(), fleet(1), 1)
	if err := s.Append(t.Context(), external, &b); err != nil {
		t.Fatal(err)
	}
	q, err := s.Querier(0, time.Now().UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	s.torn.Store(true)
	if err := s.Append(t.Context(), external, &b); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("append during a query: %v, want ErrDamaged", err)
	}
	q.Close()
	q.Close() // twice does no harm
	if err := s.Append(t.Context(), external, &b); err != nil {
		t.Errorf("append after the query: %v", err)
	}
	for _, p := range storetest.Read(t, s, time.Unix(0, 0), time.Now(), storetest.MatchName(cpuDesc.Name)) {
		if len(p) != 1 {
			t.Errorf("%d samples, want 1", len(p))
		}
	}
}

package tsdb

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
)

// TestStripes: maps have six series on average at most, and three at least.
func TestStripes(t *testing.T) {
	for series, want := range map[int]int{0: 512, 3072: 512, 3073: 1024, 100_000: 32768, 300_000: 65536, 330_000: 65536, 3_100_000: 524288, 1 << 30: 524288} {
		if n := stripeCount(series); n != want {
			t.Errorf("%d series: %d maps, want %d", series, n, want)
		}
	}
}

// TestSizeIsNoted: a store that had more series than was expected is opened with tables for them, also after a while of fewer; a
// damaged note changes nothing.
func TestSizeIsNoted(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	reopen := func(write int) int {
		t.Helper()
		s, err := Open(Options{Dir: dir, Clock: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		app := s.AppenderV2(t.Context())
		for i := range write {
			if _, err := app.Append(0, labels.FromStrings("__name__", fmt.Sprint("m", i)), 0, now.UnixMilli(), 1, nil, nil, storage.AOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := app.Commit(); err != nil {
			t.Fatal(err)
		}
		n := s.dbOptions().StripeSize
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i, c := range []struct{ write, want int }{{10, 512}, {7000, 512}, {0, 2048}, {0, 2048}} {
		if n := reopen(c.write); n != c.want {
			t.Errorf("start %d: %d maps, want %d", i, n, c.want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, notedLogsFile), []byte(`{"series":90000000,"files":{}}`+"\n#crc32c 00000000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := reopen(0); n != 512 {
		t.Errorf("a damaged note gives %d maps", n)
	}
	if n := reopen(0); n != 2048 {
		t.Errorf("it is not written again: %d maps", n)
	}
}

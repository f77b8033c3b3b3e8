package tsdb

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/tombstones"

	"reckon/metric"
	"reckon/store/storetest"
)

// TestBackup copies a store while nodes write to it, in order and out of order: the copy
// holds all that was acknowledged before, and opens like any store.
func TestBackup(t *testing.T) {
	s := open(t, Options{})
	now := storetest.Now()
	const nodes, before = 3, 50
	write := func(node, k int) {
		var b metric.Batch
		fill(&b, now.Add(time.Duration(k)*time.Second), fleet(20), float64(k))
		if err := s.Append(t.Context(), map[string]string{"node": fmt.Sprint("n", node)}, &b); err != nil {
			t.Error(err)
		}
	}
	for n := range nodes {
		for k := range before {
			write(n, 1000+k)
			write(n, k) // late
		}
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for n := range nodes {
		wg.Go(func() {
			for k := 2000; ; k++ {
				select {
				case <-stop:
					return
				default:
					write(n, k%600+1050)
				}
			}
		})
	}
	dir := filepath.Join(t.TempDir(), "copy")
	err := s.Backup(t.Context(), dir)
	close(stop)
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, Options{Dir: dir})
	got := storetest.Read(t, c, now.Add(-time.Hour), now.Add(time.Hour), storetest.MatchName(cpuDesc.Name))
	if len(got) != nodes*20 {
		t.Errorf("the copy has %d series, want %d", len(got), nodes*20)
	}
	for name, points := range got {
		at := map[int64]bool{}
		for _, p := range points {
			at[(p.T-now.UnixMilli())/1000] = true
		}
		for k := range int64(before) {
			if !at[k] || !at[1000+k] {
				t.Fatalf("%s lacks second %d or %d of %d samples", name, k, 1000+k, len(points))
			}
		}
	}
	if c.Metadata()[cpuDesc.Name].Help != cpuDesc.Help {
		t.Error("the copy has no descriptions")
	}
	if err := s.Backup(t.Context(), filepath.Join(t.TempDir(), "again")); err != nil {
		t.Errorf("a second copy: %v", err)
	}
}

func TestBackupOfNothing(t *testing.T) {
	s := open(t, Options{})
	dir := filepath.Join(t.TempDir(), "copy")
	if err := s.Backup(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	open(t, Options{Dir: dir})
}

// TestBackupOfImported copies blocks that were imported, and one of a version that wrote
// them without the file of what was deleted.
func TestBackupOfImported(t *testing.T) {
	s := open(t, Options{})
	old := storetest.Now().Add(-365 * 24 * time.Hour)
	for i := range 2 {
		h := &History{}
		past := h.Series(labels.FromStrings("__name__", "past", "n", fmt.Sprint(i)))
		if err := past.Add(old.UnixMilli(), 1); err != nil {
			t.Fatal(err)
		}
		if err := s.ImportBlocks(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	lacking, err := filepath.Glob(filepath.Join(s.opts.Dir, "*", tombstones.TombstonesFilename))
	if err != nil || len(lacking) != 2 {
		t.Fatalf("%d blocks have the file, want 2: %v", len(lacking), err)
	}
	if err := os.Remove(lacking[0]); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "copy")
	if err := s.Backup(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	c := open(t, Options{Dir: dir})
	if got := storetest.Read(t, c, old.Add(-time.Hour), old.Add(time.Hour), storetest.MatchName("past")); len(got) != 2 {
		t.Errorf("the copy has %d of 2 series that were imported", len(got))
	}
}

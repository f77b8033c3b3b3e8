package tsdb

import (
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
)

// A query that does not end is passed over: the store closes without it and unmaps nothing, and the next opening finds everything.
func TestCloseWithAQueryUnderWay(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	log := &strings.Builder{}
	s := open(t, Options{Dir: dir})
	app := s.AppenderV2(t.Context())
	ls := labels.FromStrings("__name__", "up")
	if _, err := app.Append(0, ls, 0, now.UnixMilli(), 1, nil, nil, storage.AOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := app.Commit(); err != nil {
		t.Fatal(err)
	}
	q, err := s.Querier(0, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > closeWait+10*time.Second || took < closeWait {
		t.Errorf("closing took %s", took)
	}
	set := q.Select(t.Context(), false, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", "up"))
	if !set.Next() { // what it reads is still mapped
		t.Error("the query under way finds nothing any more")
	}
	// As another process sees it, once this one has ended.
	next := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(next, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	again := open(t, Options{Dir: next, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if st, err := again.Status(); err != nil || st.Series != 1 {
		t.Errorf("%+v, %v after the next start", st, err)
	}
	if strings.Contains(log.String(), "WARN") || strings.Contains(log.String(), "ERROR") {
		t.Errorf("the next start says: %s", log)
	}
	_ = q.Close()
	_ = s.db.Close()
}

// While a query does not end, nothing that it may read is written out of memory or deleted.
func TestNothingLeavesWhileAQueryDoesNotEnd(t *testing.T) {
	stuck := 1
	s := open(t, Options{Dir: t.TempDir(), Stuck: func() int { return stuck }})
	c := compactor{s: s}
	if _, err := c.Write("", nil, 0, 1, nil); err == nil {
		t.Error("memory is written to a block, and the database waits for its readers")
	}
	if plan, err := c.Plan(""); err != nil || plan != nil {
		t.Errorf("%v, %v is planned", plan, err)
	}
}

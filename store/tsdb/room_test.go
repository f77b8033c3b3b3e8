package tsdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"reckon/internal/durable"
	"reckon/metric"
	"reckon/store"
	"reckon/store/storetest"
)

// fullDir makes the test binary a process that opens the store there: the database ends the
// process where it cannot write. Where the store is empty it fills it and leaves it as a kill
// would.
const fullDir = "RECKON_TSDB_FULL_DIR"

const fullSeries = 500

func openOnFullDisk(dir string) error {
	now := time.Now().Truncate(blockRange).Add(90 * time.Minute)
	empty := !durable.Exists(filepath.Join(dir, "wal"))
	s, err := Open(Options{Dir: dir, Clock: func() time.Time { return now }})
	if err != nil {
		return err
	}
	var b metric.Batch
	if empty {
		for i := range 250 { // two chunks of each series are full
			fill(&b, now.Add(time.Duration(i-250)*15*time.Second), fleet(fullSeries), float64(i*7919%1000)/7)
			if err := s.Append(context.Background(), external, &b); err != nil {
				return err
			}
		}
		os.Exit(0)
	}
	fill(&b, now, fleet(1), 1)
	if err := s.Append(context.Background(), external, &b); !errors.Is(err, store.ErrFull) {
		return fmt.Errorf("it takes samples: %w", err)
	}
	q, err := s.Querier(now.Add(-2*time.Hour).UnixMilli(), now.UnixMilli())
	if err != nil {
		return err
	}
	n := 0
	for set := q.Select(context.Background(), false, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", cpuDesc.Name)); set.Next(); n++ {
	}
	fmt.Println(n, "series")
	return errors.Join(q.Close(), s.Close())
}

// A store that was killed opens on a disk that has filled since, answers and takes nothing; and
// where not even that is possible it reports the reason, and the process goes on.
func TestOpenOnFullDisk(t *testing.T) {
	disk := smallDisk(t, "120m")
	dir := filepath.Join(disk, "store")
	run := func() (string, error) {
		t.Helper()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fullDir+"="+dir)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !durable.Exists(filepath.Join(dir, ballastFile)) {
		t.Error("no room is held back")
	}
	fillDisk(t, filepath.Join(disk, "others"))
	if out, err := run(); err != nil || !strings.Contains(out, fmt.Sprint(fullSeries, " series")) {
		t.Errorf("on a full disk: %v: %.500s", err, out)
	}
	fillDisk(t, filepath.Join(disk, "more")) // what was held back is taken, too
	if out, err := run(); err == nil || strings.Contains(out, "panic") || !strings.Contains(out, "free space and start again") {
		t.Errorf("without any room: %v: %.500s", err, out)
	}
	for _, name := range []string{"others", "more"} {
		if err := os.Remove(filepath.Join(disk, name)); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, Options{Dir: dir})
	if n := s.db.Head().NumSeries(); n != fullSeries || !durable.Exists(filepath.Join(dir, ballastFile)) {
		t.Errorf("%d series, and with room again it holds some back: %t", n, durable.Exists(filepath.Join(dir, ballastFile)))
	}
}

// On a full disk series that ended stay in memory, which is stated once and tried again a quarter of an hour later; with
// room again they are written out.
func TestEndedSeriesOnFullDisk(t *testing.T) {
	disk := smallDisk(t, "96m")
	var clock storetest.Clock
	now := clock.Set(time.Now().Truncate(blockRange).Add(time.Minute))
	var log bytes.Buffer
	s := open(t, Options{Dir: filepath.Join(disk, "store"), Clock: clock.Now, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ended(t, s, now, "n", maxEndedSeries+1)
	fillDisk(t, filepath.Join(disk, "others"))
	tries := func() int { return strings.Count(log.String(), "stay in memory") }
	s.evictEnded(s.db)
	if !s.noRoom || tries() != 1 || !strings.Contains(log.String(), disk) {
		t.Fatalf("no room %t: %s", s.noRoom, &log)
	}
	at := s.evicted
	clock.Set(now.Add(time.Minute))
	if s.evictEnded(s.db); s.evicted != at {
		t.Error("it is tried again at once")
	}
	clock.Set(now.Add(minEvictInterval))
	if s.evictEnded(s.db); s.evicted == at || tries() != 1 {
		t.Errorf("it is not tried again, or said twice: %s", &log)
	}
	if err := os.Remove(filepath.Join(disk, "others")); err != nil {
		t.Fatal(err)
	}
	clock.Set(now.Add(2 * minEvictInterval))
	if s.evictEnded(s.db); s.noRoom || s.db.Head().NumSeries() > maxEndedSeries {
		t.Errorf("with room again %d series are in memory: %s", s.db.Head().NumSeries(), &log)
	}
}

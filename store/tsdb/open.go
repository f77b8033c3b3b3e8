package tsdb

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	promtsdb "github.com/prometheus/prometheus/tsdb"
)

// openDB opens the database. It moves parts of the logs aside that cannot be repaired.
//
// It opens the database several times because of two problems. The database does not read its out-of-order log after it
// has repaired the other log, so it is opened again. After a crash, the out-of-order log may refer to chunks that were
// never written. The database assumes that they exist if newer ones do, so a second crash would lose samples. openDB
// therefore removes those chunk files, which are only a cache, and writes the out-of-order samples to a block at once.
func (s *Store) openDB(crashed bool) error {
	begin := time.Now()
	s.generation.Add(1)
	ooo := crashed && hasContents(filepath.Join(s.opts.Dir, "wbl"))
	db, err := s.openDroppingChunks(ooo)
	if err == nil && s.logWasRepaired() {
		s.log.Warn("the write-ahead log ended in the middle of a record, as after a crash; it was cut there", "dir", s.opts.Dir)
		if err = db.Close(); err == nil {
			db, err = s.openDroppingChunks(ooo) // the first opening wrote chunks, and read no sample out of order
		}
	}
	for _, names := range [][]string{{"chunks_head"}, {"chunks_head", "wal", "wbl"}} {
		if err == nil || !isDamage(err) {
			break
		}
		if aside := s.setHeadAside(err, names...); aside != nil {
			return fmt.Errorf("%w (and could not set %s aside: %w)", err, strings.Join(names, ", "), aside)
		}
		db, err = s.openPrometheusDB()
	}
	if err != nil {
		if isDiskFull(err) {
			return diskFullError(s.opts.Dir, err)
		}
		return err
	}
	if ooo {
		if err := db.CompactOOOHead(context.Background()); err != nil {
			s.log.Warn("samples out of order stay in the log", "err", err)
		}
	}
	s.db = db
	s.head.Store(db.Head())
	s.replay.Store(int64(time.Since(begin)))
	s.ooo.Store(s.opts.OutOfOrder.Milliseconds())
	return nil
}

// openDroppingChunks opens the database. If drop is set, it first removes the chunk files, which cannot be trusted then.
func (s *Store) openDroppingChunks(drop bool) (*promtsdb.DB, error) {
	if drop {
		if err := os.RemoveAll(filepath.Join(s.opts.Dir, "chunks_head")); err != nil {
			return nil, err
		}
	}
	return s.openPrometheusDB()
}

func (s *Store) openPrometheusDB() (*promtsdb.DB, error) {
	s.wal, s.own = promtsdb.NewDBStats(), prometheus.NewRegistry()
	return promtsdb.Open(s.opts.Dir, slog.New(noiseFilter{s.log.Handler(), s.lost}), s.own, s.dbOptions(), s.wal)
}

// logWasRepaired reports whether the database cut a log when it was last opened.
func (s *Store) logWasRepaired() bool {
	families, err := s.own.Gather()
	if err != nil {
		return false
	}
	for _, f := range families {
		if f.GetName() == "prometheus_tsdb_wal_corruptions_total" {
			for _, m := range f.GetMetric() {
				return m.GetCounter().GetValue() > 0
			}
		}
	}
	return false
}

// Gather returns the database's own metrics (prometheus_tsdb_...), for /metrics: the Store is a prometheus.Gatherer.
func (s *Store) Gather() ([]*dto.MetricFamily, error) {
	if _, err := s.acquire(); err != nil {
		return nil, err
	}
	defer s.gate.release()
	return s.own.Gather()
}

// hasContents reports whether any file of dir has contents.
func hasContents(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && !info.IsDir() && info.Size() > 0 {
			return true
		}
	}
	return false
}

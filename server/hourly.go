package server

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/storage"

	"reckon/store"
	"reckon/store/hourly"
	"reckon/store/tsdb"
)

// HourlyDir is the folder of the data directory with one sample per hour of each series.
const HourlyDir = "hourly"

// minRetentionForHours is the shortest sample retention that leaves time to compute hours.
const minRetentionForHours = 48 * time.Hour

// layeredStore is the embedded store. For times before its oldest sample, it reads the hourly store.
type layeredStore struct {
	*tsdb.Store
	hourly *hourly.Store
}

var _ store.Series = layeredStore{}

func (l layeredStore) Querier(mint, maxt int64) (storage.Querier, error) {
	return l.hourly.Querier(mint, maxt)
}

func (l layeredStore) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	return l.hourly.ChunkQuerier(mint, maxt)
}

// Gaps returns the samples and hours that were lost to damage.
func (l layeredStore) Gaps(from, to time.Time) []store.Gap {
	return append(l.Store.Gaps(from, to), l.hourly.Gaps(from, to)...)
}

// Close leaves the hours open while queries may still read them.
func (l layeredStore) Close() error {
	err := l.Store.Close()
	if l.InUse() {
		return err
	}
	return errors.Join(l.hourly.Close(), err)
}

// abandonedQueries returns the number of abandoned queries that still compute.
func (s *Server) abandonedQueries() int {
	if e := s.answers.Load(); e != nil {
		return e.Abandoned()
	}
	return 0
}

// openEmbedded opens the store in the data directory. It also opens the hourly store beside it, unless that is
// disabled. If the size of the data is limited, the hourly store gets no more than a quarter of the limit.
func (s *Server) openEmbedded() error {
	c := &s.config
	var hours atomic.Pointer[hourly.Store]
	embedded, err := tsdb.Open(tsdb.Options{
		Dir: filepath.Join(c.Data, seriesDir), Retention: c.Retention, MaxBytes: c.MaxBytes,
		OutOfOrder: c.OutOfOrder, Series: c.Series, Logger: s.log, Stuck: s.abandonedQueries,
		Beside: func() int64 {
			if h := hours.Load(); h != nil {
				return h.Bytes()
			}
			return 0
		},
	})
	if err != nil {
		return err
	}
	s.series, s.samples = embedded, embedded
	if c.Hourly <= 0 {
		return nil
	}
	if c.Retention > 0 && c.Retention < minRetentionForHours {
		s.log.Info("no figures an hour are kept: --retention is shorter than two days", "retention", c.Retention)
		return nil
	}
	h, err := hourly.Open(hourly.Options{
		Dir: filepath.Join(c.Data, HourlyDir), Raw: embedded, Retention: c.Hourly, MaxBytes: c.MaxBytes / 4, Stuck: s.abandonedQueries,
		Logger: s.log,
	})
	if err != nil {
		return err // the store is closed with the server
	}
	hours.Store(h)
	s.hourly, s.series = h, layeredStore{embedded, h}
	return nil
}

// openKeptHours opens the hourly store of a data directory, or returns nil if there is none. samples is the open store of
// the same directory. openKeptHours deletes no data.
func openKeptHours(data string, samples *tsdb.Store, log *slog.Logger) (*hourly.Store, error) {
	dir := filepath.Join(data, HourlyDir)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return hourly.Open(hourly.Options{Dir: dir, Raw: samples, Logger: log})
}

package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/prometheus/storage"

	"reckon/catalogue"
	"reckon/catalogue/database"
	"reckon/internal/dirty"
	"reckon/store"
	"reckon/store/remote"
	"reckon/store/tsdb"
)

// Places are the locations of a stopped server's data; see Config.
type Places struct{ Data, Store, Catalogue string }

// Rebuild deletes the rows of a catalogue and builds them again from the series. It keeps rows that are older than the
// series. It returns the number of rows. No server may use the data directory.
func Rebuild(ctx context.Context, at Places, log *slog.Logger, progress func(at time.Time, rows int)) (n int, err error) {
	if err := CheckStores(at.Store, at.Catalogue); err != nil {
		return 0, err
	}
	rows, err := at.openDatabase(ctx, log)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	series, closeSeries, err := at.openSeries(log, rows)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, closeSeries()) }()
	return catalogue.NewBuilder(series, rows, catalogue.BuilderOptions{Logger: log}).Rebuild(ctx, progress)
}

func (p Places) openDatabase(ctx context.Context, log *slog.Logger) (*database.Catalogue, error) {
	if p.Catalogue != "" {
		return openAlone(ctx, p.Catalogue, log)
	}
	return database.Open(filepath.Join(p.Data, catalogueFile), log)
}

// openSeries opens the series. For a remote store, the catalogue records which hours received late samples.
func (p Places) openSeries(log *slog.Logger, facts *database.Catalogue) (storage.Queryable, func() error, error) {
	if p.Store != "" {
		s, err := remote.Open(remote.Options{URL: p.Store, Natives: nativeNames(), Logger: log,
			Dirty: dirty.State{Facts: facts, Key: dirtyKey}})
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	}
	dir := filepath.Join(p.Data, seriesDir)
	if _, err := os.Stat(dir); err != nil {
		return nil, nil, fmt.Errorf("no series in %s: %w; name the directory of a server with --data", p.Data, err)
	}
	s, err := tsdb.Open(tsdb.Options{Dir: dir, Retention: -1, Logger: log})
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}

// deleteExpired removes data older than the retained history once a day.
func (s *Server) deleteExpired(ctx context.Context) error {
	if s.config.History <= 0 {
		return nil
	}
	return store.Repeat(ctx, 0, 24*time.Hour, 0, func(ctx context.Context) error {
		before := time.Now().Add(-s.config.History)
		n, err := s.catalogue.Trim(ctx, before)
		if n > 0 {
			s.log.Info("old history was forgotten", "workloads", n)
		}
		if err == nil {
			_, err = s.catalogue.TrimMetricRuns(ctx, before)
		}
		return err
	}, func(err error) { s.log.Error("the old history stays for another day", "err", err) })
}

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

	"reckon/catalogue/database"
	"reckon/graph/embedded"
	"reckon/server/migrate"
	"reckon/store/remote"
	"reckon/store/tsdb"
)

// Migrated is the result of a migration.
type Migrated struct {
	Series    *migrate.Result // nil when none were asked for
	Workloads int
	Findings  int
	Hours     int // of roll-ups
}

// Migrate copies the series of a stopped server's data directory to another store, and its catalogue to a PostgreSQL
// database. An empty address skips that copy. progress may be nil.
func Migrate(ctx context.Context, data, series, catalogue string, log *slog.Logger, progress func(migrate.Result, time.Time)) (m Migrated,
	err error) {
	if err := CheckStores(series, catalogue); err != nil {
		return m, err
	}
	if _, err := os.Stat(filepath.Join(data, seriesDir)); err != nil {
		return m, fmt.Errorf("no series in %s: %w; name the directory of a server with --data", data, err)
	}
	from, err := tsdb.Open(tsdb.Options{Dir: filepath.Join(data, seriesDir), Retention: -1, Logger: log})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if series != "" {
		r, err := migrateSeries(ctx, data, series, from, log, progress)
		if m.Series = &r; err != nil {
			return m, err
		}
	}
	if catalogue == "" {
		return m, nil
	}
	own, err := database.Open(filepath.Join(data, catalogueFile), log)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, own.Close()) }()
	to, err := database.OpenURL(ctx, catalogue, log)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if m.Workloads, m.Hours, m.Findings, err = own.CopyTo(ctx, to); err != nil {
		return m, err
	}
	return m, copyGraph(ctx, own, to)
}

// copyGraph copies the knowledge graph from one database to another.
func copyGraph(ctx context.Context, from, to *database.Catalogue) error {
	var stores [2]*embedded.Store
	for i, c := range []*database.Catalogue{from, to} {
		shared := c.Shared()
		s, err := embedded.Open(ctx, embedded.Options{DB: shared.DB, Write: shared.Write, Postgres: shared.Postgres,
			Explain: shared.Explain})
		if err != nil {
			return err
		}
		stores[i] = s
	}
	_, err := stores[0].CopyTo(ctx, stores[1])
	return errors.Join(err, stores[0].Close(), stores[1].Close())
}

func migrateSeries(ctx context.Context, data, address string, from *tsdb.Store, log *slog.Logger,
	progress func(migrate.Result, time.Time)) (r migrate.Result, err error) {
	st, err := from.Status()
	if err != nil {
		return r, err
	}
	to, err := remote.Open(remote.Options{URL: address, Natives: nativeNames(), Logger: log})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if st.Newest.IsZero() {
		return r, fmt.Errorf("there are no series in %s", data)
	}
	for name, m := range from.Metadata() {
		if err := to.Describe(name, m); err != nil {
			return r, err
		}
	}
	var samples storage.Queryable = from
	hours, err := openKeptHours(data, from, log)
	if err != nil {
		return r, err
	}
	if hours != nil {
		defer func() { err = errors.Join(err, hours.Close()) }()
		samples = hours // of the time without samples
		if at, ok := hours.Oldest(); ok && at.Before(st.Oldest) {
			st.Oldest = at
		}
	}
	return migrate.Run(ctx, migrate.Options{
		From: samples, Oldest: st.Oldest, Newest: st.Newest, To: to, State: data,
		Progress: func(r migrate.Result) {
			if progress != nil {
				progress(r, st.Newest)
			}
		},
	})
}

package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"reckon/query"
	"reckon/store/catalogue"
	"reckon/store/tsdb"
)

// Rebuild empties the catalogue of a data directory and builds it again from the
// series, and returns how many rows it wrote. No server may have the directory open.
func Rebuild(ctx context.Context, data string, log *slog.Logger, progress func(at time.Time, rows int)) (n int, err error) {
	dir := filepath.Join(data, "series")
	if _, err := os.Stat(dir); err != nil {
		return 0, fmt.Errorf("no series in %s: %w; name the directory of a server with --data", data, err)
	}
	series, err := tsdb.Open(tsdb.Options{Dir: dir, Retention: -1, Logger: log})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, series.Close()) }()
	facts, err := catalogue.Open(filepath.Join(data, "catalogue.db"), log)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, facts.Close()) }()
	return query.NewBuilder(series, facts, query.BuilderOptions{Logger: log}).Rebuild(ctx, progress)
}

package simulation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"reckon/catalogue"
	"reckon/catalogue/database"
	"reckon/store/tsdb"
)

// Filled counts the data written to a data directory.
type Filled struct {
	Progress
	Workloads int           // rows of the catalogue
	Writing   time.Duration // time to write the series
	Counting  time.Duration // time to build the catalogue
}

// WriteHistory simulates the fleet over stretches of the past and writes the data to dir, the data directory of a
// stopped server. The fleet can continue afterwards.
func WriteHistory(ctx context.Context, f *Fleet, dir, site string, log *slog.Logger, stretches ...Stretch) (done Filled, err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return done, fmt.Errorf("make the data directory: %w; choose another one with --data", err)
	}
	series, err := tsdb.Open(tsdb.Options{Dir: filepath.Join(dir, "series"), Retention: -1, OutOfOrder: time.Hour, Logger: log})
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, series.Close()) }()
	facts, err := database.Open(filepath.Join(dir, "catalogue.db"), log)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, facts.Close()) }()
	built := func(step string, to time.Time) {
		if last := stretches[len(stretches)-1].Progress; last != nil {
			p := done.Progress
			p.Step, p.Built = step, to
			last(p)
		}
	}
	b := catalogue.NewBuilder(series, facts, catalogue.BuilderOptions{Gone: time.Minute, Progress: built, Logger: log})
	if err := b.Ready(ctx); err != nil {
		return done, err
	}
	began, from := time.Now(), f.Now()
	out := NewHistory(series, site)
	for _, s := range stretches {
		p, err := f.Run(ctx, s, out)
		done.At, done.Live, done.Waiting = p.At, p.Live, p.Waiting
		done.Samples, done.Batches, done.Took, done.Passed = done.Samples+p.Samples, done.Batches+p.Batches, done.Took+p.Took,
			done.Passed+p.Passed
		if err != nil {
			return done, err
		}
	}
	if err := out.Flush(ctx); err != nil {
		return done, err
	}
	done.Writing = time.Since(began)
	if done.Workloads, err = b.History(ctx, [][2]time.Time{{from, f.Now()}}); err != nil {
		return done, err
	}
	done.Counting = time.Since(began) - done.Writing
	return done, nil
}

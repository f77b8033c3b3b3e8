package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"reckon/access/auth"
	"reckon/answer"
	"reckon/catalogue/database"
	"reckon/internal/buildinfo"
	"reckon/server/backup"
	"reckon/store/hourly"
	"reckon/store/tsdb"
	"reckon/web/api"
)

// stateFiles are the files of a data directory beside series, catalogue and users that a
// server goes on from.
var stateFiles = []string{"agent.state", "slurm.json", "alerts", "imports"}

// copier copies what a server keeps.
type copier struct {
	mu     sync.Mutex
	data   string
	series *tsdb.Store // nil where they are elsewhere
	hours  *hourly.Store
	facts  *database.Catalogue
	users  *auth.Keeper
	// elsewhere names what is not in the data directory.
	elsewhere []string
	postgres  bool
}

var _ api.Backup = (*copier)(nil)

func (s *Server) copier() *copier {
	c := &copier{data: s.config.Data, series: s.inside, hours: s.hours, facts: s.facts, users: s.gate.keeper, postgres: s.config.Catalogue != ""}
	c.leaveOut(s.config.Store, s.config.Catalogue)
	return c
}

func (c *copier) leaveOut(series, facts string) {
	if series != "" {
		c.elsewhere = append(c.elsewhere, "the series in "+Shown(series))
	}
	if facts != "" {
		c.elsewhere = append(c.elsewhere, "the catalogue in "+Shown(facts))
	}
}

const copyPrefix = "backup-"

// Backup implements api.Backup. What can be built from the series is copied before them, so
// that the copy of the series holds all that the others tell of.
func (c *copier) Backup(ctx context.Context, begin func() io.Writer) error {
	if !c.mu.TryLock() {
		return answer.Busy("wait until it is done", errors.New("another backup is being made"))
	}
	defer c.mu.Unlock()
	removeCopies(c.data)
	dir, err := os.MkdirTemp(c.data, copyPrefix)
	if err != nil {
		return fmt.Errorf("make room for a backup: %w", err)
	}
	defer os.RemoveAll(dir)
	now := time.Now().UTC()
	if err := backup.Copy(c.data, dir, stateFiles...); err != nil {
		return err
	}
	if err := c.users.Snapshot(ctx, filepath.Join(dir, auth.File)); err != nil {
		return err
	}
	if !c.postgres {
		if err := c.facts.Snapshot(ctx, filepath.Join(dir, "catalogue.db")); err != nil {
			return err
		}
	}
	if c.hours != nil {
		if err := c.hours.Backup(ctx, filepath.Join(dir, HourlyDir)); err != nil {
			return err
		}
	}
	if c.series != nil {
		if err := c.series.Backup(ctx, filepath.Join(dir, "series")); err != nil {
			return err
		}
	}
	return backup.Write(ctx, begin(), dir, backup.Manifest{Version: buildinfo.Get().Version, Time: now, LeftOut: c.elsewhere})
}

// removeCopies removes what a backup that was killed left behind.
func removeCopies(data string) {
	list, err := filepath.Glob(filepath.Join(data, copyPrefix+"*"))
	if err != nil {
		return // the pattern is right
	}
	for _, dir := range list {
		_ = os.RemoveAll(dir) // tried again next time
	}
}

// BackupFiles backs up a data directory that no server has open.
func BackupFiles(ctx context.Context, data string, log *slog.Logger, w io.Writer) (err error) {
	if _, err := os.Stat(filepath.Join(data, auth.File)); err != nil {
		return fmt.Errorf("%s is no data directory of a server: %w; name one with --data", data, err)
	}
	c := &copier{data: data}
	dir := filepath.Join(data, "series")
	if _, err := os.Stat(dir); err == nil {
		if c.series, err = tsdb.Open(tsdb.Options{Dir: dir, Retention: -1, Logger: log}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.series.Close()) }()
		if c.hours, err = keptHours(data, c.series, log); err != nil {
			return err
		}
		if c.hours != nil {
			defer func() { err = errors.Join(err, c.hours.Close()) }()
		}
	} else {
		c.elsewhere = append(c.elsewhere, "the series, which are not in "+data)
	}
	if _, err := os.Stat(filepath.Join(data, "catalogue.db")); err == nil {
		if c.facts, err = database.Open(filepath.Join(data, "catalogue.db"), log); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.facts.Close()) }()
	} else {
		c.postgres = true
		c.elsewhere = append(c.elsewhere, "the catalogue, which is not in "+data)
	}
	if c.users, err = auth.Open(data, auth.Options{}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.users.Close()) }()
	return c.Backup(ctx, func() io.Writer { return w })
}

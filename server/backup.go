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
	"reckon/internal/durable"
	"reckon/server/backup"
	"reckon/store"
	"reckon/store/tsdb"
	"reckon/web/api"
)

// stateFiles are the files of a data directory that a server continues from, besides series, catalogue and users.
var stateFiles = []string{"agent.state", "slurm.json", "alerts", "imports"}

// dataCopier copies the data of a server.
type dataCopier struct {
	mu   sync.Mutex
	data string
	// catalogue is nil if it is in PostgreSQL.
	catalogue interface {
		Snapshot(ctx context.Context, file string) error
	}
	stores []localStore // in the order in which they are copied
	users  *auth.Users
	// elsewhere names the stores outside the data directory.
	elsewhere []string
}

// localStore is a store in a folder of the data directory.
type localStore struct {
	dir string
	store.Local
}

var _ api.Backup = (*dataCopier)(nil)

func (s *Server) newDataCopier() *dataCopier {
	c := &dataCopier{data: s.config.Data, users: s.authn.Users}
	if s.hourly != nil {
		c.stores = append(c.stores, localStore{HourlyDir, s.hourly})
	}
	if local, ok := s.samples.(store.Local); ok {
		c.stores = append(c.stores, localStore{seriesDir, local})
	} else {
		c.elsewhere = append(c.elsewhere, "the series in "+HideParameters(s.config.Store))
	}
	if s.config.Catalogue != "" {
		c.elsewhere = append(c.elsewhere, "the catalogue in "+HideParameters(s.config.Catalogue))
	} else if local, ok := s.catalogue.(*database.Catalogue); ok {
		c.catalogue = local
	}
	return c
}

const copyPrefix = "backup-"

// Backup implements api.Backup. It copies the series last, so that they are at least as recent as the copies of the
// data that is derived from them.
func (c *dataCopier) Backup(ctx context.Context, begin func() io.Writer) error {
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
	if c.catalogue != nil {
		if err := c.catalogue.Snapshot(ctx, filepath.Join(dir, catalogueFile)); err != nil {
			return err
		}
	}
	for _, s := range c.stores {
		if err := s.Backup(ctx, filepath.Join(dir, s.dir)); err != nil {
			return err
		}
	}
	return backup.Write(ctx, begin(), dir, backup.Manifest{Version: buildinfo.Get().Version, Time: now, LeftOut: c.elsewhere})
}

// removeCopies removes leftovers of a killed backup.
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
	c := &dataCopier{data: data}
	if dir := filepath.Join(data, seriesDir); durable.Exists(dir) {
		series, bad := tsdb.Open(tsdb.Options{Dir: dir, Retention: -1, Logger: log})
		if bad != nil {
			return bad
		}
		defer func() { err = errors.Join(err, series.Close()) }()
		hours, bad := openKeptHours(data, series, log)
		if bad != nil {
			return bad
		}
		if hours != nil {
			defer func() { err = errors.Join(err, hours.Close()) }()
			c.stores = append(c.stores, localStore{HourlyDir, hours})
		}
		c.stores = append(c.stores, localStore{seriesDir, series})
	} else {
		c.elsewhere = append(c.elsewhere, "the series, which are not in "+data)
	}
	if file := filepath.Join(data, catalogueFile); durable.Exists(file) {
		rows, bad := database.Open(file, log)
		if bad != nil {
			return bad
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		c.catalogue = rows
	} else {
		c.elsewhere = append(c.elsewhere, "the catalogue, which is not in "+data)
	}
	if c.users, err = auth.Open(data, auth.Options{Logger: log}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.users.Close()) }()
	return c.Backup(ctx, func() io.Writer { return w })
}

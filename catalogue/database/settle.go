package database

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"log/slog"
	"os"

	"reckon/internal/durable"
	"reckon/internal/durable/sqlitelog"
)

// SQLite appends commits to a log beside the file (https://www.sqlite.org/walformat.html) and changes the file only at
// a checkpoint, when it copies the log into it. Checkpoints are made only here, so that the checksum of the file is
// known at any time, even after a kill; see [durable.Pages].

// checkpointBytes is the size of the log in bytes from which it is copied into the file. It equals SQLite's own default.
const checkpointBytes = 4 << 20

// checkpointer copies the log into the file. The caller holds the lock of writers.
type checkpointer struct {
	path  string
	pages *durable.Pages
	// conn stays open: SQLite makes a checkpoint when the last connection is closed.
	conn *sql.Conn
	left int64 // size of the log after the last time: readers may have kept it
	log  *slog.Logger
}

func newCheckpointer(ctx context.Context, db *sql.DB, path string, pages *durable.Pages, log *slog.Logger) (*checkpointer, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, `PRAGMA busy_timeout(0)`); err != nil { // there are no waiting readers
		return nil, errors.Join(err, conn.Close())
	}
	return &checkpointer{path: path, pages: pages, conn: conn, log: log}, nil
}

// checkpoint copies the log into the file if at least from bytes were written since the last time.
func (s *checkpointer) checkpoint(ctx context.Context, from int64) {
	if s == nil {
		return
	}
	size := sqlitelog.Size(s.path)
	s.left = min(s.left, size) // SQLite restarts it once all is copied and no reader is left
	if size-s.left < from {
		return
	}
	err := s.copyLog(context.WithoutCancel(ctx))
	s.left = sqlitelog.Size(s.path)
	if err != nil { // it is tried again, and SQLite reads the log meanwhile
		s.log.Warn("the log of the catalogue could not be copied into its file, or the checksum of that not noted", "file", s.path, "err",
			err)
	}
}

func (s *checkpointer) copyLog(ctx context.Context) error {
	pages, err := sqlitelog.Pages(s.path)
	if err != nil {
		return err
	}
	return s.pages.Change(pages, func() error {
		var busy, frames, copied int
		return s.conn.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &frames, &copied)
	})
}

// close copies the rest of the log.
func (s *checkpointer) close(ctx context.Context) error {
	if s == nil {
		return nil
	}
	s.checkpoint(ctx, 0)
	return s.conn.Close()
}

// removeLog removes the log of a database file that was removed, as SQLite would do.
func removeLog(path string) error {
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

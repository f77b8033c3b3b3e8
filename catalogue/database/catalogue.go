// Package database stores facts about workloads in SQLite (https://sqlite.org, by the pure Go port
// modernc.org/sqlite), so that lists with filters and sorting are answered at once however many
// workloads there are; or in PostgreSQL 12 and later (https://www.postgresql.org/docs/, by
// github.com/jackc/pgx), where several servers share a catalogue or a site backs up its databases.
//
// The catalogue is derived from the series. A damaged file is moved aside and replaced by one with
// its intact parts. If runs or hours are damaged, the new file has a zero watermark, so that the
// builder fills it again. A workload is identified by its site, id and start, because batch systems
// reuse job ids.
//
// Times are milliseconds since the Unix epoch; figures are SI base units, and NULL if they were
// never measured. A Catalogue is safe for concurrent use, also by several processes.
package database

import (
	"context"
	"database/sql"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"modernc.org/sqlite"

	"reckon/internal/durable"
	"reckon/internal/durable/filelimit"
	"reckon/internal/durable/sqlitelog"
	"reckon/store"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

// schemaVersion is the version of the tables in the folder schema, which the table migrations records. Programs up to commit
// ad0587d9 (2026-11-26) reached the same tables through 18 migrations.
const schemaVersion = 18

// Catalogue is a database of workloads.
type Catalogue struct {
	d    *dialect
	path string // or the address, without a password
	db   *sql.DB
	log  *slog.Logger

	write  sync.Mutex // one writer at a time: SQLite would make the others wait anyway
	insert *sql.Stmt
	find   *sql.Stmt
	byKey  *sql.Stmt // selects by a list of keys; nil if lists is

	inserts *inserts // by the figures of a row; nil if parameters are not taken one by one

	lists *listCache // nil if the database has an index for each list

	settler *checkpointer // nil in PostgreSQL

	// fence begins every transaction of a writer; nil if this server is the only one.
	fence func(context.Context, *sql.Tx) error
}

var _ store.Facts = (*Catalogue)(nil)

// checkAlways is the size of a file in bytes up to which every opening checks the whole file. A larger file is checked
// only after an unclean shutdown.
const checkAlways = 32 << 20

// Open opens or creates the catalogue at path. log receives repairs; nil discards them.
func Open(path string, log *slog.Logger) (*Catalogue, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("open catalogue: %w", err)
	}
	pages := durable.NewPages(path)
	err := pages.Check(log)
	var changed *durable.ChangedError
	if errors.As(err, &changed) && !durable.Exists(path) {
		log.Error("the catalogue is missing and is rebuilt from the series. "+onlyInBackups, "file", path)
		err = errors.Join(removeLog(path), durable.ForgetClosed(path))
	} else if errors.As(err, &changed) {
		err = damageReport{err.Error(), changed.Pages}
	} else if err == nil {
		err = sqlitelog.Report(path, pages.LeftOpen, lostWithLog, log)
	}
	var c *Catalogue
	if err == nil {
		c, err = openDatabase(path, pages, log)
	}
	if err != nil && sqliteDialect().corrupt(err) {
		aside := fmt.Sprintf("%s.corrupt-%d", path, time.Now().UnixNano())
		if mv := errors.Join(moveAside(path, aside), durable.ForgetClosed(path)); mv != nil {
			return nil, fmt.Errorf("open catalogue %s: %w (and could not move it aside: %w)", path, err, mv)
		}
		cause := err
		if c, err = openDatabase(path, durable.NewPages(path), log); err == nil {
			var pages damageReport
			errors.As(cause, &pages)
			took, lost, failed := c.salvageTables(context.Background(), aside, pages.pages)
			c.reportMoved(aside, took, lost, cause, failed)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open catalogue %s: %w", path, err)
	}
	return c, nil
}

// onlyInBackups lists the data that cannot be rebuilt.
const onlyInBackups = "Runs and hours older than the series, marks on findings, forecasts, runs of MetricSets and what others wrote to " +
	"the knowledge graph are in backups only: `reckon restore`"

// lostWithLog describes the data lost with the log.
const lostWithLog = "Runs and hours are read again from the series; marks on findings, forecasts, runs of MetricSets and what others " +
	"wrote to the knowledge graph are not: restore a backup if any are missing"

func openDatabase(path string, pages *durable.Pages, log *slog.Logger) (_ *Catalogue, err error) {
	deep := false
	if st, err := os.Stat(path); err == nil {
		deep = st.Size() <= checkAlways
		if wal, err := os.Stat(path + "-wal"); err == nil && wal.Size() > 0 {
			deep = true // the last process did not close it
		}
	}
	restrictMode(path)
	db, err := sql.Open(sqliteDriver, dsn(path))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			db.Close()
		}
	}()
	db.SetMaxOpenConns(5) // one of them is reserved for the settler
	db.SetConnMaxIdleTime(time.Minute)
	c := &Catalogue{d: sqliteDialect(), path: path, db: db, log: log}
	if err := c.verify(context.Background(), deep); err != nil {
		return nil, err
	}
	if err := c.prepare(context.Background()); err != nil {
		return nil, err
	}
	if c.settler, err = newCheckpointer(context.Background(), db, path, pages, log); err != nil {
		return nil, err
	}
	c.settler.checkpoint(context.Background(), 0) // from now on there is a note, and a log
	return c, nil
}

// restrictMode makes the database file unreadable for other users, because it shows who ran what. SQLite gives its auxiliary
// files the same mode. It ignores errors, because SQLite reports them. It does not change a file of another user.
func restrictMode(path string) {
	if f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640); err == nil {
		_ = f.Close() // nothing was written
		return
	}
	if st, err := os.Stat(path); err == nil && st.Mode().Perm()&0o007 != 0 {
		_ = os.Chmod(path, st.Mode().Perm()&^0o007)
	}
}

func (c *Catalogue) prepare(ctx context.Context) (err error) {
	if err := c.createTables(ctx); err != nil {
		return err
	}
	if err := c.addColumns(ctx); err != nil {
		return err
	}
	if c.insert, err = c.db.PrepareContext(ctx, insertSQL); err != nil {
		return err
	}
	if c.find, err = c.db.PrepareContext(ctx, findSQL); err != nil || c.d.indexes {
		return err
	}
	c.inserts = &inserts{db: c.db, by: map[figureSet]*sql.Stmt{}}
	c.lists = newListCache(c.db, &c.write, c.log)
	c.byKey, err = c.db.PrepareContext(ctx, byKeySQL)
	return err
}

// damageReport is the output of quick_check, as an error that counts as corruption.
type damageReport struct {
	text  string
	pages map[int64]bool // damaged pages; nil if unknown
}

func (d damageReport) Error() string { return "check: " + d.text }

func errorCode(err error) (int, bool) {
	if d := (damageReport{}); errors.As(err, &d) {
		return 11, true
	}
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0, false
	}
	return e.Code() & 0xff, true
}

func (c *Catalogue) verify(ctx context.Context, deep bool) error {
	var n int
	if err := c.db.QueryRowContext(ctx, c.d.readable).Scan(&n); err != nil {
		return err
	}
	if !deep {
		return nil
	}
	var verdict string
	if err := c.db.QueryRowContext(ctx, c.d.check).Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return damageReport{text: verdict}
	}
	return nil
}

// createTables creates the tables of an empty database, or checks the version of existing ones.
func (c *Catalogue) createTables(ctx context.Context) error {
	text, err := schemaFiles.ReadFile("schema/" + c.d.name + ".sql")
	if err != nil {
		return err
	}
	return c.changeSchema(ctx, func(tx *sql.Tx) error { // exclusively: creating the same table concurrently fails
		if _, err := tx.ExecContext(ctx, createMigrations); err != nil {
			return err
		}
		var has int
		if err := tx.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM migrations`).Scan(&has); err != nil {
			return err
		}
		switch {
		case has == schemaVersion:
			if c.d.indexes {
				return nil
			}
			_, err := tx.ExecContext(ctx, createStarts)
			return err
		case has > schemaVersion:
			return fmt.Errorf("schema %d is newer than %d, the newest that this program supports, and was left unchanged: "+
				"install the newer reckon again, or restore the data from before the upgrade (`reckon restore`)", has, schemaVersion)
		case has > 0:
			return fmt.Errorf("schema %d is older than %d, the oldest that this program reads, and was left unchanged: "+
				"open it once with the last program that knows it (reckon of commit ad0587d9), or move it away and start an empty one: "+
				"runs and hours are read again from the series. %s", has, schemaVersion, onlyInBackups)
		}
		if !c.d.indexes {
			text = append(text, createStarts...)
		}
		if _, err := tx.ExecContext(ctx, string(text)); err != nil {
			return fmt.Errorf("create the tables: %w", err)
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO migrations (version, name, applied_ms) VALUES ($1, 'schema_1', $2)`, schemaVersion,
			time.Now().UnixMilli())
		return err
	})
}

// createStarts adds an index to SQLite's tables that, with workloads_waits, finds workloads by start. Older programs maintain it as well.
const createStarts = `CREATE INDEX IF NOT EXISTS workloads_unsubmitted ON workloads (start_ms) WHERE submit_ms IS NULL;`

// createMigrations makes the table with the number of the schema.
const createMigrations = `CREATE TABLE IF NOT EXISTS migrations (
	version INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL, applied_ms BIGINT NOT NULL)`

// changeSchema changes the schema in a separate transaction.
func (c *Catalogue) changeSchema(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	if c.d.begin != "" {
		if _, err := tx.ExecContext(ctx, c.d.begin); err != nil {
			return err
		}
	}
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func moveAside(path, to string) error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(path+suffix, to+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Close closes the catalogue; SQLite merges its log into the file.
func (c *Catalogue) Close() error {
	c.lists.close()
	c.write.Lock()
	defer c.write.Unlock()
	if c.d.analyse != "" {
		_, _ = c.db.Exec(c.d.analyse) // optimises the next opening; an error does not matter
	}
	if c.byKey != nil {
		_ = c.byKey.Close() // closing the database closes it too
	}
	c.inserts.close()
	err := errors.Join(c.insert.Close(), c.find.Close(), c.settler.close(context.Background()), c.db.Close())
	if err != nil || c.settler == nil {
		return err
	}
	_ = c.settler.pages.NoteClosed() // without the note only damage goes undetected
	return nil
}

// Drop empties the catalogue, including the watermark.
func (c *Catalogue) Drop(ctx context.Context) error {
	c.write.Lock()
	defer c.write.Unlock()
	tables := []string{"steps", "workloads", "state", "uses", "node_uses", "use_groups"}
	if c.d.indexes {
		tables = append(tables, "workload_nodes", "workload_counts", "workload_names")
	}
	var at int64
	err := c.inTx(ctx, func(tx *sql.Tx) (err error) {
		if at, err = c.lists.countWrite(ctx, tx); err != nil {
			return err
		}
		for _, table := range tables {
			if _, err := tx.ExecContext(ctx, "DELETE FROM "+table); err != nil {
				return err
			}
		}
		return nil
	})
	c.lists.applyWrite(at, nil, err)
	if err != nil {
		return fmt.Errorf("empty catalogue: %w", err)
	}
	if c.d.emptyFile == "" {
		return nil
	}
	if _, err := c.db.ExecContext(ctx, c.d.emptyFile); err != nil {
		c.log.Warn("space of the old catalogue is not given back yet", "err", err)
	}
	c.settler.checkpoint(ctx, 0)
	return nil
}

// inTx runs f in a transaction; the caller holds c.write.
func (c *Catalogue) inTx(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := c.db.BeginTx(ctx, nil)
	if err == nil && c.d.begin != "" {
		if _, err = tx.ExecContext(ctx, c.d.begin); err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}
	if err == nil && c.fence != nil {
		if err = c.fence(ctx, tx); err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}
	if err == nil {
		if err = f(tx); err == nil {
			if err = tx.Commit(); err == nil {
				c.settler.checkpoint(ctx, checkpointBytes)
			}
		} else {
			err = errors.Join(err, tx.Rollback())
		}
	}
	return c.translateError(ctx, err)
}

// translateError translates an error of the database into one of package store.
func (c *Catalogue) translateError(ctx context.Context, err error) error {
	switch {
	case err == nil, errors.Is(err, store.ErrDamaged), errors.Is(err, store.ErrFull), errors.Is(err, store.ErrUnavailable):
		// explained before
		return err
	case c.d.corrupt(err):
		return fmt.Errorf("%w: %s is damaged; restart, or run `reckon catalogue rebuild`: %w", store.ErrDamaged, c.path, err)
	case c.d.full(err):
		return fmt.Errorf("%w: %s: %w", store.ErrFull, c.path, err)
	case c.d.unopened(err):
		return fmt.Errorf(
			"%w: %s cannot be opened any more: the file or its directory is gone or not readable, or this process may not open more "+
				"files (%s): %w",
			store.ErrUnavailable, c.path, filelimit.Remedy, err)
	case c.d.gone(err):
		again := c.recreateTables(ctx)
		return fmt.Errorf("%w: the tables of the catalogue in %s are missing; they are created again and rebuilt from the series: %w",
			store.ErrUnavailable, c.path, errors.Join(err, again))
	case ctx.Err() != nil:
		if !errors.Is(err, ctx.Err()) { // the error of a transaction that the context ended
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return err
	case c.d.away(err):
		return fmt.Errorf("%w: the catalogue in %s is unreachable; is PostgreSQL running? %w", store.ErrUnavailable, c.path, err)
	}
	return err
}

const watermarkKey = "watermark"

// Watermark returns the time up to which the series have been processed.
func (c *Catalogue) Watermark(ctx context.Context) (time.Time, error) {
	raw, err := c.State(ctx, watermarkKey)
	if err != nil || len(raw) != 8 {
		return time.Time{}, err
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(raw))), nil
}

// SetWatermark stores the time up to which the series have been processed.
func (c *Catalogue) SetWatermark(ctx context.Context, t time.Time) error {
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], uint64(t.UnixMilli()))
	return c.SetState(ctx, watermarkKey, raw[:])
}

// State returns the value that SetState stored under key, or nil.
func (c *Catalogue) State(ctx context.Context, key string) ([]byte, error) {
	var raw []byte
	err := c.db.QueryRowContext(ctx, `SELECT value FROM state WHERE key = $1`, key).Scan(&raw)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read state %s of catalogue: %w", key, c.translateError(ctx, err))
	}
	return raw, nil
}

// SetState stores a few bytes for the builder of the catalogue. Drop removes them.
func (c *Catalogue) SetState(ctx context.Context, key string, value []byte) error {
	c.write.Lock()
	defer c.write.Unlock()
	err := c.inTx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(
			ctx, `INSERT INTO state (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value`, key, value)
		return err
	})
	if err != nil {
		return fmt.Errorf("keep state %s of catalogue: %w", key, err)
	}
	return nil
}

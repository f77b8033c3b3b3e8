package cluster

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Files stores small files in the database, from which the next leader continues: sent alerts and silences. Only the
// leader of the epoch can write them.
type Files struct {
	l     *Lease
	epoch int64
}

// Files returns the files of the leader of an epoch.
func (l *Lease) Files(epoch int64) *Files { return &Files{l, epoch} }

// Put stores a file under a name.
func (f *Files) Put(name string, body []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := inTx(ctx, f.l.o.DB, 4*time.Second, func(tx *sql.Tx) error {
		if err := f.l.Fence(f.epoch)(ctx, tx); err != nil {
			return err
		}
		_, err := tx.ExecContext(
			ctx, `INSERT INTO members_files (name, body) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET body = excluded.body`, name, body)
		return err
	})
	if err != nil {
		return fmt.Errorf("keep %s for all members: %w", name, err)
	}
	return nil
}

// Fetch replaces the content of a directory by all files.
func (f *Files) Fetch(ctx context.Context, dir string) error {
	rows, err := f.l.o.DB.QueryContext(ctx, `SELECT name, body FROM members_files`)
	if err != nil {
		return fmt.Errorf("read what the leader before sent: %w", err)
	}
	defer rows.Close()
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	for rows.Next() {
		var name string
		var body []byte
		if err := rows.Scan(&name, &body); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), body, 0o640); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Empty reports whether no file was ever stored.
func (f *Files) Empty(ctx context.Context) (bool, error) {
	var n int
	err := f.l.o.DB.QueryRowContext(ctx, `SELECT count(*) FROM members_files`).Scan(&n)
	return n == 0, err
}

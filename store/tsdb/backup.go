package tsdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Backup copies the store to the new directory dir, with hard links if possible. The copy contains at least all data
// that was acknowledged before the call.
func (s *Store) Backup(ctx context.Context, dir string) error {
	db, err := s.acquire()
	if err != nil {
		return err
	}
	defer s.gate.release()
	// Samples that came out of order are no part of a snapshot of the head.
	if err := db.CompactOOOHead(ctx); err != nil {
		return fmt.Errorf("copy the series: %w", err)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("copy the series: %w", err)
	}
	for _, b := range db.Blocks() { // imported before this file was written with a block
		if err := ensureTombstones(b.Dir()); err != nil && !errors.Is(err, fs.ErrNotExist) { // joined with others meanwhile
			return fmt.Errorf("copy the series: block %s: %w", b.Meta().ULID, err)
		}
	}
	if err := db.Snapshot(dir, db.Head().NumSeries() > 0); err != nil {
		return fmt.Errorf("copy the series: %w", err)
	}
	if err := s.meta.save(); err != nil {
		return err
	}
	for _, name := range []string{"metadata.json", importedFile, dirtyFile} {
		raw, err := os.ReadFile(filepath.Join(s.opts.Dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), raw, 0o640)
		}
		if err != nil {
			return fmt.Errorf("copy the series: %w", err)
		}
	}
	return nil
}

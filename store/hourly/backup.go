package hourly

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Backup copies the store to the new directory dir, with hard links if possible. Copy the sample store afterwards. If
// this copy lacks a day, the day is then computed again from the samples.
func (s *Store) Backup(ctx context.Context, dir string) error {
	s.making.Lock()
	defer s.making.Unlock()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("copy the hours: %w", err)
	}
	for _, b := range s.blocks.all() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := b.Snapshot(dir); err != nil {
			return fmt.Errorf("copy the hours: %w", err)
		}
	}
	raw, err := os.ReadFile(filepath.Join(s.opts.Dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, stateFile), raw, 0o640)
	}
	if err != nil {
		return fmt.Errorf("copy the hours: %w", err)
	}
	return nil
}

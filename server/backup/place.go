package backup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"reckon/internal/durable"
)

// Restore creates the data directory from the archive in. It builds the directory beside its final place and moves it
// there after every file was checked. If the data directory is not empty, Restore returns an error, unless replace is
// set. It then renames the old directory and returns the new name as aside.
func Restore(in io.Reader, data string, replace bool, now time.Time) (m Manifest, aside string, err error) {
	data = filepath.Clean(data)
	entries, err := os.ReadDir(data)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return m, "", err
	}
	if len(entries) > 0 && !replace {
		return m, "", fmt.Errorf("%s is not empty; restore to another directory with --data, or move what is there aside with --replace",
			data)
	}
	if err := os.MkdirAll(filepath.Dir(data), 0o750); err != nil {
		return m, "", err
	}
	beside, err := os.MkdirTemp(filepath.Dir(data), "."+filepath.Base(data)+".restoring-")
	if err != nil {
		return m, "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(beside))
		}
	}()
	if m, err = Extract(in, beside); err != nil {
		return m, "", err
	}
	if err := os.Chmod(beside, 0o750); err != nil {
		return m, "", err
	}
	if err := durable.Sync(beside); err != nil {
		return m, "", err
	}
	switch {
	case len(entries) > 0:
		aside = data + ".before-" + now.UTC().Format("20060102T150405Z")
		if err := os.Rename(data, aside); err != nil {
			return m, "", err
		}
	default:
		if err := os.Remove(data); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return m, "", err
		}
	}
	if err := os.Rename(beside, data); err != nil {
		if aside != "" {
			err = errors.Join(err, os.Rename(aside, data))
		}
		return m, "", err
	}
	return m, aside, durable.Sync(filepath.Dir(data))
}

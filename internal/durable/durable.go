// Package durable writes small files durably: they are on the disk when a function
// returns. Its functions are safe for concurrent use on different files.
package durable

import (
	"errors"
	"io/fs"
	"os"
)

// Write creates or overwrites the file at path and syncs it (fsync(2)). rights are the permissions of a new file,
// before the umask. If the machine crashes during the call, the file may be incomplete; see Replace.
func Write(path string, raw []byte, rights fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, rights)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Replace writes a file atomically, so that a crash leaves the old or the new content. It uses a
// temporary file with the suffix .tmp.
func Replace(path string, raw []byte, rights fs.FileMode) error {
	if err := Write(path+".tmp", raw, rights); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// Sync waits until the data written to a file or directory is on disk.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Exists reports whether a file or directory exists.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

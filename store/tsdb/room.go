package tsdb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"reckon/figure/format"
	"reckon/store"
)

// Opening the store replays the log and writes chunks. If a write fails, the database ends the process. Therefore a
// ballast file reserves some disk space while there is enough.
const (
	ballastFile  = "ballast"
	ballastBytes = 8 << 20
	// lowDiskSpace is the free space below which opening makes room first.
	lowDiskSpace = 64 << 20
	// minOpenSpace is the space that opening needs besides the chunks of the log.
	minOpenSpace = 2 << 20
)

// makeRoom frees space to open the database on a full disk. It removes the ballast and the head chunks, which are only
// a cache of the log. The store then answers queries, and rejects samples until there is more space (Options.Reserve).
func (s *Store) makeRoom() error {
	free, err := freeBytes(s.opts.Dir)
	if err != nil || free >= lowDiskSpace || s.opts.Reserve <= 0 {
		return nil //nolint:nilerr // who does not know the free space goes on
	}
	log, err := dirBytes(filepath.Join(s.opts.Dir, "wal"))
	if err != nil {
		return err
	}
	if log == 0 {
		return nil
	}
	err = errors.Join(s.dropBallast(), os.RemoveAll(filepath.Join(s.opts.Dir, "chunks_head")))
	if err != nil {
		return err
	}
	need := uint64(minOpenSpace + log/2) // a chunk takes about half the space of its log records
	if free, err = freeBytes(s.opts.Dir); err == nil && free < need {
		return fmt.Errorf("%w: %s free on the disk of %s, and to read the log of the last hours takes %s: free space and start again",
			store.ErrFull, format.Bytes(float64(free)), s.opts.Dir, format.Bytes(float64(need)))
	}
	return nil
}

// keepBallast creates the ballast if there is space for it.
func (s *Store) keepBallast() {
	path := filepath.Join(s.opts.Dir, ballastFile)
	free, err := freeBytes(s.opts.Dir)
	if st, statErr := os.Stat(path); statErr == nil && st.Size() == ballastBytes {
		return
	} else if statErr == nil {
		s.log.Warn("the file that holds room back for a disk that is full was cut off and is made again; nothing is lost", "file", path,
			"bytes", st.Size(), "want", ballastBytes)
	}
	if err != nil || s.opts.Reserve <= 0 || free < lowDiskSpace+ballastBytes {
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o640)
	if err == nil {
		err = errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, ballastBytes), f.Close())
	}
	if err != nil { // a file system that cannot hold room back
		s.log.Debug("no room is held back for a disk that is full", "err", errors.Join(err, s.dropBallast()))
	}
}

func (s *Store) dropBallast() error {
	if err := os.Remove(filepath.Join(s.opts.Dir, ballastFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

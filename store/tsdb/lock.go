package tsdb

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"reckon/store"
)

// dirLock is an flock(2) on the file "lock" of the data directory, which Prometheus locks as well. Unlike Prometheus's
// lock, it reports which process holds it. The kernel releases it when the process ends for any reason.
type dirLock struct {
	f *os.File
	// died means that the holder before did not release the lock.
	died bool
}

func lockDir(dir string) (*dirLock, error) {
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		who, _ := io.ReadAll(io.LimitReader(f, 64))
		f.Close()
		holder := strings.TrimSpace(string(who))
		if holder == "" {
			holder = "another process"
		}
		return nil, fmt.Errorf("%w: %s is open in %s; stop that one, or choose another directory", store.ErrLocked, dir, holder)
	case err != nil:
		f.Close()
		return nil, fmt.Errorf("lock %s: %w (the file system must support flock)", path, err)
	}
	l := &dirLock{f: f}
	if st, err := f.Stat(); err == nil {
		l.died = st.Size() > 0
	}
	// On a full disk the lock holds all the same, with the former holder's name.
	_, _ = f.WriteAt(fmt.Appendf(nil, "process %-10d\n", os.Getpid()), 0)
	return l, nil
}

// release keeps the file: removing it would let two processes lock two files.
func (l *dirLock) release() error {
	return errors.Join(l.f.Truncate(0), l.f.Close())
}

// CheckUnused returns an error that matches [store.ErrLocked] when a process has the store in a directory open.
func CheckUnused(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	l, err := lockDir(dir)
	if err != nil {
		return err
	}
	return l.release()
}

package podstorage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// maxStatfsWait is the time that a round waits for a file system to answer.
const maxStatfsWait = 500 * time.Millisecond

// diskSpace is the space of a file system, in bytes.
type diskSpace struct{ used, capacity uint64 }

// statfsCall is a query to a file system. If the server is dead, the call stays in the kernel and is not repeated.
type statfsCall struct {
	done chan struct{}
	s    diskSpace
	err  error
}

// queryStatfs requests the space of a volume.
func (r *Reader) queryStatfs(m mount) (diskSpace, error) {
	c := r.asked[m.path]
	if c == nil {
		c = &statfsCall{done: make(chan struct{})}
		r.asked[m.path] = c
		go func() {
			defer close(c.done)
			c.s, c.err = statfs(m.path)
		}()
	}
	late := time.NewTimer(maxStatfsWait)
	defer late.Stop()
	select {
	case <-c.done:
		delete(r.asked, m.path)
		return c.s, c.err
	case <-late.C:
		return diskSpace{}, fmt.Errorf("the file system of volume %s (%s) does not answer", m.name, m.fstype)
	}
}

func statfs(path string) (diskSpace, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return diskSpace{}, fmt.Errorf("read the space of a volume: %w", &fs.PathError{Op: "statfs", Path: path, Err: err})
	}
	size := uint64(s.Frsize) //nolint:gosec // a size
	if size == 0 {
		size = uint64(s.Bsize) //nolint:gosec // a size
	}
	return diskSpace{(s.Blocks - s.Bfree) * size, s.Blocks * size}, nil
}

// maxDepth is the maximum depth of nested folders.
const maxDepth = 200

var (
	errManyFiles = fmt.Errorf("a folder of a pod has more than %d files, which are not counted", maxFiles)
	errDeep      = fmt.Errorf("a folder of a pod has more than %d folders in one another, which are not counted", maxDepth)
	errElsewhere = errors.New("logs of a pod are links to files elsewhere, which are not counted")
)

// walker sums the size of a folder's content on its own file system.
type walker struct {
	used   uint64
	device uint64
	files  int
	linked map[uint64]bool // files with several links that were met
	logs   bool
}

// measure measures a target. Its content may change meanwhile: links are not followed, and removed files are skipped.
func (t *walkTarget) measure() (used uint64, err error) {
	w := walker{linked: map[uint64]bool{}, logs: t.Kind == Logs}
	if err = w.addFolder(unix.AT_FDCWD, t.path, 0); err != nil {
		return 0, fmt.Errorf("measure a folder of a pod: %w", err)
	}
	return w.used, nil
}

// addFolder adds the content of a directory. at is the descriptor of its parent directory.
func (w *walker) addFolder(at int, name string, depth int) error {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return nil // it was replaced a moment ago
	case err != nil:
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	if depth == 0 {
		w.device = uint64(st.Dev) //nolint:unconvert // of other types on other processors
	}
	if uint64(st.Dev) != w.device { //nolint:unconvert // the same
		return nil // mounted there
	}
	if depth > maxDepth {
		return errDeep
	}
	w.used += uint64(st.Blocks) * 512 //nolint:gosec // a number of blocks
	for {
		list, err := f.ReadDir(256)
		for _, e := range list {
			if err := w.addEntry(fd, e, depth); err != nil {
				return err
			}
		}
		if len(list) == 0 || err != nil {
			return nil
		}
	}
}

// addEntry adds a directory entry with its content.
func (w *walker) addEntry(at int, e fs.DirEntry, depth int) error {
	if w.files++; w.files > maxFiles {
		return errManyFiles
	}
	if e.IsDir() {
		return w.addFolder(at, e.Name(), depth+1)
	}
	if w.logs && e.Type()&fs.ModeSymlink != 0 {
		return errElsewhere
	}
	var st unix.Stat_t
	if unix.Fstatat(at, e.Name(), &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil // it was removed a moment ago
	}
	if st.Nlink > 1 {
		if w.linked[st.Ino] {
			return nil
		}
		w.linked[st.Ino] = true
	}
	w.used += uint64(st.Blocks) * 512 //nolint:gosec // a number of blocks
	return nil
}

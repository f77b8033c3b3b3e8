package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/oklog/ulid/v2"
)

// How many descriptors a server holds: some 60 when it has started, connections, two or three
// for each block, and those that sensors keep.
const (
	leastFiles    = 64
	usualFiles    = 256
	filesPerBlock = 3
)

// checkFileLimit refuses to start where the files could not even be opened, and warns once where
// they may not suffice (RLIMIT_NOFILE; Go raises the soft limit to the hard one by itself).
func (s *Server) checkFileLimit() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil //nolint:nilerr // nobody knows: the files will tell
	}
	blocks := 0
	for _, dir := range []string{seriesDir, HourlyDir} {
		entries, err := os.ReadDir(filepath.Join(s.config.Data, dir))
		if err != nil {
			continue // it is made, or said to be unreadable, later
		}
		for _, e := range entries {
			if _, err := ulid.ParseStrict(e.Name()); err == nil {
				blocks++
			}
		}
	}
	need := uint64(usualFiles + filesPerBlock*blocks)
	switch {
	case limit.Cur < uint64(leastFiles+filesPerBlock*blocks):
		return fmt.Errorf("this process may open %d files, and with %d blocks of series it needs %d: raise the limit (ulimit -n %d, or LimitNOFILE=%d in the unit of the service)",
			limit.Cur, blocks, need, 4*need, 4*need)
	case limit.Cur < need:
		s.log.Warn("this process may open few files: readings and queries may fail; raise the limit with ulimit -n, or LimitNOFILE= in the unit of the service",
			"limit", limit.Cur, "needed", need, "blocks", blocks)
	}
	return nil
}

// explainLimit adds to an error that too few files may be opened what is to be done.
func explainLimit(err error) error {
	if errors.Is(err, unix.EMFILE) {
		return fmt.Errorf("%w: raise the limit of open files (ulimit -n 4096, or LimitNOFILE=4096 in the unit of the service)", err)
	}
	return err
}

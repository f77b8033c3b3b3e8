// Package filelimit compares the number of files that this process may open (RLIMIT_NOFILE, see getrlimit(2)) with its
// need, and reports the remedy. Go itself raises the soft limit to the hard limit.
package filelimit

import (
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sys/unix"
)

// Need is the number of files that a process opens.
type Need struct {
	Least int    // without these it does not start
	Usual int    // with fewer, readings and queries may fail
	With  string // cause of many open files, such as "with 10 blocks of series "; may be empty
}

// Check returns an error if the limit of open files (RLIMIT_NOFILE) is below the minimum of n. It logs a warning once
// if the limit is below the usual need.
func Check(n Need, log *slog.Logger) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil //nolint:nilerr // nobody knows: the files will show it
	}
	switch {
	case limit.Cur < uint64(n.Least):
		return fmt.Errorf(
			"this process may open %d files, and %sit needs %d: raise the limit (ulimit -n %d, or LimitNOFILE=%d in the unit of the "+
				"service)",
			limit.Cur, n.With, n.Usual, 4*n.Usual, 4*n.Usual)
	case limit.Cur < uint64(n.Usual):
		log.Warn(
			"this process may open few files: readings and queries may fail; raise the limit with ulimit -n, or LimitNOFILE= in the "+
				"unit of the service",
			"limit", limit.Cur, "needed", n.Usual)
	}
	return nil
}

// Exceeded reports whether err states that this process, or the machine, may not open more files.
func Exceeded(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }

// Remedy is the action to take then.
const Remedy = "raise the limit of open files: ulimit -n 4096, or LimitNOFILE=4096 in the unit of the service"

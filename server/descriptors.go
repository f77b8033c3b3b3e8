package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sys/unix"

	"reckon/agent"
	"reckon/internal/durable/filelimit"
)

// Numbers of files that a server opens. It opens about 60 at the start, one for each connection, two or three for each
// block, and its agent's.
const (
	leastFiles    = 64
	usualFiles    = 256
	filesPerBlock = 3
)

// checkFileLimit returns an error if the limit of open files is too low to start. It logs a warning if the limit may
// become too low later.
func (s *Server) checkFileLimit() error {
	blocks := 0
	for _, dir := range []string{seriesDir, HourlyDir} {
		entries, err := os.ReadDir(filepath.Join(s.config.Data, dir))
		if err != nil {
			continue // it is made, or reported as unreadable, later
		}
		for _, e := range entries {
			if _, err := ulid.ParseStrict(e.Name()); err == nil {
				blocks++
			}
		}
	}
	need := filelimit.Need{Least: leastFiles + filesPerBlock*blocks, Usual: usualFiles + filesPerBlock*blocks}
	if blocks > 0 {
		need.With = fmt.Sprintf("with %d blocks of series ", blocks)
	}
	if s.config.Agent != nil {
		need.Least += agent.LeastFiles
		need.Usual += agent.UsualFiles
	}
	return filelimit.Check(need, s.log)
}

// explain adds a remedy to a start error: for the limit of open files, or a data directory that is not writable.
func (c *Config) explain(err error) error {
	var at *fs.PathError
	within := errors.As(err, &at) && strings.HasPrefix(at.Path, filepath.Clean(c.Data)+string(filepath.Separator))
	switch {
	case err == nil:
	case filelimit.Exceeded(err):
		return fmt.Errorf("%w: %s", err, filelimit.Remedy)
	case within && errors.Is(err, unix.EROFS):
		return fmt.Errorf("%w; mount it for writing, or choose another directory with --data", err)
	case within && errors.Is(err, fs.ErrPermission):
		return fmt.Errorf(
			"%w; everything in %s must belong to the user that this program runs as (user id %d) and be writable, or choose another "+
				"directory with --data", err, c.Data, os.Geteuid())
	}
	return err
}

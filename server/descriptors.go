package server

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/oklog/ulid/v2"

	"reckon/agent"
	"reckon/internal/durable/filelimit"
)

// How many descriptors a server holds: some 60 when it has started, connections, two or three
// for each block, and those of the agent in it.
const (
	leastFiles    = 64
	usualFiles    = 256
	filesPerBlock = 3
)

// checkFileLimit refuses to start where the files could not even be opened, and warns once where
// they may not suffice.
func (s *Server) checkFileLimit() error {
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

// explainLimit adds to an error that too few files may be opened what is to be done.
func explainLimit(err error) error {
	if filelimit.Exceeded(err) {
		return fmt.Errorf("%w: %s", err, filelimit.Remedy)
	}
	return err
}

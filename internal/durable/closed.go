package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// closedSuffix is the suffix of the note beside a file.
const closedSuffix = ".closed"

// closedNote is the state of a file when it was closed, or last written while it is open.
type closedNote struct {
	Size    int64     `json:"size"`
	Changed time.Time `json:"changed"`
	Sum     uint32    `json:"crc32c"`
	Open    bool      `json:"open,omitempty"`
	// Parts are the checksums of parts of as many pages, 4 bytes each; see partPages.
	Parts []byte `json:"parts,omitempty"`
}

// ChangedError reports that a file changed since it was closed, although it was not written.
type ChangedError struct {
	Path string
	What string
	// Pages has the numbers of the pages that may have changed, as [Pages] counts them; nil if unknown.
	Pages map[int64]bool
}

func (e *ChangedError) Error() string { return e.Path + " " + e.What }

// Check returns a [*ChangedError] if the file was damaged or lost since it was recorded. It is if the file is missing
// or empty, or if its content changed but its modification time did not. A file with a new modification time passes. A
// file without a record passes with a message to log.
func (p *Pages) Check(log *slog.Logger) error {
	st, err := os.Stat(p.path)
	var was closedNote
	if bad := ReadJSON(p.path+closedSuffix, &was); bad != nil {
		if !errors.Is(bad, fs.ErrNotExist) || err == nil && st.Size() > 0 {
			log.Warn(
				"the note with the checksum of a file cannot be read and is written again: whether the file was changed on the disk is "+
					"not noticed this time", "file", p.path+closedSuffix, "err", bad)
		}
		return nil
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &ChangedError{Path: p.path, What: "is missing"}
	case err != nil:
		return err
	case !st.ModTime().Equal(was.Changed) && st.Size() > 0: // an empty file has not been changed by a program
		return nil
	case st.Size() != was.Size:
		return &ChangedError{Path: p.path, What: fmt.Sprintf("has %d bytes and had %d", st.Size(), was.Size)}
	}
	now, err := p.readPages(nil)
	if err != nil {
		return err
	}
	if now.Sum != was.Sum {
		return &ChangedError{p.path, "fails its checksum", now.differingPages(was)}
	}
	p.LeftOpen = was.Open
	return nil
}

// ForgetClosed removes the checksum note of the file at path, and syncs the directory. Without the sync, a power
// failure could bring the note back after the file has changed, and Check would report damage.
func ForgetClosed(path string) error {
	if err := os.Remove(path + closedSuffix); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return Sync(filepath.Dir(path))
}

var errBeingWritten = errors.New("somebody writes to it")

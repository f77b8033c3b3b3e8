package durable

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// closedSuffix ends the name of the note beside a file.
const closedSuffix = ".closed"

// closedNote is the state of a file when it was closed, or last written while it is open.
type closedNote struct {
	Size    int64     `json:"size"`
	Changed time.Time `json:"changed"`
	Sum     uint32    `json:"crc32c"`
	Open    bool      `json:"open,omitempty"`
}

// ChangedError reports that a file differs from its state when it was closed, although it
// has not been written since.
type ChangedError struct {
	Path string
	What string
}

func (e *ChangedError) Error() string { return e.Path + " " + e.What }

// NoteClosed records the state of a closed file, in a note beside it.
func NoteClosed(path string) error { return NewPages(path).NoteClosed() }

// CheckClosed returns a [*ChangedError] if a file was damaged or lost since it was recorded: it
// is missing or empty, or its content differs although its modification time is the same. Without a
// record, or with another modification time, it returns nil.
func CheckClosed(path string) error { return NewPages(path).Check() }

// Check is [CheckClosed].
func (p *Pages) Check() error {
	raw, err := os.ReadFile(p.path + closedSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		raw, err = Unseal(raw)
	}
	var was closedNote
	if err != nil || json.Unmarshal(raw, &was) != nil {
		return nil //nolint:nilerr // a note that cannot be read says nothing
	}
	st, err := os.Stat(p.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &ChangedError{p.path, "is missing"}
	case err != nil:
		return err
	case !st.ModTime().Equal(was.Changed) && st.Size() > 0: // an empty one is nobody's change
		return nil
	case st.Size() != was.Size:
		return &ChangedError{p.path, fmt.Sprintf("has %d bytes and had %d", st.Size(), was.Size)}
	}
	now, err := p.read(nil)
	if err != nil {
		return err
	}
	if now.Sum != was.Sum {
		return &ChangedError{p.path, "fails its checksum"}
	}
	p.LeftOpen = was.Open
	return nil
}

// ForgetClosed removes the note beside a file. It is off the disk when the function returns: after a power failure
// a file that was changed meanwhile, and of which only the content got to the disk, would seem damaged.
func ForgetClosed(path string) error {
	if err := os.Remove(path + closedSuffix); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return Sync(filepath.Dir(path))
}

var errBusy = errors.New("somebody writes to it")

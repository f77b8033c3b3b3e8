package durable

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"time"
)

// closedSuffix ends the name of the note beside a file.
const closedSuffix = ".closed"

// closedNote is the state of a file when it was closed.
type closedNote struct {
	Size    int64     `json:"size"`
	Changed time.Time `json:"changed"`
	Sum     uint32    `json:"crc32c"`
}

// ChangedError reports that a file differs from its state when it was closed, although it
// has not been written since.
type ChangedError struct {
	Path string
	What string
}

func (e *ChangedError) Error() string { return e.Path + " " + e.What }

// NoteClosed records the state of a closed file, in a note beside it.
func NoteClosed(path string) error {
	now, err := noteOf(path)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return Replace(path+closedSuffix, Seal(raw), 0o600)
}

// CheckClosed returns a [*ChangedError] if a file was damaged or lost since it was recorded: it
// is missing or empty, or its content differs although its modification time is the same. Without a
// record, or with another modification time, it returns nil.
func CheckClosed(path string) error {
	raw, err := os.ReadFile(path + closedSuffix)
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
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &ChangedError{path, "is missing"}
	case err != nil:
		return err
	case !st.ModTime().Equal(was.Changed) && st.Size() > 0: // an empty one is nobody's change
		return nil
	case st.Size() != was.Size:
		return &ChangedError{path, fmt.Sprintf("has %d bytes and had %d", st.Size(), was.Size)}
	}
	now, err := noteOf(path)
	if err != nil {
		return err
	}
	if now.Sum != was.Sum {
		return &ChangedError{path, "fails its checksum"}
	}
	return nil
}

// ForgetClosed removes the note beside a file.
func ForgetClosed(path string) error {
	if err := os.Remove(path + closedSuffix); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

var errBusy = errors.New("somebody writes to it")

func noteOf(path string) (n closedNote, err error) {
	f, err := os.Open(path)
	if err != nil {
		return n, err
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return n, err
	}
	sum := crc32.New(castagnoli)
	if n.Size, err = io.Copy(sum, f); err != nil {
		return n, err
	}
	after, err := f.Stat()
	if err == nil && (!after.ModTime().Equal(before.ModTime()) || after.Size() != n.Size) {
		err = fmt.Errorf("read %s: %w", path, errBusy)
	}
	n.Changed, n.Sum = after.ModTime(), sum.Sum32()
	return n, err
}

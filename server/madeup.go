package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// madeUpFile marks a data directory of a simulated site.
const madeUpFile = "made-up.json"

// MadeUp is the content that [MarkMadeUp] writes into a data directory.
type MadeUp struct {
	Warning string    `json:"warning"`
	By      string    `json:"by"` // the command that made it
	Made    time.Time `json:"made"`
	Seed    uint64    `json:"seed"`
}

// MarkMadeUp marks a data directory, which it creates if needed, as simulated data. The server then
// shows this to every user.
func MarkMadeUp(data string, m MadeUp) error {
	if err := os.MkdirAll(data, 0o750); err != nil {
		return fmt.Errorf("make the data directory: %w; choose another one with --data", err)
	}
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(data, madeUpFile), append(raw, '\n'), 0o640)
}

// ReadMadeUp returns the mark of MarkMadeUp, or false if the data is not simulated.
func ReadMadeUp(data string) (MadeUp, bool) {
	raw, err := os.ReadFile(filepath.Join(data, madeUpFile))
	if err != nil {
		return MadeUp{}, !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission)
	}
	var m MadeUp
	_ = json.Unmarshal(raw, &m) // only the presence of the file matters
	return m, true
}

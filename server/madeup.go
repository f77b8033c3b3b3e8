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

// Simulated is the content that [MarkSimulated] writes into a data directory.
type Simulated struct {
	Warning string    `json:"warning"`
	By      string    `json:"by"` // the command that made it
	Made    time.Time `json:"made"`
	Seed    uint64    `json:"seed"`
}

// MarkSimulated marks a data directory as simulated data, and creates it if needed. The server then shows this mark to
// every user.
func MarkSimulated(data string, m Simulated) error {
	if err := os.MkdirAll(data, 0o750); err != nil {
		return fmt.Errorf("make the data directory: %w; choose another one with --data", err)
	}
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(data, madeUpFile), append(raw, '\n'), 0o640)
}

// ReadSimulated returns the mark of MarkSimulated, or false if the data is not simulated.
func ReadSimulated(data string) (Simulated, bool) {
	raw, err := os.ReadFile(filepath.Join(data, madeUpFile))
	if err != nil {
		return Simulated{}, !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission)
	}
	var m Simulated
	_ = json.Unmarshal(raw, &m) // only the presence of the file matters
	return m, true
}

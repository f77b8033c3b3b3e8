package hourly

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"reckon/internal/durable"
	"reckon/store"
)

// state is the progress of the hourly store. If the file is lost, all days in the store are computed again, with the
// same result.
type state struct {
	// Through: all days before it were made, or are pending.
	Through int64 `json:"through"`
	// Pending are days to make or to make again, in order; each by its beginning.
	Pending []int64 `json:"pending,omitempty"`
	// Known are the processed origins: all days that they cover are computed, pending, or not yet over.
	Known []string `json:"known,omitempty"`
	// Lost: the store has deleted samples that hours were made of, or may have.
	Lost bool `json:"lost,omitempty"`
	// Blocks are the expected blocks, by their names.
	Blocks map[string]blockMark `json:"blocks,omitempty"`
	// Gaps are blocks that were lost to damage.
	Gaps []store.Gap `json:"gaps,omitempty"`
}

// blockMark is the recorded state of a block. Times are milliseconds; To is exclusive.
type blockMark struct {
	From int64  `json:"from"`
	To   int64  `json:"to"`
	Meta uint32 `json:"meta"` // CRC-32C of meta.json
}

const stateFile = "state.json"

// loadState reads the state from dir. found is false if there is no readable state.
func loadState(dir string, log *slog.Logger) (s state, found bool) {
	if err := durable.ReadJSON(filepath.Join(dir, stateFile), &s); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			log.Warn("the progress of the hourly store is unknown; hours are rebuilt from the existing samples", "err", err)
		}
		return state{}, !errors.Is(err, fs.ErrNotExist)
	}
	return s, true
}

// extentFile returns the path of the file that holds the time range of the blocks. The file is beside the folder of the
// store, so that the loss of the whole folder is noticed.
func extentFile(dir string) string { return filepath.Clean(dir) + ".json" }

func loadExtent(dir string) (m blockMark) {
	if err := durable.ReadJSON(extentFile(dir), &m); err != nil {
		return blockMark{} // without it only the loss of all goes undetected
	}
	return m
}

func saveExtent(dir string, blocks map[string]blockMark) error {
	var m blockMark
	for _, b := range blocks {
		if m.From == m.To {
			m = blockMark{From: b.From, To: b.To}
		}
		m.From, m.To = min(m.From, b.From), max(m.To, b.To)
	}
	if m == loadExtent(dir) {
		return nil
	}
	if err := durable.WriteJSON(extentFile(dir), m, 0o640); err != nil {
		return fmt.Errorf("note of which time there are hours: %w", err)
	}
	return nil
}

func (s *state) save(dir string) error {
	if err := durable.WriteJSON(filepath.Join(dir, stateFile), s, 0o666); err != nil {
		return fmt.Errorf("note how far hours were made: %w", err)
	}
	return nil
}

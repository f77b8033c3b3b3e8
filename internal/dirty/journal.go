package dirty

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"reckon/internal/durable"
)

// File is a [Journal] in the file with this name, as JSON with a checksum. Save syncs the file and its directory, so
// the entries are as durable as the file system allows.
type File string

// Load implements [Journal]. A missing file is an empty journal.
func (f File) Load() ([]Entry, error) {
	raw, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if raw, err = durable.Unseal(raw); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, f, err)
	}
	return decodeEntries(raw)
}

// Save implements [Journal].
func (f File) Save(list []Entry) error {
	raw, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if err := durable.Replace(string(f), durable.Seal(raw), 0o640); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(string(f)))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func decodeEntries(raw []byte) (list []Entry, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return list, nil
}

// State is a [Journal] in the state table of a database of facts.
type State struct {
	Facts interface {
		State(ctx context.Context, key string) ([]byte, error)
		SetState(ctx context.Context, key string, value []byte) error
	}
	Key string
}

// stateTimeout is the maximum time that a writer waits for the database.
const stateTimeout = 10 * time.Second

// Load implements [Journal].
func (s State) Load() ([]Entry, error) {
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	raw, err := s.Facts.State(ctx, s.Key)
	if err != nil {
		return nil, err
	}
	return decodeEntries(raw)
}

// Save implements [Journal].
func (s State) Save(list []Entry) error {
	raw, err := json.Marshal(list)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	return s.Facts.SetState(ctx, s.Key, raw)
}

// Memory is a [Journal] that stores nothing, for tools that derive everything again.
type Memory struct{}

// Load implements [Journal].
func (Memory) Load() ([]Entry, error) { return nil, nil }

// Save implements [Journal].
func (Memory) Save([]Entry) error { return nil }

package importer

import (
	"bytes"
	"cmp"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"reckon/store"
)

// siteState is the import state of a site. Fields are exported for encoding.
type siteState struct {
	Version int
	Jobs    map[uint64]bool   // of accounting, by fingerprint of their report
	Tasks   map[uint64][]task // jobs with an id that is not their number, by number; in order

	site    string
	path    string
	journal *journal
	pending *pendingImport
	dirty   map[int64]map[string]bool       // nodes with new readings, by period
	remake  map[rebuiltNode]map[uint64]bool // numbers of jobs
	again   bool                            // an earlier import was interrupted: everything from pending on is checked
}

// pendingImport is the time range of an unfinished import. While its file exists, the journal may have readings that are not
// in the series yet, and the series may have samples that are not in the catalogue yet.
type pendingImport struct {
	From, To time.Time
	Gone     []store.Run
}

// nodeState is the state of a node up to a reading.
type nodeState struct {
	Last int64 // time of the last reading
	Jobs map[jobKey]*jobState
	// Memory is the memory of the node, in bytes; 0 if unknown.
	Memory float64
}

const stateVersion = 2

// innerMap returns the map of a key, and creates it if necessary.
func innerMap[K, L comparable, V any](m map[K]map[L]V, k K) map[L]V {
	if m[k] == nil {
		m[k] = map[L]V{}
	}
	return m[k]
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// loadSite reads the state of a site. If it cannot be read, that is an error: without it, repeated data would be counted again.
func loadSite(dir, site string) (*siteState, error) {
	name := "site"
	if site != "" {
		name = "site-" + hex.EncodeToString([]byte(site)) // works for any text in any file system
	}
	s := &siteState{Version: stateVersion, site: site, path: filepath.Join(dir, name+".gob"), dirty: map[int64]map[string]bool{},
		remake: map[rebuiltNode]map[uint64]bool{}}
	if err := s.decodeFile(s.path, s); err != nil {
		return nil, err
	}
	if s.Version != stateVersion {
		return nil, fmt.Errorf("%s is of version %d, want %d: it was written by another release of reckon", s.path, s.Version, stateVersion)
	}
	if s.Jobs == nil {
		s.Jobs = map[uint64]bool{}
	}
	if s.Tasks == nil {
		s.Tasks = map[uint64][]task{}
	}
	var err error
	if s.journal, err = openJournal(filepath.Join(dir, name)); err != nil {
		return nil, err
	}
	var p pendingImport
	if err := s.decodeFile(s.pendingPath(), &p); err != nil {
		return nil, err
	}
	if !p.From.IsZero() {
		s.pending, s.again = &p, true
	}
	return s, nil
}

func (s *siteState) pendingPath() string { return s.path + ".pending" }

// decodeFile decodes a file, if it exists.
func (s *siteState) decodeFile(path string, v any) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := gob.NewDecoder(f).Decode(v); err != nil {
		return fmt.Errorf("read the state of earlier imports, %s: %w; restore it from a backup", path, err)
	}
	return nil
}

// beginImport records that samples between two times are about to change.
func (s *siteState) beginImport(from, to time.Time, gone []store.Run) error {
	p := s.pending
	if p == nil {
		p = &pendingImport{From: from, To: to}
	} else if !from.Before(p.From) && !to.After(p.To) && len(gone) == 0 {
		return nil
	}
	p.From, p.To = store.Earlier(p.From, from), store.Later(p.To, to)
	p.Gone = append(p.Gone, gone...)
	s.pending = p
	return encodeFile(s.pendingPath(), p)
}

// finishImport records that the import is complete.
func (s *siteState) finishImport() error {
	s.pending, s.again = nil, false
	if err := os.Remove(s.pendingPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("end the import: %w", err)
	}
	return nil
}

// saveFile replaces the file atomically.
func (s *siteState) saveFile() error { return encodeFile(s.path, s) }

func encodeFile(path string, v any) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(v); err != nil {
		return fmt.Errorf("save the import state: %w", err)
	}
	return replaceFile(path, b.Bytes())
}

// dropSilent drops jobs that have been silent for so long that another job may use their name.
func (n *nodeState) dropSilent(t int64) {
	maps.DeleteFunc(n.Jobs, func(_ jobKey, j *jobState) bool { return t-j.Last > maxJobSilence })
}

// maxJobSilence is the time that a job may be silent, in seconds.
const maxJobSilence = 7 * 86400

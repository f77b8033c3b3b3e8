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

// siteState is what is known of the imports of a site. Fields are exported to be encoded.
type siteState struct {
	Version int
	Jobs    map[uint64]bool   // of accounting, by what was reported of them
	Tasks   map[uint64][]task // jobs whose id is not their number, by that; in order

	site    string
	path    string
	journal *journal
	pending *pending
	dirty   map[int64]map[string]bool  // nodes with new readings, by period
	remake  map[remade]map[uint64]bool // numbers of jobs
	again   bool                       // an earlier import was cut off: all from pending on is looked at
}

// pending says that an import is under way, and in which time. While its file is there,
// what the journal has may not be in the series, and the series not in the catalogue.
type pending struct {
	From, To time.Time
	Gone     []store.Run
}

// nodeState is what is known of a node up to a reading.
type nodeState struct {
	Last int64 // time of the last reading
	Jobs map[jobKey]*jobState
	// Memory is what the node has, in bytes; 0 unknown.
	Memory float64
}

const stateVersion = 2

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// loadSite reads the state of a site. One that can not be read is an error: without it,
// what comes again would be counted again.
func loadSite(dir, site string) (*siteState, error) {
	name := "site"
	if site != "" {
		name = "site-" + hex.EncodeToString([]byte(site)) // any text, in any file system
	}
	s := &siteState{Version: stateVersion, site: site, path: filepath.Join(dir, name+".gob"), dirty: map[int64]map[string]bool{}, remake: map[remade]map[uint64]bool{}}
	if err := s.read(s.path, s); err != nil {
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
	var p pending
	if err := s.read(s.pendingPath(), &p); err != nil {
		return nil, err
	}
	if !p.From.IsZero() {
		s.pending, s.again = &p, true
	}
	return s, nil
}

func (s *siteState) pendingPath() string { return s.path + ".pending" }

// read decodes a file, if it is there.
func (s *siteState) read(path string, v any) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := gob.NewDecoder(f).Decode(v); err != nil {
		return fmt.Errorf("read what is known of earlier imports, %s: %w; restore it from a backup", path, err)
	}
	return nil
}

// begin records that samples between two times are about to change, before it does.
func (s *siteState) begin(from, to time.Time, gone []store.Run) error {
	p := s.pending
	if p == nil {
		p = &pending{From: from, To: to}
	} else if !from.Before(p.From) && !to.After(p.To) && len(gone) == 0 {
		return nil
	}
	if from.Before(p.From) {
		p.From = from
	}
	if to.After(p.To) {
		p.To = to
	}
	p.Gone = append(p.Gone, gone...)
	s.pending = p
	return encodeFile(s.pendingPath(), p)
}

// done says that everything is where it belongs.
func (s *siteState) done() error {
	s.pending, s.again = nil, false
	if err := os.Remove(s.pendingPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("end the import: %w", err)
	}
	return nil
}

// save replaces the file as a whole.
func (s *siteState) save() error { return encodeFile(s.path, s) }

func encodeFile(path string, v any) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(v); err != nil {
		return fmt.Errorf("keep what is known of imports: %w", err)
	}
	return replaceFile(path, b.Bytes())
}

// forget drops jobs without a record for so long that the name is free.
func (n *nodeState) forget(t int64) {
	for k, j := range n.Jobs {
		if t-j.Last > keepJob {
			delete(n.Jobs, k)
		}
	}
}

// keepJob is for how long a job may be silent, in seconds.
const keepJob = 7 * 86400

package importer

import (
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
)

// siteState is what is known of the imports of a site. Fields are exported to be encoded.
type siteState struct {
	Version int
	Nodes   map[string]*nodeState
	Jobs    map[uint64]bool // of accounting, by what was said of them

	path string
}

// nodeState is what is known of a node up to its last reading.
type nodeState struct {
	Cover [][2]int64 // from when to when there are readings, in order
	Jobs  map[jobKey]*jobState
	// Memory is what the node has, in bytes; 0 unknown.
	Memory float64
}

const stateVersion = 1

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// loadSite reads the state of a site. One that can not be read is an error: without it,
// what comes again would be counted again.
func loadSite(dir, site string) (*siteState, error) {
	name := "site"
	if site != "" {
		name = "site-" + hex.EncodeToString([]byte(site)) // any text, in any file system
	}
	s := &siteState{Version: stateVersion, path: filepath.Join(dir, name+".gob")}
	f, err := os.Open(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		defer f.Close()
		if err := gob.NewDecoder(f).Decode(s); err != nil {
			return nil, fmt.Errorf("read what is known of earlier imports, %s: %w; restore it from a backup", s.path, err)
		}
		if s.Version != stateVersion {
			return nil, fmt.Errorf("%s is of version %d, want %d: it was written by another release of reckon", s.path, s.Version, stateVersion)
		}
	}
	if s.Nodes == nil {
		s.Nodes = map[string]*nodeState{}
	}
	if s.Jobs == nil {
		s.Jobs = map[uint64]bool{}
	}
	return s, nil
}

// save replaces the file as a whole.
func (s *siteState) save() error {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o750); err != nil {
		return fmt.Errorf("keep what is known of imports: %w", err)
	}
	f, err := os.OpenFile(s.path+".tmp", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o640)
	if err != nil {
		return fmt.Errorf("keep what is known of imports: %w", err)
	}
	err = gob.NewEncoder(f).Encode(s)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("keep what is known of imports: %w", err)
	}
	return os.Rename(s.path+".tmp", s.path)
}

func (s *siteState) node(name string) *nodeState {
	n := s.Nodes[name]
	if n == nil {
		n = &nodeState{}
		s.Nodes[name] = n
	}
	if n.Jobs == nil {
		n.Jobs = map[jobKey]*jobState{}
	}
	return n
}

// together is how far apart readings may be and still cover the time between, in seconds.
const together = 2 * 3600

// cover says whether the reading of a time is new, known, or older than what is known.
func (n *nodeState) cover(t int64) (known, late bool) {
	if len(n.Cover) == 0 || t > n.Cover[len(n.Cover)-1][1] {
		return false, false
	}
	for _, c := range n.Cover {
		if c[0] <= t && t <= c[1] {
			return true, false
		}
	}
	return false, true
}

func (n *nodeState) extend(t int64) {
	if last := len(n.Cover) - 1; last >= 0 && t-n.Cover[last][1] <= together {
		n.Cover[last][1] = t
		return
	}
	n.Cover = append(n.Cover, [2]int64{t, t})
}

// forget drops jobs of which nothing was heard for so long that the name is free.
func (n *nodeState) forget(t int64) {
	for k, j := range n.Jobs {
		if t-j.Last > keepJob {
			delete(n.Jobs, k)
		}
	}
}

// keepJob is for how long a job may be silent, in seconds.
const keepJob = 7 * 86400

package tsdb

import (
	"errors"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/oklog/ulid/v2"
	promtsdb "github.com/prometheus/prometheus/tsdb"

	"reckon/internal/durable"
)

// manifestFile lists the blocks that should exist, so that a missing block or a changed meta.json is noticed. It is
// written when the blocks change. If it cannot be read, the existing blocks are accepted.
const manifestFile = "blocks.json"

type manifest struct {
	mu      sync.Mutex
	known   map[ulid.ULID]blockEntry
	written map[ulid.ULID]blockEntry // to the file
}

// blockEntry describes a block. Times are milliseconds; To is exclusive.
type blockEntry struct {
	From    int64       `json:"from"`
	To      int64       `json:"to"`
	Meta    uint32      `json:"meta"` // CRC-32C of meta.json
	Sources []ulid.ULID `json:"sources,omitempty"`
	// Imported: see importedSet.
	Imported bool `json:"imported,omitempty"`
}

// replacedBy reports whether another block contains everything in e.
func (e blockEntry) replacedBy(id ulid.ULID, m *promtsdb.BlockMeta) bool {
	if slices.ContainsFunc(m.Compaction.Parents, func(p promtsdb.BlockDesc) bool { return p.ULID == id }) {
		return true
	}
	return len(e.Sources) > 0 && !slices.ContainsFunc(e.Sources,
		func(s ulid.ULID) bool { return !slices.Contains(m.Compaction.Sources, s) })
}

func loadManifest(dir string, log *slog.Logger) map[ulid.ULID]blockEntry {
	known := map[ulid.ULID]blockEntry{}
	path := filepath.Join(dir, manifestFile)
	err := durable.ReadJSON(path, &known)
	if errors.Is(err, fs.ErrNotExist) {
		if durable.Exists(filepath.Join(dir, "wal")) { // else it is new, or was restored
			log.Warn("the list of blocks is missing and is made anew: a block that is missing now is not noticed", "file", path)
		}
		return known
	}
	if err != nil {
		log.Warn("the list of blocks cannot be read and is made anew: a block that is missing now is not noticed", "file", path, "err", err)
		return map[ulid.ULID]blockEntry{}
	}
	return known
}

// update records all blocks after each change of them. deleted contains the blocks that are deleted next.
func (m *manifest) update(dir string, blocks []*promtsdb.Block, deleted map[ulid.ULID]struct{},
	imported func(promtsdb.BlockMeta) bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := map[ulid.ULID]blockEntry{}
	for _, b := range blocks {
		meta := b.Meta()
		if _, gone := deleted[meta.ULID]; gone {
			continue
		}
		if e, ok := m.known[meta.ULID]; ok {
			now[meta.ULID] = e
			continue
		}
		sum, err := metaChecksum(b.Dir())
		if err != nil {
			return err
		}
		now[meta.ULID] = blockEntry{meta.MinTime, meta.MaxTime, sum, meta.Compaction.Sources, imported(meta)}
	}
	m.known = now
	if m.written != nil && maps.EqualFunc(now, m.written, func(a, b blockEntry) bool { return a.Meta == b.Meta }) {
		return nil
	}
	if err := durable.WriteJSON(filepath.Join(dir, manifestFile), now, 0o640); err != nil {
		return err
	}
	m.written = maps.Clone(now)
	return nil
}

// metaChecksum returns the checksum of the meta.json of a block.
func metaChecksum(block string) (uint32, error) {
	raw, err := os.ReadFile(filepath.Join(block, "meta.json"))
	return crc32.Checksum(raw, crc32.MakeTable(crc32.Castagnoli)), err
}

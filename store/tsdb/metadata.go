package tsdb

import (
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/metadata"

	"reckon/internal/durable"
	"reckon/metric"
)

// metadataTable stores the type, unit and help of every metric that was ever appended. The file is small, and is
// written only for a new metric.
type metadataTable struct {
	mu     sync.RWMutex
	path   string
	dirty  bool
	byName map[string]metadata.Metadata
}

// Metadata returns type, unit and help of the metrics, by full name, for /api/v1/metadata.
func (s *Store) Metadata() map[string]metadata.Metadata {
	s.meta.mu.RLock()
	defer s.meta.mu.RUnlock()
	return maps.Clone(s.meta.byName)
}

// Describe adds descriptions that came by another way than Append.
func (s *Store) Describe(name string, m metadata.Metadata) error {
	s.meta.mu.Lock()
	if s.meta.byName[name] != m {
		s.meta.byName[name], s.meta.dirty = m, true
	}
	s.meta.mu.Unlock()
	return s.meta.save()
}

// add reports whether d was known.
func (t *metadataTable) add(d *metric.Desc) bool {
	m := metadata.Metadata{Type: model.MetricType(d.Kind.String()), Unit: string(d.Unit), Help: d.Help}
	t.mu.RLock()
	known := t.byName[d.Name] == m
	t.mu.RUnlock()
	if known {
		return true
	}
	t.mu.Lock()
	t.byName[d.Name], t.dirty = m, true
	t.mu.Unlock()
	return false
}

func (t *metadataTable) load(path string, log *slog.Logger) {
	t.path, t.byName = path, map[string]metadata.Metadata{}
	err := durable.ReadJSON(path, &t.byName)
	if errors.Is(err, fs.ErrNotExist) {
		if hasContents(filepath.Join(filepath.Dir(path), "wal")) {
			log.Warn("descriptions of metrics are missing; they come again with the samples", "file", path)
		}
		t.dirty = true
		_ = t.save() // so that there is one from now on, even if no sample has a description
		return
	}
	if err != nil || t.byName == nil {
		log.Warn("descriptions of metrics are not readable; they come again with the samples", "file", path, "err", err)
		t.byName = map[string]metadata.Metadata{}
	}
}

// save writes the file if it differs from the table.
func (t *metadataTable) save() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.dirty {
		return nil
	}
	if err := durable.WriteJSON(t.path, t.byName, 0o640); err != nil {
		return err
	}
	t.dirty = false
	return nil
}

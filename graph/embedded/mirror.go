package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"reckon/graph"
	"reckon/graph/sparql"
)

// idleTimeout is the time that the index stays in memory without a query.
const idleTimeout = 10 * time.Minute

// mirror is an in-memory copy of the statements, by term id. base holds the statements up to some change, and delta the
// subgraphs that changed later. Queries hold mu for reading, and updates wait for them.
type mirror struct {
	mu      sync.RWMutex
	loaded  bool
	changed int64
	base    *sparql.Index
	delta   *sparql.Index
	stale   map[sparql.ID]bool // graphs of base that are in delta or deleted
	graphs  map[sparql.ID]graph.Info
	terms   termCache
	timer   *time.Timer
}

func (m *mirror) init() {
	m.timer = time.AfterFunc(idleTimeout, m.freeMemory)
	m.timer.Stop()
}

func (m *mirror) stop() { m.timer.Stop() }

// freeMemory frees the memory.
func (m *mirror) freeMemory() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loaded, m.base, m.delta, m.stale, m.graphs = false, nil, nil, nil, nil
	m.terms.clear()
}

// updateMirror brings the mirror up to date with the database.
func (s *Store) updateMirror(ctx context.Context) error {
	m := &s.mirror
	var now int64
	if err := s.o.DB.QueryRowContext(ctx, `SELECT changed FROM graph_state WHERE one = 1`).Scan(&now); err != nil {
		return err
	}
	m.mu.RLock()
	current := m.loaded && m.changed == now
	m.mu.RUnlock()
	if current {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.loaded && m.changed >= now {
		return nil
	}
	tx, err := s.o.DB.BeginTx(ctx, readOnly(s.o.Postgres))
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	if err := tx.QueryRowContext(ctx, `SELECT changed FROM graph_state WHERE one = 1`).Scan(&now); err != nil {
		return err
	}
	if m.loaded {
		err = s.catchUp(ctx, tx)
	} else {
		err = s.loadMirror(ctx, tx)
	}
	if err != nil {
		m.loaded = false
		return err
	}
	m.loaded, m.changed = true, now
	return nil
}

func (s *Store) loadMirror(ctx context.Context, db querier) error {
	m := &s.mirror
	m.stale, m.graphs, m.delta = map[sparql.ID]bool{}, map[sparql.ID]graph.Info{}, sparql.NewIndex(nil)
	m.terms.clear()
	list, err := queryInfos(ctx, db, `SELECT `+infoColumns+` FROM graph_subgraphs WHERE deleted = 0`)
	if err != nil {
		return err
	}
	total := 0
	for _, r := range list {
		m.graphs[sparql.ID(r.g)] = r.Info
		total += r.Quads
	}
	if total > s.o.MaxQuads {
		return s.tooLarge(total)
	}
	quads, err := queryQuads(ctx, db, make([]sparql.Quad, 0, total), `SELECT s, p, o, g FROM graph_quads`)
	if err != nil {
		return err
	}
	m.base = sparql.NewIndex(quads)
	return nil
}

func (s *Store) tooLarge(total int) error {
	return fmt.Errorf("%w: the graph has %d statements and the embedded store answers queries over %d; use a remote store",
		sparql.ErrTooMuch, total, s.o.MaxQuads)
}

// catchUp reads the graphs that changed. When these are many, the whole index is rebuilt.
func (s *Store) catchUp(ctx context.Context, db querier) error {
	m := &s.mirror
	list, err := queryInfos(ctx, db, `SELECT `+infoColumns+` FROM graph_subgraphs WHERE changed > $1`, m.changed)
	if err != nil {
		return err
	}
	again := map[sparql.ID]bool{}
	for _, r := range list {
		g := sparql.ID(r.g)
		again[g] = true
		m.stale[g] = true
		if r.Deleted {
			delete(m.graphs, g)
		} else {
			m.graphs[g] = r.Info
		}
	}
	quads := make([]sparql.Quad, 0, m.delta.Len())
	for _, q := range m.delta.Quads() {
		if !again[q.G] {
			quads = append(quads, q)
		}
	}
	for _, r := range list {
		if !r.Deleted {
			if quads, err = queryQuads(ctx, db, quads, `SELECT s, p, o, g FROM graph_quads WHERE g = $1`, r.g); err != nil {
				return err
			}
		}
	}
	if len(quads) > 10_000 && len(quads) > m.base.Len()/5 {
		for _, q := range m.base.Quads() {
			if !m.stale[q.G] {
				quads = append(quads, q)
			}
		}
		m.base, m.delta, m.stale = sparql.NewIndex(quads), sparql.NewIndex(nil), map[sparql.ID]bool{}
	} else {
		m.delta = sparql.NewIndex(quads)
	}
	if total := m.base.Len() + m.delta.Len(); total > s.o.MaxQuads {
		return s.tooLarge(total)
	}
	return nil
}

func queryInfos(ctx context.Context, db querier, text string, args ...any) (list []infoRow, err error) {
	rows, err := db.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		r, err := scanInfo(rows.Scan)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

func queryQuads(ctx context.Context, db querier, to []sparql.Quad, text string, args ...any) (_ []sparql.Quad, err error) {
	rows, err := db.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var q [4]int64
	for rows.Next() {
		if err := rows.Scan(&q[0], &q[1], &q[2], &q[3]); err != nil {
			return nil, err
		}
		to = append(to, sparql.Quad{S: sparql.ID(q[0]), P: sparql.ID(q[1]), O: sparql.ID(q[2]), G: sparql.ID(q[3])})
	}
	return to, rows.Err()
}

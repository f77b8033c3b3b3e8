package embedded

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"reckon/graph"
)

// Put implements graph.Store.
func (s *Store) Put(ctx context.Context, id string, p graph.Put) (info graph.Info, changed bool, err error) {
	if err := graph.CheckID(id); err != nil {
		return info, false, err
	}
	err = s.inTx(ctx, func(tx *sql.Tx) error {
		info, changed, err = s.putTx(ctx, tx, id, p)
		return err
	})
	if err == nil && changed {
		s.feed.send(info)
	}
	return info, changed, err
}

var _ graph.Batch = (*Store)(nil)

// PutAll implements graph.Batch.
func (s *Store) PutAll(ctx context.Context, list []graph.Change) (int, error) {
	for _, c := range list {
		if err := graph.CheckID(c.ID); err != nil {
			return 0, err
		}
	}
	var changed []graph.Info
	err := s.inTx(ctx, func(tx *sql.Tx) error {
		if err := s.terms.createTerms(ctx, tx, list); err != nil {
			return err
		}
		for _, c := range list {
			info, did, err := s.putTx(ctx, tx, c.ID, c.Put)
			if err != nil {
				return err
			}
			if did {
				changed = append(changed, info)
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, info := range changed {
		s.feed.send(info)
	}
	return len(changed), nil
}

func (s *Store) putTx(ctx context.Context, tx *sql.Tx, id string, p graph.Put) (graph.Info, bool, error) {
	r, there, err := findRow(ctx, tx, id)
	if err != nil {
		return r.Info, false, err
	}
	if err := checkVersion(id, r, there, p.IfVersion); err != nil {
		return r.Info, false, err
	}
	if !there {
		if r, err = s.createSubgraph(ctx, tx, id, p); err != nil {
			return r.Info, false, err
		}
	}
	changed, n, err := s.replaceStatements(ctx, tx, r, p)
	if err != nil {
		return r.Info, false, err
	}
	if !changed && there && !r.Deleted && r.Owner == p.Owner && r.Origin == p.Origin {
		return r.Info, false, nil
	}
	r.Origin, r.Owner, r.Quads, r.Deleted = p.Origin, p.Owner, n, false
	return s.nextVersion(ctx, tx, r, p.Time)
}

func checkVersion(id string, r infoRow, there bool, want int64) error {
	have := r.Version
	if !there || r.Deleted {
		have = 0
	}
	if want != graph.AnyVersion && want != have {
		return &graph.VersionError{ID: id, Want: want, Have: have}
	}
	return nil
}

func (s *Store) createSubgraph(ctx context.Context, tx *sql.Tx, id string, p graph.Put) (r infoRow, err error) {
	name := graph.Node(graph.Name(id))
	ids, err := s.terms.internTerms(ctx, tx, []graph.Term{name})
	if err != nil {
		return r, err
	}
	r = infoRow{Info: graph.Info{ID: id, Origin: p.Origin, Owner: p.Owner}, g: ids[name]}
	_, err = tx.ExecContext(
		ctx, `INSERT INTO graph_subgraphs (id, g, origin, owner, time_ms, version, quads, deleted, changed) VALUES ($1, $2, $3, $4, 0, `+
			`0, 0, 0, 0)`,
		id, r.g, p.Origin, p.Owner)
	return r, err
}

// nextVersion assigns the next version to a changed subgraph. A version is at least the current time, so that versions keep
// rising after a backup was restored.
func (s *Store) nextVersion(ctx context.Context, tx *sql.Tx, r infoRow, at time.Time) (graph.Info, bool, error) {
	now := s.o.Now()
	if at.IsZero() {
		at = now
	}
	r.Time = at.UTC().Truncate(time.Millisecond)
	r.Version = max(r.Version+1, now.UnixMilli())
	var change int64
	if err := tx.QueryRowContext(ctx,
		`UPDATE graph_state SET changed = changed + 1 WHERE one = 1 RETURNING changed`).Scan(&change); err != nil {
		return r.Info, false, err
	}
	deleted := 0
	if r.Deleted {
		deleted = 1
	}
	_, err := tx.ExecContext(
		ctx, `UPDATE graph_subgraphs SET origin = $1, owner = $2, time_ms = $3, version = $4, quads = $5, deleted = $6, changed = $7, `+
			`writes = writes + 1, write_ms = $8 WHERE id = $9`,
		r.Origin, r.Owner, r.Time.UnixMilli(), r.Version, r.Quads, deleted, change, now.UnixMilli(), r.ID)
	return r.Info, true, err
}

type tripleIDs struct{ s, p, o int64 }

// replaceStatements replaces the statements of a subgraph by p's, writing only the difference, and returns their number.
func (s *Store) replaceStatements(ctx context.Context, tx *sql.Tx, r infoRow, p graph.Put) (changed bool, n int, err error) {
	quads := p.Quads
	for i := range quads {
		if !quads[i].G.IsZero() {
			quads = withoutGraph(quads)
			break
		}
	}
	if p.Merge && hasBlanks(quads) {
		if quads, err = s.mergeQuads(ctx, tx, r, quads); err != nil {
			return false, 0, err
		}
		p.Merge = false
	}
	if quads, err = nameBlanks(quads, r.g); err != nil {
		return false, 0, err
	}
	want, err := s.termIDs(ctx, tx, quads)
	if err != nil {
		return false, 0, err
	}
	have, err := storedTriples(ctx, tx, r.g)
	if err != nil {
		return false, 0, err
	}
	var add, drop []tripleIDs
	for q := range want {
		if !have[q] {
			add = append(add, q)
		}
	}
	if !p.Merge {
		for q := range have {
			if !want[q] {
				drop = append(drop, q)
			}
		}
	}
	if err := deleteQuads(ctx, tx, r.g, drop); err != nil {
		return false, 0, err
	}
	err = insertQuads(ctx, tx, r.g, add)
	return len(add)+len(drop) > 0, len(have) + len(add) - len(drop), err
}

func withoutGraph(quads []graph.Quad) []graph.Quad {
	out := make([]graph.Quad, len(quads))
	for i, q := range quads {
		q.G = graph.Term{}
		out[i] = q
	}
	return out
}

func hasBlanks(quads []graph.Quad) bool {
	for _, q := range quads {
		if q.S.Kind == graph.Blank || q.O.Kind == graph.Blank {
			return true
		}
	}
	return false
}

// mergeQuads returns the stored statements together with the new ones; blank nodes of the two are distinct.
func (s *Store) mergeQuads(ctx context.Context, tx *sql.Tx, r infoRow, quads []graph.Quad) ([]graph.Quad, error) {
	have, err := readQuads(ctx, tx, r.g)
	if err != nil {
		return nil, err
	}
	for _, q := range quads {
		for _, t := range []*graph.Term{&q.S, &q.O} {
			if t.Kind == graph.Blank {
				t.Value = "new" + t.Value
			}
		}
		have = append(have, q)
	}
	return have, nil
}

// nameBlanks renames the blank nodes of subgraph g to names that depend only on g and the content of the subgraph.
// Writing the same subgraph again therefore changes nothing, and two subgraphs never share a blank node.
func nameBlanks(quads []graph.Quad, g int64) ([]graph.Quad, error) {
	if !hasBlanks(quads) {
		return quads, nil
	}
	quads, err := graph.Canonical(quads)
	if err != nil {
		return nil, err
	}
	for i := range quads {
		for _, t := range []*graph.Term{&quads[i].S, &quads[i].O} {
			if t.Kind == graph.Blank {
				t.Value = "b" + strconv.FormatInt(g, 10) + "n" + strings.TrimPrefix(t.Value, "c14n")
			}
		}
	}
	return quads, nil
}

func (s *Store) termIDs(ctx context.Context, tx *sql.Tx, quads []graph.Quad) (map[tripleIDs]bool, error) {
	terms := make([]graph.Term, 0, 3*len(quads))
	for _, q := range quads {
		terms = append(terms, q.S, q.P, q.O)
	}
	ids, err := s.terms.internTerms(ctx, tx, terms)
	if err != nil {
		return nil, err
	}
	out := make(map[tripleIDs]bool, len(quads))
	for _, q := range quads {
		out[tripleIDs{ids[q.S], ids[q.P], ids[q.O]}] = true
	}
	return out, nil
}

func storedTriples(ctx context.Context, db querier, g int64) (out map[tripleIDs]bool, err error) {
	rows, err := db.QueryContext(ctx, `SELECT s, p, o FROM graph_quads WHERE g = $1`, g)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	out = map[tripleIDs]bool{}
	var q tripleIDs
	for rows.Next() {
		if err := rows.Scan(&q.s, &q.p, &q.o); err != nil {
			return nil, err
		}
		out[q] = true
	}
	return out, rows.Err()
}

// insertQuads adds the quads of graph g, many per statement. It writes ids as literals, because SQLite searches all
// parameters of a statement each time it binds one.
func insertQuads(ctx context.Context, tx *sql.Tx, g int64, list []tripleIDs) error {
	slices.SortFunc(list, func(a, b tripleIDs) int {
		return cmp.Or(cmp.Compare(a.s, b.s), cmp.Compare(a.p, b.p), cmp.Compare(a.o, b.o))
	})
	return inChunks(list, func(part []tripleIDs) error {
		text := []byte(`INSERT INTO graph_quads (g, s, p, o) VALUES `)
		for i, q := range part {
			if i > 0 {
				text = append(text, ',')
			}
			text = fmt.Appendf(text, "(%d,%d,%d,%d)", g, q.s, q.p, q.o)
		}
		_, err := tx.ExecContext(ctx, string(text))
		return err
	})
}

func deleteQuads(ctx context.Context, tx *sql.Tx, g int64, list []tripleIDs) error {
	if len(list) == 0 {
		return nil
	}
	stmt, err := tx.PrepareContext(ctx, `DELETE FROM graph_quads WHERE g = $1 AND s = $2 AND p = $3 AND o = $4`)
	if err != nil {
		return err
	}
	defer stmt.Close()
	for _, q := range list {
		if _, err := stmt.ExecContext(ctx, g, q.s, q.p, q.o); err != nil {
			return err
		}
	}
	return nil
}

// Delete implements graph.Store.
func (s *Store) Delete(ctx context.Context, id string, ifVersion int64) (info graph.Info, err error) {
	err = s.inTx(ctx, func(tx *sql.Tx) error {
		r, there, err := findRow(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := checkVersion(id, r, there, ifVersion); err != nil {
			return err
		}
		if !there || r.Deleted {
			return fmt.Errorf("%w: %q", graph.ErrNotFound, id)
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM graph_quads WHERE g = $1`, r.g); err != nil {
			return err
		}
		r.Deleted, r.Quads = true, 0
		info, _, err = s.nextVersion(ctx, tx, r, time.Time{})
		return err
	})
	if err == nil {
		s.feed.send(info)
	}
	return info, err
}

// Usage implements graph.Store.
func (s *Store) Usage(ctx context.Context, id string) (u graph.Usage, err error) {
	var read, write, deleted int64
	err = s.o.DB.QueryRowContext(ctx, `SELECT reads, writes, read_ms, write_ms, deleted FROM graph_subgraphs WHERE id = $1`,
		id).Scan(&u.Reads, &u.Writes, &read, &write, &deleted)
	if errors.Is(err, sql.ErrNoRows) || err == nil && deleted != 0 {
		return u, fmt.Errorf("%w: %q", graph.ErrNotFound, id)
	}
	if err != nil {
		return u, s.o.Explain(ctx, err)
	}
	if read > 0 {
		u.LastRead = time.UnixMilli(read).UTC()
	}
	if write > 0 {
		u.LastWrite = time.UnixMilli(write).UTC()
	}
	if r, ok := s.terms.unsavedReads(id); ok {
		u.Reads += r.n
		u.LastRead = r.last.UTC()
	}
	return u, nil
}

// Compact saves the read counts, and deletes terms that no statement uses, unless a query is running.
func (s *Store) Compact(ctx context.Context) error {
	reads := s.terms.takeReads()
	alone := s.mirror.mu.TryLock()
	if alone {
		defer s.mirror.mu.Unlock()
	}
	err := s.inTx(ctx, func(tx *sql.Tx) error {
		for id, r := range reads {
			if _, err := tx.ExecContext(ctx, `UPDATE graph_subgraphs SET reads = reads + $1, read_ms = $2 WHERE id = $3`, r.n,
				r.last.UnixMilli(), id); err != nil {
				return err
			}
		}
		if !alone {
			return nil
		}
		_, err := tx.ExecContext(
			ctx, `DELETE FROM graph_terms WHERE NOT EXISTS (SELECT 1 FROM graph_subgraphs g WHERE g.g = graph_terms.id) AND NOT EXISTS `+
				`(SELECT 1 FROM graph_quads q WHERE q.o = graph_terms.id) AND NOT EXISTS (SELECT 1 FROM graph_quads q WHERE q.p = `+
				`graph_terms.id) AND id NOT IN (SELECT DISTINCT s FROM graph_quads)`)
		s.terms.dropUncommitted()
		s.mirror.loaded = false // term ids may be reused
		return err
	})
	return errors.Join(err, s.saveNewestChange(ctx))
}

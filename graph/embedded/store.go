// Package embedded stores the knowledge graph in the database of the catalogue, SQLite or
// PostgreSQL: quads of numbered terms in the orders SPO, POS and OSP, each with its graph.
//
// Queries are answered from an index in memory of 48 bytes a quad, which each query brings up to
// date from the database, and which is dropped after ten minutes without a query. Several servers
// may therefore share a database. A Store is safe for concurrent use.
package embedded

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"reckon/graph"
)

// Options configure a store.
type Options struct {
	DB *sql.DB
	// Write is held while the store writes.
	Write sync.Locker
	// Postgres means that the database is shared by several writers.
	Postgres bool
	// Explain translates an error of the database for people; may be nil.
	Explain func(context.Context, error) error
	// State is a file with the newest change, so that a replaced, older database is detected; empty for none.
	State string
	// Logger receives faults of State; nil discards them.
	Logger *slog.Logger
	// MaxQuads is the maximum size of the index in memory; 0 is 4,000,000, which take 200 MB.
	MaxQuads int
	Now      func() time.Time
	// Snapshots are graphs that are built when a query selects them; may be nil.
	Snapshots Snapshots
	// Latest returns the statements of the graph own.LatestGraph, which a query may name; nil: there is none.
	Latest graph.Latest
}

// Store is the graph in a database.
type Store struct {
	o      Options
	terms  *interner
	mirror mirror
	feed   broadcaster
}

var _ graph.Store = (*Store)(nil)

// Open opens the store in tables that the catalogue created. If the database is older than the newest change that this
// server recorded, a backup was restored, and Open raises all versions.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MaxQuads <= 0 {
		o.MaxQuads = 4_000_000
	}
	if o.Explain == nil {
		o.Explain = func(_ context.Context, err error) error { return err }
	}
	s := &Store{o: o, terms: newInterner(!o.Postgres)}
	s.mirror.init()
	if err := s.checkRestored(ctx); err != nil {
		return nil, fmt.Errorf("open the knowledge graph: %w", err)
	}
	return s, nil
}

// Close saves the newest change; the caller closes the database.
func (s *Store) Close() error {
	s.mirror.stop()
	s.feed.close()
	return s.saveNewestChange(context.Background())
}

// inTx runs f in a transaction.
func (s *Store) inTx(ctx context.Context, f func(*sql.Tx) error) (err error) {
	s.o.Write.Lock()
	defer s.o.Write.Unlock()
	tx, err := s.o.DB.BeginTx(ctx, nil)
	if err != nil {
		return s.o.Explain(ctx, err)
	}
	defer func() {
		if err != nil {
			s.terms.dropUncommitted()
			err = errors.Join(s.translateError(ctx, err), ignoreDone(tx.Rollback()))
		}
	}()
	if s.o.Postgres { // one writer at a time, also among servers
		if _, err := tx.ExecContext(ctx, `SELECT changed FROM graph_state WHERE one = 1 FOR UPDATE`); err != nil {
			return err
		}
	}
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// translateError translates errors of the database and returns the graph's own errors unchanged.
func (s *Store) translateError(ctx context.Context, err error) error {
	var version *graph.VersionError
	if errors.Is(err, graph.ErrNotFound) || errors.As(err, &version) || errors.Is(err, graph.ErrTooSymmetric) {
		return err
	}
	return s.o.Explain(ctx, err)
}

const infoColumns = `id, g, origin, owner, time_ms, version, quads, deleted`

type infoRow struct {
	graph.Info
	g int64
}

func scanInfo(scan func(...any) error) (r infoRow, err error) {
	var ms int64
	err = scan(&r.ID, &r.g, &r.Origin, &r.Owner, &ms, &r.Version, &r.Quads, &r.Deleted)
	r.Time = time.UnixMilli(ms).UTC()
	return r, err
}

type querier interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

// findRow returns the row of a subgraph, deleted or not.
func findRow(ctx context.Context, db querier, id string) (r infoRow, there bool, err error) {
	r, err = scanInfo(db.QueryRowContext(ctx, `SELECT `+infoColumns+` FROM graph_subgraphs WHERE id = $1`, id).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return r, false, nil
	}
	return r, err == nil, err
}

// Get implements graph.Store.
func (s *Store) Get(ctx context.Context, id string) (graph.Info, []graph.Quad, error) {
	r, there, err := findRow(ctx, s.o.DB, id)
	if err != nil {
		return graph.Info{}, nil, s.o.Explain(ctx, err)
	}
	if !there || r.Deleted {
		return r.Info, nil, fmt.Errorf("%w: %q", graph.ErrNotFound, id)
	}
	quads, err := readQuads(ctx, s.o.DB, r.g)
	if err != nil {
		return r.Info, nil, s.o.Explain(ctx, err)
	}
	s.terms.countRead(id, s.o.Now())
	return r.Info, quads, nil
}

func readQuads(ctx context.Context, db querier, g int64) (quads []graph.Quad, err error) {
	rows, err := db.QueryContext(ctx,
		`SELECT s.term, p.term, o.term FROM graph_quads q JOIN graph_terms s ON s.id = q.s JOIN graph_terms p ON p.id = q.p JOIN `+
			`graph_terms o ON o.id = q.o WHERE q.g = $1`, g)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var text [3]string
	for rows.Next() {
		if err := rows.Scan(&text[0], &text[1], &text[2]); err != nil {
			return nil, err
		}
		var q graph.Quad
		for i, to := range []*graph.Term{&q.S, &q.P, &q.O} {
			if *to, err = graph.ParseTerm(text[i]); err != nil {
				return nil, err
			}
		}
		quads = append(quads, q)
	}
	return quads, rows.Err()
}

// List implements graph.Store.
func (s *Store) List(ctx context.Context) ([]graph.Info, error) {
	list, err := queryInfos(ctx, s.o.DB, `SELECT `+infoColumns+` FROM graph_subgraphs WHERE deleted = 0 ORDER BY id`)
	if err != nil {
		return nil, s.o.Explain(ctx, err)
	}
	out := make([]graph.Info, len(list))
	for i, r := range list {
		out[i] = r.Info
	}
	slices.SortFunc(out, func(a, b graph.Info) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// Check implements graph.Store.
func (s *Store) Check(ctx context.Context) error {
	var n int64
	err := s.o.DB.QueryRowContext(ctx, `SELECT changed FROM graph_state WHERE one = 1`).Scan(&n)
	if err != nil {
		return s.o.Explain(ctx, err)
	}
	return nil
}

package embedded

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"reckon/graph"
)

// maxRemembered is the maximum number of cached term ids.
const maxRemembered = 50_000

// interner caches the ids of terms, and counts reads until they are saved.
type interner struct {
	mu    sync.Mutex
	keep  bool // keep ids over transactions: no other process deletes terms
	ids   map[string]int64
	reads map[string]*readCount
}

type readCount struct {
	n    int64
	last time.Time
}

func newInterner(keep bool) *interner {
	return &interner{keep: keep, ids: map[string]int64{}, reads: map[string]*readCount{}}
}

// dropUncommitted drops the ids that a failed transaction may have created.
func (t *interner) dropUncommitted() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.ids)
}

func (t *interner) countRead(id string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.reads[id]
	if r == nil {
		if len(t.reads) >= maxRemembered {
			return
		}
		r = &readCount{}
		t.reads[id] = r
	}
	r.n++
	r.last = now
}

func (t *interner) takeReads() map[string]*readCount {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.reads
	t.reads = map[string]*readCount{}
	return out
}

func (t *interner) unsavedReads(id string) (readCount, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.reads[id]; r != nil {
		return *r, true
	}
	return readCount{}, false
}

func termHash(term string) int64 {
	sum := sha256.Sum256([]byte(term))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// sortByHash sorts terms in the order of their index.
func sortByHash(terms []string) {
	hash := make(map[string]int64, len(terms))
	for _, t := range terms {
		hash[t] = termHash(t)
	}
	slices.SortFunc(terms, func(a, b string) int { return cmp.Compare(hash[a], hash[b]) })
}

// inChunks calls f with parts of a list that fit into one statement.
func inChunks[T any](list []T, f func([]T) error) error {
	const most = 200
	for len(list) > 0 {
		n := min(most, len(list))
		if err := f(list[:n]); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

func placeholders(first, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "$%d", first+i)
	}
	return b.String()
}

// readIDs reads the ids of terms from the database. found may also receive other terms with the same hash.
func readIDs(ctx context.Context, db querier, terms []string, found map[string]int64) error {
	return inChunks(terms, func(part []string) error {
		args := make([]any, len(part))
		for i, t := range part {
			args[i] = termHash(t)
		}
		return noteIDs(ctx, db, found, `SELECT id, term FROM graph_terms WHERE hash IN (`+placeholders(1, len(args))+`)`, args)
	})
}

// addTerms adds terms to the database and records their ids.
func addTerms(ctx context.Context, tx *sql.Tx, terms []string, ids map[string]int64) error {
	return inChunks(terms, func(part []string) error {
		rows, args := make([]string, len(part)), make([]any, 0, 2*len(part))
		for i, s := range part {
			rows[i] = "(" + placeholders(2*i+1, 2) + ")"
			args = append(args, termHash(s), s)
		}
		return noteIDs(ctx, tx, ids, `INSERT INTO graph_terms (hash, term) VALUES `+strings.Join(rows, ",")+` RETURNING id, term`, args)
	})
}

// noteIDs records the ids and terms that a statement returns.
func noteIDs(ctx context.Context, db querier, ids map[string]int64, text string, args []any) (err error) {
	rows, err := db.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var id int64
	var term string
	for rows.Next() {
		if err := rows.Scan(&id, &term); err != nil {
			return err
		}
		ids[term] = id
	}
	return rows.Err()
}

// createTerms inserts the missing terms of several changes in the order of the index. Each index page is then written
// only once. With one insertion per change, each change would write pages all over the index.
func (t *interner) createTerms(ctx context.Context, tx *sql.Tx, list []graph.Change) error {
	if !t.keep || len(list) < 2 {
		return nil
	}
	var terms []graph.Term
	for _, c := range list {
		if hasBlanks(c.Quads) {
			continue // their names are not final
		}
		terms = append(terms, graph.Node(graph.Name(c.ID)))
		for _, q := range c.Quads {
			terms = append(terms, q.S, q.P, q.O)
		}
	}
	_, err := t.internTerms(ctx, tx, terms)
	return err
}

// internTerms returns the id of every term of a change, and creates the missing ones.
func (t *interner) internTerms(ctx context.Context, tx *sql.Tx, terms []graph.Term) (map[graph.Term]int64, error) {
	out := make(map[graph.Term]int64, len(terms))
	text := make(map[string]graph.Term, len(terms))
	var missing []string
	t.mu.Lock()
	for _, term := range terms {
		s := term.String()
		if id, ok := t.ids[s]; ok {
			out[term] = id
		} else if _, ok := text[s]; !ok {
			text[s] = term
			missing = append(missing, s)
		}
	}
	t.mu.Unlock()
	sortByHash(missing)
	found := make(map[string]int64, len(missing))
	if err := readIDs(ctx, tx, missing, found); err != nil {
		return nil, err
	}
	if err := addTerms(ctx, tx, slices.DeleteFunc(missing, func(s string) bool { _, ok := found[s]; return ok }), found); err != nil {
		return nil, err
	}
	for s, term := range text {
		out[term] = found[s]
	}
	if t.keep {
		t.mu.Lock()
		if len(t.ids)+len(found) > maxRemembered {
			clear(t.ids)
		}
		for s, id := range found {
			t.ids[s] = id
		}
		t.mu.Unlock()
	}
	return out, nil
}

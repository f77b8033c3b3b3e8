package database

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"reckon/figure"
	"reckon/store"
)

// A row has about eighty columns, and two thirds are empty for most workloads: a process group has no GPU, request
// or limit. Because SQLite binds a NULL at the same cost as a number, a row is written by a statement with only its own
// figures. The rows of a machine have few different sets of figures.

// figureSet is a set of figures, a bit each.
type figureSet [(figure.RowLen + 63) / 64]uint64

func measuredFigures(w *store.Workload) (m figureSet) {
	for i := range figures {
		if *w.Row.At(i) != nil {
			m[i/64] |= 1 << (i % 64)
		}
	}
	return m
}

func (m *figureSet) isSet(i int) bool { return m[i/64]&(1<<(i%64)) != 0 }

// maxInserts is the maximum number of prepared statements. Rows with further sets of figures are written with all columns.
const maxInserts = 24

// inserts are the statements by the figures that they write. They are guarded by the lock of the writer.
type inserts struct {
	db *sql.DB
	by map[figureSet]*sql.Stmt
}

// prepare prepares the statements for rows. Do not call it in a transaction, because it may use another connection.
func (s *inserts) prepare(ctx context.Context, rows []store.Workload) error {
	if s == nil {
		return nil
	}
	for i := range rows {
		m := measuredFigures(&rows[i])
		if s.by[m] != nil || len(s.by) >= maxInserts {
			continue
		}
		columns := slices.Clone(factColumns)
		for i, c := range runColumns {
			if m.isSet(i) {
				columns = append(columns, c)
			}
		}
		// The parameters have no number: SQLite finds the name of a numbered one by looking through all before it.
		stmt, err := s.db.PrepareContext(ctx, makeInsert(strings.Repeat("?, ", len(columns)-1)+"?", columns))
		if err != nil {
			return err
		}
		s.by[m] = stmt
	}
	return nil
}

func (s *inserts) close() {
	if s == nil {
		return
	}
	for _, stmt := range s.by {
		_ = stmt.Close() // closing the database closes it too
	}
}

// statementFor appends the figures of a row to the parameters, and returns the statement for them.
func (u *upsert) statementFor(ctx context.Context, w *store.Workload) *sql.Stmt {
	if stmt := u.preparedStatement(ctx, w); stmt != nil {
		for i := range figures {
			if v := *w.Row.At(i); v != nil {
				u.args = append(u.args, *v)
			}
		}
		return stmt
	}
	for i := range figures {
		u.args = append(u.args, *w.Row.At(i))
	}
	return u.insert
}

// preparedStatement returns the statement for the figures that a row has, or nil if there is none.
func (u *upsert) preparedStatement(ctx context.Context, w *store.Workload) *sql.Stmt {
	if u.inserts == nil {
		return nil
	}
	m := measuredFigures(w)
	stmt := u.opened[m]
	if prepared := u.inserts.by[m]; stmt == nil && prepared != nil {
		stmt = u.tx.StmtContext(ctx, prepared)
		u.opened[m] = stmt
	}
	return stmt
}

// close closes the statements of the transaction.
func (u *upsert) close() {
	for _, stmt := range u.opened {
		_ = stmt.Close() // the end of the transaction closes it too
	}
}

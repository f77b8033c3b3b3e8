package database

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"reckon/figure"
	"reckon/store"
)

// The columns of figures are defined by package figure. When the database is opened, missing ones are added. The schema
// defines all other columns.
var (
	figures      = figure.InScope(figure.Runs)
	runColumns   = figure.Columns(figure.Runs)
	usedColumns  = figure.Columns(figure.Hours)
	nodesColumns = slices.Concat(figure.Columns(figure.Nodes), usedColumns)
)

// figureFields returns the figures of some structs, in the order of their columns.
func figureFields(of ...figure.Numbered) []**float64 {
	var out []**float64
	for _, n := range of {
		for i := range n.Len() {
			out = append(out, n.At(i))
		}
	}
	return out
}

func nodeFields(u *store.NodeUse) []**float64 { return figureFields(&u.Capacity, &u.Used) }

// inexactColumn is the exactness of the figures in a row of usage, as written by [figure.Degrees.Pack].
const inexactColumn = "inexact"

// sharesColumn holds the shares of users in a process group of several users ([store.Workload.Shares]) as JSON. It is
// empty for all other runs. Like a column of figures, it is added when the database is opened.
const sharesColumn = "shares"

// figureTables are the tables with columns of figures.
var figureTables = []struct {
	name    string
	columns []string
	sorted  bool // lists can be sorted by them
}{{"workloads", withColumns(runColumns, sharesColumn), true}, {"uses", withColumns(usedColumns, inexactColumn), false},
	{"node_uses", withColumns(nodesColumns, inexactColumn), false}}

func withColumns(columns []string, more string) []string { return append(slices.Clip(columns), more) }

// addColumns adds the missing columns of figures to the tables and records the time. An older program can still use the
// database, but leaves these columns empty.
func (c *Catalogue) addColumns(ctx context.Context) error {
	if lacking, err := c.d.missingColumns(ctx, c.db); err != nil || len(lacking) == 0 {
		return err
	}
	return c.changeSchema(ctx, func(tx *sql.Tx) error {
		lacking, err := c.d.missingColumns(ctx, tx) // another process may have been faster
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx,
			`CREATE TABLE IF NOT EXISTS figure_columns (table_name TEXT NOT NULL, column_name TEXT NOT NULL, added_ms BIGINT NOT NULL, `+
				`PRIMARY KEY (table_name, column_name))`); err != nil {
			return err
		}
		for _, l := range lacking {
			if err := c.d.addColumn(ctx, tx, l); err != nil {
				return fmt.Errorf("add column %s to %s: %w", l.column, l.table, err)
			}
		}
		return nil
	})
}

// newColumn is a missing column of a table.
type newColumn struct {
	table, column string
	sorted        bool
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func (d *dialect) missingColumns(ctx context.Context, q querier) ([]newColumn, error) {
	var out []newColumn
	for _, t := range figureTables {
		have, err := d.tableColumns(ctx, q, t.name)
		if err != nil {
			return nil, err
		}
		for _, column := range t.columns {
			if !have[column] {
				out = append(out, newColumn{t.name, column, t.sorted})
			}
		}
	}
	return out, nil
}

// tableColumns returns the columns of a table.
func (d *dialect) tableColumns(ctx context.Context, q querier, table string) (map[string]bool, error) {
	rows, err := q.QueryContext(ctx, d.columns, table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	have := map[string]bool{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		have[name] = true
	}
	return have, rows.Err()
}

// addColumn adds a column, with an index if lists are answered by indexes.
func (d *dialect) addColumn(ctx context.Context, tx *sql.Tx, n newColumn) error {
	of := " DOUBLE PRECISION"
	if n.column == sharesColumn {
		of = " TEXT NOT NULL DEFAULT ''"
	}
	if _, err := tx.ExecContext(ctx, "ALTER TABLE "+n.table+" ADD COLUMN "+n.column+of); err != nil {
		return err
	}
	if n.column == sharesColumn && d.indexes {
		if _, err := tx.ExecContext(ctx, "CREATE INDEX workloads_shared ON workloads (key) WHERE shares <> ''"); err != nil {
			return err
		}
	} else if n.sorted && d.indexes {
		if _, err := tx.ExecContext(ctx, "CREATE INDEX "+n.table+"_by_"+n.column+" ON "+n.table+" ("+n.column+")"); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO figure_columns (table_name, column_name, added_ms) VALUES ($1, $2, $3)`, n.table, n.column,
		time.Now().UnixMilli())
	return err
}

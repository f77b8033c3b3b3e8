package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"reckon/internal/durable"
)

// tableGroup is a set of tables of the catalogue that are only consistent together.
type tableGroup struct {
	name   string
	tables []string
	lost   string // consequence of its loss
}

func salvageGroups() []tableGroup {
	return []tableGroup{
		{"runs and hours", []string{"workloads", "steps", "uses", "node_uses", "use_groups", "state"},
			"runs and hours are read again from the series, those older than the series are in backups only"},
		{"findings", []string{"findings"}, "findings are made again, marks on them are in backups only"},
		{"forecasts", []string{"forecasts"}, "forecasts are made again, marks on them are in backups only"},
		{"the knowledge graph", []string{"graph_terms", "graph_subgraphs", "graph_quads", "graph_state"},
			"the knowledge graph is made again; only backups have the statements that other programs wrote"},
		{"runs of MetricSets", []string{"metric_runs", "metric_run_pods", "metric_run_samples"}, "runs of MetricSets are in backups only"},
	}
}

// salvageTables copies the parts of a damaged file that have no page in bad, and returns the others as lost. aside is the
// damaged file. It never copies rows of a damaged page, because SQLite cannot detect changes in them.
func (c *Catalogue) salvageTables(ctx context.Context, aside string, bad map[int64]bool) (took, lost []tableGroup, err error) {
	lost = salvageGroups()
	if len(bad) == 0 {
		return nil, lost, errors.New("which of its pages are damaged is not known")
	}
	tmp := c.path + ".salvage" // SQLite would change the file that is kept
	defer func() { err = errors.Join(err, removeLog(tmp), os.Remove(tmp)) }()
	if err := copyFile(aside, tmp); err != nil {
		return nil, lost, err
	}
	if err := copyFile(aside+"-wal", tmp+"-wal"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, lost, err
	}
	c.write.Lock()
	defer c.write.Unlock()
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return nil, lost, err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, `ATTACH DATABASE $1 AS damaged`, tmp); err != nil {
		return nil, lost, err
	}
	defer func() {
		_, detached := conn.ExecContext(context.WithoutCancel(ctx), `DETACH DATABASE damaged`)
		err = errors.Join(err, detached)
		c.settler.checkpoint(ctx, 0)
	}()
	damaged, err := damagedTables(ctx, conn, bad)
	if err != nil {
		return nil, lost, err
	}
	lost = nil
	for _, p := range salvageGroups() {
		if slices.ContainsFunc(p.tables, func(t string) bool { return damaged[t] }) {
			lost = append(lost, p)
			continue
		}
		if bad := copyTables(ctx, conn, p.tables); bad != nil {
			lost, err = append(lost, p), errors.Join(err, fmt.Errorf("%s: %w", p.name, bad))
			continue
		}
		took = append(took, p)
	}
	return took, lost, err
}

// damagedTables returns the tables and indexes that have a page in bad (https://www.sqlite.org/dbstat.html). All other
// trees are intact, because every page of a tree is reached only through pages of the same tree.
func damagedTables(ctx context.Context, conn *sql.Conn, bad map[int64]bool) (map[string]bool, error) {
	var size int64
	if err := conn.QueryRowContext(ctx, `PRAGMA damaged.page_size`).Scan(&size); err != nil {
		return nil, err
	}
	if size != durable.PageSize {
		return nil, fmt.Errorf("its pages have %d bytes", size)
	}
	rows, err := conn.QueryContext(ctx, `SELECT name, pageno FROM dbstat WHERE schema = 'damaged'`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	damaged := map[string]bool{}
	for rows.Next() {
		var name string
		var page int64
		if err := rows.Scan(&name, &page); err != nil {
			return nil, err
		}
		if bad[page-1] {
			damaged[name] = true
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if bad[0] || damaged["sqlite_schema"] {
		return nil, errors.New("its list of tables is damaged")
	}
	return damaged, nil
}

// copyTables copies tables completely, or none of them.
func copyTables(ctx context.Context, conn *sql.Conn, tables []string) (err error) {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	for _, table := range tables {
		var columns sql.NullString
		if err := tx.QueryRowContext(ctx, `SELECT group_concat('"' || name || '"', ', ') FROM pragma_table_info($1, 'damaged')`,
			table).Scan(&columns); err != nil {
			return err
		}
		if !columns.Valid {
			continue // it is older than the table
		}
		for _, statement := range []string{
			"DELETE FROM main." + table,
			"INSERT INTO main." + table + " (" + columns.String + ") SELECT " + columns.String + " FROM damaged." + table + " NOT INDEXED",
		} {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", table, err)
			}
		}
	}
	if _, err := tx.ExecContext(ctx, "UPDATE main.generation SET n = n + 1"); err != nil {
		return err
	}
	return tx.Commit()
}

// reportMoved logs the fate of a damaged catalogue.
func (c *Catalogue) reportMoved(aside string, took, lost []tableGroup, cause, failed error) {
	names, means := make([]string, 0, len(took)), make([]string, 0, len(lost)+1)
	for _, p := range took {
		names = append(names, p.name)
	}
	for _, p := range lost {
		means = append(means, p.lost)
	}
	text := "the catalogue is damaged and was moved aside"
	if len(took) > 0 {
		text += "; whole in it and taken over: " + strings.Join(names, ", ")
	}
	if len(lost) > 0 {
		text += ". Lost: " + strings.Join(means, "; ") + " (`reckon restore`)"
	}
	args := []any{"kept", aside, "err", cause}
	if failed != nil {
		args = append(args, "why", failed)
	}
	c.log.Error(text, args...)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

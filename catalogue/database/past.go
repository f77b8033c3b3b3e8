package database

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"reckon/internal/durable"
	"reckon/store"
)

// DropSince empties the catalogue before it is rebuilt from series that begin at t. It keeps hours before t and
// workloads that ended before t, because the series no longer contain them.
func (c *Catalogue) DropSince(ctx context.Context, t time.Time) error {
	c.write.Lock()
	defer c.write.Unlock()
	ms := t.UnixMilli()
	var at int64
	err := c.inTx(ctx, func(tx *sql.Tx) (err error) {
		if at, err = c.lists.countWrite(ctx, tx); err != nil {
			return err
		}
		if err := c.dropRows(ctx, tx, "seen_ms >= $1", ms); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM state`); err != nil {
			return err
		}
		// The hour in which the series begin is incomplete.
		hour := (ms + hourMS - 1) / hourMS * hourMS
		for _, table := range []string{"uses", "node_uses"} {
			if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE span = 'h' AND at_ms >= $1", hour); err != nil {
				return err
			}
		}
		return c.d.recomputeSums(ctx, tx, hour)
	})
	c.lists.applyWrite(at, nil, err)
	if err != nil {
		return fmt.Errorf("empty the catalogue from %s on: %w", t.UTC().Format(time.RFC3339), err)
	}
	return nil
}

// recomputeSums computes the sums that include hours from ms on again.
func (d *dialect) recomputeSums(ctx context.Context, tx *sql.Tx, ms int64) error {
	month := store.SpanStart(store.SpanMonth, time.UnixMilli(ms))
	day := store.SpanStart(store.SpanDay, time.UnixMilli(ms))
	for _, table := range []string{"uses", "node_uses"} {
		for span, from := range map[string]time.Time{"d": day, "m": month} {
			if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE span = $1 AND at_ms >= $2", span, from.UnixMilli()); err != nil {
				return err
			}
		}
	}
	hour := time.UnixMilli(ms).UTC()
	return sumUp(ctx, tx, hour.Add(-time.Hour), hour)
}

// Trim deletes ended workloads and roll-up hours older than t. It returns the number of deleted workloads.
func (c *Catalogue) Trim(ctx context.Context, t time.Time) (int, error) {
	c.write.Lock()
	defer c.write.Unlock()
	ms := store.SpanStart(store.SpanMonth, t).UnixMilli() // whole months, so that sums stay complete
	var n int
	var at int64
	err := c.inTx(ctx, func(tx *sql.Tx) (err error) {
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM workloads WHERE until_ms < $1`, ms).Scan(&n); err != nil {
			return err
		}
		if n > 0 {
			if at, err = c.lists.countWrite(ctx, tx); err != nil {
				return err
			}
			if err := c.dropRows(ctx, tx, "until_ms < $1", ms); err != nil {
				return err
			}
		}
		for _, table := range []string{"uses", "node_uses"} {
			if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE at_ms < $1", ms); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM use_groups WHERE id NOT IN (SELECT group_id FROM uses)`)
		return err
	})
	if at > 0 {
		c.lists.applyWrite(at, nil, err)
	}
	if err != nil {
		return 0, fmt.Errorf("delete rows older than %s: %w", t.UTC().Format(time.DateOnly), err)
	}
	return n, nil
}

// dropRows deletes workloads, and updates the row counts.
func (c *Catalogue) dropRows(ctx context.Context, tx *sql.Tx, cond string, ms int64) error {
	drops := []string{"DELETE FROM workloads WHERE " + cond}
	if c.d.indexes {
		drops = []string{"DELETE FROM workload_nodes WHERE key IN (SELECT key FROM workloads WHERE " + cond + ")", drops[0]}
	}
	for _, q := range drops {
		if _, err := tx.ExecContext(ctx, q, ms); err != nil {
			return err
		}
	}
	return c.recountRows(ctx, tx)
}

// recountRows updates workload_counts after deletions.
func (c *Catalogue) recountRows(ctx context.Context, tx *sql.Tx) error {
	if !c.d.indexes {
		return nil
	}
	for _, q := range []string{
		"DELETE FROM workload_counts",
		fmt.Sprintf(
			"INSERT INTO workload_counts (owner, account, kind, partition_name, state, command, running, n) SELECT owner, account, "+
				"kind, partition_name, state, command, CASE WHEN until_ms = %d THEN 1 ELSE 0 END, count(*) FROM workloads GROUP BY 1, "+
				"2, 3, 4, 5, 6, 7", running),
		"DELETE FROM workload_names WHERE name NOT IN (SELECT name FROM workloads)",
	} {
		if _, err := tx.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// Snapshot writes a consistent copy of the catalogue to a new file, while the catalogue is in use. It returns an error
// for PostgreSQL, where pg_dump does this.
func (c *Catalogue) Snapshot(ctx context.Context, file string) error {
	if c.d.name != "sqlite" {
		return fmt.Errorf("copy the catalogue in %s: back it up by the means of PostgreSQL, such as pg_dump", c.path)
	}
	if _, err := c.db.ExecContext(ctx, "VACUUM INTO '"+strings.ReplaceAll(file, "'", "''")+"'"); err != nil {
		return fmt.Errorf("copy the catalogue to %s: %w", file, c.translateError(ctx, err))
	}
	return durable.NewPages(file).NoteClosed()
}

package database

import (
	"context"
	"database/sql"
	"fmt"

	"reckon/store"
)

// Forget deletes the rows of runs that the series now contradict. Missing rows are ignored.
func (c *Catalogue) Forget(ctx context.Context, lives []store.Run) error {
	if len(lives) == 0 {
		return nil
	}
	c.write.Lock()
	defer c.write.Unlock()
	var at int64
	err := c.inTx(ctx, func(tx *sql.Tx) (err error) {
		if at, err = c.lists.countWrite(ctx, tx); err != nil {
			return err
		}
		for _, l := range lives {
			cond, args := "site = $1 AND id = $2", []any{l.Site, l.ID}
			if !l.Start.IsZero() {
				cond, args = cond+" AND start_ms = $3", append(args, l.Start.UnixMilli())
			}
			if c.d.indexes {
				if _, err := tx.ExecContext(ctx, "DELETE FROM workload_nodes WHERE key IN (SELECT key FROM workloads WHERE "+cond+")",
					args...); err != nil {
					return err
				}
			}
			if _, err := tx.ExecContext(ctx, "DELETE FROM workloads WHERE "+cond, args...); err != nil {
				return err
			}
		}
		return c.recountRows(ctx, tx)
	})
	c.lists.applyWrite(at, nil, err)
	if err != nil {
		return fmt.Errorf("forget %d workloads: %w", len(lives), err)
	}
	return nil
}

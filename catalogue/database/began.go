package database

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"reckon/store"
)

const beganColumns = "SELECT site, id, kind, owner, account, partition_name, command, state, start_ms, seen_ms, until_ms, submit_ms, " +
	"cpu_seconds, request_cores, key FROM workloads"

// Began implements [store.Rollups]. It runs once a minute and selects ten minutes of workloads. The list functions
// would read all columns for this query, and keep all other rows in memory.
func (c *Catalogue) Began(ctx context.Context, from, to time.Time, kinds []string, f func(*store.Workload)) error {
	w := &conditions{d: c.d}
	text := ""
	if len(kinds) > 0 {
		w.selectInterval(from, to)
		w.addCondition("(start_ms >= " + w.placeholder(from.UnixMilli()) + " OR kind IN " + w.placeholders(kinds) + ")")
		text = beganColumns + w.whereClause()
	} else { // each part by an index of starts, because nearly all workloads ended since a time long ago
		w.addCondition("start_ms >= " + w.placeholder(from.UnixMilli()) + " AND start_ms < " + w.placeholder(to.UnixMilli()))
		text = beganColumns + w.whereClause() + " AND submit_ms IS NOT NULL UNION ALL " + beganColumns + w.whereClause() +
			" AND submit_ms IS NULL"
	}
	rows, err := c.db.QueryContext(ctx, text+" ORDER BY start_ms, key", w.args...)
	if err != nil {
		return fmt.Errorf("list started runs: %w", c.translateError(ctx, err))
	}
	defer rows.Close()
	var run store.Workload
	var start, seen, until, key int64
	var submit sql.NullInt64
	dest := []any{&run.Site, &run.ID, &run.Kind, &run.Owner, &run.Account, &run.Partition, &run.Command, &run.State, &start, &seen, &until,
		&submit, &run.CPUSeconds, &run.RequestCores, &key}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return fmt.Errorf("list started runs: %w", c.translateError(ctx, err))
		}
		run.Start, run.Seen, run.Submit, run.End = time.UnixMilli(start).UTC(), time.UnixMilli(seen).UTC(), time.Time{}, time.Time{}
		if submit.Valid {
			run.Submit = time.UnixMilli(submit.Int64).UTC()
		}
		if until < waiting {
			run.End = time.UnixMilli(until).UTC()
		}
		c.d.mapTexts(&run, c.d.get)
		f(&run)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("list started runs: %w", c.translateError(ctx, err))
	}
	return nil
}

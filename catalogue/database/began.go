package database

import (
	"context"
	"fmt"
	"time"

	"reckon/store"
)

// Began implements [store.Rollups]. It is asked once a minute about all that began in ten, where lists would read every column of
// these rows, and hold those of all others in memory.
func (c *Catalogue) Began(ctx context.Context, from, to time.Time, kind string) ([]store.Workload, error) {
	w := &conditions{d: c.d}
	w.interval(from, to)
	w.and("(start_ms >= " + w.param(from.UnixMilli()) + " OR kind = " + w.param(kind) + ")")
	rows, err := c.db.QueryContext(ctx, "SELECT site, id, kind, owner, account, partition_name, command, state, start_ms, seen_ms, until_ms, submit_ms, cpu_seconds, request_cores FROM workloads"+
		w.sql()+" ORDER BY start_ms, key", w.args...)
	if err != nil {
		return nil, fmt.Errorf("list what began: %w", c.explain(ctx, err))
	}
	defer rows.Close()
	var out []store.Workload
	for rows.Next() {
		var w store.Workload
		var start, seen, until int64
		var submit *int64
		if err := rows.Scan(&w.Site, &w.ID, &w.Kind, &w.Owner, &w.Account, &w.Partition, &w.Command, &w.State, &start, &seen, &until, &submit, &w.CPUSeconds, &w.RequestCores); err != nil {
			return nil, fmt.Errorf("list what began: %w", c.explain(ctx, err))
		}
		w.Start, w.Seen = time.UnixMilli(start).UTC(), time.UnixMilli(seen).UTC()
		if submit != nil {
			w.Submit = time.UnixMilli(*submit).UTC()
		}
		if until < waiting {
			w.End = time.UnixMilli(until).UTC()
		}
		c.d.each(&w, c.d.get)
		out = append(out, w)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list what began: %w", c.explain(ctx, err))
	}
	return out, nil
}

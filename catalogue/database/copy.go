package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"reckon/store"
)

// CopyTo copies workloads, roll-ups, findings, forecasts, MetricSet runs and the builder's state to another catalogue.
// It may be repeated, because it keeps or replaces rows that exist. The copy is complete if CopyTo returns without an
// error.
func (c *Catalogue) CopyTo(ctx context.Context, to *Catalogue) (workloads, hours, findings int, err error) {
	if workloads, err = c.copyWorkloads(ctx, to); err != nil {
		return workloads, 0, 0, err
	}
	if hours, err = c.copyRollups(ctx, to); err != nil {
		return workloads, hours, 0, err
	}
	list, n, err := c.Findings(ctx, store.FindingFilter{})
	if err != nil {
		return workloads, hours, 0, err
	}
	if err := to.PutFindings(ctx, list); err != nil {
		return workloads, hours, 0, err
	}
	if _, there, err := to.Findings(ctx, store.FindingFilter{}); err != nil || there < n {
		return workloads, hours, n, errors.Join(err, fmt.Errorf("%d findings are here and %d there", n, there))
	}
	if err := c.copyForecasts(ctx, to); err != nil {
		return workloads, hours, n, err
	}
	if err := c.copyMetricRuns(ctx, to); err != nil {
		return workloads, hours, n, err
	}
	return workloads, hours, n, c.copyState(ctx, to)
}

func (c *Catalogue) copyWorkloads(ctx context.Context, to *Catalogue) (int, error) {
	const page = 2000
	copied, last := 0, int64(-1)
	for {
		rows, err := c.db.QueryContext(ctx,
			fmt.Sprintf("SELECT key, %s FROM workloads WHERE key > $1 ORDER BY key LIMIT %d", strings.Join(rowColumns, ", "), page), last)
		if err != nil {
			return copied, c.translateError(ctx, err)
		}
		var list []store.Workload
		at, before := map[int64]int{}, last
		for rows.Next() {
			w, _, err := c.d.scan(rows, &last)
			if err != nil {
				return copied, errors.Join(err, rows.Close())
			}
			at[last], list = len(list), append(list, w)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return copied, c.translateError(ctx, err)
		}
		if len(list) == 0 {
			return copied, c.checkCopied(ctx, to)
		}
		err = c.eachStep(ctx, func(key int64, s store.Step) {
			if i, ok := at[key]; ok {
				list[i].Steps = append(list[i].Steps, s)
			}
		}, " WHERE steps.key > $1 AND steps.key <= $2", before, last)
		if err != nil {
			return copied, c.translateError(ctx, err)
		}
		if err := to.Upsert(ctx, list); err != nil {
			return copied, err
		}
		copied += len(list)
	}
}

func (c *Catalogue) checkCopied(ctx context.Context, to *Catalogue) error {
	here, err := c.countTotal(ctx, store.Filter{})
	if err != nil {
		return c.translateError(ctx, err)
	}
	there, err := to.countTotal(ctx, store.Filter{})
	if err == nil && there < here {
		err = fmt.Errorf("%d workloads are here and %d there", here, there)
	}
	return to.translateError(ctx, err)
}

func (c *Catalogue) copyRollups(ctx context.Context, to *Catalogue) (hours int, err error) {
	var first, last sql.NullInt64
	err = c.db.QueryRowContext(ctx,
		`SELECT min(at_ms), max(at_ms) FROM (SELECT at_ms FROM uses WHERE span = 'h' UNION ALL SELECT at_ms FROM node_uses WHERE span = `+
			`'h') AS h`).Scan(&first, &last)
	if err != nil || !first.Valid {
		return 0, c.translateError(ctx, err)
	}
	end := time.UnixMilli(last.Int64).Add(time.Hour)
	for at := time.UnixMilli(first.Int64); at.Before(end); at = at.Add(24 * time.Hour) {
		next := at.Add(24 * time.Hour)
		if next.After(end) {
			next = end
		}
		q := store.RollupQuery{From: at, To: next, Span: store.SpanHour,
			By: []string{"site", "kind", "owner", "account", "partition", "command"}}
		use, err := c.Use(ctx, q)
		if err != nil {
			return hours, err
		}
		q.By = []string{"site", "node"}
		nodes, err := c.NodeUse(ctx, q)
		if err != nil {
			return hours, err
		}
		if len(use)+len(nodes) == 0 {
			continue
		}
		if err := to.ReplaceHours(ctx, at, next, use, nodes); err != nil {
			return hours, err
		}
		hours += len(use) + len(nodes)
	}
	return hours, nil
}

func (c *Catalogue) copyState(ctx context.Context, to *Catalogue) error {
	rows, err := c.db.QueryContext(ctx, `SELECT key, value FROM state`)
	if err != nil {
		return c.translateError(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		var value []byte
		if err := rows.Scan(&key, &value); err != nil {
			return err
		}
		if err := to.SetState(ctx, key, value); err != nil {
			return err
		}
	}
	return rows.Err()
}

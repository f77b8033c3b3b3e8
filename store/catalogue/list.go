package catalogue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"reckon/store"
)

// few is the number of rows up to which it is faster to fetch what the filter leaves
// and sort it than to walk the index of the sort column until enough rows match.
const few = 20_000

const day = 24 * time.Hour

// ErrSort is what errors.Is finds when the field to sort by is not known.
var ErrSort = errors.New("unknown field to sort by")

// sorts maps a field of the HTTP API to an expression.
var sorts = sortFields()

func sortFields() map[string]string {
	wall := "(CASE WHEN until_ms = 9007199254740991 THEN seen_ms ELSE until_ms END - start_ms)"
	m := map[string]string{
		"id": "id", "kind": "kind", "name": "name", "owner": "owner", "site": "site", "account": "account",
		"partition": "partition_name", "command": "command", "nodes": "nodes", "exit_code": "exit_code",
		"start": "start_ms", "seen": "seen_ms", "end": "until_ms", "running": "until_ms",
		"wall_seconds": wall, "memory_mean_bytes": "memory_byte_seconds / nullif(" + wall + ", 0)",
		"cpu": "cpu_seconds", "memory": "memory_peak_bytes", "time": wall,
	}
	for _, f := range figures {
		m[f.name] = f.name
	}
	return m
}

// indexed are the sort columns that have an index, alone or behind owner and kind.
var indexed = []string{"start_ms", "until_ms", "cpu_seconds", "memory_peak_bytes", "name"}

// Workloads lists what the filter selects, and how many rows there are without limit.
// Without a sort the latest start comes first. What was not measured sorts as the
// smallest.
func (c *Catalogue) Workloads(ctx context.Context, f store.Filter) ([]store.Workload, int, error) {
	key, down := strings.CutPrefix(f.Sort, "-")
	if f.Sort == "" {
		key, down = "start", true
	}
	order, ok := sorts[key]
	if !ok {
		return nil, 0, fmt.Errorf("%w: %q is none of %s", ErrSort, key, strings.Join(SortFields(), ", "))
	}
	w := where(f)
	total, err := c.total(ctx, f, w)
	if err != nil {
		return nil, 0, fmt.Errorf("count workloads: %w", err)
	}
	if total == 0 || f.Offset >= total {
		return nil, total, nil
	}
	if total <= few && slices.Contains(indexed, order) && len(w.conds) > 0 {
		order = sortAside(order)
	}
	dir := ""
	if down {
		dir = " DESC"
	}
	q := "SELECT " + strings.Join(columns, ", ") + " FROM workloads" + w.sql() + " ORDER BY " + order + dir + ", key" + dir
	if f.Limit > 0 || f.Offset > 0 {
		limit := f.Limit
		if limit <= 0 {
			limit = total
		}
		q += fmt.Sprintf(" LIMIT %d OFFSET %d", limit, max(f.Offset, 0))
	}
	rows, err := c.db.QueryContext(ctx, q, w.args...)
	if err != nil {
		return nil, 0, fmt.Errorf("list workloads: %w", err)
	}
	defer rows.Close()
	out, err := scanAll(rows)
	if err != nil {
		return nil, 0, fmt.Errorf("list workloads: %w", err)
	}
	return out, total, nil
}

func scanAll(rows *sql.Rows) ([]store.Workload, error) {
	var out []store.Workload
	for rows.Next() {
		w, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, rows.Err()
}

// SortFields lists the fields that Filter.Sort may name.
func SortFields() []string {
	out := make([]string, 0, len(sorts))
	for k := range sorts {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// conditions collect a WHERE clause.
type conditions struct {
	conds []string
	args  []any
	// grouped says that all conditions are on what workload_counts counts by.
	grouped bool
}

func (w *conditions) sql() string {
	if len(w.conds) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conds, " AND ")
}

// add appends a condition; each %s in it is replaced by the next parameter.
func (w *conditions) add(cond string, args ...any) {
	names := make([]any, len(args))
	for i := range args {
		names[i] = fmt.Sprintf("$%d", len(w.args)+i+1)
	}
	w.conds = append(w.conds, fmt.Sprintf(cond, names...))
	w.args = append(w.args, args...)
}

func (w *conditions) in(column string, values []string) {
	if len(values) == 0 {
		return
	}
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = v
	}
	w.conds = append(w.conds, column+" IN ("+params(len(w.args)+1, len(args))+")")
	w.args = append(w.args, args...)
}

func where(f store.Filter) *conditions {
	w := &conditions{}
	w.in("kind", f.Kinds)
	w.in("owner", f.Owners)
	if f.Running != nil {
		if *f.Running {
			w.add("until_ms = %s", int64(running))
		} else {
			w.add("until_ms < %s", int64(running))
		}
	}
	w.grouped = f.ID == "" && len(f.Nodes) == 0 && f.Name == "" && f.Since.IsZero() && f.Until.IsZero() && f.MinCPU <= 0
	if f.ID != "" {
		w.add("id = %s", f.ID)
	}
	if len(f.Nodes) > 0 {
		sub := &conditions{args: w.args}
		sub.in("node", f.Nodes)
		w.conds = append(w.conds, "key IN (SELECT key FROM workload_nodes WHERE "+sub.conds[0]+")")
		w.args = sub.args
	}
	if f.Name != "" {
		w.add(pattern("name", "%s"), f.Name)
	}
	if f.MinCPU > 0 {
		w.add("cpu_seconds >= %s", f.MinCPU)
	}
	w.interval(f.Since, f.Until)
	return w
}

// interval selects what existed between since and until. A workload that did either
// started within the interval or the day before it, or is longer than a day.
func (w *conditions) interval(since, until time.Time) {
	if !until.IsZero() {
		w.add("start_ms < %s", until.UnixMilli())
	}
	if since.IsZero() {
		return
	}
	s := since.UnixMilli()
	w.add("until_ms >= %s", s)
	if until.IsZero() {
		return
	}
	w.add("(start_ms >= %s OR until_ms - start_ms > 86400000)", s-day.Milliseconds())
}

// total counts what the conditions select.
func (c *Catalogue) total(ctx context.Context, f store.Filter, w *conditions) (n int, err error) {
	if !w.grouped {
		err = c.db.QueryRowContext(ctx, "SELECT count(*) FROM workloads"+w.sql(), w.args...).Scan(&n)
		return n, err
	}
	g := &conditions{}
	g.in("kind", f.Kinds)
	g.in("owner", f.Owners)
	if f.Running != nil {
		run := 0
		if *f.Running {
			run = 1
		}
		g.add("running = %s", run)
	}
	err = c.db.QueryRowContext(ctx, "SELECT coalesce(sum(n), 0) FROM workload_counts"+g.sql(), g.args...).Scan(&n)
	return n, err
}

package catalogue

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"reckon/store"
)

// leadTime, as what leads, is the interval of a filter.
const leadTime = "time"

// leading is the column whose index leads to the rows of a filter: the one of all that it
// names that leaves the fewest. Empty lets the database choose. The other columns are read
// from the same index.
func (c *Catalogue) leading(ctx context.Context, f store.Filter) (string, error) {
	_, one := exact(f.Name)
	switch {
	case f.ID != "":
		return "id", nil
	case f.Name != "" && one && len(f.Owners) > 0:
		return "owner", nil // its index goes on with the name
	case f.Name != "" && one:
		return "name", nil
	}
	var columns, sums []string
	w := &conditions{d: c.d, narrow: true}
	alone := func(column string, only store.Filter) {
		before := len(w.conds)
		if w.groups(only); len(w.conds) > before {
			columns = append(columns, column)
			sums = append(sums, "coalesce(sum(CASE WHEN "+w.conds[before]+" THEN n ELSE 0 END), 0)")
		}
	}
	alone("owner", store.Filter{Owners: f.Owners})
	alone("account", store.Filter{Accounts: f.Accounts})
	alone("command", store.Filter{Command: f.Command})
	alone("partition_name", store.Filter{Partitions: f.Partitions})
	alone("state", store.Filter{States: f.States})
	alone("kind", store.Filter{Kinds: f.Kinds})
	spans := !f.Since.IsZero() || !f.Until.IsZero()
	if len(columns) == 0 || (len(columns) == 1 && !spans && len(f.Nodes) == 0 && f.Running == nil && f.Name == "" && f.MinCPU <= 0) {
		return strings.Join(columns, ""), nil
	}
	counts, dest := make([]float64, len(columns)), make([]any, len(columns)+1)
	var all float64
	for i := range counts {
		dest[i] = &counts[i]
	}
	dest[len(counts)] = &all
	if err := c.db.QueryRowContext(ctx, "SELECT "+strings.Join(sums, ", ")+", coalesce(sum(n), 0) FROM workload_counts", w.args...).Scan(dest...); err != nil {
		return "", err
	}
	lead, least := columns[0], counts[0]
	take := func(column string, n float64) {
		if n < least {
			lead, least = column, n
		}
	}
	for i, column := range columns {
		take(column, counts[i])
	}
	if f.Running != nil && *f.Running {
		var n float64
		if err := c.db.QueryRowContext(ctx, "SELECT coalesce(sum(n), 0) FROM workload_counts WHERE running = 1").Scan(&n); err != nil {
			return "", err
		}
		take("until_ms", n)
	}
	if len(f.Nodes) > 0 {
		on := &conditions{d: c.d}
		on.in("node", f.Nodes)
		var n float64
		if err := c.db.QueryRowContext(ctx, "SELECT count(*) FROM workload_nodes"+on.sql(), on.args...).Scan(&n); err != nil {
			return "", err
		}
		take("key", n)
	}
	for _, column := range []string{"name", "cpu_seconds"} {
		on := &conditions{d: c.d}
		switch {
		case column == "name" && f.Name != "":
			on.and("name IN (SELECT name FROM workload_names WHERE " + on.pattern("name", f.Name) + ")")
		case column == "cpu_seconds" && f.MinCPU > 0:
			on.and("cpu_seconds >= " + on.param(f.MinCPU))
		default:
			continue
		}
		var n float64 // no further than to know that there are more
		text := fmt.Sprintf("SELECT count(*) FROM (SELECT 1 FROM workloads%s LIMIT %d) AS matching", on.sql(), int64(least)+1)
		if err := c.db.QueryRowContext(ctx, text, on.args...).Scan(&n); err != nil {
			return "", err
		}
		take(column, n)
	}
	if spans {
		n, err := c.inTime(ctx, f, all)
		if err != nil {
			return "", err
		}
		take(leadTime, n)
	}
	return lead, nil
}

// inTime guesses how many of all rows an interval leaves: as many as if they had begun
// evenly over time.
func (c *Catalogue) inTime(ctx context.Context, f store.Filter, all float64) (float64, error) {
	var first, last sql.NullInt64
	if err := c.db.QueryRowContext(ctx, "SELECT (SELECT min(start_ms) FROM workloads), (SELECT max(start_ms) FROM workloads)").Scan(&first, &last); err != nil {
		return 0, fmt.Errorf("find the first and last start: %w", err)
	}
	if !first.Valid || last.Int64 <= first.Int64 {
		return all, nil
	}
	from, to := first.Int64, last.Int64
	if !f.Since.IsZero() {
		from = max(from, f.Since.Add(-day).UnixMilli())
	}
	if !f.Until.IsZero() {
		to = min(to, f.Until.UnixMilli())
	}
	return all * max(float64(to-from), 0) / float64(last.Int64-first.Int64), nil
}

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
	wall := "(CASE until_ms WHEN 9007199254740991 THEN seen_ms WHEN 9007199254740990 THEN start_ms ELSE until_ms END - start_ms)"
	m := map[string]string{
		"id": "id", "kind": "kind", "name": "name", "owner": "owner", "site": "site", "account": "account",
		"partition": "partition_name", "command": "command", "nodes": "nodes", "exit_code": "exit_code",
		"state": "state", "submit": "submit_ms", "start": "start_ms", "seen": "seen_ms", "end": "until_ms", "running": "until_ms",
		"wall_seconds": wall,
		"cpu":          "cpu_seconds", "memory": "memory_peak_bytes", "time": wall,
	}
	for _, f := range figures {
		m[f.name] = f.name
	}
	return m
}

// within are the columns that have an index behind owner.
var within = []string{"start_ms", "cpu_seconds"}

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
	lead, err := c.leading(ctx, f)
	if err != nil {
		return nil, 0, fmt.Errorf("count workloads: %w", c.explain(ctx, err))
	}
	total, err := c.total(ctx, f, lead)
	if err != nil {
		return nil, 0, fmt.Errorf("count workloads: %w", c.explain(ctx, err))
	}
	if total == 0 || f.Offset >= total {
		return nil, total, nil
	}
	q, args := c.d.listSQL(f, lead, order, down, total)
	rows, err := c.db.QueryContext(ctx, q, args...)
	if err != nil {
		return nil, 0, fmt.Errorf("list workloads: %w", c.explain(ctx, err))
	}
	defer rows.Close()
	out, err := c.d.scanAll(rows)
	if err != nil {
		return nil, 0, fmt.Errorf("list workloads: %w", c.explain(ctx, err))
	}
	return out, total, nil
}

// listSQL writes the query. When the filter leaves few rows they are fetched by its
// index and sorted; else the index of the sort column is walked, past the rows that do
// not match, until the page is full.
func (d *dialect) listSQL(f store.Filter, lead, order string, down bool, total int) (string, []any) {
	w := &conditions{d: d, narrow: total <= few}
	if !w.narrow && len(f.Owners) == 1 && slices.Contains(within, order) {
		w.lead = "owner"
	}
	if w.narrow {
		w.lead = lead
	}
	if !w.narrow {
		w.sorted = order
	}
	w.filter(f)
	dir := d.up
	if down {
		dir = d.down
	}
	by := order
	if w.narrow && len(w.conds) > 0 && !strings.HasPrefix(order, "(") {
		by = d.aside(order)
	}
	by += dir
	if slices.Contains([]string{"owner", "kind", "account", "partition_name", "state", "command"}, order) {
		by += ", start_ms" + dir // as their indexes go on
	}
	q := "SELECT " + strings.Join(columns, ", ") + " FROM workloads" + w.sql() + " ORDER BY " + by + ", key" + dir
	if f.Limit > 0 || f.Offset > 0 {
		limit := f.Limit
		if limit <= 0 {
			limit = total
		}
		q += fmt.Sprintf(" LIMIT %d OFFSET %d", limit, max(f.Offset, 0))
	}
	return q, w.args
}

func (d *dialect) scanAll(rows *sql.Rows) ([]store.Workload, error) {
	var out []store.Workload
	for rows.Next() {
		w, err := d.scan(rows)
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
	d      *dialect
	narrow bool   // the filter leaves few rows: lead to them by indexes
	lead   string // the column whose index leads, when others must not
	sorted string // the column that is sorted by, whose range may always lead
	conds  []string
	args   []any
}

func (w *conditions) sql() string {
	if len(w.conds) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conds, " AND ")
}

// column writes a column so that its index is used only where that helps.
func (w *conditions) column(name string) string {
	if name == w.lead || name == w.sorted || (w.narrow && w.lead == "") {
		return name
	}
	return w.d.aside(name)
}

// param adds an argument and returns its name.
func (w *conditions) param(v any) string {
	if text, ok := v.(string); ok {
		v = w.d.put(text)
	}
	w.args = append(w.args, v)
	return fmt.Sprintf("$%d", len(w.args))
}

// pattern is a condition that a column matches a shell pattern.
func (w *conditions) pattern(column, p string) string {
	return w.d.pattern(column, w.param(w.d.glob(p)))
}

func (w *conditions) and(cond string) { w.conds = append(w.conds, cond) }

func (w *conditions) in(column string, values []string) {
	if len(values) == 0 {
		return
	}
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = w.param(v)
	}
	w.and(column + " IN (" + strings.Join(names, ", ") + ")")
}

// grouped reports whether a filter is on nothing but what workload_counts counts by.
func grouped(f store.Filter) bool {
	return f.ID == "" && len(f.Nodes) == 0 && f.Name == "" && f.Since.IsZero() && f.Until.IsZero() && f.MinCPU <= 0
}

func (w *conditions) filter(f store.Filter) {
	if f.ID != "" {
		w.lead = "id"
		w.and("id = " + w.param(f.ID))
	}
	w.groups(f)
	if f.Running != nil {
		if *f.Running { // few run at any time: their index may lead
			w.and("until_ms = " + w.param(int64(running)))
		} else {
			w.and(w.column("until_ms") + " < " + w.param(int64(running)))
		}
	}
	if len(f.Nodes) > 0 {
		sub := &conditions{d: w.d, args: w.args}
		sub.in("node", f.Nodes)
		w.args = sub.args
		w.and(w.column("key") + " IN (SELECT key FROM workload_nodes" + sub.sql() + ")")
	}
	if name, one := exact(f.Name); one && f.Name != "" {
		column := w.column("name")
		if w.lead == "owner" {
			column = "name" // the index of owners goes on with it
		}
		w.and(column + " = " + w.param(name))
	} else if f.Name != "" {
		w.and(w.column("name") + " IN (SELECT name FROM workload_names WHERE " + w.pattern("name", f.Name) + ")")
	}
	if f.MinCPU > 0 {
		w.and(w.column("cpu_seconds") + " >= " + w.param(f.MinCPU))
	}
	w.interval(f.Since, f.Until)
}

// exact is the one name that a shell pattern stands for; false when it stands for more.
func exact(pattern string) (string, bool) {
	name := strings.NewReplacer("[*]", "\x00", "[?]", "\x01", "[[]", "\x02").Replace(pattern)
	if strings.ContainsAny(name, "*?[") || strings.ContainsAny(pattern, "\x00\x01\x02") {
		return "", false
	}
	return strings.NewReplacer("\x00", "*", "\x01", "?", "\x02", "[").Replace(name), true
}

// groups are the conditions on what rows are counted by.
func (w *conditions) groups(f store.Filter) {
	w.in(w.column("kind"), f.Kinds)
	w.in(w.column("owner"), f.Owners)
	w.in(w.column("account"), f.Accounts)
	w.in(w.column("partition_name"), f.Partitions)
	w.in(w.column("state"), f.States)
	switch command, one := exact(f.Command); {
	case f.Command == "":
	case one:
		w.and(w.column("command") + " = " + w.param(command))
	default:
		w.and(w.pattern(w.column("command"), f.Command))
	}
}

// interval selects what existed between since and until. Where few did, they are found
// in two steps: what started in the interval or the day before it, and of what is
// longer than a day, what started earlier.
func (w *conditions) interval(since, until time.Time) {
	switch {
	case since.IsZero() && until.IsZero():
	case since.IsZero():
		w.and(w.timed("start_ms") + " < " + w.param(until.UnixMilli()))
	case until.IsZero():
		w.and(w.timed("until_ms") + " >= " + w.param(since.UnixMilli()))
	case !w.narrow || (w.lead != "" && w.lead != leadTime):
		w.and(w.column("start_ms") + " < " + w.param(until.UnixMilli()))
		w.and(w.column("until_ms") + " >= " + w.param(since.UnixMilli()))
	default:
		s, u, d := w.param(since.UnixMilli()), w.param(until.UnixMilli()), w.param(since.Add(-day).UnixMilli())
		within := ""
		if w.lead == leadTime && len(w.conds) > 0 { // read from the same index
			within = " AND " + strings.Join(w.conds, " AND ")
			w.conds = nil
		}
		w.and("key IN (SELECT key FROM workloads WHERE start_ms >= " + d + " AND start_ms < " + u + " AND until_ms >= " + s + within +
			" UNION ALL SELECT key FROM workloads WHERE until_ms - start_ms > 86400000 AND until_ms >= " + s + " AND start_ms < " + d + within + ")")
	}
}

// timed is a column of time, whose index leads where time does.
func (w *conditions) timed(name string) string {
	if w.lead == leadTime {
		return name
	}
	return w.column(name)
}

// total counts what a filter selects.
func (c *Catalogue) total(ctx context.Context, f store.Filter, lead string) (n int, err error) {
	w := &conditions{d: c.d, narrow: true, lead: lead}
	if !grouped(f) {
		w.filter(f)
		err = c.db.QueryRowContext(ctx, "SELECT count(*) FROM workloads"+w.sql(), w.args...).Scan(&n)
		return n, err
	}
	w.lead = ""
	w.groups(f)
	if f.Running != nil {
		run := 0
		if *f.Running {
			run = 1
		}
		w.and("running = " + w.param(run))
	}
	err = c.db.QueryRowContext(ctx, "SELECT CAST(coalesce(sum(n), 0) AS BIGINT) FROM workload_counts"+w.sql(), w.args...).Scan(&n)
	return n, err
}

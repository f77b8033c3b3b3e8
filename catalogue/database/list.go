package database

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"reckon/store"
	"reckon/workload"
)

const day = 24 * time.Hour

// ErrSort reports, by errors.Is, an unknown sort field.
var ErrSort = errors.New("unknown field to sort by")

// sortExpressions maps a field of the HTTP API to an expression.
var sortExpressions = sortFields()

// wallSQL is the run time of a workload, in milliseconds.
const wallSQL = "(CASE until_ms WHEN 9007199254740991 THEN seen_ms WHEN 9007199254740990 THEN start_ms ELSE until_ms END - start_ms)"

func sortFields() map[string]string {
	m := map[string]string{
		"id": "id", "kind": "kind", "name": "name", "owner": "owner", "site": "site", "account": "account",
		"partition": "partition_name", "command": "command", "nodes": "nodes", "exit_code": "exit_code",
		"state": "state", "submit": "submit_ms", "start": "start_ms", "seen": "seen_ms", "end": "until_ms", "running": "until_ms",
		"wall_seconds": wallSQL,
		"cpu":          "cpu_seconds", "memory": "memory_peak_bytes", "time": wallSQL,
	}
	for i := range figures {
		m[figures[i].Key] = figures[i].ColumnName()
	}
	return m
}

// thenByStart are the columns with many equal rows, which are then ordered by start.
var thenByStart = []string{"owner", "kind", "account", "partition_name", "state", "command"}

// Workloads returns the workloads that the filter selects, and how many there are without the limit. By default, the
// latest start comes first. Rows with an unknown value of the sort column come last in either direction. For a process
// group of several users, a filter by owner returns the shares of that owner. Large tables are filtered and sorted in
// memory, and only the rows of the page are read.
func (c *Catalogue) Workloads(ctx context.Context, f store.Filter) ([]store.Workload, int, error) {
	rows, total, err := c.listWorkloads(ctx, f)
	if len(f.Owners) > 0 {
		for i := range rows {
			rows[i].Of(f.Owners)
		}
	}
	return rows, total, err
}

func (c *Catalogue) listWorkloads(ctx context.Context, filter store.Filter) ([]store.Workload, int, error) {
	key, down := strings.CutPrefix(filter.Sort, "-")
	if filter.Sort == "" {
		key, down = "start", true
	}
	order, ok := sortExpressions[key]
	if !ok {
		return nil, 0, fmt.Errorf("%w: %q is none of %s", ErrSort, key, strings.Join(SortFields(), ", "))
	}
	if len(filter.IDs) == 0 && filter.Family == "" && !c.d.indexes { // ids have their own index in both databases
		table, err := c.lists.loadedTable(ctx)
		if err != nil {
			return nil, 0, fmt.Errorf("list workloads: %w", c.translateError(ctx, err))
		}
		if table != nil {
			return c.listFromColumns(ctx, table, filter, order, down)
		}
	}
	return c.listFromRows(ctx, filter, order, down)
}

// listFromRows selects and orders in the database.
func (c *Catalogue) listFromRows(ctx context.Context, filter store.Filter, order string, down bool) ([]store.Workload, int, error) {
	total, all := 0, filter.Limit <= 0 && filter.Offset <= 0
	if !all {
		var err error
		if total, err = c.countTotal(ctx, filter); err != nil {
			return nil, 0, fmt.Errorf("count workloads: %w", c.translateError(ctx, err))
		}
		if total == 0 || filter.Offset >= total {
			return nil, total, nil
		}
	}
	q, args := c.d.listSQL(filter, order, down, total)
	rows, err := c.db.QueryContext(ctx, q, args...)
	if err != nil {
		return nil, 0, fmt.Errorf("list workloads: %w", c.translateError(ctx, err))
	}
	defer rows.Close()
	out, err := c.d.scanAll(rows)
	if err != nil {
		return nil, 0, fmt.Errorf("list workloads: %w", c.translateError(ctx, err))
	}
	if all {
		total = len(out)
	}
	return out, total, nil
}

// Lasting implements [store.Facts].
func (c *Catalogue) Lasting(ctx context.Context, since, until, now time.Time, groups store.GroupMinimum) ([]store.Workload, error) {
	w := &conditions{d: c.d}
	w.selectInterval(since, until)
	group := "kind <> " + w.placeholder(string(workload.Group)) + " OR start_ms <= " + w.placeholder(now.Add(-groups.Ran).UnixMilli()) +
		" AND until_ms - start_ms >= " + w.placeholder(groups.Ran.Milliseconds())
	if groups.CPUSeconds > 0 || groups.MemoryPeakBytes > 0 {
		group += " AND (cpu_seconds IS NULL OR cpu_seconds >= " + w.placeholder(groups.CPUSeconds) +
			" OR memory_peak_bytes IS NULL OR memory_peak_bytes >= " + w.placeholder(groups.MemoryPeakBytes) +
			" OR gpu_seconds IS NOT NULL)"
	}
	w.addCondition("(" + group + ")")
	rows, err := c.db.QueryContext(ctx,
		"SELECT "+strings.Join(rowColumns, ", ")+" FROM workloads"+w.whereClause()+" ORDER BY start_ms"+c.d.down+", key"+c.d.down,
		w.args...)
	if err != nil {
		return nil, fmt.Errorf("list workloads: %w", c.translateError(ctx, err))
	}
	defer rows.Close()
	out, err := c.d.scanAll(rows)
	if err != nil {
		return nil, fmt.Errorf("list workloads: %w", c.translateError(ctx, err))
	}
	return out, nil
}

// Passed implements [store.Facts].
func (c *Catalogue) Passed(ctx context.Context, since, until time.Time, group time.Duration) ([]store.EndedGroups, error) {
	w := &conditions{d: c.d}
	w.selectInterval(since, until)
	w.addCondition("kind = " + w.placeholder(string(workload.Group)) + " AND until_ms < " + w.placeholder(until.Add(group).UnixMilli()) +
		" AND until_ms - start_ms < " + w.placeholder(group.Milliseconds()))
	rows, err := c.db.QueryContext(ctx,
		"SELECT site, owner, nodes, COUNT(*), COALESCE(SUM(cpu_seconds), 0), CAST(SUM(until_ms - start_ms) AS DOUBLE PRECISION), "+
			"MIN(start_ms), MAX(until_ms) FROM workloads"+
			w.whereClause()+" GROUP BY site, owner, nodes ORDER BY site, owner, nodes", w.args...)
	if err != nil {
		return nil, fmt.Errorf("sum up process groups: %w", c.translateError(ctx, err))
	}
	defer rows.Close()
	var out []store.EndedGroups
	for rows.Next() {
		var p store.EndedGroups
		var nodes string
		var wall float64
		var first, last int64
		if err := rows.Scan(&p.Site, &p.Owner, &nodes, &p.Count, &p.CPUSeconds, &wall, &first, &last); err != nil {
			return nil, fmt.Errorf("sum up process groups: %w", c.translateError(ctx, err))
		}
		if err := json.Unmarshal([]byte(nodes), &p.Nodes); err != nil {
			return nil, fmt.Errorf("sum up process groups of %s: nodes: %w", p.Owner, err)
		}
		p.WallSeconds, p.First, p.Last = wall/1000, time.UnixMilli(first).UTC(), time.UnixMilli(last).UTC()
		out = append(out, p)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("sum up process groups: %w", c.translateError(ctx, err))
	}
	return out, nil
}

// listSQL builds the query.
func (d *dialect) listSQL(filter store.Filter, order string, down bool, total int) (string, []any) {
	w := &conditions{d: d}
	w.addFilter(filter)
	dir := d.up
	if down {
		dir = d.down
	}
	by := order + dir
	if !down && mayBeUnknown(order) {
		by = order + " IS NULL, " + by
	}
	if slices.Contains(thenByStart, order) {
		by += ", start_ms" + dir
	}
	q := "SELECT " + strings.Join(rowColumns, ", ") + " FROM workloads" + w.whereClause() + " ORDER BY " + by + ", key" + dir
	if filter.Limit > 0 || filter.Offset > 0 {
		limit := filter.Limit
		if limit <= 0 {
			limit = total
		}
		q += fmt.Sprintf(" LIMIT %d OFFSET %d", limit, max(filter.Offset, 0))
	}
	return q, w.args
}

func (d *dialect) scanAll(rows *sql.Rows) ([]store.Workload, error) {
	var out []store.Workload
	for rows.Next() {
		w, _, err := d.scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, rows.Err()
}

// SortFields lists the valid values of Filter.Sort.
func SortFields() []string {
	return slices.Sorted(maps.Keys(sortExpressions))
}

// conditions collects the conditions and arguments of a WHERE clause.
type conditions struct {
	d     *dialect
	conds []string
	args  []any
}

func (w *conditions) whereClause() string {
	if len(w.conds) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conds, " AND ")
}

// placeholder adds an argument and returns its placeholder.
func (w *conditions) placeholder(v any) string {
	if text, ok := v.(string); ok {
		v = w.d.put(text)
	}
	w.args = append(w.args, v)
	return fmt.Sprintf("$%d", len(w.args))
}

// patternCondition returns the condition that a column matches a shell pattern.
func (w *conditions) patternCondition(column, p string) string {
	return w.d.pattern(column, w.placeholder(w.d.glob(p)))
}

func (w *conditions) addCondition(cond string) { w.conds = append(w.conds, cond) }

// placeholders returns values as a list of placeholders.
func (w *conditions) placeholders(values []string) string {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = w.placeholder(v)
	}
	return "(" + strings.Join(names, ", ") + ")"
}

func (w *conditions) addIn(column string, values []string) {
	if len(values) > 0 {
		w.addCondition(column + " IN " + w.placeholders(values))
	}
}

// usesOnlyCounts reports whether a filter uses only the columns that workload_counts counts by.
func usesOnlyCounts(filter store.Filter) bool {
	return len(filter.IDs) == 0 && filter.Family == "" && len(filter.Nodes) == 0 && len(filter.Sites) == 0 && filter.Name == "" &&
		filter.Since.IsZero() && filter.Until.IsZero() && filter.MinCPU <= 0
}

func (w *conditions) addFilter(filter store.Filter) {
	w.addIn("id", filter.IDs)
	w.addFamily(filter.Family)
	w.addGroups(filter)
	w.addIn("site", filter.Sites)
	if filter.Running != nil {
		w.addCondition("until_ms " + map[bool]string{true: "=", false: "<"}[*filter.Running] + " " + w.placeholder(int64(running)))
	}
	switch {
	case len(filter.Nodes) == 0:
	case w.d.indexes:
		w.addCondition("key IN (SELECT key FROM workload_nodes WHERE node IN " + w.placeholders(filter.Nodes) + ")")
	default:
		w.addCondition("EXISTS (SELECT 1 FROM json_each(nodes) WHERE value IN " + w.placeholders(filter.Nodes) + ")")
	}
	switch name, one := exactName(filter.Name); {
	case filter.Name == "":
	case one:
		w.addCondition("name = " + w.placeholder(name))
	case w.d.indexes:
		w.addCondition("name IN (SELECT name FROM workload_names WHERE " + w.patternCondition("name", filter.Name) + ")")
	default:
		w.addCondition(w.patternCondition("name", filter.Name))
	}
	if filter.MinCPU > 0 {
		w.addCondition("cpu_seconds >= " + w.placeholder(filter.MinCPU))
	}
	w.selectInterval(filter.Since, filter.Until)
	if filter.Within {
		w.addCondition("start_ms >= " + w.placeholder(filter.Since.UnixMilli()) + " AND until_ms < " +
			w.placeholder(filter.Until.UnixMilli()))
	}
}

// addFamily selects the rows of an array or heterogeneous job: the row of its own id and the rows of its tasks (slurm/4_1)
// and components (slurm/4+1). They are adjacent in the index, because ids are compared by bytes.
func (w *conditions) addFamily(id string) {
	if id == "" {
		return
	}
	p := func(s string) string { return w.placeholder(s) }
	w.addCondition("(id = " + p(id) + " OR id >= " + p(id+"+") + " AND id < " + p(id+",") +
		" OR id >= " + p(id+"_") + " AND id < " + p(id+"`") +
		")")
}

// exactName returns the single name that a shell pattern matches; false if it can match others.
func exactName(pattern string) (string, bool) {
	name := strings.NewReplacer("[*]", "\x00", "[?]", "\x01", "[[]", "\x02").Replace(pattern)
	if strings.ContainsAny(name, "*?[") || strings.ContainsAny(pattern, "\x00\x01\x02") {
		return "", false
	}
	return strings.NewReplacer("\x00", "*", "\x01", "?", "\x02", "[").Replace(name), true
}

// addGroups adds the conditions on the columns that rows are counted by.
func (w *conditions) addGroups(filter store.Filter) {
	w.addIn("kind", filter.Kinds)
	if len(filter.Owners) > 0 {
		w.addCondition("(owner IN " + w.placeholders(filter.Owners) + " OR " + w.sharedCondition(filter.Owners) + ")")
	}
	w.addIn("account", filter.Accounts)
	w.addIn("partition_name", filter.Partitions)
	w.addIn("state", filter.States)
	switch command, one := exactName(filter.Command); {
	case filter.Command == "":
	case one:
		w.addCondition("command = " + w.placeholder(command))
	default:
		w.addCondition(w.patternCondition("command", filter.Command))
	}
}

// sharedCondition returns the condition that one of the owners has a share in a process group of several users.
func (w *conditions) sharedCondition(owners []string) string {
	return "shares <> '' AND " + w.d.key("shares", w.placeholders(owners))
}

// maxSplitSpan is the longest time range for which two queries are faster than one. The first selects workloads that started
// in the range or within a day before. The second selects workloads longer than a day.
const maxSplitSpan = 7 * day

// selectInterval selects workloads that existed between since and until.
func (w *conditions) selectInterval(since, until time.Time) {
	if !w.d.indexes || since.IsZero() || until.IsZero() || until.Sub(since) > maxSplitSpan {
		if !until.IsZero() {
			w.addCondition("start_ms < " + w.placeholder(until.UnixMilli()))
		}
		if !since.IsZero() {
			w.addCondition("until_ms >= " + w.placeholder(since.UnixMilli()))
		}
		return
	}
	s, u, d := w.placeholder(since.UnixMilli()), w.placeholder(until.UnixMilli()), w.placeholder(since.Add(-day).UnixMilli())
	w.addCondition("key IN (SELECT key FROM workloads WHERE start_ms >= " + d + " AND start_ms < " + u + " AND until_ms >= " + s +
		" UNION ALL SELECT key FROM workloads WHERE until_ms - start_ms > 86400000 AND until_ms >= " + s + " AND start_ms < " + d + ")")
}

// countTotal counts the workloads that a filter selects.
func (c *Catalogue) countTotal(ctx context.Context, filter store.Filter) (n int, err error) {
	w := &conditions{d: c.d}
	if !c.d.indexes || !usesOnlyCounts(filter) {
		w.addFilter(filter)
		err = c.db.QueryRowContext(ctx, "SELECT count(*) FROM workloads"+w.whereClause(), w.args...).Scan(&n)
		return n, err
	}
	var split int
	if len(filter.Owners) > 0 { // rows are counted by their own owner
		x := &conditions{d: c.d}
		x.addFilter(filter)
		x.addCondition("NOT owner IN " + x.placeholders(filter.Owners))
		x.addCondition(x.sharedCondition(filter.Owners))
		if err := c.db.QueryRowContext(ctx, "SELECT count(*) FROM workloads"+x.whereClause(), x.args...).Scan(&split); err != nil {
			return 0, err
		}
	}
	w.addIn("owner", filter.Owners)
	filter.Owners = nil
	w.addGroups(filter)
	if filter.Running != nil {
		run := 0
		if *filter.Running {
			run = 1
		}
		w.addCondition("running = " + w.placeholder(run))
	}
	err = c.db.QueryRowContext(ctx, "SELECT CAST(coalesce(sum(n), 0) AS BIGINT) FROM workload_counts"+w.whereClause(), w.args...).Scan(&n)
	return n + split, err
}

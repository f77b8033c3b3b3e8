package database

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"reckon/figure"
	"reckon/store"
)

// groupColumns are the dimensions of groups, under their names in a query.
var groupColumns = map[string]string{
	"site": "site", "kind": "kind", "owner": "owner", "account": "account", "partition": "partition_name", "command": "command",
}

// sumClauses writes sum(a), sum(b), ...
func sumClauses(names []string) string { return "sum(" + strings.Join(names, "), sum(") + ")" }

// addClause returns the clause that adds a row to an existing one; NULL is unknown.
func addClause(table string, names []string) string {
	set := make([]string, len(names))
	for i, n := range names {
		set[i] = fmt.Sprintf("%[1]s = CASE WHEN excluded.%[1]s IS NULL THEN %[2]s.%[1]s ELSE coalesce(%[2]s.%[1]s, 0) + excluded.%[1]s END",
			n, table)
	}
	return strings.Join(set, ", ")
}

// worstExactness is the expression for the worst exactness of each figure in summed rows. Each figure has two bits.
var worstExactness = func() string {
	var b strings.Builder
	for i := range figure.PackedFigures() {
		if i > 0 {
			b.WriteString(" + ")
		}
		fmt.Fprintf(&b, "coalesce(max(CAST(%s AS BIGINT) & %d), 0)", inexactColumn, 3<<(2*i))
	}
	return b.String()
}()

// exactnessClause returns the clause that merges the exactness of a row into an existing one's: the worse of each figure.
func exactnessClause(table string) string {
	worse := make([]string, figure.PackedFigures())
	for i := range worse {
		worse[i] = fmt.Sprintf("CASE WHEN (%[1]s & %[3]d) > (%[2]s & %[3]d) THEN (%[1]s & %[3]d) ELSE (%[2]s & %[3]d) END",
			"CAST(coalesce("+table+"."+inexactColumn+", 0) AS BIGINT)", "CAST(coalesce(excluded."+inexactColumn+", 0) AS BIGINT)", 3<<(2*i))
	}
	return ", " + inexactColumn + " = " + strings.Join(worse, " + ")
}

const hourMS = int64(time.Hour / time.Millisecond)

// ReplaceHours implements store.Rollups.
func (c *Catalogue) ReplaceHours(ctx context.Context, from, to time.Time, use []store.Use, nodes []store.NodeUse) error {
	return c.writeHours(ctx, from, to, use, nodes, true)
}

// AddHours implements store.Rollups.
func (c *Catalogue) AddHours(ctx context.Context, from, to time.Time, use []store.Use, nodes []store.NodeUse) error {
	return c.writeHours(ctx, from, to, use, nodes, false)
}

func (c *Catalogue) writeHours(ctx context.Context, from, to time.Time, use []store.Use, nodes []store.NodeUse, replace bool) error {
	f, t := from.UnixMilli(), to.UnixMilli()
	if f%hourMS != 0 || t%hourMS != 0 || t <= f {
		return fmt.Errorf("replace roll-ups from %s to %s: not whole hours", from, to)
	}
	for i := range use {
		if at := use[i].At.UnixMilli(); at < f || at >= t || at%hourMS != 0 {
			return fmt.Errorf("replace roll-ups from %s to %s: a row is of %s", from, to, use[i].At)
		}
	}
	for i := range nodes {
		if at := nodes[i].At.UnixMilli(); at < f || at >= t || at%hourMS != 0 {
			return fmt.Errorf("replace roll-ups from %s to %s: a row of node %s is of %s", from, to, nodes[i].Node, nodes[i].At)
		}
	}
	c.write.Lock()
	defer c.write.Unlock()
	err := c.inTx(ctx, func(tx *sql.Tx) error {
		for _, table := range []string{"uses", "node_uses"} {
			if !replace {
				break
			}
			if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE span = 'h' AND at_ms >= $1 AND at_ms < $2", f, t); err != nil {
				return err
			}
		}
		if err := c.d.insertUse(ctx, tx, use); err != nil {
			return err
		}
		if err := c.d.insertNodes(ctx, tx, nodes); err != nil {
			return err
		}
		return sumUp(ctx, tx, from.UTC(), to.UTC())
	})
	if err != nil {
		return fmt.Errorf("write roll-ups from %s to %s: %w", from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339), err)
	}
	return nil
}

func (d *dialect) insertUse(ctx context.Context, tx *sql.Tx, use []store.Use) error {
	put, err := tx.PrepareContext(ctx,
		"INSERT INTO uses (span, at_ms, group_id, "+strings.Join(usedColumns, ", ")+", "+inexactColumn+") VALUES ('h', "+parameterList(1,
			3+len(usedColumns))+
			") ON CONFLICT (span, at_ms, group_id) DO UPDATE SET "+addClause("uses", usedColumns)+exactnessClause("uses"))
	if err != nil {
		return err
	}
	defer put.Close()
	ids := map[[6]string]int64{}
	for i := range use {
		u := &use[i]
		k := [6]string{d.put(u.Site), d.put(u.Kind), d.put(u.Owner), d.put(u.Account), d.put(u.Partition), d.put(u.Command)}
		id, ok := ids[k]
		if !ok {
			err := tx.QueryRowContext(ctx, `INSERT INTO use_groups (site, kind, owner, account, partition_name, command) VALUES ($1, $2, $3, $4, $5, $6)
				ON CONFLICT (site, kind, owner, account, partition_name, command) DO UPDATE SET site = excluded.site RETURNING id`,
				k[0], k[1], k[2], k[3], k[4], k[5]).Scan(&id)
			if err != nil {
				return err
			}
			ids[k] = id
		}
		args := []any{u.At.UnixMilli(), id}
		for _, p := range figureFields(&u.Used) {
			args = append(args, *p)
		}
		args = append(args, u.Exactness.Pack())
		if _, err := put.ExecContext(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

func (d *dialect) insertNodes(ctx context.Context, tx *sql.Tx, nodes []store.NodeUse) error {
	put, err := tx.PrepareContext(ctx,
		"INSERT INTO node_uses (span, at_ms, site, node, "+strings.Join(nodesColumns,
			", ")+", "+inexactColumn+") VALUES ('h', "+parameterList(1,
			4+len(nodesColumns))+
			") ON CONFLICT (span, at_ms, site, node) DO UPDATE SET "+addClause("node_uses", nodesColumns)+exactnessClause("node_uses"))
	if err != nil {
		return err
	}
	defer put.Close()
	for i := range nodes {
		u := &nodes[i]
		args := []any{u.At.UnixMilli(), d.put(u.Site), d.put(u.Node)}
		for _, p := range nodeFields(u) {
			args = append(args, *p)
		}
		args = append(args, u.Exactness.Pack())
		if _, err := put.ExecContext(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// sumUp recomputes the days, and from them the months, that contain the hours from from to to.
func sumUp(ctx context.Context, tx *sql.Tx, from, to time.Time) error {
	for _, level := range []struct {
		span        store.Span
		of, made    string
		next        func(time.Time) time.Time
		description string
	}{
		{store.SpanDay, "h", "d", func(t time.Time) time.Time { return t.AddDate(0, 0, 1) }, "day"},
		{store.SpanMonth, "d", "m", func(t time.Time) time.Time { return t.AddDate(0, 1, 0) }, "month"},
	} {
		for at := store.SpanStart(level.span, from); at.Before(to); at = level.next(at) {
			a, b := at.UnixMilli(), level.next(at).UnixMilli()
			for _, t := range []struct {
				table, key string
				names      []string
			}{{"uses", "group_id", usedColumns}, {"node_uses", "site, node", nodesColumns}} {
				if _, err := tx.ExecContext(ctx, "DELETE FROM "+t.table+" WHERE span = $1 AND at_ms = $2", level.made, a); err != nil {
					return err
				}
				q := "INSERT INTO " + t.table + " (span, at_ms, " + t.key + ", " + strings.Join(t.names, ", ") + ", " + inexactColumn +
					") SELECT CAST($1 AS TEXT), CAST($2 AS BIGINT), " + t.key + ", " + sumClauses(t.names) + ", " + worstExactness +
					" FROM " + t.table + " WHERE span = $3 AND at_ms >= CAST($2 AS BIGINT) AND at_ms < $4 GROUP BY " + t.key
				if _, err := tx.ExecContext(ctx, q, level.made, a, level.of, b); err != nil {
					return fmt.Errorf("sum up the %s of %s: %w", level.description, at.Format(time.DateOnly), err)
				}
			}
		}
	}
	return nil
}

// sumLevel is one of the lengths of time for which sums are stored.
type sumLevel struct {
	name string
	span store.Span
}

// levelSpan is a part of an interval that is read from one level.
type levelSpan struct {
	level    string
	from, to int64
}

// coveringSpans divides the interval of a query into as few rows as its span allows: whole months, then days, and hours
// at both ends.
func coveringSpans(q *store.RollupQuery) []levelSpan {
	from := store.SpanStart(store.SpanHour, q.From)
	to := store.SpanStart(store.SpanHour, q.To.Add(time.Hour-time.Nanosecond))
	up := func(s store.Span, t time.Time) time.Time { // the first beginning that is not before t
		at := store.SpanStart(s, t)
		switch {
		case at.Equal(t):
			return t
		case s == store.SpanDay:
			return at.AddDate(0, 0, 1)
		}
		return at.AddDate(0, 1, 0)
	}
	levels := []sumLevel{{"h", store.SpanHour}}
	switch q.Span {
	case store.SpanDay, store.SpanWeek:
		levels = append(levels, sumLevel{"d", store.SpanDay})
	case store.SpanMonth, store.SpanWhole:
		levels = append(levels, sumLevel{"d", store.SpanDay}, sumLevel{"m", store.SpanMonth})
	}
	var cover func(i int, a, b time.Time) []levelSpan
	cover = func(i int, a, b time.Time) []levelSpan {
		if !a.Before(b) {
			return nil
		}
		if i == 0 {
			return []levelSpan{{levels[0].name, a.UnixMilli(), b.UnixMilli()}}
		}
		begin, end := up(levels[i].span, a), store.SpanStart(levels[i].span, b)
		if !begin.Before(end) {
			return cover(i-1, a, b)
		}
		out := cover(i-1, a, begin)
		out = append(out, levelSpan{levels[i].name, begin.UnixMilli(), end.UnixMilli()})
		return append(out, cover(i-1, end, b)...)
	}
	return cover(len(levels)-1, from, to)
}

// bucketExpression returns the expression that groups times within a stretch.
func (s levelSpan) bucketExpression(span store.Span) string {
	switch {
	case span == store.SpanHourOfWeek:
		return "345600000 + (at_ms - 345600000) % 604800000" // from Monday 1970-01-05 on
	case span == store.SpanWhole:
		return "0"
	case s.level == "h" && span != store.SpanHour:
		return "at_ms - at_ms % 86400000"
	}
	return "at_ms"
}

// Use implements store.Rollups.
func (c *Catalogue) Use(ctx context.Context, q store.RollupQuery) ([]store.Use, error) {
	columns := make([]string, 0, len(q.By))
	for _, by := range q.By {
		col, ok := groupColumns[by]
		if !ok {
			return nil, fmt.Errorf("usage by %q: usage can be grouped by site, kind, owner, account, partition and command", by)
		}
		columns = append(columns, col)
	}
	type where struct {
		at    int64
		group [6]string
	}
	rows := map[where]*store.Use{}
	for _, s := range coveringSpans(&q) {
		w := &conditions{d: c.d}
		w.addCondition("span = " + w.placeholder(s.level) + " AND at_ms >= " + w.placeholder(s.from) + " AND at_ms < " +
			w.placeholder(s.to))
		w.addIn("site", q.Sites)
		w.addIn("kind", q.Kinds)
		w.addIn("owner", q.Owners)
		w.addIn("account", q.Accounts)
		w.addIn("partition_name", q.Partitions)
		if q.Command != "" {
			w.addCondition(w.patternCondition("command", q.Command))
		}
		text := selectSums(s.bucketExpression(q.Span), columns, usedColumns, "uses JOIN use_groups ON id = group_id", w)
		err := c.eachRow(ctx, text, w.args, func(scan func(...any) error) error {
			var at int64
			var u store.Use
			dest := []any{&at}
			for _, by := range q.By {
				dest = append(dest, groupField(&u, by))
			}
			for _, p := range figureFields(&u.Used) {
				dest = append(dest, p)
			}
			var inexact int64
			if err := scan(append(dest, &inexact)...); err != nil {
				return err
			}
			u.Exactness = figure.Unpack(inexact)
			for _, by := range q.By {
				*groupField(&u, by) = c.d.get(*groupField(&u, by))
			}
			u.At = bucketStart(q.Span, at)
			k := where{u.At.UnixMilli(), [6]string{u.Site, u.Kind, u.Owner, u.Account, u.Partition, u.Command}}
			if have := rows[k]; have != nil {
				figure.Add(&have.Used, &u.Used)
			} else {
				rows[k] = &u
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read usage: %w", err)
		}
	}
	out := make([]store.Use, 0, len(rows))
	for _, u := range slices.SortedFunc(maps.Values(rows), func(a, b *store.Use) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Site, b.Site), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Owner, b.Owner),
			cmp.Compare(a.Account, b.Account), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Command, b.Command))
	}) {
		out = append(out, *u)
	}
	return out, nil
}

func groupField(u *store.Use, by string) *string {
	return map[string]*string{
		"site": &u.Site, "kind": &u.Kind, "owner": &u.Owner, "account": &u.Account, "partition": &u.Partition, "command": &u.Command,
	}[by]
}

// bucketStart returns the beginning of the span for a bucket.
func bucketStart(s store.Span, ms int64) time.Time {
	if s == store.SpanWhole {
		return time.Time{}
	}
	return store.SpanStart(s, time.UnixMilli(ms))
}

// NodeUse implements store.Rollups.
func (c *Catalogue) NodeUse(ctx context.Context, q store.RollupQuery) ([]store.NodeUse, error) {
	for _, by := range q.By {
		if by != "node" && by != "site" {
			return nil, fmt.Errorf("usage of nodes by %q: it can be grouped by site and node", by)
		}
	}
	type where struct {
		at         int64
		site, node string
	}
	rows := map[where]*store.NodeUse{}
	for _, s := range coveringSpans(&q) {
		w := &conditions{d: c.d}
		w.addCondition("span = " + w.placeholder(s.level) + " AND at_ms >= " + w.placeholder(s.from) + " AND at_ms < " +
			w.placeholder(s.to))
		w.addIn("site", q.Sites)
		w.addIn("node", q.Nodes)
		text := selectSums(s.bucketExpression(q.Span), q.By, nodesColumns, "node_uses", w)
		err := c.eachRow(ctx, text, w.args, func(scan func(...any) error) error {
			var at int64
			var u store.NodeUse
			dest := []any{&at}
			for _, by := range q.By {
				dest = append(dest, map[string]*string{"site": &u.Site, "node": &u.Node}[by])
			}
			for _, p := range nodeFields(&u) {
				dest = append(dest, p)
			}
			var inexact int64
			if err := scan(append(dest, &inexact)...); err != nil {
				return err
			}
			u.Exactness = figure.Unpack(inexact)
			u.Site, u.Node = c.d.get(u.Site), c.d.get(u.Node)
			u.At = bucketStart(q.Span, at)
			k := where{u.At.UnixMilli(), u.Site, u.Node}
			if have := rows[k]; have != nil {
				figure.Add(&have.Capacity, &u.Capacity)
				figure.Add(&have.Used, &u.Used)
			} else {
				rows[k] = &u
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read usage of nodes: %w", err)
		}
	}
	out := make([]store.NodeUse, 0, len(rows))
	for _, u := range slices.SortedFunc(maps.Values(rows), func(a, b *store.NodeUse) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Site, b.Site), cmp.Compare(a.Node, b.Node))
	}) {
		out = append(out, *u)
	}
	return out, nil
}

// selectSums returns the query that sums by bucket and keys.
func selectSums(bucket string, keys, names []string, table string, w *conditions) string {
	group := slices.Clone(keys)
	if bucket != "0" { // a bare number would refer to a column
		group = append(group, bucket)
	}
	q := "SELECT " + strings.Join(append([]string{bucket}, keys...), ", ") + ", " + sumClauses(names) + ", " + worstExactness + " FROM " +
		table +
		w.whereClause()
	if len(group) == 0 {
		return q + " HAVING count(*) > 0"
	}
	return q + " GROUP BY " + strings.Join(group, ", ")
}

func (c *Catalogue) eachRow(ctx context.Context, q string, args []any, f func(scan func(...any) error) error) error {
	rows, err := c.db.QueryContext(ctx, q, args...)
	if err != nil {
		return c.translateError(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return c.translateError(ctx, rows.Err())
}

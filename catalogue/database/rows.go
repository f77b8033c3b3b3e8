package database

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"reckon/catalogue/database/columns"
	"reckon/figure"
	"reckon/store"
)

// running is stored as the end of a workload that has not ended, waiting as the end of one that has not started.
const (
	running = 1<<53 - 1
	waiting = running - 1
)

// factColumns are the columns other than figures. Those that identify a row come first.
var factColumns = []string{"site", "id", "start_ms", "seen_ms", "until_ms", "kind", "name", "owner", "account", "partition_name", "command",
	"nodes", "exit_code", "state", "reason", "submit_ms", "exactness", "ended_by", "ended_by_user", "qos", "lost", sharesColumn}

var (
	rowColumns = slices.Concat(factColumns, runColumns)
	insertSQL  = makeInsert(parameterList(1, len(rowColumns)), rowColumns)
	byKeySQL   = "SELECT key, " + strings.Join(rowColumns, ", ") + " FROM workloads WHERE key IN (SELECT value FROM json_each($1))"
	findSQL    = `SELECT key, owner, account, kind, partition_name, state, command, until_ms, nodes FROM workloads WHERE id = $1 AND ` +
		`start_ms = $2 AND site = $3`
)

// makeInsert returns the statement that writes a row with the given columns. params lists their parameters. All other
// columns become NULL, even in a row that exists.
func makeInsert(params string, columns []string) string {
	set := make([]string, 0, len(rowColumns))
	for _, c := range rowColumns[3:] {
		set = append(set, c+" = excluded."+c)
	}
	return "INSERT INTO workloads (" + strings.Join(columns, ", ") + ") VALUES (" + params +
		") ON CONFLICT (id, start_ms, site) DO UPDATE SET " + strings.Join(set, ", ") + " RETURNING key"
}

// countGroup holds the values by which workload_counts counts rows.
type countGroup struct {
	owner, account, kind, partition, state, command string
	running                                         bool
}

// countColumns are the columns of a countGroup.
var countColumns = []string{"owner", "account", "kind", "partition_name", "state", "command", "running"}

// storedRow is the result of findSQL for a row.
type storedRow struct {
	countGroup
	key, until int64
	nodes      string
}

func (h *storedRow) scanStored(row *sql.Row) error {
	err := row.Scan(&h.key, &h.owner, &h.account, &h.kind, &h.partition, &h.state, &h.command, &h.until, &h.nodes)
	h.running = h.until == running
	return err
}

// Upsert writes rows in one transaction, each replacing the stored row of the workload.
func (c *Catalogue) Upsert(ctx context.Context, rows []store.Workload) error {
	if len(rows) == 0 {
		return nil
	}
	c.write.Lock()
	defer c.write.Unlock()
	var at int64
	follows := c.lists.tracksWrites()
	changes := []columns.Change{}
	if err := c.inserts.prepare(ctx, rows); err != nil {
		return fmt.Errorf("write %d rows to the catalogue: %w", len(rows), c.translateError(ctx, err))
	}
	err := c.inTx(ctx, func(tx *sql.Tx) (err error) {
		if at, err = c.lists.countWrite(ctx, tx); err != nil {
			return err
		}
		u := upsert{follows: follows, d: c.d, tx: tx, insert: tx.StmtContext(ctx, c.insert), find: tx.StmtContext(ctx, c.find),
			inserts: c.inserts, opened: map[figureSet]*sql.Stmt{}, counts: map[countGroup]int{}, names: map[string]struct{}{},
			steps: map[int64][]store.Step{}}
		defer u.insert.Close()
		defer u.find.Close()
		defer u.close()
		for i := range rows { // before writing any, because a run may have begun when another run of its id was assumed to
			for _, was := range rows[i].PreviousStarts {
				if err := u.deleteRow(ctx, &rows[i], was); err != nil {
					return fmt.Errorf("workload %s: %w", rows[i].ID, err)
				}
			}
		}
		for i := range rows {
			if err := u.writeRow(ctx, &rows[i]); err != nil {
				return fmt.Errorf("workload %s: %w", rows[i].ID, err)
			}
		}
		changes = append(changes, u.changes...)
		if err := u.writeSteps(ctx); err != nil {
			return err
		}
		return u.updateCounts(ctx)
	})
	c.lists.applyWrite(at, changes, err)
	if err != nil {
		return fmt.Errorf("write %d rows to the catalogue: %w", len(rows), err)
	}
	return nil
}

type upsert struct {
	d            *dialect
	tx           *sql.Tx
	insert, find *sql.Stmt
	counts       map[countGroup]int
	names        map[string]struct{} // written in this transaction
	follows      bool                // changes must be applied to the columns of lists
	changes      []columns.Change
	args         []any
	steps        map[int64][]store.Step  // by the key of their run
	inserts      *inserts                // nil if rows are written with all columns
	opened       map[figureSet]*sql.Stmt // this transaction's
}

func (u *upsert) writeRow(ctx context.Context, w *store.Workload) error {
	if w.ID == "" || w.Start.IsZero() {
		return errors.New("a row needs an id and a start")
	}
	w = u.d.cleanTexts(w)
	nodes, err := json.Marshal(append([]string{}, w.Nodes...))
	if err != nil {
		return err
	}
	var old storedRow
	if u.d.indexes {
		switch err := old.scanStored(u.find.QueryRowContext(ctx, w.ID, w.Start.UnixMilli(), w.Site)); {
		case err == nil:
			u.counts[old.countGroup]--
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
	}
	until := int64(running)
	switch {
	case !w.End.IsZero():
		until = w.End.UnixMilli()
	case w.Waits():
		until = waiting
	}
	u.counts[countGroup{w.Owner, w.Account, w.Kind, w.Partition, w.State, w.Command, until == running}]++
	var submit *int64
	if !w.Submit.IsZero() {
		at := w.Submit.UnixMilli()
		submit = &at
	}
	lost := 0
	if w.Lost {
		lost = 1
	}
	shares := ""
	if len(w.Shares) > 0 {
		text, err := json.Marshal(w.Shares)
		if err != nil {
			return err
		}
		shares = string(text)
	}
	u.args = append(u.args[:0], w.Site, w.ID, w.Start.UnixMilli(), w.Seen.UnixMilli(), until,
		w.Kind, w.Name, w.Owner, w.Account, w.Partition, w.Command, string(nodes), w.ExitCode, w.State, w.Reason, submit,
		exactText(w.Exactness),
		w.EndedBy, w.EndedByUser, w.QOS, lost, shares)
	var key int64
	if err := u.statementFor(ctx, w).QueryRowContext(ctx, u.args...).Scan(&key); err != nil {
		return err
	}
	if u.follows {
		u.changes = append(u.changes, columns.Change{Row: toColumnRow(key, w, until)})
	}
	if len(w.Steps) > 0 {
		u.steps[key] = w.Steps
	}
	if !u.d.indexes {
		return nil
	}
	return u.writeSeparate(ctx, key, w, string(nodes), &old)
}

// exactText returns the exactness of a row's figures as JSON, or "" if all are exact.
func exactText(d figure.Degrees) string {
	if len(d) == 0 {
		return ""
	}
	text, _ := json.Marshal(d) // a map of texts can always be encoded
	return string(text)
}

// writeSeparate writes the data in separate tables.
func (u *upsert) writeSeparate(ctx context.Context, key int64, w *store.Workload, nodes string, old *storedRow) error {
	if _, known := u.names[w.Name]; !known {
		u.names[w.Name] = struct{}{}
		if _, err := u.tx.ExecContext(ctx, `INSERT INTO workload_names (name) VALUES ($1) ON CONFLICT DO NOTHING`, w.Name); err != nil {
			return err
		}
	}
	if nodes == old.nodes {
		return nil
	}
	if old.nodes != "" {
		if _, err := u.tx.ExecContext(ctx, `DELETE FROM workload_nodes WHERE key = $1 AND `+u.d.listed("node", "$2"), old.key,
			old.nodes); err != nil {
			return err
		}
	}
	for _, n := range w.Nodes {
		if _, err := u.tx.ExecContext(ctx, `INSERT INTO workload_nodes (node, key) VALUES ($1, $2) ON CONFLICT DO NOTHING`, n,
			key); err != nil {
			return err
		}
	}
	return nil
}

// deleteRow deletes the row of a workload that started at was, if there is one.
func (u *upsert) deleteRow(ctx context.Context, w *store.Workload, was time.Time) error {
	var old storedRow
	err := old.scanStored(u.find.QueryRowContext(ctx, w.ID, was.UnixMilli(), w.Site))
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if u.follows {
		u.changes = append(u.changes, columns.Change{Row: columns.Row{Key: old.key}, Delete: true})
	}
	if u.d.indexes {
		u.counts[old.countGroup]--
		if _, err := u.tx.ExecContext(ctx, `DELETE FROM workload_nodes WHERE key = $1 AND `+u.d.listed("node", "$2"), old.key,
			old.nodes); err != nil {
			return err
		}
	}
	_, err = u.tx.ExecContext(ctx, `DELETE FROM workloads WHERE key = $1`, old.key)
	return err
}

// updateCounts adds the changes to workload_counts.
func (u *upsert) updateCounts(ctx context.Context) error {
	if !u.d.indexes {
		return nil
	}
	for g, n := range u.counts {
		if n == 0 {
			continue
		}
		run := 0
		if g.running {
			run = 1
		}
		if _, err := u.tx.ExecContext(ctx,
			"INSERT INTO workload_counts ("+strings.Join(countColumns, ", ")+", n) VALUES ("+parameterList(1, len(countColumns)+1)+
				") ON CONFLICT ("+strings.Join(countColumns, ", ")+") DO UPDATE SET n = workload_counts.n + excluded.n", g.owner, g.account,
			g.kind, g.partition, g.state, g.command, run, n); err != nil {
			return err
		}
	}
	return nil
}

// scan reads one row in the order of rowColumns, after other columns; and its stored end.
func (d *dialect) scan(rows *sql.Rows, before ...any) (w store.Workload, until int64, err error) {
	var start, seen int64
	var submit *int64
	var lost int
	var nodes, exactness, shares string
	dest := append(before, &w.Site, &w.ID, &start, &seen, &until, &w.Kind, &w.Name, &w.Owner, &w.Account, &w.Partition, &w.Command, &nodes,
		&w.ExitCode, &w.State, &w.Reason, &submit, &exactness, &w.EndedBy, &w.EndedByUser, &w.QOS, &lost, &shares)
	for i := range figures {
		dest = append(dest, w.Row.At(i))
	}
	if err := rows.Scan(dest...); err != nil {
		return w, 0, err
	}
	w.Start, w.Seen, w.Lost = time.UnixMilli(start).UTC(), time.UnixMilli(seen).UTC(), lost != 0
	if submit != nil {
		w.Submit = time.UnixMilli(*submit).UTC()
	}
	if until < waiting {
		w.End = time.UnixMilli(until).UTC()
	}
	if err := json.Unmarshal([]byte(nodes), &w.Nodes); err != nil {
		return w, 0, err
	}
	if exactness != "" {
		if err := json.Unmarshal([]byte(exactness), &w.Exactness); err != nil {
			return w, 0, err
		}
	}
	if shares != "" {
		if err := json.Unmarshal([]byte(shares), &w.Shares); err != nil {
			return w, 0, err
		}
	}
	d.mapTexts(&w, d.get)
	return w, until, nil
}

// mapTexts applies a change to the texts of a row.
func (d *dialect) mapTexts(w *store.Workload, change func(string) string) {
	if d.name == "sqlite" {
		return // stores any text
	}
	for _, p := range []*string{&w.Site, &w.ID, &w.Kind, &w.Name, &w.Owner, &w.Account, &w.Partition, &w.Command, &w.State, &w.Reason,
		&w.EndedBy, &w.EndedByUser, &w.QOS} {
		*p = change(*p)
	}
	nodes := make([]string, len(w.Nodes))
	for i, n := range w.Nodes {
		nodes[i] = change(n)
	}
	w.Nodes = nodes
}

// cleanTexts returns the row with text that the database can store.
func (d *dialect) cleanTexts(w *store.Workload) *store.Workload {
	c := *w
	d.mapTexts(&c, d.put)
	return &c
}

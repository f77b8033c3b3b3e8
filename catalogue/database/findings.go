package database

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"reckon/store"
)

const findingColumns = `id, rule, severity, site, owner, workload, node, part, text, evidence, first_ms, last_ms, found_ms, seen_ms, ` +
	`state, ack_by, ack_ms, muted_until_ms, mute_reason`

// toMillis returns the stored form of a time; 0 means never.
func toMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// PutFindings implements store.Findings.
func (c *Catalogue) PutFindings(ctx context.Context, list []store.Finding) error {
	if len(list) == 0 {
		return nil
	}
	c.write.Lock()
	defer c.write.Unlock()
	names := strings.Split(findingColumns, ", ")
	set := make([]string, 0, len(names))
	for _, n := range names[1:] {
		set = append(set, n+" = excluded."+n)
	}
	text := "INSERT INTO findings (" + findingColumns + ") VALUES (" + parameterList(1, len(names)) + ") ON CONFLICT (id) DO UPDATE SET " +
		strings.Join(set, ", ")
	err := c.inTx(ctx, func(tx *sql.Tx) error {
		put, err := tx.PrepareContext(ctx, text)
		if err != nil {
			return err
		}
		defer put.Close()
		for i := range list {
			f, text := &list[i], c.d.put
			if _, err := put.ExecContext(ctx, text(f.ID), f.Rule, f.Severity, text(f.Site), text(f.Owner), text(f.Workload), text(f.Node),
				text(f.Part), text(f.Text), text(string(f.Evidence)),
				toMillis(f.First), toMillis(f.Last), toMillis(f.Found), toMillis(f.Seen), f.State, text(f.AckBy), toMillis(f.AckAt),
				toMillis(f.MutedUntil), text(f.MuteReason)); err != nil {
				return fmt.Errorf("finding %s: %w", f.ID, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write %d findings: %w", len(list), err)
	}
	return nil
}

// Findings implements store.Findings.
func (c *Catalogue) Findings(ctx context.Context, f store.FindingFilter) ([]store.Finding, int, error) {
	w := &conditions{d: c.d}
	for column, value := range map[string]string{"id": f.ID, "workload": f.Workload, "node": f.Node} {
		if value != "" {
			w.addCondition(column + " = " + w.placeholder(value))
		}
	}
	w.addIn("rule", f.Rules)
	w.addIn("severity", f.Severities)
	w.addIn("owner", f.Owners)
	w.addIn("state", f.States)
	if !f.Since.IsZero() {
		w.addCondition("seen_ms >= " + w.placeholder(f.Since.UnixMilli()))
	}
	if f.Muted != nil {
		sign := " <= "
		if *f.Muted {
			sign = " > "
		}
		w.addCondition("muted_until_ms" + sign + w.placeholder(f.Now.UnixMilli()))
	}
	var total int
	if err := c.db.QueryRowContext(ctx, "SELECT count(*) FROM findings"+w.whereClause(), w.args...).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count findings: %w", c.translateError(ctx, err))
	}
	text := "SELECT " + findingColumns + " FROM findings" + w.whereClause() +
		" ORDER BY CASE severity WHEN 'high' THEN 0 WHEN 'medium' THEN 1 ELSE 2 END, last_ms DESC, id"
	if f.Limit > 0 {
		text += fmt.Sprintf(" LIMIT %d", f.Limit)
	}
	rows, err := c.db.QueryContext(ctx, text, w.args...)
	if err != nil {
		return nil, 0, fmt.Errorf("list findings: %w", c.translateError(ctx, err))
	}
	defer rows.Close()
	var out []store.Finding
	for rows.Next() {
		var x store.Finding
		var evidence string
		var first, last, found, seen, ack, muted int64
		if err := rows.Scan(&x.ID, &x.Rule, &x.Severity, &x.Site, &x.Owner, &x.Workload, &x.Node, &x.Part, &x.Text, &evidence,
			&first, &last, &found, &seen, &x.State, &x.AckBy, &ack, &muted, &x.MuteReason); err != nil {
			return nil, 0, fmt.Errorf("list findings: %w", err)
		}
		for _, p := range []*string{&x.ID, &x.Site, &x.Owner, &x.Workload, &x.Node, &x.Part, &x.Text, &x.AckBy, &x.MuteReason} {
			*p = c.d.get(*p)
		}
		x.Evidence = []byte(c.d.get(evidence))
		x.First, x.Last, x.Found, x.Seen = fromMillis(first), fromMillis(last), fromMillis(found), fromMillis(seen)
		x.AckAt, x.MutedUntil = fromMillis(ack), fromMillis(muted)
		out = append(out, x)
	}
	return out, total, rows.Err()
}

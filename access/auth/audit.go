package auth

import (
	"context"
	"time"

	"reckon/access"
)

// Entry says that somebody looked at the work of somebody else, or changed something.
type Entry struct {
	Time   time.Time `json:"time"`
	Viewer string    `json:"viewer"`
	Role   string    `json:"role"`
	Action string    `json:"action"` // workload, workloads, query, login, ...
	Object string    `json:"object"` // the id, the filter or the query
	Owner  string    `json:"owner"`  // whose work; empty when of several
	Source string    `json:"source"` // address of the sender
}

// keepAudit is how long entries are kept.
const keepAudit = 400 * 24 * time.Hour

// Audit writes an entry. Long objects are cut.
func (k *Keeper) Audit(ctx context.Context, v access.Viewer, action, object, owner, source string) error {
	const most = 2000
	if len(object) > most {
		object = object[:most] + "..."
	}
	_, err := k.db.ExecContext(ctx, `INSERT INTO audit (at_ms, viewer, role, action, object, owner, source) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		k.clock().UnixMilli(), v.Name, v.Role.String(), action, object, owner, source)
	return err
}

// Trim forgets entries that are too old.
func (k *Keeper) Trim(ctx context.Context) error {
	_, err := k.db.ExecContext(ctx, `DELETE FROM audit WHERE at_ms < $1`, k.clock().Add(-keepAudit).UnixMilli())
	return err
}

// Entries lists entries, the newest first: about one owner or all, since a time.
func (k *Keeper) Entries(ctx context.Context, owner, viewer string, since time.Time, limit int) ([]Entry, error) {
	rows, err := k.db.QueryContext(ctx, `SELECT at_ms, viewer, role, action, object, owner, source FROM audit
		WHERE ($1 = '' OR owner = $1) AND ($2 = '' OR viewer = $2) AND at_ms >= $3 ORDER BY at_ms DESC, key DESC LIMIT $4`, owner, viewer, since.UnixMilli(), limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := []Entry{}
	for rows.Next() {
		var e Entry
		var at int64
		if err := rows.Scan(&at, &e.Viewer, &e.Role, &e.Action, &e.Object, &e.Owner, &e.Source); err != nil {
			return nil, err
		}
		e.Time = time.UnixMilli(at).UTC()
		out = append(out, e)
	}
	return out, rows.Err()
}

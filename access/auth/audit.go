package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"reckon/access"
)

// Entry records that a viewer looked at the work of another owner, or changed something.
type Entry struct {
	Time   time.Time `json:"time"`
	Viewer string    `json:"viewer"`
	Role   string    `json:"role"`
	Action string    `json:"action"` // workload, workloads, query, login, ...
	Object string    `json:"object"` // the id, the filter or the query
	Owner  string    `json:"owner"`  // owner of the work; empty if there are several
	Source string    `json:"source"` // address of the sender, or socket
}

// auditRetention is the retention of entries.
const auditRetention = 400 * 24 * time.Hour

// Audit writes an entry. Long objects are cut.
func (us *Users) Audit(ctx context.Context, v access.Viewer, action, object, owner, source string) error {
	const most = 2000
	if len(object) > most {
		object = object[:most] + "..."
	}
	return us.execDeferred(ctx,
		`INSERT INTO audit (at_ms, viewer, role, action, object, owner, source) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		us.clock().UnixMilli(), us.storableText(v.Called()), v.Role.String(), action, us.storableText(object), us.storableText(owner),
		us.storableText(source))
}

// Trim deletes entries past their retention.
func (us *Users) Trim(ctx context.Context) error {
	return errors.Join(us.execDeferred(ctx, `DELETE FROM audit WHERE at_ms < $1`, us.clock().Add(-auditRetention).UnixMilli()),
		us.execDeferred(ctx, `DELETE FROM tokens WHERE expires_ms > 0 AND expires_ms < $1`, us.clock().Add(-24*time.Hour).UnixMilli()))
}

// Entries lists entries, the newest first: about one owner or all, since a time.
func (us *Users) Entries(ctx context.Context, owner, viewer string, since time.Time, limit int) ([]Entry, error) {
	rows, err := us.db.QueryContext(ctx, `SELECT at_ms, viewer, role, action, object, owner, source FROM audit
		WHERE ($1 = '' OR owner = $1) AND ($2 = '' OR viewer = $2) AND at_ms >= $3 ORDER BY at_ms DESC, key DESC LIMIT $4`, us.storableText(owner), us.storableText(viewer), since.UnixMilli(), limit)
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
		if e.Source == "@" { // the address of a client of a Unix socket
			e.Source = "socket"
		}
		out = append(out, e)
	}
	return out, rows.Err()
}

// recordRefusal records a refused sign-in. It writes one entry per address and window with the
// number of attempts since the previous entry, so that password guessing does not fill the log.
func (a *Authenticator) recordRefusal(r *http.Request, name string) {
	from := senderBlock(a.senderAddress(r))
	tries, write := a.refusals.addRefusal(from, a.Users.clock())
	if !write {
		return
	}
	object := ""
	if tries > 1 {
		object = fmt.Sprintf("%d tries since the last entry", tries)
	}
	const most = 64
	if len(name) > most {
		name = name[:most]
	}
	if err := a.Users.Audit(context.WithoutCancel(r.Context()), access.Viewer{Name: strings.ToValidUTF8(name, "?")}, "login refused",
		object, "", a.senderAddress(r)); err != nil {
		a.Logger.ErrorContext(r.Context(), "write the audit log", "err", err)
	}
}

// refusals counts refused attempts by address. It is safe for concurrent use.
type refusals struct {
	mu sync.Mutex
	of map[string]*attempts
}

// maxRefusals is the maximum number of addresses that are counted separately in a window.
const maxRefusals = 200

// addRefusal adds a refused sign-in from the address from. It returns the number of refusals since the last log entry, and
// whether to write an entry now. If there are more than maxRefusals addresses, the further ones share one entry.
func (x *refusals) addRefusal(from string, now time.Time) (tries int, write bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.of == nil {
		x.of = map[string]*attempts{}
	}
	if x.of[from] == nil && len(x.of) >= maxRefusals {
		for k, a := range x.of {
			if now.Sub(a.last) >= repeatInterval {
				delete(x.of, k)
			}
		}
		if len(x.of) >= maxRefusals {
			from = ""
		}
	}
	e := x.of[from]
	if e == nil {
		e = &attempts{}
		x.of[from] = e
	}
	e.failures++
	if !e.last.IsZero() && now.Sub(e.last) < repeatInterval {
		return e.failures, false
	}
	tries, e.failures, e.last = e.failures, 0, now
	return tries, true
}

// repeatInterval is the interval in which repeated accesses are recorded only once, because pages poll every few seconds.
const repeatInterval = 10 * time.Minute

// maxRecorded is the maximum number of accesses remembered as recorded.
const maxRecorded = 10_000

// AuditLook records that a viewer looked at the work of an owner, unless the same access was
// recorded within ten minutes. Errors are logged and refuse no request.
func (a *Authenticator) AuditLook(r *http.Request, action, object, owner string) {
	v := access.From(r.Context())
	if !a.isFirstAccess(v.Called()+"\x00"+action+"\x00"+object, a.Users.clock()) {
		return
	}
	if err := a.Users.Audit(context.WithoutCancel(r.Context()), v, action, object, owner, a.senderAddress(r)); err != nil {
		a.Logger.ErrorContext(r.Context(), "write the audit log", "err", err)
	}
}

func (a *Authenticator) isFirstAccess(key string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, ok := a.noted[key]
	if ok && now.Sub(last) < repeatInterval {
		return false
	}
	if a.noted == nil || !ok && len(a.noted) > maxRecorded {
		a.noted = map[string]time.Time{}
	}
	a.noted[key] = now
	return true
}

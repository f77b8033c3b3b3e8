package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"reckon/access"
)

// Kind is the purpose of a token.
type Kind string

// The kinds of tokens.
const (
	Agent  Kind = "agent"  // sends samples of some nodes, and sees nothing
	Person Kind = "person" // a program with a role: scripts, Grafana, scrapes
)

// Token is the stored record of a token, without its secret.
type Token struct {
	ID   string `json:"id"`
	Note string `json:"note,omitempty"` // its purpose
	Kind Kind   `json:"kind"`
	// For a person: role, name, and the owners of the visible work.
	Role   access.Role `json:"-"`
	Name   string      `json:"name,omitempty"`
	Owners []string    `json:"owners,omitempty"`
	// For an agent: the nodes that it may send for, and how much.
	Scope access.Scope `json:"scope"`
	Bound access.Bound `json:"bound"`

	Created time.Time  `json:"created"`
	Expires *time.Time `json:"expires,omitempty"`
	Used    *time.Time `json:"used,omitempty"` // last time, to the minute
	Revoked *time.Time `json:"revoked,omitempty"`
}

// tokenPrefix is the start of every token. Scanners for leaked secrets search for it.
const tokenPrefix = "rkn_"

// AddToken creates a token and returns its text, which cannot be shown again.
func (us *Users) AddToken(ctx context.Context, t Token) (text string, err error) {
	switch t.Kind {
	case Agent:
		for _, p := range t.Scope.Nodes {
			if _, err := path.Match(p, ""); err != nil || p == "" {
				return "", fmt.Errorf("%q is no pattern of names of nodes; write n1 or gpu*", p)
			}
		}
		if t.Bound.Series < -1 || !(t.Bound.SamplesPerSecond >= -1) {
			return "", errors.New("a limit is a number above 0, 0 for the default of the server, or -1 for none")
		}
		t.Role, t.Name, t.Owners = access.Nobody, "", nil
	case Person:
		if t.Role == access.Nobody {
			return "", errors.New("a token of a person needs a role: admin, support, user or public")
		}
		if t.Role == access.User && t.Name == "" && len(t.Owners) == 0 {
			return "", errors.New("a token of role user needs the name of the user, or the owners of the work that it may see")
		}
		t.Scope, t.Bound = access.Scope{}, access.Bound{}
	default:
		return "", fmt.Errorf("%q is no kind of token; give agent or person", t.Kind)
	}
	id, secret := newToken()
	hash := sha256.Sum256([]byte(secret))
	owners, err := json.Marshal(append([]string{}, t.Owners...))
	if err != nil {
		return "", err
	}
	nodes, err := json.Marshal(append([]string{}, t.Scope.Nodes...))
	if err != nil {
		return "", err
	}
	bound, err := json.Marshal(t.Bound)
	if err != nil {
		return "", err
	}
	role := ""
	if t.Kind == Person {
		role = t.Role.String()
	}
	var expires int64
	if t.Expires != nil {
		expires = t.Expires.UnixMilli()
	}
	_, err = us.db.ExecContext(ctx, `INSERT INTO tokens (id, hash, note, kind, role, name, owners, site, nodes, bound, created_ms, expires_ms, used_ms, revoked_ms)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 0, 0)`,
		id, hash[:], t.Note, string(t.Kind), role, t.Name, string(owners), t.Scope.Site, string(nodes), string(bound),
		us.clock().UnixMilli(), expires)
	us.checkpoint(ctx)
	return tokenPrefix + id + "." + secret, err
}

// newToken returns the id and the secret of a new token. The id never begins with a hyphen, because
// it would look like a flag on a command line.
func newToken() (id, secret string) {
	raw := make([]byte, 6+30)
	for {
		_, _ = rand.Read(raw) // never fails (crypto/rand)
		b64 := base64.RawURLEncoding
		if id, secret = b64.EncodeToString(raw[:6]), b64.EncodeToString(raw[6:]); id[0] != '-' {
			return id, secret
		}
	}
}

// Revoke invalidates a token from now on.
func (us *Users) Revoke(ctx context.Context, id string) error {
	r, err := us.db.ExecContext(ctx, `UPDATE tokens SET revoked_ms = $1 WHERE id = $2 AND revoked_ms = 0`, us.clock().UnixMilli(), id)
	us.checkpoint(ctx)
	return requireRow(r, err, fmt.Errorf("token %s %w, or is revoked already", id, ErrUnknown))
}

const tokenColumns = `id, hash, note, kind, role, name, owners, site, nodes, bound, created_ms, expires_ms, used_ms, revoked_ms`

// Tokens lists all tokens, revoked ones included, the newest first.
func (us *Users) Tokens(ctx context.Context) ([]Token, error) {
	rows, err := us.db.QueryContext(ctx, `SELECT `+tokenColumns+` FROM tokens ORDER BY created_ms DESC, id`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Token
	for rows.Next() {
		t, _, err := scanToken(rows.Scan)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, rows.Err()
}

func scanToken(scan func(...any) error) (t Token, hash []byte, err error) {
	var kind, role, owners, nodes, bound string
	var created, expires, used, revoked int64
	if err := scan(&t.ID, &hash, &t.Note, &kind, &role, &t.Name, &owners, &t.Scope.Site, &nodes, &bound, &created, &expires, &used,
		&revoked); err != nil {
		return t, nil, err
	}
	t.Kind, t.Created = Kind(kind), time.UnixMilli(created).UTC()
	if t.Kind == Person {
		if t.Role, err = access.ParseRole(role); err != nil {
			return t, nil, err
		}
	}
	for ms, field := range map[*int64]**time.Time{&expires: &t.Expires, &used: &t.Used, &revoked: &t.Revoked} {
		if *ms != 0 {
			at := time.UnixMilli(*ms).UTC()
			*field = &at
		}
	}
	if t.Owners, err = parseList(owners); err != nil {
		return t, nil, err
	}
	if t.Scope.Nodes, err = parseList(nodes); err != nil || bound == "" {
		return t, hash, err
	}
	return t, hash, json.Unmarshal([]byte(bound), &t.Bound)
}

// CheckToken returns the viewer with a token.
func (us *Users) CheckToken(ctx context.Context, text string) (access.Viewer, error) {
	id, secret, ok := strings.Cut(strings.TrimPrefix(text, tokenPrefix), ".")
	if !ok || !strings.HasPrefix(text, tokenPrefix) || len(text) > 200 {
		return access.Viewer{}, ErrToken
	}
	t, hash, err := scanToken(us.db.QueryRowContext(ctx, `SELECT `+tokenColumns+` FROM tokens WHERE id = $1`, us.storableText(id)).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return access.Viewer{}, ErrToken
	}
	if err != nil {
		return access.Viewer{}, err
	}
	got := sha256.Sum256([]byte(secret))
	now := us.clock()
	if subtle.ConstantTimeCompare(got[:], hash) != 1 || t.Revoked != nil || (t.Expires != nil && !now.Before(*t.Expires)) {
		return access.Viewer{}, ErrToken
	}
	if err := us.recordUse(ctx, id, now); err != nil {
		return access.Viewer{}, err
	}
	if t.Kind == Agent {
		return access.Viewer{Name: "agent " + id, Writes: &t.Scope, Bound: t.Bound}, nil
	}
	v := access.Viewer{Role: t.Role, Name: t.Name, Owners: t.Owners}
	if t.Expires != nil {
		v.Until = *t.Expires
	}
	if v.Name == "" && v.All() { // its accesses are audited too
		v.Name = "token " + id
		if t.Note != "" {
			v.Name += " (" + t.Note + ")"
		}
	}
	return v, nil
}

// recordUse records the time of a token's use, at most once a minute.
func (us *Users) recordUse(ctx context.Context, id string, now time.Time) error {
	ms := now.UnixMilli()
	us.mu.Lock()
	last := us.used[id]
	fresh := ms-last < time.Minute.Milliseconds() && ms >= last
	if !fresh {
		us.used[id] = ms
	}
	us.mu.Unlock()
	if fresh {
		return nil
	}
	return us.execDeferred(ctx, `UPDATE tokens SET used_ms = $1 WHERE id = $2`, ms, id)
}

package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"

	"reckon/access"
)

// A browser session ends after idleFor without use, and in any case after lasts.
const (
	idleFor = 12 * time.Hour
	lasts   = 7 * 24 * time.Hour
)

// NewSession starts a session and returns the secret for its cookie. Set local if the viewer is one of [Users.Users]; a
// change of that user's role then applies to the session.
func (us *Users) NewSession(ctx context.Context, v access.Viewer, local bool) (string, error) {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails (crypto/rand)
	secret := base64.RawURLEncoding.EncodeToString(raw)
	hash := sha256.Sum256([]byte(secret))
	owners, err := json.Marshal(append([]string{}, v.Owners...))
	if err != nil {
		return "", err
	}
	now := us.clock().UnixMilli()
	if err := us.execDeferred(ctx, `DELETE FROM sessions WHERE seen_ms < $1 OR created_ms < $2`, now-idleFor.Milliseconds(),
		now-lasts.Milliseconds()); err != nil {
		return "", err
	}
	err = us.execDeferred(ctx,
		`INSERT INTO sessions (hash, role, name, owners, local, created_ms, seen_ms) VALUES ($1, $2, $3, $4, $5, $6, $6)`,
		hash[:], v.Role.String(), v.Name, string(owners), storedBool(local), now)
	return secret, err
}

// CheckSession returns the viewer of a session.
func (us *Users) CheckSession(ctx context.Context, secret string) (access.Viewer, error) {
	hash := sha256.Sum256([]byte(secret))
	var role, name, owners string
	var local bool
	var created, seen int64
	err := us.db.QueryRowContext(ctx, `SELECT role, name, owners, local, created_ms, seen_ms FROM sessions WHERE hash = $1`,
		hash[:]).Scan(&role, &name, &owners, &local, &created, &seen)
	if errors.Is(err, sql.ErrNoRows) {
		return access.Viewer{}, ErrSession
	}
	if err != nil {
		return access.Viewer{}, err
	}
	now := us.clock().UnixMilli()
	if now-seen > idleFor.Milliseconds() || now-created > lasts.Milliseconds() {
		return access.Viewer{}, ErrSession
	}
	if local { // the user's current role counts, not the one at sign-in
		err := us.db.QueryRowContext(ctx, `SELECT role, owners FROM users WHERE name = $1`, name).Scan(&role, &owners)
		if errors.Is(err, sql.ErrNoRows) {
			return access.Viewer{}, ErrSession
		}
		if err != nil {
			return access.Viewer{}, err
		}
	}
	if now-seen > time.Minute.Milliseconds() {
		if err := us.execDeferred(ctx, `UPDATE sessions SET seen_ms = $1 WHERE hash = $2`, now, hash[:]); err != nil {
			return access.Viewer{}, err
		}
	}
	return viewerFromRow(role, name, owners)
}

// storedBool returns the stored form of a boolean.
func storedBool(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// EndSession ends a session; an unknown one counts as ended.
func (us *Users) EndSession(ctx context.Context, secret string) error {
	hash := sha256.Sum256([]byte(secret))
	_, err := us.db.ExecContext(ctx, `DELETE FROM sessions WHERE hash = $1`, hash[:])
	us.checkpoint(ctx) // else it could be valid again after a kill
	return err
}

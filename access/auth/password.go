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
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"reckon/access"
)

// hashCost is the cost of checking a password: the number of passes, the memory in KiB, and the threads.
type hashCost struct {
	time    uint32
	memory  uint32
	threads uint8
}

// owaspCost is the second recommendation of OWASP's Password Storage Cheat Sheet: 19 MiB, two passes, one thread.
var owaspCost = hashCost{time: 2, memory: 19 * 1024, threads: 1}

// Limits of the length of a password. Short passwords can be guessed, and hashing long ones could keep the server busy.
const (
	shortest = 10
	longest  = 512
)

// User is a person who signs in with a password.
type User struct {
	Name    string      `json:"name"`
	Role    access.Role `json:"-"`
	Owners  []string    `json:"owners,omitempty"` // empty: the owner of the same name
	Created time.Time   `json:"created"`
}

// CheckName returns an error if name is not a valid user name.
func CheckName(name string) error {
	if name == "" || len(name) > 128 || !utf8.ValidString(name) ||
		strings.TrimSpace(name) != name || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == ':' || r == 0x7f }) {
		return fmt.Errorf("%q cannot be the name of a user; give 1 to 128 bytes without colons, and no blank at an end", name)
	}
	return nil
}

// AddUser adds a user with a password.
func (us *Users) AddUser(ctx context.Context, u User, password string) error {
	if err := CheckName(u.Name); err != nil {
		return err
	}
	if u.Role < access.User {
		return fmt.Errorf("a user has the role admin, support or user, not %s", u.Role)
	}
	hash, err := us.hashPassword(ctx, password)
	if err != nil {
		return err
	}
	owners, err := json.Marshal(append([]string{}, u.Owners...))
	if err != nil {
		return err
	}
	r, err := us.db.ExecContext(ctx,
		`INSERT INTO users (name, role, owners, password, created_ms) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
		u.Name, u.Role.String(), string(owners), hash, us.clock().UnixMilli())
	us.checkpoint(ctx)
	return requireRow(r, err, fmt.Errorf("user %s %w", u.Name, ErrExists))
}

// SetPassword gives a user another password and ends the user's sessions.
func (us *Users) SetPassword(ctx context.Context, name, password string) error {
	hash, err := us.hashPassword(ctx, password)
	if err != nil {
		return err
	}
	r, err := us.db.ExecContext(ctx, `UPDATE users SET password = $1 WHERE name = $2`, hash, name)
	if err := requireRow(r, err, fmt.Errorf("user %s %w", name, ErrUnknown)); err != nil {
		return err
	}
	us.clearPasswordCache()
	_, err = us.db.ExecContext(ctx, `DELETE FROM sessions WHERE name = $1 AND local = 1`, name)
	us.checkpoint(ctx)
	return err
}

// RemoveUser removes a user, with the user's sessions and own tokens.
func (us *Users) RemoveUser(ctx context.Context, name string) error {
	r, err := us.db.ExecContext(ctx, `DELETE FROM users WHERE name = $1`, name)
	if err := requireRow(r, err, fmt.Errorf("user %s %w", name, ErrUnknown)); err != nil {
		return err
	}
	us.clearPasswordCache()
	if _, err := us.db.ExecContext(ctx, `DELETE FROM sessions WHERE name = $1 AND local = 1`, name); err != nil {
		return err
	}
	_, err = us.db.ExecContext(ctx, `UPDATE tokens SET revoked_ms = $1 WHERE name = $2 AND kind = 'person' AND revoked_ms = 0`,
		us.clock().UnixMilli(), name)
	us.checkpoint(ctx)
	return err
}

// List returns the users by name.
func (us *Users) List(ctx context.Context) ([]User, error) {
	rows, err := us.db.QueryContext(ctx, `SELECT name, role, owners, created_ms FROM users ORDER BY name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []User
	for rows.Next() {
		var u User
		var role, owners string
		var created int64
		if err := rows.Scan(&u.Name, &role, &owners, &created); err != nil {
			return nil, err
		}
		v, err := viewerFromRow(role, u.Name, owners)
		if err != nil {
			return nil, err
		}
		u.Role, u.Owners, u.Created = v.Role, v.Owners, time.UnixMilli(created).UTC()
		out = append(out, u)
	}
	return out, rows.Err()
}

// verifiedPassword is a password that was verified.
type verifiedPassword struct {
	viewer access.Viewer
	until  time.Time
}

// passwordCacheTime is the time for which a verified password is accepted without another check.
// Without it, clients that send the password with every request would keep the server busy.
// sharedPasswordCacheTime applies to a shared database, because other servers do not announce changes.
const (
	passwordCacheTime       = time.Minute
	sharedPasswordCacheTime = 5 * time.Second
)

// CheckPassword returns the viewer with a name and password. from is the sender's address. After
// some failed attempts for a name from an address, further ones must wait (ErrSlow) even if the
// password is right. Concurrent requests with the same name, password and address share one check.
func (us *Users) CheckPassword(ctx context.Context, name, password, from string) (access.Viewer, error) {
	key := sha256.Sum256([]byte(fmt.Sprintf("%d:%s%s", len(name), name, password)))
	now := us.clock()
	us.mu.Lock()
	c, ok := us.known[key]
	us.mu.Unlock()
	if ok && now.Before(c.until) {
		return c.viewer, nil
	}
	v, err, _ := us.checks.Do(string(key[:])+from,
		func() (any, error) { return us.tryPassword(context.WithoutCancel(ctx), key, now, name, password, from) })
	if err != nil {
		return access.Viewer{}, err
	}
	return v.(access.Viewer), nil
}

// tryPassword checks a password. The attempt counts as a failure until it succeeds.
func (us *Users) tryPassword(ctx context.Context, key [32]byte, now time.Time, name, password, from string) (_ access.Viewer, err error) {
	if wait := us.guard.reserveAttempt(now, name, from); wait > 0 {
		return access.Viewer{}, fmt.Errorf("%w; try again in %s", ErrSlow, max(time.Second, wait.Round(time.Second)))
	}
	made := false
	defer func() {
		if !made {
			us.guard.cancelReservation(name, from)
		}
	}()
	var role, owners, hash string
	err = us.db.QueryRowContext(ctx, `SELECT role, owners, password FROM users WHERE name = $1`, us.storableText(name)).Scan(&role,
		&owners, &hash)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		hash = us.decoyHash() // an unknown name takes as long as a wrong password
	case err != nil:
		return access.Viewer{}, err
	}
	right, checkErr := us.verifyHash(ctx, hash, password)
	if checkErr != nil {
		return access.Viewer{}, checkErr
	}
	made = true
	if err != nil || !right {
		return access.Viewer{}, ErrRefused
	}
	us.guard.recordSuccess(now, name, from)
	v, err := viewerFromRow(role, name, owners)
	if err != nil {
		return v, err
	}
	us.mu.Lock()
	defer us.mu.Unlock()
	for key, c := range us.known {
		if !now.Before(c.until) {
			delete(us.known, key)
		}
	}
	known := passwordCacheTime
	if us.file == "" {
		known = sharedPasswordCacheTime
	}
	us.known[key] = verifiedPassword{v, now.Add(known)}
	return v, nil
}

// clearPasswordCache makes every password be checked again.
func (us *Users) clearPasswordCache() {
	us.mu.Lock()
	defer us.mu.Unlock()
	clear(us.known)
}

// hashPassword returns the stored form of a password in the format of the reference implementation:
// $argon2id$v=19$m=19456,t=2,p=1$SALT$HASH.
func (us *Users) hashPassword(ctx context.Context, password string) (string, error) {
	if len(password) < shortest || len(password) > longest {
		return "", fmt.Errorf("the password has %d bytes; give %d to %d", len(password), shortest, longest)
	}
	if err := us.acquireSlot(ctx); err != nil {
		return "", err
	}
	defer us.releaseSlot()
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails (crypto/rand)
	sum := argon2.IDKey([]byte(password), salt, us.cost.time, us.cost.memory, us.cost.threads, 32)
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, us.cost.memory, us.cost.time, us.cost.threads,
		b64.EncodeToString(salt), b64.EncodeToString(sum)), nil
}

// decoyHash returns a hash that matches no password.
func (us *Users) decoyHash() string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, us.cost.memory, us.cost.time, us.cost.threads,
		strings.Repeat("A", 22), strings.Repeat("A", 43))
}

func (us *Users) verifyHash(ctx context.Context, hash, password string) (bool, error) {
	if len(password) > longest {
		return false, nil
	}
	var version int
	var c hashCost
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[1] != "argon2id" {
		return false, errors.New("the kept password has a form that this version does not know")
	}
	_, err1 := fmt.Sscanf(parts[2], "v=%d", &version)
	_, err2 := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &c.memory, &c.time, &c.threads)
	salt, err3 := base64.RawStdEncoding.DecodeString(parts[4])
	want, err4 := base64.RawStdEncoding.DecodeString(parts[5])
	if err := errors.Join(err1, err2, err3, err4); err != nil || version != argon2.Version || c.time == 0 || c.threads == 0 ||
		c.memory > 1<<20 || len(want) == 0 {
		return false, errors.New("the kept password has a form that this version does not know")
	}
	if err := us.acquireSlot(ctx); err != nil {
		return false, err
	}
	defer us.releaseSlot()
	got := argon2.IDKey([]byte(password), salt, c.time, c.memory, c.threads, uint32(len(want)))
	return subtle.ConstantTimeCompare(got, want) == 1, nil
}

func (us *Users) acquireSlot(ctx context.Context) error {
	select {
	case us.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (us *Users) releaseSlot() { <-us.slots }

// requireRow returns an error if no row was changed.
func requireRow(r sql.Result, err, missing error) error {
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, missing)
	}
	return nil
}

func parseList(text string) (out []string, err error) {
	if text != "" {
		err = json.Unmarshal([]byte(text), &out)
	}
	return out, err
}

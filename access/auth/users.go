// Package auth authenticates the senders of requests to a server and assigns their roles:
// people with passwords, programs and agents with tokens, browsers with sessions. It also
// keeps the audit log.
//
// Everything is in one SQLite file, apart from the catalogue, which can be dropped.
// Passwords are stored as argon2id (RFC 9106) with the parameters that OWASP's cheat
// sheet recommends; tokens and sessions, which are long and random, as SHA-256. A secret
// is shown once and never again. No error, log line or metric holds a secret.
//
// A Users is safe for concurrent use, also by several processes: `reckon user` and
// `reckon token` change the file of a running server.
package auth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/sys/unix"
	"modernc.org/sqlite"

	"reckon/access"
	"reckon/internal/durable"
	"reckon/internal/durable/sqlitelog"
)

// File is the name of the file in the directory of a server.
const File = "access.db"

// Errors of a check, for errors.Is. They do not reveal to a sender which names exist.
var (
	ErrRefused = errors.New("the name or the password is wrong")
	ErrToken   = errors.New("the token is unknown, revoked or expired")
	ErrSession = errors.New("the session has ended; sign in again")
	ErrExists  = errors.New("exists already")
	ErrUnknown = errors.New("is not known")
	ErrSlow    = errors.New("too many failed attempts")
)

// schema creates the missing tables. It is version 1, which is stored as user_version in the file.
const schema = `
CREATE TABLE IF NOT EXISTS users (
	name TEXT NOT NULL PRIMARY KEY, role TEXT NOT NULL, owners TEXT NOT NULL, password TEXT NOT NULL, created_ms BIGINT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tokens (
	id TEXT NOT NULL PRIMARY KEY, hash BLOB NOT NULL, note TEXT NOT NULL, kind TEXT NOT NULL, role TEXT NOT NULL, name TEXT NOT NULL,
	owners TEXT NOT NULL, site TEXT NOT NULL, nodes TEXT NOT NULL, created_ms BIGINT NOT NULL, expires_ms BIGINT NOT NULL, used_ms BIGINT NOT NULL, revoked_ms BIGINT NOT NULL,
	bound TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sessions (
	hash BLOB NOT NULL PRIMARY KEY, role TEXT NOT NULL, name TEXT NOT NULL, owners TEXT NOT NULL, local INTEGER NOT NULL, created_ms BIGINT NOT NULL, seen_ms BIGINT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS audit (
	key INTEGER PRIMARY KEY, at_ms BIGINT NOT NULL, viewer TEXT NOT NULL, role TEXT NOT NULL, action TEXT NOT NULL, object TEXT NOT NULL, owner TEXT NOT NULL, source TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS audit_at ON audit (at_ms);
CREATE INDEX IF NOT EXISTS audit_owner ON audit (owner, at_ms);
`

// Users keeps users, tokens, sessions and the audit log.
type Users struct {
	file   string // empty if they are in PostgreSQL
	db     *sql.DB
	clock  func() time.Time
	cost   hashCost
	slots  chan struct{} // argon2 takes memory: a few at a time
	guard  throttle
	checks singleflight.Group // one check for the same name, password and address

	settling sync.Mutex // one process settles the file once at a time

	mu    sync.Mutex
	known map[[32]byte]verifiedPassword // recently verified passwords
	used  map[string]int64              // when the last use of a token was recorded
}

// Options configure a Users; the zero value is right outside of tests.
type Options struct {
	Clock func() time.Time
	// Fast makes passwords cheap to check, for tests.
	Fast bool
	// Logger receives faults of the file that do not prevent opening it; nil discards them.
	Logger *slog.Logger
}

// Open opens or creates the file in a directory.
func Open(dir string, o Options) (*Users, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, File)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	pages := durable.NewPages(file)
	if err := pages.Check(o.Logger); err != nil {
		return nil, damagedFile(file, err)
	}
	// Users and tokens are in the file itself: see checkpoint.
	if err := sqlitelog.Report(file, pages.LeftOpen,
		"No user and no token is lost; sign-ins, entries of the audit log and when tokens were used last may be", o.Logger); err != nil {
		return nil, fmt.Errorf("open the file of users and tokens: %w", err)
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the file of users and tokens: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	q := url.Values{"_txlock": {"immediate"}}
	for _, p := range []string{"busy_timeout(10000)", "journal_mode(WAL)", "wal_autocheckpoint(0)", "synchronous(FULL)",
		"secure_delete(1)"} {
		q.Add("_pragma", p)
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", file, err)
	}
	db.SetMaxOpenConns(4)
	if err := readWholeFile(db); err != nil {
		return nil, errors.Join(damagedFile(file, err), db.Close())
	}
	if _, err := db.ExecContext(context.Background(), schema); err != nil {
		return nil, errors.Join(damagedFile(file, err), db.Close())
	}
	if err := checkVersion(db); err != nil {
		return nil, errors.Join(damagedFile(file, err), db.Close())
	}
	us := newUsers(db, file, o)
	us.checkpoint(context.Background())
	chownToFolderOwner(file)
	return us, nil
}

// minPersonUID is the lowest id of a person's account (login.defs, UID_MIN).
const minPersonUID = 1000

// chownToFolderOwner changes the owner of files that root created in a server's directory to the owner of that directory.
// Otherwise `reckon user add` as root would leave files that the server cannot open. It skips directories of personal
// accounts and paths through a symbolic link, because a person could choose where they lead.
func chownToFolderOwner(file string) {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil || os.Geteuid() != 0 {
		return
	}
	var at, st unix.Stat_t
	if real, err := filepath.EvalSymlinks(dir); err != nil || real != dir || unix.Lstat(dir, &at) != nil || at.Uid == 0 ||
		at.Uid >= minPersonUID {
		return
	}
	for _, suffix := range []string{"", "-wal", "-shm", ".closed"} {
		name := filepath.Join(dir, filepath.Base(file)+suffix)
		if unix.Lstat(name, &st) == nil && st.Uid == 0 && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Nlink == 1 {
			_ = unix.Lchown(name, int(at.Uid), int(at.Gid)) // otherwise the server reports its owner at its start
		}
	}
}

// checkpoint moves changes from the database log into the database file and records the file's checksum. SQLite
// silently skips unreadable parts of its log, so a damaged log could lose a user or restore a revoked token. New
// sessions, uses of tokens and the audit log stay in the log until it is long; see execDeferred.
func (us *Users) checkpoint(ctx context.Context) {
	if us.file == "" {
		return
	}
	us.settling.Lock()
	defer us.settling.Unlock()
	_ = durable.NewPages(us.file).Change(nil, func() error { // without the note only damage goes undetected
		_, err := us.db.ExecContext(context.WithoutCancel(ctx), `PRAGMA wal_checkpoint(TRUNCATE)`)
		return err
	})
}

// checkpointSize is the size in bytes at which the database log is moved into the file. SQLite has the same default, but
// would not record the checksum of the file.
const checkpointSize = 4 << 20

// execDeferred executes a statement that need not reach the file at once.
func (us *Users) execDeferred(ctx context.Context, query string, args ...any) error {
	_, err := us.db.ExecContext(ctx, query, args...)
	if st, statErr := os.Stat(us.file + "-wal"); us.file != "" && statErr == nil && st.Size() >= checkpointSize {
		us.checkpoint(ctx)
	}
	return err
}

func newUsers(db *sql.DB, file string, o Options) *Users {
	us := &Users{file: file, db: db, clock: o.Clock, cost: owaspCost, slots: make(chan struct{}, 2), known: map[[32]byte]verifiedPassword{},
		used: map[string]int64{}}
	if us.clock == nil {
		us.clock = time.Now
	}
	if o.Fast {
		us.cost = hashCost{time: 1, memory: 64, threads: 1}
	}
	return us
}

var errCorrupt = errors.New("fails the check of SQLite")

// readWholeFile reads the whole file, so that damage is noticed now and not when the data is needed.
func readWholeFile(db *sql.DB) error {
	var first string
	err := db.QueryRowContext(context.Background(), `PRAGMA quick_check(1)`).Scan(&first)
	if err == nil && first != "ok" {
		err = fmt.Errorf("%w: %s", errCorrupt, strings.TrimSpace(first))
	}
	return err
}

// damagedFile adds the remedy to the error of an unreadable file. The file is not replaced by an
// empty one, because without users anyone who reaches the server could make changes.
func damagedFile(file string, err error) error {
	var changed *durable.ChangedError
	var e *sqlite.Error
	// SQLITE_CORRUPT, SQLITE_NOTADB
	corrupt := errors.Is(err, errCorrupt) || errors.As(err, &e) && (e.Code()&0xff == 11 || e.Code()&0xff == 26)
	if !corrupt && !errors.As(err, &changed) {
		return fmt.Errorf("open %s: %w", file, err)
	}
	return fmt.Errorf(
		"the file of users and tokens, %s, is damaged: %w; restore it from a backup, or move it and %s away and create users and tokens "+
			"again with `reckon user add` and `reckon token add`",
		file, err, filepath.Base(file)+".closed")
}

// checkVersion returns an error if the file was written by another version of the schema. The program of commit
// ad0587d9 (2026-11-26) wrote version 1 without its number.
func checkVersion(db *sql.DB) error {
	ctx := context.Background()
	var version, bound int
	err := db.QueryRowContext(ctx, `SELECT (SELECT user_version FROM pragma_user_version),
		(SELECT count(*) FROM pragma_table_info('tokens') WHERE name = 'bound')`).Scan(&version, &bound)
	switch {
	case err != nil || version == 1:
		return err
	case version > 1:
		return fmt.Errorf("its version %d is newer than 1, the newest that this program reads; install the newer reckon again", version)
	case bound == 0:
		return errors.New("it is older than version 1, the oldest that this program reads; " +
			"open it once with the last program that knows it (reckon of commit ad0587d9), or restore a newer backup")
	}
	_, err = db.ExecContext(ctx, `PRAGMA user_version = 1`)
	return err
}

// Close closes the file.
func (us *Users) Close() error {
	if err := us.db.Close(); err != nil || us.file == "" {
		return err
	}
	_ = durable.NewPages(us.file).NoteClosed() // without the note only damage goes undetected
	chownToFolderOwner(us.file)
	return nil
}

// Empty reports whether there are neither users nor tokens, so that no sign-in is possible.
func (us *Users) Empty(ctx context.Context) (bool, error) {
	var n int
	err := us.db.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM users) + (SELECT count(*) FROM tokens WHERE revoked_ms = 0)`).Scan(&n)
	return n == 0, err
}

// HasAdmin reports whether there is an admin. Without one, a server that is reachable from outside
// could not be managed.
func (us *Users) HasAdmin(ctx context.Context) (bool, error) {
	var n int
	err := us.db.QueryRowContext(ctx,
		`SELECT (SELECT count(*) FROM users WHERE role = 'admin') +`+
			` (SELECT count(*) FROM tokens WHERE role = 'admin' AND revoked_ms = 0)`).Scan(&n)
	return n > 0, err
}

// viewerFromRow builds a viewer from its stored fields.
func viewerFromRow(role, name, owners string) (access.Viewer, error) {
	r, err := access.ParseRole(role)
	if err != nil {
		return access.Viewer{}, err
	}
	list, err := parseList(owners)
	return access.Viewer{Role: r, Name: name, Owners: list}, err
}

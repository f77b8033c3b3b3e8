// Package cluster lets several servers work over one store of series and one catalogue in
// PostgreSQL. All receive samples and answer queries. One of them is the leader: it builds the
// catalogue and the roll-ups, evaluates rules, sends alerts and looks for misuse.
//
// The leader is stored in one row of the database, a lease with an epoch. The leader renews it by
// the clock of the database. When it has expired, another member acquires it and increments the
// epoch, under the advisory lock that every write of the catalogue holds. A write of the leader
// checks the epoch in its own transaction ([Lease.Fence]), so that a leader that was stopped, cut
// off or slow writes nothing once another leads. Data outside the database (samples of rules,
// notifications) is written only while [Lease.Leads]. It uses the leader's own clock and ends
// before the lease expires.
//
// Types are safe for concurrent use.
package cluster

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// schema only adds tables. The row of members_lead always exists.
const schema = `
CREATE TABLE IF NOT EXISTS members_lead (one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1), epoch BIGINT NOT NULL, member TEXT NOT NULL, address TEXT NOT NULL, until TIMESTAMPTZ NOT NULL);
INSERT INTO members_lead (one, epoch, member, address, until) VALUES (1, 0, '', '', 'epoch') ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS members (member TEXT NOT NULL PRIMARY KEY, address TEXT NOT NULL, version TEXT NOT NULL, since TIMESTAMPTZ NOT NULL, seen TIMESTAMPTZ NOT NULL);
CREATE TABLE IF NOT EXISTS members_files (name TEXT NOT NULL PRIMARY KEY, body BYTEA NOT NULL);
CREATE SEQUENCE IF NOT EXISTS members_late_mark;
CREATE TABLE IF NOT EXISTS members_late (hour_ms BIGINT NOT NULL, imported BOOLEAN NOT NULL, oldest_ms BIGINT NOT NULL, mark BIGINT NOT NULL, noted TIMESTAMPTZ NOT NULL, PRIMARY KEY (hour_ms, imported));
CREATE TABLE IF NOT EXISTS members_senders (site TEXT NOT NULL, node TEXT NOT NULL, agent TEXT NOT NULL, machine TEXT NOT NULL, boot TEXT NOT NULL, address TEXT NOT NULL,
	since TIMESTAMPTZ NOT NULL, seen TIMESTAMPTZ NOT NULL, skew_ms BIGINT NOT NULL, member TEXT NOT NULL, PRIMARY KEY (site, node));
`

// lockWriters acquires the lock that writers of the catalogue hold until their commit (catalogue/database).
const lockWriters = `SELECT pg_advisory_xact_lock(7231406)`

// createTables makes the tables.
func createTables(ctx context.Context, db *sql.DB) error {
	return inTx(ctx, db, 10*time.Second, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, schema)
		return err
	})
}

// inTx runs f as the only writer. It waits for other writers up to wait.
func inTx(ctx context.Context, db *sql.DB, wait time.Duration, f func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d; %s", wait.Milliseconds(), lockWriters)); err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// CheckAddress returns an error if the address cannot be used by other members.
func CheckAddress(address string) error {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		strings.Trim(u.Path, "/") != "" {
		return fmt.Errorf("the address of a member, %q, is none that others reach; write it like https://HOST:9870", address)
	}
	return nil
}

package auth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// sharedSchema returns the schema for PostgreSQL.
func sharedSchema() string {
	return strings.NewReplacer(" WITHOUT ROWID", "", "BLOB", "BYTEA", "key INTEGER PRIMARY KEY",
		"key BIGSERIAL PRIMARY KEY").Replace(schema)
}

// OpenShared opens users and tokens in a PostgreSQL database that several servers share. Close also
// closes the database.
func OpenShared(ctx context.Context, db *sql.DB, o Options) (*Users, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	// Creating the same table concurrently fails.
	if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(7231407);"+sharedSchema()); err != nil {
		return nil, fmt.Errorf("make the tables of users and tokens: %w", err)
	}
	if err := tx.Commit(); err != nil {
		return nil, err
	}
	return newUsers(db, "", o), nil
}

// tables are the tables that [Users.Adopt] copies, with their columns.
var tables = map[string]string{
	"users":  "name, role, owners, password, created_ms",
	"tokens": tokenColumns,
	"audit":  "at_ms, viewer, role, action, object, owner, source",
}

// Adopt copies users, tokens and the audit log from another store and returns true. If this store already has users or
// tokens, Adopt copies nothing and returns false. Sessions are not copied.
func (us *Users) Adopt(ctx context.Context, from *Users) (bool, error) {
	tx, err := us.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	if us.file == "" {
		if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(7231407)"); err != nil {
			return false, err
		}
	}
	var n int
	if err := tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM users) + (SELECT count(*) FROM tokens)`).Scan(&n); err != nil || n > 0 {
		return false, err
	}
	for table, columns := range tables {
		if err := us.copyTable(ctx, tx, from.db, table, columns); err != nil {
			return false, fmt.Errorf("copy the %s: %w", table, err)
		}
	}
	return true, tx.Commit()
}

func (us *Users) copyTable(ctx context.Context, tx *sql.Tx, from *sql.DB, table, columns string) (err error) {
	rows, err := from.QueryContext(ctx, "SELECT "+columns+" FROM "+table)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	width := strings.Count(columns, ",") + 1
	marks := make([]string, width)
	values, into := make([]any, width), make([]any, width)
	for i := range marks {
		marks[i], into[i] = fmt.Sprintf("$%d", i+1), &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i, v := range values {
			if s, ok := v.(string); ok {
				values[i] = us.storableText(s)
			}
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO "+table+" ("+columns+") VALUES ("+strings.Join(marks, ", ")+")",
			values...); err != nil {
			return err
		}
	}
	return rows.Err()
}

// storableText returns the storable form of external text. PostgreSQL accepts neither zero bytes nor invalid UTF-8.
func (us *Users) storableText(s string) string {
	if us.file != "" {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

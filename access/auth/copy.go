package auth

import (
	"context"
	"fmt"
	"strings"

	"reckon/internal/durable"
)

// Snapshot writes a consistent copy of the file of users, tokens and the audit log into a new
// file, while it is in use. For users in PostgreSQL it writes nothing: the database has its own
// backups.
func (us *Users) Snapshot(ctx context.Context, file string) error {
	if us.file == "" {
		return nil
	}
	if _, err := us.db.ExecContext(ctx, "VACUUM INTO '"+strings.ReplaceAll(file, "'", "''")+"'"); err != nil {
		return fmt.Errorf("copy the users and tokens to %s: %w", file, err)
	}
	return durable.NewPages(file).NoteClosed()
}

package auth

import (
	"context"
	"fmt"
	"strings"

	"reckon/internal/durable"
)

// Snapshot writes a consistent copy of users, tokens and the audit log to a new file while they are
// in use. For PostgreSQL it writes nothing, because the database has its own backups.
func (us *Users) Snapshot(ctx context.Context, file string) error {
	if us.file == "" {
		return nil
	}
	if _, err := us.db.ExecContext(ctx, "VACUUM INTO '"+strings.ReplaceAll(file, "'", "''")+"'"); err != nil {
		return fmt.Errorf("copy the users and tokens to %s: %w", file, err)
	}
	return durable.NewPages(file).NoteClosed()
}

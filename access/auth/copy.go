package auth

import (
	"context"
	"fmt"
	"strings"
)

// Snapshot writes a whole copy of the file of users, tokens and the audit log into a new
// file, as of one moment, while it is in use. Those in PostgreSQL are its own to copy: nothing is
// written.
func (us *Users) Snapshot(ctx context.Context, file string) error {
	if us.file == "" {
		return nil
	}
	if _, err := us.db.ExecContext(ctx, "VACUUM INTO '"+strings.ReplaceAll(file, "'", "''")+"'"); err != nil {
		return fmt.Errorf("copy the users and tokens to %s: %w", file, err)
	}
	return nil
}

package auth_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"reckon/access"
	"reckon/access/auth"
)

// TestOtherVersions opens the file of the program before version 1, which wrote no number, an older and a newer one.
func TestOtherVersions(t *testing.T) {
	for name, c := range map[string]struct{ change, want string }{
		"without a number": {`PRAGMA user_version = 0`, ""},
		"older":            {`PRAGMA user_version = 0; ALTER TABLE tokens DROP COLUMN bound`, "older than version 1, the oldest that this program reads; open it once with"},
		"newer":            {`PRAGMA user_version = 2`, "version 2 is newer than 1"},
	} {
		k, _, dir := open(t)
		text, err := k.AddToken(t.Context(), auth.Token{Kind: auth.Agent, Bound: access.Bound{Series: 7, SamplesPerSecond: -1}})
		must(t, err)
		must(t, k.Close())
		file := filepath.Join(dir, auth.File)
		db, err := sql.Open("sqlite", file)
		must(t, err)
		_, err = db.ExecContext(t.Context(), c.change)
		must(t, err)
		must(t, db.Close())
		for range 2 {
			k, err := auth.Open(dir, auth.Options{Fast: true})
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file) {
					t.Errorf("%s: %v, want %q", name, err, c.want)
				}
				continue
			}
			must(t, err)
			if v, err := k.CheckToken(t.Context(), text); err != nil || v.Bound != (access.Bound{Series: 7, SamplesPerSecond: -1}) {
				t.Errorf("%s: %+v, %v", name, v.Bound, err)
			}
			must(t, k.Close())
		}
	}
}

package auth_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"reckon/access"
	"reckon/access/auth"
)

// TestEarlierFile opens a file from before tokens had limits.
func TestEarlierFile(t *testing.T) {
	k, _, dir := open(t)
	text, err := k.AddToken(t.Context(), auth.Token{Kind: auth.Agent})
	must(t, err)
	must(t, k.Close())
	db, err := sql.Open("sqlite", filepath.Join(dir, auth.File))
	must(t, err)
	_, err = db.ExecContext(t.Context(), `ALTER TABLE tokens DROP COLUMN bound`)
	must(t, err)
	must(t, db.Close())
	for range 2 {
		k, err := auth.Open(dir, auth.Options{Fast: true})
		must(t, err)
		if _, err := k.CheckToken(t.Context(), text); err != nil {
			t.Error(err)
		}
		bounded, err := k.AddToken(t.Context(), auth.Token{Kind: auth.Agent, Bound: access.Bound{Series: 7, SamplesPerSecond: -1}})
		must(t, err)
		if v, err := k.CheckToken(t.Context(), bounded); err != nil || v.Bound != (access.Bound{Series: 7, SamplesPerSecond: -1}) {
			t.Errorf("%+v, %v", v.Bound, err)
		}
		must(t, k.Close())
	}
}

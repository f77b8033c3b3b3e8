package auth_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reckon/access"
	"reckon/access/auth"
)

// A damaged or missing file is refused with its name and the remedy, and not replaced by
// one without users.
func TestDamagedFile(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(path string, raw []byte) error
	}{
		{"the header", func(p string, raw []byte) error { raw[3] ^= 1; return os.WriteFile(p, raw, 0o600) }},
		{"a byte in the middle", func(p string, raw []byte) error { raw[len(raw)/2] ^= 1; return os.WriteFile(p, raw, 0o600) }},
		{"cut off", func(p string, raw []byte) error { return os.WriteFile(p, raw[:len(raw)/2], 0o600) }},
		{"missing", func(p string, _ []byte) error { return os.Remove(p) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			open := func() (*auth.Users, error) { return auth.Open(dir, auth.Options{Fast: true}) }
			us, err := open()
			must(t, err)
			must(t, us.AddUser(t.Context(), auth.User{Name: "alice", Role: access.User}, good))
			must(t, us.Close())
			path := filepath.Join(dir, auth.File)
			raw, err := os.ReadFile(path)
			st, statErr := os.Stat(path)
			must(t, errors.Join(err, statErr, c.do(path, raw)))
			if c.name != "missing" {
				must(t, os.Chtimes(path, st.ModTime(), st.ModTime())) // a disk that loses data does not change the time
			}
			if us, err = open(); err == nil {
				us.Close()
				t.Fatal("it was opened")
			}
			for _, want := range []string{path, "backup", "reckon user add"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
			if c.name == "missing" {
				if _, err := os.Stat(path); err == nil {
					t.Error("an empty one was made")
				}
			}
		})
	}
}

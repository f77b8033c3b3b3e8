package auth_test

import (
	"bytes"
	"errors"
	"log/slog"
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

// TestDamageAfterKill: users and tokens are safe once they are made. After a kill nobody loses them with the
// log that SQLite keeps beside the file, and a damaged file is noticed as after an orderly end.
func TestDamageAfterKill(t *testing.T) {
	dir := t.TempDir()
	us, err := auth.Open(dir, auth.Options{Fast: true})
	must(t, err)
	t.Cleanup(func() { _ = us.Close() })
	must(t, us.AddUser(t.Context(), auth.User{Name: "alice", Role: access.Admin}, good))
	must(t, us.AddUser(t.Context(), auth.User{Name: "bob", Role: access.User}, good))
	must(t, us.RemoveUser(t.Context(), "bob"))
	path := filepath.Join(dir, auth.File)
	written, err := os.Stat(path)
	must(t, err)
	for range 2000 { // until the audit log is in the file too
		must(t, us.Audit(t.Context(), access.Viewer{Role: access.Admin, Name: "alice"}, "query", strings.Repeat("x", 2000), "bob", ""))
		st, err := os.Stat(path)
		must(t, err)
		if !st.ModTime().Equal(written.ModTime()) {
			written = nil
			break
		}
	}
	if written != nil {
		t.Fatal("the log of the database is not copied into the file")
	}
	for range 9 { // in the log only
		must(t, us.Audit(t.Context(), access.Viewer{Role: access.Admin, Name: "alice"}, "query", "entry", "bob", ""))
	}
	for _, c := range []struct {
		name    string
		do      func(path string) error
		refused bool
		says    string // in the log
	}{
		{"nothing", func(string) error { return nil }, false, ""},
		{"the log is missing", func(p string) error { return errors.Join(os.RemoveAll(p+"-wal"), os.RemoveAll(p+"-shm")) }, false, "it is missing"},
		{"a bit of an entry of the audit log", func(p string) error {
			raw, err := os.ReadFile(p + "-wal")
			if err == nil {
				raw[bytes.Index(raw, []byte("entry"))] ^= 1
				err = os.WriteFile(p+"-wal", raw, 0o600)
			}
			return err
		}, false, "a frame fails its checksum"},
		{"a bit of the file", func(p string) error {
			raw, err := os.ReadFile(p)
			st, statErr := os.Stat(p)
			if err := errors.Join(err, statErr); err != nil {
				return err
			}
			raw[len(raw)/2] ^= 1
			return errors.Join(os.WriteFile(p, raw, 0o600), os.Chtimes(p, st.ModTime(), st.ModTime()))
		}, true, ""},
		{"the file is missing", os.Remove, true, ""},
		{"the file is empty", func(p string) error { return os.Truncate(p, 0) }, true, ""},
		{"half of the file is zeros, written later", func(p string) error {
			st, err := os.Stat(p)
			if err == nil {
				err = errors.Join(os.Truncate(p, st.Size()/2), os.Truncate(p, st.Size()))
			}
			return err
		}, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			killed := killedCopy(t, dir)
			must(t, c.do(filepath.Join(killed, auth.File)))
			var log bytes.Buffer
			again, err := auth.Open(killed, auth.Options{Fast: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err == nil {
				defer again.Close()
			}
			if (c.says == "") != (log.Len() == 0) || !strings.Contains(log.String(), c.says) || c.says != "" && !strings.Contains(log.String(), auth.File+"-wal") {
				t.Errorf("the log has %q, want %q", &log, c.says)
			}
			if c.refused {
				if err == nil || !strings.Contains(err.Error(), "reckon user add") {
					t.Fatalf("it is not refused: %v", err)
				}
				return
			}
			must(t, err)
			list, err := again.List(t.Context())
			if err != nil || len(list) != 1 || list[0].Name != "alice" {
				t.Errorf("users %v, %v", list, err)
			}
		})
	}
}

// A session that was ended stays so, also if the log that SQLite keeps is lost after a kill.
func TestEndedSessionAfterKill(t *testing.T) {
	dir := t.TempDir()
	us, err := auth.Open(dir, auth.Options{Fast: true})
	must(t, err)
	t.Cleanup(func() { _ = us.Close() })
	session, err := us.NewSession(t.Context(), access.Viewer{Role: access.User, Name: "alice"}, false)
	must(t, err)
	must(t, us.AddUser(t.Context(), auth.User{Name: "bob", Role: access.User}, good)) // which moves the session into the file
	must(t, us.EndSession(t.Context(), session))
	killed := killedCopy(t, dir)
	must(t, errors.Join(os.RemoveAll(filepath.Join(killed, auth.File+"-wal")), os.RemoveAll(filepath.Join(killed, auth.File+"-shm"))))
	again, err := auth.Open(killed, auth.Options{Fast: true})
	must(t, err)
	defer again.Close()
	if v, err := again.CheckSession(t.Context(), session); !errors.Is(err, auth.ErrSession) {
		t.Errorf("it is valid for %v, %v", v, err)
	}
}

// killedCopy copies a directory in use. A kill leaves the present content of the disk.
func killedCopy(t *testing.T, dir string) string {
	t.Helper()
	killed := t.TempDir()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		st, statErr := e.Info()
		must(t, errors.Join(err, statErr))
		to := filepath.Join(killed, e.Name())
		must(t, errors.Join(os.WriteFile(to, raw, 0o600), os.Chtimes(to, st.ModTime(), st.ModTime())))
	}
	return killed
}

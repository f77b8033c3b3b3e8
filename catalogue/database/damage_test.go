package database

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// SQLite does not detect a changed byte of a row. The file is moved aside all the same,
// and a missing one is reported.
func TestChangedWhileClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalogue.db")
	var log bytes.Buffer
	reopen := func() {
		t.Helper()
		c, err := Open(path, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	reopen()
	reopen()
	if log.Len() > 0 {
		t.Fatalf("nothing happened, and it says %s", &log)
	}
	raw, err := os.ReadFile(path)
	st, statErr := os.Stat(path)
	if err := errors.Join(err, statErr); err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndexByte(raw, 'x') // in the text of a table
	raw[at] = 'y'
	if err := errors.Join(os.WriteFile(path, raw, 0o600), os.Chtimes(path, st.ModTime(), st.ModTime())); err != nil {
		t.Fatal(err)
	}
	reopen()
	kept, err := filepath.Glob(path + ".corrupt-*")
	if err != nil || len(kept) != 1 || !strings.Contains(log.String(), "moved aside") {
		t.Errorf("kept %v, %v, log %s", kept, err, &log)
	}
	log.Reset()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	reopen()
	if !strings.Contains(log.String(), "is missing") {
		t.Errorf("log %s", &log)
	}
	log.Reset()
	reopen()
	if log.Len() > 0 {
		t.Errorf("it goes on: %s", &log)
	}
}

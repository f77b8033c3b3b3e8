package durable

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var nowhere = slog.New(slog.DiscardHandler)

func TestCheck(t *testing.T) {
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	write := func(path, text string, at time.Time) error {
		return errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, at, at))
	}
	for _, c := range []struct {
		name string
		do   func(path string) error
		want string // empty: nothing is detected
		says string // in the log
	}{
		{"nothing happened", func(string) error { return nil }, "", ""},
		{"a bit was flipped", func(p string) error { return write(p, "something elsf", at) }, "fails its checksum", ""},
		{"it was cut off", func(p string) error { return write(p, "some", at) }, "has 4 bytes and had 14", ""},
		{"it is missing", os.Remove, "is missing", ""},
		{"somebody wrote to it", func(p string) error { return write(p, "something new", at.Add(time.Minute)) }, "", ""},
		{"the note is damaged", func(p string) error { return os.Truncate(p+closedSuffix, 20) }, "", "cut off"},
		{"the note is gone", ForgetClosed, "", "no such file"},
		{"the note is gone twice", func(p string) error { return errors.Join(ForgetClosed(p), ForgetClosed(p)) }, "", "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			if err := errors.Join(write(path, "something else", at), NewPages(path).NoteClosed(), NewPages(path).Check(nowhere), c.do(path)); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			err := NewPages(path).Check(slog.New(slog.NewTextHandler(&log, nil)))
			var changed *ChangedError
			if (c.want == "") != (err == nil) || (err != nil && (!errors.As(err, &changed) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path))) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if (c.says == "") != (log.Len() == 0) || !strings.Contains(log.String(), c.says) || log.Len() > 0 && !strings.Contains(log.String(), path+closedSuffix) {
				t.Errorf("the log has %q, want %q", &log, c.says)
			}
		})
	}
	if err := NewPages(filepath.Join(t.TempDir(), "none")).NoteClosed(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

package server

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reckon/transport/limits"
)

// TestWatchLimits: a file that changes is in force, one that became wrong is stated once and
// leaves what was right, and a signal asks again.
func TestWatchLimits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "limits.yml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("senders: {series: 1}")
	c, text, err := readLimits(file)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s := &Server{config: Config{Access: Access{Limits: file}}, limits: limits.New(c, nil, nil), limitsText: text, log: slog.New(slog.NewTextHandler(&log, nil))}
	f := limitsFile{s: s, text: text, seen: text}
	look := func(asked bool) {
		f.reload(asked)
		f.reload(false) // a change is taken when it is seen twice
	}
	now := func() limits.Bound { return s.limits.Config().Senders }
	look(false)
	if now().Series != 1 || log.Len() != 0 {
		t.Errorf("nothing changed: %+v\n%s", now(), log.String())
	}
	write("senders: {series: 2}")
	look(false)
	if now().Series != 2 || !strings.Contains(log.String(), "the limits changed and are in force") {
		t.Errorf("changed: %+v\n%s", now(), log.String())
	}
	write("senders: {}") // as if somebody were still writing
	f.reload(false)
	write("senders: {series: 2}")
	look(false)
	if n := strings.Count(log.String(), "are in force"); now().Series != 2 || n != 1 {
		t.Errorf("half written: %+v, said %d times\n%s", now(), n, log.String())
	}
	write("senders: {sreies: 3}")
	look(false)
	look(false)
	if n := strings.Count(log.String(), "became wrong"); now().Series != 2 || n != 1 || !strings.Contains(log.String(), "field sreies not found") {
		t.Errorf("wrong: %+v, said %d times\n%s", now(), n, log.String())
	}
	look(true)
	if n := strings.Count(log.String(), "became wrong"); n != 2 {
		t.Errorf("a signal has it said again: %d times", n)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	look(false)
	if now().Series != 2 || !strings.Contains(log.String(), "no such file") {
		t.Errorf("gone: %+v\n%s", now(), log.String())
	}
	write("senders: {series: 4}")
	look(true)
	if now().Series != 4 {
		t.Errorf("right again: %+v", now())
	}
}

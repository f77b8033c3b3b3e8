package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reckon/agent"
)

// Too few descriptors are reported before anything is opened, once, with the number that is needed.
func TestFileLimit(t *testing.T) {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	for i := range 10 {
		if err := os.MkdirAll(filepath.Join(data, seriesDir, fmt.Sprintf("01ARZ3NDEKTSV4RRFFQ69G5FA%d", i)), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		limit   uint64
		agent   *agent.Config
		refused string
		warned  bool
	}{
		{93, nil, "may open 93 files, and with 10 blocks of series it needs 286", false},
		{94, nil, "", true},
		{285, nil, "", true},
		{286, nil, "", false},
		{93 + agent.LeastFiles, new(agent.Config), "it needs 446", false},
		{286 + agent.UsualFiles, new(agent.Config), "", false},
	} {
		var log bytes.Buffer
		s := &Server{config: Config{Data: data, Agent: c.agent}, log: slog.New(slog.NewTextHandler(&log, nil))}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: c.limit, Max: was.Max}); err != nil {
			t.Fatal(err)
		}
		err := s.checkFileLimit()
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
		if (err != nil) != (c.refused != "") || (err != nil && !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("limit %d: %v", c.limit, err)
		}
		if warned := strings.Contains(log.String(), "needed=286"); warned != c.warned {
			t.Errorf("limit %d: %s", c.limit, &log)
		}
	}
}

// An error of the data directory reports the remedy; one of another file does not name the directory.
func TestExplain(t *testing.T) {
	c := &Config{Data: "data"}
	for _, tt := range []struct {
		path string
		err  error
		want string
	}{
		{"data/series/lock", unix.EACCES, "must belong to the user"},
		{"data", unix.EACCES, ""}, // it could not be made
		{"data/series/lock", unix.EROFS, "mount it for writing"},
		{"data/access.db", unix.EMFILE, "ulimit -n"},
		{"database.yml", unix.EACCES, ""},
		{"data/access.db", unix.ENOENT, ""},
	} {
		plain := fmt.Errorf("open: %w", &os.PathError{Op: "open", Path: tt.path, Err: tt.err})
		got := c.explain(plain)
		if tt.want == "" && got != plain || !strings.Contains(got.Error(), tt.want) {
			t.Errorf("%s: %v", tt.path, got)
		}
	}
	if c.explain(nil) != nil {
		t.Error("an error out of nothing")
	}
}

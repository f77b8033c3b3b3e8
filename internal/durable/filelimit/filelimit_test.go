package filelimit

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCheck(t *testing.T) {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		limit   uint64
		refused string
		warned  bool
	}{
		{63, "may open 63 files, and it needs 256: raise the limit (ulimit -n 1024", false},
		{64, "", true},
		{255, "", true},
		{256, "", false},
	} {
		var log bytes.Buffer
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: c.limit, Max: was.Max}); err != nil {
			t.Fatal(err)
		}
		err := Check(Need{Least: 64, Usual: 256}, slog.New(slog.NewTextHandler(&log, nil)))
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
		if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("limit %d: %v", c.limit, err)
		}
		if strings.Contains(log.String(), "needed=256") != c.warned {
			t.Errorf("limit %d: %s", c.limit, &log)
		}
	}
}

func TestExceeded(t *testing.T) {
	if !Exceeded(fmt.Errorf("load: %w", &os.PathError{Op: "open", Path: "/proc/stat", Err: unix.EMFILE})) || Exceeded(fs.ErrNotExist) || Exceeded(nil) {
		t.Error("wrong")
	}
}

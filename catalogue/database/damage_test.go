package database

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"reckon/internal/durable"
	"reckon/internal/durable/sqlitelog"
	"reckon/store"
	"reckon/store/storetest"
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

const (
	killedRows   = 400
	killedWrites = 20 // transactions in the log; each writes its share of the rows again
)

// killed returns a directory as a kill leaves it: the first version of all rows is in the file, the second of
// all in the log.
func killed(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	c := openAt(t, filepath.Join(dir, "catalogue.db"), nil)
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Upsert(t.Context(), versionOf(0, killedRows, 1)); err != nil {
		t.Fatal(err)
	}
	c.write.Lock()
	c.settler.checkpoint(t.Context(), 0)
	c.write.Unlock()
	const share = killedRows / killedWrites
	for i := range killedWrites {
		if err := c.Upsert(t.Context(), versionOf(i*share, (i+1)*share, 2)); err != nil {
			t.Fatal(err)
		}
	}
	to := filepath.Join(t.TempDir(), "killed")
	copyDir(t, dir, to)
	return to
}

func versionOf(from, to, version int) (rows []store.Workload) {
	for i := from; i < to; i++ {
		w := storetest.Row(i)
		w.Reason = fmt.Sprintf("version %d", version)
		rows = append(rows, w)
	}
	return rows
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// reopen opens a catalogue and returns how many transactions of the log it has, -1 for no rows at all, and what is
// logged. Rows are as in one of the two versions, and as they were after one of the transactions.
func reopen(t *testing.T, path string) (writes int, log string) {
	t.Helper()
	var buf bytes.Buffer
	c := openAt(t, path, slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: slog.LevelWarn})))
	defer c.Close()
	rows, _, err := c.Workloads(context.WithoutCancel(t.Context()), store.Filter{})
	if err != nil {
		t.Fatalf("it is mute: %v", err)
	}
	if len(rows) == 0 {
		return -1, buf.String()
	}
	slices.SortFunc(rows, func(a, b store.Workload) int { return a.Start.Compare(b.Start) })
	for _, w := range rows {
		if w.Reason == "version 2" {
			writes++
		}
	}
	want := slices.Concat(versionOf(0, writes, 2), versionOf(writes, killedRows, 1))
	if len(rows) != len(want) || writes%(killedRows/killedWrites) != 0 {
		t.Fatalf("%d rows, %d of the second version", len(rows), writes)
	}
	for i := range want {
		got, gotErr := json.Marshal(rows[i])
		want, wantErr := json.Marshal(want[i])
		if err := errors.Join(gotErr, wantErr); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("row %d is another one, %v: %s, not %s", i, err, got, want)
		}
	}
	return writes / (killedRows / killedWrites), buf.String()
}

// TestRandomDamageAfterKill changes the files of a killed server at random. It is noticed, and no row is another one; but
// of the log the last transactions can be cut off, as by a power failure: then the catalogue is as it was before them,
// and the builder goes on from there.
func TestRandomDamageAfterKill(t *testing.T) {
	whole := killed(t)
	for seed := range storetest.Damages(t, os.Getenv(storetest.DamagesVariable), 40) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "catalogue")
			copyDir(t, whole, dir)
			path := filepath.Join(dir, "catalogue.db")
			d := storetest.DamageRandomFile(t, dir, seed)
			writes, log := reopen(t, path)
			switch reported := strings.Contains(log, path); {
			case d.File != "catalogue.db-wal" && !reported && d.Harmless() == "":
				t.Errorf("%s: nobody is notified", d)
			case d.File == "catalogue.db-wal" && !reported && !strings.HasPrefix(d.What, "cut") && writes < killedWrites-1:
				t.Errorf("%s: %d of %d transactions are left, and nobody is notified", d, writes, killedWrites)
			case (d.File == "catalogue.db-shm" || strings.HasSuffix(d.File, ".closed")) && writes != killedWrites:
				t.Errorf("%s: %d of %d transactions are left: %s", d, writes, killedWrites, log)
			default:
				t.Logf("%s: %d transactions are left, reported %v", d, writes, reported)
			}
		})
	}
}

// Each bit of the content of the file is noticed after a kill, and so is a missing part of the log, except its end.
func TestDamageAfterKill(t *testing.T) {
	whole := killed(t)
	flip := func(file, what string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, file)
			raw, err := os.ReadFile(path)
			st, statErr := os.Stat(path)
			at := bytes.Index(raw, []byte(what))
			if err := errors.Join(err, statErr); err != nil || at < 0 {
				t.Fatal(err, at)
			}
			raw[at] ^= 2
			if err := errors.Join(os.WriteFile(path, raw, 0o600), os.Chtimes(path, st.ModTime(), st.ModTime())); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(file string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name     string
		do       func(t *testing.T, dir string)
		writes   int
		reported []string
	}{
		{"nothing", func(*testing.T, string) {}, killedWrites, nil},
		{"a letter of a row", flip("catalogue.db", "version 1"), -1, []string{"catalogue.db fails its checksum", "reckon restore"}},
		{"a letter of a row in the log", flip("catalogue.db-wal", "version 2"), 0, []string{"catalogue.db-wal", "a frame fails its checksum", "from=2", "to=2", "kept=/"}},
		{"the header of the log", flip("catalogue.db-wal", "\x37\x7f"), 0, []string{"catalogue.db-wal", "its header fails its checksum"}},
		{"the log is missing", remove("catalogue.db-wal"), 0, []string{"catalogue.db-wal", "it is missing"}},
		{"the file is missing", remove("catalogue.db"), -1, []string{"the catalogue is missing", "reckon restore"}},
		{"the note is missing", remove("catalogue.db.closed"), killedWrites, []string{"catalogue.db.closed", "is not noticed this time"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "catalogue")
			copyDir(t, whole, dir)
			c.do(t, dir)
			writes, log := reopen(t, filepath.Join(dir, "catalogue.db"))
			if writes != c.writes || (log == "") != (len(c.reported) == 0) {
				t.Errorf("%d transactions are left, want %d; %s", writes, c.writes, log)
			}
			for _, want := range c.reported {
				if !strings.Contains(log, want) {
					t.Errorf("%q is not in %s", want, log)
				}
			}
			if _, log := reopen(t, filepath.Join(dir, "catalogue.db")); log != "" {
				t.Errorf("reported twice: %s", log)
			}
		})
	}
}

// Whatever is written, the note beside the file is right after each checkpoint, with readers that hold the log too; and
// nothing but the settler copies the log.
func TestSettle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalogue.db")
	c := openAt(t, path, nil)
	defer c.Close()
	settled := func() {
		t.Helper()
		c.write.Lock()
		defer c.write.Unlock()
		c.settler.checkpoint(t.Context(), 0)
		if err := durable.NewPages(path).Check(slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path + ".closed"); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		before, err := os.Stat(path)
		if err := errors.Join(err, c.Upsert(t.Context(), versionOf(0, 2000, i))); err != nil {
			t.Fatal(err)
		}
		rows, err := c.db.QueryContext(t.Context(), "SELECT key FROM workloads")
		if err != nil || !rows.Next() {
			t.Fatal(err)
		}
		if err := c.SetState(t.Context(), "x", bytes.Repeat([]byte{byte(i)}, 100_000)); err != nil {
			t.Fatal(err)
		}
		if settled(); sqlitelog.Size(path) == 0 {
			t.Error("a reader had no log to read any more")
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
		settled()
		after, err := os.Stat(path)
		if err != nil || after.ModTime().Equal(before.ModTime()) || sqlitelog.Size(path) != 0 {
			t.Errorf("%v, nothing was copied: %d bytes are in the log", err, sqlitelog.Size(path))
		}
	}
	if err := c.Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	settled()
	if err := c.Upsert(t.Context(), versionOf(0, 3000, 1)); err != nil {
		t.Fatal(err)
	}
	if n := sqlitelog.Size(path); n >= checkpointBytes {
		t.Errorf("the log has %d bytes", n)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	c.db.SetMaxIdleConns(0) // all connections of the pool are closed
	if err := c.SetState(t.Context(), "x", []byte{1}); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(path); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("the last connection made a checkpoint: %v", err)
	}
	if _, err := os.Stat(path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		t.Error("the log is gone")
	}
}

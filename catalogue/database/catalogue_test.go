package database

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reckon/store"
	"reckon/store/storetest"
)

func openAt(tb testing.TB, path string, log *slog.Logger) *Catalogue {
	tb.Helper()
	c, err := Open(path, log)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func TestConformance(t *testing.T) {
	storetest.Facts(t, func(tb testing.TB) store.Facts {
		return openAt(tb, filepath.Join(tb.TempDir(), "a dir?", "catalogue#1.db"), nil)
	})
}

// Other users of the machine must not read who ran what, nor in a file that they could read before.
func TestOthersMayNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	for _, before := range []fs.FileMode{0, 0o644, 0o600} {
		if before != 0 {
			if err := os.Chmod(path, before); err != nil {
				t.Fatal(err)
			}
		}
		c := openAt(t, path, nil)
		for _, file := range []string{path, path + "-wal"} {
			st, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			if st.Mode().Perm()&0o007 != 0 || st.Mode().Perm()&0o600 != 0o600 {
				t.Errorf("%s of %v before: mode %v", filepath.Base(file), before, st.Mode())
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRowsSurviveReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	c := openAt(t, path, nil)
	if err := c.Upsert(t.Context(), []store.Workload{storetest.Row(1)}); err != nil {
		t.Fatal(err)
	}
	if err := c.SetState(t.Context(), "builder", []byte("abc")); err != nil {
		t.Fatal(err)
	}
	// Not closed: as after a kill, with the log of SQLite beside the file.
	d := openAt(t, path, nil)
	defer d.Close()
	if _, n, err := d.Workloads(t.Context(), store.Filter{}); n != 1 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
	if raw, err := d.State(t.Context(), "builder"); string(raw) != "abc" || err != nil {
		t.Errorf("state %q, %v", raw, err)
	}
	c.Close()
}

func TestDamagedFileIsMovedAside(t *testing.T) {
	for _, damage := range []struct {
		name string
		do   func(t *testing.T, raw []byte) []byte
	}{
		{"not a database", func(_ *testing.T, _ []byte) []byte { return []byte(strings.Repeat("junk", 5000)) }},
		{"cut in the middle", func(_ *testing.T, raw []byte) []byte { return raw[:len(raw)/2/4096*4096] }},
		{"pages overwritten", func(_ *testing.T, raw []byte) []byte {
			for i := 3 * 4096; i < 8*4096; i++ {
				raw[i] = 0xa5
			}
			return raw
		}},
	} {
		t.Run(damage.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "c.db")
			c := openAt(t, path, nil)
			var rows []store.Workload
			for i := range 200 {
				rows = append(rows, storetest.Row(i))
			}
			if err := c.Upsert(t.Context(), rows); err != nil {
				t.Fatal(err)
			}
			c.Close()
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage.do(t, raw), 0o600); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			c = openAt(t, path, slog.New(slog.NewTextHandler(&log, nil)))
			defer c.Close()
			if w, err := c.Watermark(t.Context()); err != nil || !w.IsZero() {
				t.Errorf("watermark %s, %v; want zero, so that it is built again", w, err)
			}
			if kept, _ := filepath.Glob(path + ".corrupt-*"); len(kept) == 0 {
				t.Error("damaged file was not kept")
			}
			if !strings.Contains(log.String(), "moved aside") {
				t.Errorf("nothing said: %s", &log)
			}
			if err := c.Upsert(t.Context(), rows); err != nil {
				t.Error(err)
			}
		})
	}
}

// A database that the program before version 1 left has the numbers of its migrations; others are refused and left alone.
func TestNumberOfTheSchema(t *testing.T) {
	for numbers, want := range map[string]string{
		"(1), (2), (17), (18)":         "",
		"(1), (2), (17), (18), (99)":   "schema 99 is newer than 18",
		"(1), (2), (17)":               "schema 17 is older than 18, the oldest that this program reads, and was left unchanged: open it once with",
		"(8), (9), (10), (12), (1000)": "schema 1000 is newer",
	} {
		path := filepath.Join(t.TempDir(), "c.db")
		c := openAt(t, path, nil)
		_, err := c.db.Exec(`DELETE FROM migrations; INSERT INTO migrations (version, name, applied_ms) SELECT column1, column1 || '_name', 0 FROM (VALUES ` + numbers + `)`)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		c, err = Open(path, nil)
		if want == "" && err == nil {
			err = c.Close()
		}
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path)) {
			t.Errorf("%s: %v, want %q", numbers, err, want)
		}
		if kept, _ := filepath.Glob(path + ".corrupt-*"); len(kept) > 0 {
			t.Errorf("%s: the catalogue was thrown away", numbers)
		}
	}
}

func TestUnwritablePathIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(file, "c.db"), nil); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v", err)
	}
}

func BenchmarkUpsert(b *testing.B) {
	c := openAt(b, filepath.Join(b.TempDir(), "c.db"), nil)
	defer c.Close()
	rows := make([]store.Workload, 200)
	for i := range rows {
		rows[i] = storetest.Row(i)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Upsert(b.Context(), rows); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(rows)*b.N)/b.Elapsed().Seconds(), "rows/s")
}

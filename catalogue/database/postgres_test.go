package database

import (
	"errors"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"reckon/store"
	"reckon/store/storetest"
)

func openURL(tb testing.TB, address string) *Catalogue {
	tb.Helper()
	c, err := OpenURL(tb.Context(), address, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

func TestPostgres(t *testing.T) {
	fresh, start := storetest.Postgres(t, "pgx")
	stop := start()
	storetest.Facts(t, func(tb testing.TB) store.Facts { return openURL(tb, fresh(tb)) })
	t.Run("Wiped", func(t *testing.T) { wiped(t, openURL(t, fresh(t))) })
	t.Run("PartlyWiped", func(t *testing.T) { partlyWiped(t, openURL(t, fresh(t))) })
	t.Run("Copy", func(t *testing.T) { copied(t, openURL(t, fresh(t))) })
	t.Run("Columns", func(t *testing.T) {
		address := fresh(t)
		c := openURL(t, address)
		if err := c.Upsert(t.Context(), []store.Workload{storetest.Row(1)}); err != nil {
			t.Fatal(err)
		}
		lackColumns(t, c)
		checkColumns(t, openURL(t, address))
	})
	t.Run("Reopened", func(t *testing.T) {
		address := fresh(t)
		c := openURL(t, address)
		if err := c.Upsert(t.Context(), []store.Workload{storetest.Row(1)}); err != nil {
			t.Fatal(err)
		}
		d := openURL(t, address) // a second server
		if _, n, err := d.Workloads(t.Context(), store.Filter{}); n != 1 || err != nil {
			t.Errorf("%d rows, %v", n, err)
		}
	})
	t.Run("Away", func(t *testing.T) {
		c := openURL(t, fresh(t))
		stop()
		began := time.Now()
		for range 2 {
			_, _, err := c.Workloads(t.Context(), store.Filter{})
			if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "is PostgreSQL running?") {
				t.Errorf("while it is away: %v", err)
			}
			if err := c.Upsert(t.Context(), []store.Workload{storetest.Row(1)}); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("write while it is away: %v", err)
			}
		}
		if d := time.Since(began); d > time.Minute {
			t.Errorf("that took %s", d)
		}
		start()
		if err := c.Upsert(t.Context(), []store.Workload{storetest.Row(1)}); err != nil {
			t.Errorf("after it came back: %v", err)
		}
	})
}

// wiped: the tables of a catalogue in use were dropped.
func wiped(t *testing.T, c *Catalogue) {
	if err := c.Upsert(t.Context(), []store.Workload{storetest.Row(1)}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.db.ExecContext(t.Context(), "DROP SCHEMA public CASCADE; CREATE SCHEMA public"); err != nil {
		t.Fatal(err)
	}
	if err := c.Upsert(t.Context(), []store.Workload{storetest.Row(1)}); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "created again") {
		t.Errorf("write into a wiped database: %v", err)
	}
	if err := c.Upsert(t.Context(), []store.Workload{storetest.Row(2)}); err != nil {
		t.Errorf("the next write: %v", err)
	}
	if rows, n, err := c.Workloads(t.Context(), store.Filter{}); n != 1 || err != nil {
		t.Errorf("%d rows, %v %v", n, rows, err)
	}
	if w, err := c.Watermark(t.Context()); !w.IsZero() || err != nil {
		t.Errorf("watermark of a wiped database: %s %v", w, err)
	}
}

// partlyWiped: one table of the catalogue was dropped. It is created again, and data that cannot be rebuilt from the
// series is kept.
func partlyWiped(t *testing.T, c *Catalogue) {
	exec := func(text string) {
		t.Helper()
		if _, err := c.db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Upsert(t.Context(), []store.Workload{storetest.Row(1)}); err != nil {
		t.Fatal(err)
	}
	exec(`INSERT INTO graph_terms (hash, term) VALUES (1, '<urn:a>')`)
	exec(`UPDATE graph_state SET changed = 7`)
	exec(`INSERT INTO forecasts (subject, site, name, figure, made_ms, owner, step_ms, length, steps, models, flags) VALUES ('node', '', 'n1', 'cores', 1, '', 1, 0, '', '', '')`)
	for _, table := range []string{"workloads CASCADE", "graph_quads"} {
		exec("DROP TABLE " + table)
		_, readErr := c.db.ExecContext(t.Context(), "SELECT 1 FROM "+strings.TrimSuffix(table, " CASCADE"))
		if err := c.translateError(t.Context(), readErr); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(),
			"created again") {
			t.Errorf("without %s: %v", table, err)
		}
		if err := c.Upsert(t.Context(), []store.Workload{storetest.Row(2)}); err != nil {
			t.Errorf("the next write: %v", err)
		}
	}
	var terms, changed, forecasts, quads int
	err := c.db.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM graph_terms), (SELECT max(changed) FROM graph_state), (SELECT count(*) FROM forecasts), (SELECT count(*) FROM graph_quads)`).Scan(&terms, &changed, &forecasts, &quads)
	if err != nil || terms != 1 || changed != 7 || forecasts != 1 || quads != 0 {
		t.Errorf("%d terms, %d changes, %d forecasts, %d statements, %v; want 1, 7, 1, 0", terms, changed, forecasts, quads, err)
	}
}

func TestPostgresAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"mysql://h/db":                               "none of PostgreSQL",
		"postgres://u:secret@h/db":                   "password_file=FILE",
		"postgres://u@h/db?password=secret":          "password_file=FILE",
		"postgres://u@h":                             "names no database",
		"postgres://u@h/db?password_file=/none/such": "/none/such",
		"postgres://u@h/db?sslmode=perhaps":          "sslmode",
	} {
		if err := CheckURL(address); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret@") {
			t.Errorf("%s: %v; want %q", address, err, want)
		}
	}
	if err := CheckURL("postgresql://u@h:5433/db?sslmode=require"); err != nil {
		t.Error(err)
	}
}

// FuzzGlob compares the regular expression of a pattern with path.Match, which interprets
// patterns without a backslash or a slash as SQLite does.
func FuzzGlob(f *testing.F) {
	for _, s := range []string{"train-*", "a?c", "[a-c]x", "[^a]", "[]]", "[", "a.b+c", "[^]]*"} {
		f.Add(s, "train-1")
		f.Add(s, "abc")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if strings.ContainsAny(pattern+text, "\\/\x00\n") || strings.Contains(pattern, "[") || !regexp.MustCompile(`^[ -~]*$`).MatchString(pattern+text) {
			t.Skip()
		}
		want, err := path.Match(pattern, text)
		if err != nil {
			t.Skip()
		}
		if got := regexp.MustCompile(globRegex(pattern)).MatchString(text); got != want {
			t.Errorf("%q on %q: %v, want %v (%s)", pattern, text, got, want, globRegex(pattern))
		}
	})
}

func TestGlobClasses(t *testing.T) {
	for pattern, texts := range map[string][2]string{ // matching and other texts
		"[a-c]x": {"bx", "dx"}, "[^a-c]x": {"dx", "bx"}, "[]]": {"]", "x"}, "[^]]": {"x", "]"}, `[\]`: {`\`, "x"}, "[[]x": {"[x", "x"}, "a[*]b": {"a*b", "axb"},
	} {
		re := regexp.MustCompile(globRegex(pattern))
		if !re.MatchString(texts[0]) || re.MatchString(texts[1]) {
			t.Errorf("%s is %s", pattern, re)
		}
	}
	if globRegex("[abc") != "a^" {
		t.Error("an open class matches something")
	}
}

func BenchmarkPostgresUpsert(b *testing.B) {
	fresh, start := storetest.Postgres(b, "pgx")
	start()
	c := openURL(b, fresh(b))
	var rows []store.Workload
	for i := range 1000 {
		rows = append(rows, storetest.Row(i))
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Upsert(b.Context(), rows); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(rows))/b.Elapsed().Seconds(), "rows/s")
}

package database

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/store"
)

// Of a damaged catalogue all parts are taken over that have no damaged page, whole and as they were; the others are empty
// and named.
func TestSalvage(t *testing.T) {
	const rows = 400
	dir := t.TempDir()
	path := filepath.Join(dir, "catalogue.db")
	c := openAt(t, path, nil)
	if err := c.Upsert(t.Context(), versionOf(0, rows, 1)); err != nil {
		t.Fatal(err)
	}
	if err := c.SetWatermark(t.Context(), time.UnixMilli(1_800_000_000_000)); err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		long := strings.Repeat("mark of a person ", 400) // behind its first page
		if _, err := c.db.ExecContext(t.Context(), `INSERT INTO metric_runs (namespace, name, site, set_name, outcome, started_ms, finished_ms, document) VALUES ('n', $1, '', 's', 'done', $2, $2, $3)`, fmt.Sprint("run", i), i, long); err != nil {
			t.Fatal(err)
		}
		if _, err := c.db.ExecContext(t.Context(), `INSERT INTO graph_terms (hash, term) VALUES ($1, $2)`, i, fmt.Sprint("urn:someone:wrote:", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	st, statErr := os.Stat(path)
	if err := errors.Join(err, statErr); err != nil {
		t.Fatal(err)
	}
	last := func(what string) int { return bytes.LastIndex(raw, []byte(what)) }
	for _, d := range []struct {
		name string
		at   int
		lost []string // empty parts
		says []string
	}{
		{"a row of runs", last("version 1"), []string{"workloads", "state"}, []string{"taken over: findings, forecasts, the knowledge graph, runs of MetricSets", "Lost: runs and hours"}},
		{"behind the first page of a run of a MetricSet", last("mark of a person"), []string{"metric_runs"}, []string{"taken over: runs and hours, findings, forecasts, the knowledge graph. Lost", "runs of MetricSets are in backups only"}},
		{"a term", last("urn:someone:wrote:"), []string{"graph_terms"}, []string{"taken over: runs and hours, findings, forecasts, runs of MetricSets", "only backups have the statements that other programs wrote"}},
		{"the list of tables", last("\trule TEXT NOT NULL") + 1, []string{"workloads", "state", "metric_runs", "graph_terms"}, []string{"list of tables is damaged", "Lost: runs and hours"}},
	} {
		t.Run(d.name, func(t *testing.T) {
			if d.at < 0 {
				t.Fatal("it is not in the file")
			}
			dir := filepath.Join(t.TempDir(), "damaged")
			copyDir(t, filepath.Dir(path), dir)
			hurt := bytes.Clone(raw)
			hurt[d.at] ^= 2
			file := filepath.Join(dir, "catalogue.db")
			if err := errors.Join(os.WriteFile(file, hurt, 0o600), os.Chtimes(file, st.ModTime(), st.ModTime())); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			c := openAt(t, file, slog.New(slog.NewTextHandler(&log, nil)))
			defer c.Close()
			for table, want := range map[string]int{"workloads": rows, "state": 1, "metric_runs": rows, "graph_terms": rows} {
				if slices.Contains(d.lost, table) {
					want = 0
				}
				var n int
				if err := c.db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil || n != want {
					t.Errorf("%d rows in %s, want %d: %v", n, table, want, err)
				}
			}
			for _, want := range append(d.says, "moved aside", ".corrupt-", "fails its checksum") {
				if !strings.Contains(log.String(), want) {
					t.Errorf("the log lacks %q: %s", want, &log)
				}
			}
			if !slices.Contains(d.lost, "workloads") {
				got, _, err := c.Workloads(t.Context(), store.Filter{})
				if err != nil || len(got) != rows {
					t.Fatalf("%d runs, %v", len(got), err)
				}
				slices.SortFunc(got, func(a, b store.Workload) int { return a.Start.Compare(b.Start) })
				for i, want := range versionOf(0, rows, 1) {
					a, err := json.Marshal(got[i])
					b, wantErr := json.Marshal(want)
					if err := errors.Join(err, wantErr); err != nil || !bytes.Equal(a, b) {
						t.Fatalf("run %d is %s, not %s: %v", i, a, b, err)
					}
				}
			}
			if left, err := filepath.Glob(filepath.Join(dir, "*.salvage*")); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

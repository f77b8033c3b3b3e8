package catalogue

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	storetest.Catalogue(t, func(tb testing.TB) store.Catalogue {
		return openAt(tb, filepath.Join(tb.TempDir(), "a dir?", "catalogue#1.db"), nil)
	})
}

func TestRollups(t *testing.T) {
	storetest.Rollups(t, func(tb testing.TB) store.Catalogue { return openAt(tb, filepath.Join(tb.TempDir(), "c.db"), nil) })
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

func TestNewerSchemaIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	c := openAt(t, path, nil)
	if _, err := c.db.Exec(`INSERT INTO migrations (version, name, applied_ms) VALUES (99, 'future', 0)`); err != nil {
		t.Fatal(err)
	}
	c.Close()
	_, err := Open(path, nil)
	if err == nil || !strings.Contains(err.Error(), "schema 99 is newer") {
		t.Errorf("got %v", err)
	}
	if kept, _ := filepath.Glob(path + ".corrupt-*"); len(kept) > 0 {
		t.Error("a newer catalogue was thrown away")
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

// million fills a catalogue with believable rows: many short jobs of few owners, some
// long ones, names that repeat.
func million(b *testing.B, n int) *Catalogue {
	b.Helper()
	// Kept between benchmarks of one run, for it takes a minute to make.
	path := os.Getenv("RECKON_BENCH_CATALOGUE")
	if path == "" {
		path = filepath.Join(b.TempDir(), "c.db")
	}
	c := openAt(b, path, nil)
	b.Cleanup(func() { c.Close() })
	if _, have, err := c.Workloads(context.Background(), store.Filter{Limit: 1}); err != nil || have == n {
		return c
	}
	rng := rand.New(rand.NewPCG(1, 1))
	begin := time.Now()
	rows := make([]store.Workload, 0, 5000)
	start := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range n {
		w := storetest.Row(i)
		start = start.Add(time.Duration(rng.IntN(60_000)) * time.Millisecond)
		length := time.Duration(rng.ExpFloat64()*1800) * time.Second
		if rng.IntN(100) == 0 {
			length = time.Duration(rng.ExpFloat64()*48) * time.Hour
		}
		w.Start, w.Seen, w.End = start, start.Add(length), start.Add(length)
		if i > n-500 {
			w.End = time.Time{}
		}
		w.Kind = []string{"slurm", "slurm", "slurm", "group", "session"}[rng.IntN(5)]
		w.Owner = fmt.Sprintf("user%03d", int(rng.ExpFloat64()*30))
		w.Name = fmt.Sprintf("job-%d", rng.IntN(50_000))
		w.Nodes = []string{fmt.Sprintf("n%04d", rng.IntN(500))}
		w.Account, w.Partition = fmt.Sprintf("a%02d", int(rng.ExpFloat64()*10)), []string{"cpu", "cpu", "cpu", "gpu", "long"}[rng.IntN(5)]
		w.Command, w.State = fmt.Sprintf("prog%d", int(rng.ExpFloat64()*20)), "completed"
		if k := rng.IntN(1000); k < 80 {
			w.State = "failed"
		} else if k < 82 {
			w.State = "node_fail"
		}
		w.Submit = start.Add(-time.Duration(rng.ExpFloat64()*1800) * time.Second)
		cpu, mem := rng.ExpFloat64()*length.Seconds()*8, rng.ExpFloat64()*8e9
		w.CPUSeconds, w.MemoryPeakBytes = &cpu, &mem
		w.EnergyJoules, w.GPUSeconds = nil, nil
		if rows = append(rows, w); len(rows) == cap(rows) || i == n-1 {
			if err := c.Upsert(context.Background(), rows); err != nil {
				b.Fatal(err)
			}
			rows = rows[:0]
		}
	}
	b.Logf("%d rows made in %s", n, time.Since(begin).Round(time.Second))
	return c
}

func BenchmarkList(b *testing.B) {
	const n = 1_000_000
	c := million(b, n)
	no, yes := false, true
	mid := time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)
	for _, q := range []struct {
		name string
		f    store.Filter
	}{
		{"all by start", store.Filter{}},
		{"all by cpu", store.Filter{Sort: "-cpu_seconds"}},
		{"all by memory", store.Filter{Sort: "-memory_peak_bytes"}},
		{"all by end", store.Filter{Sort: "-end"}},
		{"all by owner", store.Filter{Sort: "owner"}},
		{"all by kind", store.Filter{Sort: "kind"}},
		{"all by name", store.Filter{Sort: "name"}},
		{"all by cores_p95", store.Filter{Sort: "-cores_p95"}},
		{"all by wall", store.Filter{Sort: "-wall_seconds"}},
		{"big owner by cpu", store.Filter{Owners: []string{"user000"}, Sort: "-cpu_seconds"}},
		{"big owner by memory", store.Filter{Owners: []string{"user000"}, Sort: "-memory_peak_bytes"}},
		{"small owner by cpu", store.Filter{Owners: []string{"user200"}, Sort: "-cpu_seconds"}},
		{"kind by cpu", store.Filter{Kinds: []string{"group"}, Sort: "-cpu_seconds"}},
		{"kind by memory", store.Filter{Kinds: []string{"group"}, Sort: "-memory_peak_bytes"}},
		{"two kinds by start", store.Filter{Kinds: []string{"group", "slurm"}}},
		{"kind and owner by start", store.Filter{Kinds: []string{"group"}, Owners: []string{"user010"}}},
		{"running by cpu", store.Filter{Running: &yes, Sort: "-cpu_seconds"}},
		{"ended by cpu", store.Filter{Running: &no, Sort: "-cpu_seconds"}},
		{"day by cpu", store.Filter{Since: mid, Until: mid.AddDate(0, 0, 1), Sort: "-cpu_seconds"}},
		{"month by cpu", store.Filter{Since: mid, Until: mid.AddDate(0, 1, 0), Sort: "-cpu_seconds"}},
		{"since mid by cpu", store.Filter{Since: mid, Sort: "-cpu_seconds"}},
		{"until mid by start", store.Filter{Until: mid}},
		{"node by cpu", store.Filter{Nodes: []string{"n0042"}, Sort: "-cpu_seconds"}},
		{"name exact", store.Filter{Name: "job-4242"}},
		{"name pattern", store.Filter{Name: "*-4242*", Sort: "-cpu_seconds"}},
		{"min cpu by start", store.Filter{MinCPU: 100_000}},
		{"low min cpu by start", store.Filter{MinCPU: 100}},
		{"page 5000", store.Filter{Sort: "-cpu_seconds", Offset: 5000}},
		{"id", store.Filter{ID: "slurm/500000"}},
		{"account by start", store.Filter{Accounts: []string{"a07"}}},
		{"account by cpu", store.Filter{Accounts: []string{"a07"}, Sort: "-cpu_seconds"}},
		{"account by energy", store.Filter{Accounts: []string{"a07"}, Sort: "-energy_joules"}},
		{"big partition by memory", store.Filter{Partitions: []string{"cpu"}, Sort: "-memory_peak_bytes"}},
		{"partition by wait", store.Filter{Partitions: []string{"gpu"}, Sort: "-cpu_wait_seconds"}},
		{"state by submit", store.Filter{States: []string{"failed"}, Sort: "-submit"}},
		{"state by cpu", store.Filter{States: []string{"completed"}, Sort: "-cpu_seconds"}},
		{"rare state", store.Filter{States: []string{"node_fail"}}},
		{"command by start", store.Filter{Command: "prog1*"}},
		{"command by threads", store.Filter{Command: "prog12", Sort: "-threads"}},
		{"all by submit", store.Filter{Sort: "-submit"}},
		{"all by seen", store.Filter{Sort: "-seen"}},
		{"all by account", store.Filter{Sort: "account"}},
		{"all by threads", store.Filter{Sort: "-threads"}},
		{"all by throttled", store.Filter{Sort: "-cpu_throttled_seconds"}},
		{"owner account state by cpu", store.Filter{Owners: []string{"user003"}, Accounts: []string{"a03"}, States: []string{"failed"}, Sort: "-cpu_seconds"}},
	} {
		q.f.Limit = 100
		b.Run(strings.ReplaceAll(q.name, " ", "-"), func(b *testing.B) {
			for b.Loop() {
				if _, _, err := c.Workloads(b.Context(), q.f); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/list")
		})
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

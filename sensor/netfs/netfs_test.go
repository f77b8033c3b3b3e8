package netfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/sensortest"
)

const mountstats = "proc/self/mountstats"

// machine writes a recorded tree; put changes a file of it.
func machine(t testing.TB, name string) (root string, put func(path, text string)) {
	t.Helper()
	root = t.TempDir()
	put = func(path, text string) {
		t.Helper()
		full := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if name != "" {
		a, err := txtar.ParseFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range a.Files {
			put(f.Name, string(f.Data))
		}
	}
	return root, put
}

// start opens the sensor with a clock that each reading moves on, so that every reading is a pass.
func start(t testing.TB, root string) *Sensor {
	t.Helper()
	s, err := New(root)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	s.now = func() time.Time { return now }
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func read(t testing.TB, s *Sensor) map[string]float64 {
	t.Helper()
	var b metric.Batch
	if err := s.Read(&b); err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, m := range b.Samples {
		out[sensortest.Key(m.Series)] = m.Value
	}
	return out
}

func expect(t *testing.T, got, want map[string]float64) {
	t.Helper()
	for key, w := range want {
		if v, ok := got[key]; !ok || v != w {
			t.Errorf("%s is %v (there: %t), want %v", key, v, ok, w)
		}
	}
}

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name   string
		allocs float64 // a file of Lustre is opened for each reading, as its mounts come and go
	}{{"nfs.txtar", 0}, {"lustre.txtar", 20}} {
		t.Run(c.name, func(t *testing.T) {
			root, _ := machine(t, c.name)
			sensortest.Run(t, func(t *testing.T) sensor.Sensor { return start(t, root) }, sensortest.Options{
				Allocs: c.allocs,
				Empty: func(root string) (sensor.Sensor, error) {
					s, err := New(root)
					if err != nil {
						return nil, err
					}
					return s, nil
				}})
		})
	}
}

// TestNFS: the export is mounted three times, twice over TCP with statistics that differ in one operation and once over UDP: to the sensor
// these
// are three file systems of one source; their figures add up. ACCESS has a time in the queue below zero, which is not used.
func TestNFS(t *testing.T) {
	root, _ := machine(t, "nfs.txtar")
	const of = `{type="nfs",source="192.168.1.1:/srv/test",`
	expect(t, read(t, start(t, root)), map[string]float64{
		`reckon_mount_bytes_total` + of + `direction="read"}`:                           1210214218 * 3,
		`reckon_mount_bytes_total` + of + `direction="write"}`:                          0,
		`reckon_mount_operations_total` + of + `operation="read"}`:                      1298 * 3,
		`reckon_mount_operations_total` + of + `operation="metadata"}`:                  2927395007 * 2,
		`reckon_mount_operation_seconds_total` + of + `operation="read"}`:               79.407 * 3,
		`reckon_mount_server_seconds_total` + of + `operation="read"}`:                  79.386 * 3,
		`reckon_mount_retransmissions_total{type="nfs",source="192.168.1.1:/srv/test"}`: 0,
	})
}

// export is constructed after the form of the kernel.
func export(device, point string, age, reads, sent, millis uint64) string {
	return fmt.Sprintf(
		"device %s mounted on %s with fstype nfs4 statvers=1.1\n\topts:\trw,vers=4.2,proto=tcp\n\tage:\t%d\n\tevents:\t0 0\n\tbytes:\t0 "+
			"0 0 0 %d 0 0 0\n\tper-op statistics\n\t        READ: %d %d 1 0 0 0 %d %d 0\n\t      COMMIT: 2 2 0 0 0 0 3 4 0\n\n",
		device, point, age, reads*4096, reads, sent, millis, millis)
}

func TestCounts(t *testing.T) {
	root, put := machine(t, "")
	// The second is the same file system, mounted from below.
	put(mountstats, export("s:/a", "/a", 10, 5, 7, 50)+export("s:/a/b", "/b", 10, 5, 7, 50))
	s := start(t, root)
	const of = `{type="nfs",source="s:/a",`
	expect(t, read(t, s), map[string]float64{
		`reckon_mount_operations_total` + of + `operation="read"}`:         5,
		`reckon_mount_operations_total` + of + `operation="write"}`:        2,
		`reckon_mount_retransmissions_total{type="nfs",source="s:/a"}`:     2,
		`reckon_mount_timeouts_total{type="nfs",source="s:/a"}`:            1,
		`reckon_mount_operation_seconds_total` + of + `operation="write"}`: 0.004,
		`reckon_mount_server_seconds_total` + of + `operation="write"}`:    0.003,
	})
	put(mountstats, export("s:/a", "/a", 25, 9, 11, 1<<53)) // a time that went below zero: the figure stands still
	got := read(t, s)
	expect(t, got, map[string]float64{`reckon_mount_operations_total` + of + `operation="read"}`: 9,
		`reckon_mount_operation_seconds_total` + of + `operation="read"}`: 0.05})
	if _, ok := got[`reckon_mount_operations_total{type="nfs",source="s:/a/b",operation="read"}`]; ok {
		t.Error("one file system counts twice")
	}
	put(mountstats, export("s:/a", "/a", 1, 3, 3, 10)) // mounted again
	expect(t, read(t, s), map[string]float64{`reckon_mount_operations_total` + of + `operation="read"}`: 12,
		`reckon_mount_operation_seconds_total` + of + `operation="read"}`: 0.06})
	put(mountstats, "device /dev/sda1 mounted on / with fstype ext4\n")
	if got := read(t, s); len(got) != 0 {
		t.Errorf("nothing is mounted: %v", got)
	}
	if len(s.mounts)+len(s.sources) != 0 {
		t.Error("what is not mounted is remembered")
	}
}

// Clients of NFS 4.2 read by READ_PLUS where the server knows it.
func TestReadPlus(t *testing.T) {
	root, put := machine(t, "")
	put(mountstats, strings.ReplaceAll(export("s:/a", "/a", 10, 5, 7, 50), "  READ: ", "READ_PLUS: "))
	const of = `{type="nfs",source="s:/a",`
	got := read(t, start(t, root))
	expect(t, got, map[string]float64{`reckon_mount_operations_total` + of + `operation="read"}`: 5,
		`reckon_mount_operation_seconds_total` + of + `operation="read"}`: 0.05})
	if v := got[`reckon_mount_operations_total`+of+`operation="metadata"}`]; v != 0 {
		t.Errorf("%v reads count as metadata", v)
	}
}

// TestLustre reads a recorded client, and the form with times that newer releases have (constructed).
func TestLustre(t *testing.T) {
	root, put := machine(t, "lustre.txtar")
	s := start(t, root)
	const of = `{type="lustre",source="lustrefs",`
	got := read(t, s)
	expect(t, got, map[string]float64{
		`reckon_mount_bytes_total` + of + `direction="read"}`:          4194304,
		`reckon_mount_bytes_total` + of + `direction="write"}`:         93813797294080,
		`reckon_mount_operations_total` + of + `operation="write"}`:    89467810,
		`reckon_mount_operations_total` + of + `operation="metadata"}`: 136 + 96 + 12 + 134 + 41 + 85 + 134,
	})
	if len(got) != 5 {
		t.Errorf("%d series, want 5: times are not known there: %v", len(got), got)
	}
	put("sys/kernel/debug/lustre/llite/scratch-ffff000000000001/stats",
		"snapshot_time 1 secs.nsecs\nread_bytes 2 samples [bytes] 1 5 6\nread 2 samples [usecs] 100 400 500\nopen 3 samples [usecs] 10 "+
			"20 45 700\ngetxattr_hits 9 samples [reqs]\n")
	const at = `{type="lustre",source="scratch",`
	got = read(t, s)
	expect(t, got, map[string]float64{
		`reckon_mount_operations_total` + at + `operation="read"}`:            2,
		`reckon_mount_operation_seconds_total` + at + `operation="read"}`:     0.0005,
		`reckon_mount_operations_total` + at + `operation="metadata"}`:        3,
		`reckon_mount_operation_seconds_total` + at + `operation="metadata"}`: 0.000045,
	})
	if _, ok := got[`reckon_mount_operations_total`+of+`operation="read"}`]; ok {
		t.Error("debugfs and /proc both counted")
	}
}

// TestManyMounts: as many as the bound have series of their own, all others one together; nothing is lost in sum.
func TestManyMounts(t *testing.T) {
	for _, n := range []int{maxSources, maxSources + 1, 10_000} {
		root, put := machine(t, "")
		var text strings.Builder
		for i := range n {
			text.WriteString(export(fmt.Sprintf("s:/home/u%d", i), "/h", uint64(i), uint64(i), uint64(i), 1))
		}
		put(mountstats, text.String())
		s := start(t, root)
		got := read(t, s)
		sources, sum := 0, 0.0
		for key, v := range got {
			if strings.HasPrefix(key, "reckon_mount_operations_total") && strings.Contains(key, `"read"`) {
				sources++
				sum += v
			}
		}
		if want := min(n, maxSources+1); sources != want || sum != float64(n*(n-1)/2) {
			t.Errorf("%d mounts: %d sources with %v operations, want %d with %d", n, sources, sum, want, n*(n-1)/2)
		}
	}
}

// TestPause: after a pass that took long the next one waits, and the figures stand still meanwhile.
func TestPause(t *testing.T) {
	root, put := machine(t, "")
	put(mountstats, export("s:/a", "/a", 10, 5, 5, 50))
	s := start(t, root)
	now, took := time.Unix(1000, 0), 90*time.Millisecond
	s.now = func() time.Time { now = now.Add(took / 3); return now } // at the begin, in between, at the end
	reads := func() float64 {
		return read(t, s)[`reckon_mount_operations_total{type="nfs",source="s:/a",operation="read"}`]
	}
	reads()
	put(mountstats, export("s:/a", "/a", 10, 6, 6, 50))
	took = 0
	begin := now.Add(-60 * time.Millisecond)
	for _, c := range []struct {
		after time.Duration
		want  float64
	}{{pauseFactor*60*time.Millisecond - 1, 5}, {pauseFactor * 60 * time.Millisecond, 6}} {
		now = begin.Add(c.after)
		if got := reads(); got != c.want {
			t.Errorf("after %v: %v reads, want %v", c.after, got, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"nfs.txtar", "lustre.txtar"} {
		a, err := txtar.ParseFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		for _, x := range a.Files {
			f.Add(x.Data)
		}
	}
	path := filepath.Join(f.TempDir(), "mountstats")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		n := newNFS()
		n.path, n.file = path, file
		if err := n.eachMount(func(key []byte, _ string, from func() string, _ *[countFields]uint64, _ *[countFields]bool) {
			if len(key) < 3 || strings.ToValidUTF8(from(), "") != from() {
				t.Fatalf("key %q of %q", key, from())
			}
		}); err != nil {
			t.Fatal(err)
		}
		newLustre("/nonexistent").parseStats(text)
	})
}

func BenchmarkPass(b *testing.B) {
	root, put := machine(b, "")
	var text strings.Builder
	for i := range 1000 {
		text.WriteString(export(fmt.Sprintf("s:/home/u%d", i), "/h", uint64(i), uint64(i), uint64(i), 1))
	}
	put(mountstats, text.String())
	s := start(b, root)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.readAll(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestEscapedSource: the source of an export with a blank is written as every other series has it.
func TestEscapedSource(t *testing.T) {
	root, put := machine(t, "nfs.txtar")
	text, err := os.ReadFile(filepath.Join(root, mountstats))
	if err != nil {
		t.Fatal(err)
	}
	put(mountstats, strings.ReplaceAll(string(text), "192.168.1.1:/srv/test", `nas:/exp\040ort/a\134b\043`))
	found := false
	for key := range read(t, start(t, root)) {
		found = found || strings.Contains(key, `source="nas:/exp ort/a\\b#"`) || strings.Contains(key, `source="nas:/exp ort/a\b#"`)
		if strings.Contains(key, "040") {
			t.Errorf("an escape is left: %s", key)
		}
	}
	if !found {
		t.Error("no series of the export")
	}
}

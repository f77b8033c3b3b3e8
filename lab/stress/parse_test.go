package stress

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseCPU(t *testing.T) {
	for text, want := range map[string]struct {
		cores   float64
		workers int
	}{
		"40%": {0.4, 0}, "2x40%": {0.8, 2}, "all": {8, 8}, "allx25%": {2, 8}, "1.5": {1.5, 0}, "150%": {1.5, 0}, " 2 ": {2, 0},
		"0.5%": {0.005, 0},
	} {
		cores, workers, err := ParseCPU(text, 8)
		if err != nil || math.Abs(cores-want.cores) > 1e-12 || workers != want.workers {
			t.Errorf("%q: %g cores, %d workers, %v; want %+v", text, cores, workers, err, want)
		}
	}
	for _, text := range []string{"", "x", "2x", "0x40%", "-1x40%", "2x140%", "2x40", "-1", "NaN", "nan%", "1e9", "Inf", "2x40%%",
		"99999x1%"} {
		if cores, workers, err := ParseCPU(text, 8); err == nil {
			t.Errorf("%q: %g cores, %d workers", text, cores, workers)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]float64{
		"4096": 4096, "512MiB": 512 << 20, "20MB": 20e6, "2G": 2 << 30, "1.5k": 1536, "3 GiB": 3 << 30, "0": 0, "7B": 7, "1tb": 1e12,
	} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("%q: %g, %v; want %g", text, got, err, want)
		}
	}
	for _, text := range []string{"", "MB", "-1", "1e3", "5XB", "5MBs", "99999999PB", "1.2.3", "NaN"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("%q: %g", text, got)
		}
	}
	if _, err := ParseBytes("909TiB"); err != nil {
		t.Error(err)
	}
	if _, err := ParseBytes("910TiB"); err == nil || !strings.Contains(err.Error(), "more than 1 PB") {
		t.Errorf("910TiB: %v", err)
	}
	for text, want := range map[string]float64{"20MB/s": 20e6, "100Mbit/s": 12.5e6, "5MiB": 5 << 20} {
		if got, err := ParseRate(text); err != nil || got != want {
			t.Errorf("%q: %g, %v; want %g", text, got, err, want)
		}
	}
}

func TestParseDisk(t *testing.T) {
	if r, w, err := ParseDisk("write=20MB/s, read=5MB/s"); err != nil || r != 5e6 || w != 20e6 {
		t.Errorf("%g %g %v", r, w, err)
	}
	for _, text := range []string{"", "20MB/s", "write", "write=", "erase=1MB", "write=1MB,"} {
		if r, w, err := ParseDisk(text); err == nil {
			t.Errorf("%q: read %g, write %g", text, r, w)
		}
	}
}

func TestParseRange(t *testing.T) {
	if from, to, err := ParseRange("10..90%"); err != nil || from != 0.1 || to != 0.9 {
		t.Errorf("%g %g %v", from, to, err)
	}
	for _, text := range []string{"", "5", "..", "1..", "..2", "a..b", "-1..2", "1..2..3"} {
		if _, _, err := ParseRange(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"2x40%", "512MiB", "write=20MB/s,read=1", "0..100", "allx1%", "\xff", "k", "1bit"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		good := func(what string, v float64, err error) {
			if err == nil && !(v >= 0 && v <= 1e15) {
				t.Errorf("%s %q: %g", what, text, v)
			}
		}
		cores, workers, err := ParseCPU(text, 8)
		good("cpu", cores, err)
		if err == nil && (workers < 0 || workers > maxWorkers) {
			t.Errorf("%q: %d workers", text, workers)
		}
		v, err := ParseRate(text)
		good("rate", v, err)
		r, w, err := ParseDisk(text)
		good("read", r, err)
		good("write", w, err)
		a, b, err := ParseRange(text)
		good("from", a, err)
		good("to", b, err)
	})
}

func TestKernelFiles(t *testing.T) {
	const rollup = "55d1a0400000-7ffd3a5f2000 ---p 00000000 00:00 0                          [rollup]\nRss:                2048 " +
		"kB\nPss:                1500 kB\n"
	if n, ok := parseKilobytes(rollup, "Rss:"); !ok || n != 2<<20 {
		t.Errorf("rollup: %d %v", n, ok)
	}
	for _, text := range []string{"", "Rss:", "Rss: x kB", "Rss: -1 kB", "Rss: 1 MB", "Rss: 99999999999999999999 kB"} {
		if n, ok := parseKilobytes(text, "Rss:"); ok {
			t.Errorf("%q: %d", text, n)
		}
	}
	if n, err := parseStatm("100 25 3 4 5 6 7\n", 4096); err != nil || n != 25*4096 {
		t.Errorf("statm: %d, %v", n, err)
	}
	for _, text := range []string{"", "1", "1 x", "1 -2", "1 9223372036854775807"} {
		if n, err := parseStatm(text, 4096); err == nil {
			t.Errorf("statm %q: %d", text, n)
		}
	}
	if got := parseIO("rchar: 5\nread_bytes: 7\nwrite_bytes: 9\ncancelled_write_bytes: 1\n"); got != [2]int64{7, 9} {
		t.Errorf("io: %v", got)
	}
	if got := parseIO("read_bytes: -3\n"); got != [2]int64{-1, -1} {
		t.Errorf("io without figures: %v", got)
	}
}

func FuzzKernelFiles(f *testing.F) {
	f.Add("Rss: 2048 kB\n")
	f.Add("100 25 3 4 5 6 7\n")
	f.Add("read_bytes: 7\nwrite_bytes: 9\n")
	f.Fuzz(func(t *testing.T, text string) {
		if n, ok := parseKilobytes(text, "Rss:"); ok && n < 0 {
			t.Errorf("kilobytes %q: %d", text, n)
		}
		if n, err := parseStatm(text, 4096); err == nil && n < 0 {
			t.Errorf("statm %q: %d", text, n)
		}
		for _, n := range parseIO(text) {
			if n < -1 {
				t.Errorf("io %q: %d", text, n)
			}
		}
	})
}

// TestGroupMemory: the room of a program is the room of its control group and of the groups above it, in both versions.
func TestGroupMemory(t *testing.T) {
	root := t.TempDir()
	put := func(path, text string) {
		t.Helper()
		full := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put(
		"proc/self/mountinfo", "30 23 0:26 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n31 23 0:27 / "+
			"/sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n32 23 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw")
	put("proc/self/cgroup", "3:cpu:/a\n2:memory:/docker/x/job/step\n0::/pod/app")
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712")
	put("sys/fs/cgroup/memory/memory.usage_in_bytes", "5")
	put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000")
	put("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "400")
	put("sys/fs/cgroup/memory/job/memory.stat", "cache 9\ninactive_file 70\ntotal_inactive_file 100")
	put("sys/fs/cgroup/unified/pod/app/memory.max", "max")
	put("sys/fs/cgroup/unified/pod/app/memory.high", "500")
	put("sys/fs/cgroup/unified/pod/app/memory.current", "499")
	got := map[string][2]int64{}
	for _, dir := range memoryGroups(root) {
		if limit, free, ok := groupMemory(dir); ok {
			got[strings.TrimPrefix(dir, root)] = [2]int64{limit, free}
		}
	}
	want := map[string][2]int64{"/sys/fs/cgroup/memory/job": {1000, 700}, "/sys/fs/cgroup/unified/pod/app": {500, 1}}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	m := memoryLoad{groups: memoryGroups(root)}
	if why := m.findLimit(fillSize); why != shortOfLimit {
		t.Errorf("room for %d bytes in a group of 1000: %d", fillSize, why)
	}
	if why := new(memoryLoad).findLimit(4096); why != 0 {
		t.Errorf("no room for a page without limits: %d", why)
	}
}

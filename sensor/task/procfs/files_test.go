package procfs

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"reckon/sensor"
)

// filesTree is a /proc with one process and one thread, with the given files.
func filesTree(t testing.TB, files map[string]string) *Files {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, "42", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return NewFiles(root)
}

func TestFiles(t *testing.T) {
	f := filesTree(t, map[string]string{
		"stat":              "42 (a) b\n(c) R 17 4242 4000 0 -1 4194304 158 9 3 0 250 50 7 3 20 0 12 0 98765 2990080 459 18446744073709551615 0 0 0\n",
		"statm":             "730 459 431 5 0 89 0\n",
		"io":                "rchar: 6976\nwchar: 12\nsyscr: 10\nsyscw: 0\nread_bytes: 8192\nwrite_bytes: 4096\ncancelled_write_bytes: 0\n",
		"status":            "Name:\tx\nVmHWM:\t    1724 kB\nSigIgn:\t0000000000010000\n",
		"smaps_rollup":      "55d0-7ffd ---p 00000000 00:00 0    [rollup]\nRss:                1836 kB\nPss:                 291 kB\nPss_Dirty:           96 kB\n",
		"task/42/schedstat": "1190569 26768663 2\n",
		"task/42/children":  "43 44 99999999999 ",
	})
	f.tick, f.page = 1e7, 4096
	want := Times{PID: 42, PPID: 17, Comm: sensor.CommOf([]byte("a) b\n(c")), State: 'R', User: 2_500_000_000, System: 500_000_000,
		ChildUser: 70_000_000, ChildSystem: 30_000_000, Threads: 12, Start: 987_650_000_000}
	if got, err := f.Times(42); err != nil || got != want {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
	}
	if r, s, err := f.Memory(42); err != nil || r != 459*4096 || s != 431*4096 {
		t.Errorf("memory %d, %d, %v", r, s, err)
	}
	if fd, err := f.OpenMemory(42); err != nil {
		t.Error(err)
	} else if r, s, err := f.MemoryOf(fd); err != nil || r != 459*4096 || s != 431*4096 {
		t.Errorf("memory by descriptor %d, %d, %v", r, s, err)
	}
	if got, err := f.Traffic(42); err != nil || got != (Traffic{6976, 12, 8192, 4096}) {
		t.Errorf("traffic %+v, %v", got, err)
	}
	if run, wait, err := f.SchedTimes(42, 42); err != nil || run != 1190569 || wait != 26768663 {
		t.Errorf("waited %d, %d, %v", run, wait, err)
	}
	if m, err := f.SharedMemory(42); err != nil || m.Proportional != 291<<10 || m.Resident != 1836<<10 {
		t.Errorf("shared memory %+v, %v", m, err)
	}
	if v := f.PeakResident(42); v != 1724<<10 || !f.IgnoresChildren(42) {
		t.Errorf("high water %d, ignores its children %v", v, f.IgnoresChildren(42))
	}
	if l := f.Children(42, 42, nil); !slices.Equal(l, []int32{43, 44}) {
		t.Errorf("children %v", l)
	}
	if l := f.Threads(42, nil); !slices.Equal(l, []int32{42}) {
		t.Errorf("threads %v", l)
	}
	if _, err := f.Times(43); err == nil || f.Children(43, 43, nil) != nil || f.PeakResident(43) != 0 || f.IgnoresChildren(43) {
		t.Errorf("a process that is not there: %v", err)
	}
}

func TestIgnoresChildren(t *testing.T) {
	for text, want := range map[string]bool{
		"Name:\tx\nSigIgn:\t0000000000010000\n": true,
		"Name:\tx\nSigIgn:\t0000000000000001\n": false,
		"SigIgn:\tzz\n":                         false, "": false,
	} {
		if ignoresChildren([]byte(text)) != want {
			t.Errorf("status %q: want %v", text, want)
		}
	}
}

func FuzzTraffic(f *testing.F) {
	f.Add([]byte("rchar: 1\nwchar: 2\nread_bytes: 8192\nwrite_bytes: 18446744073709551616\n"))
	f.Add([]byte("SigIgn:\tffffffffffffffff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		io, err := parseIO(b)
		if v, all := parseTraffic(b); all == nil && (err != nil || v.Read != io.read || v.Write != io.write) {
			t.Errorf("%+v, and by itself %d, %d, %v", v, io.read, io.write, err)
		}
		ignoresChildren(b)
	})
}

func TestFilesDoNotAllocate(t *testing.T) {
	f := NewFiles("/proc")
	pid := int32(os.Getpid())
	var list []int32
	if n := testing.AllocsPerRun(100, func() {
		_, _ = f.Times(pid)
		_, _, _ = f.Memory(pid)
		list = f.Children(pid, pid, list[:0])
	}); n > 3 { // the names of the files
		t.Errorf("%v allocations", n)
	}
}

package ebpf

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// openOpens opens a source that sees opens of GPUs.
func openOpens(t testing.TB) *Source {
	s := open(t, Options{})
	if s.opens == nil {
		t.Skip("the kernel does not let its functions be traced")
	}
	return s
}

// node makes the file of a device. No driver is needed: the kernel looks for one when the file is opened.
func node(t testing.TB, major, minor uint32) string {
	name := filepath.Join(t.TempDir(), "node")
	if err := unix.Mknod(name, unix.S_IFCHR|0o600, int(unix.Mkdev(major, minor))); err != nil {
		t.Skipf("make a node of a device: %v", err)
	}
	return name
}

// TestOpens has processes that end before anything reads them open GPUs, and other devices.
func TestOpens(t *testing.T) {
	s := openOpens(t)
	var p sensor.Pass
	read(t, s, &p)
	run := func(name string) int32 {
		c := exec.Command("/proc/self/exe", "child", "open", name)
		if err := c.Run(); err != nil {
			t.Fatal(err)
		}
		return int32(c.Process.Pid)
	}
	var want []sensor.Open
	for _, n := range []struct{ major, minor uint32 }{{195, 0}, {195, 3}, {226, 0}, {226, 128}, {195, 254}, {195, 255}, {1, 3}, {227, 0}} {
		pid := run(node(t, n.major, n.minor))
		if n.major == 226 || n.major == 195 && n.minor < 254 {
			want = append(want, sensor.Open{PID: pid, Node: sensor.Node(n.major, n.minor)})
		}
	}
	read(t, s, &p)
	mine := slices.DeleteFunc(slices.Clone(p.Opens), func(o sensor.Open) bool { return !slices.Contains(want, o) })
	if !slices.Equal(mine, want) {
		t.Errorf("opened: %v, want %v", p.Opens, want)
	}
	if read(t, s, &p); slices.ContainsFunc(p.Opens, func(o sensor.Open) bool { return slices.Contains(want, o) }) {
		t.Errorf("told again: %v", p.Opens)
	}
}

// TestOpensFull opens more devices than there is room for: lost opens are counted.
func TestOpensFull(t *testing.T) {
	s := openOpens(t)
	var p sensor.Pass
	read(t, s, &p)
	const n = 3000
	name := filepath.Join(t.TempDir(), "node")
	for i := range n {
		if err := unix.Mknod(name, unix.S_IFCHR|0o600, int(unix.Mkdev(226, uint32(i)))); err != nil {
			t.Skipf("make a node of a device: %v", err)
		}
		if f, err := os.Open(name); err == nil {
			_ = f.Close()
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	read(t, s, &p)
	kept := len(p.Opens)
	if kept == 0 || kept >= n {
		t.Errorf("%d of %d opens are told", kept, n)
	}
	before := s.Missed()
	if f, err := os.Open(node(t, 226, 77)); err == nil {
		_ = f.Close()
	}
	if read(t, s, &p); len(p.Opens) == 0 || s.Missed()-before+uint64(kept) != n {
		t.Errorf("%d of %d opens are told, %d counted as missed", kept, n, s.Missed()-before)
	}
}

// BenchmarkOpens shows what opens and closes of a file cost while opens of GPUs are traced.
func BenchmarkOpens(b *testing.B) {
	file := filepath.Join(b.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		b.Fatal(err)
	}
	all := func(b *testing.B, with string) {
		for _, f := range []struct{ what, name string }{{"file", file}, {"null", "/dev/null"}} {
			b.Run(f.what+"/"+with, func(b *testing.B) {
				for b.Loop() {
					if fd, err := unix.Open(f.name, unix.O_RDONLY, 0); err == nil {
						_ = unix.Close(fd)
					}
				}
			})
		}
	}
	all(b, "without")
	s := openOpens(b)
	all(b, "traced")
	_ = s
}

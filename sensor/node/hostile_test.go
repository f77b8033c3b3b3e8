package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reckon/metric"
)

// write makes a file with its folders.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestManyInterfaces has 4,096 devices, as hosts full of virtual machines do. Each has its series, those without hardware behind them are
// not asked for their speed, and what vanishes is forgotten.
func TestManyInterfaces(t *testing.T) {
	const devices = 4096
	root := t.TempDir()
	table := func(n int) string {
		var b strings.Builder
		b.WriteString("Inter-|   Receive  |  Transmit\n face |bytes packets\n")
		for i := range n {
			fmt.Fprintf(&b, "tap%04d: %d 2 3 4 5 6 7 8 %d 10 11 12 13 14 15 16\n", i, i, 2*i)
		}
		return b.String()
	}
	for _, at := range []string{"/proc/net/dev", "/proc/1/net/dev", "/proc/self/net/dev"} {
		write(t, root+at, table(devices))
	}
	for i := range devices {
		if err := os.MkdirAll(fmt.Sprintf("%s/sys/class/net/tap%04d", root, i), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n, err := NewNetwork(root)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	var b metric.Batch
	for range 2 {
		b.Reset(time.Time{})
		if err := n.Read(&b); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.Samples) != devices*len(netColumns) || b.Samples[len(b.Samples)-8].Value != 2*(devices-1) {
		t.Errorf("%d samples", len(b.Samples))
	}
	for _, at := range []string{"/proc/net/dev", "/proc/1/net/dev", "/proc/self/net/dev"} {
		write(t, root+at, table(3))
	}
	b.Reset(time.Time{})
	if err := n.Read(&b); err != nil || len(b.Samples) != 3*len(netColumns) || len(n.devices) != 3 {
		t.Errorf("%d samples and %d devices are left, want those of three: %v", len(b.Samples), len(n.devices), err)
	}
	if c, err := NewNetclass(root); err == nil {
		t.Errorf("%d devices without hardware are asked for their speed", len(c.devices))
	}
}

// TestStoppedServer has a FUSE file system in the kernel that nobody serves any more: readings go on without it, and one thread of
// ours is stuck in it, however often we read.
func TestStoppedServer(t *testing.T) {
	root := t.TempDir()
	point := root + "/mnt"
	write(t, root+"/proc/1/mounts", "nobody /mnt fuse.test rw 0 0\n/dev/sda1 / ext4 rw 0 0\n")
	if err := os.Mkdir(point, 0o755); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("open /dev/fuse: %v", err)
	}
	if err := unix.Mount("nobody", point, "fuse.test", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)); err != nil {
		_ = unix.Close(fd)
		t.Skipf("mount a FUSE file system: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(point, unix.MNT_DETACH) })
	f, err := NewFilesystem(root)
	if err != nil {
		t.Fatal(err)
	}
	f.wait = 50 * time.Millisecond
	for range 5 {
		var b metric.Batch
		if err := f.Read(&b); err != nil {
			t.Fatal(err)
		}
		absent, sizes := 0.0, 0
		for _, m := range b.Samples {
			switch m.Series.Desc.Name {
			case "node_filesystem_device_error":
				absent += m.Value
			case "node_filesystem_size_bytes":
				sizes++
			}
		}
		if absent != 1 || sizes != 1 {
			t.Fatalf("%v mounts without an answer and %d with, want 1 and 1", absent, sizes)
		}
	}
	if n := inFUSE(t); n != 1 {
		t.Errorf("%d threads are stuck in the file system, want 1", n)
	}
	_ = unix.Close(fd)                        // the kernel gives up for the server
	for start := time.Now(); inFUSE(t) > 0; { // its thread wakes up on its own
		if time.Since(start) > 2*time.Minute {
			t.Fatal("a thread is still stuck after two minutes")
		}
		var b metric.Batch
		if err := f.Read(&b); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// inFUSE counts our threads that wait for an answer of a FUSE file system.
func inFUSE(t *testing.T) (n int) {
	t.Helper()
	stacks, err := filepath.Glob("/proc/self/task/*/stack")
	if err != nil || len(stacks) == 0 {
		t.Skipf("no stacks of threads: %v", err)
	}
	for _, s := range stacks {
		if text, err := os.ReadFile(s); err == nil && strings.Contains(string(text), "fuse_") {
			n++
		}
	}
	return n
}

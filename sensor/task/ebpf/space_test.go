package ebpf

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// TestIdleIsSeen tests what others do to a process that does not run: it is reported within 32 passes.
func TestIdleIsSeen(t *testing.T) {
	s := open(t, Options{})
	c := exec.Command("cat")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Skip("not available here: ", err)
	}
	defer func() { _ = in.Close(); _ = c.Wait() }()
	_, _ = in.Write([]byte("x"))
	_, _ = out.Read(make([]byte, 1)) // it runs, and waits again
	var p sensor.Pass
	anon := func() uint64 {
		read(t, s, &p)
		q := live(&p, c.Process.Pid)
		if q == nil {
			t.Fatal("it is not reported")
		}
		return q.Anon
	}
	for range 5 {
		anon()
	}
	before := anon()
	took := writeStack(t, c.Process.Pid)
	for i := range 33 {
		if anon() >= before+took*9/10 {
			t.Logf("seen in pass %d", i)
			return
		}
	}
	t.Errorf("%d bytes of its memory were taken for it, it has %d, before %d", took, anon(), before)
}

// writeStack writes into the stack of a process, below what it uses, as a debugger does, so that
// it has more memory without having run. It returns how many bytes more.
func writeStack(t *testing.T, pid int) uint64 {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Skip("not available here: ", err)
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_WRONLY, 0)
	if err != nil {
		t.Skip("not available here: ", err)
	}
	defer mem.Close()
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		if n, _ := fmt.Sscanf(line, "%x-%x rw-p", &from, &to); n != 2 || !strings.Contains(line, "[stack]") {
			continue
		}
		took := uint64(0)
		for at := from; at < to-int64(os.Getpagesize())*8; at += int64(os.Getpagesize()) {
			if _, err := mem.WriteAt([]byte{0}, at); err != nil {
				t.Skip("not available here: ", err)
			}
			took += uint64(os.Getpagesize())
		}
		return took
	}
	t.Skip("it has no stack")
	return 0
}

// TestSharedSpace tests that the memory of an address space is reported once while two processes share it: a child of posix_spawn(3) that
// waits for somebody to open a pipe before it runs its program.
func TestSharedSpace(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	const script = `import os,sys; held=bytearray(b"x")*(48<<20); print("ready",flush=True)
os.waitpid(os.posix_spawn("/bin/true",["true"],{},file_actions=[(os.POSIX_SPAWN_OPEN,9,sys.argv[1],os.O_RDONLY,0)]),0); print("over",flush=True); sys.stdin.read()`
	c := exec.Command("python3", "-c", script, pipe)
	in, _ := c.StdinPipe()
	out, _ := c.StdoutPipe()
	if err := c.Start(); err != nil {
		t.Skip("not available here: ", err)
	}
	defer func() {
		if w, err := os.OpenFile(pipe, os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
			_ = w.Close()
		}
		_ = in.Close()
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	s := open(t, Options{})
	var p sensor.Pass
	var word string
	if _, err := fmt.Fscan(out, &word); err != nil {
		t.Skip("not available here: ", err)
	}
	of := func() (parent, child *sensor.Process) {
		read(t, s, &p)
		for i := range p.Live {
			if p.Live[i].PPID == int32(c.Process.Pid) {
				child = &p.Live[i]
			}
		}
		return live(&p, c.Process.Pid), child
	}
	found := false
	for range 100 {
		if _, child := of(); child != nil {
			found = true
			break
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 1e7}, nil)
	}
	if !found {
		t.Skip("no child of posix_spawn")
	}
	for range 3 { // whether it was reported in full or as in the last pass
		parent, child := of()
		if parent.Anon < 48<<20 || child.Anon+child.File+child.PeakBytes != 0 || child.Space != parent.Space || parent.Space == 0 {
			t.Fatalf("the parent has %d bytes, the child %d, space %x and %x", parent.Anon, child.Anon, parent.Space, child.Space)
		}
	}
	w, err := os.OpenFile(pipe, os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	_, _ = fmt.Fscan(out, &word)
	if parent, _ := of(); parent.Anon < 48<<20 {
		t.Errorf("then the parent has %d bytes", parent.Anon)
	}
}

// TestHugePages tests explicit huge pages of a process, where the machine has some to give.
func TestHugePages(t *testing.T) {
	const size = 4 << 20
	const pool = "/proc/sys/vm/nr_hugepages"
	if was, err := os.ReadFile(pool); err == nil && os.WriteFile(pool, []byte("8"), 0) == nil {
		defer func() { _ = os.WriteFile(pool, was, 0) }()
	}
	block, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_HUGETLB)
	if err != nil {
		t.Skip("not available here: ", err)
	}
	defer func() { _ = unix.Munmap(block) }()
	block[0], block[size-1] = 1, 1
	s := open(t, Options{})
	var p sensor.Pass
	read(t, s, &p)
	if q := live(&p, os.Getpid()); q.Huge != size {
		t.Errorf("%d bytes in huge pages, want %d", q.Huge, size)
	}
}

package procfs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// python starts a script that prints a word when it is ready, and ends it with the test.
func python(t *testing.T, script string, args ...string) int {
	t.Helper()
	c := exec.Command("python3", append([]string{"-c", script}, args...)...)
	in, _ := c.StdinPipe()
	out, _ := c.StdoutPipe()
	if err := c.Start(); err != nil {
		t.Skip("not available here: ", err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = c.Process.Kill(); _ = c.Wait() })
	var word string
	if _, err := fmt.Fscan(out, &word); err != nil {
		t.Skip("not available here: ", err)
	}
	return c.Process.Pid
}

// TestSharedSpace tests that the memory of an address space is reported once while two processes share it: a child of posix_spawn(3) that
// waits for somebody to open a pipe before it runs its program.
func TestSharedSpace(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	release := func() {
		if w, err := os.OpenFile(pipe, os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
			_ = w.Close()
		}
	}
	pid := python(t, `import os,sys; held=bytearray(b"x")*(48<<20); print("ready",flush=True)
os.posix_spawn("/bin/sleep",["sleep","9"],{},file_actions=[(os.POSIX_SPAWN_OPEN,9,sys.argv[1],os.O_RDONLY,0)]); sys.stdin.read()`, pipe)
	defer release()
	s := open(t, Options{})
	var p sensor.Pass
	of := func() (parent, child *sensor.Process) {
		p.Reset()
		if err := s.Read(&p); err != nil {
			t.Fatal(err)
		}
		for i := range p.Live {
			if p.Live[i].PPID == int32(pid) {
				child = &p.Live[i]
			}
		}
		return find(&p, int32(pid)), child
	}
	var parent, child *sensor.Process
	for range 100 {
		if parent, child = of(); child != nil {
			break
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 1e7}, nil)
	}
	if child == nil {
		t.Skip("no child of posix_spawn")
	}
	if parent.Space == 0 {
		t.Skip("no kcmp(2) here")
	}
	for range 3 {
		parent, child = of()
		if parent.Anon < 48<<20 || child.Anon+child.File+child.PeakBytes != 0 || child.Space != parent.Space {
			t.Fatalf("the parent has %d bytes, the child %d, space %d and %d", parent.Anon, child.Anon, parent.Space, child.Space)
		}
	}
	for range 100 { // then it runs its program, and has memory of its own
		release()
		unix.Nanosleep(&unix.Timespec{Nsec: 2e7}, nil)
		if parent, child = of(); child != nil && child.Space == 0 {
			break
		}
	}
	if child == nil || child.Space != 0 || child.File == 0 || parent.Anon < 48<<20 {
		t.Errorf("then the parent %+v, the child %+v", parent, child)
	}
}

// TestLeaderless tests a process without its first thread, while another one works on: its memory is the memory of all.
func TestLeaderless(t *testing.T) {
	pid := python(t, `import ctypes,os,sys,threading
def work():
    held=bytearray(b"x")*(48<<20); print("ready",flush=True); sys.stdin.read(); os._exit(0)
threading.Thread(target=work).start(); ctypes.CDLL(None).syscall(int(sys.argv[1]),0)`, strconv.Itoa(unix.SYS_EXIT))
	s := open(t, Options{})
	var p sensor.Pass
	for range 3 {
		p.Reset()
		if err := s.Read(&p); err != nil {
			t.Fatal(err)
		}
		q := find(&p, int32(pid))
		if q == nil || q.State != 'Z' || q.Threads < 2 {
			t.Fatalf("it is %+v", q)
		}
		if q.Anon < 48<<20 || q.Have&sensor.FieldMemory == 0 {
			t.Errorf("%d bytes of memory, want those of its other thread", q.Anon)
		}
	}
}

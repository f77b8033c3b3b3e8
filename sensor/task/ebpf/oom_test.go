package ebpf

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// memoryGroup makes a cgroup that holds 16 MiB at most, of whichever version controls
// memory here, and returns the file that takes a process into it.
func memoryGroup(t *testing.T) (procs string) {
	t.Helper()
	for limit, parent := range map[string]string{"memory.limit_in_bytes": "/sys/fs/cgroup/memory", "memory.max": "/sys/fs/cgroup"} {
		if _, err := os.Stat(filepath.Join(parent, "cgroup.procs")); err != nil {
			continue
		}
		dir := filepath.Join(parent, "reckon-test-oom")
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
		if _, err := os.Stat(filepath.Join(dir, limit)); err != nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, limit), []byte("16777216"), 0o644); err == nil {
			return filepath.Join(dir, "cgroup.procs")
		}
	}
	t.Skip("no cgroup can be made here that limits memory")
	return ""
}

// TestOOM tests that a process that the OOM killer chose is reported as such, and one that
// somebody killed, or that ended by itself, is not.
func TestOOM(t *testing.T) {
	s := openExits(t)
	procs := memoryGroup(t)
	var p sensor.Pass
	read(t, s, &p)
	for script, want := range map[string]bool{
		"echo $$ >" + procs + " && exec dd if=/dev/zero of=/dev/null bs=200M count=1 2>/dev/null": true,
		"echo $$ >" + procs + " && kill -KILL $$":                                                 false,
		"echo $$ >" + procs + " && exit 0":                                                        false,
	} {
		c := exec.Command("sh", "-c", script)
		err := c.Run()
		if got := c.ProcessState.Sys().(syscall.WaitStatus).Signal() == unix.SIGKILL; got != (want || strings.Contains(script, "KILL")) {
			t.Fatalf("%s: %v", script, err)
		}
		found := false
		for range 300 {
			read(t, s, &p)
			q := gonePID(&p, c.Process.Pid)
			if q == nil {
				unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
				continue
			}
			if found = true; q.OOMKilled != want {
				t.Errorf("%s: told as killed by the OOM killer: %v", script, q.OOMKilled)
			}
			break
		}
		if !found {
			t.Errorf("%s: not reported as ended", script)
		}
	}
}

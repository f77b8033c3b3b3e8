//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"reckon/figure"
)

// TestLimits holds, for each source of processes, that no figure which its limits make wrong is marked as exact: what ended threads waited
// and wrote after their process had waited for a child, and what was deleted before it reached storage.
func TestLimits(t *testing.T) {
	for name, args := range map[string][]string{
		"ebpf":      {"--source", "ebpf"},
		"taskstats": {"--source", "procfs", "--set", "exits=taskstats"},
		"procfs":    {"--source", "procfs", "--set", "exits=none"},

		"unprivileged": nil,
	} {
		t.Run(name, func(t *testing.T) {
			as := func(*exec.Cmd) {}
			room := t.TempDir
			if name == "unprivileged" { // both the agent and the load, so that it may read the load's files
				if os.Getuid() != 0 {
					t.Skip("not root: the other cases have no privileges either")
				}
				bin, err := build()
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(bin, 0o755); err != nil {
					t.Fatal(err)
				}
				as = func(c *exec.Cmd) {
					c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
				}
				room = func() string { return openRoom(t) }
			}
			u := start(t, "up", room(), append(args, "--export", "5s"), as)
			pause(7 * time.Second) // past the first export: what was before is at least
			for what, more := range map[string]string{"threads that write": "-hold=2s", "threads that delete": "-delete"} {
				cmd := exec.Command(program(t, "load"), "-procs", "1", "-burn", "1100ms", "-threads", "100", "-dir", room(), "-hold", "2s",
					more)
				as(cmd)
				l := runCmd(t, cmd)
				w := u.find(l.PGID)
				exact := 0
				for key, c := range map[string]struct {
					got  *float64
					want float64
				}{"cpu_wait_seconds": {w.CPUWaitSeconds, l.Wait}, "io_write_bytes": {w.WriteBytes, l.Reached}} {
					degree := w.Exactness[key]
					if c.got == nil {
						t.Logf("%s: %s is not known", what, key)
						continue
					}
					slack := c.want/20 + 1<<20
					if key == "cpu_wait_seconds" {
						slack = c.want/2 + 1 // other threads of the load wait, too
					}
					low, high := *c.got < c.want-slack, *c.got > c.want+slack
					said := fmt.Sprintf("%s: %s is %.4g, %v; the kernel says %.4g", what, key, *c.got, degree, c.want)
					t.Log(said)
					if low && degree != figure.AtLeast && degree != figure.Estimated || high && degree != figure.AtMost &&
						degree != figure.Estimated {
						t.Error(said)
					}
					if degree == figure.Exact {
						exact++
					}
				}
				if name == "ebpf" && more != "-delete" && exact == 0 {
					t.Errorf("%s: nothing is exact", what)
				}
			}
		})
	}
}

// openRoom makes a folder that everybody may write to, and that no folder above closes.
func openRoom(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "reckon-e2e-")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})
	return dir
}

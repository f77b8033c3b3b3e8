package task

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"reckon/sensor/task/procfs"
)

// TestHiddenProcesses opens the task table as a user from whom a procfs of its own hides the processes of others: it is noted, with what
// to do. Of root, and of a procfs that hides nothing, nothing is noted.
func TestHiddenProcesses(t *testing.T) {
	if os.Getenv("RECKON_HIDDEN") != "" {
		s, notes, err := Open(Options{Source: Procfs, Exits: None})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, n := range notes {
			t.Logf("note %s: %v", n.Sensor, n.Err)
		}
		return
	}
	if err := procfs.Hidden("/"); err != nil && os.Getuid() == 0 {
		t.Errorf("of root: %v", err)
	}
	if os.Getuid() != 0 {
		t.Skip("it mounts a procfs: run as root")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "hidden") // others may read it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", exe, filepath.Join(dir, "t")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, c := range []struct {
		option, user string
		noted        bool
	}{{"hidepid=2", "65534", true}, {"hidepid=1", "65534", true}, {"hidepid=0", "65534", false}, {"hidepid=2", "0", false}} {
		cmd := exec.Command("unshare", "-m", "sh", "-c", `mount --make-rprivate / && mkdir -p "$1/p" && mount -t proc -o "$2" proc "$1/p" &&
			umount -l /proc && mount --move "$1/p" /proc && cd / &&
			exec setpriv --reuid "$3" --regid "$3" --clear-groups "$1/t" -test.run='^TestHiddenProcesses$' -test.v`, "sh", dir, c.option, c.user)
		cmd.Env = append(os.Environ(), "RECKON_HIDDEN=1")
		out, err := cmd.CombinedOutput()
		if !strings.Contains(string(out), "--- PASS") {
			if strings.Contains(string(out), "not permitted") {
				t.Skipf("%s", out)
			}
			t.Fatalf("%s as %s: %v\n%s", c.option, c.user, err, out)
		}
		if got := strings.Contains(string(out), "note other-users") && strings.Contains(string(out), c.option[:7]); got != c.noted {
			t.Errorf("%s as %s: noted %v\n%s", c.option, c.user, got, out)
		}
	}
}

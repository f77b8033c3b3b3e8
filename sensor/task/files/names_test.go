package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A device is found by its number in the table of a process, by the machine's table where it has gone, and is nobody's if none has it.
func TestNames(t *testing.T) {
	root := t.TempDir()
	for pid, table := range map[string]string{
		"1":  "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n44 36 0:45 / /home/a\\040b rw - fuse.sshfs u@host:/home/a\\040b rw\n45 36 0:46 / /n rw - nfs4 fs:/home rw\n46 36 0:47 / /l rw - lustre 10.0.0.1@tcp:10.0.0.2@tcp:/scratch rw\nodd line\n",
		"77": "91 36 0:60 / /job rw,nosuid - fuse rclone: rw\n",
	} {
		if err := os.MkdirAll(filepath.Join(root, "proc", pid), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "proc", pid, "mountinfo"), []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	others := mountID{Type: "fuse", Source: "other"}
	n := mountNames{root: root, known: make(map[uint64]mountID), others: others}
	for i, c := range []struct {
		dev  uint64
		pid  int32
		want mountID
	}{
		{45, 5, mountID{Type: "fuse.sshfs", Source: "u@host:/home/a b"}},
		{60, 5, others},
		{60, 77, mountID{Type: "fuse", Source: "rclone:"}},
		{60, 5, mountID{Type: "fuse", Source: "rclone:"}},
		{46, 5, mountID{Type: "nfs", Source: "fs:/home"}},
		{47, 5, mountID{Type: "lustre", Source: "scratch"}},
		{98 << 20, 5, mountID{Type: "ext3", Source: "/dev/root", Local: true}},
		{^uint64(0) - 1, 5, others},
	} {
		if got := n.fileSystem(c.dev+1, c.pid); got != c.want {
			t.Errorf("%d: device %d of process %d is %+v, want %+v", i, c.dev, c.pid, got, c.want)
		}
	}
	for i := range uint64(maxNames) {
		n.known[1000+i] = others
	}
	if got := n.fileSystem(49, 5); got != others {
		t.Errorf("beyond %d: %+v", maxNames, got)
	}
	if got := unescapeName(strings.Repeat("ä", 300)); len(got) > maxSource {
		t.Errorf("a name of %d bytes", len(got))
	}
}

func FuzzFind(f *testing.F) {
	f.Add("44 36 0:45 / /home rw - fuse.sshfs u@host:/home rw\n", uint64(45))
	f.Fuzz(func(t *testing.T, table string, dev uint64) {
		if m, ok := findDevice(table, dev); ok && (m.Type == "" || len(m.Source) > maxSource) {
			t.Errorf("%+v", m)
		}
	})
}

// A device that no table names is looked for again, ever more rarely.
func TestUnfound(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "proc/1"), 0o755); err != nil {
		t.Fatal(err)
	}
	others := mountID{Type: "fuse", Source: "other"}
	n := mountNames{root: root, known: make(map[uint64]mountID), others: others}
	for i := 1; i <= 8; i++ {
		if i == 5 {
			if err := os.WriteFile(filepath.Join(root, "proc/1/mountinfo"), []byte("91 36 0:60 / /job rw - fuse rclone: rw\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := n.fileSystem(61, 5); got != others != (i == 8) {
			t.Errorf("time %d: %+v", i, got)
		}
	}
	if n.fileSystem(61, 5) == others || len(n.unfound) != 0 {
		t.Errorf("it is forgotten again: %v", n.unfound)
	}
}

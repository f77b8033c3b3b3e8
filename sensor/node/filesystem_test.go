package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"reckon/internal/sysfs"
	"reckon/metric"
)

// TestDeadServer has one file system that does not respond: the others are exported, the
// reading does not wait for it twice, and it returns when its server does.
func TestDeadServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := NewFilesystem("testdata/vm")
		if err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		var asked atomic.Int32
		f.wait = 20 * time.Millisecond
		f.statfs = func(path []byte, s *unix.Statfs_t) error {
			*s = unix.Statfs_t{Bsize: 1, Blocks: 7}
			if strings.HasSuffix(string(path), "/dead\x00") {
				asked.Add(1)
				<-release
			}
			return nil
		}
		read := func() (errors int, sizes int) {
			var b metric.Batch
			if err := f.Read(&b); err != nil {
				t.Fatal(err)
			}
			for _, m := range b.Samples {
				switch m.Series.Desc.Name {
				case "node_filesystem_device_error":
					errors += int(m.Value)
				case "node_filesystem_size_bytes":
					sizes++
				}
			}
			return errors, sizes
		}
		for range 3 {
			if errors, sizes := read(); errors != 1 || sizes != 3 {
				t.Fatalf("%d without an answer and %d with, want 1 and 3", errors, sizes)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times while it did not answer", n)
		}
		close(release)
		synctest.Wait()
		for range 2 { // the answer to what was asked then, and one that is asked now
			if errors, sizes := read(); errors != 0 || sizes != 4 {
				t.Errorf("%d without an answer and %d with when it is back, want none and 4", errors, sizes)
			}
		}
		if n := asked.Load(); n < 2 {
			t.Errorf("asked %d times in all, want again", n)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		`/a\040b`: "/a b", `\134x\011`: "\\x\t", `\777`: `\777`, `\04`: `\04`, `a\`: `a\`, `\012`: "\n", `\377`: "\xff",
	} {
		if got := sysfs.Unescape(in); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

// TestIgnoredMounts: mounts of containers are left out, and no others with the same prefix.
func TestIgnoredMounts(t *testing.T) {
	for point, ignored := range map[string]bool{
		"/": false, "/home": false, "/var/lib/kubelet": false, "/var/lib/kubelet/pods": false, "/var/lib/kubelet/podsold": false,
		"/procedure": false, "/dev": true, "/dev/shm": true,
		"/var/lib/kubelet/pods/0b7c2a55/volumes/kubernetes.io~csi/pvc-5d3c/mount": true, "/var/lib/docker/overlay2/x/merged": true,
		"/srv/var/lib/kubelet/pods/x":                                  false,
		"/run/containerd/io.containerd.grpc.v1.cri/sandboxes/5d3c/shm": true, "/run/k3s/containerd/x/shm": true,
		"/run/containers/storage/overlay-containers/5d3c/userdata/shm": true,
		"/run": false, "/run/containerd": false, "/run/containers": false, "/run/user/1000": false,
	} {
		if got := ignoredMounts().MatchString(point); got != ignored {
			t.Errorf("%s: %v", point, got)
		}
	}
}

// Of thousands of mounts root's local ones come first, and those of a user have a bound of their own; what is left out is counted, and
// shown when it is nearly full.
func TestManyMounts(t *testing.T) {
	root := t.TempDir()
	var text strings.Builder
	for i := range 30 {
		fmt.Fprintf(&text, "srv:/e%d /nfs/%d nfs4 rw 0 0\n", i, i)
	}
	for i := range 3300 {
		fmt.Fprintf(&text, "tank/d%d /tank/%d zfs rw,xattr 0 0\n", i, i)
	}
	for i := range 40 {
		fmt.Fprintf(&text, "sshfs%d /home/a/%d fuse.sshfs rw,nosuid,user_id=1000,group_id=1000 0 0\n", i, i)
	}
	text.WriteString("mine /home/b/x fuse.sshfs rw,user_id=1001,group_id=1001 0 0\n/dev/sda1 / ext4 ro 0 0\n")
	if err := os.MkdirAll(filepath.Join(root, "proc/1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "proc/1/mounts"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := NewFilesystem(root)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	full := true
	f.statfs = func(path []byte, s *unix.Statfs_t) error {
		*s = unix.Statfs_t{Bsize: 1, Blocks: 100, Bavail: 50}
		if full && strings.HasSuffix(string(path), "/tank/3299\x00") {
			s.Bavail = 9
		}
		return nil
	}
	read := func() (points map[string]bool, kinds map[string]int, left float64) {
		var b metric.Batch
		if err := f.Read(&b); err != nil {
			t.Fatal(err)
		}
		points, kinds = map[string]bool{}, map[string]int{}
		for _, s := range b.Samples {
			switch s.Series.Desc.Name {
			case "node_filesystem_size_bytes":
				points[s.Series.Values[1]] = true
				kinds[s.Series.Values[2]]++
			case mountsLeft.Name:
				left = s.Value
			}
		}
		return points, kinds, left
	}
	points, kinds, left := read()
	if kinds["zfs"] != 256 || !points["/"] || kinds["nfs4"] != 0 || kinds["fuse.sshfs"] != 17 || !points["/home/b/x"] || !points["/tank/3299"] {
		t.Errorf("%v; the other user's %v, the full one %v", kinds, points["/home/b/x"], points["/tank/3299"])
	}
	if want := float64(30 + 3300 + 40 + 2 - 256 - 1 - 17); left != want {
		t.Errorf("%v left out, want %v", left, want)
	}
	full = false
	if points, _, _ = read(); points["/tank/3299"] {
		t.Error("one that is not full any more is shown")
	}
}

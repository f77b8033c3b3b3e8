package node

import (
	"strings"
	"sync/atomic"
	"testing"

	"reckon/internal/sysfs"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

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

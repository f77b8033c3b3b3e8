package podstorage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

const uid = "0b7c2a55-3d0c-4b0e-9d8e-1a2b3c4d5e6f"

// mounted is what a node of Kubernetes 1.34.4 with containerd 2.2.9 (test/e2e/beds/k8s) mounts for a pod, with volumes of a claim and of
// NFS added.
const mounted = `812 780 0:95 / /var/lib/kubelet/pods/UID/volumes/kubernetes.io~empty-dir/mem rw,relatime shared:301 - tmpfs tmpfs rw,size=16384k,inode64
813 780 0:96 / /var/lib/kubelet/pods/UID/volumes/kubernetes.io~projected/kube-api-access-x2x rw,relatime shared:302 - tmpfs tmpfs rw,size=65536k
814 780 8:17 / /var/lib/kubelet/pods/UID/volumes/kubernetes.io~csi/pvc-5d3c/mount rw,relatime shared:303 - ext4 /dev/sdb1 rw
815 780 0:97 / /var/lib/kubelet/pods/UID/volumes/kubernetes.io~nfs/with\040blank rw,relatime shared:304 - nfs4 server:/export rw
816 780 0:98 / /run/containerd/io.containerd.runtime.v2.task/k8s.io/c1/rootfs rw,relatime shared:305 - overlay overlay rw,lowerdir=/l,upperdir=/var/lib/containerd/s/7/fs,workdir=/w
817 780 8:1 /x /var/lib/kubelet/pods/UID/volume-subpaths/a/b/0 rw,relatime - ext4 /dev/sda1 rw
`

func TestMounts(t *testing.T) {
	tr := newTree("/host", "/var/lib/kubelet")
	got := tr.parseMounts([]byte(strings.ReplaceAll(mounted, "UID", uid)))
	want := []mount{
		{"empty-dir", "mem", "tmpfs", "/host/var/lib/kubelet/pods/" + uid + "/volumes/kubernetes.io~empty-dir/mem"},
		{"csi", "pvc-5d3c", "ext4", "/host/var/lib/kubelet/pods/" + uid + "/volumes/kubernetes.io~csi/pvc-5d3c/mount"},
		{"nfs", "with blank", "nfs4", "/host/var/lib/kubelet/pods/" + uid + "/volumes/kubernetes.io~nfs/with blank"},
	}
	if len(got) != 1 || !slices.Equal(got[uid], want) {
		t.Errorf("%+v", got)
	}
	if other := newTree("/", "/var/lib/other"); len(other.parseMounts([]byte(mounted))) != 0 {
		t.Error("mounts of another folder are a kubelet's")
	}
}

func TestUpperDir(t *testing.T) {
	for what, x := range map[string]struct{ text, want string }{
		"a container":    {"1 2 0:9 / / rw - overlay overlay rw,lowerdir=/a:/b,upperdir=/var/lib/c/fs,workdir=/w\n", "/var/lib/c/fs"},
		"a blank":        {`1 2 0:9 / / rw - overlay overlay rw,upperdir=/var/a\040b,workdir=/w`, "/var/a b"},
		"read-only":      {"1 2 0:9 / / ro - overlay overlay ro,lowerdir=/a:/b\n", ""},
		"a disk":         {"1 2 8:1 / / rw - ext4 /dev/sda1 rw\n", ""},
		"another mount":  {"1 2 0:9 / /x rw - overlay overlay rw,upperdir=/u\n1 2 8:1 / / rw - ext4 /dev/sda1 rw,upperdir=/v\n", ""},
		"nothing":        {"", ""},
		"half a line":    {"1 2 0:9 / / rw - overlay", ""},
		"optional field": {"1 2 0:9 / / rw shared:5 master:6 - overlay overlay rw,upperdir=/u\n", "/u"},
	} {
		if got := upperDir([]byte(x.text)); got != x.want {
			t.Errorf("%s: %q", what, got)
		}
	}
}

// fill writes a file of a size and returns what it takes on disk.
func fill(t *testing.T, name string, size int) uint64 {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	return blocks(t, name)
}

// TestWalk: links of one file count once, links elsewhere are not followed, folders count themselves.
func TestWalk(t *testing.T) {
	dir := t.TempDir()
	want := fill(t, filepath.Join(dir, "a/b/file"), 300_000) + fill(t, filepath.Join(dir, "small"), 1)
	if err := os.Link(filepath.Join(dir, "small"), filepath.Join(dir, "a/twice")); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "large")
	fill(t, outside, 5_000_000)
	if err := os.Symlink(outside, filepath.Join(dir, "a/link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dir, filepath.Join(dir, "a"), filepath.Join(dir, "a/b"), filepath.Join(dir, "a/link")} {
		want += blocks(t, name)
	}
	got, err := (&walkTarget{path: dir}).measure()
	if err != nil || got != want {
		t.Errorf("%d, %v, want %d", got, err, want)
	}
	if _, err := (&walkTarget{Amount: Amount{Kind: Logs}, path: dir}).measure(); !errors.Is(err, errElsewhere) {
		t.Errorf("logs that lie elsewhere: %v", err)
	}
	if got, err := (&walkTarget{path: filepath.Join(dir, "gone")}).measure(); got != 0 || err != nil {
		t.Errorf("what is gone: %d, %v", got, err)
	}
	if got, err := (&walkTarget{path: filepath.Join(dir, "a/link")}).measure(); got != 0 || err != nil {
		t.Errorf("a link in place of the folder: %d, %v", got, err)
	}
}

// TestWalkBounds: on both sides of each bound.
func TestWalkBounds(t *testing.T) {
	dir := t.TempDir()
	const last = 10
	for i := range last {
		fill(t, filepath.Join(dir, fmt.Sprint(i)), 0)
	}
	met := func(before int) error {
		w := walker{linked: map[uint64]bool{}, files: before}
		return w.addFolder(unix.AT_FDCWD, dir, 0)
	}
	if err := met(maxFiles - last); err != nil {
		t.Errorf("%d files: %v", maxFiles, err)
	}
	if err := met(maxFiles - last + 1); !errors.Is(err, errManyFiles) {
		t.Errorf("a file more: %v", err)
	}
	deep := t.TempDir()
	if err := os.MkdirAll(deep+strings.Repeat("/d", maxDepth), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := (&walkTarget{path: deep}).measure(); err != nil {
		t.Errorf("%d deep: %v", maxDepth, err)
	}
	if err := os.MkdirAll(deep+strings.Repeat("/d", maxDepth+1), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := (&walkTarget{path: deep}).measure(); !errors.Is(err, errDeep) {
		t.Errorf("a folder deeper: %v", err)
	}
}

// TestReader measures a node in a folder: an emptyDir on its disk, one that is a file system of its own, logs and a writable layer. What
// ended is not given any more, nor what could not be measured again.
func TestReader(t *testing.T) {
	root := t.TempDir()
	pods := filepath.Join(root, "var/lib/kubelet/pods", uid, "volumes")
	fill(t, filepath.Join(pods, "kubernetes.io~empty-dir/disk/data"), 1<<20)
	fill(t, filepath.Join(pods, "kubernetes.io~empty-dir/mem/data"), 1<<20)
	fill(t, filepath.Join(pods, "kubernetes.io~configmap/settings/x"), 1<<20)
	fill(t, filepath.Join(root, "var/log/pods/shop_cart-x_"+uid, "main/0.log"), 40_000)
	fill(t, filepath.Join(root, "var/lib/containerd/s/7/fs/etc/new"), 20_000)
	write(t, filepath.Join(root, "proc/1/mountinfo"), fmt.Sprintf("1 2 0:95 / /var/lib/kubelet/pods/%s/volumes/kubernetes.io~empty-dir/mem rw - tmpfs tmpfs rw\n", uid))
	write(t, filepath.Join(root, "proc/77/mountinfo"), "1 2 0:9 / / rw - overlay overlay rw,upperdir=/var/lib/containerd/s/7/fs,workdir=/w\n")

	synctest.Test(t, func(t *testing.T) {
		r := New(root, "/var/lib/kubelet")
		defer r.Close()
		r.Set([]Pod{{UID: uid, Namespace: "shop", Name: "cart-x", Containers: []Container{{"main", 77, ""}, {"gone", 78, ""}}}})
		synctest.Wait()
		if err := r.Err(); err != nil {
			t.Error(err)
		}
		got := map[string]Amount{}
		for _, a := range r.Amounts(uid) {
			got[fmt.Sprint(a.Kind, " ", a.Plugin, "/", a.Name)] = a
		}
		for name, least := range map[string]uint64{"0 empty-dir/disk": 1 << 20, "2 /main": 40_000, "1 /main": 20_000} {
			a, ok := got[name]
			if !ok || a.Used < least || a.Used > least+64<<10 || a.Capacity != 0 {
				t.Errorf("%s: %+v, %v", name, a, ok)
			}
		}
		// The file system that the folder stands for here is the test's own.
		if a := got["0 empty-dir/mem"]; a.Capacity == 0 || a.Used > a.Capacity {
			t.Errorf("mem: %+v", a)
		}
		if len(got) != 4 {
			t.Errorf("%v", got)
		}
		if r.Amounts("another") != nil {
			t.Error("another pod has amounts")
		}
		for range 5 { // it never waits, whatever comes and goes
			r.Set(nil)
			r.Set([]Pod{{UID: "x"}})
		}
		r.Set(nil)
		<-time.After(2 * minRoundInterval)
		synctest.Wait()
		if a := r.Amounts(uid); a != nil {
			t.Errorf("of a pod that is gone: %v", a)
		}
	})
}

// TestSilentFileSystem: one that does not answer holds up a round for a moment, is not asked twice, and has no amount.
func TestSilentFileSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(t.TempDir(), "/k")
		defer r.Close()
		m := mount{plugin: "nfs", name: "dead", fstype: "nfs4", path: "/dead"}
		c := &statfsCall{done: make(chan struct{})}
		r.asked[m.path] = c
		for range 2 {
			began := time.Now()
			if _, err := r.queryStatfs(m); err == nil || !strings.Contains(err.Error(), "volume dead (nfs4) does not answer") || time.Since(began) != maxStatfsWait {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		}
		c.s = diskSpace{1, 2}
		close(c.done)
		if s, err := r.queryStatfs(m); err != nil || s != (diskSpace{1, 2}) || len(r.asked) != 0 {
			t.Errorf("its late answer: %v, %v", s, err)
		}
	})
}

// TestLayers: the writable layer of a container is read until two rounds have found the same, again for another container of the name, and
// in each round where no id is known.
func TestLayers(t *testing.T) {
	root := t.TempDir()
	table := filepath.Join(root, "proc/77/mountinfo")
	tr := newTree(root, "/k")
	var known layerIDs
	for i, round := range []struct{ id, now, want string }{
		{"c1", "/machine", "/machine"}, // of the runtime's process, before it enters the container
		{"c1", "/one", "/one"}, {"c1", "/one", "/one"}, {"c1", "/two", "/one"}, {"c1", "", "/one"},
		{"c2", "/two", "/two"}, {"c1", "/three", "/three"},
		{"", "/four", "/four"}, {"", "/four", "/four"}, {"", "/five", "/five"},
	} {
		write(t, table, "1 2 0:9 / / rw - overlay overlay rw,lowerdir=/l,upperdir="+round.now+",workdir=/w\n")
		known.beginRound()
		got := tr.writableLayers(&Pod{Containers: []Container{{"main", 77, round.id}}}, &known)
		if len(got) != 1 || got[0].path != root+round.want {
			t.Errorf("round %d: %+v, want %s", i, got, round.want)
		}
	}
}

func FuzzMounts(f *testing.F) {
	f.Add([]byte(strings.ReplaceAll(mounted, "UID", uid)))
	f.Add([]byte(`1 2 0:9 / /\777\0 rw - overlay o rw,upperdir=\1`))
	tr := newTree("/", "/var/lib/kubelet")
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, list := range tr.parseMounts(text) {
			for _, m := range list {
				if m.name == "" && m.plugin == "" {
					t.Errorf("%+v", m)
				}
			}
		}
		upperDir(text)
	})
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// blocks is the size of a file on disk, in bytes.
func blocks(t *testing.T, name string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil {
		t.Fatal(err)
	}
	return uint64(st.Blocks) * 512 //nolint:gosec // a number of blocks
}

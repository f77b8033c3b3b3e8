package ebpf

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"reckon/internal/cgpath"
	"reckon/sensor"
)

// makeCgroup makes a cgroup in the unified hierarchy, below our own.
func makeCgroup(t *testing.T, name string) (dir, path string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Skip("not available here: ", err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skip("not available here: ", err)
	}
	base := ""
	for line := range strings.Lines(string(own)) {
		if v, ok := strings.CutPrefix(line, "0::"); ok {
			base = strings.TrimSpace(v)
		}
	}
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) > 5 && strings.Contains(line, " - cgroup2 ") && f[3] == "/" {
			path = filepath.Join(base, name)
			dir = filepath.Join(f[4], path)
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Skipf("make a cgroup: %v", err)
			}
			t.Cleanup(func() { _ = os.Remove(dir) })
			return dir, path
		}
	}
	t.Skip("no cgroup v2 hierarchy is mounted")
	return "", ""
}

func has(paths []sensor.CgroupPath, path string) bool {
	for _, p := range paths {
		if p.Controllers == "" && p.Path == path {
			return true
		}
	}
	return false
}

// TestMove tests that the number changes when a process moves, and back when it moves back.
func TestMove(t *testing.T) {
	s := open(t, Options{})
	dir, path := makeCgroup(t, "reckon test, move")
	c, _, end := start(t, "hold", nil)
	var p sensor.Pass
	number := func() uint64 {
		read(t, s, &p)
		q := live(&p, c.Process.Pid)
		if q == nil {
			t.Fatal("our child is not reported")
		}
		return q.Cgroup
	}
	before := number()
	if own := live(&p, os.Getpid()).Cgroup; own != before {
		t.Errorf("our child has %x, we %x", before, own)
	}
	put := func(dir string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(c.Process.Pid)), 0); err != nil {
			t.Skipf("move a process: %v", err)
		}
	}
	put(dir)
	moved := number()
	if moved == before || moved == 0 {
		t.Errorf("after the move %x, before %x", moved, before)
	}
	if paths, ok := s.CgroupPaths(moved); !ok || !has(paths, path) {
		t.Errorf("it is in %v, want %s", paths, path)
	}
	put(filepath.Dir(dir))
	if back := number(); back != before {
		t.Errorf("back where it was %x, want %x", back, before)
	}
	end()
}

// TestShortCgroup tests that the path of a cgroup is known that came and went between two passes, with the
// only process in it.
func TestShortCgroup(t *testing.T) {
	s := openExits(t)
	var p sensor.Pass
	read(t, s, &p)
	dir, path := makeCgroup(t, "reckon test, short")
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("true")
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}
	if err := c.Run(); err != nil {
		t.Skipf("start in a cgroup: %v", err)
	}
	_ = f.Close()
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	for range 300 {
		read(t, s, &p)
		q := gonePID(&p, c.Process.Pid)
		if q == nil {
			unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
			continue
		}
		paths, ok := s.CgroupPaths(q.Cgroup)
		if !ok || !has(paths, path) {
			t.Errorf("it was in %v, want %s", paths, path)
		}
		return
	}
	t.Error("it is not reported as ended")
}

// TestPathsAgree tests that the paths are as in /proc/PID/cgroup, made absolute.
func TestPathsAgree(t *testing.T) {
	s := open(t, Options{})
	var p sensor.Pass
	read(t, s, &p)
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	origin := cgpath.FindOrigin("")
	paths, ok := s.CgroupPaths(live(&p, os.Getpid()).Cgroup)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if !ok || len(lines) != len(paths) {
		t.Fatalf("%v, /proc says\n%s", paths, text)
	}
	for i, line := range lines {
		f := strings.SplitN(line, ":", 3)
		if paths[i] != (sensor.CgroupPath{Controllers: f[1], Path: origin.Absolute(f[1], f[2])}) {
			t.Errorf("%v, /proc says %s", paths[i], line)
		}
	}
	if want := os.Getenv("RECKON_TEST_GROUP"); want != "" && !has(paths, want) {
		t.Errorf("we are in %v, want %s", paths, want)
	}
}

// TestPathsInNamespace runs TestPathsAgree in a cgroup namespace of its own: the path is
// the one outside, since the tree above it is mounted here.
func TestPathsInNamespace(t *testing.T) {
	open(t, Options{})
	dir, path := makeCgroup(t, "reckon test, namespace")
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := exec.Command("/proc/self/exe", "-test.run=^TestPathsAgree$", "-test.v")
	c.Env = append(os.Environ(), "RECKON_TEST_GROUP="+path)
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd()), Cloneflags: unix.CLONE_NEWCGROUP}
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}

package task

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"reckon/internal/cgpath"
	"reckon/sensor"
	"reckon/sensor/task/procfs"
)

// TestPathsInContainer looks at a sibling from a cgroup namespace of its own, in which version 2
// is mounted as container engines do, with the machine's tree beside it: both sources
// give its path as the machine has it.
func TestPathsInContainer(t *testing.T) {
	point, own := unified(t)
	base := point + strings.TrimSuffix(own, "/") + "/reckon-test-container"
	groups := [2]*os.File{}
	for i, name := range []string{"", "/pod1", "/pod1/agent", "/pod2", "/pod2/work"} {
		if err := os.Mkdir(base+name, 0o755); err != nil {
			t.Skipf("make a cgroup: %v", err)
		}
		t.Cleanup(func() { _ = os.Remove(base + name) })
		if i == 2 || i == 4 {
			f, err := os.Open(base + name)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			groups[i/2-1] = f
		}
	}
	work := exec.Command("sleep", "60")
	work.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(groups[1].Fd())}
	if err := work.Start(); err != nil {
		t.Skip("not available here: ", err)
	}
	defer func() { _ = work.Process.Kill(); _ = work.Wait() }()

	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(
		"sh", "-c", `mkdir "$1/host" "$1/own" && mount --bind "$2" "$1/host" && umount "$2" && mount -t cgroup2 none "$1/own" && exec `+
			`"$0" -test.run='^TestSiblingInside$' -test.v`,
		exe, t.TempDir(), point)
	want := strings.TrimPrefix(base, point) + "/pod2/work"
	c.Env = append(os.Environ(), inside+"="+want)
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(groups[0].Fd()),
		Cloneflags: unix.CLONE_NEWCGROUP | unix.CLONE_NEWNS, Unshareflags: unix.CLONE_NEWNS}
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}

// unified returns where version 2 is mounted and our own group in it.
func unified(t *testing.T) (point, own string) {
	t.Helper()
	text, _ := os.ReadFile("/proc/self/mountinfo")
	paths, _ := os.ReadFile("/proc/self/cgroup")
	for _, m := range cgpath.ParseMounts(text) {
		if m.V2 && m.Root == "/" {
			point = m.Point
		}
	}
	for line := range strings.Lines(string(paths)) {
		if p, ok := strings.CutPrefix(line, "0::"); ok {
			own = strings.TrimSpace(p)
		}
	}
	if point == "" || own == "" {
		t.Skip("version 2 of control groups is not mounted")
	}
	return point, own
}

// TestSiblingInside is started by TestPathsInContainer.
func TestSiblingInside(t *testing.T) {
	want := os.Getenv(inside)
	if !strings.HasPrefix(want, "/") {
		t.Skip("only for TestPathsInContainer")
	}
	text, _ := os.ReadFile("/proc/self/cgroup")
	t.Logf("the kernel shows us\n%s", text)
	for _, source := range []string{Procfs, EBPF} {
		s, _, err := Open(Options{Source: source, Exits: None})
		if err != nil {
			t.Log(err)
			continue
		}
		defer s.Close()
		var pass sensor.Pass
		if err := s.Read(&pass); err != nil {
			t.Fatal(err)
		}
		found := false
		for i := range pass.Live {
			paths, _ := s.CgroupPaths(pass.Live[i].Cgroup)
			for _, p := range paths {
				if strings.HasPrefix(p.Path, "/..") {
					t.Errorf("%s: %+v", source, p)
				}
				if p.Controllers != "" || p.Path != want {
					continue
				}
				found = true
				if alone, err := procfs.NewProc("").Cgroups(pass.Live[i].PID); !slices.Contains(alone, p) {
					t.Errorf("%s: %+v, alone %v, %v", source, p, alone, err)
				}
			}
		}
		if !found {
			t.Errorf("%s: nobody is in %s", source, want)
		}
	}
}

package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"reckon/sensor"
)

// liveGroups makes n control groups of this machine, in each hierarchy that has
// figures, and removes them at the end of the test. It skips where that is not allowed.
func liveGroups(t testing.TB, n int) (r *Reader, groups [][]sensor.CgroupPath, dirs [][]string) {
	t.Helper()
	r, err := New(Options{})
	if err != nil {
		t.Skip("not available here: ", err)
	}
	groups, dirs = make([][]sensor.CgroupPath, n), make([][]string, n)
	for i := range n {
		name := fmt.Sprintf("/reckon-test-%d-%d-%d", os.Getpid(), time.Now().UnixNano(), i)
		for _, m := range r.mounts {
			if m.Root != "/" || !hasFigures(&m) {
				continue
			}
			dir := m.Point + name
			if err := os.Mkdir(dir, 0o755); err != nil {
				continue
			}
			t.Cleanup(func() { _ = os.Remove(dir) })
			dirs[i] = append(dirs[i], dir)
			groups[i] = append(groups[i], sensor.CgroupPath{Controllers: strings.Join(m.Controllers, ","), Path: name})
		}
		if len(dirs[i]) == 0 {
			t.Skip("control groups cannot be made here: needs root and a writable hierarchy")
		}
	}
	return r, groups, dirs
}

// TestLiveLoad runs a known load in a group of its own and holds the reading against
// getrusage of the waited-for child.
func TestLiveLoad(t *testing.T) {
	r, groups, dirs := liveGroups(t, 1)
	h := open(t, r, groups[0]...)
	join := make([]string, len(dirs[0]))
	for i, d := range dirs[0] {
		join[i] = "echo $$ > " + d + "/cgroup.procs"
	}
	scratch := filepath.Join(t.TempDir(), "data")
	// About half a CPU second, and 20 MB written through to the disk.
	cmd := exec.Command("/bin/sh", "-c", strings.Join(join, " && ")+
		`; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; dd if=/dev/zero of="$1" bs=1M count=20 oflag=direct 2>/dev/null || :; echo ready; read done`, "sh", scratch)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip("not available here: ", err)
	}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	var c sensor.Cgroup
	if err := h.Read(&c); err != nil {
		t.Fatal(err)
	}
	if c.Have&sensor.CgroupPIDs != 0 && c.PIDs != 1 {
		t.Errorf("%d processes, want 1", c.PIDs)
	}
	if c.Have&sensor.CgroupMemory != 0 && (c.Current == 0 || c.Peak < c.Current) {
		t.Errorf("memory now %d, peak %d", c.Current, c.Peak)
	}
	_ = stdin.Close()
	_ = cmd.Wait()
	if err := h.Read(&c); err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", c)
	if c.Have&sensor.CgroupCPU == 0 {
		t.Fatal("no CPU time")
	}
	want := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	// The shell's own start, before it joined, is not in the group: 10 ms are allowed.
	if got := time.Duration(c.UsageNanos); got > want+want/50 || got < want-want/50-10*time.Millisecond {
		t.Errorf("%v of CPU time in the group, %v by getrusage", got, want)
	}
	if c.Have&sensor.CgroupIO != 0 && c.WriteBytes != 0 && c.WriteBytes < 20<<20 {
		t.Errorf("%d bytes written", c.WriteBytes) // none where dd could not write directly
	}
	for _, d := range dirs[0] {
		for range 100 { // the last of the group may take a moment to leave
			if err = os.Remove(d); err == nil {
				break
			}
			<-time.After(10 * time.Millisecond)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	last := c
	if err := h.Read(&c); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after removal: %v", err)
	}
	if c != last {
		t.Errorf("the last reading was not kept: %+v", c)
	}
	if _, err := r.Open(groups[0]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening it again: %v", err)
	}
}

func TestLiveReadDoesNotAllocate(t *testing.T) {
	r, groups, _ := liveGroups(t, 1)
	h := open(t, r, groups[0]...)
	var c sensor.Cgroup
	if n := testing.AllocsPerRun(200, func() {
		if err := h.Read(&c); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per reading", n)
	}
}

// TestLiveSelf reads the group this test runs in, whatever the machine.
func TestLiveSelf(t *testing.T) {
	r, err := New(Options{})
	if err != nil {
		t.Skip("not available here: ", err)
	}
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skip("not available here: ", err)
	}
	var paths []sensor.CgroupPath
	for line := range strings.Lines(string(text)) {
		if f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3); len(f) == 3 {
			paths = append(paths, sensor.CgroupPath{Controllers: f[1], Path: f[2]})
		}
	}
	h, err := r.Open(paths)
	if errors.Is(err, sensor.ErrUnavailable) || errors.Is(err, fs.ErrPermission) {
		t.Skip("not available here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var a, b sensor.Cgroup
	if err := h.Read(&a); err != nil {
		t.Fatal(err)
	}
	if err := h.Read(&b); err != nil {
		t.Fatal(err)
	}
	if a.Have != b.Have || b.UsageNanos < a.UsageNanos {
		t.Errorf("first %+v\nthen %+v", a, b)
	}
}

func BenchmarkRead(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(strconv.Itoa(n)+"groups", func(b *testing.B) {
			r, groups, _ := liveGroups(b, n)
			handles := make([]sensor.CgroupHandle, n)
			for i, g := range groups {
				handles[i] = open(b, r, g...)
			}
			var c sensor.Cgroup
			b.ReportAllocs()
			for b.Loop() {
				for _, h := range handles {
					if err := h.Read(&c); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/group")
			b.ReportMetric(float64(r.kept)/float64(n), "descriptors/group")
		})
	}
}

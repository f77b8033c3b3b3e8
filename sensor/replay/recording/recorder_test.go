package recording

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/metric"
	"reckon/sensor"
)

// machine is a small machine in memory; its counters grow with every reading.
type machine struct {
	n      uint64
	opened []string
	closed int
}

func (m *machine) Name() string { return "procfs" }
func (m *machine) Close() error { m.closed++; return nil }

func (m *machine) Read(p *sensor.Pass) error {
	m.n++
	p.Boot = m.n * 1e9
	p.Live = append(p.Live, sensor.Process{PID: 7, UID: 1000, Start: 5, Cgroup: 42, UserNanos: m.n, Comm: sensor.CommOf([]byte("alice")),
		Have: sensor.FieldCgroup})
	if m.n == 2 {
		p.Exited = append(p.Exited, sensor.Process{PID: 8, UID: 1001, Cgroup: 43, UserNanos: 3})
	}
	return nil
}

func (m *machine) CgroupPaths(n uint64) ([]sensor.CgroupPath, bool) {
	return []sensor.CgroupPath{{Path: "/home/bob/x"}}, n == 43
}

func (m *machine) ReadMachine(o *sensor.Machine) error {
	*o = sensor.Machine{Cores: 2, Idle: m.n}
	if m.n == 2 {
		return errors.New("read /proc/stat on n1.example.org: interrupted")
	}
	return nil
}

func (m *machine) Cgroups(int32) ([]sensor.CgroupPath, error) {
	return []sensor.CgroupPath{{Controllers: "cpu", Path: "/user/alice/job"}, {Controllers: "memory", Path: "/user"}, {Path: "/"}}, nil
}

func (m *machine) Env(_ int32, keys ...string) (map[string]string, error) {
	return map[string]string{"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "secret"}, nil
}

func (m *machine) LoginSession(int32) (uint32, bool, error) { return 3, true, nil }

type groups struct{ m *machine }

func (g groups) Close() error { return nil }

func (g groups) Open(paths []sensor.CgroupPath) (sensor.CgroupHandle, error) {
	g.m.opened = append(g.m.opened, CgroupKey(paths))
	return groupHandle(g), nil
}

type groupHandle struct{ m *machine }

func (g groupHandle) Close() error { g.m.closed++; return nil }

func (g groupHandle) Read(c *sensor.Cgroup) error {
	if g.m.n == 3 {
		return fs.ErrNotExist
	}
	c.Have, c.UsageNanos = sensor.CgroupCPU, g.m.n
	return nil
}

var tempDesc = &metric.Desc{Name: "node_mount_bytes", Help: "H.", Kind: metric.Gauge, Labels: []string{"mount"}}

type mounts struct{}

func (mounts) Name() string          { return "node" }
func (mounts) Descs() []*metric.Desc { return []*metric.Desc{tempDesc} }
func (mounts) Close() error          { return nil }
func (mounts) Read(b *metric.Batch) error {
	b.Add(metric.NewSeries(tempDesc, "/home/alice"), 1)
	return errors.New("read the mount of bob: denied")
}

func TestRecorder(t *testing.T) {
	m := &machine{}
	scrub := NewScrubber("n1.example.org")
	names := map[uint32]string{1000: "alice", 1001: "bob"}
	r := &Recorder{Tasks: m, Machine: m, Cgroups: groups{m}, Look: m, User: func(u uint32) string { return names[u] },
		Sensors: []sensor.Sensor{mounts{}}, Scrub: scrub}
	meta := Meta{Node: "n1.example.org"}
	scrub.Meta(&meta)
	var buf bytes.Buffer
	w, err := NewWriter(&buf, meta)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Record(context.Background(), w, 3, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if want := []string{"cpu:/user/alice/job\n", "cpu:/user/alice\n", "cpu:/user\nmemory:/user\n"}; !slices.Equal(m.opened[:3], want) {
		t.Errorf("opened %q, want %q", m.opened, want)
	}
	if m.closed != len(m.opened) {
		t.Errorf("%d control groups opened and %d closed", len(m.opened), m.closed)
	}

	got, err := readAll(buf.Bytes())
	if err != nil || len(got) != 3 {
		t.Fatalf("%d passes, %v", len(got), err)
	}
	first, second := got[0], got[1]
	a := first.About[7]
	if a.LoginSession == nil || *a.LoginSession != 3 || a.Env["SLURM_JOB_ID"] != "12" || len(a.Env) != 1 {
		t.Errorf("about %+v", a)
	}
	if a.Cgroups[0].Path != "/user/user1/job" || first.Paths[42][0].Path != "/user/user1/job" || first.Users[1000] != "user1" {
		t.Errorf("names of users: %+v %+v %+v", a.Cgroups, first.Paths, first.Users)
	}
	if len(second.About) != 0 {
		t.Errorf("a process was looked at twice: %+v", second.About)
	}
	if second.Paths[43][0].Path != "/home/user2/x" || second.Machine != nil ||
		second.Errors["machine"] != "read /proc/stat on host1: interrupted" {
		t.Errorf("second pass %+v", second)
	}
	if len(first.Cgroups) != 3 || first.Cgroups[2].Figures.UsageNanos != 1 || len(got[2].Cgroups) != 0 {
		t.Errorf("control groups %+v, then %+v", first.Cgroups, got[2].Cgroups)
	}
	s := first.Sensors[0]
	if s.Samples[0].Series.Values[0] != "/home/user1" || second.Sensors[0].Error != "read the mount of user2: denied" {
		t.Errorf("sensor %+v, then %+v", s, second.Sensors[0])
	}
	if first.Tasks.Live[0].Comm.String() != "user1" {
		t.Errorf("comm %q", first.Tasks.Live[0].Comm.String())
	}
}

func TestPatternsAreWellFormed(t *testing.T) {
	for _, p := range Files() {
		if _, err := path.Match(p, ""); err != nil || !fs.ValidPath(p) {
			t.Errorf("%s: %v", p, err)
		}
	}
	for _, f := range slices.Concat(Files(), processFiles(), cgroupFiles()) {
		for _, never := range []string{"cmdline", "environ", "maps", "wchan", "/fd"} {
			if strings.Contains(f, never) {
				t.Errorf("%s must not be recorded", f)
			}
		}
	}
}

func TestCollector(t *testing.T) {
	root := t.TempDir()
	for name, data := range map[string]string{
		"proc/stat": "cpu 1\n", "proc/1/stat": "1 (init) S\n", "proc/1/cmdline": "secret", "proc/1/environ": "secret",
		"proc/notapid/stat": "x", "proc/77/io": "rchar: 1\n",
		"sys/fs/cgroup/cpu.stat": "usage_usec 1\n", "sys/fs/cgroup/a/b/memory.current": "5\n", "sys/fs/cgroup/a/cgroup.kill": "",
		"sys/class/hwmon/hwmon0/temp1_input": "42000\n", "sys/class/hwmon/hwmon0/secret": "x", "sys/bus/dev/uevent": "x",
	} {
		full := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../../../bus/dev", filepath.Join(root, "sys/class/hwmon/hwmon0/device")); err != nil {
		t.Fatal(err)
	}
	c := NewCollector(root)
	var got []string
	for _, f := range c.Collect() {
		got = append(got, f.Path)
	}
	want := []string{"proc/1/stat", "proc/77/io", "proc/stat", "sys/class/hwmon/hwmon0/device", "sys/class/hwmon/hwmon0/temp1_input",
		"sys/fs/cgroup/a/b/memory.current", "sys/fs/cgroup/cpu.stat"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	c.Processes, c.Cgroups = 1, 1
	if n := len(c.Collect()); n != 5 {
		t.Errorf("%d files with one process and one control group, want 5", n)
	}
	c.Bytes = 1
	if n := len(c.Collect()); n != 1 {
		t.Errorf("%d files within one byte, want the one that crosses the limit", n)
	}
}

func TestScrubFiles(t *testing.T) {
	s := NewScrubber("node7.cluster.example.org")
	d := PassData{Users: map[uint32]string{0: "root", 1000: "al", 1001: "al.smith", 65534: "nobody", 1002: "1002"}, Files: []File{
		{
			Path: "proc/mounts", Data: []byte(
				"nas1:/vol/al.smith /home/al nfs rw,addr=10.1.2.3,clientaddr=10.1.2.4 0 0\n//files/x /mnt cifs ro,username=secret 0 " +
					"0\nserver.x.org:/a /a nfs4 rw 0 0\n")},
		{
			Path: "proc/self/mountinfo", Data: []byte(
				"36 35 98:0 / /mnt rw,noatime master:1 - ext3 /dev/root rw,errors=continue,user=secret\n31 25 0:26 / /sys/fs/cgroup/cpu " +
					"rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n")},
		{Path: "proc/sys/kernel/random/boot_id", Data: []byte("6f1b\n")},
		{Path: "proc/sys/kernel/hostname", Data: []byte("node7\n")},
		{Path: "proc/cpuinfo", Data: []byte("processor : 0\nSerial\t\t: 00000000abcdef\n")},
		{Path: "sys/fs/cgroup/al/cpu.stat", Data: []byte("usage_usec 10\n")},
		{Path: "sys/class/drm/card0/device/gpu_metrics", Data: []byte("\x00al\xff")},
	}}
	s.Pass(&d)
	for i, want := range []string{
		"host2:/vol/user2 /home/user1 nfs rw 0 0\n//host3/x /mnt cifs ro 0 0\nhost4:/a /a nfs4 rw 0 0\n",
		"36 35 98:0 / /mnt rw master:1 - ext3 /dev/root rw\n31 25 0:26 / /sys/fs/cgroup/cpu rw,nosuid shared:9 - cgroup cgroup " +
			"rw,cpu,cpuacct\n",
		"00000000-0000-0000-0000-000000000000\n",
		"host1\n",
		"processor : 0\nSerial\t\t: 0\n",
		"usage_usec 10\n",
		"\x00al\xff",
	} {
		if got := string(d.Files[i].Data); got != want {
			t.Errorf("%s:\n got %q\nwant %q", d.Files[i].Path, got, want)
		}
	}
	if d.Files[5].Path != "sys/fs/cgroup/user1/cpu.stat" {
		t.Errorf("path %q", d.Files[5].Path)
	}
	if d.Users[0] != "root" || d.Users[65534] != "nobody" {
		t.Errorf("system users were renamed: %v", d.Users)
	}
}

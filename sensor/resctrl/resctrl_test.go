package resctrl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/sensortest"
)

// machine is a file tree of two sockets, constructed by Documentation/filesystems/resctrl.rst of the kernel.
type machine struct {
	t    testing.TB
	root string
}

func newMachine(t testing.TB) *machine {
	t.Helper()
	m := &machine{t, t.TempDir()}
	for cpu, socket := range []string{"0", "0", "1", "1"} {
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/", cpu)
		m.put(dir+"topology/physical_package_id", socket)
		m.put(dir+"cache/index3/id", socket)
	}
	m.put("sys/fs/resctrl/info/L3_MON/num_rmids", "64")
	if err := os.MkdirAll(filepath.Join(m.root, "sys/fs/resctrl/mon_groups"), 0o755); err != nil {
		t.Fatal(err)
	}
	m.group("", 1000, 600, 4096, 1000, 1000, 8192)
	return m
}

func (m *machine) put(name, text string) {
	m.t.Helper()
	path := filepath.Join(m.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// group writes the counters of a group: total, local and occupancy of the first socket, then of the second.
func (m *machine) group(name string, counts ...int) {
	m.t.Helper()
	for i, domain := range []string{"mon_L3_00", "mon_L3_01"} {
		for k, file := range []string{"mbm_total_bytes", "mbm_local_bytes", "llc_occupancy"} {
			m.put(filepath.Join("sys/fs/resctrl", name, "mon_data", domain, file), fmt.Sprint(counts[3*i+k]))
		}
	}
}

func (m *machine) tasks(name string, threads ...string) {
	m.put(filepath.Join("sys/fs/resctrl", name, "tasks"), strings.Join(threads, "\n"))
}

// process is a process with threads.
func (m *machine) process(pid int, threads ...int) {
	for _, t := range append(threads, pid) {
		m.put(fmt.Sprintf("proc/%d/task/%d/stat", pid, t), "")
	}
}

func (m *machine) remove(name string) {
	if err := os.RemoveAll(filepath.Join(m.root, "sys/fs/resctrl", name)); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) open() *Sensor {
	m.t.Helper()
	s, err := New(m.root)
	if err != nil {
		m.t.Fatal(err)
	}
	m.control(s)
	m.t.Cleanup(func() { _ = s.Close() })
	return s
}

// control does what the kernel does when folders come and go.
func (m *machine) control(s *Sensor) {
	s.mkdir = func(dir string) error {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		name, _ := filepath.Rel(s.dir, dir)
		m.tasks(name)
		m.group(name, 0, 0, 0, 0, 0, 0)
		return nil
	}
	s.rmdir = os.RemoveAll
}

func read(t testing.TB, s *Sensor) map[string]float64 {
	t.Helper()
	var b metric.Batch
	if err := s.Read(&b); err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, x := range b.Samples {
		name := strings.TrimSuffix(strings.TrimPrefix(x.Series.Desc.Name, "reckon_node_cache_"), "_bytes_total")
		out[name+" "+strings.Join(x.Series.Values, " ")] = x.Value
	}
	return out
}

func pass(t testing.TB, s *Sensor) []sensor.Monitored {
	t.Helper()
	var p sensor.MonitorPass
	if err := s.ReadMonitors(&p); err != nil {
		t.Fatal(err)
	}
	return p.Groups
}

// TestSockets: what moved since the sensor was opened, by socket and memory, over groups that come and go.
func TestSockets(t *testing.T) {
	m := newMachine(t)
	m.group("batch", 500, 500, 1024, 0, 0, 0) // a control group
	m.group("mon_groups/a", 300, 300, 0, 0, 0, 0)
	s := m.open()
	check := func(when string, local, remote, cache float64) {
		t.Helper()
		got := read(t, s)
		if got["memory 0 local"] != local || got["memory 0 remote"] != remote || got["occupancy_bytes 0"] != cache || got["memory 1 local"] != 0 {
			t.Errorf("%s: %v, want %v local, %v remote, %v of the cache", when, got, local, remote, cache)
		}
	}
	check("at first", 0, 0, 5120)
	m.group("", 1100, 680, 4096, 1000, 1000, 8192)
	m.group("batch", 510, 505, 1024, 0, 0, 0)
	check("later", 85, 25, 5120)
	// A monitoring group that had 300 goes, and so does a control group; the default group counts 40 more.
	m.remove("mon_groups/a")
	m.remove("batch")
	m.group("", 840, 420, 4096, 1000, 1000, 8192)
	check("after groups were removed", 125, 25, 4096)
	m.group("new", 7, 7, 1, 0, 0, 0)
	check("with a new group", 132, 25, 4097)
	// What cannot be read is absent, and is caught up with.
	m.put("sys/fs/resctrl/mon_data/mon_L3_00/mbm_total_bytes", "Unavailable")
	m.put("sys/fs/resctrl/mon_data/mon_L3_00/llc_occupancy", "Error")
	got := read(t, s)
	if _, ok := got["occupancy_bytes 0"]; ok || got["memory 0 local"] != 132 {
		t.Errorf("not readable: %v", got)
	}
	m.group("", 900, 440, 4096, 1000, 1000, 8192)
	check("again", 152, 65, 4097)
	// A counter that falls starts again, and never falls here.
	m.group("", 10, 10, 4096, 1000, 1000, 8192)
	check("fallen", 152, 65, 4097)
	m.group("", 20, 15, 4096, 1000, 1000, 8192)
	check("and on", 157, 70, 4097)
}

// TestNoBandwidth: a processor that monitors only caches has no traffic, and no zero.
func TestNoBandwidth(t *testing.T) {
	m := newMachine(t)
	for _, d := range []string{"mon_L3_00", "mon_L3_01"} {
		m.remove("mon_data/" + d + "/mbm_total_bytes")
		m.remove("mon_data/" + d + "/mbm_local_bytes")
	}
	if got := read(t, m.open()); len(got) != 2 || got["occupancy_bytes 1"] != 8192 {
		t.Errorf("%v, want the occupancy of two sockets", got)
	}
}

func TestSensor(t *testing.T) {
	sensortest.Run(t, func(t *testing.T) sensor.Sensor { return newMachine(t).open() }, sensortest.Options{
		Allocs: 400, // folders are listed once for each export, since groups come and go
		Empty: func(root string) (sensor.Sensor, error) {
			s, err := New(root)
			if err != nil {
				return nil, err
			}
			return s, nil
		}})
}

// TestOthers: groups of others are read and never changed, and none is made beside them.
func TestOthers(t *testing.T) {
	m := newMachine(t)
	m.group("mon_groups/crio-1", 100, 100, 50, 100, 100, 50)
	m.tasks("mon_groups/crio-1", "10", "11", "0")
	m.group("class", 100, 100, 50, 100, 100, 50)
	m.tasks("class", "30")
	s := m.open()
	pass(t, s)
	m.group("mon_groups/crio-1", 120, 100, 60, 105, 100, 50)
	m.group("class", 90, 100, 50, 100, 100, 50)
	got := pass(t, s)
	if len(got) != 2 || got[0].Bytes != 25 || got[0].Cache != 110 || !got[0].Counted || got[0].Gap || !slices.Equal(got[0].Tasks, []int32{10, 11, 0}) {
		t.Errorf("a group of others: %+v", got)
	}
	if got[1].Bytes != 0 || !got[1].Gap {
		t.Errorf("a counter that fell: %+v", got[1])
	}
	m.process(10)
	served, err := s.Follow([]sensor.MonitorWish{{Key: "w", PIDs: []int32{10}, Size: 1}})
	if served != 0 || !errors.Is(err, sensor.ErrUnavailable) || !strings.Contains(err.Error(), "another program") {
		t.Errorf("%d groups, %v", served, err)
	}
	if entries, _ := os.ReadDir(filepath.Join(s.dir, "mon_groups")); len(entries) != 1 {
		t.Errorf("%v", entries)
	}
}

// TestOwn: the largest workloads get groups while there is room; their new threads come in, those of others go out; groups are given up for others that
// are twice as large, when somebody else begins to monitor, and at the end.
func TestOwn(t *testing.T) {
	m := newMachine(t)
	m.put("sys/fs/resctrl/info/L3_MON/num_rmids", "5") // the default group, and half of four
	m.tasks("")
	s := m.open()
	m.process(10, 11)
	m.process(20)
	m.process(30)
	wishes := func(a, b, c uint64) []sensor.MonitorWish {
		return []sensor.MonitorWish{{Key: "a", PIDs: []int32{10}, Size: a}, {Key: "b", PIDs: []int32{20}, Size: b}, {Key: "c", PIDs: []int32{30}, Size: c}}
	}
	follow := func(a, b, c uint64) string {
		t.Helper()
		pass(t, s)
		served, err := s.Follow(wishes(a, b, c))
		if err != nil || served != len(s.own) {
			t.Errorf("%d groups, %v", served, err)
		}
		var keys []string
		for _, o := range s.own {
			keys = append(keys, o.key)
		}
		slices.Sort(keys)
		return strings.Join(keys, " ")
	}
	if got := follow(3, 2, 1); got != "a b" {
		t.Errorf("the largest two: %s", got)
	}
	m.group("mon_groups/reckon-0", 70, 0, 9, 0, 0, 0)
	got := pass(t, s)
	if i := slices.IndexFunc(got, func(g sensor.Monitored) bool { return g.Key == "a" }); i < 0 || got[i].Bytes != 70 || !got[i].Fresh || !slices.Contains(got[i].Tasks, 11) {
		t.Errorf("a new group: %+v", got)
	}
	m.process(10, 11, 12) // a new thread, and one of somebody else
	m.tasks("mon_groups/reckon-0", "10", "11", "99")
	if got := follow(3, 2, 3); got != "a b" {
		t.Errorf("one that is larger by half: %s", got)
	}
	if text, _ := os.ReadFile(filepath.Join(s.dir, "mon_groups/reckon-0/tasks")); string(text) != "10\n11\n99\n12\n" {
		t.Errorf("threads of a workload: %q", text)
	}
	if text, _ := os.ReadFile(filepath.Join(s.dir, "tasks")); !strings.HasPrefix(strings.TrimSpace(string(text)), "99") {
		t.Errorf("the thread of another is moved to %q", text)
	}
	if got := follow(5, 2, 5); got != "a c" {
		t.Errorf("one that is twice as large: %s", got)
	}
	m.remove("mon_groups/reckon-0/tasks") // the kernel moves no threads of other control groups
	pass(t, s)
	if _, err := s.Follow(wishes(5, 2, 5)); err != nil {
		t.Errorf("a group that vanished: %v", err)
	}
	m.group("mon_groups/pqos", 0, 0, 0, 0, 0, 0)
	pass(t, s)
	if served, err := s.Follow(wishes(5, 2, 5)); served != 0 || !errors.Is(err, sensor.ErrUnavailable) || len(s.ours()) != 0 {
		t.Errorf("beside another program: %d, %v, %v", served, err, s.ours())
	}
	m.remove("mon_groups/pqos")
	if got := follow(5, 0, 5); got == "" {
		t.Error("none is made when the other program has ended")
	}
	if err := s.Close(); err != nil || len(s.ours()) != 0 {
		t.Errorf("at the end: %v, %v", err, s.ours())
	}
}

// TestLeft: groups of an agent that was killed are removed by the next one, those of one that lives are not, and it makes none beside it.
func TestLeft(t *testing.T) {
	m := newMachine(t)
	m.tasks("")
	m.process(10)
	first := m.open()
	pass(t, first)
	wish := []sensor.MonitorWish{{Key: "a", PIDs: []int32{10}, Size: 1}}
	if served, err := first.Follow(wish); served != 1 || err != nil {
		t.Fatal(served, err)
	}
	second := m.open()
	pass(t, second)
	if served, err := second.Follow(wish); served != 0 || !errors.Is(err, sensor.ErrUnavailable) {
		t.Errorf("a second agent: %d, %v", served, err)
	}
	if len(first.ours()) != 1 {
		t.Errorf("the second agent removed groups of the first: %v", first.ours())
	}
	for _, o := range first.own { // killed: the kernel unlocks
		_ = o.lock.Close()
	}
	first.own = nil
	third := &Sensor{root: m.root, dir: first.dir}
	m.control(third)
	third.removeLeft()
	if len(third.ours()) != 0 {
		t.Errorf("left behind: %v", third.ours())
	}
}

// TestRefused: without the right to make groups the reason says so; where there is no room left nothing fails.
func TestRefused(t *testing.T) {
	m := newMachine(t)
	m.process(10)
	s := m.open()
	wish := []sensor.MonitorWish{{Key: "a", PIDs: []int32{10}, Size: 1}}
	for errno, unavailable := range map[error]bool{unix.EACCES: true, unix.EROFS: true, unix.ENOSPC: false} {
		s.mkdir = func(dir string) error { return &os.PathError{Op: "mkdir", Path: dir, Err: errno} }
		pass(t, s)
		if served, err := s.Follow(wish); served != 0 || errors.Is(err, sensor.ErrUnavailable) != unavailable || !unavailable && err != nil {
			t.Errorf("%v: %d, %v", errno, served, err)
		}
	}
	// Somebody else changes groups at the moment: the next time.
	m.control(s)
	other := lock(s.dir)
	if served, err := s.Follow(wish); served != 0 || err != nil {
		t.Errorf("while another has locked it: %d, %v", served, err)
	}
	_ = other.Close()
	m.tasks("")
	if served, err := s.Follow(wish); served != 1 || err != nil {
		t.Errorf("later: %d, %v", served, err)
	}
}

func FuzzTasks(f *testing.F) {
	f.Add([]byte("1\n22\n0\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, n := range parseTasks(nil, text) {
			if n < 0 {
				t.Fatal(n)
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	s := newMachine(b).open()
	var out metric.Batch
	b.ReportAllocs()
	for b.Loop() {
		out.Samples = out.Samples[:0]
		if err := s.Read(&out); err != nil {
			b.Fatal(err)
		}
	}
}

// TestNotMounted: a remedy is named where the processor could be asked.
func TestNotMounted(t *testing.T) {
	for flags, fix := range map[string]bool{"fpu cqm_llc cqm_mbm_total": true, "fpu rdt_a cat_l3": false, "": false} {
		m := &machine{t, t.TempDir()}
		m.put("proc/cpuinfo", "processor\t: 0\nflags\t\t: "+flags)
		_, err := New(m.root)
		var u *sensor.UnavailableError
		if !errors.As(err, &u) || (u.Fix != "") != fix {
			t.Errorf("with %q: %v, want a remedy: %v", flags, err, fix)
		}
	}
}

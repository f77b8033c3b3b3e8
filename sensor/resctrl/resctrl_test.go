package resctrl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
	m.t.Cleanup(func() { _ = s.Close() })
	return s
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

// TestGroups: monitoring groups and control groups are read.
func TestGroups(t *testing.T) {
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

package replay

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/replay/recording"
)

var _ interface {
	sensor.TaskSource
	sensor.CgroupNamer
	sensor.MachineReader
} = (*Player)(nil)

var joules = &metric.Desc{Name: "reckon_joules_total", Help: "H.", Kind: metric.Counter, Unit: metric.Joules, Labels: []string{"zone"}}
var celsius = &metric.Desc{Name: "node_celsius", Help: "H.", Kind: metric.Gauge, Unit: metric.Celsius}

var start = time.Unix(1_700_000_000, 0).UTC()

// write creates a recording of n passes, one second apart: process 7 exists in all of
// them, process 8 only in pass 1, and every counter grows by 10 per pass.
func write(t *testing.T, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "machine.rec")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := recording.NewWriter(f, recording.Meta{Node: "n1", Booted: start.Add(-time.Hour), Interval: 1, Source: "ebpf", Exits: "taskstats"})
	if err != nil {
		t.Fatal(err)
	}
	session := uint32(3)
	for i := range n {
		k := uint64(i)
		d := recording.PassData{
			Time:    start.Add(time.Duration(i) * time.Second),
			Tasks:   &sensor.Pass{Boot: 3600e9 + k*1e9, Live: []sensor.Process{{PID: 7, Start: 100, UserNanos: 50 + 10*k, Anon: 4096, Cgroup: 9}}},
			Machine: &sensor.Machine{Cores: 4, User: 1000 + 10*k, MemoryTotal: 1 << 30},
			Cgroups: []recording.Cgroup{{Paths: []sensor.CgroupPath{{Path: "/a"}}, Figures: sensor.Cgroup{Have: sensor.CgroupCPU, UsageNanos: 10 * k, Current: 77}}},
			Sensors: []recording.Reading{{Sensor: "rapl", Samples: []metric.Sample{
				{Series: metric.NewSeries(joules, "package"), Value: float64(10 * k)}, {Series: metric.NewSeries(celsius), Value: 42}}}},
			Errors: map[string]string{},
		}
		switch i {
		case 0:
			d.About = map[int32]recording.About{7: {Cgroups: []sensor.CgroupPath{{Path: "/a"}}, LoginSession: &session, Env: map[string]string{"SLURM_JOB_ID": "5"}}}
			d.Paths = map[uint64][]sensor.CgroupPath{9: {{Path: "/a"}}}
			d.Users = map[uint32]string{1000: "user1"}
		case 1:
			d.Tasks.Live = append(d.Tasks.Live, sensor.Process{PID: 8, Start: 200, UserNanos: 1})
			d.About = map[int32]recording.About{8: {}}
			d.Sensors[0].Error = "read zone dram: denied"
		case 2:
			d.Tasks.Exited = []sensor.Process{{PID: 8, Start: 200, UserNanos: 2}}
			d.Cgroups, d.Machine = nil, nil
			d.Errors["machine"] = "read stat: broken"
		}
		if err := w.Pass(d); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, path string, o Options) *Player {
	t.Helper()
	p, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func TestPlayOnce(t *testing.T) {
	p := open(t, write(t, 4), Options{})
	if p.Name() != "replay" || p.Live() != "ebpf" || p.Exits() != "taskstats" || p.Meta().Node != "n1" || !p.Booted().Equal(start.Add(-time.Hour)) {
		t.Errorf("%s %s %s %+v", p.Name(), p.Live(), p.Exits(), p.Meta())
	}
	groups := p.Groups()
	handle, err := groups.Open([]sensor.CgroupPath{{Path: "/a"}})
	if err != nil {
		t.Fatal(err)
	}
	rapl := p.Sensors()[0]
	var pass sensor.Pass
	var m sensor.Machine
	var c sensor.Cgroup
	for i := range 4 {
		k := uint64(i)
		pass.Reset()
		if i%2 == 0 { // whichever is read first, both belong to the same pass
			checkMachine(t, p, &m, i)
		}
		if err := p.Read(&pass); err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 {
			checkMachine(t, p, &m, i)
		}
		if pass.Boot != 3600e9+k*1e9 || pass.Live[0].UserNanos != 50+10*k {
			t.Errorf("pass %d: %+v", i, pass)
		}
		if !p.Time().Equal(start.Add(time.Duration(i) * time.Second)) {
			t.Errorf("pass %d at %v", i, p.Time())
		}
		err := handle.Read(&c)
		if gone := errors.Is(err, fs.ErrNotExist); gone != (i == 2) || !gone && (c.UsageNanos != 10*k || c.Current != 77) {
			t.Errorf("pass %d: control group %+v, %v", i, c, err)
		}
		var b metric.Batch
		err = rapl.Read(&b)
		if (err != nil) != (i == 1) || len(b.Samples) != 2 || b.Samples[0].Value != float64(10*i) {
			t.Errorf("pass %d: %+v, %v", i, b.Samples, err)
		}
	}
	if err := p.Read(&pass); err != io.EOF {
		t.Errorf("after the last pass: %v", err)
	}
	if names := rapl.Descs(); len(names) != 2 || rapl.Name() != "rapl" {
		t.Errorf("sensor %s with %d descriptions", rapl.Name(), len(names))
	}
}

func checkMachine(t *testing.T, p *Player, m *sensor.Machine, i int) {
	t.Helper()
	err := p.ReadMachine(m)
	if i == 2 {
		if err == nil || !strings.Contains(err.Error(), "read stat: broken") {
			t.Errorf("what failed in the recording must fail here: %v", err)
		}
		return
	}
	if err != nil || m.User != 1000+10*uint64(i) {
		t.Errorf("pass %d: machine %+v, %v", i, m, err)
	}
}

func TestIdentities(t *testing.T) {
	p := open(t, write(t, 5), Options{})
	var pass sensor.Pass
	read := func() {
		pass.Reset()
		if err := p.Read(&pass); err != nil {
			t.Fatal(err)
		}
	}
	read()
	if cg, err := p.Cgroups(7); err != nil || cg[0].Path != "/a" {
		t.Errorf("%v, %v", cg, err)
	}
	if env, err := p.Env(7, "SLURM_JOB_ID", "HOME"); err != nil || !reflect.DeepEqual(env, map[string]string{"SLURM_JOB_ID": "5"}) {
		t.Errorf("%v, %v", env, err)
	}
	if s, ok, err := p.LoginSession(7); s != 3 || !ok || err != nil {
		t.Errorf("%v %v %v", s, ok, err)
	}
	if name, ok := p.UserName(1000); name != "user1" || !ok {
		t.Errorf("user %q %v", name, ok)
	}
	if paths, ok := p.CgroupPaths(9); !ok || paths[0].Path != "/a" {
		t.Errorf("%v %v", paths, ok)
	}
	if _, ok := p.CgroupPaths(10); ok {
		t.Error("a number that nobody recorded has a path")
	}
	if _, err := p.Cgroups(8); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("process 8 before it began: %v", err)
	}
	read()
	if _, err := p.Cgroups(8); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("process 8, whose groups were not readable: %v", err)
	}
	read()
	read()
	if _, err := p.Cgroups(8); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("process 8 after it ended: %v", err)
	}
}

// In a loop nothing ever decreases: not time, nor any counter; processes that ended in
// the recording appear again as new ones.
func TestLoopGoesOn(t *testing.T) {
	now := time.Unix(1_800_000_000, 0).UTC()
	p := open(t, write(t, 4), Options{Loop: true, Now: now})
	if !p.Time().Equal(now) || !p.Booted().Equal(now.Add(-time.Hour)) {
		t.Errorf("begins at %v, booted %v", p.Time(), p.Booted())
	}
	rapl := p.Sensors()[0]
	var pass sensor.Pass
	var m sensor.Machine
	var c sensor.Cgroup
	starts := map[uint64]bool{}
	for i := range 12 {
		round, k := uint64(i/4), uint64(i%4)
		pass.Reset()
		if err := p.Read(&pass); err != nil {
			t.Fatal(err)
		}
		if want := 3600e9 + uint64(i)*1e9; pass.Boot != want {
			t.Errorf("pass %d: boot %d, want %d", i, pass.Boot, want)
		}
		if want := 50 + 30*round + 10*k; pass.Live[0].UserNanos != want || pass.Live[0].Start != 100 || pass.Live[0].Anon != 4096 {
			t.Errorf("pass %d: %+v, want %d ns", i, pass.Live[0], want)
		}
		if k == 1 {
			starts[pass.Live[1].Start] = true
		}
		if k == 2 && (pass.Exited[0].Start != 200+round*4e9 || !starts[pass.Exited[0].Start]) {
			t.Errorf("pass %d: exit record of %d", i, pass.Exited[0].Start)
		}
		if err := p.ReadMachine(&m); k != 2 && (err != nil || m.User != 1000+30*round+10*k || m.MemoryTotal != 1<<30) {
			t.Errorf("pass %d: %+v, %v", i, m, err)
		}
		if k != 2 {
			h, err := p.Groups().Open([]sensor.CgroupPath{{Path: "/a"}})
			if err == nil {
				err = h.Read(&c)
			}
			if err != nil || c.UsageNanos != 30*round+10*k || c.Current != 77 {
				t.Errorf("pass %d: %+v, %v", i, c, err)
			}
		}
		var b metric.Batch
		_ = rapl.Read(&b) // pass 1 has an error, which TestPlayOnce checks
		if v := b.Samples[0].Value; v != float64(30*round+10*k) || b.Samples[1].Value != 42 {
			t.Errorf("pass %d: %v, %v", i, v, b.Samples[1].Value)
		}
	}
	if len(starts) != 3 {
		t.Errorf("process 8 came %d times as a new one, want 3", len(starts))
	}
}

// Every number of a record is either a counter, which continues in a loop, or named here:
// a new field that is forgotten in shift.go fails the test.
func TestCountersAreComplete(t *testing.T) {
	var p sensor.Process
	var m sensor.Machine
	var c sensor.Cgroup
	for _, r := range []struct {
		record   any
		counters []*uint64
		levels   []string
	}{
		{&p, processCounters(&p), []string{"Start", "Life", "Cgroup", "Anon", "File", "Shmem", "Swap", "Huge", "Space", "PeakBytes"}},
		{&m, machineCounters(&m), []string{"Boot", "MemoryTotal", "MemoryAvailable", "MemoryMapped", "MemoryShared", "MemoryAnon"}},
		{&c, groupCounters(&c), []string{"Current", "Anon", "File", "Shmem", "Kernel", "Swap", "Peak", "PIDs", "MemoryMax", "InactiveFile", "HugeBytes"}},
	} {
		for _, n := range r.counters {
			*n = 1
		}
		e := reflect.ValueOf(r.record).Elem()
		for i := range e.NumField() {
			name := e.Type().Field(i).Name
			if e.Field(i).Kind() == reflect.Uint64 && (e.Field(i).Uint() == 1) == slices.Contains(r.levels, name) {
				t.Errorf("%s.%s: counter %v", e.Type(), name, e.Field(i).Uint() == 1)
			}
		}
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte("no"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(dir, "none"), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if _, err := Open(empty, Options{}); !errors.Is(err, recording.ErrFormat) || !strings.Contains(err.Error(), empty) {
		t.Errorf("%v", err)
	}
	if _, err := Open(write(t, 0), Options{}); !errors.Is(err, recording.ErrFormat) {
		t.Errorf("a recording without passes: %v", err)
	}
	one := open(t, write(t, 1), Options{Loop: true})
	var pass sensor.Pass
	if err := one.Read(&pass); err != nil {
		t.Fatal(err)
	}
	if err := one.Read(&pass); err != io.EOF {
		t.Errorf("one pass in a loop: %v", err)
	}
}

// A truncated recording plays its complete passes and then reports that it is truncated.
func TestCutOff(t *testing.T) {
	path := write(t, 4)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()*3/4); err != nil {
		t.Fatal(err)
	}
	p := open(t, path, Options{Loop: true})
	var pass sensor.Pass
	n := 0
	for ; n < 10; n++ {
		pass.Reset()
		if err = p.Read(&pass); err != nil {
			break
		}
	}
	if n == 0 || n > 3 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d passes, then %v", n, err)
	}
}

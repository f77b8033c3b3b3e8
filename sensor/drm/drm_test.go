package drm

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/sensortest"
)

// The trees are constructed after the examples of the kernel's documents
// (Documentation/gpu/drm-usage-stats.rst, gpu/xe/xe-drm-usage-stats.rst, i915.rst and
// amdgpu/driver-misc.rst); the figures are invented.

type machine struct {
	t    testing.TB
	root string
	step int
}

func (m *machine) write(path, v string) {
	m.t.Helper()
	path = filepath.Join(m.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(v), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) link(target, path string) {
	m.t.Helper()
	path = filepath.Join(m.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) card(n int, pci, driver string) {
	m.write("sys/devices/"+pci+"/device", "0x56a0\n")
	m.link("../../../bus/pci/drivers/"+driver, "sys/devices/"+pci+"/driver")
	m.link("../../../devices/"+pci, fmt.Sprintf("sys/class/drm/card%d/device", n))
}

// open gives a process an open file of a device, with the text of its fdinfo.
func (m *machine) open(pid, fd int, text string) {
	m.link("/dev/dri/renderD128", fmt.Sprintf("proc/%d/fd/%d", pid, fd))
	m.say(pid, fd, text)
}

func (m *machine) say(pid, fd int, text string) {
	m.write(fmt.Sprintf("proc/%d/fdinfo/%d", pid, fd), "pos:\t0\nflags:\t02100002\nmnt_id:\t26\nino:\t685\n"+text)
}

func (m *machine) exit(pid int) {
	m.t.Helper()
	dir := filepath.Join(m.root, "proc", fmt.Sprint(pid))
	files, _ := filepath.Glob(filepath.Join(dir, "fdinfo/*"))
	for _, f := range files { // open descriptors return nothing any more
		if err := os.Truncate(f, 0); err != nil {
			m.t.Fatal(err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		m.t.Fatal(err)
	}
}

const (
	arc    = "0000:03:00.0"
	battle = "0000:04:00.0"
	radeon = "0000:05:00.0"
)

func i915(id int, render, video uint64) string {
	return fmt.Sprintf(
		"drm-driver:\ti915\ndrm-pdev:\t%s\ndrm-client-id:\t%d\ndrm-engine-render:\t%d ns\ndrm-engine-copy:\t0 ns\ndrm-engine-video:\t%d "+
			"ns\ndrm-engine-capacity-video:\t2\ndrm-total-local0:\t9 MiB\ndrm-resident-local0:\t2048 KiB\ndrm-resident-system0:\t7 MiB\n",
		arc, id, render, video)
}

func xe(id int, cycles, total uint64) string {
	return fmt.Sprintf(
		"drm-driver:\txe\ndrm-client-id:\t%d\ndrm-pdev:\t%s\ndrm-resident-vram0:\t23992 "+
			"KiB\ndrm-cycles-rcs:\t%d\ndrm-total-cycles-rcs:\t%d\n", id, battle, cycles, total)
}

func amd(id int, gfx uint64) string {
	return fmt.Sprintf(
		"drm-driver:\tamdgpu\ndrm-client-id:\t%d\ndrm-pdev:\t%s\npasid:\t32771\ndrm-memory-vram:\t1024 KiB\ndrm-memory-gtt:\t5 "+
			"KiB\ndrm-engine-gfx:\t%d ns\n", id, radeon, gfx)
}

const sec = uint64(1e9)

func newMachine(t testing.TB) *machine {
	m := &machine{t: t, root: t.TempDir()}
	m.card(0, arc, "i915")
	m.card(1, battle, "xe")
	m.card(2, radeon, "amdgpu")
	m.card(3, "0000:01:00.0", "nvidia")
	m.write("sys/class/drm/card0/gt_act_freq_mhz", "2400\n")
	m.write("sys/devices/"+arc+"/hwmon/hwmon1/energy1_input", "1000000\n")
	m.write("sys/class/drm/card0-HDMI-A-1/status", "connected\n")
	m.write("proc/1/fd/.keep", "")
	m.link("/dev/null", "proc/1/fd/0")
	return m
}

func (m *machine) start() (s *Sensor, next func()) {
	m.t.Helper()
	s, err := New(m.root)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = s.Close() })
	s.every = 1
	now := time.Now()
	s.now = func() time.Time { return now }
	return s, func() { now = now.Add(time.Second); m.step++ }
}

// uses reads once, and returns the use by process and device.
func uses(t testing.TB, s *Sensor) (map[string]sensor.GPUUse, *sensor.GPUPass) {
	t.Helper()
	var p sensor.GPUPass
	if err := s.ReadGPU(&p); err != nil {
		t.Fatal(err)
	}
	out := map[string]sensor.GPUUse{}
	for _, u := range p.Uses {
		k := fmt.Sprintf("%d %s", u.PID, u.Device)
		v := out[k]
		v.Busy += u.Busy
		v.Memory += u.Memory
		v.Have |= u.Have
		out[k] = v
	}
	return out, &p
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestSensor(t *testing.T) {
	m := newMachine(t)
	m.open(100, 5, i915(1, 0, 0))
	sensortest.Run(t, func(t *testing.T) sensor.Sensor { s, _ := m.start(); return s }, sensortest.Options{
		Advance: func(*testing.T) { m.step++; m.say(100, 5, i915(1, uint64(m.step)*sec/2, 0)) },
		Empty: func(root string) (sensor.Sensor, error) {
			s, err := New(root)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	})
}

func TestUses(t *testing.T) {
	m := newMachine(t)
	m.open(100, 5, i915(1, 50*sec, 0))
	m.open(100, 6, i915(1, 50*sec, 0)) // the same client, by another descriptor
	m.open(101, 5, i915(1, 50*sec, 0)) // and in a child
	m.open(102, 3, i915(2, 0, 0))
	m.open(200, 3, xe(1, 1000, 10000))
	m.open(300, 3, amd(1, 7*sec))
	s, next := m.start()
	got, _ := uses(t, s)
	for k, u := range got {
		if u.Busy != 0 {
			t.Errorf("%s: %v s before the first reading are charged", k, u.Busy)
		}
	}
	next()
	for _, fd := range []int{5, 6} {
		m.say(100, fd, i915(1, 50*sec+sec/4, 0))
	}
	m.say(101, 5, i915(1, 50*sec+sec/4, 0))
	m.say(102, 3, i915(2, sec/2, sec)) // two video engines: half of the class
	m.say(200, 3, xe(1, 1500, 11000))
	m.say(300, 3, amd(1, 7*sec+sec/10))
	got, p := uses(t, s)
	for k, w := range map[string]sensor.GPUUse{
		"100 " + arc:    {Busy: 0.25, Memory: 2 << 20},
		"102 " + arc:    {Busy: 0.5, Memory: 2 << 20},
		"200 " + battle: {Busy: 0.5, Memory: 23992 << 10},
		"300 " + radeon: {Busy: 0.1, Memory: 1 << 20},
	} {
		if u := got[k]; !near(u.Busy, w.Busy) || u.Memory != w.Memory || u.Have != sensor.GPUBusy|sensor.GPUMemory {
			t.Errorf("%s: got %+v, want %+v", k, u, w)
		}
	}
	if len(got) != 4 {
		t.Errorf("clients are counted more than once: %v", got)
	}
	if len(p.Devices) != 2 || p.Devices[0].Device != arc || !near(p.Devices[0].Busy, 0.75) || p.Devices[0].Span != 1 {
		t.Errorf("devices %+v, want the two of Intel, the first busy for 0.75 s", p.Devices)
	}
}

// Values that decrease count again beyond their maximum; a decrease in one client affects no other.
func TestBackwards(t *testing.T) {
	m := newMachine(t)
	m.open(100, 5, i915(1, 10*sec, 0))
	s, next := m.start()
	uses(t, s)
	var sum float64
	for _, v := range []uint64{10*sec + sec/2, 9 * sec, 10*sec + sec/4, 11 * sec} {
		next()
		m.say(100, 5, i915(1, v, 0))
		got, _ := uses(t, s)
		sum += got["100 "+arc].Busy
	}
	if !near(sum, 1) {
		t.Errorf("charged %v s, want 1", sum)
	}
}

// The use of a new process before it was found is charged; when it ends and another still
// holds the client, the counters continue.
func TestComeAndGo(t *testing.T) {
	m := newMachine(t)
	s, next := m.start()
	uses(t, s)
	next()
	m.open(100, 5, i915(1, sec/2, 0))
	m.open(101, 5, i915(1, sec/2, 0))
	got, _ := uses(t, s)
	if !near(got["100 "+arc].Busy, 0.5) || len(got) != 1 {
		t.Errorf("new: %v", got)
	}
	m.exit(100)
	var sum float64
	for i := range uint64(5) {
		next()
		m.say(101, 5, i915(1, sec/2+(i+1)*sec/10, 0))
		got, _ = uses(t, s)
		sum += got["101 "+arc].Busy
		if len(got) > 1 || got["100 "+arc].Busy > 0 {
			t.Errorf("who has gone is charged: %v", got)
		}
	}
	if !near(sum, 0.5) {
		t.Errorf("the child used %v s since, want 0.5", sum)
	}
	m.exit(101)
	for range 8 {
		next()
		got, _ = uses(t, s)
	}
	if len(got) != 0 || len(s.found) != 0 || len(s.checked) > 2 {
		t.Errorf("%v, %d clients and %d processes are remembered after all have gone", got, len(s.found), len(s.checked))
	}
}

// The compute queues of ROCm are not accounted for: a client without engine time may well
// compute.
func TestQueuesOfROCm(t *testing.T) {
	m := newMachine(t)
	m.open(300, 3, amd(1, 0))
	s, next := m.start()
	uses(t, s)
	next()
	if got, _ := uses(t, s); got["300 "+radeon].Have != sensor.GPUMemory {
		t.Errorf("got %+v, want its memory and no busy time", got)
	}
}

// Integrated devices of Intel work in main memory: i915 lists system and stolen memory (Documentation/gpu/i915.rst),
// xe also mapped memory (drivers/gpu/drm/xe/xe_drm_client.c). A device with memory of its own lists that, and memory
// moved to main memory does not count. AMD lists main memory as well, but another sensor reads its own.
func TestIntegratedMemory(t *testing.T) {
	const head = "drm-client-id:\t1\ndrm-pdev:\t0000:00:02.0\n"
	for _, c := range []struct {
		name, text string
		want       uint64
		has        bool
	}{
		{
			"i915, integrated", "drm-driver:\ti915\ndrm-total-system0:\t9 MiB\ndrm-shared-system0:\t1 MiB\ndrm-resident-system0:\t7 " +
				"MiB\ndrm-total-stolen-system0:\t1 MiB\ndrm-resident-stolen-system0:\t512 KiB\n", 7<<20 + 512<<10, true},
		{
			"xe, integrated", "drm-driver:\txe\ndrm-total-system:\t3 MiB\ndrm-resident-system:\t0\ndrm-total-gtt:\t192 " +
				"MiB\ndrm-resident-gtt:\t191 MiB\ndrm-resident-stolen:\t0\n", 191 << 20, true},
		{"discrete, nothing in its memory", "drm-driver:\ti915\ndrm-resident-local0:\t0\ndrm-resident-system0:\t7 MiB\n", 0, true},
		{"discrete, xe", "drm-driver:\txe\ndrm-resident-gtt:\t7 MiB\ndrm-resident-vram0:\t2 MiB\n", 2 << 20, true},
		{"an old kernel", "drm-driver:\ti915\ndrm-engine-render:\t0 ns\n", 0, false},
		{"AMD without memory of its own", "drm-driver:\tamdgpu\ndrm-memory-gtt:\t5 KiB\n", 0, false},
	} {
		var got clientInfo
		if !got.parse([]byte(head+c.text)) || got.memory != c.want || got.hasMemory != c.has {
			t.Errorf("%s: %d bytes, %v; want %d, %v", c.name, got.memory, got.hasMemory, c.want, c.has)
		}
	}
}

func TestDevice(t *testing.T) {
	m := newMachine(t)
	m.open(100, 5, i915(1, 0, 0))
	s, next := m.start()
	var b metric.Batch
	_ = s.Read(&b)
	next()
	m.write("sys/devices/"+arc+"/hwmon/hwmon1/energy1_input", "76000000\n")
	m.say(100, 5, i915(1, sec/2, 0))
	b.Reset(time.Now())
	if err := s.Read(&b); err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"reckon_gpu_busy_seconds_total": 0.5, "reckon_gpu_energy_joules_total": 75, "reckon_gpu_clock_hertz": 2.4e9,
		"reckon_gpu_info": 1}
	for _, sm := range b.Samples {
		name := sm.Series.Desc.Name
		if v, ok := want[name]; ok && sm.Series.Values[1] == arc {
			if sm.Value != v {
				t.Errorf("%s: got %v, want %v", name, sm.Value, v)
			}
			delete(want, name)
		}
		if sm.Series.Values[1] == radeon {
			t.Errorf("%s of a device that another sensor describes", name)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

func TestHidden(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root sees the open files of everybody")
	}
	m := newMachine(t)
	m.open(100, 5, i915(1, 0, 0))
	dir := filepath.Join(m.root, "proc/100/fd")
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
	s, _ := m.start()
	var p sensor.GPUPass
	if err := s.ReadGPU(&p); err == nil || !strings.Contains(err.Error(), "CAP_SYS_PTRACE") {
		t.Errorf("got %v, want that files are hidden", err)
	}
	if len(p.Devices) == 0 || p.Devices[0].Have&sensor.GPUBusy != 0 {
		t.Error("a device is said to be idle though not all clients are seen")
	}
}

// crowd creates a thousand processes with twenty open files each; some compute.
func crowd(t testing.TB, n, computing int) *machine {
	m := newMachine(t)
	for pid := 1000; pid < 1000+n; pid++ {
		for fd := range 20 {
			m.link("socket:[12345]", fmt.Sprintf("proc/%d/fd/%d", pid, fd))
		}
		if pid-1000 < computing {
			m.open(pid, 30, i915(pid, 0, 0))
		}
	}
	return m
}

func TestAllocations(t *testing.T) {
	m := crowd(t, 60, 10)
	s, _ := m.start()
	now := time.Now()
	s.now = func() time.Time { now = now.Add(time.Second); return now }
	var p sensor.GPUPass
	tick := func() { p.Reset(); _ = s.ReadGPU(&p) }
	for range 5 {
		tick()
	}
	if n := testing.AllocsPerRun(50, tick); n != 0 {
		t.Errorf("a tick allocates %v times", n)
	}
}

// BenchmarkTick is a reading among a thousand processes with twenty open files each, of
// which a hundred compute.
func BenchmarkTick(b *testing.B) {
	m := crowd(b, 1000, 100)
	s, _ := m.start()
	s.every = searchEvery
	now := time.Now()
	s.now = func() time.Time { now = now.Add(time.Second); return now }
	var p sensor.GPUPass
	_ = s.ReadGPU(&p)
	b.ReportAllocs()
	for b.Loop() {
		p.Reset()
		_ = s.ReadGPU(&p)
	}
}

func FuzzClient(f *testing.F) {
	f.Add([]byte(i915(1, 5, 6)))
	f.Add([]byte(xe(1, 5, 6)))
	f.Add([]byte(amd(3, 1<<63)))
	f.Add(
		[]byte(
			"drm-driver: x\ndrm-pdev: y\ndrm-client-id: 18446744073709551615\ndrm-engine-capacity-a: 0\ndrm-total-vram0: " +
				"18446744073709551615 MiB"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var c clientInfo
		ok := c.parse(b)
		if ok && (!c.hasID || len(c.pdev) == 0) {
			t.Fatalf("%q: a client without a name", b)
		}
		for _, e := range c.engines[:c.count] {
			if e.capacity == 0 {
				t.Fatalf("%q: an engine without capacity", b)
			}
		}
	})
}

func FuzzEntries(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x18\x00\x04123\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, v := range parseEntries(b, nil) {
			if v < 0 {
				t.Fatalf("%q: %d", b, v)
			}
		}
	})
}

// TestGate: a blank, a spike and a fall of the energy register are absent and named, and what was counted meanwhile is not lost
// (intel/xpumanager#130: 3.69e12 J for one reading).
func TestGate(t *testing.T) {
	m := newMachine(t)
	m.write("sys/devices/"+arc+"/hwmon/hwmon1/power1_max", "150000000\n")
	s, next := m.start()
	for i, step := range []struct {
		joules float64
		text   string
		absent bool
	}{
		{0, "1000000000", false}, {100, "1100000000", false}, {0, "-1", true}, {200, "1200000000", false},
		{0, "3689342859416540000", true}, {300, "1300000000", false}, {0, "2400000000", true}, {400, "1400000000", false},
		{0, "3000000", true}, {500, "1500000000", false}, {0, "0", true}, {500, "0", false}, {550, "50000000", false},
	} {
		m.write("sys/devices/"+arc+"/hwmon/hwmon1/energy1_input", step.text+"\n")
		var b metric.Batch
		err := s.Read(&b)
		n := 0
		for _, v := range b.Samples {
			if d := v.Series.Desc.Name; d == "reckon_gpu_energy_joules_total" || d == "reckon_node_energy_joules_total" {
				if n++; !near(v.Value, step.joules) {
					t.Errorf("step %d, %s: %v J, want %v", i, step.text, v.Value, step.joules)
				}
			}
		}
		refused, _ := sensor.Implausible(err)
		if want := map[bool]int{false: 2, true: 0}[step.absent]; n != want || (refused == 1) != step.absent {
			t.Errorf("step %d, %s: %d series, %v", i, step.text, n, err)
		}
		next()
	}
}

package amdgpu

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/sensortest"
)

// The trees are constructed: names, units and layouts are as in the kernel's documents
// and headers, the figures are invented.

// blob returns a table of a revision in which all fields are blank but those in set.
func blob(size int, format, content byte, set map[int]any) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = 0xff
	}
	binary.LittleEndian.PutUint16(b, uint16(size))
	b[2], b[3] = format, content
	for at, v := range set {
		switch v := v.(type) {
		case uint16:
			binary.LittleEndian.PutUint16(b[at:], v)
		case uint32:
			binary.LittleEndian.PutUint32(b[at:], v)
		case uint64:
			binary.LittleEndian.PutUint64(b[at:], v)
		}
	}
	return b
}

type machine struct {
	root string
	t    testing.TB
	step uint32
}

func (m *machine) write(path string, data []byte) {
	m.t.Helper()
	path = filepath.Join(m.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// card creates a device with the given files.
func (m *machine) card(n int, pci string, files map[string]string) {
	dir := "sys/devices/pci0000:00/" + pci
	for name, v := range files {
		m.write(filepath.Join(dir, name), []byte(v))
	}
	class := filepath.Join(m.root, "sys/class/drm/card"+strconv.Itoa(n))
	if err := os.MkdirAll(class, 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Symlink("../../../devices/pci0000:00/"+pci, filepath.Join(class, "device")); err != nil {
		m.t.Fatal(err)
	}
}

const (
	instinct = "0000:c1:00.0"
	radeon   = "0000:03:00.0"
	apu      = "0000:05:00.0"
)

// instinctTable is revision 1.8 of an accelerator: in each second of a thousand
// accumulations it computed for 60 %, its memory was busy for 25 %, the power limit
// throttled it for half, and it drew 500 J.
func (m *machine) instinctTable() {
	m.write("sys/devices/pci0000:00/"+instinct+"/gpu_metrics", blob(3872, 1, 8, map[int]any{
		4: uint16(71), 6: uint16(63), 10: uint16(500), 12: uint16(90), 14: uint16(10),
		24: uint64(1e12) + uint64(m.step)*500*65536, 40: math.MaxUint32 - 1500 + m.step*1000,
		44: uint32(0), 48: m.step * 500, 52: m.step * 0, 56: m.step, 60: uint32(7),
		112: uint64(m.step), 136: uint64(1e9), 144: uint64(5e9) + uint64(m.step)*1000, 152: ^uint64(0), 160: ^uint64(0),
		200: uint64(m.step) * 2000, 208: uint64(m.step) * 500, 216: ^uint64(0), 224: ^uint64(0),
		76: math.MaxUint32 - 90000 + m.step*60000, 80: m.step * 25000,
		296: uint16(2100), 336: uint16(1300)}))
}

func newMachine(t testing.TB) *machine {
	m := &machine{root: t.TempDir(), t: t}
	m.card(1, instinct, map[string]string{
		"vendor": "0x1002\n", "device": "0x74a1\n", "product_name": "AMD Instinct MI300X\n", "gpu_busy_percent": "90\n",
		"mem_info_vram_used": "8589934592\n", "mem_info_vram_total": "206141652992\n", "ras/umc_err_count": "ue: 1\nce: 4\n",
		"hwmon/hwmon3/power1_input": "500000000\n", "hwmon/hwmon3/power1_cap": "750000000\n",
		"hwmon/hwmon3/temp2_label": "junction\n", "hwmon/hwmon3/temp2_input": "71000\n",
	})
	m.instinctTable()
	m.card(0, radeon, map[string]string{
		"vendor": "0x1002\n", "device": "0x744c\n", "gpu_busy_percent": "40\n", "mem_busy_percent": "20\n",
		"mem_info_vram_used": "1073741824\n", "mem_info_vram_total": "25753026560\n", "power/runtime_status": "active\n",
		"hwmon/hwmon2/power1_average": "183000000\n", "hwmon/hwmon2/temp1_label": "edge\n", "hwmon/hwmon2/temp1_input": "55000\n",
		"hwmon/hwmon2/freq1_label": "sclk\n", "hwmon/hwmon2/freq1_input": "2500000000\n", "hwmon/hwmon2/fan1_max": "4000\n",
		"hwmon/hwmon2/fan1_input": "1000\n",
	})
	m.write("sys/devices/pci0000:00/"+radeon+"/gpu_metrics", blob(120, 1, 3, map[int]any{
		8: uint16(66), 16: uint16(41), 20: uint16(10), 24: uint64(5), 112: uint64(1) << 35}))
	m.card(2, apu, map[string]string{"vendor": "0x1002\n", "device": "0x1681\n", "gpu_busy_percent": "10\n",
		"mem_info_vram_used": "100\n", "mem_info_vram_total": "536870912\n"})
	m.write("sys/devices/pci0000:00/"+apu+"/gpu_metrics", blob(152, 2, 3, map[int]any{120: uint64(1) << 44}))
	m.card(3, "0000:00:02.0", map[string]string{"vendor": "0x8086\n"})
	m.write("sys/class/drm/card1-DP-1/status", []byte("connected\n"))
	m.write("sys/class/drm/renderD128/dev", []byte("226:128\n"))
	return m
}

// start opens the devices; next advances their clock.
func (m *machine) start() (s *Sensor, next func()) {
	m.t.Helper()
	s, err := New(m.root)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = s.Close() })
	now := time.Now()
	s.now = func() time.Time { return now }
	return s, func() { now = now.Add(time.Second); m.step++; m.instinctTable() }
}

func read(t testing.TB, s *Sensor) map[string]float64 {
	t.Helper()
	var b metric.Batch
	if err := s.Read(&b); err != nil {
		t.Logf("read: %v", err)
	}
	out := map[string]float64{}
	for _, m := range b.Samples {
		out[strings.TrimPrefix(m.Series.Desc.Name, "reckon_")+"|"+strings.Join(m.Series.Values, "|")] = m.Value
	}
	return out
}

func want(t testing.TB, got map[string]float64, k string, v float64) {
	t.Helper()
	if g, ok := got[k]; !ok || math.Abs(g-v) > 1e-6*max(1, math.Abs(v)) {
		t.Errorf("%s: got %v (there: %v), want %v", k, g, ok, v)
	}
}

func TestSensor(t *testing.T) {
	m := newMachine(t)
	sensortest.Run(t, func(t *testing.T) sensor.Sensor { s, _ := m.start(); return s }, sensortest.Options{
		Advance: func(*testing.T) { m.step++; m.instinctTable() },
		Empty: func(root string) (sensor.Sensor, error) {
			s, err := New(root)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	})
}

func TestFigures(t *testing.T) {
	m := newMachine(t)
	s, next := m.start()
	read(t, s)
	for range 4 { // over the wrap of the accumulators
		next()
		if err := s.ReadGPU(new(sensor.GPUPass)); err != nil {
			t.Fatal(err)
		}
	}
	got := read(t, s)
	mi, rx, ap := "amd|"+instinct+"|2", "amd|"+radeon+"|0", "amd|"+apu+"|1"
	want(t, got, "gpu_info|"+mi+"|AMD Instinct MI300X||||", 1)
	want(t, got, "gpu_busy_seconds_total|"+mi, 2.4)
	want(t, got, "gpu_engine_busy_seconds_total|"+mi+"|memory", 1)
	want(t, got, "gpu_energy_joules_total|"+mi, 2000)
	want(t, got, "gpu_throttled_seconds_total|"+mi+"|power_cap", 2)
	want(t, got, "gpu_throttled_seconds_total|"+mi+"|thermal", 0)
	want(t, got, "gpu_throttled_seconds_total|"+mi+"|regulator_thermal", 0.004)
	want(t, got, "gpu_clock_hertz|"+mi+"|graphics", 2.1e9)
	want(t, got, "gpu_link_bytes_total|"+mi+"|xgmi|received", 4*1000*1024)
	want(t, got, "gpu_link_bytes_total|"+mi+"|xgmi|sent", 4*2500*1024)
	want(t, got, "gpu_pcie_replays_total|"+mi, 4)
	if _, ok := got["gpu_link_bytes_total|"+rx+"|xgmi|sent"]; ok {
		t.Error("a GPU without XGMI has traffic over it")
	}
	want(t, got, "gpu_temperature_celsius|"+mi+"|hotspot", 71)
	want(t, got, "gpu_power_limit_watts|"+mi, 750)
	want(t, got, "gpu_ecc_errors_total|"+mi+"|corrected", 4)
	want(t, got, "gpu_memory_size_bytes|"+mi, 206141652992)
	want(t, got, "gpu_busy_seconds_total|"+rx, 1.6)
	want(t, got, "gpu_engine_busy_seconds_total|"+rx+"|media", 0.4)
	want(t, got, "gpu_energy_joules_total|"+rx, 732) // 183 W for 4 s: the unit of energy in revision 1.3 is undefined
	want(t, got, "gpu_fan_ratio|"+rx, 0.25)
	want(t, got, "gpu_temperature_celsius|"+rx+"|core", 55)
	want(t, got, "gpu_throttled_seconds_total|"+rx+"|thermal", 4)
	want(t, got, "gpu_busy_seconds_total|"+ap, 0.4)
	want(t, got, "gpu_throttled_seconds_total|"+ap+"|prochot", 4)
	if _, ok := got["gpu_power_watts|"+ap]; ok {
		t.Error("the APU has a power that nobody measured")
	}
	meters, err := s.ReadMeters(nil)
	if err != nil || len(meters) != 2 || meters[1].Zone != instinct || meters[1].Domain != sensor.DomainGPU {
		t.Errorf("meters %+v, %v", meters, err)
	}
}

func TestBadDevices(t *testing.T) {
	m := newMachine(t)
	s, next := m.start()
	read(t, s)
	next()
	dir := "sys/devices/pci0000:00/"
	m.write(dir+radeon+"/mem_info_vram_used", nil) // unplugged: its files give nothing
	if err := os.Remove(filepath.Join(m.root, dir, radeon, "vendor")); err != nil {
		t.Fatal(err)
	}
	var p sensor.GPUPass
	err := s.ReadGPU(&p)
	if err == nil || !strings.Contains(err.Error(), radeon) || len(p.Devices) != 2 {
		t.Errorf("got %v and %d devices, want the lost one named and the two others", err, len(p.Devices))
	}
	m.write(dir+apu+"/gpu_metrics", blob(64, 9, 9, nil))
	m.write(dir+radeon+"/vendor", []byte("0x1002\n"))
	m.write(dir+radeon+"/mem_info_vram_used", []byte("5\n"))
	next()
	p.Reset()
	err = s.ReadGPU(&p)
	if err == nil || !strings.Contains(err.Error(), "revision 9.9") || len(p.Devices) != 3 {
		t.Errorf("got %v and %d devices, want the table named and all devices", err, len(p.Devices))
	}
	if got := read(t, s); got["gpu_memory_bytes|amd|"+apu+"|1"] != 100 {
		t.Error("a table that is not known hides the rest of the device")
	}
}

// A suspended device is idle: nothing is read that would wake it.
func TestSleep(t *testing.T) {
	m := newMachine(t)
	s, next := m.start()
	read(t, s)
	next()
	m.write("sys/devices/pci0000:00/"+radeon+"/power/runtime_status", []byte("suspended\n"))
	got := read(t, s)
	want(t, got, "gpu_busy_seconds_total|amd|"+radeon+"|0", 0)
	for _, name := range []string{"gpu_power_watts", "gpu_temperature_celsius", "gpu_memory_bytes", "gpu_clock_hertz"} {
		for k := range got {
			if strings.HasPrefix(k, name+"|amd|"+radeon) {
				t.Errorf("%s of a device that sleeps", k)
			}
		}
	}
}

// Offsets are checked against the sizes of the structs: the last field of each revision
// ends at the size in the header, or before padding.
func TestLayouts(t *testing.T) {
	seen := map[[2]byte]bool{}
	for _, l := range knownLayouts() {
		seen[[2]byte{l.format, l.content}] = true
		for _, f := range l.fields {
			if f.offset+f.by > l.size || f.offset%min(f.by, 8) != 0 {
				t.Errorf("%d.%d: field %d at %d is not aligned or beyond %d", l.format, l.content, f.what, f.offset, l.size)
			}
		}
		var tb metricsTable
		b := blob(max(int(l.size), 8), l.format, l.content, nil)
		if err := tb.decode(b, knownLayouts()); err != nil {
			t.Error(err)
		}
		if tb.has != [tableFields]bool{} {
			t.Errorf("%d.%d: blanks are taken for values: %v", l.format, l.content, tb.has)
		}
		if err := tb.decode(b[:l.size-1], knownLayouts()); err == nil && l.size > 4 {
			t.Errorf("%d.%d: a cut table passes", l.format, l.content)
		}
	}
	for _, r := range [][2]byte{{1, 0}, {1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}, {1, 6}, {1, 7}, {1, 8}, {2, 0}, {2, 1}, {2, 2}, {2, 3},
		{2, 4}, {3, 0}} {
		if !seen[r] {
			t.Errorf("revision %d.%d is missing", r[0], r[1])
		}
	}
}

func FuzzTable(f *testing.F) {
	f.Add(blob(120, 1, 3, nil))
	f.Add(blob(3872, 1, 8, map[int]any{24: uint64(7)}))
	f.Add([]byte{4, 0, 1, 8})
	f.Fuzz(func(t *testing.T, b []byte) {
		var tb metricsTable
		if tb.decode(b, knownLayouts()) != nil && tb.has != [tableFields]bool{} {
			t.Fatal("values beside an error")
		}
	})
}

func FuzzErrors(f *testing.F) {
	f.Add([]byte("ue: 0\nce: 3"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if ue, ce, ok := parseErrors(b); ok && (ue < 0 || ce < 0) {
			t.Fatalf("%q: %d and %d errors", b, ue, ce)
		}
	})
}

// BenchmarkTick is a pass over three devices.
func BenchmarkTick(b *testing.B) {
	m := newMachine(b)
	s, _ := m.start()
	now := time.Now()
	s.now = func() time.Time { now = now.Add(time.Second); return now }
	var p sensor.GPUPass
	var meters []sensor.Meter
	b.ReportAllocs()
	for b.Loop() {
		p.Reset()
		_ = s.ReadGPU(&p)
		meters, _ = s.ReadMeters(meters[:0])
	}
}

// TestGate: what the device can not have is absent in every series of it, and named.
func TestGate(t *testing.T) {
	m := newMachine(t)
	const dir = "sys/devices/pci0000:00/"
	s, next := m.start()
	gone := func(what string, keys ...string) {
		t.Helper()
		var b metric.Batch
		err := s.Read(&b)
		if n, _ := sensor.Implausible(err); n == 0 {
			t.Errorf("%s: not named: %v", what, err)
		}
		for _, v := range b.Samples {
			k := v.Series.Desc.Name + "|" + strings.Join(v.Series.Values, "|")
			for _, part := range keys {
				if strings.Contains(k, part) && (strings.Contains(k, radeon) || strings.Contains(k, instinct)) && v.Value != 0 {
					t.Errorf("%s: %s is %v", what, k, v.Value)
				}
			}
		}
	}
	read(t, s)
	next()
	m.write(dir+radeon+"/hwmon/hwmon2/power1_average", []byte("4294967295000000\n"))
	m.write(dir+instinct+"/hwmon/hwmon3/power1_input", []byte("1600000000\n")) // more than twice its limit
	gone("a blank power", "power_watts")
	next()
	m.write(dir+radeon+"/hwmon/hwmon2/power1_average", []byte("183000000\n"))
	m.write(dir+instinct+"/hwmon/hwmon3/power1_input", []byte("500000000\n"))
	got := read(t, s)
	want(t, got, "gpu_power_watts|amd|"+radeon+"|0", 183)
	before := got["gpu_energy_joules_total|amd|"+instinct+"|2"]
	m.step += 1 << 20 // the register of energy jumps
	m.instinctTable()
	next()
	gone("a jump of the energy", "|gpu|"+instinct+"|energy")
	m.step -= 1 << 20
	next()
	if got := read(t, s)["gpu_energy_joules_total|amd|"+instinct+"|2"] - before; got < 900 || got > 1600 {
		t.Errorf("after the jump %v J more, want 500 a second", got)
	}
	m.write(dir+radeon+"/mem_info_vram_used", []byte("99999999999999\n"))
	m.write(dir+radeon+"/hwmon/hwmon2/temp1_input", []byte("0\n"))
	next()
	gone("memory and temperature", "gpu_memory_bytes|amd|"+radeon, "gpu_temperature_celsius|amd|"+radeon+"|0|core")
}

// TestDeadTable: the MI50 leaves its table at zero, which is no figure (hot spot 0 degrees, clocks 0 Hz).
func TestDeadTable(t *testing.T) {
	m := newMachine(t)
	table := make([]byte, 96)
	copy(table, []byte{96, 0, 1, 0})
	m.write("sys/devices/pci0000:00/"+radeon+"/gpu_metrics", table)
	s, _ := m.start()
	for k, v := range read(t, s) {
		if strings.Contains(k, radeon) && v == 0 &&
			(strings.Contains(k, "temperature") || strings.Contains(k, "clock") || strings.Contains(k, "watts")) {
			t.Errorf("%s is 0", k)
		}
	}
}

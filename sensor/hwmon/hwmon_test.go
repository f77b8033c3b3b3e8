package hwmon

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/sensortest"
)

// The trees are constructed after the kernel's documents of the drivers and, for Grace,
// the names of NVIDIA's tuning guide; the figures are invented.
var trees = map[string]map[string]string{
	"server": {
		"hwmon0/name": "power_meter", "hwmon0/power1_average": "312000000", "hwmon0/power1_oem_info": "",
		"hwmon1/name": "pmbus", "hwmon1/power1_input": "170000000", "hwmon1/power1_label": "pin",
		"hwmon1/power2_input": "160000000", "hwmon1/power2_label": "pout1", "hwmon1/in1_input": "230000", "hwmon1/curr1_input": "700",
		"hwmon2/name": "pmbus", "hwmon2/power1_input": "0", "hwmon2/power1_label": "pin",
		"hwmon3/name": "amd_energy", "hwmon3/energy1_input": "1000000", "hwmon3/energy1_label": "Ecore000",
		"hwmon3/energy2_input": "65000000000", "hwmon3/energy2_label": "Esocket0",
		"hwmon4/name": "k10temp", "hwmon4/temp1_input": "45250", "hwmon4/temp1_label": "Tctl", "hwmon4/temp1_crit": "95000",
		"hwmon5/name": "nct6775", "hwmon5/fan1_input": "1200", "hwmon5/temp1_input": "-256000",
		"hwmon6/name": "amdgpu", "hwmon6/power1_average": "40000000",
	},
	"supplies": {
		"hwmon0/name": "pmbus", "hwmon0/power1_input": "170000000", "hwmon0/power1_label": "pin",
		"hwmon1/name": "pmbus", "hwmon1/power1_input": "165000000", "hwmon1/power1_label": "pin",
	},
	"grace": {
		"hwmon1/name": "power_meter", "hwmon1/device/power1_average": "480000000", "hwmon1/device/power1_oem_info": "Module Power Socket 0",
		"hwmon2/device/name": "power_meter", "hwmon2/device/power1_average": "210000000",
		"hwmon2/device/power1_oem_info": "Grace Power Socket 0",
		"hwmon3/name":                   "power_meter", "hwmon3/power1_average": "150000000",
		"hwmon3/device/power1_oem_info": "CPU Power Socket 0",
		"hwmon4/name":                   "power_meter", "hwmon4/device/power1_average": "30000000",
		"hwmon4/device/power1_oem_info": "SysIO Power Socket 0",
	},
	"board": {
		"hwmon0/name": "ina3221", "hwmon0/in1_label": "VDD_IN", "hwmon0/in1_input": "12000", "hwmon0/curr1_input": "500",
		"hwmon0/in2_label": "VDD_5V", "hwmon0/in2_input": "5000", "hwmon0/curr2_input": "200", "hwmon0/in4_input": "3",
		"hwmon1/name": "rpi_volt", "hwmon1/in0_lcrit_alarm": "1",
		"hwmon2/name": "cpu_thermal", "hwmon2/temp1_input": "48312",
	},
}

func tree(t testing.TB, name string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range trees[name] {
		put(t, root, path, text)
	}
	return root
}

func put(t testing.TB, root, path, text string) {
	t.Helper()
	path = filepath.Join(root, "sys/class/hwmon", path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func watts(meters []sensor.Meter) map[string]float64 {
	out := make(map[string]float64)
	for _, m := range meters {
		k := string(m.Domain) + " " + m.Zone
		if _, twice := out[k]; twice {
			k += " twice"
		}
		if out[k] = m.Watts; !m.HasWatts {
			out[k] = math.NaN()
		}
	}
	return out
}

// TestMeters reads twice: slow chips are read in the background.
func TestMeters(t *testing.T) {
	for name, want := range map[string]map[string]float64{
		"server": {
			"board power_meter": 312, "rail pmbus pin": 170, "rail pmbus pout1": 160, "rail pmbus_2 pin": 0, "package 0": math.NaN(),
		},
		"supplies": {"board pmbus pin": 170, "board pmbus_2 pin": 165},
		"grace":    {"board module 0": 480, "psys grace 0": 210, "package 0": 150, "rail sysio 0": 30},
		"board":    {"board ina3221 VDD_IN": 6, "rail ina3221 VDD_5V": 1},
	} {
		t.Run(name, func(t *testing.T) {
			root := tree(t, name)
			synctest.Test(t, func(t *testing.T) {
				s, err := New(root)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if _, err := s.ReadMeters(nil); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				m, err := s.ReadMeters(nil)
				if err != nil {
					t.Error(err)
				}
				got := watts(m)
				if len(got) != len(want) {
					t.Errorf("got %v, want %v", got, want)
				}
				for k, v := range want {
					if g, ok := got[k]; !ok || g != v && !(math.IsNaN(g) && math.IsNaN(v)) {
						t.Errorf("%s is %v (%v), want %v", k, g, ok, v)
					}
				}
			})
		})
	}
}

func TestEnergy(t *testing.T) {
	root := tree(t, "board")
	put(t, root, "hwmon3/name", "amd_energy")
	put(t, root, "hwmon3/energy1_label", "Esocket0")
	put(t, root, "hwmon3/energy1_input", "5000000")
	s, err := New(root)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	now := time.Unix(1000, 0)
	s.now = func() time.Time { return now }
	step := func(d time.Duration, socket string) map[string]float64 {
		now = now.Add(d)
		put(t, root, "hwmon3/energy1_input", socket)
		meters, _ := s.ReadMeters(nil)
		out := make(map[string]float64)
		for _, m := range meters {
			out[m.Zone] = m.Joules
		}
		return out
	}
	step(0, "5000000")
	got := step(10*time.Second, "25000000")
	if got["ina3221 VDD_IN"] != 60 || got["0"] != 20 {
		t.Errorf("10 s at 6 W and 20 J: %v", got)
	}
	if got = step(time.Second, "1000000"); len(got) != 2 {
		t.Errorf("a register that jumped back added energy: %v", got)
	}
	if got = step(time.Second, "9223372036854775794"); len(got) != 2 {
		t.Errorf("a blank value was taken: %v", got)
	}
	if got = step(time.Second, "2000000"); got["0"] != 21 {
		t.Errorf("after a blank: %v", got)
	}
	put(t, root, "hwmon0/curr1_input", "0") // the machine runs, so its input is not zero
	meters, err := s.ReadMeters(nil)
	if err == nil || len(meters) != 2 {
		t.Errorf("zero at the input: %v, %v", meters, err)
	}
}

// A device that disappears hides no other, and continues counting when it is back.
func TestUnplug(t *testing.T) {
	root := tree(t, "board")
	s, err := New(root)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	now := time.Unix(1000, 0)
	s.now, s.looked = func() time.Time { return now }, now
	_, _ = s.ReadMeters(nil)
	now = now.Add(10 * time.Second)
	m, _ := s.ReadMeters(nil)
	before := m[0].Joules
	gone, away := filepath.Join(root, "sys/class/hwmon/hwmon0"), filepath.Join(root, "away")
	if err := os.Rename(gone, away); err != nil {
		t.Fatal(err)
	}
	s.lost = true // an open file of a file tree remains readable, one of the kernel returns ENODEV
	now = now.Add(rescanInterval)
	if m, err := s.ReadMeters(nil); err != nil || len(m) != 0 {
		t.Errorf("unplugged: %v, %v", m, err)
	}
	if err := os.Rename(away, gone); err != nil {
		t.Fatal(err)
	}
	s.lost = true
	now = now.Add(10 * rescanInterval)
	if m, err := s.ReadMeters(nil); err != nil || len(m) != 2 || m[0].Joules != before {
		t.Errorf("plugged in: %v, %v, want %v J", m, err, before)
	}
}

func TestNodeExporterNames(t *testing.T) {
	root := tree(t, "server")
	dev := filepath.Join(root, "sys/devices/platform/coretemp.0/hwmon/hwmon7")
	if err := os.MkdirAll(dev, 0o755); err != nil {
		t.Fatal(err)
	}
	for n, v := range map[string]string{"name": "coretemp", "temp1_input": "39000"} {
		if err := os.WriteFile(filepath.Join(dev, n), []byte(v+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../../../coretemp.0", filepath.Join(dev, "device")); err != nil {
		t.Skip("no links here: ", err)
	}
	if err := os.Symlink("../../devices/platform/coretemp.0/hwmon/hwmon7", filepath.Join(root, "sys/class/hwmon/hwmon7")); err != nil {
		t.Fatal(err)
	}
	s, err := New(root)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var b metric.Batch
	if err := s.Read(&b); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, m := range b.Samples {
		got[sensortest.Key(m.Series)] = m.Value
	}
	for k, v := range map[string]float64{
		`node_hwmon_temp_celsius{chip="k10temp",sensor="temp1"}`:                 45.25,
		`node_hwmon_temp_crit_celsius{chip="k10temp",sensor="temp1"}`:            95,
		`node_hwmon_fan_rpm{chip="nct6775",sensor="fan1"}`:                       1200,
		`node_hwmon_sensor_label{chip="k10temp",sensor="temp1",label="Tctl"}`:    1,
		`node_hwmon_chip_names{chip="platform_coretemp_0",chip_name="coretemp"}`: 1,
		`node_hwmon_temp_celsius{chip="platform_coretemp_0",sensor="temp1"}`:     39,
	} {
		if g, ok := got[k]; !ok || math.Abs(g-v) > 1e-9 {
			t.Errorf("%s is %v (%v), want %v", k, g, ok, v)
		}
	}
	for k := range got {
		if strings.Contains(k, `nct6775",sensor="temp1`) {
			t.Errorf("%s: -256 is off", k)
		}
	}
}

func TestNoPermission(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	root := t.TempDir()
	put(t, root, "hwmon0/name", "amd_energy")
	put(t, root, "hwmon0/energy1_label", "Esocket0")
	put(t, root, "hwmon0/energy1_input", "1")
	if err := os.Chmod(filepath.Join(root, "sys/class/hwmon/hwmon0/energy1_input"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := New(root); !errors.Is(err, sensor.ErrUnavailable) || !strings.Contains(err.Error(), "udev") {
		t.Errorf("got %v, want the way to grant it", err)
	}
}

func TestConformance(t *testing.T) {
	for name := range trees {
		t.Run(name, func(t *testing.T) {
			root := tree(t, name)
			sensortest.Run(t, func(t *testing.T) sensor.Sensor {
				s, err := New(root)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}, sensortest.Options{Foreign: true, Quiet: true, Empty: func(root string) (sensor.Sensor, error) {
				s, err := New(root)
				if err != nil {
					return nil, err
				}
				return s, nil
			}})
		})
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("curr12_crit_alarm")
	f.Add("temp_input")
	f.Fuzz(func(t *testing.T, name string) {
		kind, number, element, ok := splitAttribute(name)
		if ok && (kind+number+"_"+element != name || number == "") {
			t.Fatalf("split(%q) = %q %q %q", name, kind, number, element)
		}
		(&meter{}).classify(&chip{name: "power_meter"}, name, "1")
	})
}

func BenchmarkReadMeters(b *testing.B) {
	s, err := New(tree(b, "server"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var m []sensor.Meter
	b.ReportAllocs()
	for b.Loop() {
		m, _ = s.ReadMeters(m[:0])
	}
}

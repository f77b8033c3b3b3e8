package tegra

import (
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

// The trees are constructed from the paths and units that NVIDIA documents; the figures
// of the rails are as in the recorded lines of tegrastats.
var trees = map[string]map[string]string{
	"agx-orin": {
		"proc/device-tree/compatible":                 "nvidia,p3737-0000+p3701-0005\x00nvidia,tegra234\x00",
		"sys/class/hwmon/hwmon3/name":                 "ina3221\n",
		"sys/class/hwmon/hwmon3/in1_label":            "VDD_GPU_SOC\n",
		"sys/class/hwmon/hwmon3/in1_input":            "5000\n",
		"sys/class/hwmon/hwmon3/curr1_input":          "478\n",
		"sys/class/hwmon/hwmon3/in2_label":            "VDD_CPU_CV\n",
		"sys/class/hwmon/hwmon3/in2_input":            "5000\n",
		"sys/class/hwmon/hwmon3/curr2_input":          "160\n",
		"sys/class/hwmon/hwmon3/in3_label":            "VIN_SYS_5V0\n",
		"sys/class/hwmon/hwmon3/in3_input":            "5000\n",
		"sys/class/hwmon/hwmon3/curr3_input":          "704\n",
		"sys/class/hwmon/hwmon3/in7_label":            "sum of shunt voltages\n",
		"sys/class/hwmon/hwmon3/in7_input":            "1\n",
		"sys/class/hwmon/hwmon4/name":                 "ina3221\n",
		"sys/class/hwmon/hwmon4/in1_label":            "NC\n",
		"sys/class/hwmon/hwmon4/in1_input":            "0\n",
		"sys/class/hwmon/hwmon4/curr1_input":          "0\n",
		"sys/class/hwmon/hwmon5/name":                 "pwmfan\n",
		"sys/class/hwmon/hwmon5/pwm1":                 "51\n",
		"sys/class/devfreq/17000000.gpu/cur_freq":     "1300500000\n",
		"sys/class/devfreq/17000000.gpu/device/load":  "437\n",
		"sys/kernel/debug/bpmp/debug/clk/emc/rate":    "2133000000\n",
		"sys/kernel/actmon_avg_activity/mc_all":       "213300\n",
		"sys/kernel/debug/bpmp/debug/clk/nvenc/state": "1\n",
		"sys/kernel/debug/bpmp/debug/clk/nvenc/rate":  "166000000\n",
		"sys/kernel/debug/bpmp/debug/clk/nvdec/state": "0\n",
		"sys/kernel/debug/bpmp/debug/clk/nvdec/rate":  "0\n",
		"var/lib/nvpmodel/status":                     "pmode:0002\n",
		"etc/nvpmodel.conf":                           "# < POWER_MODEL ID=9 NAME=NONE >\n< POWER_MODEL ID=0 NAME=MAXN >\n< POWER_MODEL ID=2 NAME=MODE_30W >\n",
	},
	"nano": {
		"proc/device-tree/compatible":                     "nvidia,p3450-0000\x00nvidia,jetson-nano\x00nvidia,tegra210\x00",
		"sys/bus/iio/devices/iio:device0/name":            "ina3221x\n",
		"sys/bus/iio/devices/iio:device0/rail_name_0":     "POM_5V_IN\n",
		"sys/bus/iio/devices/iio:device0/in_power0_input": "1750\n",
		"sys/bus/iio/devices/iio:device0/rail_name_1":     "POM_5V_GPU\n",
		"sys/bus/iio/devices/iio:device0/in_power1_input": "0\n",
		"sys/bus/iio/devices/iio:device0/rail_name_2":     "POM_5V_CPU\n",
		"sys/bus/iio/devices/iio:device0/in_power2_input": "366\n",
		"sys/devices/gpu.0/load":                          "12\n",
		"sys/devices/pwm-fan/cur_pwm":                     "255\n",
	},
	"thor": {
		"proc/device-tree/compatible":          "nvidia,p4071-0000+p3834-0008\x00nvidia,tegra264\x00",
		"sys/class/hwmon/hwmon0/name":          "ina238\n",
		"sys/class/hwmon/hwmon0/power1_input":  "28736000\n",
		"sys/class/hwmon/hwmon1/name":          "ina3221\n",
		"sys/class/hwmon/hwmon1/in1_label":     "VDD_GPU\n",
		"sys/class/hwmon/hwmon1/in1_input":     "0\n",
		"sys/class/hwmon/hwmon1/curr1_input":   "0\n",
		"sys/class/devfreq/gpu-gpc-0/cur_freq": "315000000\n",
		"sys/class/devfreq/gpu-nvd-0/cur_freq": "999000000\n",
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
	path = filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, o Options) *Sensor {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func read(t testing.TB, s *Sensor) map[string]float64 {
	t.Helper()
	var b metric.Batch
	if err := s.Read(&b); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, m := range b.Samples {
		got[sensortest.Key(m.Series)] = m.Value
	}
	return got
}

func TestBoards(t *testing.T) {
	for name, want := range map[string]map[string]float64{
		"agx-orin": {
			`reckon_node_power_watts{domain="board",zone="sum of rails",method="measured"}`: 6.71,
			`reckon_node_power_watts{domain="rail",zone="VDD_GPU_SOC",method="measured"}`:   2.39,
			`reckon_tegra_rail_watts{rail="VIN_SYS_5V0"}`:                                   3.52,
			`reckon_tegra_gpu_busy_ratio{}`:                                                 .437,
			`reckon_tegra_gpu_frequency_hertz{cluster="0"}`:                                 1300500000,
			`reckon_tegra_memory_controller_busy_ratio{}`:                                   .1,
			`reckon_tegra_engine_up{engine="NVENC"}`:                                        1,
			`reckon_tegra_engine_frequency_hertz{engine="NVENC"}`:                           166e6,
			`reckon_tegra_engine_up{engine="NVDEC"}`:                                        0,
			`reckon_tegra_fan_ratio{fan="hwmon5"}`:                                          .2,
			`reckon_tegra_power_mode_info{mode="2",name="MODE_30W"}`:                        1,
		},
		"nano": {
			`reckon_node_power_watts{domain="board",zone="POM_5V_IN",method="measured"}`: 1.75,
			`reckon_node_power_watts{domain="rail",zone="POM_5V_GPU",method="measured"}`: 0,
			`reckon_tegra_gpu_busy_ratio{}`:                                              .012,
			`reckon_tegra_fan_ratio{fan="pwm-fan"}`:                                      1,
		},
		"thor": {
			`reckon_node_power_watts{domain="board",zone="VIN",method="measured"}`:    28.736,
			`reckon_node_power_watts{domain="rail",zone="VDD_GPU",method="measured"}`: 0,
			`reckon_tegra_gpu_frequency_hertz{cluster="0"}`:                           315e6,
		},
	} {
		got := read(t, open(t, Options{Root: tree(t, name)}))
		for k, v := range want {
			if g, ok := got[k]; !ok || math.Abs(g-v) > 1e-9 {
				t.Errorf("%s: %s is %v (%v), want %v", name, k, g, ok, v)
			}
		}
		for k := range got {
			if strings.Contains(k, `"NC"`) || strings.Contains(k, "shunt") || strings.Contains(k, `cluster="1"`) {
				t.Errorf("%s: %s is nothing", name, k)
			}
		}
	}
}

func TestEnergy(t *testing.T) {
	root := tree(t, "agx-orin")
	s := open(t, Options{Root: root})
	now := time.Unix(1000, 0)
	s.now = func() time.Time { return now }
	joules := func() map[string]float64 {
		m, _ := s.ReadMeters(nil)
		out := map[string]float64{}
		for _, x := range m {
			out[x.Zone] = x.Joules
		}
		return out
	}
	joules()
	now = now.Add(10 * time.Second)
	if got := joules()["sum of rails"]; math.Abs(got-67.1) > 1e-9 {
		t.Errorf("10 s at 6.71 W: %v J", got)
	}
	if s.busy.Total() < 4.369 || s.busy.Total() > 4.371 {
		t.Errorf("10 s at 43.7 %%: busy for %v s", s.busy.Total())
	}
	// An unreadable rail hides no other, but there is no sum without it.
	put(t, root, "sys/class/hwmon/hwmon3/curr2_input", "N/A\n")
	now = now.Add(time.Second)
	got := joules()
	if _, ok := got["sum of rails"]; ok || len(got) != 3 { // two rails, one of them the meter of the GPU besides
		t.Errorf("with a broken rail: %v", got)
	}
	// A load out of bounds is not a load.
	put(t, root, "sys/class/devfreq/17000000.gpu/device/load", "9223372036854775794\n")
	if _, err := s.ReadMeters(nil); err == nil {
		t.Error("a blank load was taken")
	}
	if s.own.GPU.Busy.OK {
		t.Error("a blank load is busy")
	}
}

// While tegrastats writes, its line is used; when it has died sysfs is, and the energy
// continues.
func TestText(t *testing.T) {
	root := tree(t, "nano")
	path := filepath.Join(root, "stats")
	put(t, root, "stats", "CPU [5%@1224,off] GR3D_FREQ 40%@76 AO@45C CV0@-256C POM_5V_IN 2000/1628 POM_5V_GPU 0/0\n")
	s := open(t, Options{Root: root, Stats: path})
	now := time.Now()
	s.now = func() time.Time { return now }
	got := read(t, s)
	for k, v := range map[string]float64{
		`reckon_node_power_watts{domain="board",zone="POM_5V_IN",method="measured"}`: 2,
		`reckon_tegra_rail_average_watts{rail="POM_5V_IN"}`:                          1.628,
		`reckon_tegra_temperature_celsius{zone="AO"}`:                                45,
		`reckon_tegra_cpu_busy_ratio{cpu="0"}`:                                       .05,
		`reckon_tegra_gpu_busy_ratio{}`:                                              .4,
		`reckon_tegra_fan_ratio{fan="pwm-fan"}`:                                      1,
	} {
		if g, ok := got[k]; !ok || math.Abs(g-v) > 1e-9 {
			t.Errorf("%s is %v (%v), want %v", k, g, ok, v)
		}
	}
	if _, ok := got[`reckon_tegra_temperature_celsius{zone="CV0"}`]; ok {
		t.Error("a zone that is off has a temperature")
	}
	now = now.Add(time.Minute)
	meters, err := s.ReadMeters(nil)
	if err == nil || len(meters) != 4 || meters[0].Watts != 1.75 || meters[0].Joules != 60*(2+1.75)/2 {
		t.Errorf("a minute after tegrastats died: %v, %v", meters, err)
	}
	s = open(t, Options{Root: t.TempDir(), Stats: filepath.Join(root, "nothing")})
	var b metric.Batch
	if err := s.Read(&b); err == nil || len(b.Samples) != 0 {
		t.Errorf("without sysfs and text: %d samples, %v", len(b.Samples), err)
	}
}

func TestConformance(t *testing.T) {
	for name := range trees {
		t.Run(name, func(t *testing.T) {
			root := tree(t, name)
			sensortest.Run(t, func(t *testing.T) sensor.Sensor { return open(t, Options{Root: root}) }, sensortest.Options{
				Empty: func(root string) (sensor.Sensor, error) {
					s, err := Open(Options{Root: root})
					if err != nil {
						return nil, err
					}
					return s, nil
				}})
		})
	}
	t.Run("text", func(t *testing.T) {
		root := tree(t, "nano")
		put(t, root, "stats", "RAM 1/2MB CPU [5%@1224,off] GR3D_FREQ 40%@[76] NVDEC off VIC 3%@115 AO@45C POM_5V_IN 2000/1628\n")
		sensortest.Run(t, func(t *testing.T) sensor.Sensor {
			return open(t, Options{Root: root, Stats: filepath.Join(root, "stats")})
		}, sensortest.Options{})
	})
}

func FuzzModes(f *testing.F) {
	f.Add("< POWER_MODEL ID=0 NAME=MAXN >", "pmode:0002 fmode:quiet")
	f.Fuzz(func(t *testing.T, conf, status string) {
		parseModes(conf)
		if id, ok := parseMode([]byte(status)); ok && id == "" {
			t.Fatalf("an empty mode of %q", status)
		}
	})
}

func BenchmarkReadMeters(b *testing.B) {
	s := open(b, Options{Root: tree(b, "agx-orin")})
	var m []sensor.Meter
	b.ReportAllocs()
	for b.Loop() {
		m, _ = s.ReadMeters(m[:0])
	}
}

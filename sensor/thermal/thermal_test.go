package thermal

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/sensortest"
)

// board is constructed: a Raspberry Pi with undervoltage, with a zone that is off as on a
// Jetson, and the counters of an x86 processor of two threads.
func board(t testing.TB) (root string, put func(path, text string)) {
	t.Helper()
	root = t.TempDir()
	put = func(path, text string) {
		path = filepath.Join(root, "sys", path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for p, v := range map[string]string{
		"class/thermal/thermal_zone0/type": "cpu-thermal", "class/thermal/thermal_zone0/temp": "48312",
		"class/thermal/thermal_zone1/type": "cv0-thermal", "class/thermal/thermal_zone1/temp": "-256000",
		"class/thermal/thermal_zone2/type": "cold", "class/thermal/thermal_zone2/temp": "-12500",
		"class/thermal/cooling_device0/type": "pwm-fan", "class/thermal/cooling_device0/cur_state": "1", "class/thermal/cooling_device0/max_state": "4",
		"devices/platform/soc/soc:firmware/get_throttled":      "50005",
		"devices/system/cpu/cpu0/topology/physical_package_id": "0", "devices/system/cpu/cpu0/topology/core_id": "3",
		"devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "7", "devices/system/cpu/cpu0/thermal_throttle/package_throttle_count": "9",
		"devices/system/cpu/cpu1/topology/physical_package_id": "0", "devices/system/cpu/cpu1/topology/core_id": "3",
		"devices/system/cpu/cpu1/thermal_throttle/core_throttle_count": "7", "devices/system/cpu/cpu1/thermal_throttle/package_throttle_count": "9",
	} {
		put(p, v)
	}
	return root, put
}

func open(t testing.TB, root string) *Sensor {
	t.Helper()
	s, err := New(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestBoard(t *testing.T) {
	root, put := board(t)
	s := open(t, root)
	read := func() map[string]float64 {
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
	want := map[string]float64{
		`node_thermal_zone_temp{zone="0",type="cpu-thermal"}`:    48.312,
		`node_thermal_zone_temp{zone="2",type="cold"}`:           -12.5,
		`node_cooling_device_cur_state{name="0",type="pwm-fan"}`: 1,
		`node_cooling_device_max_state{name="0",type="pwm-fan"}`: 4,
		`node_cpu_core_throttles_total{package="0",core="3"}`:    7,
		`node_cpu_package_throttles_total{package="0"}`:          9,
		`reckon_node_throttled{cause="undervoltage"}`:            1,
		`reckon_node_throttled{cause="frequency capped"}`:        0,
		`reckon_node_throttled{cause="throttled"}`:               1,
		`reckon_node_throttled{cause="soft temperature limit"}`:  0,
	}
	got := read()
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	for k, v := range want {
		if g, ok := got[k]; !ok || math.Abs(g-v) > 1e-9 {
			t.Errorf("%s is %v (%v), want %v", k, g, ok, v)
		}
	}
	put("class/thermal/thermal_zone0/temp", "9223372036854775794")
	if _, ok := read()[`node_thermal_zone_temp{zone="0",type="cpu-thermal"}`]; ok {
		t.Error("a blank value is a temperature")
	}
	put("devices/platform/soc/soc:firmware/get_throttled", "?")
	var b metric.Batch
	if err := s.Read(&b); err == nil || len(b.Samples) != 5 {
		t.Errorf("broken firmware: %v, %d samples", err, len(b.Samples))
	}
}

func TestConformance(t *testing.T) {
	root, _ := board(t)
	sensortest.Run(t, func(t *testing.T) sensor.Sensor { return open(t, root) }, sensortest.Options{Foreign: true,
		Empty: func(root string) (sensor.Sensor, error) {
			s, err := New(root)
			if err != nil {
				return nil, err
			}
			return s, nil
		}})
}

func FuzzHex(f *testing.F) {
	f.Add([]byte("0x50005"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, ok := parseHex(b); !ok && v != 0 {
			t.Fatalf("hex(%q) = %d", b, v)
		}
	})
}

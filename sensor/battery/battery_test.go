package battery

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/sensortest"
)

// laptop is constructed: two batteries, one that counts energy and one that counts
// charge, mains, and a mouse.
func laptop(t testing.TB) (root string, put func(path, text string)) {
	t.Helper()
	root = t.TempDir()
	put = func(path, text string) {
		path = filepath.Join(root, "sys/class/power_supply", path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for p, v := range map[string]string{
		"BAT0/type": "Battery", "BAT0/status": "Discharging", "BAT0/capacity": "50", "BAT0/power_now": "5000000",
		"BAT0/energy_now": "20000000", "BAT0/energy_full": "40000000", "BAT0/present": "1",
		"BAT1/type": "Battery", "BAT1/status": "Discharging", "BAT1/current_now": "-250000", "BAT1/voltage_now": "12000000",
		"BAT1/voltage_min_design": "11000000", "BAT1/charge_now": "1000000", "BAT1/charge_full": "4000000",
		"AC/type": "Mains", "AC/online": "0",
		"mouse/type": "Battery", "mouse/scope": "Device", "mouse/capacity": "3", "mouse/status": "Discharging",
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

func read(t *testing.T, s *Sensor) map[string]float64 {
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

func TestDischarging(t *testing.T) {
	root, _ := laptop(t)
	got := read(t, open(t, root))
	want := map[string]float64{
		`reckon_battery_charge_ratio{supply="BAT0"}`:                                       .5,
		`reckon_battery_charge_ratio{supply="BAT1"}`:                                       .25,
		`reckon_battery_state{supply="BAT0",state="discharging"}`:                          1,
		`reckon_battery_state{supply="BAT1",state="discharging"}`:                          1,
		`reckon_battery_power_watts{supply="BAT0"}`:                                        5,
		`reckon_battery_power_watts{supply="BAT1"}`:                                        3,
		`reckon_battery_energy_joules{supply="BAT0"}`:                                      72000,
		`reckon_battery_energy_joules{supply="BAT1"}`:                                      39600,
		`reckon_battery_energy_full_joules{supply="BAT0"}`:                                 144000,
		`reckon_battery_energy_full_joules{supply="BAT1"}`:                                 158400,
		`reckon_battery_left_seconds{supply="BAT0"}`:                                       14400,
		`reckon_battery_left_seconds{supply="BAT1"}`:                                       13200,
		`reckon_node_battery_left_seconds{}`:                                               13950,
		`reckon_supply_online{supply="AC",type="Mains"}`:                                   0,
		`reckon_node_power_watts{domain="board",zone="battery",method="measured"}`:         8,
		`reckon_node_energy_joules_total{domain="board",zone="battery",method="measured"}`: 0,
	}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	for k, v := range want {
		if g, ok := got[k]; !ok || math.Abs(g-v) > 1e-6 {
			t.Errorf("%s is %v (%v), want %v", k, g, ok, v)
		}
	}
}

// The batteries meter the machine only while nothing else feeds it.
func TestMeter(t *testing.T) {
	for name, c := range map[string]struct {
		path, text string
		watts      float64
	}{
		"as it is":       {"AC/online", "0", 8},
		"mains":          {"AC/online", "1", 0},
		"one charges":    {"BAT1/status", "Charging", 0},
		"one rests":      {"BAT1/status", "Not charging", 5},
		"unknown":        {"BAT1/status", "Unknown", 0},
		"no power":       {"BAT0/power_now", "N/A", 0},
		"blank":          {"BAT0/power_now", "9223372036854775794", 0},
		"taken out":      {"BAT0/present", "0", 0},
		"cannot be read": {"BAT0/status", "", 0},
	} {
		root, put := laptop(t)
		s := open(t, root)
		put(c.path, c.text)
		if c.text == "" {
			if err := os.Truncate(filepath.Join(root, "sys/class/power_supply", c.path), 0); err != nil {
				t.Fatal(err)
			}
		}
		m, err := s.ReadMeters(nil)
		switch {
		case c.watts == 0 && len(m) != 0:
			t.Errorf("%s: %v", name, m)
		case c.watts > 0 && (len(m) != 1 || m[0].Watts != c.watts):
			t.Errorf("%s: %v, want %v W", name, m, c.watts)
		}
		if broken := name == "taken out" || name == "cannot be read"; broken != (err != nil) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestChargingAndPlugging(t *testing.T) {
	root, put := laptop(t)
	s := open(t, root)
	now := time.Now()
	s.now = func() time.Time { return now }
	put("AC/online", "1")
	put("BAT0/status", "Charging")
	got := read(t, s)
	if got[`reckon_battery_power_watts{supply="BAT0"}`] != -5 {
		t.Errorf("a battery that charges: %v", got)
	}
	if _, ok := got[`reckon_battery_left_seconds{supply="BAT0"}`]; ok {
		t.Error("a battery that charges will not be empty")
	}
	if err := os.RemoveAll(filepath.Join(root, "sys/class/power_supply/BAT1")); err != nil {
		t.Fatal(err)
	}
	now = now.Add(rescanInterval)
	got = read(t, s)
	if _, ok := got[`reckon_battery_charge_ratio{supply="BAT1"}`]; ok || got[`reckon_battery_charge_ratio{supply="BAT0"}`] != .5 {
		t.Errorf("unplugged: %v", got)
	}
}

func TestConformance(t *testing.T) {
	root, _ := laptop(t)
	sensortest.Run(t, func(t *testing.T) sensor.Sensor { return open(t, root) }, sensortest.Options{
		Empty: func(root string) (sensor.Sensor, error) {
			s, err := New(root)
			if err != nil {
				return nil, err
			}
			return s, nil
		}})
}

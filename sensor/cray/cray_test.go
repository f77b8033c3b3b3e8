package cray

import (
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

// node is constructed after the man page of pm_counters for an EX blade with two
// accelerators; the figures are invented.
func node(t testing.TB) (root string, put func(name, text string)) {
	t.Helper()
	root = t.TempDir()
	dir := filepath.Join(root, "sys/cray/pm_counters")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	put = func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for n, v := range map[string]string{
		"freshness": "100", "generation": "17", "version": "2", "raw_scan_hz": "10", "startup": "1690000000",
		"energy": "1000000 J 1690000000000 us", "power": "312 W 1690000000000 us", "power_cap": "0 W",
		"cpu_energy": "500000 J", "cpu_power": "150 W", "memory_energy": "100000 J", "memory_power": "0 W",
		"accel0_energy": "2000 J", "accel0_power": "90 W", "accel1_energy": "3000 J",
	} {
		put(n, v)
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

func TestMeters(t *testing.T) {
	root, put := node(t)
	s := open(t, root)
	now := time.Unix(1000, 0)
	s.now = func() time.Time { return now }
	read := func() map[string]sensor.Meter {
		t.Helper()
		meters, err := s.ReadMeters(nil)
		if err != nil {
			t.Fatal(err)
		}
		out := make(map[string]sensor.Meter)
		for _, m := range meters {
			out[string(m.Domain)+" "+m.Zone] = m
		}
		return out
	}
	read()
	now = now.Add(time.Second)
	put("freshness", "110")
	put("energy", "1000312 J 1690000001000 us")
	got := read()
	if len(got) != 5 {
		t.Errorf("got %v, want five meters", got)
	}
	if m := got["board node"]; m.Joules != 312 || m.Watts != 312 {
		t.Errorf("the node: %v", m)
	}
	if m, ok := got["gpu accel0"]; !ok || m.Watts != 90 || m.Joules != 0 {
		t.Errorf("an accelerator: %v %v", m, ok)
	}
	if got["dram all"].HasWatts || got["gpu accel1"].HasWatts {
		t.Error("no power, or one of zero, is no power")
	}
	put("energy", "12 J") // the controller was reset
	put("freshness", "3")
	if m, err := s.ReadMeters(nil); err == nil || len(m) != 4 {
		t.Errorf("a counter that jumped back: %v, %v", m, err)
	}
	if m := read()["board node"]; m.Joules != 312 {
		t.Errorf("and went on: %v", m)
	}
	put("cpu_energy", "N/A")
	if m, err := s.ReadMeters(nil); err == nil || len(m) != 4 {
		t.Errorf("a broken counter: %v, %v", m, err)
	}
	var b metric.Batch
	now = now.Add(MaxAge + time.Second)
	if err := s.Read(&b); err == nil || !strings.Contains(err.Error(), "not updated") {
		t.Errorf("a controller that hangs: %v", err)
	}
	for _, m := range b.Samples {
		if m.Series.Desc == sensor.NodeEnergy || m.Series.Desc == sensor.NodePower {
			t.Errorf("a controller that hangs still meters: %s", sensortest.Key(m.Series))
		}
	}
}

func TestConformance(t *testing.T) {
	root, put := node(t)
	n := 100
	sensortest.Run(t, func(t *testing.T) sensor.Sensor { return open(t, root) }, sensortest.Options{
		Advance: func(*testing.T) {
			n++
			put("freshness", strconv.Itoa(n))
		},
		Empty: func(root string) (sensor.Sensor, error) {
			s, err := New(root)
			if err != nil {
				return nil, err
			}
			return s, nil
		}})
}

func FuzzClassify(f *testing.F) {
	f.Add("accel0_energy")
	f.Fuzz(func(t *testing.T, name string) {
		if d, zone, ok := classifyFile(name); ok && (d == "" || zone == "" && name != "_energy") {
			t.Fatalf("classify(%q) = %q %q", name, d, zone)
		}
	})
}

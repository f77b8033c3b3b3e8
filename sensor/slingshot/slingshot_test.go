package slingshot

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/sensortest"
)

// tree is constructed after cxi_stat.c and libcxi.c of HewlettPackard/shs-libcxi, commit
// c147b9eb87c99dc0c4a891099d33ed53ddd08d83: an adapter of each generation. The figures are
// invented.
func tree(t testing.TB) (root string, put func(path, text string)) {
	t.Helper()
	root = t.TempDir()
	put = func(path, text string) {
		t.Helper()
		full := filepath.Join(root, "sys/class/cxi", path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{
		"cxi0/device/port/link": "up", "cxi0/device/port/speed": "BS_200G",
		"cxi1/device/port/0/link/state": "down", "cxi1/device/port/0/link/speed": "ck400G",
		"cxi0/device/telemetry/hni_sts_rx_ok_octets": "1000@1690000000.000000001",
		"cxi0/device/telemetry/hni_sts_tx_ok_octets": "2000@1690000000.000000001",
		"cxi0/device/telemetry/hni_pcs_good_cw":      "30@1690000000.1", "cxi0/device/telemetry/hni_pcs_corrected_cw": "4@1690000000.1",
		"cxi0/device/telemetry/hni_pcs_uncorrected_cw": "5@1690000000.1",
		"cxi1/device/telemetry/hni_sts_rx_ok_octets":   "7@1690000000.1",
	} {
		put(path, text)
	}
	return root, put
}

func start(t testing.TB, root string) *Sensor {
	t.Helper()
	s, err := New(root)
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
	out := map[string]float64{}
	for _, m := range b.Samples {
		out[sensortest.Key(m.Series)] = m.Value
	}
	return out
}

func TestConformance(t *testing.T) {
	root, _ := tree(t)
	sensortest.Run(t, func(t *testing.T) sensor.Sensor { return start(t, root) }, sensortest.Options{
		Empty: func(root string) (sensor.Sensor, error) {
			s, err := New(root)
			if err != nil {
				return nil, err
			}
			return s, nil
		}})
}

func TestRead(t *testing.T) {
	root, put := tree(t)
	s := start(t, root)
	now := time.Unix(1000, 0)
	s.now, s.looked = func() time.Time { return now }, now
	got := read(t, s)
	for key, want := range map[string]float64{
		`reckon_slingshot_receive_bytes_total{device="cxi0"}`:                  1000,
		`reckon_slingshot_transmit_bytes_total{device="cxi0"}`:                 2000,
		`reckon_slingshot_codewords_total{device="cxi0",result="uncorrected"}`: 5,
		`reckon_slingshot_link_up{device="cxi0"}`:                              1,
		`reckon_slingshot_link_up{device="cxi1"}`:                              0,
		`reckon_slingshot_rate_bytes_per_second{device="cxi0"}`:                25e9,
		`reckon_slingshot_rate_bytes_per_second{device="cxi1"}`:                50e9,
	} {
		if v, ok := got[key]; !ok || v != want {
			t.Errorf("%s is %v (there: %t), want %v", key, v, ok, want)
		}
	}
	if len(got) != 10 {
		t.Errorf("%d series, want 10: %v", len(got), got)
	}
	put("cxi0/device/telemetry/hni_sts_rx_ok_octets", "nothing")
	var b metric.Batch
	if err := s.Read(&b); err == nil || len(b.Samples) != 9 {
		t.Errorf("a file that holds no number: %v, %d samples", err, len(b.Samples))
	}
	if err := os.RemoveAll(filepath.Join(root, "sys/class/cxi/cxi1")); err != nil {
		t.Fatal(err)
	}
	put("cxi0/device/telemetry/hni_sts_rx_ok_octets", "1001@1")
	now = now.Add(listInterval)
	if got := read(t, s); len(got) != 7 || got[`reckon_slingshot_receive_bytes_total{device="cxi0"}`] != 1001 {
		t.Errorf("an adapter was taken out: %v", got)
	}
}

// TestWrap: 56 bits are continued, a cleared counter starts again, on both sides of the half.
func TestWrap(t *testing.T) {
	for _, c := range []struct {
		name        string
		before, now uint64
		want        float64
	}{
		{"wraps", wrap - 10, 20, wrap + 20},
		{"wraps from the half", wrap / 2, 20, wrap + 20},
		{"was cleared", wrap/2 - 1, 20, 20},
		{"fell within the upper half", wrap - 1, wrap / 2, wrap / 2},
	} {
		var x counter
		x.unwrap(c.before)
		if got := x.unwrap(c.now); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("123@1690000000.5"))
	f.Add([]byte("BS_200G"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, ok := parseTelemetry(b); ok && v >= wrap {
			t.Fatalf("%q is %v", b, v)
		}
		if v, ok := parseRate(b); ok && v <= 0 {
			t.Fatalf("%q is %v", b, v)
		}
	})
}

// TestGate: 25 GB/s is what the link does, so 1 TB in a minute is more than it can.
func TestGate(t *testing.T) {
	root, put := tree(t)
	s := start(t, root)
	now := time.Now()
	s.now = func() time.Time { return now }
	s.looked = now
	read(t, s)
	const key = `reckon_slingshot_receive_bytes_total{device="cxi0"}`
	for _, c := range []struct {
		text string
		want float64
	}{{"1000000001000", 1000000001000}, {"72057594037927935", 0}, {"1000000002000", 1000000002000}, {"5", 0}, {"6", 6}} {
		now = now.Add(40 * time.Second)
		s.looked = now
		put("cxi0/device/telemetry/hni_sts_rx_ok_octets", c.text+"@1690000000.1")
		var b metric.Batch
		err := s.Read(&b)
		got := 0.0
		for _, m := range b.Samples {
			if sensortest.Key(m.Series) == key {
				got = m.Value
			}
		}
		if n, alone := sensor.Implausible(err); got != c.want || (n == 1) != (c.want == 0) || !alone {
			t.Errorf("%s: %v, %v, want %v", c.text, got, err, c.want)
		}
	}
}

package rapl

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"reckon/sensor"
)

// tree creates a powercap tree. The names and ranges are as of a two-socket Xeon and a
// laptop as the kernel documents them; the counts are invented.
func tree(t testing.TB, zones map[string][3]string) string {
	t.Helper()
	root := t.TempDir()
	for zone, f := range zones {
		dir := filepath.Join(root, "sys/class/powercap", zone)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"name", "energy_uj", "max_energy_range_uj"} {
			if f[i] != "" {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(f[i]+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return root
}

var xeon = map[string][3]string{
	"intel-rapl":          {"", "", ""},
	"intel-rapl:0":        {"package-0", "1000000", "262143328850"},
	"intel-rapl:0:0":      {"dram", "500000", "65712999613"},
	"intel-rapl:1":        {"package-1", "2000000", "262143328850"},
	"intel-rapl:1:0":      {"dram", "700000", "65712999613"},
	"intel-rapl:2":        {"psys", "9000000", "262143328850"},
	"intel-rapl-mmio:0":   {"package-0", "1000000", "262143328850"},
	"dtpm":                {"dtpm", "1", "1"},
	"intel-rapl:0:0:made": {"unknown thing", "1", "1"},
}

func set(t testing.TB, root, zone string, uj uint64) {
	t.Helper()
	path := filepath.Join(root, "sys/class/powercap", zone, "energy_uj")
	if err := os.WriteFile(path, []byte(strconv.FormatUint(uj, 10)+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, s *Source) map[string]float64 {
	t.Helper()
	meters, err := s.ReadMeters(nil)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, m := range meters {
		k := string(m.Domain) + " " + m.Zone
		if _, dup := out[k]; dup {
			t.Fatalf("meter %s is there twice", k)
		}
		out[k] = m.Joules
	}
	return out
}

func TestZones(t *testing.T) {
	root := tree(t, xeon)
	s, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got := read(t, s)
	want := map[string]float64{"package 0": 1, "package 1": 2, "dram 0": 0.5, "dram 1": 0.7, "psys 0": 9}
	if len(got) != len(want) {
		t.Errorf("got meters %v, want %v", got, want)
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: got %v J, want %v", k, got[k], v)
		}
	}
}

func TestWrapAround(t *testing.T) {
	root := tree(t, map[string][3]string{"intel-rapl:0": {"package-0", "262143000000", "262143328850"}})
	s, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	before := read(t, s)["package 0"]
	set(t, root, "intel-rapl:0", 671150)
	if got := read(t, s)["package 0"] - before; got < 0.999999 || got > 1.000001 {
		t.Errorf("over the wrap: got %v J, want 1", got)
	}
}

// A counter that decreases slightly has not wrapped.
func TestJumpBack(t *testing.T) {
	root := tree(t, map[string][3]string{"intel-rapl:0": {"package-0", "5000000", "262143328850"}})
	s, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	before := read(t, s)["package 0"]
	set(t, root, "intel-rapl:0", 4000000)
	if m, err := s.ReadMeters(nil); err == nil || len(m) != 0 {
		t.Errorf("after the fall: %v, %v", m, err)
	}
	set(t, root, "intel-rapl:0", 6000000)
	if got := read(t, s)["package 0"] - before; got != 1 {
		t.Errorf("then: %v J more, want 1", got)
	}
}

func TestOneBrokenZoneHidesNoOther(t *testing.T) {
	root := tree(t, xeon)
	s, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := os.WriteFile(filepath.Join(root, "sys/class/powercap/intel-rapl:1/energy_uj"), []byte("blank\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	meters, err := s.ReadMeters(nil)
	if err == nil || len(meters) != 4 {
		t.Errorf("got %d meters and error %v, want 4 and an error", len(meters), err)
	}
}

func TestNotHere(t *testing.T) {
	if _, err := Open(t.TempDir()); !errors.Is(err, sensor.ErrUnavailable) {
		t.Errorf("got %v, want it unavailable", err)
	}
	if _, err := Open(tree(t, map[string][3]string{"dtpm": {"dtpm", "1", "1"}})); !errors.Is(err, sensor.ErrUnavailable) {
		t.Errorf("got %v, want it unavailable", err)
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	s, err := Open(tree(t, xeon))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	meters, _ := s.ReadMeters(nil)
	if n := testing.AllocsPerRun(50, func() { meters, _ = s.ReadMeters(meters[:0]) }); n != 0 {
		t.Errorf("a reading allocates %v times", n)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("262143328850\n"))
	f.Add([]byte("18446744073709551616"))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := parseCounter(b)
		if err == nil && len(b) > 0 && b[0] >= '1' && v == 0 {
			t.Fatalf("parse(%q) = 0 without an error", b)
		}
	})
}

// TestGate: 200 kJ in a second are more than twice what the zone may draw, by its own limits. A limit that was raised counts.
func TestGate(t *testing.T) {
	root := tree(t, map[string][3]string{"intel-rapl:0": {"package-0", "5000000", "262143328850"},
		"intel-rapl:0:0": {"core", "5000000", "262143328850"}})
	limit := filepath.Join(root, "sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw")
	if err := os.WriteFile(limit, []byte("125000000\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	now := time.Unix(1000, 0)
	s.now = func() time.Time { now = now.Add(time.Second); return now }
	for i, step := range []struct {
		uj   uint64
		want float64 // 0: absent
	}{
		{5_000_000, 5}, {105_000_000, 105}, {200_000_000_000, 0}, {305_000_000, 305}, {805_000_001, 0}, {505_000_000, 505},
		{0, 0}, {605_000_000, 605}, {262_143_000_000, 0}, {705_000_000, 705},
	} {
		set(t, root, "intel-rapl:0", step.uj)
		set(t, root, "intel-rapl:0:0", step.uj)
		m, err := s.ReadMeters(nil)
		n, alone := sensor.Implausible(err)
		if !alone || (n == 2) != (step.want == 0) || len(m) != 2-n {
			t.Errorf("step %d: %v, %v", i, m, err)
		}
		for _, m := range m {
			if m.Joules != step.want {
				t.Errorf("step %d: %s has %v J, want %v", i, m.Domain, m.Joules, step.want)
			}
		}
	}
	if err := os.WriteFile(limit, []byte("500000000\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	set(t, root, "intel-rapl:0", 1_605_000_000)
	set(t, root, "intel-rapl:0:0", 1_605_000_000)
	if _, err := s.ReadMeters(nil); err == nil {
		t.Error("900 J in a second by the old limit")
	}
	set(t, root, "intel-rapl:0", 2_505_000_000)
	set(t, root, "intel-rapl:0:0", 2_505_000_000)
	if m, err := s.ReadMeters(nil); err != nil || len(m) != 2 || m[0].Joules != 2505 {
		t.Errorf("with the limit of now: %v, %v", m, err)
	}
}

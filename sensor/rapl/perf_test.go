package rapl

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// pmu creates the files of a power PMU. The layout and the scale are as of a
// two-socket Xeon, as the kernel documents them; no such machine was available.
func pmu(t testing.TB, change map[string]string) string {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{
		pmuDir + "/type": "25", pmuDir + "/cpumask": "0,24",
		pmuDir + "/events/energy-pkg": "event=0x02", pmuDir + "/events/energy-pkg.scale": "2.3283064365386962890625e-10",
		pmuDir + "/events/energy-pkg.unit": "Joules",
		pmuDir + "/events/energy-ram":      "event=0x03", pmuDir + "/events/energy-ram.scale": "2.3283064365386962890625e-10",
		pmuDir + "/events/energy-ram.unit": "Joules",
		pmuDir + "/events/energy-psys":     "event=0x05", pmuDir + "/events/energy-psys.scale": "2.3283064365386962890625e-10",
		"sys/devices/system/cpu/cpu0/topology/physical_package_id":  "0",
		"sys/devices/system/cpu/cpu24/topology/physical_package_id": "1",
	}
	for k, v := range change {
		files[k] = v
	}
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

type fakeCounter struct {
	n    uint64
	fail error
}

func (c *fakeCounter) Count() (uint64, error) { return c.n, c.fail }
func (c *fakeCounter) Close() error           { return nil }

func TestEvents(t *testing.T) {
	type key struct {
		config uint64
		cpu    int
	}
	counters := map[key]*fakeCounter{}
	open := func(typ uint32, config uint64, cpu int) (eventCounter, error) {
		if typ != 25 {
			t.Errorf("type %d", typ)
		}
		c := &fakeCounter{n: config<<32 + uint64(cpu)<<32}
		counters[key{config, cpu}] = c
		return c, nil
	}
	list, err := openEvents(pmu(t, nil), open)
	if err != nil {
		t.Fatal(err)
	}
	s := &Source{events: list, now: time.Now}
	got := read(t, s)
	want := map[string]float64{"package 0": 2, "package 1": 26, "dram 0": 3, "dram 1": 27, "psys 0": 5}
	if len(got) != len(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: %v J, want %v", k, got[k], v)
		}
	}
	counters[key{2, 24}].fail = unix.ENODEV // the processor was removed
	meters, err := s.ReadMeters(nil)
	if err == nil || len(meters) != 4 || !strings.Contains(err.Error(), "energy-pkg of package 1") {
		t.Errorf("%d meters, %v", len(meters), err)
	}
	counters[key{2, 24}].fail = nil
	if n := testing.AllocsPerRun(20, func() { meters, _ = s.ReadMeters(meters[:0]) }); n != 0 {
		t.Errorf("a reading allocates %v times", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestDeadCounters: events with counters that stay at zero, as in virtual machines that show their processor's, give no
// figure, not even zero. One that counts later is read from then on.
func TestDeadCounters(t *testing.T) {
	pkg, psys := new(fakeCounter), new(fakeCounter)
	list := []*openedEvent{
		{name: "energy-pkg", count: pkg, scale: 0.5, meter: sensor.Meter{Domain: sensor.DomainPackage, Zone: "0", HasJoules: true}},
		{name: "energy-psys", count: psys, scale: 0.5, meter: sensor.Meter{Domain: sensor.DomainPsys, Zone: "0", HasJoules: true}},
	}
	if anyHasCounted(list) {
		t.Error("counters that stay at zero are said to count")
	}
	s := &Source{events: list, now: time.Now}
	if m, err := s.ReadMeters(nil); err != nil || len(m) != 0 {
		t.Errorf("%v, %v, want no meter", m, err)
	}
	if pkg.n = 4; !anyHasCounted(list) {
		t.Error("one of them counts")
	}
	if got := read(t, s); len(got) != 1 || got["package 0"] != 2 {
		t.Errorf("%v, want 2 J of the package", got)
	}
}

func TestEventsNotHere(t *testing.T) {
	refuse := func(uint32, uint64, int) (eventCounter, error) {
		return nil, os.NewSyscallError("perf_event_open", unix.EACCES)
	}
	_, err := openEvents(pmu(t, nil), refuse)
	if !errors.Is(err, sensor.ErrUnavailable) || !strings.Contains(err.Error(), "CAP_PERFMON") {
		t.Errorf("%v", err)
	}
	for name, c := range map[string]struct {
		change map[string]string
		want   string
	}{
		"no type":   {map[string]string{pmuDir + "/type": "power"}, "type of the power PMU"},
		"bad mask":  {map[string]string{pmuDir + "/cpumask": "0,x"}, `"0,x" is no list`},
		"no events": {nil, "no such device"},
	} {
		_, err := openEvents(pmu(t, c.change), func(uint32, uint64, int) (eventCounter, error) { return nil, unix.ENODEV })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := openEvents(t.TempDir(), refuse); !errors.Is(err, sensor.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

// One invalid event hides no other.
func TestOneBrokenEvent(t *testing.T) {
	ok := func(uint32, uint64, int) (eventCounter, error) { return new(fakeCounter), nil }
	for _, change := range []map[string]string{
		{pmuDir + "/events/energy-ram": "event=lots"}, {pmuDir + "/events/energy-ram.unit": "Watts"},
		{pmuDir + "/events/energy-ram.scale": "NaN"}, {pmuDir + "/events/energy-ram": "event=0x03,edge=1"},
	} {
		if list, err := openEvents(pmu(t, change), ok); err != nil || len(list) != 3 {
			t.Errorf("%v: %d events, %v; want 3", change, len(list), err)
		}
	}
}

// TestRealEvents reads the counters of this machine, if it has a power PMU.
func TestRealEvents(t *testing.T) {
	list, err := openEvents("/", openPerf)
	if errors.Is(err, sensor.ErrUnavailable) {
		t.Skipf("no power PMU here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &Source{events: list, now: time.Now}
	defer s.Close()
	if !anyHasCounted(list) {
		t.Skip("the power PMU of this machine counts nothing: a virtual machine")
	}
	if m, err := s.ReadMeters(nil); err != nil || len(m) == 0 {
		t.Errorf("%d meters, %v", len(m), err)
	}
}

func FuzzParseList(f *testing.F) {
	f.Add("0,24")
	f.Add("0-3,9")
	f.Add("5-1")
	f.Add("0-99999999999")
	f.Fuzz(func(t *testing.T, s string) {
		cpus, err := parseCPUList(s)
		if err == nil && len(cpus) == 0 {
			t.Fatalf("%q: nothing and no error", s)
		}
		_, _ = parseEvent(s)
	})
}

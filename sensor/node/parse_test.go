package node

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	prom "github.com/prometheus/procfs"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

func TestMachine(t *testing.T) {
	for _, root := range []string{"", "testdata/vm"} {
		r, err := NewMachine(root)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		var m sensor.Machine
		if err := r.ReadMachine(&m); err != nil {
			t.Fatal(err)
		}
		other, err := prom.NewFS(filepath.Join("/", root, "proc"))
		if root != "" {
			other, err = prom.NewFS(filepath.Join(root, "proc"))
		}
		if err != nil {
			t.Fatal(err)
		}
		st, err1 := other.Stat()
		mem, err2 := other.Meminfo()
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if (m.MemoryMapped == 0) != (*mem.MappedBytes == 0) || root != "" && m.MemoryMapped != *mem.MappedBytes {
			t.Errorf("%d bytes are mapped, prometheus/procfs says %d", m.MemoryMapped, *mem.MappedBytes)
		}
		if (m.MemoryShared == 0) != (*mem.ShmemBytes == 0) || root != "" && m.MemoryShared != *mem.ShmemBytes {
			t.Errorf("%d bytes are shared, prometheus/procfs says %d", m.MemoryShared, *mem.ShmemBytes)
		}
		if m.MemoryTotal != *mem.MemTotalBytes || m.Cores != len(st.CPU) || m.Boot == 0 {
			t.Errorf("%+v", m)
		}
		// The live machine has changed since.
		for name, v := range map[string][2]float64{
			"user": {float64(m.User), st.CPUTotal.User}, "system": {float64(m.System), st.CPUTotal.System},
			"idle": {float64(m.Idle), st.CPUTotal.Idle}, "nice": {float64(m.Nice), st.CPUTotal.Nice},
			"softirq": {float64(m.SoftIRQ), st.CPUTotal.SoftIRQ}, "steal": {float64(m.Steal), st.CPUTotal.Steal},
		} {
			if d := v[1] - v[0]/1e9; d < -1e-6 || (root != "" && d > 1e-6) || d > 60 {
				t.Errorf("%s: %v s, prometheus/procfs says %v s", name, v[0]/1e9, v[1])
			}
		}
		if n := testing.AllocsPerRun(20, func() {
			if err := r.ReadMachine(&m); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
	if _, err := NewMachine(t.TempDir()); !errors.Is(err, sensor.ErrUnavailable) {
		t.Errorf("an empty root: %v", err)
	}
}

func TestSettle(t *testing.T) {
	for _, c := range [][3]uint64{{10, 12, 12}, {1000, 990, 1000}, {1000, 701, 1000}, {1000, 700, 700}, {math.MaxUint64, 0, 0}} {
		if got := monotonic(c[0], c[1]); got != c[2] {
			t.Errorf("%d after %d gives %d, want %d", c[1], c[0], got, c[2])
		}
	}
}

// TestChanges: devices come and go and a processor goes offline.
func TestChanges(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("proc/net/dev", "Inter-|\n face |bytes\n a:1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n\xffb: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n cut: 1 2\n")
	n, err := NewNetwork(root)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	var b metric.Batch
	if err := n.Read(&b); err != nil || len(b.Samples) != 32 {
		t.Fatalf("%d samples, %v", len(b.Samples), err)
	}
	if v := b.Samples[0].Series.Values[0]; v != "a:1" || b.Samples[16].Series.Values[0] != "\uFFFDb" {
		t.Errorf("devices %q and %q", v, b.Samples[16].Series.Values[0])
	}
	text := "c: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"
	for _, end := range []string{"veth1a2b", "vethwepl5", "cali0c5d8a9b1e2", "lxc8f3a1c2b3d4e", "lxc_health", "eni1a2b3c4d5e6", "gke52af243674", "0a1b2c3d4e5f607"} { // of containers
		text += strings.Replace(text[:strings.IndexByte(text, '\n')+1], "c", end, 1)
	}
	write("proc/net/dev", text)
	b.Reset(b.Time)
	if err := n.Read(&b); err != nil || len(b.Samples) != 16 || b.Samples[0].Series.Values[0] != "c" {
		t.Errorf("%d samples and %d devices after a change, %v", len(b.Samples), len(n.devices), err)
	}

	write("proc/stat", "cpu  1 1 1 1\ncpu0 1 1 1 500 0 0 0 0 0 0\ncpu2 1 1 1 1 0 0 0 0 0 0\nintr 5 1 1\n")
	c, err := NewCPU(root)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b.Reset(b.Time)
	if err := c.Read(&b); err != nil || len(b.Samples) != 20 || b.Samples[10].Series.Values[0] != "2" {
		t.Errorf("%d samples, %v", len(b.Samples), err)
	}
	write("proc/stat", "")
	if err := c.Read(&b); err == nil || !strings.Contains(err.Error(), root) {
		t.Errorf("an empty file: %v", err)
	}
}

// TestBalancing: what NUMA balancing did is read where a machine has several nodes, and nowhere else.
func TestBalancing(t *testing.T) {
	for online, want := range map[string]int{"0\n": 1, "0-1\n": 4, "": 1} {
		root := t.TempDir()
		for name, text := range map[string]string{
			"proc/vmstat":                    "nr_free_pages 7\noom_kill 1\nnuma_hit 5\nnuma_hint_faults 30\nnuma_hint_faults_local 20\nnuma_pages_migrated 4\n",
			"sys/devices/system/node/online": online,
		} {
			file := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := NewVMStat(root)
		if err != nil {
			t.Fatal(err)
		}
		var b metric.Batch
		if err := s.Read(&b); err != nil || len(b.Samples) != want {
			t.Errorf("nodes %q: %d samples, %v, want %d", online, len(b.Samples), err, want)
		}
		_ = s.Close()
	}
}

func TestPressureAbsent(t *testing.T) {
	_, err := NewPressure(t.TempDir())
	if !errors.Is(err, sensor.ErrUnavailable) || !strings.Contains(err.Error(), "psi=1") {
		t.Errorf("%v", err)
	}
}

func TestOSRelease(t *testing.T) {
	facts := parseOSRelease([]byte("NAME=\"A \\\"B\\\" \\$C\"\nID=debian\n# VERSION=3\nVERSION_ID='22.04.1'\nbroken\nX=\"\n"))
	if facts["NAME"] != `A "B" $C` || facts["ID"] != "debian" || facts["VERSION_ID"] != "22.04.1" || facts["X"] != `"` || len(facts) != 4 {
		t.Errorf("%q", facts)
	}
	for in, want := range map[string]float64{"12": 12, "22.04": 22.04, "22.04.1": 22.04, "7.x": 7} {
		if v, ok := majorMinor(in); !ok || v != want {
			t.Errorf("%s: %v %v", in, v, ok)
		}
	}
	if _, ok := majorMinor("rolling"); ok {
		t.Error("rolling is not a number")
	}
}

func FuzzLines(f *testing.F) {
	for _, name := range []string{"stat", "meminfo", "diskstats", "net/dev", "net/sockstat", "net/netstat", "net/snmp6", "loadavg", "pressure/io", "self/mounts", "vmstat"} {
		b, err := os.ReadFile("testdata/vm/proc/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for rest := text; len(rest) > 0; {
			var l []byte
			l, rest = sysfs.Line(rest)
			if n, _, ok := parseCPU(l); ok && (n < 0 || n >= maxCPU) {
				t.Errorf("%q: processor %d", l, n)
			}
			if name, _, ok := parseNetDev(l); ok && len(name) == 0 {
				t.Errorf("%q: no name", l)
			}
			if name, _, n := parseDisk(l); n != 0 && (n < 11 || n > 17 || len(name) == 0) {
				t.Errorf("%q: %d columns", l, n)
			}
		}
		parseMeminfo(text, func(key, unit []byte, v uint64) {
			if len(key) == 0 || (len(unit) > 0 && v%1024 != 0) {
				t.Errorf("%q: %q %d %s", text, key, v, unit)
			}
		})
		parsePairs(text, func(key, _ []byte, _ uint64) {
			if len(key) == 0 {
				t.Errorf("%q: no key", text)
			}
		})
		parseSockstat(text, func(p, key []byte, _ uint64) {
			if len(p) == 0 || len(key) == 0 {
				t.Errorf("%q: no key", text)
			}
		})
		parseNetstat(text, func(p, key []byte, _ uint64) {
			if len(p) == 0 || len(key) == 0 {
				t.Errorf("%q: no key", text)
			}
		})
		if v, ok := parseLoad(text); ok && (v[0] < 0 || math.IsInf(v[0], 0)) {
			t.Errorf("%q: %v", text, v)
		}
		parsePressure(text)
		_, _, _ = parseTotals(text)
		_ = parseMemoryTotals(text, new(sensor.Machine))
		parseOSRelease(text)
		for _, m := range parseMounts(text) {
			if m.point == "" || m.point[0] != '/' || strings.ContainsRune(m.point, 0) {
				t.Errorf("%q: %+v", text, m)
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	var sensors []sensor.Sensor
	for _, open := range constructors {
		if s, err := open("/"); err == nil {
			sensors = append(sensors, s)
			defer s.Close()
		}
	}
	var batch metric.Batch
	b.ReportAllocs()
	for b.Loop() {
		batch.Reset(batch.Time)
		for _, s := range sensors {
			if err := s.Read(&batch); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(len(batch.Samples)), "samples")
}

package infiniband

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/sensortest"
)

// machine creates a recorded tree; put changes a file of it.
func machine(t testing.TB, name string) (root string, put func(path, text string)) {
	t.Helper()
	root = t.TempDir()
	put = func(path, text string) {
		t.Helper()
		full := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if name != "" {
		a, err := txtar.ParseFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range a.Files {
			put(f.Name, string(f.Data))
		}
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

func readAll(t testing.TB, s *Sensor) map[string]float64 {
	t.Helper()
	var b metric.Batch
	if err := s.Read(&b); err != nil {
		t.Fatal(err)
	}
	return values(&b)
}

func values(b *metric.Batch) map[string]float64 {
	out := map[string]float64{}
	for _, m := range b.Samples {
		out[sensortest.Key(m.Series)] = m.Value
	}
	return out
}

func TestConformance(t *testing.T) {
	for _, name := range []string{"procfs.txtar", "node_exporter.txtar"} {
		t.Run(name, func(t *testing.T) {
			root, _ := machine(t, name)
			sensortest.Run(t, func(t *testing.T) sensor.Sensor { return start(t, root) }, sensortest.Options{
				Foreign: true,
				Empty: func(root string) (sensor.Sensor, error) {
					s, err := New(root)
					if err != nil {
						return nil, err
					}
					return s, nil
				}})
		})
	}
	for _, d := range []*metric.Desc{layerDesc, saturatedDesc} {
		for _, problem := range sensortest.Lint(d, false) {
			t.Errorf("%s: %s", d.Name, problem)
		}
	}
}

// TestRecorded checks the units, and the counters that each of the three adapters has and lacks.
func TestRecorded(t *testing.T) {
	root, _ := machine(t, "procfs.txtar")
	got := readAll(t, start(t, root))
	for key, want := range map[string]float64{
		`node_infiniband_port_data_received_bytes_total{device="mlx4_0",port="1"}`:                                         4 * 2221223609,
		`node_infiniband_port_packets_received_total{device="mlx4_0",port="2"}`:                                            89332064,
		`node_infiniband_rate_bytes_per_second{device="hfi1_0",port="1"}`:                                                  12.5e9,
		`node_infiniband_rate_bytes_per_second{device="mlx5_0",port="1"}`:                                                  3.125e9,
		`node_infiniband_state_id{device="mlx4_0",port="2"}`:                                                               4,
		`node_infiniband_physical_state_id{device="hfi1_0",port="1"}`:                                                      5,
		`reckon_infiniband_port_info{device="hfi1_0",port="1",link_layer="InfiniBand"}`:                                    1,
		`node_infiniband_info{device="mlx4_0",board_id="SM_1141000001000",firmware_version="2.31.5050",hca_type="MT4099"}`: 1,
	} {
		if v, ok := got[key]; !ok || v != want {
			t.Errorf("%s is %v (there: %t), want %v", key, v, ok, want)
		}
	}
	if _, ok := got[`node_infiniband_unicast_packets_received_total{device="hfi1_0",port="1"}`]; ok {
		t.Error("a counter that the adapter does not have has a sample")
	}
}

// TestSaturated: a saturated counter has no sample; one below or above its maximum has one.
func TestSaturated(t *testing.T) {
	root, put := machine(t, "node_exporter.txtar")
	s := start(t, root)
	const wait = `node_infiniband_port_transmit_wait_total{device="mlx4_0",port="1"}`
	const mark = `reckon_infiniband_saturated{device="mlx4_0",port="1",counter="port_xmit_wait"}`
	for _, c := range []struct {
		text      string
		saturated bool
	}{{"4294967295", true}, {"4294967294", false}, {"4294967296", false}, {"0", false}} {
		put("sys/class/infiniband/mlx4_0/ports/1/counters/port_xmit_wait", c.text+"\n")
		if c.text == "0" { // the next reading reports a reset from a false one
			if err := s.Read(new(metric.Batch)); err == nil {
				t.Error("a fall is not reported")
			}
		}
		got := readAll(t, s)
		if _, ok := got[wait]; ok == c.saturated {
			t.Errorf("%s: has a sample: %t", c.text, ok)
		}
		if _, ok := got[mark]; ok != c.saturated {
			t.Errorf("%s: is marked: %t", c.text, ok)
		}
	}
	if _, ok := readAll(t, s)[`node_infiniband_port_data_received_bytes_total{device="i40iw0",port="1"}`]; ok {
		t.Error("an adapter without counters has some")
	}
}

// TestComesAndGoes: adapters are removed, added and changed between two readings.
func TestComesAndGoes(t *testing.T) {
	root, put := machine(t, "procfs.txtar")
	s := start(t, root)
	now := time.Unix(1000, 0)
	s.now, s.looked = func() time.Time { return now }, now
	if err := os.RemoveAll(filepath.Join(root, "sys/class/infiniband/mlx5_0")); err != nil {
		t.Fatal(err)
	}
	// Constructed: an Elastic Fabric Adapter, which counts octets among its hardware counters.
	for file, text := range map[string]string{"state": "4: ACTIVE\n", "phys_state": "5: LinkUp\n", "rate": "100 Gb/sec (4X EDR)\n",
		"link_layer": "Unspecified\n", "hw_counters/rx_bytes": "123\n", "hw_counters/tx_bytes": "456\n"} {
		put("sys/class/infiniband/rdmap0s6/ports/1/"+file, text)
	}
	now = now.Add(listInterval)
	got := readAll(t, s)
	if _, ok := got[`node_infiniband_state_id{device="mlx5_0",port="1"}`]; ok {
		t.Error("an adapter that was taken out is still there")
	}
	if v := got[`node_infiniband_port_data_received_bytes_total{device="rdmap0s6",port="1"}`]; v != 123 {
		t.Errorf("octets of an adapter that counts them elsewhere: %v, want 123", v)
	}
	put("sys/class/infiniband/rdmap0s6/ports/1/state", "down\n")
	var b metric.Batch
	if err := s.Read(&b); err == nil || !strings.Contains(err.Error(), "port 1 of rdmap0s6") {
		t.Errorf("a state that is none: %v", err)
	}
	if got := values(&b); got[`node_infiniband_port_data_transmitted_bytes_total{device="rdmap0s6",port="1"}`] != 456 ||
		got[`node_infiniband_state_id{device="hfi1_0",port="1"}`] != 4 {
		t.Error("one broken file hides others")
	}
}

// TestManyPorts: virtual functions are devices; exceeding the limit is reported, and nothing beyond it is opened.
func TestManyPorts(t *testing.T) {
	for _, n := range []int{maxPorts, maxPorts + 1} {
		root, put := machine(t, "")
		for i := range n {
			put(fmt.Sprintf("sys/class/infiniband/mlx5_%03d/ports/1/state", i), "4: ACTIVE\n")
		}
		s := start(t, root)
		var b metric.Batch
		if err := s.Read(&b); (err != nil) != (n > maxPorts) {
			t.Errorf("%d ports: %v", n, err)
		}
		ports := 0
		for key := range values(&b) {
			if strings.HasPrefix(key, "node_infiniband_state_id") {
				ports++
			}
		}
		if ports != maxPorts {
			t.Errorf("%d ports read of %d", ports, n)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]float64{"100 Gb/sec (4X EDR)": 12.5e9, "2.5 Gb/sec (1X SDR)": 312.5e6, "0 Gb/sec (0X)": 0, "10": -1,
		"x Gb/sec": -1, "2.55 Gb/sec": -1, "-1 Gb/sec": -1, "100 Mb/sec": -1} {
		if v, ok := parseRate([]byte(text)); ok != (want >= 0) || ok && v != want {
			t.Errorf("%q is %v, %t", text, v, ok)
		}
	}
	for text, want := range map[string]float64{"4: ACTIVE": 4, "1: DOWN": 1, "ACTIVE": -1, "4": -1, "-1: x": -1, "": -1} {
		if v, ok := parseLeadingNumber([]byte(text)); ok != (want >= 0) || ok && v != want {
			t.Errorf("%q is %v, %t", text, v, ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("100 Gb/sec (4X EDR)"))
	f.Add([]byte("4: ACTIVE"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, ok := parseRate(b); ok && (v < 0 || v > 1.26e14) {
			t.Fatalf("rate %q is %v", b, v)
		}
		if v, ok := parseLeadingNumber(b); ok && v < 0 {
			t.Fatalf("state %q is %v", b, v)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	root, _ := machine(b, "procfs.txtar")
	s := start(b, root)
	var batch metric.Batch
	b.ReportAllocs()
	for b.Loop() {
		batch.Reset(time.Time{})
		if err := s.Read(&batch); err != nil {
			b.Fatal(err)
		}
	}
}

// TestGate: a port of 40 Gbit/s can not receive 10 TB in a second.
func TestGate(t *testing.T) {
	root, put := machine(t, "node_exporter.txtar")
	s := start(t, root)
	now := time.Now()
	s.now = func() time.Time { return now }
	const key = `node_infiniband_port_data_received_bytes_total{device="mlx4_0",port="1"}`
	was := readAll(t, s)[key]
	for _, c := range []struct{ more, want float64 }{{1e9, 1e9}, {1e13, 0}, {2e9, 2e9}, {-was, 0}, {3e9, 3e9}} {
		now = now.Add(time.Second)
		put("sys/class/infiniband/mlx4_0/ports/1/counters/port_rcv_data", strconv.FormatInt(int64(was+c.more)/4, 10)+"\n")
		var b metric.Batch
		err := s.Read(&b)
		got := 0.0
		for _, m := range b.Samples {
			if sensortest.Key(m.Series) == key {
				got = m.Value - was
			}
		}
		if n, alone := sensor.Implausible(err); math.Abs(got-c.want) > 4 || (n == 1) != (c.want == 0) || !alone {
			t.Errorf("%v more: %v, %v, want %v", c.more, got, err, c.want)
		}
	}
}

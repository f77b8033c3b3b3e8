package agent

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reckon/account/attribution/powermodel"
	"reckon/metric"
	"reckon/sensor"
)

// steady is a meter of a machine that draws 10 W and 90 W more for each busy core.
type steady struct {
	a      *Agent
	joules float64
	boot   uint64
	idle   uint64
	fail   error
}

func (s *steady) Name() string { return "steady" }
func (s *steady) Close() error { return nil }

func (s *steady) ReadMeters(dst []sensor.Meter) ([]sensor.Meter, error) {
	if s.fail != nil {
		return dst, s.fail
	}
	m := &s.a.total
	if idle := m.Idle + m.IOWait + m.Steal; s.boot != 0 {
		span := float64(m.Boot-s.boot) / 1e9
		s.joules += 10*span + 90*max(span*float64(m.Cores)-float64(idle-s.idle)/1e9, 0)
	}
	s.boot, s.idle = m.Boot, m.Idle+m.IOWait+m.Steal
	return append(dst, sensor.Meter{Domain: sensor.DomainPackage, Zone: "0", Joules: s.joules, HasJoules: true}), nil
}

// TestEnergyOfOwnUse lets this process work beside a meter, and holds its energy against
// its share of the CPU time, and the sum of all against the meter.
func TestEnergyOfOwnUse(t *testing.T) {
	a := open(t, Config{Source: "procfs", PowerModel: noModel})
	u := &sensorState{name: "steady", series: metric.NewSeries(sensorUp, "steady", ""), up: true}
	a.sensors = append(a.sensors, u)
	s := &steady{a: a}
	a.meter.sources = []*sensorMeters{{unit: u, source: s}}
	if err := a.tick(); err != nil {
		t.Fatal(err)
	}
	first, charged := s.joules, a.ledger.Total()
	for range 8 {
		burn(100 * time.Millisecond)
		if err := a.tick(); err != nil {
			t.Fatal(err)
		}
	}
	s.fail = errors.New("no such device")
	burn(50 * time.Millisecond)
	if err := a.tick(); err != nil {
		t.Fatal(err)
	}
	if u.up || !strings.Contains(u.reason, "no such device") {
		t.Errorf("a meter that fails is %v, %q", u.up, u.reason)
	}
	s.fail = nil // and comes back: what it counted meanwhile is charged
	if err := a.tick(); err != nil {
		t.Fatal(err)
	}
	a.export(time.Now())
	node, _ := sum(&a.batch, "reckon_node_attributed_energy_joules_total")
	if math.Abs(node-(s.joules-first)) > 1e-6*s.joules {
		t.Errorf("%.3f J were split, the meter counted %.3f J", node, s.joules-first)
	}
	var own, all, cpu float64
	for _, sample := range a.batch.Samples {
		if sample.Series.Desc.Name == "reckon_workload_energy_joules_total" {
			all += sample.Value
			if strings.HasSuffix(sample.Series.Values[0], "/"+groupName(a)) {
				own += sample.Value
			}
		}
	}
	active, _ := sum(&a.batch, "reckon_node_attributed_energy_joules_total", "share", "active")
	// A group so young that it is not exported yet may hold a little.
	if all > active*(1+1e-6) || all < active*0.9 {
		t.Errorf("workloads have %.3f J, %.3f J were split as active", all, active)
	}
	cpu = float64(a.ledger.Total()-charged) / 1e9
	if own <= 0 || cpu < 0.5 {
		t.Errorf("this process has %.3f J of %.3f J; %.3f s were charged", own, all, cpu)
	}
}

// groupName is the last word of the workload of this process.
func groupName(a *Agent) string {
	p := a.findProcess(int32(unix.Getpid()))
	if p == nil {
		return "?"
	}
	part := a.ledger.PartOf(p.PID, p.Start)
	return string(part.Workload())[strings.LastIndexByte(string(part.Workload()), '/')+1:]
}

// gauges is a sensor of one series.
type gauges struct {
	series *metric.Series
	value  float64
}

func (g *gauges) Name() string               { return "gauges" }
func (g *gauges) Descs() []*metric.Desc      { return []*metric.Desc{g.series.Desc} }
func (g *gauges) Read(b *metric.Batch) error { b.Add(g.series, g.value); return nil }
func (g *gauges) Close() error               { return nil }

// TestModelOfAnySeries loads a model of GPUs and of a series that only this site has: it
// waits for both by name, and gives the power of what they report when they come.
func TestModelOfAnySeries(t *testing.T) {
	m := &powermodel.Model{Format: powermodel.Format, Version: powermodel.Version, Name: "press", Domain: "node",
		Features: []powermodel.Feature{{Name: "gpu_utilization", Max: 4},
			{Name: "pump", Source: `avg(site_pump_hertz{room="b"})`, Max: 100}},
		Parts: []powermodel.Part{{Kind: powermodel.KindTerms, Weight: 1, Base: 50, Terms: []powermodel.Term{
			{Feature: 0, Shape: powermodel.ShapeLinear, Scale: 1, Watts: 200},
			{Feature: 1, Shape: powermodel.ShapeLinear, Scale: 1, Watts: 2}}}},
		Band: powermodel.Band{Coverage: 0.9, Low: 0.9, High: 1.1, Points: 10}}
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.json")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	a := open(t, Config{Source: "procfs", PowerModel: path})
	a.meter.sources = nil // where this machine's energy is metered, no model is asked
	step := func() {
		t.Helper()
		if err := a.tick(); err != nil {
			t.Fatal(err)
		}
		a.export(time.Now())
	}
	for range 3 {
		step()
	}
	why := ""
	for _, s := range a.Sensors() {
		if s.Sensor == "power-model" && !s.Up {
			why = s.Reason
		}
	}
	if !strings.Contains(why, "gpu_utilization") || !strings.Contains(why, "site_pump_hertz") {
		t.Errorf("it waits for %q, want both features named", why)
	}
	if _, ok := sum(&a.batch, "reckon_node_power_watts", "method", "modelled"); ok > 0 {
		t.Error("a figure without its features")
	}
	pump := &gauges{series: metric.NewSeries(&metric.Desc{Name: "site_pump_hertz", Kind: metric.Gauge, Labels: []string{"room"}}, "b"),
		value: 30}
	a.Attach(pump)
	u := &sensorState{name: "played", series: metric.NewSeries(sensorUp, "played", ""), up: true}
	a.sensors = append(a.sensors, u)
	a.addGPU(u, &played{})
	for range 3 {
		step()
	}
	if w, ok := sum(&a.batch, "reckon_node_power_watts", "method", "modelled"); ok != 1 || math.Abs(w-(50+200*0.75+2*30)) > 1e-6 {
		t.Errorf("%g W, %v, want 260", w, ok)
	}
	for _, s := range a.Sensors() {
		if s.Sensor == "power-model" && !s.Up {
			t.Errorf("it still waits: %s", s.Reason)
		}
	}
}

// played is a GPU that computes for three quarters of its time.
type played struct{}

func (*played) Name() string { return "played" }
func (*played) Close() error { return nil }
func (*played) ReadGPU(p *sensor.GPUPass) error {
	p.Devices = append(p.Devices, sensor.GPU{Vendor: "nvidia", Device: "GPU-1", Have: sensor.GPUBusy, Span: 2, Busy: 1.5})
	return nil
}

func TestPowerModel(t *testing.T) {
	good := &powermodel.Model{Format: powermodel.Format, Version: powermodel.Version, Name: "lab node", Domain: "node",
		Features: []powermodel.Feature{{Name: "cpu_utilization", Max: 1}, {Name: "network_bytes", Max: 1e9}},
		Parts: []powermodel.Part{{Kind: powermodel.KindTerms, Weight: 1, Base: 50, Terms: []powermodel.Term{
			{Feature: 0, Shape: powermodel.ShapeLinear, Scale: 1, Watts: 100},
			{Feature: 1, Shape: powermodel.ShapeLinear, Scale: 1e9, Watts: 10}}}},
		Band: powermodel.Band{Coverage: 0.9, Low: 0.9, High: 1.1, Points: 10}}
	var b bytes.Buffer
	if err := good.Write(&b); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	root := t.TempDir() // with a device: this machine may have none but lo
	net := filepath.Join(root, "proc/net")
	if err := errors.Join(os.MkdirAll(net, 0o755),
		os.WriteFile(filepath.Join(net, "dev"), []byte("Inter-|\n face |bytes\n eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"),
			0o644)); err != nil {
		t.Fatal(err)
	}
	p, err := openPowerModel(root, file("good.json", b.String()))
	if err != nil {
		t.Fatal(err)
	}
	defer p.inputs.close()
	if _, ok := p.readPower(0.5, 1e9); ok {
		t.Error("a figure before rates are known")
	}
	s, ok := p.readPower(0.5, 2e9)
	if !ok || s.Idle != 50 || s.Meters[0].Watts < 100 || s.Meters[0].Watts > 200 || !s.Model {
		t.Errorf("%+v %v, want some 100 W, 50 of them idle", s, ok)
	}
	if _, ok := p.readPower(math.NaN(), 3e9); ok {
		t.Error("a figure without a utilisation")
	}
	for name, c := range map[string]struct{ path, want string }{
		"newer":         {file("newer.json", strings.Replace(b.String(), `"version": 2`, `"version": 9`, 1)), "version 9"},
		"other machine": {file("other.json", strings.Replace(b.String(), `"machine": {}`, `"machine": {"arch": "vax"}`, 1)), `arch "vax"`},
		"other feature": {file("feature.json", strings.Replace(b.String(), "network_bytes", "llc_misses", 1)), "llc_misses"},
		"other domain":  {file("domain.json", strings.Replace(b.String(), `"domain": "node"`, `"domain": "gpu"`, 1)), "of gpu"},
		"not there":     {filepath.Join(dir, "none.json"), "no such file"},
		"no model":      {file("text.json", "hello"), "not a power model"},
	} {
		_, err := openPowerModel("/", c.path)
		if err == nil || errors.Is(err, sensor.ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		// The agent reports it and measures the rest.
		a, notes, err := Open(Config{Source: "procfs", PowerModel: c.path})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := a.tick(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		said := false
		for _, n := range notes {
			said = said || n.Sensor == "power-model"
		}
		if !said {
			t.Errorf("%s: nothing is said", name)
		}
		_ = a.Close()
	}
	if m, err := openPowerModel("/", noModel); m != nil || err != nil {
		t.Errorf("no model wanted: %v %v", m, err)
	}
	if _, _, err := Open(Config{Source: "procfs", Idle: "mine"}); err == nil || !strings.Contains(err.Error(), "request") {
		t.Errorf("%v", err)
	}
}

// TestRefusedReadings: one impossible reading is counted and is no failure of the sensor; a series of them is.
func TestRefusedReadings(t *testing.T) {
	a := open(t, Config{Source: "procfs", PowerModel: noModel})
	u := &sensorState{name: "steady", series: metric.NewSeries(sensorUp, "steady", ""), up: true}
	a.sensors = append(a.sensors, u)
	s := &steady{a: a}
	a.meter.sources = []*sensorMeters{{unit: u, source: s}}
	u.sensor = &attached{s}
	for i := range 5 {
		s.fail = nil
		if i != 1 {
			s.fail = sensor.CheckRange("power", "the board", 4294967295, 0, 600)
		}
		if err := a.tick(); err != nil {
			t.Fatal(err)
		}
		if u.up != (i < 4) {
			t.Errorf("after reading %d the sensor is up: %v (%s)", i, u.up, u.reason)
		}
	}
	s.fail = nil
	if err := a.tick(); err != nil {
		t.Fatal(err)
	}
	a.export(time.Now())
	if n, ok := sum(&a.batch, "reckon_sensor_refused_readings_total", "sensor", "steady"); n != 4 || !u.up {
		t.Errorf("%v refused (%v), up %v", n, ok, u.up)
	}
}

type attached struct{ *steady }

func (*attached) Descs() []*metric.Desc    { return nil }
func (*attached) Read(*metric.Batch) error { return nil }

package agent

import (
	"errors"
	"os"
	"testing"

	"reckon/metric"
	"reckon/sensor"
)

// card is a GPU on which one process computes.
type card struct {
	pid  int32
	err  error
	mega float64
}

func (c *card) Name() string             { return "card" }
func (c *card) Descs() []*metric.Desc    { return nil }
func (c *card) Read(*metric.Batch) error { return c.err }
func (c *card) Close() error             { return nil }
func (c *card) ReadGPU(p *sensor.GPUPass) error {
	if c.err != nil {
		return c.err
	}
	const have = sensor.GPUBusy | sensor.GPUMemory
	p.Devices = append(p.Devices, sensor.GPU{Vendor: "nvidia", Device: "GPU-1", Span: 1, Busy: 0.5, Have: have})
	p.Uses = append(p.Uses, sensor.GPUUse{PID: c.pid, Device: "GPU-1", Busy: 0.5, Memory: 1 << 30, Have: have})
	return nil
}
func (c *card) ReadMeters(dst []sensor.Meter) ([]sensor.Meter, error) {
	if c.err != nil {
		return dst, c.err
	}
	c.mega += 300
	return append(dst, sensor.Meter{Domain: sensor.DomainGPU, Zone: "GPU-1", Joules: c.mega, HasJoules: true}), nil
}

// The use of a device reaches the workload of the process that computes, and the split
// of its energy; when the device fails the reason is in the state of the sensor and the
// rest goes on.
func TestGPU(t *testing.T) {
	a := open(t, Config{Source: "procfs"})
	c := &card{pid: int32(os.Getpid())}
	a.addSensor("card", c, nil)
	a.openMeters()
	a.openGPUs()
	for range 4 {
		if err := a.tick(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(a.meter.shares); n != 1 || a.meter.shares[0].Device != "GPU-1" || a.meter.shares[0].Busy != 0.5 {
		t.Errorf("shares for the energy: %+v", a.meter.shares)
	}
	if share, ok := a.meter.busy("GPU-1"); !ok || share != 0.5 {
		t.Errorf("the device was busy for %v (%v) of its time, want half", share, ok)
	}
	check := func(when string, memory bool) {
		t.Helper()
		a.export(a.now())
		all, n := sum(&a.batch, "reckon_workload_gpu_seconds_total", "device", "GPU-1", "method", "measured")
		other, _ := sum(&a.batch, "reckon_workload_gpu_seconds_total", "kind", "other")
		if all != 2 || n != 1 || other != 0 {
			t.Errorf("%s: %v GPU seconds in %d series, %v of them other, want 2 of this process", when, all, n, other)
		}
		if v, n := sum(&a.batch, "reckon_workload_gpu_memory_bytes", "vendor", "nvidia"); memory != (n == 1 && v == 1<<30) {
			t.Errorf("%s: GPU memory %v in %d series", when, v, n)
		}
	}
	check("with the device", true)
	c.err = errors.New("GPU 0 (GPU-1): the GPU is lost")
	if err := a.tick(); err != nil {
		t.Fatal(err)
	}
	check("without it", false)
	for _, s := range a.Sensors() {
		if s.Sensor == "card" && (s.Up || s.Reason == "") {
			t.Errorf("state of the sensor: %+v", s)
		}
	}
}

package run

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"reckon/internal/term"
	"reckon/metric"
	"reckon/sensor"
)

// card is a GPU that is busy half of the time, and is held by the children of this process, or by a stranger too.
type card struct {
	at       time.Time
	begun    time.Time
	stranger bool
	closed   bool
}

func (c *card) Name() string             { return "nvml" }
func (c *card) Descs() []*metric.Desc    { return nil }
func (c *card) Read(*metric.Batch) error { return nil }
func (c *card) Close() error             { c.closed = true; return nil }

func (c *card) ReadGPU(p *sensor.GPUPass) error {
	now, span := time.Now(), 0.0
	if !c.at.IsZero() {
		span = now.Sub(c.at).Seconds()
	} else {
		c.begun = now
	}
	c.at = now
	p.Devices = append(p.Devices, sensor.GPU{Vendor: "nvidia", Device: "GPU-1", Span: span, Busy: span / 2, Have: sensor.GPUBusy | sensor.GPUMemory})
	list, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	for word := range strings.FieldsSeq(string(list)) {
		var pid int32
		fmt.Sscan(word, &pid)
		p.Uses = append(p.Uses, sensor.GPUUse{PID: pid, Device: "GPU-1", Memory: 3 << 30, Have: sensor.GPUMemory})
	}
	if c.stranger {
		p.Uses = append(p.Uses, sensor.GPUUse{PID: 1, Device: "GPU-1", Memory: 1 << 30, Have: sensor.GPUMemory})
	}
	return nil
}

func (c *card) ReadMeters(dst []sensor.Meter) ([]sensor.Meter, error) {
	return append(dst, sensor.Meter{Domain: sensor.DomainGPU, Zone: "GPU-1", HasJoules: true, Joules: 1e6 + 400*c.at.Sub(c.begun).Seconds()}), nil
}

// TestRunGPU: the report has GPU time, the highest memory and energy of the tree, to its end; beside a stranger the time is split and
// marked, and a run without a GPU has none.
func TestRunGPU(t *testing.T) {
	for _, stranger := range []bool{false, true} {
		c := &card{stranger: stranger}
		r, err := Run(Options{Args: []string{"sleep", "2.3"}, GPUs: func() []sensor.Sensor { return []sensor.Sensor{c} }})
		if err != nil {
			t.Fatal(err)
		}
		g := r.GPU
		if g == nil || !c.closed {
			t.Fatalf("GPU %+v, closed %v", g, c.closed)
		}
		share := 1.0
		if stranger {
			share = 0.75
		}
		span := c.at.Sub(c.begun).Seconds()
		if math.Abs(g.Seconds-span/2*share) > 0.05*span || g.Estimated != stranger || g.MemoryPeakBytes != 3<<30 || span < 1.8 {
			t.Errorf("stranger %v: %+v of %v s", stranger, g, span)
		}
		if g.EnergyJoules == nil || *g.EnergyJoules <= 0 || *g.EnergyJoules > 400*span*share+1 {
			t.Errorf("stranger %v: energy %+v", stranger, g.EnergyJoules)
		}
		var b bytes.Buffer
		if err := r.Print(term.Screen{Writer: &b, Width: 100}); err != nil || !strings.Contains(b.String(), "memory peak 3 GiB, energy ") {
			t.Errorf("%v: %s", err, b.String())
		}
	}
	r, err := Run(Options{Args: []string{"true"}})
	if err != nil || r.GPU != nil {
		t.Errorf("without a GPU: %+v, %v", r.GPU, err)
	}
}

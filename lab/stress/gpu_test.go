package stress

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestGPUPace runs programs on devices of different speed with drifting clocks, in
// simulated time: the device must be busy for its target share.
func TestGPUPace(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		share, turn float64 // nanoseconds a turn
	}{{0.3, 5}, {0.01, 5}, {0.9, 0.5}, {1, 20}, {0.5, 400}} {
		p := gpuPacer{pacer: pacer{targetCurve: newCurve(Constant(Level{GPU: c.share}, 20*time.Second), GPU)}}
		busy, wander := time.Duration(0), 1.0
		for at := time.Duration(0); at < 20*time.Second; at += gpuPeriod {
			turns := p.kernelLength(at+gpuPeriod, busy)
			if turns == 0 {
				continue
			}
			wander = min(max(wander+(rng.Float64()-0.5)/10, 0.6), 1.7)
			took := time.Duration(float64(turns) * c.turn * wander)
			busy += took
			p.recordKernel(turns, took)
		}
		want := c.share * 20
		if c.share == 1 {
			want *= 0.98 // the start of kernels takes a little of each period
		}
		if off := math.Abs(busy.Seconds()-want) / want; off > 0.02 {
			t.Errorf("%g of a device with %g ns a turn: busy for %v, want %g s", c.share, c.turn, busy, want)
		}
	}
}

// slow is a device that stalls at times.
type slow struct {
	spun  time.Duration
	fails error
}

func (s *slow) name() string { return "slow" }
func (s *slow) enter() error { return nil }
func (s *slow) close() error { return nil }
func (s *slow) spin(turns uint64) (time.Duration, error) {
	took := time.Duration(turns) * 10
	s.spun += took
	return took, s.fails
}

func TestGPULoad(t *testing.T) {
	dev := &slow{}
	p := Program{Steps: []Step{{Level{GPU: 0.5}, 200 * time.Millisecond}, {Level{}, 100 * time.Millisecond}}}
	g, err := openGPU(p, 0, func(int) (gpuDevice, error) { return dev, nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := g.run(newClock(), func(time.Duration) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if dev.spun == 0 || time.Duration(g.busy.Load()) != dev.spun {
		t.Errorf("busy for %v, spun for %v", time.Duration(g.busy.Load()), dev.spun)
	}
	dev.fails = errors.New("fell off the bus")
	g, err = openGPU(p, 0, func(int) (gpuDevice, error) { return dev, nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := g.run(newClock(), func(time.Duration) bool { return true }); err == nil || !strings.Contains(err.Error(), "GPU load: fell off the bus") {
		t.Errorf("%v", err)
	}
	if _, err := openGPU(Constant(Level{GPU: 1.5}, time.Second), 0, nil); !errors.Is(err, ErrUnavailable) {
		t.Errorf("one and a half GPUs: %v", err)
	}
}

package run

import (
	"math"
	"time"

	"reckon/account/attribution"
	"reckon/account/energy"
	"reckon/sensor"
)

// GPU is the GPU use of the tree. It is null if the machine has no GPU, or if no process of the tree had one open.
type GPU struct {
	// Seconds is the time that devices computed for the tree. Estimated reports that other
	// processes had them open as well, so that it is split by the driver's samples or by memory.
	Seconds   float64 `json:"seconds"`
	Estimated bool    `json:"estimated,omitempty"`
	// MemoryPeakBytes is the highest memory of devices at a look each second.
	MemoryPeakBytes uint64 `json:"memory_peak_bytes"`
	// EnergyJoules is the active energy of the tree's GPU use; null without a meter.
	EnergyJoules *float64 `json:"energy_joules"`
}

// gpuEvery is the time between two readings of GPUs, seconds.
const gpuEvery = 1.0

// gpuMeter charges the use of the machine's GPUs to the tree and to other users of them. Opening
// GPUs takes long, so it happens while the command runs.
type gpuMeter struct {
	opening <-chan []sensor.Sensor // nil once they are open, or if there are none
	sensors []sensor.Sensor
	pass    sensor.GPUPass
	list    []attribution.Source

	books       energy.NodeEnergy
	mine, other energy.Account
	accounts    []*energy.Account
	peak        float64
	held        bool
	at          float64 // of the last reading
}

func openGPUs(open func() []sensor.Sensor) *gpuMeter {
	g := new(gpuMeter)
	g.accounts = []*energy.Account{&g.mine, &g.other}
	if open != nil {
		ready := make(chan []sensor.Sensor, 1)
		go func() { ready <- open() }()
		g.opening = ready
	}
	return g
}

// readGPUs reads the GPUs. It does so at most once a second, unless last is set.
func (g *gpuMeter) readGPUs(t *tree, at float64, last bool) {
	if g == nil {
		return
	}
	select {
	case g.sensors = <-g.opening:
		g.opening = nil
	default:
	}
	if len(g.sensors) == 0 || !last && g.at != 0 && at-g.at < gpuEvery {
		return
	}
	g.at = at
	g.pass.Reset()
	for _, s := range g.sensors {
		if s, ok := s.(sensor.GPUSource); ok {
			_ = s.ReadGPU(&g.pass) // a device that fails is absent
		}
	}
	now := time.Now()
	shares := g.books.GPU(now.UnixMilli(), &g.pass, func(pid int32) (*energy.Account, bool) {
		if p := t.procs[pid]; p != nil {
			return &g.mine, false
		}
		return &g.other, false
	}, g.accounts, &g.other)
	_, memory, _, ok := g.mine.Now()
	g.peak, g.held = max(g.peak, memory), g.held || ok
	g.list = g.list[:0]
	for _, s := range g.sensors {
		if s, ok := s.(sensor.MeterSource); ok {
			meters, _ := s.ReadMeters(nil)
			g.list = append(g.list, attribution.Source{Name: s.Name(), Meters: meters})
		}
	}
	load := attribution.Load{Boot: uint64(at * 1e9), CPU: math.NaN(), Devices: g.busy}
	g.books.Charge(now.UnixMilli(), load, g.list, shares, []energy.Consumer{{Account: &g.mine}, {Account: &g.other}}, &g.other, 1)
}

// busy returns the share of the last reading's time that a device computed.
func (g *gpuMeter) busy(zone string) (share float64, ok bool) {
	for i := range g.pass.Devices {
		if d := &g.pass.Devices[i]; d.Device == zone && d.Have&sensor.GPUBusy != 0 && d.Span > 0 {
			return min(d.Busy/d.Span, 1), true
		}
	}
	return 0, false
}

// gpuReport returns the GPU use, or nil if the tree had no device open.
func (g *gpuMeter) gpuReport() *GPU {
	if g == nil {
		return nil
	}
	for _, s := range g.sensors {
		_ = s.Close()
	}
	seconds := g.mine.Seconds()
	out := &GPU{MemoryPeakBytes: uint64(g.peak)}
	for i, s := range seconds {
		out.Seconds += s
		out.Estimated = out.Estimated || i > 0 && s > 0
	}
	if !g.held && out.Seconds == 0 {
		return nil
	}
	if g.mine.Metered() || g.other.Metered() {
		active, _ := g.mine.Joules()
		out.EnergyJoules = &active
	}
	return out
}

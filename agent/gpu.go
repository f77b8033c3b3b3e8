package agent

import (
	"time"

	"reckon/sensor"
	"reckon/web/client"
)

// gpuReading reads the GPUs of the node at each tick and has the ledger split their use.
type gpuReading struct {
	sources []sensorGPUs
	pass    sensor.GPUPass
	next    time.Time // when the next export is due
}

// sensorGPUs is a sensor that reads GPUs.
type sensorGPUs struct {
	unit   *sensorState
	source sensor.GPUSource
}

// openGPUs finds the sensors that read GPUs.
func (a *Agent) openGPUs() {
	for _, u := range a.sensors {
		if s, ok := u.sensor.(sensor.GPUSource); ok {
			a.addGPU(u, s)
		}
	}
}

func (a *Agent) addGPU(u *sensorState, s sensor.GPUSource) {
	a.gpu.sources = append(a.gpu.sources, sensorGPUs{u, s})
	if a.meter != nil {
		a.meter.busy = a.gpu.busy
	}
}

// startBackground starts the background readings of the sensors for a tick of the given length.
func (g *gpuReading) startBackground(tick time.Duration) {
	due := time.Until(g.next)
	for _, r := range g.sources {
		if s, ok := r.source.(sensor.GPUStarter); ok {
			s.StartGPU(due > 0 && due <= tick*3/2, due <= 0)
		}
	}
}

// tickGPU reads the GPUs and charges their use. It runs before tickEnergy, which splits energy by that use.
func (a *Agent) tickGPU() {
	g := &a.gpu
	if len(g.sources) == 0 {
		return
	}
	g.pass.Reset()
	for _, r := range g.sources {
		if s, ok := r.source.(sensor.GPUFinder); ok {
			s.FindGPU(a.pass.Opens)
		}
		a.recordReading(r.unit, r.source.ReadGPU(&g.pass))
	}
	shares := a.ledger.GPU(&g.pass)
	if a.meter != nil {
		a.meter.shares = shares
	}
}

// busy returns the share of this tick in which a device computed.
func (g *gpuReading) busy(zone string) (share float64, ok bool) {
	for i := range g.pass.Devices {
		d := &g.pass.Devices[i]
		if d.Device == zone && d.Have&sensor.GPUBusy != 0 && d.Span > 0 {
			return min(d.Busy/d.Span, 1), true
		}
	}
	return 0, false
}

// addToLive adds the GPUs of the node to a tick of a live view.
func (g *gpuReading) addToLive(l *client.Live) {
	devices, size, used := 0, 0.0, 0.0
	for i := range g.pass.Devices {
		if d := &g.pass.Devices[i]; d.Parent == "" {
			devices++
			size, used = size+float64(d.MemorySize), used+float64(d.Memory)
		}
	}
	if devices == 0 {
		return
	}
	l.GPUs = new(float64(devices))
	if size > 0 {
		l.GPUMemory, l.GPUMemUsed = &size, &used
	}
	if n, ok := g.busyDevices(); ok {
		l.GPUsUsed = &n
	}
}

// busyDevices returns the sum over all devices of the share of time that each computed in this tick. ok is false if no
// device reports it. A partition counts if its device does not report.
func (g *gpuReading) busyDevices() (devices float64, ok bool) {
	sum, known := 0.0, false
	for i := range g.pass.Devices {
		d := &g.pass.Devices[i]
		if d.Have&sensor.GPUBusy != 0 && d.Span > 0 {
			sum, known = sum+min(d.Busy/d.Span, 1), true
		}
	}
	return sum, known
}

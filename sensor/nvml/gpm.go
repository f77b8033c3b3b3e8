package nvml

import (
	"math"
	"time"

	"reckon/sensor"
)

// gpmFigures lists the GPM metrics and the figure that each is integrated to. The factor unit converts percent of time
// to seconds, and MiB/s to bytes.
var gpmFigures = [...]struct {
	id     uint32
	figure int
	unit   float64
}{
	{gpmGraphics, figGraphicsBusy, 0.01}, {gpmSM, figSMBusy, 0.01}, {gpmTensor, figTensor, 0.01}, {gpmDRAM, figDRAM, 0.01},
	{gpmDFMA, figTensorFP64, 0.01}, {gpmHMMA, figTensorHalf, 0.01}, {gpmIMMA, figTensorInteger, 0.01}, {gpmOccupancy, figOccupancy, 0.01},
	{gpmFP64, figFP64, 0.01}, {gpmFP32, figFP32, 0.01}, {gpmFP16, figFP16, 0.01},
	{gpmPCIeSent, figPCIeSent, 1 << 20}, {gpmPCIeGot, figPCIeReceived, 1 << 20},
	{gpmNVLinkSent, figNVLinkSent, 1 << 20}, {gpmNVLinkGot, figNVLinkReceived, 1 << 20},
}

// minGPMInterval is the minimum time between two GPM samples, because the device updates its counters every 100 ms
// (nvmlGpmMetricsGet).
const minGPMInterval = 100 * time.Millisecond

// gpmState is the state of the performance counters of one device or MIG instance.
type gpmState struct {
	no       bool // the device does not have them, or denies access
	busy     bool // the last reading of the busy time is from them
	why      code
	samples  [2]gpmSample
	at       [2]time.Time // time of each, zero if it holds nothing
	last     int          // index of the later one
	ids      [len(gpmFigures)]uint32
	values   [len(gpmFigures)]float64
	previous [len(gpmFigures)]float64 // sums so far
}

// readGPM integrates the activity of a device's pipes, memory and links since the last reading. The activity is the
// mean between two GPM samples, which Hopper and later devices have. busy is the computing time in seconds. ok is false
// if it is unknown.
func (r *reader) readGPM(d *device, now time.Time) (busy float64, ok bool) {
	g := &d.gpm
	if g.no {
		return 0, false
	}
	owner, instance := d, uint32(wholeDevice)
	if d.gpu.Parent != "" {
		if owner = r.parent(d); owner == nil {
			return 0, false
		}
		instance = d.gpuInstance
	}
	if g.samples[0] == 0 && !r.beginGPM(owner, g) {
		return 0, false
	}
	before := g.at[g.last]
	if !before.IsZero() && now.Sub(before) < minGPMInterval {
		return 0, g.busy
	}
	next := 1 - g.last
	if c := r.lib.SampleGPM(owner.handle, instance, g.samples[next]); c != codeSuccess { // a profiler may hold the counters
		g.at = [2]time.Time{} // unknown until the next sample
		g.no, g.why = c == codeNotSupported || c == codeNoFunction || c == codeNoPermission, c
		return 0, false
	}
	now = r.now() // calls before this one may have taken long
	g.at[next] = now
	g.last = next
	span := now.Sub(before)
	if before.IsZero() || span > sensor.Gap {
		return 0, before.IsZero() && d.looked.IsZero()
	}
	for i := range gpmFigures {
		g.ids[i] = gpmFigures[i].id
	}
	if r.lib.GPMMetrics(g.samples[1-next], g.samples[next], g.ids[:], g.values[:]) != codeSuccess {
		return 0, false
	}
	fp64 := math.NaN()
	for i, f := range gpmFigures {
		v := g.values[i] * f.unit
		switch f.figure { // matrix work in double precision runs on the tensor pipe
		case figTensorFP64:
			fp64 = v
		case figFP64:
			if fp64 >= 0 {
				v = min(v+fp64, 1)
			}
		}
		if math.IsNaN(v) || v < 0 || f.unit < 1 && v > 1.005 || d.hasCounter(f.figure) {
			continue // a share above 1 is invalid
		}
		if f.figure == figGraphicsBusy {
			busy, ok = min(v, 1)*span.Seconds(), true
		}
		g.previous[i] += v * span.Seconds()
		d.shown[f.figure] = exportedFigure{g.previous[i], true}
	}
	return busy, ok
}

// hasCounter reports whether the device has its own counter of a figure.
func (d *device) hasCounter(figure int) bool {
	return (figure == figNVLinkSent || figure == figNVLinkReceived) && d.linksCounted
}

// beginGPM allocates two samples, or records that the device has no such counters.
func (r *reader) beginGPM(owner *device, g *gpmState) bool {
	ok, c := r.lib.GPM(owner.handle)
	if c == codeSuccess && !ok {
		c = codeNotSupported
	}
	for i := range g.samples {
		if c == codeSuccess {
			g.samples[i], c = r.lib.NewGPMSample()
		}
	}
	if c != codeSuccess {
		r.endGPM(g)
		g.no, g.why = true, c
	}
	return c == codeSuccess
}

// endGPM frees the samples.
func (r *reader) endGPM(g *gpmState) {
	for i := range g.samples {
		if g.samples[i] != 0 {
			r.lib.FreeGPMSample(g.samples[i])
		}
	}
	*g = gpmState{previous: g.previous}
}

// parent returns the device that contains a MIG instance, or nil if it is not available.
func (r *reader) parent(d *device) *device {
	for _, p := range r.devices {
		if p.gpu.Device == d.gpu.Parent && !p.lost {
			return p
		}
	}
	return nil
}

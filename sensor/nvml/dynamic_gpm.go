//go:build nvml && linux && (amd64 || arm64)

package nvml

import (
	"math"
	"strings"
	"unsafe"
)

// gpmMetrics is nvmlGpmMetricsGet_t. It has room for more metrics than any version of the library. The documentation
// does not say whether the library leaves entries unchanged that were not requested.
type gpmMetrics struct {
	version, count uint32
	before, after  gpmSample
	metrics        [512]gpmMetric
}

// gpmMetric is nvmlGpmMetric_t.
type gpmMetric struct {
	id    uint32
	code  code
	value float64
	_     [3]uintptr // names and unit
}

// GPM implements library.
func (d *dynamic) GPM(h handle) (bool, code) {
	d.out[0] = 1 // NVML_GPM_SUPPORT_VERSION; the result follows it
	d.args[0], d.args[1] = uintptr(h), d.outAddress(0)
	c := d.callFunction(fnGPMSupport, 2)
	return d.out[0]>>32 != 0, c
}

// NewGPMSample implements library.
func (d *dynamic) NewGPMSample() (gpmSample, code) {
	d.out[0] = 0
	d.args[0] = d.outAddress(0)
	c := d.callFunction(fnGPMAlloc, 1)
	return gpmSample(d.out[0]), c
}

// FreeGPMSample implements library.
func (d *dynamic) FreeGPMSample(s gpmSample) {
	d.args[0] = uintptr(s)
	d.callFunction(fnGPMFree, 1)
}

// SampleGPM implements library.
func (d *dynamic) SampleGPM(h handle, instance uint32, s gpmSample) code {
	if instance != wholeDevice {
		d.args[0], d.args[1], d.args[2] = uintptr(h), uintptr(instance), uintptr(s)
		return d.callFunction(fnGPMPart, 3)
	}
	d.args[0], d.args[1] = uintptr(h), uintptr(s)
	return d.callFunction(fnGPMSample, 2)
}

// GPMMetrics implements library.
func (d *dynamic) GPMMetrics(before, after gpmSample, ids []uint32, values []float64) code {
	if d.gpm == nil {
		d.gpm = new(gpmMetrics)
	}
	m := d.gpm
	*m = gpmMetrics{version: 1, count: uint32(len(ids)), before: before, after: after} // NVML_GPM_METRICS_GET_VERSION
	for i, id := range ids {
		m.metrics[i].id = id
	}
	d.args[0] = uintptr(unsafe.Pointer(m))
	c := d.callFunction(fnGPMMetrics, 1)
	for i := range ids {
		values[i] = math.NaN()
		if c == codeSuccess && m.metrics[i].code == codeSuccess {
			values[i] = m.metrics[i].value
		}
	}
	return c
}

// Watch implements library.
func (d *dynamic) Watch(h handle) code {
	if d.events == 0 {
		d.out[0] = 0
		d.args[0] = d.outAddress(0)
		if c := d.callFunction(fnEventSet, 1); c != codeSuccess {
			return c
		}
		d.events = uintptr(d.out[0])
	}
	d.args[0], d.args[1], d.args[2] = uintptr(h), eventXid, d.events
	return d.callFunction(fnWatch, 3)
}

// Event implements library.
func (d *dynamic) Event() (xidEvent, code) {
	if d.events == 0 {
		return xidEvent{}, codeTimeout
	}
	clear(d.out[:])
	d.args[0], d.args[1], d.args[2] = d.events, d.outAddress(0), 0 // milliseconds to wait
	c := d.callFunction(fnEvent, 3)
	return *(*xidEvent)(unsafe.Pointer(&d.out)), c
}

// Shutdown implements library.
func (d *dynamic) Shutdown() code {
	if d.events != 0 {
		d.args[0] = d.events
		d.callFunction(fnEventFree, 1)
		d.events = 0
	}
	return d.callFunction(fnShutdown, 0)
}

// PCI implements library.
func (d *dynamic) PCI(h handle) (string, code) {
	clear(d.text[:])
	d.args[0], d.args[1] = uintptr(h), uintptr(unsafe.Pointer(&d.text))
	if c := d.callFunction(fnPCI, 2); c != codeSuccess {
		return "", c
	}
	s, _, _ := strings.Cut(string(d.text[busIDOffset:busIDOffset+32]), "\x00")
	return strings.ToValidUTF8(s, ""), codeSuccess
}

// Coder implements library.
func (d *dynamic) Coder(h handle, decoder bool) (uint32, code) {
	fn := fnEncoder
	if decoder {
		fn = fnDecoder
	}
	d.out[0], d.out[1] = 0, 0
	d.args[0], d.args[1], d.args[2] = uintptr(h), d.outAddress(0), d.outAddress(1) // percent, microseconds of the sample
	c := d.callFunction(fn, 3)
	return uint32(d.out[0]), c
}

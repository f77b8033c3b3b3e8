package nvml

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// fake is a simulated driver. The figures are constructed, the codes for features that a
// generation of devices lacks are from the manual.
type fake struct {
	gpus  []*fakeGPU
	down  code          // result of Init
	hang  chan struct{} // when set, Memory waits for it
	slow  time.Duration // Memory takes as long
	gone  bool          // the driver was unloaded since Init
	times uint64        // microseconds

	watched map[handle]bool
	pending []xidEvent
	samples map[gpmSample]int // number of samples, by buffer; 0 was freed
}

type fakeGPU struct {
	uuid, model      string
	lost             code
	fails            code   // result of everything but the list and the names
	util             uint32 // percent of each sample
	noSamples, noUse bool
	noEnergy         bool
	used, size       uint64
	reserved         uint64
	mj               uint64
	mw               uint32
	reasons          uint64
	throttle         uint64 // nanoseconds of the power policy; 0: the device does not count
	errors           uint64
	lists            [processLists][]processInfo
	uses             []processSample
	mig              []*fakeGPU
	canMIG           bool
	gpm              map[uint32]float64 // GPM metrics between any two samples; nil: none
	noGPM            code               // result of taking a sample
	fields           map[uint32]uint64  // further fields
	linkFields       map[uint32]uint64  // fields of each of two links
	coder            uint32             // percent
	instance         uint32
}

func (f *fake) gpu(h handle) (*fakeGPU, code) {
	g, c := f.listed(h)
	if c == codeSuccess && f.gpus[int(h)/100-1].fails != codeSuccess {
		return nil, f.gpus[int(h)/100-1].fails
	}
	return g, c
}

// listed returns a device in the library's list, whether or not it responds.
func (f *fake) listed(h handle) (*fakeGPU, code) {
	if f.gone {
		return nil, codeDriverNotLoaded
	}
	i, j := int(h)/100-1, int(h)%100
	if i < 0 || i >= len(f.gpus) {
		return nil, 2
	}
	g := f.gpus[i]
	if g.lost != 0 {
		return nil, g.lost
	}
	if j > 0 {
		if j > len(g.mig) {
			return nil, codeNotFound
		}
		g = g.mig[j-1]
	}
	return g, codeSuccess
}

func (f *fake) Init() code {
	if f.down == codeSuccess {
		f.gone = false
	}
	return f.down
}
func (f *fake) Shutdown() code         { f.watched = nil; return codeSuccess }
func (f *fake) Driver() (string, code) { return "580.65.06", codeSuccess }
func (f *fake) Count() (int, code)     { return len(f.gpus), codeSuccess }
func (f *fake) Device(i int) (handle, code) {
	h := handle(100 * (i + 1))
	_, c := f.listed(h)
	return h, c
}
func (f *fake) UUID(h handle) (string, code) {
	g, c := f.listed(h)
	if c != codeSuccess {
		return "", c
	}
	return g.uuid, codeSuccess
}
func (f *fake) Model(h handle) (string, code) {
	g, c := f.gpu(h)
	if c != codeSuccess {
		return "", c
	}
	return g.model, codeSuccess
}
func (f *fake) Utilization(h handle) (uint32, uint32, code) {
	g, c := f.gpu(h)
	if c == codeSuccess && (len(g.mig) > 0 || int(h)%100 > 0) {
		c = codeNotSupported
	}
	if c != codeSuccess {
		return 0, 0, c
	}
	return g.util, g.util / 2, codeSuccess
}
func (f *fake) Samples(h handle, kind uint32, since uint64, dst []utilizationSample) (int, code) {
	g, c := f.gpu(h)
	switch {
	case c != codeSuccess:
		return 0, c
	case g.noSamples || len(g.mig) > 0:
		return 0, codeNotSupported
	case since >= f.times:
		return 0, codeNotFound
	}
	n := 6
	for i := range min(n, len(dst)) {
		dst[i].time = f.times - uint64(5-i)*1000
		binary.NativeEndian.PutUint64(dst[i].value[:], uint64(g.util))
	}
	return n, codeSuccess
}
func (f *fake) Memory(h handle) (memoryInfo, code) {
	if f.hang != nil {
		<-f.hang
	}
	if f.slow > 0 {
		<-time.After(f.slow)
	}
	g, c := f.gpu(h)
	if c != codeSuccess {
		return memoryInfo{}, c
	}
	return memoryInfo{g.used, g.size, g.reserved}, codeSuccess
}
func (f *fake) Energy(h handle) (uint64, code) {
	g, c := f.gpu(h)
	if c == codeSuccess && g.noEnergy {
		c = codeNotSupported
	}
	if c != codeSuccess {
		return 0, c
	}
	return g.mj, codeSuccess
}
func (f *fake) Power(h handle) (uint32, code) {
	g, c := f.gpu(h)
	if c != codeSuccess {
		return 0, c
	}
	return g.mw, codeSuccess
}
func (f *fake) PowerLimit(h handle) (uint32, code)      { return 400_000, f.ok(h) }
func (f *fake) Clock(h handle, k uint32) (uint32, code) { return 1000 + k, f.ok(h) }
func (f *fake) Temperature(h handle) (uint32, code)     { return 61, f.ok(h) }
func (f *fake) Fan(handle) (uint32, code)               { return 0, codeNotSupported }
func (f *fake) ok(h handle) code                        { _, c := f.gpu(h); return c }
func (f *fake) Reasons(h handle) (uint64, code) {
	g, c := f.gpu(h)
	if c != codeSuccess {
		return 0, c
	}
	return g.reasons, codeSuccess
}
func (f *fake) Errors(h handle, bad bool) (uint64, code) {
	g, c := f.gpu(h)
	if c != codeSuccess || bad {
		return 0, c
	}
	return g.errors, codeSuccess
}
func (f *fake) Fields(h handle, l []fieldValue) code {
	g, c := f.gpu(h)
	if c != codeSuccess {
		return c
	}
	for i := range l {
		l[i].code, l[i].kind = codeNotSupported, 3
		if v, ok := g.fields[l[i].id]; ok && (l[i].scope == 0 || l[i].scope == allLinks) {
			l[i].code = codeSuccess
			binary.NativeEndian.PutUint64(l[i].value[:], v)
		}
		if v, ok := g.linkFields[l[i].id]; ok && l[i].scope < 2 {
			l[i].code = codeSuccess
			binary.NativeEndian.PutUint64(l[i].value[:], v)
		}
		switch l[i].id {
		case fieldMemoryTemp:
			l[i].code, l[i].kind = codeSuccess, 1
			binary.NativeEndian.PutUint64(l[i].value[:], 77)
		case fieldPowerPolicy:
			if g.throttle > 0 {
				l[i].code = codeSuccess
				binary.NativeEndian.PutUint64(l[i].value[:], g.throttle)
			}
		case fieldReplays:
			l[i].code = codeSuccess
			binary.NativeEndian.PutUint64(l[i].value[:], 9223372036854775794)
		}
	}
	return codeSuccess
}
func (f *fake) Processes(h handle, kind int, dst []processInfo) (int, code) {
	g, c := f.gpu(h)
	if c != codeSuccess {
		return 0, c
	}
	n := copy(dst, g.lists[kind])
	if n < len(g.lists[kind]) {
		return len(g.lists[kind]), codeInsufficientSize
	}
	return n, codeSuccess
}
func (f *fake) ProcessUse(h handle, since uint64, dst []processSample) (int, code) {
	g, c := f.gpu(h)
	switch {
	case c != codeSuccess:
		return 0, c
	case g.noUse:
		return 0, codeNotSupported
	case len(g.uses) == 0:
		return 0, codeNotFound
	}
	n := copy(dst, g.uses)
	if n < len(g.uses) {
		return len(g.uses), codeInsufficientSize
	}
	for i := range n {
		dst[i].time = f.times
	}
	return n, codeSuccess
}
func (f *fake) MIG(h handle) (bool, code) {
	g, c := f.gpu(h)
	if c == codeSuccess && !g.canMIG {
		c = codeNotSupported
	}
	if c != codeSuccess {
		return false, c
	}
	return len(g.mig) > 0, codeSuccess
}
func (f *fake) MIGCount(handle) (int, code) { return 7, codeSuccess }
func (f *fake) MIGDevice(h handle, i int) (handle, code) {
	m := h + handle(i) + 1
	_, c := f.gpu(m)
	return m, c
}
func (f *fake) GPUInstance(h handle) (uint32, code) {
	g, c := f.gpu(h)
	if c != codeSuccess {
		return 0, c
	}
	return g.instance, codeSuccess
}

func (f *fake) Minor(h handle) (uint32, code) { return uint32(h)/100 - 1, codeSuccess }

func (f *fake) PCI(h handle) (string, code) {
	_, c := f.gpu(h)
	return fmt.Sprintf("00000000:%02X:00.0", int(h)/100), c
}

func (f *fake) Coder(h handle, decoder bool) (uint32, code) {
	g, c := f.gpu(h)
	if c != codeSuccess || g.coder == 0 {
		return 0, max(c, codeNotSupported)
	}
	return g.coder, codeSuccess
}

func (f *fake) GPM(h handle) (bool, code) {
	g, c := f.gpu(h)
	return c == codeSuccess && g.gpm != nil, c
}

func (f *fake) NewGPMSample() (gpmSample, code) {
	if f.samples == nil {
		f.samples = map[gpmSample]int{}
	}
	s := gpmSample(len(f.samples) + 1)
	f.samples[s] = -1
	return s, codeSuccess
}

func (f *fake) FreeGPMSample(s gpmSample) { f.samples[s] = 0 }

func (f *fake) SampleGPM(h handle, instance uint32, s gpmSample) code {
	g, c := f.gpu(h)
	if c != codeSuccess {
		return c
	}
	if g.noGPM != codeSuccess {
		return g.noGPM
	}
	if f.samples[s] == 0 {
		return 2 // freed, or never allocated
	}
	for i, m := range g.mig {
		if instance != wholeDevice && m.instance == instance {
			h += handle(i) + 1
		}
	}
	f.samples[s] = int(h)
	return codeSuccess
}

func (f *fake) GPMMetrics(before, after gpmSample, ids []uint32, values []float64) code {
	if f.samples[before] != f.samples[after] || f.samples[after] <= 0 {
		return 2
	}
	g, c := f.gpu(handle(f.samples[after]))
	for i, id := range ids {
		values[i] = math.NaN()
		if v, ok := g.gpm[id]; ok {
			values[i] = v
		}
	}
	return c
}

func (f *fake) Watch(h handle) code {
	if f.watched == nil {
		f.watched = map[handle]bool{}
	}
	f.watched[h] = true
	return codeSuccess
}

func (f *fake) Event() (xidEvent, code) {
	if len(f.pending) == 0 {
		return xidEvent{}, codeTimeout
	}
	e := f.pending[0]
	f.pending = f.pending[1:]
	if !f.watched[e.device] {
		return xidEvent{}, codeTimeout
	}
	return e, codeSuccess
}

// farm returns n devices like an H100, each used by the given number of processes.
func farm(n, processes int) *fake {
	f := &fake{times: 1_000_000}
	for i := range n {
		g := &fakeGPU{uuid: fmt.Sprintf("GPU-%08d-0000-0000-0000-000000000000", i), model: "NVIDIA H100 80GB HBM3",
			util: 80, used: 40 << 30, size: 80 << 30, mj: 1e9, mw: 650_000, reasons: reasonPowerCap, errors: 3}
		for p := range processes / n {
			pid := uint32(1000 + i*processes + p)
			g.lists[listCompute] = append(g.lists[listCompute],
				processInfo{pid: pid, memory: 100 << 20, gpuInstance: instanceNone, instance: instanceNone})
			g.uses = append(g.uses, processSample{pid: pid, sm: 1})
		}
		f.gpus = append(f.gpus, g)
	}
	return f
}

// pass advances all devices by a second.
func (f *fake) pass() {
	f.times += 1_000_000
	for _, g := range f.gpus {
		g.mj += uint64(g.mw)
	}
}

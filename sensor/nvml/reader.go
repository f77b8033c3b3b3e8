package nvml

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"reckon/sensor"
)

// reader reads the library. It belongs to one goroutine at a time.
type reader struct {
	lib     library
	now     func() time.Time
	comm    func(pid int32) string // name of a process
	devices []*device              // each followed by its MIG instances
	driver  string
	trouble error // error of some of the devices, nil if there is none

	samples   []sample
	processes []process
	uses      []processSample
	fields    [2 + len(throttles) + 10]field
	links     [3 * mostLinks]field
}

// enumerate finds the devices, and keeps the state of known ones.
func (r *reader) enumerate() error {
	n, c := r.lib.Count()
	if c != success {
		return fmt.Errorf("count the GPUs: %w", c)
	}
	r.driver, _ = r.lib.Driver()
	known := make(map[string]*device, len(r.devices))
	for _, d := range r.devices {
		known[d.gpu.Device] = d
	}
	old := r.devices
	r.devices = nil
	var failed error
	for i := range n {
		h, c := r.lib.Device(i)
		if c != success {
			failed = errors.Join(failed, fmt.Errorf("GPU %d: %w", i, c))
			continue
		}
		d, err := r.meet(h, i, "", known)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("GPU %d: %w", i, err))
			continue
		}
		r.devices = append(r.devices, d)
		r.watch(d)
		r.partitions(d, known)
	}
	for _, d := range old { // devices that are no longer listed: they may return, and are reported meanwhile
		switch {
		case slices.Contains(r.devices, d):
		case d.gpu.Parent == "":
			d.leave()
			r.devices = append(r.devices, d)
		default:
			r.endGPM(&d.gpm)
		}
	}
	return failed
}

// meet returns the known device behind a handle, or a new one.
func (r *reader) meet(h handle, index int, parent string, known map[string]*device) (*device, error) {
	uuid, c := r.lib.UUID(h)
	if c != success {
		return nil, fmt.Errorf("read its UUID: %w", c)
	}
	if uuid = strings.TrimSpace(uuid); uuid == "" {
		return nil, errors.New("its UUID is empty")
	}
	d := known[uuid]
	if d == nil {
		model, _ := r.lib.Model(h)
		pci := ""
		if parent == "" {
			pci, _ = r.lib.PCI(h)
		}
		d = newDevice(sensor.GPU{Vendor: "nvidia", Device: uuid, Parent: parent, Model: model, Driver: r.driver, PCI: pci, Index: index})
	}
	d.handle, d.found = h, true
	return d, nil
}

// partitions finds the MIG instances of d and appends them.
func (r *reader) partitions(d *device, known map[string]*device) {
	d.mig, d.instances = false, 0
	on, c := r.lib.MIG(d.handle)
	if c != success {
		d.noMIG = c == notSupported || c == noFunction
		return
	}
	if d.mig = on; !on {
		return
	}
	most, c := r.lib.MIGCount(d.handle)
	if c != success {
		return
	}
	for i := range min(most, 64) {
		h, c := r.lib.MIGDevice(d.handle, i)
		if c != success {
			continue // not in use
		}
		if m, err := r.meet(h, d.gpu.Index, d.gpu.Device, known); err == nil {
			if m.gpuInstance, c = r.lib.GPUInstance(h); c == success && m.gpu.Partition == "" {
				m.gpu.Partition = strconv.FormatUint(uint64(m.gpuInstance), 10)
				m.series = sensor.NewGPUSeries(&m.gpu)
			}
			r.devices = append(r.devices, m)
			d.instances++
		}
	}
}

// quick reads the figures for every tick.
func (r *reader) quick() error {
	r.trouble = nil
	now := r.now()
	for _, d := range r.devices {
		if d.lost && !d.found {
			r.complain(d, gpuLost)
			continue
		}
		d.uses = d.uses[:0]
		d.found = false
		if c := r.tick(d, now); c != success {
			d.leave()
			r.complain(d, c)
		} else if d.lost {
			d.lost, d.lostText = false, nil
		}
	}
	return r.trouble
}

// refuse notes a reading that was left out.
func (r *reader) refuse(err error) { r.trouble = sensor.Joined(r.trouble, err) }

func (r *reader) complain(d *device, c code) {
	if r.trouble == nil { // the first is sufficient
		r.trouble = d.lostError(c)
	}
}

// tick reads one device. A code other than success means that the device is lost.
func (r *reader) tick(d *device, now time.Time) code {
	m, c := r.lib.Memory(d.handle)
	if c.gone() || c.failed() && r.silent(d) {
		return c
	}
	d.gpu.Have &^= sensor.GPUMemory | sensor.GPUSize | sensor.GPUBusy
	d.hasReserved = c == success && valid64(m.reserved)
	d.reserved = m.reserved
	if c == success && valid64(m.used) && valid64(m.size) {
		r.refuse(d.gpu.SetMemory(m.used, m.size))
	}
	d.gpu.Span = d.span(now)
	if d.gpu.Parent == "" && !d.mig {
		r.busy(d)
		r.memoryBusy(d)
		r.coders(d)
	}
	if d.gpu.Parent == "" {
		r.energy(d, now)
		r.reasons(d)
	}
	if !d.mig { // processes of a partitioned device belong to its instances
		r.listUses(d)
	}
	return success
}

// silent reports whether the driver returns neither the power nor the use of a device.
func (r *reader) silent(d *device) bool {
	_, power := r.lib.Power(d.handle)
	_, _, use := r.lib.Utilization(d.handle)
	return power != success && use != success
}

// busy adds to the busy time of the device: from the driver's samples since the last
// reading, else from its latest value.
func (r *reader) busy(d *device) {
	share, ok := r.mean(d, sampleGPU, &d.sampledGPU)
	if !ok {
		gpu, memory, c := r.lib.Utilization(d.handle)
		if ok = c == success && gpu <= 100; !ok {
			d.hasBusy = false // an unchanged counter would look like no use
			return
		}
		share = float64(gpu) / 100
		if memory <= 100 && d.sampledMemory.no {
			d.engineMemory += float64(memory) / 100 * d.gpu.Span
			d.hasEngineMemory = true
		}
	}
	d.gpu.Busy = share * d.gpu.Span
	d.busy += d.gpu.Busy
	d.gpu.Have |= sensor.GPUBusy
	d.hasBusy = true
}

func (r *reader) memoryBusy(d *device) {
	if share, ok := r.mean(d, sampleMemory, &d.sampledMemory); ok {
		d.engineMemory += share * d.gpu.Span
		d.hasEngineMemory = true
	}
}

// coders adds to the time for which the device encoded and decoded video.
func (r *reader) coders(d *device) {
	for i, kind := range [...]uint32{sampleEncoder, sampleDecoder} {
		share, ok := r.mean(d, kind, &d.sampledCoder[i])
		if !ok {
			percent, c := r.lib.Coder(d.handle, i == 1)
			if d.hasCoder[i] = c == success && percent <= 100; !d.hasCoder[i] {
				continue
			}
			share = float64(percent) / 100
		}
		d.coder[i] += share * d.gpu.Span
		d.hasCoder[i] = true
	}
}

// sampled is the read position in the samples of one kind.
type sampled struct {
	last  uint64 // microseconds
	share float64
	known bool
	no    bool // the device does not have them
}

// mean returns the mean of the samples since the last reading. Without a new one the last
// value still holds.
func (r *reader) mean(d *device, kind uint32, s *sampled) (float64, bool) {
	if s.no {
		return 0, false
	}
	if len(r.samples) == 0 {
		r.samples = make([]sample, 256)
	}
	n, c := r.lib.Samples(d.handle, kind, s.last, r.samples)
	if c == insufficientSize && n > len(r.samples) && n < 1<<16 {
		r.samples = make([]sample, n+n/4)
		n, c = r.lib.Samples(d.handle, kind, s.last, r.samples)
	}
	if c == notSupported || c == noFunction {
		s.no = true
		return 0, false
	}
	if c != success && c != notFound { // not found: none since then
		return 0, false
	}
	sum, count := 0.0, 0
	if c == success {
		for _, v := range r.samples[:min(max(n, 0), len(r.samples))] {
			percent := binary.NativeEndian.Uint32(v.value[:])
			if v.time <= s.last || percent > 100 {
				continue
			}
			sum += float64(percent) / 100
			count++
		}
		for _, v := range r.samples[:min(max(n, 0), len(r.samples))] {
			s.last = max(s.last, v.time)
		}
	}
	if count > 0 {
		s.share, s.known = sum/float64(count), true
	}
	return s.share, s.known
}

// energy reads the counter of the device, or integrates its power.
func (r *reader) energy(d *device, now time.Time) {
	d.hasWatts, d.hasJoules = false, false
	if mw, c := r.lib.Power(d.handle); c == success && valid32(mw) {
		d.watts = float64(mw) / 1e3
		err := sensor.Within("power", d.gpu.Device, d.watts, 0, d.mostWatts())
		d.hasWatts = err == nil
		r.refuse(err)
	}
	if !d.noCounter {
		mj, c := r.lib.Energy(d.handle)
		switch {
		case c == success && valid64(mj):
			var err error
			d.joules, err = d.odometer.Add(now, "energy", d.gpu.Device, float64(mj)/1e3, d.mostWatts())
			d.hasJoules, d.counter = err == nil, true
			r.refuse(err)
			return
		case c == notSupported || c == noFunction:
			d.noCounter = true
		}
		if d.counter {
			return // it has one, which failed this time
		}
	}
	if d.hasWatts {
		d.joules, d.hasJoules = d.integral.Add(now, d.watts), true
	}
}

// reasons integrates the reasons for throttling.
func (r *reader) reasons(d *device) {
	bits, c := r.lib.Reasons(d.handle)
	if d.hasReasons = c == success && valid64(bits); !d.hasReasons {
		return
	}
	for i := range throttles {
		if bits&throttles[i].bit != 0 && !d.throttleCounted[i] {
			d.throttled[i] += d.gpu.Span
		}
	}
}

// meters appends the meters of the available devices.
func (r *reader) meters(dst []sensor.Meter) []sensor.Meter {
	for _, d := range r.devices {
		if d.lost || d.gpu.Parent != "" || !d.hasJoules && !d.hasWatts {
			continue
		}
		m := sensor.Meter{Domain: sensor.DomainGPU, Zone: d.gpu.Device, HasJoules: d.hasJoules, HasWatts: d.hasWatts}
		if d.hasJoules {
			m.Joules = d.joules
		}
		if d.hasWatts {
			m.Watts = d.watts
		}
		dst = append(dst, m)
	}
	return dst
}

// give appends the devices and their uses.
func (r *reader) give(p *sensor.GPUPass) {
	for _, d := range r.devices {
		if d.lost {
			continue
		}
		p.Devices = append(p.Devices, d.gpu)
		p.Uses = append(p.Uses, d.uses...)
	}
}

// valid64 and valid32 reject the driver's blank values.
func valid64(v uint64) bool { return v < blank64 }
func valid32(v uint32) bool { return v < blank32 }

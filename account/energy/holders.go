package energy

import (
	"slices"

	"reckon/account/attribution"
	"reckon/sensor"
)

// A device computes for processes that have it open. The candidates of a reading are the processes that had it open at
// the previous reading, those that have it open now, and those in the driver's samples. A single candidate gets all
// busy time, which is exact. Several candidates share it. The kernel's counters per process are exact, too. Otherwise
// the shares are estimates: from the driver's samples, the last samples that named a candidate, the memory held, or
// even. Only busy time without a candidate goes to other.

// maxPostponedReadings is the number of consecutive readings for which busy time may wait for its owner. The owner
// becomes known with the pass that lists a new process, or with the first sample of the process.
const maxPostponedReadings = 2

// maxSilentReadings is the number of readings without a response of the driver after which busy time no longer waits for one.
const maxSilentReadings = 60

// holder is a process that has a device open now or had it open at the previous reading.
type holder struct {
	pid     int32
	account *Account // nil while the process is not known
	met     int      // readings in which the account was searched for in vain

	was, now           bool // it had the device open at the reading before; it has now
	used               bool // it computed in this reading, as counted or sampled
	hasBusy, hasMemory bool
	busy               float64 // seconds in this reading
	last               float64 // seconds in the last reading with samples that named anybody
	memory             float64 // bytes, at the last reading that had them
}

// postponedBusy is the busy time and energy of a device that waits for its owner to become known.
type postponedBusy struct {
	busy, span float64 // seconds
	joules     float64
	times      int // readings in a row
}

// addUse records the use of a device by one process.
func (d *gpuDevice) addUse(u *sensor.GPUUse) {
	i := slices.IndexFunc(d.held, func(h holder) bool { return h.pid == u.PID })
	if i < 0 {
		i = len(d.held)
		d.held = append(d.held, holder{pid: u.PID})
	}
	h := &d.held[i]
	h.now = u.Have&sensor.GPULeft == 0
	if u.Have&sensor.GPUBusy != 0 && u.Busy >= 0 {
		h.hasBusy, h.used = true, h.used || u.Busy > 0
		h.busy += u.Busy
		d.hasUse, d.sampled = true, d.sampled || u.Have&sensor.GPUSampled != 0
		d.useBusy += u.Busy
	}
	if u.Have&sensor.GPUMemory != 0 {
		if !h.hasMemory {
			h.memory = 0
		}
		h.hasMemory = true
		h.memory += float64(u.Memory)
	}
}

// findHolders finds the accounts of the processes that have a device open, and drops holders that closed it.
func (d *gpuDevice) findHolders(find func(pid int32) (*Account, bool), other *Account) {
	kept := d.held[:0]
	for _, h := range d.held {
		if !h.was && !h.now && !h.used {
			continue
		}
		switch p, _ := find(h.pid); {
		case p != nil && (h.now || h.account == nil):
			h.account = p
		case h.account == nil:
			h.met++
		}
		if d.hasUse && d.useBusy > 0 {
			h.last = h.busy
		}
		kept = append(kept, h)
	}
	d.held = kept
}

// chargeDevice charges the use of device number at in this tick.
func (e *NodeEnergy) chargeDevice(index int) {
	d := e.devices[index]
	e.other.deviceAt(index) // so that it is there to take the rest
	late := e.collectHolders(index)
	late = e.addOpeners(index) || late
	if !(d.now.Span > 0) {
		d.putOff = d.owed.times > 0
		e.chargeGPU(index, 0, false, false, methodMeasured)
		return
	}
	busy, span, known := d.takeBusy()
	several := len(e.gpuUse) > 1
	if known && busy > 0 && d.owed.times < maxPostponedReadings && (late || len(e.gpuPart) == 0 && d.owed.times == 0 ||
		several && d.sampled && d.useBusy <= 0 && !slices.ContainsFunc(d.held, func(h holder) bool { return h.last > 0 })) {
		d.owed = postponedBusy{busy: busy, span: span, joules: d.owed.joules, times: d.owed.times + 1}
		d.putOff = true
		return
	}
	d.owed.busy, d.owed.span, d.owed.times = 0, 0, 0
	if known {
		d.busy += busy
		d.idle += span - busy
	}
	e.share = resizeFloats(e.share, len(e.gpuUse))
	split, method := false, methodMeasured
	if known && busy > 0 {
		split, method = e.splitBusy(d, busy)
	}
	e.chargeGPU(index, busy, known, split, method)
	for i, p := range e.gpuPart {
		if split && span > 0 {
			p.gpus[index].load = busy * e.share[i] / span
		}
	}
}

// collectHolders collects the parts that hold the device at index at, with their use as far as it was measured. late
// reports whether a process without a part may still be attributed to one.
func (e *NodeEnergy) collectHolders(at int) (late bool) {
	d := e.devices[at]
	e.gpuUse, e.gpuPart, e.gpuLeft = e.gpuUse[:0], e.gpuPart[:0], e.gpuLeft[:0]
	for i := range d.held {
		h := &d.held[i]
		p := h.account
		if p == nil {
			late = late || h.met <= maxPostponedReadings
			p = e.other
		}
		p = p.successor()
		k := slices.Index(e.gpuPart, p)
		if k < 0 {
			k = len(e.gpuPart)
			e.gpuPart, e.gpuUse, e.gpuLeft = append(e.gpuPart, p), append(e.gpuUse, attribution.DeviceUse{}), append(e.gpuLeft, false)
		}
		u := &e.gpuUse[k]
		u.Busy += h.busy
		u.HasBusy = u.HasBusy || h.hasBusy
		u.Memory += h.memory
		u.HasMemory = u.HasMemory || h.memory > 0 || h.hasMemory
		e.gpuLeft[k] = e.gpuLeft[k] || !h.now
		a := p.deviceAt(at)
		if a.open = a.open || h.now; h.now && h.hasMemory {
			if !a.hasMemory {
				a.memory = 0
			}
			a.memory, a.hasMemory = a.memory+h.memory, true
			a.peak = max(a.peak, a.memory)
			a.byteSeconds += h.memory * max(d.now.Span, 0)
		}
	}
	return late
}

// chargeGPU charges busy seconds of a device to the candidates by e.share if split, and the rest to other.
func (e *NodeEnergy) chargeGPU(at int, busy float64, known, split bool, method int) {
	d := e.devices[at]
	// A part comes once for a device, but may use several partitions of one.
	from := len(e.shares)
	if d.meter != d.name {
		from = 0
	}
	charged := 0.0
	for i, p := range e.gpuPart {
		mine := 0.0
		if split {
			mine = busy * e.share[i]
			by := method
			if method == methodMeasured && e.gpuLeft[i] && len(e.gpuPart) > 1 && d.useBusy < busy {
				by = methodEqually // the rest of the time counted for others
			}
			p.gpus[at].seconds[by] += mine
			charged += mine
		}
		u := &e.gpuUse[i]
		e.addShare(from, Share{Account: p, Device: d.meter, Busy: mine, HasBusy: split, Memory: u.Memory, HasMemory: u.HasMemory,
			Method: method})
	}
	if rest := busy - charged; known && rest > 1e-12 {
		e.other.gpus[at].seconds[methodMeasured] += rest
		e.addShare(from, Share{Account: e.other, Device: d.meter, Busy: rest, HasBusy: true})
	}
}

// takeBusy returns the busy time of the device in this tick and in the postponed ones, and the time that it covers in seconds.
func (d *gpuDevice) takeBusy() (busy, span float64, known bool) {
	span, busy = d.now.Span+d.owed.span, d.owed.busy
	switch {
	case d.now.Have&sensor.GPUBusy != 0:
		busy += max(d.now.Busy, 0)
	case d.hasUse: // not reported by the device, only by its users
		busy += d.useBusy
	default:
		return busy, d.owed.span, d.owed.span > 0
	}
	return min(busy, span), span, true
}

// splitBusy sets each candidate's share of the busy time. Time without a candidate stays unassigned.
func (e *NodeEnergy) splitBusy(d *gpuDevice, busy float64) (ok bool, method int) {
	switch {
	case len(e.gpuUse) == 0:
		return false, methodMeasured
	case len(e.gpuUse) == 1 && !(d.hasUse && !d.sampled && d.useBusy <= 0 && !e.gpuLeft[0]):
		e.share[0] = 1 // the only user gets everything, unless the kernel counted no use of it
		return true, methodMeasured
	case d.hasUse && !d.sampled:
		e.splitByCounters(d, busy)
		return true, methodMeasured
	case d.useBusy > 0:
		for i := range e.gpuUse {
			e.share[i] = e.gpuUse[i].Busy / d.useBusy
		}
		return true, methodBySamples
	}
	if e.splitByLastSamples(d) {
		return true, methodBySamples
	}
	for i := range e.gpuUse {
		e.gpuUse[i].HasBusy = false
	}
	name, ok := attribution.ByDevice(e.share, e.gpuUse)
	return ok, max(slices.Index(Methods[:], name), methodMeasured)
}

// splitByCounters splits by the kernel's counters per process. Time in no counter was used by processes that ended since.
func (e *NodeEnergy) splitByCounters(d *gpuDevice, busy float64) {
	whole := max(d.useBusy, busy)
	left := 0
	for i := range e.gpuUse {
		e.share[i] = e.gpuUse[i].Busy / whole
		if e.gpuLeft[i] {
			left++
		}
	}
	for i := range e.gpuUse {
		if e.gpuLeft[i] {
			e.share[i] += (whole - d.useBusy) / whole / float64(left)
		}
	}
}

// splitByLastSamples splits by the last samples that named one of the candidates.
func (e *NodeEnergy) splitByLastSamples(d *gpuDevice) bool {
	clear(e.share)
	sum := 0.0
	for i := range d.held {
		h := &d.held[i]
		if p := h.account; p != nil && h.last > 0 {
			e.share[slices.Index(e.gpuPart, p.successor())] += h.last
			sum += h.last
		}
	}
	for i := range e.share {
		if sum > 0 {
			e.share[i] /= sum
		}
	}
	return sum > 0
}

// Awaits reports whether a reading may still show use by an ended part. That is so until the driver answers after the
// part closed a device.
func (e *NodeEnergy) Awaits(p *Account) bool {
	for _, d := range e.devices {
		if d.there && (d.putOff || d.stale > 0 && d.stale < maxSilentReadings) &&
			slices.ContainsFunc(d.held, func(h holder) bool { return h.account != nil && h.account.successor() == p }) {
			return true
		}
	}
	return false
}

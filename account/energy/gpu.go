package energy

import (
	"reckon/account/attribution"
	"reckon/metric"
	"reckon/sensor"
)

// Series of GPU use.
var (
	gpuSeconds = metric.NewDesc("reckon_workload_gpu_seconds_total", metric.Counter, metric.Seconds,
		sensor.Charged("vendor", "device", "method"),
		"Time that a device computed for the workload; the sum over all workloads and other is the busy time of the device. The method "+
			"is measured (per process), or the basis of the split: the device memory held, or evenly over the workloads that have the "+
			"device open.")
	gpuMemory = metric.NewDesc("reckon_workload_gpu_memory_bytes", metric.Gauge, metric.Bytes, sensor.Charged("vendor", "device"),
		"Memory of a device that the workload holds.")
	gpuByteSeconds = metric.NewDesc("reckon_workload_gpu_memory_byte_seconds_total", metric.Counter, metric.ByteSeconds,
		sensor.Charged("vendor", "device"),
		"Device memory held integrated over time; divide an increase by the time for the mean.")
	nodeGPUSeconds = metric.NewDesc("reckon_node_gpu_seconds_total", metric.Counter, metric.Seconds, []string{"vendor", "device", "state"},
		"Time of a device by state: busy is what workloads and other were charged, busy and idle together are the time that the device "+
			"was there and reported.")
)

// Methods are the ways in which busy time is split.
var Methods = [...]string{attribution.Measured, attribution.MeasuredByMemory, attribution.MeasuredEqually}

// gpuDevice is the ledger's state of a device.
type gpuDevice struct {
	vendor, name string
	meter        string // the device that provides its meter and busy time
	busy, idle   float64
	rows         [2]*metric.Series
	began        int64

	// State of this tick.
	now        sensor.GPU
	there      bool
	useBusy    float64 // seconds of measured use by processes
	hasUseBusy bool
}

// device is the use of one device by a part.
type device struct {
	seconds     [len(Methods)]float64
	memory      float64
	byteSeconds float64
	hasMemory   bool
	rows        [len(Methods) + 2]*metric.Series

	// State of this tick.
	busy, held       float64
	hasBusy, hasHeld bool
	open             bool
}

// Share is the use of one device by one part since the previous tick, for the split of the device's energy. A part has at most one share
// of a device, and no share of a device that it does not have open.
type Share struct {
	Account *Account
	// Device is the zone of the device's meter ([sensor.Meter].Zone with the domain
	// gpu): its uuid or PCI address.
	Device string
	// Busy is the time, in seconds, for which the device computed for the part; HasBusy
	// reports whether it is known. Memory is the device memory that the part held, in
	// bytes; HasMemory reports whether it is known.
	Busy, Memory       float64
	HasBusy, HasMemory bool
}

// GPU takes in the state of the devices and their use by processes in the tick that was
// taken last, and returns the shares of each part for [Books.Charge]. They are
// valid until the next call.
//
//	Σ workloads + other = busy time of the device
//	Σ workloads + other + idle = time of the device
//
// Use by processes is measured by another clock than the device's own busy time, and
// kernels of several processes run side by side: their sum is capped at the busy time,
// and busy time that no measured use explains goes to other. Where use by processes is
// not measured, the busy time is split by the memory they hold, else evenly.
//
// users are the accounts of pass.Uses, parts all accounts, now is the tick in milliseconds since the Unix epoch.
func (e *Books) GPU(now int64, pass *sensor.GPUPass, users, parts []*Account, other *Account) []Share {
	e.other = other
	for _, d := range e.devices {
		d.there, d.useBusy, d.hasUseBusy = false, 0, false
	}
	for i := range pass.Devices {
		e.device(pass.Devices[i].Device, pass.Devices[i].Vendor, now).meet(&pass.Devices[i])
	}
	for _, p := range parts {
		for k := range p.gpus {
			p.gpus[k].begin()
		}
	}
	for i := range pass.Uses {
		e.useDevice(&pass.Uses[i], users[i])
	}
	e.shares = e.shares[:0]
	for i := range e.devices {
		e.settleGPU(i, parts)
	}
	return e.shares
}

func (d *gpuDevice) meet(now *sensor.GPU) {
	d.now, d.there = *now, true
	if d.meter = now.Parent; d.meter == "" {
		d.meter = now.Device
	}
	d.vendor = now.Vendor
}

// device returns a device, created if need be. A device that only appears in use records,
// and that no sensor described, has no vendor.
func (e *Books) device(name, vendor string, now int64) *gpuDevice {
	for _, d := range e.devices {
		if d.name == name {
			return d
		}
	}
	d := &gpuDevice{vendor: vendor, name: name, meter: name, began: now}
	e.devices = append(e.devices, d)
	return d
}

func (e *Books) index(name string) int {
	for i, d := range e.devices {
		if d.name == name {
			return i
		}
	}
	return -1
}

func (a *device) begin() {
	a.busy, a.held, a.hasBusy, a.hasHeld, a.open = 0, 0, false, false, false
	a.hasMemory = false
}

// useDevice adds the use of one process to its account.
func (e *Books) useDevice(u *sensor.GPUUse, p *Account) {
	at := e.index(u.Device)
	if at < 0 || !e.devices[at].there {
		return // a device that no sensor describes has no time to split
	}
	a := p.gpu(at)
	a.open = true
	if u.Have&sensor.GPUBusy != 0 && u.Busy >= 0 {
		a.hasBusy = true
		a.busy += u.Busy
		d := e.devices[at]
		d.hasUseBusy = true
		d.useBusy += u.Busy
	}
	if u.Have&sensor.GPUMemory != 0 {
		a.hasHeld = true
		a.held += float64(u.Memory)
	}
}

// gpu returns the account of device number at.
func (p *Account) gpu(at int) *device {
	for len(p.gpus) <= at {
		p.gpus = append(p.gpus, device{})
	}
	return &p.gpus[at]
}

// settle charges the use of device number at in this tick.
func (e *Books) settleGPU(at int, parts []*Account) {
	d := e.devices[at]
	if !d.there {
		return
	}
	e.other.gpu(at) // so that it is there to take the rest
	e.gpuUse, e.gpuPart = e.gpuUse[:0], e.gpuPart[:0]
	for _, p := range parts {
		if at >= len(p.gpus) || !p.gpus[at].open {
			continue
		}
		a := &p.gpus[at]
		if a.hasHeld {
			a.memory, a.hasMemory = a.held, true
			a.byteSeconds += a.held * max(d.now.Span, 0)
		}
		e.gpuPart = append(e.gpuPart, p)
		e.gpuUse = append(e.gpuUse, attribution.DeviceUse{Busy: a.busy, Memory: a.held, HasBusy: a.hasBusy, HasMemory: a.hasHeld})
	}
	busy, known := d.spend()
	method := 0
	e.share = room(e.share, len(e.gpuUse))
	split := known && busy > 0
	if split {
		split, method = e.split(d, busy)
	}
	// A part comes once for a device, but may use several partitions of one.
	from := len(e.shares)
	if d.meter != d.name {
		from = 0
	}
	charged := 0.0
	for i, p := range e.gpuPart {
		again := len(e.shares)
		if d.meter != d.name {
			again = 0
		}
		a := &p.gpus[at]
		mine := 0.0
		if split {
			mine = busy * e.share[i]
			a.seconds[method] += mine
			charged += mine
		}
		e.addShare(again, Share{Account: p, Device: d.meter, Busy: mine, HasBusy: split && method == 0,
			Memory: a.held, HasMemory: a.hasHeld})
	}
	if rest := busy - charged; known && rest > 1e-12 {
		e.other.gpus[at].seconds[0] += rest
		e.addShare(from, Share{Account: e.other, Device: d.meter, Busy: rest, HasBusy: true})
	}
}

// spend returns the busy time of the device in this tick, in seconds, and adds it to its totals.
func (d *gpuDevice) spend() (busy float64, known bool) {
	switch span := d.now.Span; {
	case !(span > 0):
		return 0, false
	case d.now.Have&sensor.GPUBusy != 0:
		busy = min(max(d.now.Busy, 0), span)
	case d.hasUseBusy: // not reported by the device, only by its users
		busy = min(d.useBusy, span)
	default:
		return 0, false
	}
	d.busy += busy
	d.idle += d.now.Span - busy
	return busy, true
}

// split fills in the share of the busy time of each user; what is left of 1 belongs to no
// identified process.
func (e *Books) split(d *gpuDevice, busy float64) (ok bool, method int) {
	switch {
	case len(e.gpuUse) == 0:
		return false, 0
	case len(e.gpuUse) == 1 && e.gpuUse[0].HasBusy:
		e.share[0] = 1 // the only user has all of it
		return true, 0
	case d.hasUseBusy:
		if d.useBusy <= 0 {
			return false, 0
		}
		whole := max(d.useBusy, busy)
		for i := range e.gpuUse {
			e.share[i] = e.gpuUse[i].Busy / whole
		}
		return true, 0
	}
	name, ok := attribution.ByDevice(e.share, e.gpuUse)
	for i := range Methods {
		if Methods[i] == name {
			method = i
		}
	}
	return ok, method
}

// addShare adds to the share of a part in a device; the shares of the device begin at index from.
func (e *Books) addShare(from int, s Share) {
	for i := from; i < len(e.shares); i++ {
		if o := &e.shares[i]; o.Account == s.Account && o.Device == s.Device {
			o.Busy += s.Busy
			o.Memory += s.Memory
			o.HasBusy = o.HasBusy || s.HasBusy
			o.HasMemory = o.HasMemory || s.HasMemory
			return
		}
	}
	e.shares = append(e.shares, s)
}

// absorbGPUs takes over the use of a folded part.
func (p *Account) absorbGPUs(o *Account) {
	for i := range o.gpus {
		if o.gpus[i].empty() {
			continue
		}
		a := p.gpu(i)
		for k, v := range o.gpus[i].seconds {
			a.seconds[k] += v
		}
		a.byteSeconds += o.gpus[i].byteSeconds
	}
}

// empty reports whether the part never had the device open.
func (a *device) empty() bool {
	return a.seconds == [len(Methods)]float64{} && a.byteSeconds == 0 && !a.hasMemory
}

// ExportGPUs appends the part's use of each device; a device that it never opened is absent, and its memory once the part has ended.
func (e *Books) ExportGPUs(p *Account, of Labeller, ended bool, b *metric.Batch) {
	row := func(s **metric.Series, d *metric.Desc, values ...string) *metric.Series {
		if *s == nil {
			*s = of.Series(d, values...)
		}
		return *s
	}
	for i := range p.gpus {
		a := &p.gpus[i]
		if a.empty() && !a.open {
			continue
		}
		d := e.devices[i]
		for k, v := range a.seconds {
			if v > 0 {
				b.Add(row(&a.rows[k], gpuSeconds, d.vendor, d.name, Methods[k]), v)
			}
		}
		if a.byteSeconds > 0 {
			b.Add(row(&a.rows[len(Methods)], gpuByteSeconds, d.vendor, d.name), a.byteSeconds)
		}
		if a.hasMemory && d.there && !ended {
			b.Add(row(&a.rows[len(Methods)+1], gpuMemory, d.vendor, d.name), a.memory)
		}
	}
}

// ExportDevices appends the time of the devices.
func (e *Books) ExportDevices(b *metric.Batch) {
	for _, d := range e.devices {
		for k, v := range [...]float64{d.busy, d.idle} {
			if d.busy+d.idle == 0 {
				continue
			}
			if d.rows[k] == nil {
				d.rows[k] = metric.NewSeries(nodeGPUSeconds, d.vendor, d.name, [...]string{"busy", "idle"}[k])
				d.rows[k].Created = d.began
			}
			b.Add(d.rows[k], v)
		}
	}
}

// HasGPU reports whether the part had a device open.
func (p *Account) HasGPU() bool { return len(p.gpus) > 0 }

// Computed reports by which of [Methods] the part was charged with time of devices.
func (p *Account) Computed() (by [len(Methods)]bool) {
	for i := range p.gpus {
		for k, s := range p.gpus[i].seconds {
			by[k] = by[k] || s > 0
		}
	}
	return by
}

// DeviceState is a saved device.
type DeviceState struct {
	Vendor string  `json:"vendor"`
	Name   string  `json:"name"`
	Busy   float64 `json:"busy"`
	Idle   float64 `json:"idle"`
	Began  int64   `json:"began"`
}

// Devices returns the devices, to be saved.
func (e *Books) Devices() (out []DeviceState) {
	for _, d := range e.devices {
		out = append(out, DeviceState{d.vendor, d.name, d.busy, d.idle, d.began})
	}
	return out
}

func (e *Books) restoreGPUs(s []DeviceState, accounts []*Account, saved []*AccountState) {
	sound := func(v float64) bool { return v >= 0 && v < 1e30 }
	for _, d := range s {
		if !sound(d.Busy) || !sound(d.Idle) || d.Began < 0 {
			return
		}
	}
	for _, p := range saved {
		if len(p.GPUs) > len(s) {
			return
		}
		for _, a := range p.GPUs {
			for _, v := range a {
				if !sound(v) {
					return
				}
			}
		}
	}
	for _, d := range s {
		n := e.device(d.Name, d.Vendor, 0)
		n.busy, n.idle, n.began = d.Busy, d.Idle, d.Began
	}
	for i, p := range accounts {
		for k, v := range saved[i].GPUs {
			a := p.gpu(k)
			copy(a.seconds[:], v[:])
			a.byteSeconds = v[len(Methods)]
		}
	}
}

// Descs returns the series of this package, for the metric reference.
func Descs() []*metric.Desc {
	return []*metric.Desc{workloadEnergy, attributedEnergy, gpuSeconds, gpuMemory, gpuByteSeconds, nodeGPUSeconds}
}

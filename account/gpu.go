package account

import (
	"reckon/account/attribution"
	"reckon/metric"
	"reckon/sensor"
)

// Series of GPU use.
var (
	gpuSeconds = &metric.Desc{
		Name: "reckon_workload_gpu_seconds_total", Kind: metric.Counter, Unit: metric.Seconds,
		Help:   "Time that a device computed for the workload; the sum over all workloads and other is the busy time of the device. The method is measured (per process), or the basis of the split: the device memory held, or evenly over the workloads that have the device open.",
		Labels: with("vendor", "device", "method"),
	}
	gpuMemory = &metric.Desc{
		Name: "reckon_workload_gpu_memory_bytes", Kind: metric.Gauge, Unit: metric.Bytes,
		Help:   "Memory of a device that the workload holds.",
		Labels: with("vendor", "device"),
	}
	gpuByteSeconds = &metric.Desc{
		Name: "reckon_workload_gpu_memory_byte_seconds_total", Kind: metric.Counter, Unit: metric.ByteSeconds,
		Help:   "Device memory held integrated over time; divide an increase by the time for the mean.",
		Labels: with("vendor", "device"),
	}
	nodeGPUSeconds = &metric.Desc{
		Name: "reckon_node_gpu_seconds_total", Kind: metric.Counter, Unit: metric.Seconds,
		Help:   "Time of a device by state: busy is what workloads and other were charged, busy and idle together are the time that the device was there and reported.",
		Labels: []string{"vendor", "device", "state"},
	}
)

// gpuMethods are the ways in which busy time is split.
var gpuMethods = [...]string{attribution.Measured, attribution.MeasuredByMemory, attribution.MeasuredEqually}

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

// gpuAccount is the use of one device by a part.
type gpuAccount struct {
	seconds     [len(gpuMethods)]float64
	memory      float64
	byteSeconds float64
	hasMemory   bool
	rows        [len(gpuMethods) + 2]*metric.Series

	// State of this tick.
	busy, held       float64
	hasBusy, hasHeld bool
	open             bool
}

// gpus is the ledger's state of all devices.
type gpus struct {
	*times
	parts   *registry
	table   *table
	devices []*gpuDevice
	use     []attribution.DeviceUse
	users   []*Part
	share   []float64
	shares  []GPUShare
}

// GPU takes in the state of the devices and their use by processes in the tick that the
// ledger took last, and returns the shares of each part for [Ledger.Energy]. They are
// valid until the next call.
//
//	Σ workloads + other = busy time of the device
//	Σ workloads + other + idle = time of the device
//
// Use by processes is measured by another clock than the device's own busy time, and
// kernels of several processes run side by side: their sum is capped at the busy time,
// and busy time that no measured use explains goes to other. Where use by processes is
// not measured, the busy time is split by the memory they hold, else evenly.
func (l *Ledger) GPU(pass *sensor.GPUPass) []GPUShare {
	if l.parts.other == nil {
		return nil // no tick yet
	}
	return l.gpus.take(pass)
}

func (g *gpus) take(pass *sensor.GPUPass) []GPUShare {
	for _, d := range g.devices {
		d.there, d.useBusy, d.hasUseBusy = false, 0, false
	}
	for i := range pass.Devices {
		g.device(pass.Devices[i].Device, pass.Devices[i].Vendor).meet(&pass.Devices[i])
	}
	for _, p := range g.parts.order {
		for i := range p.gpus {
			p.gpus[i].begin()
		}
	}
	for i := range pass.Uses {
		g.charge(&pass.Uses[i])
	}
	g.shares = g.shares[:0]
	for i := range g.devices {
		g.settle(i)
	}
	return g.shares
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
func (g *gpus) device(name, vendor string) *gpuDevice {
	for _, d := range g.devices {
		if d.name == name {
			return d
		}
	}
	d := &gpuDevice{vendor: vendor, name: name, meter: name, began: g.millis()}
	g.devices = append(g.devices, d)
	return d
}

func (g *gpus) index(name string) int {
	for i, d := range g.devices {
		if d.name == name {
			return i
		}
	}
	return -1
}

func (a *gpuAccount) begin() {
	a.busy, a.held, a.hasBusy, a.hasHeld, a.open = 0, 0, false, false, false
	a.hasMemory = false
}

// charge adds the use of one process to its part; use by an unidentified process goes to
// other.
func (g *gpus) charge(u *sensor.GPUUse) {
	at := g.index(u.Device)
	if at < 0 || !g.devices[at].there {
		return // a device that no sensor describes has no time to split
	}
	part := g.parts.other
	if e := g.table.byID[u.PID]; e != nil && e.part != nil && !e.part.closed() {
		part = e.part
	}
	a := part.gpu(at)
	a.open = true
	if u.Have&sensor.GPUBusy != 0 && u.Busy >= 0 {
		a.hasBusy = true
		a.busy += u.Busy
		d := g.devices[at]
		d.hasUseBusy = true
		d.useBusy += u.Busy
	}
	if u.Have&sensor.GPUMemory != 0 {
		a.hasHeld = true
		a.held += float64(u.Memory)
	}
}

// gpu returns the account of device number at.
func (p *Part) gpu(at int) *gpuAccount {
	for len(p.gpus) <= at {
		p.gpus = append(p.gpus, gpuAccount{})
	}
	return &p.gpus[at]
}

// settle charges the use of device number at in this tick.
func (g *gpus) settle(at int) {
	d := g.devices[at]
	if !d.there {
		return
	}
	g.parts.other.gpu(at) // so that it is there to take the rest
	g.use, g.users = g.use[:0], g.users[:0]
	for _, p := range g.parts.order {
		if at >= len(p.gpus) || !p.gpus[at].open {
			continue
		}
		a := &p.gpus[at]
		if a.hasHeld {
			a.memory, a.hasMemory = a.held, true
			a.byteSeconds += a.held * max(d.now.Span, 0)
		}
		g.users = append(g.users, p)
		g.use = append(g.use, attribution.DeviceUse{Busy: a.busy, Memory: a.held, HasBusy: a.hasBusy, HasMemory: a.hasHeld})
	}
	busy, known := d.spend()
	method := 0
	g.share = room(g.share, len(g.use))
	split := known && busy > 0
	if split {
		split, method = g.split(d, busy)
	}
	// A part comes once for a device, but may use several partitions of one.
	from := len(g.shares)
	if d.meter != d.name {
		from = 0
	}
	charged := 0.0
	for i, p := range g.users {
		again := len(g.shares)
		if d.meter != d.name {
			again = 0
		}
		a := &p.gpus[at]
		mine := 0.0
		if split {
			mine = busy * g.share[i]
			a.seconds[method] += mine
			charged += mine
		}
		g.addShare(again, GPUShare{Part: p, Device: d.meter, Busy: mine, HasBusy: split && method == 0,
			Memory: a.held, HasMemory: a.hasHeld})
	}
	if rest := busy - charged; known && rest > 1e-12 {
		g.parts.other.gpus[at].seconds[0] += rest
		g.addShare(from, GPUShare{Part: g.parts.other, Device: d.meter, Busy: rest, HasBusy: true})
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
func (g *gpus) split(d *gpuDevice, busy float64) (ok bool, method int) {
	switch {
	case len(g.use) == 0:
		return false, 0
	case len(g.use) == 1 && g.use[0].HasBusy:
		g.share[0] = 1 // the only user has all of it
		return true, 0
	case d.hasUseBusy:
		if d.useBusy <= 0 {
			return false, 0
		}
		whole := max(d.useBusy, busy)
		for i := range g.use {
			g.share[i] = g.use[i].Busy / whole
		}
		return true, 0
	}
	name, ok := attribution.ByDevice(g.share, g.use)
	for i := range gpuMethods {
		if gpuMethods[i] == name {
			method = i
		}
	}
	return ok, method
}

// addShare adds to the share of a part in a device; the shares of the device begin at index from.
func (g *gpus) addShare(from int, s GPUShare) {
	for i := from; i < len(g.shares); i++ {
		if o := &g.shares[i]; o.Part == s.Part && o.Device == s.Device {
			o.Busy += s.Busy
			o.Memory += s.Memory
			o.HasBusy = o.HasBusy || s.HasBusy
			o.HasMemory = o.HasMemory || s.HasMemory
			return
		}
	}
	g.shares = append(g.shares, s)
}

// absorbGPUs takes over the use of a folded part.
func (p *Part) absorbGPUs(o *Part) {
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
func (a *gpuAccount) empty() bool {
	return a.seconds == [len(gpuMethods)]float64{} && a.byteSeconds == 0 && !a.hasMemory
}

// exportPart appends the part's use of each device; a device that it never opened is absent.
func (g *gpus) exportPart(p *Part, b *metric.Batch) {
	for i := range p.gpus {
		a := &p.gpus[i]
		if a.empty() && !a.open {
			continue
		}
		d := g.devices[i]
		for k, v := range a.seconds {
			if v > 0 {
				b.Add(p.lazy(&a.rows[k], gpuSeconds, d.vendor, d.name, gpuMethods[k]), v)
			}
		}
		if a.byteSeconds > 0 {
			b.Add(p.lazy(&a.rows[len(gpuMethods)], gpuByteSeconds, d.vendor, d.name), a.byteSeconds)
		}
		if a.hasMemory && d.there && p.end == 0 {
			b.Add(p.lazy(&a.rows[len(gpuMethods)+1], gpuMemory, d.vendor, d.name), a.memory)
		}
	}
}

// export appends the time of the devices.
func (g *gpus) export(b *metric.Batch) {
	for _, d := range g.devices {
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

// gpuState is a serialized device.
type gpuState struct {
	Vendor string  `json:"vendor"`
	Name   string  `json:"name"`
	Busy   float64 `json:"busy"`
	Idle   float64 `json:"idle"`
	Began  int64   `json:"began"`
}

func (g *gpus) state() (out []gpuState) {
	for _, d := range g.devices {
		out = append(out, gpuState{d.vendor, d.name, d.busy, d.idle, d.began})
	}
	return out
}

// gpuState gives, for each device, the seconds by method and the byte-seconds.
func (p *Part) gpuState() (out [][len(gpuMethods) + 1]float64) {
	for i := range p.gpus {
		a := &p.gpus[i]
		out = append(out, [len(gpuMethods) + 1]float64{a.seconds[0], a.seconds[1], a.seconds[2], a.byteSeconds})
	}
	return out
}

// restore restores the devices of a saved ledger; if they are damaged, they start again.
func (g *gpus) restore(s []gpuState, parts []*Part, saved []partState) {
	sound := func(v float64) bool { return v >= 0 && v < 1e30 }
	for _, d := range s {
		if !sound(d.Busy) || !sound(d.Idle) || d.Began < 0 {
			return
		}
	}
	for i := range saved {
		if len(saved[i].GPUs) > len(s) {
			return
		}
		for _, a := range saved[i].GPUs {
			for _, v := range a {
				if !sound(v) {
					return
				}
			}
		}
	}
	for _, d := range s {
		n := g.device(d.Name, d.Vendor)
		n.busy, n.idle, n.began = d.Busy, d.Idle, d.Began
	}
	for i, p := range parts {
		for k, v := range saved[i].GPUs {
			a := p.gpu(k)
			copy(a.seconds[:], v[:])
			a.byteSeconds = v[len(gpuMethods)]
		}
	}
}

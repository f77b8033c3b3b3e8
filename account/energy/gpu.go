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
		"Time in which a device computed for the workload. The sum over all workloads and other is the device's busy time. The "+
			"method is \"measured\" if only this workload had the device open, or if the kernel counts each process. Otherwise the "+
			"time is estimated by the driver's samples, by device memory, or evenly among the workloads with the device open.")
	gpuMemory = metric.NewDesc("reckon_workload_gpu_memory_bytes", metric.Gauge, metric.Bytes, sensor.Charged("vendor", "device"),
		"Memory of a device that the workload holds.")
	gpuMemoryPeak = metric.NewDesc("reckon_workload_gpu_memory_peak_bytes", metric.Gauge, metric.Bytes, sensor.Charged("vendor", "device"),
		"Highest memory of a device that the workload has held so far, read at every internal tick.")
	gpuByteSeconds = metric.NewDesc("reckon_workload_gpu_memory_byte_seconds_total", metric.Counter, metric.ByteSeconds,
		sensor.Charged("vendor", "device"),
		"Device memory in use, integrated over time. The increase divided by the time is the mean.")
	nodeGPUSeconds = metric.NewDesc("reckon_node_gpu_seconds_total", metric.Counter, metric.Seconds, []string{"vendor", "device", "state"},
		"Time of a device by state. State \"busy\" was charged to workloads and other. Busy and idle together are the time in which "+
			"the device reported.")
)

// Methods are the methods of splitting busy time.
var Methods = [...]string{attribution.Measured, attribution.MeasuredByMemory, attribution.MeasuredEqually, attribution.MeasuredBySamples}

// Positions in Methods.
const (
	methodMeasured = iota
	methodByMemory
	methodEqually
	methodBySamples
)

// gpuDevice is the ledger's state of a device.
type gpuDevice struct {
	vendor, name string
	meter        string // the device that provides its meter and busy time
	busy, idle   float64
	rows         [2]*metric.Series
	began        int64

	held  []holder
	owed  postponedBusy
	stale int // readings in a row that repeated the last tick's

	// State of this tick.
	now     sensor.GPU
	there   bool
	useBusy float64 // seconds of use by processes, as counted or sampled
	hasUse  bool    // it is known
	sampled bool    // by samples of the driver
	putOff  bool    // this tick is charged with the next one
}

// deviceUse is the use of one device by a part.
type deviceUse struct {
	seconds     [len(Methods)]float64
	memory      float64
	peak        float64
	byteSeconds float64
	hasMemory   bool
	rows        [len(Methods) + 3]*metric.Series

	// State of this tick; load and watts of the last reading.
	open        bool
	load, watts float64
}

// Share is the use of a device by a part since the previous tick; the device's energy is split in proportion. A part
// has one share for each device that it has open.
type Share struct {
	Account *Account
	// Device is the zone of the device's meter ([sensor.Meter].Zone in the domain gpu): its UUID or PCI address.
	Device string
	// Busy is the seconds that the device computed for the part; HasBusy reports whether it is
	// known. Memory is the device memory held by the part in bytes; HasMemory reports whether it is
	// known.
	Busy, Memory       float64
	HasBusy, HasMemory bool
	Method             int // index in Methods of the source of Busy
}

// GPU records the state of the devices and their use by processes in the last tick, and returns the
// shares for [NodeEnergy.Charge]. The shares are valid until the next call. Busy time goes to processes
// that had the device open during the reading; see holders.go.
//
//	Σ workloads + other = busy time of the device
//	Σ workloads + other + idle = time of the device
//
// find returns the account of a process, nil while that is unknown, and whether the process has
// ended. parts are all accounts. now is the time of the tick in milliseconds since the Unix epoch.
func (e *NodeEnergy) GPU(now int64, pass *sensor.GPUPass, find func(pid int32) (of *Account, ended bool), parts []*Account,
	other *Account) []Share {
	e.other = other
	for _, d := range e.devices {
		d.there = false
	}
	for i := range pass.Devices {
		e.device(pass.Devices[i].Device, pass.Devices[i].Vendor, now).beginReading(&pass.Devices[i])
	}
	for _, p := range parts {
		for k := range p.gpus {
			p.gpus[k].resetReading(!e.devices[k].there || e.devices[k].now.Span > 0)
		}
	}
	for i := range pass.Uses {
		if at := e.deviceIndex(pass.Uses[i].Device); at >= 0 && e.devices[at].there { // others have no time to split
			e.devices[at].addUse(&pass.Uses[i])
		}
	}
	e.recordOpens(find)
	e.shares = e.shares[:0]
	for i, d := range e.devices {
		if d.there {
			d.findHolders(find, other)
			e.chargeDevice(i)
		}
	}
	e.dropOpens()
	return e.shares
}

// beginReading begins a reading of the device.
func (d *gpuDevice) beginReading(now *sensor.GPU) {
	d.now, d.there, d.putOff = *now, true, false
	d.useBusy, d.hasUse, d.sampled = 0, false, false
	if d.stale++; now.Span > 0 {
		d.stale = 0
	}
	for i := range d.held {
		h := &d.held[i]
		if now.Span > 0 {
			h.was, h.now = h.now, false
		}
		h.busy, h.hasBusy, h.used, h.hasMemory = 0, false, false, false
	}
	if d.meter = now.Parent; d.meter == "" {
		d.meter = now.Device
	}
	d.vendor = now.Vendor
}

// device returns the device of that name and creates it if needed. A device that is known only from
// use records has no vendor.
func (e *NodeEnergy) device(name, vendor string, now int64) *gpuDevice {
	for _, d := range e.devices {
		if d.name == name {
			return d
		}
	}
	d := &gpuDevice{vendor: vendor, name: name, meter: name, began: now}
	e.devices = append(e.devices, d)
	return d
}

func (e *NodeEnergy) deviceIndex(name string) int {
	for i, d := range e.devices {
		if d.name == name {
			return i
		}
	}
	return -1
}

func (a *deviceUse) resetReading(created bool) {
	a.open, a.hasMemory = false, false
	if created {
		a.load = 0
	}
}

// deviceAt returns the account of device number at.
func (p *Account) deviceAt(at int) *deviceUse {
	for len(p.gpus) <= at {
		p.gpus = append(p.gpus, deviceUse{})
	}
	return &p.gpus[at]
}

// addShare adds to the share of a part in a device; the shares of the device begin at index from.
func (e *NodeEnergy) addShare(from int, s Share) {
	for i := from; i < len(e.shares); i++ {
		if o := &e.shares[i]; o.Account == s.Account && o.Device == s.Device {
			o.Busy += s.Busy
			o.Memory += s.Memory
			o.HasBusy = o.HasBusy || s.HasBusy
			o.HasMemory = o.HasMemory || s.HasMemory
			o.Method = max(o.Method, s.Method)
			return
		}
	}
	e.shares = append(e.shares, s)
}

// absorbGPUs adds the use of a folded part.
func (p *Account) absorbGPUs(folded *Account) {
	for i := range folded.gpus {
		if folded.gpus[i].neverOpened() {
			continue
		}
		a := p.deviceAt(i)
		for k, v := range folded.gpus[i].seconds {
			a.seconds[k] += v
		}
		a.byteSeconds += folded.gpus[i].byteSeconds
		a.peak = max(a.peak, folded.gpus[i].peak)
	}
}

// neverOpened reports whether the part never had the device open.
func (a *deviceUse) neverOpened() bool {
	return a.seconds == [len(Methods)]float64{} && a.byteSeconds == 0 && a.peak == 0 && !a.hasMemory
}

// ExportGPUs appends the part's use of each device that it ever opened. It omits memory if ended is set.
func (e *NodeEnergy) ExportGPUs(p *Account, series Labeller, ended bool, b *metric.Batch) {
	row := func(s **metric.Series, d *metric.Desc, values ...string) *metric.Series {
		if *s == nil {
			*s = series.Series(d, values...)
		}
		return *s
	}
	for i := range p.gpus {
		a := &p.gpus[i]
		if a.neverOpened() && !a.open {
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
		if a.peak > 0 {
			b.Add(row(&a.rows[len(Methods)+2], gpuMemoryPeak, d.vendor, d.name), a.peak)
		}
	}
}

// ExportDevices appends the time of the devices.
func (e *NodeEnergy) ExportDevices(b *metric.Batch) {
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

// Now returns the part's use of GPUs over the last reading. load is the mean number of devices that computed for the part, memory the
// bytes of device memory that it holds, and watts its power. ok is false if the part neither has a device open nor used one.
func (p *Account) Now() (load, memory, watts float64, ok bool) {
	for i := range p.gpus {
		a := &p.gpus[i]
		load, watts = load+a.load, watts+a.watts
		if a.hasMemory {
			memory += a.memory
		}
		ok = ok || a.open || a.load > 0
	}
	return load, memory, watts, ok
}

// Seconds returns the time of devices that the part was charged with, by [Methods].
func (p *Account) Seconds() (by [len(Methods)]float64) {
	for i := range p.gpus {
		for k, s := range p.gpus[i].seconds {
			by[k] += s
		}
	}
	return by
}

// Computed reports which of [Methods] were used to charge device time to the part.
func (p *Account) Computed() (by [len(Methods)]bool) {
	for k, s := range p.Seconds() {
		by[k] = s > 0
	}
	return by
}

// DeviceState is the saved state of a device.
type DeviceState struct {
	Vendor string  `json:"vendor"`
	Name   string  `json:"name"`
	Busy   float64 `json:"busy"`
	Idle   float64 `json:"idle"`
	Began  int64   `json:"began"`
	// Busy seconds, their time and joules that wait until their users are known.
	Owed [3]float64 `json:"owed,omitzero"`
}

// Devices returns the devices, to be saved.
func (e *NodeEnergy) Devices() (out []DeviceState) {
	for _, d := range e.devices {
		out = append(out, DeviceState{d.vendor, d.name, d.busy, d.idle, d.began, [3]float64{d.owed.busy, d.owed.span, d.owed.joules}})
	}
	return out
}

func (e *NodeEnergy) restoreGPUs(s []DeviceState, accounts []*Account, saved []*AccountState) {
	sound := func(v float64) bool { return v >= 0 && v < 1e30 }
	for _, d := range s {
		if !sound(d.Busy) || !sound(d.Idle) || d.Began < 0 || !sound(d.Owed[0]) || !sound(d.Owed[1]) || !sound(d.Owed[2]) {
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
		n.owed = postponedBusy{busy: d.Owed[0], span: d.Owed[1], joules: d.Owed[2]}
	}
	for i, p := range accounts {
		for k, v := range saved[i].GPUs {
			a := p.deviceAt(k)
			copy(a.seconds[:methodBySamples], v[:])
			a.byteSeconds, a.seconds[methodBySamples], a.peak = v[3], v[4], v[5]
		}
	}
}

// Descs returns the series of this package, for the metric reference.
func Descs() []*metric.Desc {
	return []*metric.Desc{workloadEnergy, attributedEnergy, gpuSeconds, gpuMemory, gpuMemoryPeak, gpuByteSeconds, nodeGPUSeconds}
}

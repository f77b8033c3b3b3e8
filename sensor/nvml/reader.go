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

	samples   []utilizationSample
	processes []processInfo
	uses      []processSample
	fields    [2 + len(throttles) + 10]fieldValue
	links     [3 * maxLinks]fieldValue
}

// enumerate finds the devices, and keeps the state of known ones.
func (r *reader) enumerate() error {
	n, c := r.lib.Count()
	if c != codeSuccess {
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
		if c != codeSuccess {
			failed = errors.Join(failed, fmt.Errorf("GPU %d: %w", i, c))
			continue
		}
		d, err := r.deviceOf(h, i, "", known)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("GPU %d: %w", i, err))
			continue
		}
		r.devices = append(r.devices, d)
		r.watchXids(d)
		r.addPartitions(d, known)
	}
	for _, d := range old { // devices that are no longer listed: they may return, and are reported meanwhile
		switch {
		case slices.Contains(r.devices, d):
		case d.gpu.Parent == "":
			d.markLost()
			r.devices = append(r.devices, d)
		default:
			r.endGPM(&d.gpm)
		}
	}
	return failed
}

// deviceOf returns the known device behind a handle, or a new one.
func (r *reader) deviceOf(h handle, index int, parent string, known map[string]*device) (*device, error) {
	uuid, c := r.lib.UUID(h)
	if c != codeSuccess {
		return nil, fmt.Errorf("read its UUID: %w", c)
	}
	if uuid = strings.TrimSpace(uuid); uuid == "" {
		return nil, errors.New("its UUID is empty")
	}
	d := known[uuid]
	if d == nil {
		model, _ := r.lib.Model(h)
		g := sensor.GPU{Vendor: "nvidia", Device: uuid, Parent: parent, Model: model, Driver: r.driver, Index: index}
		if parent == "" {
			g.PCI, _ = r.lib.PCI(h)
			if minor, c := r.lib.Minor(h); c == codeSuccess {
				g.Nodes[0] = sensor.Node(majorNVIDIA, minor)
			}
		}
		d = newDevice(g)
	}
	d.handle, d.found = h, true
	return d, nil
}

// addPartitions finds the MIG instances of d and appends them.
func (r *reader) addPartitions(d *device, known map[string]*device) {
	d.mig, d.instances = false, 0
	on, c := r.lib.MIG(d.handle)
	if c != codeSuccess {
		d.noMIG = c == codeNotSupported || c == codeNoFunction
		return
	}
	if d.mig = on; !on {
		return
	}
	most, c := r.lib.MIGCount(d.handle)
	if c != codeSuccess {
		return
	}
	for i := range min(most, 64) {
		h, c := r.lib.MIGDevice(d.handle, i)
		if c != codeSuccess {
			continue // not in use
		}
		if m, err := r.deviceOf(h, d.gpu.Index, d.gpu.Device, known); err == nil {
			m.gpu.Nodes = d.gpu.Nodes
			if m.gpuInstance, c = r.lib.GPUInstance(h); c == codeSuccess && m.gpu.Partition == "" {
				m.gpu.Partition = strconv.FormatUint(uint64(m.gpuInstance), 10)
				m.series = sensor.NewGPUSeries(&m.gpu)
			}
			r.devices = append(r.devices, m)
			d.instances++
		}
	}
}

// readTick reads the figures of every tick. counter requests the energy counter as well.
func (r *reader) readTick(counter bool) error {
	r.trouble = nil
	now := r.now()
	for _, d := range r.devices {
		if d.lost && !d.found {
			r.noteTrouble(d, codeGPULost)
			continue
		}
		d.found = false
		if c := r.readDevice(d, now, counter); c != codeSuccess {
			d.uses = d.uses[:0]
			d.markLost()
			r.noteTrouble(d, c)
		} else if d.lost {
			d.lost, d.lostText = false, nil
		}
	}
	return r.trouble
}

// addRefusal notes a reading that was left out.
func (r *reader) addRefusal(err error) { r.trouble = sensor.JoinRefused(r.trouble, err) }

func (r *reader) noteTrouble(d *device, c code) {
	if r.trouble == nil { // the first is sufficient
		r.trouble = d.lostError(c)
	}
}

// Intervals of readings that are too expensive for every tick. The driver keeps samples for about 14 s.
const (
	idleInterval   = 5 * time.Second  // busy time, while no process has the device open
	engineInterval = 10 * time.Second // samples of engines
	energyInterval = time.Minute      // the counter of energy, between two borders
)

// readDevice reads one device for a tick. A code other than success means that the device is lost.
func (r *reader) readDevice(d *device, now time.Time, counter bool) code {
	m, c := r.lib.Memory(d.handle)
	if c.isDeviceLost() || c.hasFailed() && r.returnsNothing(d) {
		return c
	}
	d.gpu.Have &^= sensor.GPUMemory | sensor.GPUSize | sensor.GPUBusy
	d.hasReserved = c == codeSuccess && isValid64(m.reserved)
	d.reserved = m.reserved
	if c == codeSuccess && isValid64(m.used) && isValid64(m.size) {
		r.addRefusal(d.gpu.SetMemory(m.used, m.size))
	}
	d.gpu.Span = d.secondsSince(now)
	if d.gpu.Parent == "" {
		r.readPower(d)
	}
	holders, changed := 0, false
	if !d.mig { // processes of a partitioned device belong to its instances
		holders, changed = r.listUses(d)
		r.addBusy(d, now, holders > 0)
	}
	if d.gpu.Parent != "" {
		return codeSuccess
	}
	if !d.mig && !d.noUse && (holders > 1 || holders == 0 && d.gpu.Busy > 0) {
		r.sampleUses(d, now)
	}
	r.shareServer(d)
	if !d.mig && (now.Sub(d.slowAt) >= engineInterval || holders == 0 && d.worked) {
		r.addEngines(d, now)
	}
	d.worked = holders > 0
	r.updateEnergy(d, now, counter || changed || now.Sub(d.counted) >= energyInterval)
	r.addThrottling(d)
	return codeSuccess
}

// returnsNothing reports whether the driver returns neither the power nor the use of a device.
func (r *reader) returnsNothing(d *device) bool {
	_, power := r.lib.Power(d.handle)
	_, _, use := r.lib.Utilization(d.handle)
	return power != codeSuccess && use != codeSuccess
}

// addBusy adds the time since the last reading to the busy time of the device. It uses GPM counters if available, or else
// the driver's samples since the last reading, or else the latest value. open reports whether a process has the device
// open. Other devices are read less often.
func (r *reader) addBusy(d *device, now time.Time, open bool) {
	window := 0.0 // seconds since the last look
	if s := now.Sub(d.looked); !d.looked.IsZero() && s > 0 && s <= sensor.Gap {
		window = s.Seconds()
	}
	gpu, memory, c := uint32(0), uint32(0), codeNotSupported
	if d.gpu.Parent == "" {
		gpu, memory, c = r.lib.Utilization(d.handle)
	}
	if open || !d.hasBusy || c == codeSuccess && gpu > 0 || r.drawsPower(d) || now.Sub(d.looked) >= idleInterval || window == 0 {
		busy, ok := r.readGPM(d, now)
		if d.gpm.busy = ok; !ok && d.gpu.Parent == "" {
			var share float64
			if share, ok = r.sampleMean(d, sampleGPU, &d.sampledGPU, window); !ok && c == codeSuccess && gpu <= 100 {
				share, ok = float64(gpu)/100, true
				if memory <= 100 && d.sampledMemory.no {
					d.engineMemory += float64(memory) / 100 * window
					d.hasEngineMemory = true
				}
			}
			busy = share * window
		}
		if d.hasBusy = ok; !ok { // an unchanged counter would look like no use
			return
		}
		d.looked = now
		d.carry += busy
	}
	d.gpu.Busy = min(d.carry, d.gpu.Span)
	d.carry -= d.gpu.Busy
	d.busy += d.gpu.Busy
	d.gpu.Have |= sensor.GPUBusy
}

// drawsPower reports whether the device draws more than at rest: a process may have come and gone between two readings.
func (r *reader) drawsPower(d *device) bool {
	if d.gpu.Parent != "" || !d.hasWatts {
		return true
	}
	if d.restWatts == 0 || d.watts < d.restWatts {
		d.restWatts = d.watts
	}
	return d.watts > d.restWatts*1.02+2
}

// addEngines adds to the busy time of the memory interface and of the video encoder and decoder. If GPM counters show the
// computing time, engines also adds to the time that the device only copied data.
func (r *reader) addEngines(d *device, now time.Time) {
	window := 0.0
	if s := now.Sub(d.slowAt); !d.slowAt.IsZero() && s > 0 && s <= sensor.Gap {
		window = s.Seconds()
	}
	d.slowAt = now
	if share, ok := r.sampleMean(d, sampleMemory, &d.sampledMemory, window); ok {
		d.engineMemory += share * window
		d.hasEngineMemory = true
	}
	for i, kind := range [...]uint32{sampleEncoder, sampleDecoder} {
		share, ok := r.sampleMean(d, kind, &d.sampledCoder[i], window)
		if !ok {
			percent, c := r.lib.Coder(d.handle, i == 1)
			if d.hasCoder[i] = c == codeSuccess && percent <= 100; !d.hasCoder[i] {
				continue
			}
			share = float64(percent) / 100
		}
		d.coder[i] += share * window
		d.hasCoder[i] = true
	}
	if share, ok := r.sampleMean(d, sampleGPU, &d.sampledGPU, window); ok && d.gpm.busy && window > 0 {
		d.copied += max(share*window-(d.busy-d.busyBefore), 0)
		d.shown[figCopy] = exportedFigure{d.copied, true}
	}
	d.busyBefore = d.busy
}

// samplePosition is the read position in the driver's samples of one kind.
type samplePosition struct {
	last  uint64 // microseconds
	share float64
	known bool
	no    bool // the device does not have them
}

// sampleMean returns the mean of the driver's samples of one kind since the last reading. window is the time since then in
// seconds. Without a new sample, it returns the last value.
func (r *reader) sampleMean(d *device, kind uint32, s *samplePosition, window float64) (mean float64, ok bool) {
	if s.no {
		return 0, false
	}
	if len(r.samples) == 0 {
		r.samples = make([]utilizationSample, 256)
	}
	n, c := r.lib.Samples(d.handle, kind, s.last, r.samples)
	if c == codeInsufficientSize && n > len(r.samples) && n < 1<<16 {
		r.samples = make([]utilizationSample, n+n/4)
		n, c = r.lib.Samples(d.handle, kind, s.last, r.samples)
	}
	if c == codeNotSupported || c == codeNoFunction {
		s.no = true
		return 0, false
	}
	if c != codeSuccess && c != codeNotFound { // not found: none since then
		return 0, false
	}
	sum, count := 0.0, 0
	if c == codeSuccess {
		list := r.samples[:min(max(n, 0), len(r.samples))]
		newest := s.last
		for _, v := range list {
			newest = max(newest, v.time)
		}
		after := max(s.last, newest-min(newest, uint64(window*1e6)))
		for _, v := range list {
			percent := binary.NativeEndian.Uint32(v.value[:])
			if v.time <= after || percent > 100 {
				continue
			}
			sum += float64(percent) / 100
			count++
		}
		s.last = newest
	}
	if count > 0 {
		s.share, s.known = sum/float64(count), true
	}
	return s.share, s.known
}

func (r *reader) readPower(d *device) {
	mw, c := r.lib.Power(d.handle)
	if d.hasWatts = c == codeSuccess && isValid32(mw); d.hasWatts {
		d.watts = float64(mw) / 1e3
		err := sensor.CheckRange("power", d.gpu.Device, d.watts, 0, d.mostWatts())
		d.hasWatts = err == nil
		r.addRefusal(err)
	}
}

// updateEnergy updates the energy of the device. It reads the energy counter only if counter is set, and otherwise integrates
// power, because reading the counter costs a hundred times as much. If the integral is ahead of the counter, the energy
// stays constant until the counter has caught up.
func (r *reader) updateEnergy(d *device, now time.Time, counter bool) {
	d.hasJoules = false
	integrated, before := 0.0, d.integral.Total()
	if d.hasWatts {
		integrated = d.integral.Add(now, d.watts) - before
	}
	if !d.noCounter && (counter || !d.counter || !d.hasWatts) {
		mj, c := r.lib.Energy(d.handle)
		switch {
		case c == codeSuccess && isValid64(mj):
			total, err := d.odometer.Add(now, "energy", d.gpu.Device, float64(mj)/1e3, d.mostWatts())
			r.addRefusal(err)
			if d.hasJoules, d.counter, d.counted = err == nil, true, now; err == nil {
				d.ahead = max(d.joules-total, 0)
				d.joules = max(d.joules, total)
			}
			return
		case c == codeNotSupported || c == codeNoFunction:
			d.noCounter = true
		}
		if d.counter && !d.hasWatts {
			return // it has one, which failed this time
		}
	}
	if d.hasWatts {
		more := max(integrated-d.ahead, 0)
		d.ahead -= integrated - more
		d.joules, d.hasJoules = d.joules+more, true
	}
}

// addThrottling integrates the reasons for throttling.
func (r *reader) addThrottling(d *device) {
	bits, c := r.lib.Reasons(d.handle)
	if d.hasReasons = c == codeSuccess && isValid64(bits); !d.hasReasons {
		return
	}
	for i := range throttles {
		if bits&throttles[i].bit != 0 && !d.throttleCounted[i] {
			d.throttled[i] += d.gpu.Span
		}
	}
}

// appendMeters appends the meters of the available devices.
func (r *reader) appendMeters(dst []sensor.Meter) []sensor.Meter {
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

// appendTo appends the devices and their uses.
func (r *reader) appendTo(p *sensor.GPUPass) {
	for _, d := range r.devices {
		if d.lost {
			continue
		}
		p.Devices = append(p.Devices, d.gpu)
		p.Uses = append(p.Uses, d.uses...)
	}
}

// isValid64 and valid32 reject the driver's blank values.
func isValid64(v uint64) bool { return v < blank64 }
func isValid32(v uint32) bool { return v < blank32 }

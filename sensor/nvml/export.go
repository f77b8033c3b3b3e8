package nvml

import (
	"encoding/binary"
	"fmt"
)

// whole reads what only exports show, and looks whether devices or MIG instances came,
// went or came back.
func (r *reader) whole() error {
	if r.dead() {
		if err := r.reopen(); err != nil {
			r.trouble = err
			return err
		}
	}
	if r.changed() {
		if err := r.enumerate(); err != nil && r.trouble == nil {
			r.trouble = err
		}
	}
	for _, d := range r.devices {
		if !d.lost && d.gpu.Parent == "" {
			r.show(d)
		}
	}
	return r.trouble
}

// dead reports whether no device answers: the driver may have been unloaded, which it can
// be only while nobody holds it open.
func (r *reader) dead() bool {
	for _, d := range r.devices {
		if !d.lost {
			return false
		}
	}
	return true
}

// reopen lets go of the driver and starts it again.
func (r *reader) reopen() error {
	r.lib.Shutdown()
	if c := r.lib.Init(); c != success {
		return fmt.Errorf("start the management library of NVIDIA again: %w", c)
	}
	return nil
}

// changed reports whether the list of devices is not what it was.
func (r *reader) changed() bool {
	n, c := r.lib.Count()
	if c != success {
		return false
	}
	wholes := 0
	for _, d := range r.devices {
		if d.lost {
			return true
		}
		if d.gpu.Parent != "" {
			continue
		}
		wholes++
		if d.noMIG {
			continue
		}
		on, c := r.lib.MIG(d.handle)
		if c == success && (on != d.mig || on && r.count(d) != d.instances) {
			return true
		}
	}
	return wholes != n
}

// count is the number of MIG instances of d now.
func (r *reader) count(d *device) (n int) {
	most, _ := r.lib.MIGCount(d.handle)
	for i := range min(most, 64) {
		if _, c := r.lib.MIGDevice(d.handle, i); c == success {
			n++
		}
	}
	return n
}

func (d *device) set32(f int, v uint32, c code, unit float64) {
	d.shown[f] = shown{float64(v) * unit, c == success && valid32(v)}
}

// show reads what only exports show of one device.
func (r *reader) show(d *device) {
	v, c := r.lib.PowerLimit(d.handle)
	d.set32(figPowerLimit, v, c, 1e-3)
	for i, clock := range [...]uint32{clockGraphics, clockSM, clockMemory, clockVideo} {
		v, c = r.lib.Clock(d.handle, clock)
		d.set32(figGraphics+i, v, c, 1e6)
	}
	v, c = r.lib.Temperature(d.handle)
	d.set32(figTemperature, v, c, 1)
	v, c = r.lib.Fan(d.handle)
	d.set32(figFan, v, c, 0.01)
	for i, bad := range [...]bool{false, true} {
		n, c := r.lib.Errors(d.handle, bad)
		d.shown[figCorrected+i] = shown{float64(n), c == success && valid64(n)}
	}
	r.readFields(d)
}

// readFields reads what the library numbers instead of naming.
func (r *reader) readFields(d *device) {
	r.fields = [7]field{{id: fieldMemoryTemp}, {id: fieldReplays}}
	n := 2
	for i := range throttles {
		if throttles[i].field != 0 {
			r.fields[n] = field{id: throttles[i].field}
			n++
		}
	}
	d.shown[figMemoryTemperature].has, d.shown[figReplays].has = false, false
	if r.lib.Fields(d.handle, r.fields[:n]) != success {
		return
	}
	for i := range r.fields[:n] {
		f := &r.fields[i]
		v, ok := f.number()
		if !ok {
			continue
		}
		switch f.id {
		case fieldMemoryTemp:
			if v > 0 && v < 200 {
				d.shown[figMemoryTemperature] = shown{v, true}
			}
		case fieldReplays:
			d.shown[figReplays] = shown{v, true}
		default:
			d.throttleTime(f.id, v)
		}
	}
}

// throttleTime takes a counter of nanoseconds.
func (d *device) throttleTime(id uint32, nanos float64) {
	for i := range throttles {
		if throttles[i].field != id {
			continue
		}
		before := d.throttleMeter[i].Add(nanos / 1e9)
		if !d.throttleCounted[i] { // go on from what was integrated
			d.throttleCounted[i] = true
			d.throttleBase[i] = d.throttled[i] - before
		}
		d.throttled[i] = d.throttleBase[i] + before
	}
}

// number is the value of a field, by its type (nvmlValueType_t).
func (f *field) number() (float64, bool) {
	if f.code != success {
		return 0, false
	}
	word := binary.NativeEndian.Uint64(f.value[:])
	switch f.kind {
	case 1, 4: // unsigned int, and signed long long, of which the negative ones are blank
		if f.kind == 1 {
			v := uint32(word)
			return float64(v), valid32(v)
		}
		return float64(word), valid64(word)
	case 2, 3: // unsigned long, unsigned long long
		return float64(word), valid64(word)
	case 5: // signed int
		v := int32(uint32(word))
		return float64(v), v >= 0 && uint32(v) < blank32
	}
	return 0, false
}

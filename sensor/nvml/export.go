package nvml

import (
	"encoding/binary"
	"fmt"
	"math"
)

// readExported reads the figures that are needed only for exports. It also detects added, removed and returned devices
// and MIG instances.
func (r *reader) readExported() error {
	r.trouble = nil
	if r.allLost() {
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
	r.readXids()
	for _, d := range r.devices {
		if !d.lost && d.gpu.Parent == "" {
			r.readExportOnly(d)
		}
	}
	return r.trouble
}

// allLost reports whether no device responds. The reason may be that the driver was unloaded, which is possible only while
// no process has it open.
func (r *reader) allLost() bool {
	for _, d := range r.devices {
		if !d.lost {
			return false
		}
	}
	return true
}

// reopen closes the driver and opens it again.
func (r *reader) reopen() error {
	for _, d := range r.devices { // handles of the library are invalid after Shutdown
		r.endGPM(&d.gpm)
		d.watched = false
	}
	r.lib.Shutdown()
	if c := r.lib.Init(); c != success {
		return fmt.Errorf("start the management library of NVIDIA again: %w", c)
	}
	return nil
}

// changed reports whether the list of devices has changed.
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

// count returns the present number of MIG instances of d.
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
	d.shown[f] = exportedFigure{float64(v) * unit, c == success && valid32(v)}
}

// readExportOnly reads the export-only figures of one device.
func (r *reader) readExportOnly(d *device) {
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
		d.shown[figCorrected+i] = exportedFigure{float64(n), c == success && valid64(n)}
	}
	r.readFields(d)
}

// numbered lists the figures that the library identifies by number and that are exported unchanged.
var numbered = [...]struct {
	field  uint32
	figure int
}{
	{fieldMemoryTemp, figMemoryTemperature}, {fieldReplays, figReplays},
	{fieldCRCFlit, figCRCFlit}, {fieldCRCData, figCRCData}, {fieldReplay, figLinkReplays}, {fieldRecovery, figLinkRecoveries},
	{fieldRowsFixed, figRowsCorrected}, {fieldRowsBad, figRowsUncorrected}, {fieldRowsPending, figRowsPending},
	{fieldRowsFailed, figRowsFailed},
}

// readFields reads the figures that the library identifies by number.
func (r *reader) readFields(d *device) {
	f := r.fields[:0]
	for _, n := range numbered {
		f = append(f, field{id: n.field})
		d.shown[n.figure].has = false
	}
	for i := range throttles {
		if throttles[i].field != 0 {
			f = append(f, field{id: throttles[i].field})
		}
	}
	f = append(f, field{id: fieldNVLinkSent, scope: allLinks}, field{id: fieldNVLinkGot, scope: allLinks})
	if r.lib.Fields(d.handle, f) != success {
		return
	}
	for i := range f {
		v, ok := f[i].number()
		switch {
		case !ok:
		case i < len(numbered):
			if f[i].id == fieldMemoryTemp && (v <= 0 || v >= 200) {
				continue
			}
			d.shown[numbered[i].figure] = exportedFigure{v, true}
		case f[i].id == fieldNVLinkSent:
			r.linkBytes(d, figNVLinkSent, 0, v)
		case f[i].id == fieldNVLinkGot:
			r.linkBytes(d, figNVLinkReceived, 1, v)
		default:
			r.throttleTime(d, f[i].id, v)
		}
	}
	if !d.shown[figLinkReplays].has && d.linksCounted {
		r.linkErrors(d)
	}
}

// linkBytes records a counter of KiB since the driver was loaded.
func (r *reader) linkBytes(d *device, figure, i int, kib float64) {
	d.linksCounted = true
	v, err := d.linkMeter[i].Add(r.now(), "NVLink", d.gpu.Device, kib*1024, math.Inf(1))
	d.shown[figure] = exportedFigure{v, err == nil}
	r.addRefusal(err)
}

// linkErrors sums the errors of the links of a device without a total (Hopper).
func (r *reader) linkErrors(d *device) {
	if d.noLinks {
		return
	}
	for i := range mostLinks {
		for j, id := range [...]uint32{fieldLinkReplay, fieldLinkRecovery, fieldLinkCRC} {
			r.links[3*i+j] = field{id: id, scope: uint32(i)}
		}
	}
	if r.lib.Fields(d.handle, r.links[:]) != success {
		return
	}
	d.noLinks = true
	for j, figure := range [...]int{figLinkReplays, figLinkRecoveries, figCRCFlit} {
		sum, has := 0.0, false
		for i := range mostLinks {
			if v, ok := r.links[3*i+j].number(); ok {
				sum, has = sum+v, true
			}
		}
		if has {
			d.shown[figure], d.noLinks = exportedFigure{sum, true}, false
		}
	}
}

// throttleTime records a counter of nanoseconds.
func (r *reader) throttleTime(d *device, id uint32, nanos float64) {
	for i := range throttles {
		if throttles[i].field != id {
			continue
		}
		before, err := d.throttleMeter[i].Add(r.now(), "throttled time", d.gpu.Device, nanos/1e9, 2)
		r.addRefusal(err)
		if !d.throttleCounted[i] { // continue from the integrated value
			d.throttleCounted[i] = true
			d.throttleBase[i] = d.throttled[i] - before
		}
		d.throttled[i] = d.throttleBase[i] + before
	}
}

// number returns the value of a field, by its type (nvmlValueType_t).
func (f *field) number() (float64, bool) {
	if f.code != success {
		return 0, false
	}
	word := binary.NativeEndian.Uint64(f.value[:])
	switch f.kind {
	case 1, 4: // unsigned int, and signed long long, for which negative values are blank
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

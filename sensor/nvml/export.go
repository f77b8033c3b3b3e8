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
	if r.hasDeviceListChanged() {
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
	if c := r.lib.Init(); c != codeSuccess {
		return fmt.Errorf("start the management library of NVIDIA again: %w", c)
	}
	return nil
}

// hasDeviceListChanged reports whether devices or MIG instances were added or removed.
func (r *reader) hasDeviceListChanged() bool {
	n, c := r.lib.Count()
	if c != codeSuccess {
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
		if c == codeSuccess && (on != d.mig || on && r.countInstances(d) != d.instances) {
			return true
		}
	}
	return wholes != n
}

// countInstances returns the current number of MIG instances of d.
func (r *reader) countInstances(d *device) (n int) {
	most, _ := r.lib.MIGCount(d.handle)
	for i := range min(most, 64) {
		if _, c := r.lib.MIGDevice(d.handle, i); c == codeSuccess {
			n++
		}
	}
	return n
}

func (d *device) setFigure32(f int, v uint32, c code, unit float64) {
	d.shown[f] = exportedFigure{float64(v) * unit, c == codeSuccess && isValid32(v)}
}

// readExportOnly reads the export-only figures of one device.
func (r *reader) readExportOnly(d *device) {
	v, c := r.lib.PowerLimit(d.handle)
	d.setFigure32(figPowerLimit, v, c, 1e-3)
	for i, clock := range [...]uint32{clockGraphics, clockSM, clockMemory, clockVideo} {
		v, c = r.lib.Clock(d.handle, clock)
		d.setFigure32(figGraphics+i, v, c, 1e6)
	}
	v, c = r.lib.Temperature(d.handle)
	d.setFigure32(figTemperature, v, c, 1)
	v, c = r.lib.Fan(d.handle)
	d.setFigure32(figFan, v, c, 0.01)
	for i, bad := range [...]bool{false, true} {
		n, c := r.lib.Errors(d.handle, bad)
		d.shown[figCorrected+i] = exportedFigure{float64(n), c == codeSuccess && isValid64(n)}
	}
	r.readFields(d)
}

// numberedFields lists the figures that the library identifies by number and that are exported unchanged.
var numberedFields = [...]struct {
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
	for _, n := range numberedFields {
		f = append(f, fieldValue{id: n.field})
		d.shown[n.figure].has = false
	}
	for i := range throttles {
		if throttles[i].field != 0 {
			f = append(f, fieldValue{id: throttles[i].field})
		}
	}
	f = append(f, fieldValue{id: fieldNVLinkSent, scope: allLinks}, fieldValue{id: fieldNVLinkGot, scope: allLinks})
	if r.lib.Fields(d.handle, f) != codeSuccess {
		return
	}
	for i := range f {
		v, ok := f[i].toFloat()
		switch {
		case !ok:
		case i < len(numberedFields):
			if f[i].id == fieldMemoryTemp && (v <= 0 || v >= 200) {
				continue
			}
			d.shown[numberedFields[i].figure] = exportedFigure{v, true}
		case f[i].id == fieldNVLinkSent:
			r.addLinkBytes(d, figNVLinkSent, 0, v)
		case f[i].id == fieldNVLinkGot:
			r.addLinkBytes(d, figNVLinkReceived, 1, v)
		default:
			r.addThrottleTime(d, f[i].id, v)
		}
	}
	if !d.shown[figLinkReplays].has && d.linksCounted {
		r.sumLinkErrors(d)
	}
}

// addLinkBytes records a counter that the driver keeps in KiB since it was loaded.
func (r *reader) addLinkBytes(d *device, figure, i int, kib float64) {
	d.linksCounted = true
	v, err := d.linkMeter[i].Add(r.now(), "NVLink", d.gpu.Device, kib*1024, math.Inf(1))
	d.shown[figure] = exportedFigure{v, err == nil}
	r.addRefusal(err)
}

// sumLinkErrors sums the errors of all links of a device that reports no total (Hopper).
func (r *reader) sumLinkErrors(d *device) {
	if d.noLinks {
		return
	}
	for i := range maxLinks {
		for j, id := range [...]uint32{fieldLinkReplay, fieldLinkRecovery, fieldLinkCRC} {
			r.links[3*i+j] = fieldValue{id: id, scope: uint32(i)}
		}
	}
	if r.lib.Fields(d.handle, r.links[:]) != codeSuccess {
		return
	}
	d.noLinks = true
	for j, figure := range [...]int{figLinkReplays, figLinkRecoveries, figCRCFlit} {
		sum, has := 0.0, false
		for i := range maxLinks {
			if v, ok := r.links[3*i+j].toFloat(); ok {
				sum, has = sum+v, true
			}
		}
		if has {
			d.shown[figure], d.noLinks = exportedFigure{sum, true}, false
		}
	}
}

// addThrottleTime records a counter of nanoseconds.
func (r *reader) addThrottleTime(d *device, id uint32, nanos float64) {
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

// toFloat returns the value of a field, by its type (nvmlValueType_t).
func (f *fieldValue) toFloat() (value float64, ok bool) {
	if f.code != codeSuccess {
		return 0, false
	}
	word := binary.NativeEndian.Uint64(f.value[:])
	switch f.kind {
	case 1, 4: // unsigned int, and signed long long, for which negative values are blank
		if f.kind == 1 {
			v := uint32(word)
			return float64(v), isValid32(v)
		}
		return float64(word), isValid64(word)
	case 2, 3: // unsigned long, unsigned long long
		return float64(word), isValid64(word)
	case 5: // signed int
		v := int32(uint32(word))
		return float64(v), v >= 0 && uint32(v) < blank32
	}
	return 0, false
}

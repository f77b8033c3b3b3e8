package amdgpu

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

// attributeFile is a sysfs file that holds one figure of the device.
type attributeFile struct {
	file   *sysfs.File
	figure sensor.GPUFigure
	scale  float64
	value  float64
	has    bool
}

// device is one GPU.
type device struct {
	gpu    sensor.GPU
	dir    string
	series *sensor.GPUSeries
	read0  time.Time
	lost   bool
	gone   error

	status, busyFile, used, size *sysfs.File
	power                        *sysfs.File // microwatts
	memoryBusy                   *sysfs.File
	shown                        []attributeFile
	errors                       *sysfs.File // of the memory, see readErrors
	failed, corrected            int64
	hasErrors                    bool
	blob                         *os.File
	raw                          [4096]byte
	table, was                   metricsTable
	hasTable, hadTable           bool
	tableErr                     error

	busy, engineMemory, engineMedia float64 // seconds
	hasMemory, hasMedia             bool
	joules, watts                   float64
	hasJoules, hasWatts, counter    bool
	odometer                        sensor.Odometer
	mostWatts                       float64
	integral                        sensor.Integral
	links                           [len(linkCounters)]sensor.Odometer
	link                            [len(linkCounters)]float64
	hasLink                         [len(linkCounters)]bool
	throttled                       [len(throttleResidencies)]float64 // seconds
	hasThrottled                    [len(throttleResidencies)]bool
}

// throttleResidencies lists the accumulators of throttling time in a metrics table. bits are the throttle status bits that are
// counted instead if a table has no accumulators.
var throttleResidencies = [...]struct {
	what   tableField
	bits   uint64
	figure sensor.GPUFigure
}{
	{prochotResidency, throttleProchot, sensor.GPUThrottledProchot},
	{powerResidency, throttlePower, sensor.GPUThrottledPower},
	{thermalResidency, throttleThermal, sensor.GPUThrottledThermal},
	{regulatorResidency, 0, sensor.GPUThrottledRegulatorThermal},
	{memoryThermalResidency, 0, sensor.GPUThrottledMemoryThermal},
}

func newDevice(dir, root string) *device {
	name := filepath.Base(filepath.Dir(dir))
	if target, err := os.Readlink(dir); err == nil {
		name = filepath.Base(target)
	} else if target, err := filepath.EvalSymlinks(dir); err == nil {
		name = filepath.Base(target)
	}
	model := sysfs.ReadWord(dir, "product_name")
	if model == "" {
		model = "AMD " + strings.TrimPrefix(sysfs.ReadWord(dir, "device"), "0x")
	}
	d := &device{dir: dir, gpu: sensor.GPU{Vendor: "amd", Device: name, Model: model,
		Driver: sysfs.ReadWord(sysfs.Path(root, "sys/module/amdgpu/version"))}, mostWatts: sensor.MaxWatts}
	open := func(path ...string) *sysfs.File {
		f, err := sysfs.Open(filepath.Join(append([]string{dir}, path...)...))
		if err != nil {
			return nil // this device does not have it
		}
		return f
	}
	d.gpu.Nodes = sysfs.Nodes(filepath.Join(dir, "drm"))
	d.status = open("power/runtime_status")
	d.busyFile, d.memoryBusy = open("gpu_busy_percent"), open("mem_busy_percent")
	d.used, d.size = open("mem_info_vram_used"), open("mem_info_vram_total")
	d.errors = open("ras/umc_err_count")
	if f, err := os.Open(filepath.Join(dir, "gpu_metrics")); err == nil {
		d.blob = f
	}
	d.openHwmon()
	return d
}

// openHwmon opens the attributes of the device's hardware monitor (Documentation/hwmon/sysfs-interface.rst). They are
// in microwatts, thousandths of a degree Celsius, and hertz.
func (d *device) openHwmon() {
	dirs, _ := filepath.Glob(filepath.Join(d.dir, "hwmon/hwmon*"))
	if len(dirs) == 0 {
		return
	}
	dir := dirs[0]
	d.mostWatts = sensor.PowerLimit(sysfs.Micro(dir, "power1_cap_max"), sysfs.Micro(dir, "power1_cap"))
	for _, name := range []string{"power1_average", "power1_input"} { // the mean first: it covers short peaks
		if d.power == nil {
			if f, err := sysfs.Open(filepath.Join(dir, name)); err == nil {
				d.power = f
			}
		}
	}
	add := func(name string, figure sensor.GPUFigure, scale float64) {
		if f, err := sysfs.Open(filepath.Join(dir, name)); err == nil {
			d.shown = append(d.shown, attributeFile{file: f, figure: figure, scale: scale})
		}
	}
	add("power1_cap", sensor.GPUPowerLimitWatts, 1e-6)
	for _, n := range []string{"1", "2", "3"} {
		switch sysfs.ReadWord(dir, "temp"+n+"_label") {
		case "edge":
			add("temp"+n+"_input", sensor.GPUTemperatureCore, 1e-3)
		case "junction":
			add("temp"+n+"_input", sensor.GPUTemperatureHotspot, 1e-3)
		case "mem":
			add("temp"+n+"_input", sensor.GPUTemperatureMemory, 1e-3)
		}
		switch sysfs.ReadWord(dir, "freq"+n+"_label") {
		case "sclk":
			add("freq"+n+"_input", sensor.GPUClockGraphics, 1)
		case "mclk":
			add("freq"+n+"_input", sensor.GPUClockMemory, 1)
		}
	}
	if most, ok := sysfs.Number([]byte(sysfs.ReadWord(dir, "fan1_max"))); ok && most > 0 {
		add("fan1_input", sensor.GPUFanRatio, 1/float64(most))
	}
}

// read reads the figures of the device. It returns an error if the device is gone, or if its metrics table has a format
// that is not in known. After an unknown format, the other figures are still read.
func (d *device) read(now time.Time, known []tableLayout) error {
	was := d.read0
	d.read0 = now
	d.gpu.Span = 0
	if s := now.Sub(was); !was.IsZero() && s > 0 && s <= sensor.Gap {
		d.gpu.Span = s.Seconds()
	}
	d.gpu.Have, d.gpu.Busy, d.hasWatts = 0, 0, false
	if b, err := d.status.Text(); err == nil && string(b) == "suspended" {
		d.readSuspended(now)
		return nil
	}
	used, err := d.used.Int()
	if d.used != nil && err != nil && (sysfs.IsGone(err) || sysfs.ReadWord(d.dir, "vendor") == "") {
		d.lost = true
		if d.gone == nil {
			d.gone = fmt.Errorf("AMD GPU %s has vanished: %w", d.gpu.Device, err)
		}
		return d.gone
	}
	d.lost = false
	var refused error
	if size, e := d.size.Int(); err == nil && e == nil && used >= 0 && size > 0 {
		refused = d.gpu.SetMemory(uint64(used), uint64(size))
	}
	err = d.readTable(known)
	d.readBusy()
	refused = errors.Join(refused, d.readEnergy(now))
	d.readThrottle()
	refused = errors.Join(refused, d.readLinks(now))
	if b, err := d.errors.Text(); err == nil {
		d.failed, d.corrected, d.hasErrors = parseErrors(b)
	}
	for i := range d.shown {
		p := &d.shown[i]
		v, err := p.file.Int()
		p.value, p.has = float64(v)*p.scale, err == nil && v >= 0
	}
	return sensor.JoinRefused(err, refused)
}

// readSuspended is a reading of a suspended device.
func (d *device) readSuspended(now time.Time) {
	d.lost = false
	d.gpu.Have = sensor.GPUBusy
	d.integral.Add(now, 0)
	d.hasTable, d.hasLink = false, [len(linkCounters)]bool{}
	for i := range d.shown {
		d.shown[i].has = false
	}
}

// parseErrors parses the numbers of uncorrected and corrected memory errors from text such as "ue: 0\nce: 3"
// (Documentation/gpu/amdgpu/ras.rst).
func parseErrors(b []byte) (failed, corrected int64, ok bool) {
	first, second, _ := bytes.Cut(b, []byte("\n"))
	first, ue := bytes.CutPrefix(first, []byte("ue: "))
	second, ce := bytes.CutPrefix(second, []byte("ce: "))
	failed, one := sysfs.Number(first)
	corrected, two := sysfs.Number(second)
	return failed, corrected, ue && ce && one && two && failed >= 0 && corrected >= 0
}

func (d *device) readTable(known []tableLayout) error {
	d.was, d.hadTable = d.table, d.hasTable
	d.hasTable = false
	if d.blob == nil {
		return nil
	}
	n, _ := d.blob.ReadAt(d.raw[:], 0)
	if n == 0 {
		return nil // the driver does not fill it for this chip
	}
	if err := d.table.decode(d.raw[:n], known); err != nil {
		if d.tableErr == nil {
			d.tableErr = fmt.Errorf("AMD GPU %s: %w", d.gpu.Device, err)
		}
		return d.tableErr
	}
	d.hasTable = true
	return nil
}

// counterIncrease returns the increase of a 32-bit accumulator since the last reading.
func (d *device) counterIncrease(f tableField) (increase float64, ok bool) {
	if !d.hasTable || !d.hadTable || !d.table.has[f] || !d.was.has[f] {
		return 0, false
	}
	return float64(uint32(d.table.value[f]) - uint32(d.was.value[f])), true // wraps like the accumulator
}

// meanIncrement returns the mean increment of an accumulator since the last reading, as a fraction of maximum.
func (d *device) meanIncrement(f tableField, maximum float64) (mean float64, ok bool) {
	n, ok := d.counterIncrease(accumulations)
	v, known := d.counterIncrease(f)
	if !ok || !known || n == 0 || v > n*maximum*1.01 {
		return 0, false // the firmware made no update, or was reset
	}
	return min(v/(n*maximum), 1), true
}

func (d *device) readBusy() {
	share, ok := d.meanIncrement(gfxAccumulated, 100)
	if v, err := d.busyFile.Int(); !ok && err == nil && v >= 0 && v <= 100 {
		share, ok = float64(v)/100, true
	}
	if v := d.table.value[gfxActivity]; !ok && d.hasTable && d.table.has[gfxActivity] && v <= 100 {
		share, ok = float64(v)/100, true
	}
	if ok {
		d.gpu.Busy = share * d.gpu.Span
		d.gpu.Have |= sensor.GPUBusy
		d.busy += d.gpu.Busy
	}
	share, ok = d.meanIncrement(memoryAccumulated, 100)
	if v, err := d.memoryBusy.Int(); !ok && err == nil && v >= 0 && v <= 100 {
		share, ok = float64(v)/100, true
	}
	if ok {
		d.engineMemory += share * d.gpu.Span
		d.hasMemory = true
	}
	if v := d.table.value[mediaActivity]; d.hasTable && d.table.has[mediaActivity] && v <= 100 {
		d.engineMedia += float64(v) / 100 * d.gpu.Span
		d.hasMedia = true
	}
}

func (d *device) readEnergy(now time.Time) (refused error) {
	if v, err := d.power.Int(); err == nil && v >= 0 {
		d.watts, d.hasWatts = float64(v)/1e6, true
	} else if d.hasTable && d.table.has[socketPower] {
		d.watts, d.hasWatts = float64(d.table.value[socketPower]), true
	}
	if d.hasWatts {
		refused = sensor.CheckRange("power", d.gpu.Device, d.watts, 0, d.mostWatts)
		d.hasWatts = refused == nil
	}
	d.hasJoules = false
	switch {
	case d.hasTable && d.table.has[energyUnits] && d.table.value[energyUnits] > 0:
		var err error
		d.joules, err = d.odometer.Add(now, "energy", d.gpu.Device, float64(d.table.value[energyUnits])/65536, d.mostWatts)
		d.hasJoules, d.counter, refused = err == nil, true, errors.Join(refused, err)
	case d.hasWatts && !d.counter:
		d.joules, d.hasJoules = d.integral.Add(now, d.watts), true
	}
	return refused
}

func (d *device) readThrottle() {
	for i := range throttleResidencies {
		r := &throttleResidencies[i]
		if share, ok := d.meanIncrement(r.what, 1); ok {
			d.throttled[i] += share * d.gpu.Span
			d.hasThrottled[i] = true
		} else if r.bits != 0 && d.hasTable && d.table.has[throttleBits] {
			if d.table.value[throttleBits]&r.bits != 0 {
				d.throttled[i] += d.gpu.Span
			}
			d.hasThrottled[i] = true
		}
	}
}

// linkCounters are the bus counters in the metrics table, and their units.
var linkCounters = [...]struct {
	what   tableField
	figure sensor.GPUFigure
	scale  float64
}{
	{linkRead, sensor.GPUXGMIReceived, 1024}, // data that it read was received over the link
	{linkWritten, sensor.GPUXGMISent, 1024},
	{pcieReplays, sensor.GPUReplays, 1},
}

func (d *device) readLinks(now time.Time) (refused error) {
	for i, f := range linkCounters {
		if d.hasLink[i] = d.hasTable && d.table.has[f.what]; d.hasLink[i] {
			var err error
			d.link[i], err = d.links[i].Add(now, "link", d.gpu.Device, float64(d.table.value[f.what])*f.scale, math.Inf(1))
			d.hasLink[i], refused = err == nil, errors.Join(refused, err)
		}
	}
	return refused
}

// export appends the series of the device.
func (d *device) export(b *metric.Batch) {
	d.series.AddUsed(b, &d.gpu, d.busy)
	if d.hasMemory {
		d.series.Add(b, sensor.GPUEngineMemory, d.engineMemory)
	}
	if d.hasMedia {
		d.series.Add(b, sensor.GPUEngineMedia, d.engineMedia)
	}
	if d.hasJoules {
		d.series.Add(b, sensor.GPUEnergyJoules, d.joules)
	}
	if d.hasWatts {
		d.series.Add(b, sensor.GPUPowerWatts, d.watts)
	}
	for i, f := range linkCounters {
		if d.hasLink[i] {
			d.series.Add(b, f.figure, d.link[i])
		}
	}
	for i := range throttleResidencies {
		if d.hasThrottled[i] {
			d.series.Add(b, throttleResidencies[i].figure, d.throttled[i])
		}
	}
	if d.hasErrors {
		d.series.Add(b, sensor.GPUErrorsUncorrected, float64(d.failed))
		d.series.Add(b, sensor.GPUErrorsCorrected, float64(d.corrected))
	}
	for i := range d.shown {
		if d.shown[i].has {
			d.series.Add(b, d.shown[i].figure, d.shown[i].value)
		}
	}
	d.exportTable(b)
}

// exportTable appends the figures of the table that hwmon does not have.
func (d *device) exportTable(b *metric.Batch) {
	if !d.hasTable {
		return
	}
	for _, f := range [...]struct {
		what   tableField
		figure sensor.GPUFigure
		scale  float64
	}{
		{temperatureHot, sensor.GPUTemperatureHotspot, 1}, {temperatureMem, sensor.GPUTemperatureMemory, 1},
		{graphicsClock, sensor.GPUClockGraphics, 1e6}, {memoryClock, sensor.GPUClockMemory, 1e6},
	} {
		if d.table.has[f.what] && !d.hasFigure(f.figure) {
			d.series.Add(b, f.figure, float64(d.table.value[f.what])*f.scale)
		}
	}
}

func (d *device) hasFigure(f sensor.GPUFigure) bool {
	for i := range d.shown {
		if d.shown[i].figure == f && d.shown[i].has {
			return true
		}
	}
	return false
}

func (d *device) close() error {
	errs := []error{d.status.Close(), d.busyFile.Close(), d.memoryBusy.Close(), d.used.Close(), d.size.Close(), d.power.Close(),
		d.errors.Close()}
	for i := range d.shown {
		errs = append(errs, d.shown[i].file.Close())
	}
	if d.blob != nil {
		errs = append(errs, d.blob.Close())
		d.blob = nil
	}
	return errors.Join(errs...)
}

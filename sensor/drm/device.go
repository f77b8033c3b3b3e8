package drm

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

// device is one GPU.
type device struct {
	gpu    sensor.GPU
	ours   bool // no other sensor describes it
	pdev   []byte
	series *sensor.GPUSeries

	class     [maxEngines][16]byte // classes of engines
	used      [maxEngines]float64  // seconds of this reading, by class
	busy      float64              // seconds so far
	energy    *sysfs.File          // microjoules
	clock     *sysfs.File          // megahertz
	megahertz int64
	odometer  sensor.Odometer
	most      float64 // watts
	joules    float64
	hasJoules bool
}

// newDevice examines a folder of /sys/class/drm; nil is a device that this sensor does not read.
func newDevice(card string) *device {
	dir := filepath.Join(card, "device")
	target, err := os.Readlink(dir)
	if err != nil {
		return nil
	}
	d := &device{gpu: sensor.GPU{Device: filepath.Base(target)}, pdev: []byte(filepath.Base(target))}
	d.gpu.Nodes = sysfs.Nodes(filepath.Join(dir, "drm"))
	driver, _ := os.Readlink(filepath.Join(dir, "driver"))
	switch driver = filepath.Base(driver); driver {
	case "amdgpu":
		d.gpu.Vendor = "amd"
		return d
	case "i915", "xe":
		d.gpu.Vendor, d.ours = "intel", true
	default:
		return nil
	}
	d.gpu.Model = "Intel " + strings.TrimPrefix(sysfs.ReadWord(dir, "device"), "0x")
	if found, _ := filepath.Glob(filepath.Join(dir, "hwmon/hwmon*/energy1_input")); len(found) > 0 {
		if f, err := sysfs.Open(found[0]); err == nil {
			d.energy = f
		}
		power := filepath.Join(filepath.Dir(found[0]), "power1_")
		d.most = sensor.PowerLimit(sysfs.Micro(power+"max"), sysfs.Micro(power+"crit"), sysfs.Micro(power+"rated_max"),
			sysfs.Micro(power+"cap"))
	}
	for _, name := range []string{filepath.Join(card, "gt_act_freq_mhz"), filepath.Join(dir, "tile0/gt0/freq0/act_freq")} {
		if f, err := sysfs.Open(name); err == nil && d.clock == nil {
			d.clock = f
		}
	}
	return d
}

// addBusy adds busy time of one class of engines.
func (d *device) addBusy(name [16]byte, seconds float64) {
	for i := range d.class {
		if d.class[i] == name || d.class[i] == [16]byte{} {
			d.class[i] = name
			d.used[i] += seconds
			return
		}
	}
}

// closeReading closes a reading.
func (d *device) closeReading(seen bool, now time.Time) (refused error) {
	most := 0.0
	for _, v := range d.used {
		most = max(most, v)
	}
	d.gpu.Busy, d.gpu.Have = min(most, d.gpu.Span), 0
	if seen { // otherwise unseen processes may have used it too
		d.gpu.Have = sensor.GPUBusy
		d.busy += d.gpu.Busy
	}
	d.hasJoules = false
	if v, err := d.energy.Int(); err == nil {
		d.joules, refused = d.odometer.Add(now, "energy", d.gpu.Device, float64(v)/1e6, d.most)
		d.hasJoules = refused == nil
	}
	d.megahertz = -1
	if v, err := d.clock.Int(); err == nil {
		d.megahertz = v
	}
	return refused
}

func (d *device) export(b *metric.Batch) {
	d.series.AddUsed(b, &d.gpu, d.busy)
	if d.hasJoules {
		d.series.Add(b, sensor.GPUEnergyJoules, d.joules)
	}
	if d.megahertz >= 0 {
		d.series.Add(b, sensor.GPUClockGraphics, float64(d.megahertz)*1e6)
	}
}

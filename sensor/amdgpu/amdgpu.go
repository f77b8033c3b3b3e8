// Package amdgpu reads AMD GPUs from the files of their driver: busy time, memory,
// energy, power, clocks, temperatures, throttling, memory errors
// (Documentation/gpu/amdgpu/thermal.rst, driver-misc.rst and ras.rst):
//
//	/sys/class/drm/card1/device -> ../../../0000:c1:00.0
//	/sys/class/drm/card1/device/gpu_busy_percent          37
//	/sys/class/drm/card1/device/mem_info_vram_used        8589934592
//	/sys/class/drm/card1/device/gpu_metrics               a binary table with a revision
//	/sys/class/drm/card1/device/hwmon/hwmon3/power1_average   183000000 (microwatts)
//
// If the table has accumulators (revision 1.6 and later, Instinct), busy time and
// throttling are exact over any interval; otherwise the driver's short-term means are
// integrated at each reading. Energy is the accumulator of revision 1.4 and later,
// otherwise integrated power. The users of a device are read by sensor/drm, under the
// same device name, the PCI address.
//
// A suspended device is not woken: it is idle, and its figures are absent. A device that
// vanishes is reported, and the others are still read. A [Sensor] is used from one
// goroutine.
package amdgpu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

// Sensor reads the devices of one machine.
type Sensor struct {
	devices []*device
	layouts []tableLayout
	now     func() time.Time
	trouble error

	forGPU, forMeters, forRead bool // was read and not consumed yet
	at                         time.Time

	series sensor.MeterSeries
	buffer []sensor.Meter
}

var (
	_ sensor.Sensor      = (*Sensor)(nil)
	_ sensor.GPUSource   = (*Sensor)(nil)
	_ sensor.MeterSource = (*Sensor)(nil)
)

// New finds the devices below root; "" or "/" is our own machine.
func New(root string) (*Sensor, error) {
	class := sysfs.Path(root, "sys/class/drm")
	entries, err := os.ReadDir(class)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, sensor.Unavailable("the kernel shows no graphics devices", "", err)
	} else if err != nil {
		return nil, fmt.Errorf("list graphics devices: %w", err)
	}
	s := &Sensor{layouts: knownLayouts(), now: time.Now}
	for _, e := range entries {
		dir := filepath.Join(class, e.Name(), "device")
		if !strings.HasPrefix(e.Name(), "card") || strings.Contains(e.Name(), "-") || sysfs.ReadWord(dir, "vendor") != "0x1002" {
			continue // a connector, a render node, another vendor's device
		}
		s.devices = append(s.devices, newDevice(dir, root))
	}
	if len(s.devices) == 0 {
		return nil, sensor.Unavailable("no AMD GPU", "", fmt.Errorf("none in %s", class))
	}
	slices.SortFunc(s.devices, func(a, b *device) int { return strings.Compare(a.gpu.Device, b.gpu.Device) })
	for i, d := range s.devices {
		d.gpu.Index = i
		d.series = sensor.NewGPUSeries(&d.gpu)
	}
	return s, nil
}

// reuseFor is the time for which a reading is used again within its tick.
const reuseFor = 200 * time.Millisecond

// refresh performs one reading for all callers in the same tick.
func (s *Sensor) refresh(done *bool) {
	now := s.now()
	if !*done || now.Sub(s.at) > reuseFor {
		s.trouble = nil
		for _, d := range s.devices {
			err := d.read(now, s.layouts)
			if _, odd := sensor.Implausible(err); s.trouble == nil {
				s.trouble = err
			} else if err != nil && odd {
				s.trouble = errors.Join(s.trouble, err)
			}
		}
		s.at = now
		s.forGPU, s.forMeters, s.forRead = true, true, true
	}
	*done = false
}

// Name implements sensor.Sensor.
func (s *Sensor) Name() string { return "amdgpu" }

// Descs implements sensor.Sensor.
func (s *Sensor) Descs() []*metric.Desc { return append(sensor.GPUDescs(), sensor.MeterDescs()...) }

// ReadGPU implements sensor.GPUSource.
func (s *Sensor) ReadGPU(p *sensor.GPUPass) error {
	s.refresh(&s.forGPU)
	for _, d := range s.devices {
		if !d.lost {
			p.Devices = append(p.Devices, d.gpu)
		}
	}
	return s.trouble
}

// ReadMeters implements sensor.MeterSource.
func (s *Sensor) ReadMeters(dst []sensor.Meter) ([]sensor.Meter, error) {
	s.refresh(&s.forMeters)
	return s.appendMeters(dst), s.trouble
}

func (s *Sensor) appendMeters(dst []sensor.Meter) []sensor.Meter {
	for _, d := range s.devices {
		if d.lost || !d.hasJoules && !d.hasWatts {
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

// Read implements sensor.Sensor.
func (s *Sensor) Read(b *metric.Batch) error {
	s.refresh(&s.forRead)
	s.buffer = s.appendMeters(s.buffer[:0])
	s.series.Append(b, s.buffer)
	var refused error
	for _, d := range s.devices {
		if !d.lost {
			d.export(b)
			refused = errors.Join(refused, d.series.Refused())
		}
	}
	return sensor.JoinRefused(s.trouble, refused)
}

// Close implements sensor.Sensor.
func (s *Sensor) Close() error {
	var errs []error
	for _, d := range s.devices {
		errs = append(errs, d.close())
	}
	return errors.Join(errs...)
}

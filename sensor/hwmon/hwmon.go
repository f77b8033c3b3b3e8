// Package hwmon reads the hardware monitors of a machine
// (Documentation/hwmon/sysfs-interface.rst): power and energy as meters, and temperatures,
// fans, voltages and currents under the names of node_exporter.
//
//	power*_input, power*_average   µW
//	energy*_input                  µJ since some zero
//	in*_input, curr*_input         mV and mA; their product where the chip has no power
//
// Among the meters are the ACPI power meter of a server, the sockets of NVIDIA Grace
// (distinguished by power1_oem_info), supplies on PMBus, the sockets of AMD and Ampere
// processors, and INA monitors of boards. A meter of the machine's input is the meter of
// the board, one of a socket a package's, all else a rail. If several families of
// chips measure the input, the one nearest to it is used, so that nothing counts twice.
// GPUs, batteries and Tegra boards have sensors of their own.
//
// A reading of zero from the input that powers the running machine is implausible and left
// out. Chips that respond slowly (ACPI queries the BMC) are read in the background.
//
// A Sensor is used from one goroutine, and has one of its own for each slow chip.
package hwmon

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor"
)

// rescanInterval is the interval of the search for a removed device.
const rescanInterval = 30 * time.Second

// Sensor reads the chips of one machine.
type Sensor struct {
	root   string
	chips  []*chip
	meters []sensor.Meter
	series sensor.MeterSeries
	energy map[meterZone]*zoneTotal
	lost   bool // a device was removed
	looked time.Time
	now    func() time.Time
}

type meterZone struct {
	domain sensor.Domain
	name   string
}

// zoneTotal is the running total of a zone. It is kept after the device has disappeared, so that the total continues if
// the device returns.
type zoneTotal struct {
	power    sensor.Integral
	register sensor.Odometer
}

// New finds the chips below root; "" or "/" is our own machine.
func New(root string) (*Sensor, error) {
	s := &Sensor{root: root, energy: make(map[meterZone]*zoneTotal), now: time.Now}
	s.openChips()
	if !slices.ContainsFunc(s.chips, func(c *chip) bool { return len(c.meters)+len(c.values) > 0 }) {
		for _, c := range s.chips {
			if c.broken != nil {
				return nil, c.broken
			}
		}
		return nil, sensor.Unavailable("the kernel shows no hardware monitors", "",
			errors.New("nothing in "+sysfs.Path(root, "sys/class/hwmon")))
	}
	return s, nil
}

// openChips opens all chips again.
func (s *Sensor) openChips() {
	_ = s.Close()
	s.lost, s.looked = false, s.now()
	dirs, _ := filepath.Glob(sysfs.Path(s.root, "sys/class/hwmon/hwmon*"))
	slices.Sort(dirs)
	tegra := isTegra(s.root)
	labels := make(map[string]int)
	for _, dir := range dirs {
		if c := openChip(dir, tegra, labels); c != nil {
			s.chips = append(s.chips, c)
		}
	}
	selectInputs(s.chips)
	uniquifyMeters(s.chips)
	for _, c := range s.chips {
		if c.slow {
			c.startReader()
		}
	}
}

// Name implements sensor.Sensor.
func (s *Sensor) Name() string { return "hwmon" }

// ReadMeters implements sensor.MeterSource.
func (s *Sensor) ReadMeters(dst []sensor.Meter) ([]sensor.Meter, error) {
	now := s.now()
	if s.lost && now.Sub(s.looked) >= rescanInterval {
		s.openChips()
	}
	var failed error
	for _, c := range s.chips {
		c.requestReading()
		for _, p := range c.meters {
			r, err := p.read(now)
			if err == errNoReading {
				continue
			}
			var m sensor.Meter
			if err == nil {
				if err = p.checkPlausible(r); err == nil {
					m, err = s.toMeter(p, r)
				}
			}
			if err != nil {
				s.lost = s.lost || sysfs.IsGone(err)
				if n, _ := sensor.Implausible(err); n > 0 || failed == nil {
					failed = errors.Join(failed, fmt.Errorf("read %s: %w", p.path, err))
				}
				continue
			}
			dst = append(dst, m)
		}
	}
	return dst, failed
}

func (s *Sensor) toMeter(p *meter, r meterReading) (m sensor.Meter, err error) {
	k := meterZone{p.domain, p.zone}
	e := s.energy[k]
	if e == nil {
		e = new(zoneTotal)
		s.energy[k] = e
	}
	m = sensor.Meter{Domain: p.domain, Zone: p.zone, HasJoules: true, Watts: r.watts, HasWatts: r.hasWatts}
	if r.hasJoules {
		m.Joules, err = e.register.Add(r.at, "energy", p.zone, r.joules, p.most)
	} else {
		m.Joules = e.power.Add(r.at, r.watts)
	}
	return m, err
}

// Read implements sensor.Sensor.
func (s *Sensor) Read(b *metric.Batch) error {
	var err error
	s.meters, err = s.ReadMeters(s.meters[:0])
	s.series.Append(b, s.meters)
	for _, c := range s.chips {
		if bad := c.exportTo(b); bad != nil {
			s.lost = s.lost || sysfs.IsGone(bad)
			err = errors.Join(err, bad)
		}
	}
	return err
}

// Close closes the chips without waiting. A slow one is closed after it has responded.
func (s *Sensor) Close() error {
	var errs []error
	for _, c := range s.chips {
		errs = append(errs, c.Close())
	}
	s.chips = nil
	return errors.Join(errs...)
}
